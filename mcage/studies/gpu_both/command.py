"""``mcage gpu both``: GPUs that gate SMs and protect register files."""

from typing import Annotated

from mcage.cli.commands import Engine, Json, ShowSpec
from mcage.cli.run_options import RunOptions, run_study
from mcage.cli.spec_options import SpecArguments, SpecOptions
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
    engine: Engine = "auto",
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Simulate GPUs that gate SMs and protect register files: each level alone, both, none.

    The same command again continues a study that was stopped.
    """
    spec: BothSpec = arguments.spec(show_spec)
    run_study(spec, run, json, show_spec, engine)
