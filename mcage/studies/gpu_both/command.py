"""``mcage gpu both``: GPUs that gate SMs and protect register files."""

from pathlib import Path
from typing import Annotated

from mcage.aging.nbti import nbti_model
from mcage.cli.commands import Engine, Json, ShowSpec
from mcage.cli.gpu import Nominal, print_rows
from mcage.cli.run_options import RunOptions, run_study
from mcage.cli.spec_options import SpecArguments, SpecOptions
from mcage.errors import UserError
from mcage.studies.gpu_both.spec import BothSpec


def both(
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "gpu both",
            kind=BothSpec,
            example="sweep.faults.mu_volts=0.14",
        ),
    ],
    run: RunOptions,
    nominal: Nominal = None,
    engine: Engine = "auto",
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Simulate GPUs that gate SMs and protect register files: each level alone, both, none.

    The same command again continues a study that was stopped. With --nominal, the cases of a CSV
    file without variation instead, from shares of the time and duties.
    """
    spec: BothSpec = arguments.spec(show_spec)
    if nominal is not None and not show_spec:
        _print_nominal_levels(nominal, spec, json)
        return
    run_study(spec, run, json, show_spec, engine)


def _print_nominal_levels(path: Path, spec: BothSpec, json: bool) -> None:
    """Print cases without variation."""
    from mcage.single_runs.nominal_gpu import combined_cases

    aging = spec.gating.aging
    levels = {"gating": BothSpec().gating.model_copy(update={"aging": aging})}
    if spec != BothSpec().model_copy(update=levels):
        raise UserError(
            "--nominal: the cases of the file say all but the aging; of the options, only --nbti "
            "and --set gating.aging... go with it"
        )
    rows = combined_cases(path, nbti_model(aging.model, aging.constants), aging.vdd_volts)
    print_rows(rows, json, f"NBTI model {aging.model}")
