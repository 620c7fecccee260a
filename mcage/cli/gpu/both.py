"""``mcage gpu both``: gated SMs whose register files run a protection technique."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcage.cli.gpu.both_options import BOTH_OPTIONS
from mcage.cli.gpu.tables import Nominal, print_rows
from mcage.cli.run_options import RunOptions, run_study
from mcage.cli.shared_options import Engine, Json, ShowSpec
from mcage.cli.spec_arguments import SpecArguments, SpecOptions
from mcage.errors import UserError

if TYPE_CHECKING:
    from mcage.gpu.both.spec import BothSpec


def both_spec() -> "type[BothSpec]":
    """Return the class of the spec."""
    from mcage.gpu.both.spec import BothSpec

    return BothSpec


def both(
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "gpu both",
            rows=BOTH_OPTIONS,
            kind=both_spec,
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
    from mcage.gpu.both.study import study_of_spec
    from mcage.plain_text import visible_lines

    spec: BothSpec = arguments.spec()
    if nominal is not None:
        _print_nominal(nominal, spec, json)
        return
    if show_spec:
        typer.echo(visible_lines(study_of_spec(spec, engine).header.spec_toml), nl=False)
        return
    run_study(partial(study_of_spec, spec, engine), run, json, uses_devices=True)


def _print_nominal(path: Path, spec: "BothSpec", json: bool) -> None:
    """Print cases without variation."""
    from mcage.aging.nbti import nbti_model
    from mcage.gpu.both.spec import BothSpec
    from mcage.gpu.nominal.both import combined_cases

    aging = spec.gating.aging
    levels = {"gating": BothSpec().gating.model_copy(update={"aging": aging})}
    if spec != BothSpec().model_copy(update=levels):
        raise UserError(
            "--nominal: the cases of the file say all but the aging; of the options, only --nbti "
            "and --set gating.aging... go with it"
        )
    rows = combined_cases(path, nbti_model(aging.model, aging.constants), aging.vdd_volts)
    print_rows(rows, json, f"NBTI model {aging.model}")
