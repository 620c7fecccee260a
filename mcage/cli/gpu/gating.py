"""``mcage gpu gating``: which SMs work, and how long GPUs last."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcage.cli.gpu.options import GATING_OPTIONS
from mcage.cli.gpu.tables import Nominal, print_rows
from mcage.cli.run_options import RunOptions, run_study
from mcage.cli.shared_options import Json, ShowSpec
from mcage.cli.spec_arguments import SpecArguments, SpecOptions
from mcage.errors import UserError

if TYPE_CHECKING:
    from mcage.gpu.gating.spec import GatingSpec


def gating_spec() -> "type[GatingSpec]":
    """Return the class of the spec."""
    from mcage.gpu.gating.spec import GatingSpec

    return GatingSpec


def gating(
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "gpu gating",
            rows=GATING_OPTIONS,
            kind=gating_spec,
            example="workload.weights.LU=2",
        ),
    ],
    run: RunOptions,
    nominal: Nominal = None,
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Simulate GPUs whose SMs are gated: delay margin, lives and power under each policy.

    The same command again continues a study that was stopped. With --nominal, the cases of a CSV
    file without variation instead, launch by launch.
    """
    from mcage.gpu.gating.study import Gating, study_of_spec
    from mcage.plain_text import visible_lines

    spec: GatingSpec = arguments.spec()
    if nominal is not None:
        _print_nominal(nominal, spec, json)
        return
    if show_spec:
        typer.echo(visible_lines(Gating(spec).header.spec_toml), nl=False)
        return
    run_study(partial(study_of_spec, spec), run, json)


def _print_nominal(path: Path, spec: "GatingSpec", json: bool) -> None:
    """Print cases without variation; under the model of Chen et al. unless another is named."""
    from mcage.aging.nbti import nbti_model
    from mcage.gpu.gating.spec import GatingSpec
    from mcage.gpu.nominal.gating import gated_cases

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
