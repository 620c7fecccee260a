"""``mcage gpu gating``: GPUs whose SMs are gated."""

from pathlib import Path
from typing import Annotated

import typer

from mcage.aging.nbti import nbti_model
from mcage.cli.commands import Json, ShowSpec
from mcage.cli.gpu import print_rows
from mcage.cli.run_options import RunOptions, run_study
from mcage.cli.spec_options import SpecArguments, SpecOptions
from mcage.errors import UserError
from mcage.studies.gpu_gating.spec import GatingSpec


def gating(
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "gpu gating",
            kind=GatingSpec,
            example="workload.weights.LU=2",
        ),
    ],
    run: RunOptions,
    nominal: Annotated[
        Path | None,
        typer.Option(
            metavar="CASES.csv",
            help="Print the cases of a CSV file, launch by launch, instead of running a study.",
        ),
    ] = None,
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Simulate GPUs whose SMs are gated: delay margin, lives and power under each policy.

    The same command again continues a study that was stopped. With --nominal, the cases of a CSV
    file instead, launch by launch, on equal SMs.
    """
    spec: GatingSpec = arguments.spec(show_spec)
    if nominal is not None and not show_spec:
        _print_nominal(nominal, spec, json)
        return
    run_study(spec, run, json, show_spec)


def _print_nominal(path: Path, spec: GatingSpec, json: bool) -> None:
    """Print cases without variation; under the model of Chen et al. unless another is named."""
    from mcage.single_runs.nominal_gpu import gated_cases

    plain = GatingSpec(aging=spec.aging)
    if spec != plain:
        raise UserError(
            "--nominal: the cases of the file say all but the aging of an SM; of the options, only "
            "--nbti and --set aging... go with it"
        )
    given = "model" in spec.aging.model_fields_set
    name = spec.aging.model if given else "bhardwaj-unscaled"
    rows = gated_cases(path, nbti_model(name, spec.aging.constants), spec.aging.vdd_volts)
    print_rows(rows, json, f"NBTI model {name}")
