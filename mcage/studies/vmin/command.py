"""``mcage vmin``: the lowest Vdd at which slices work, when new and aged."""

from typing import Annotated

from mcage.cli.commands import Engine, Json, ShowSpec
from mcage.cli.run_options import RunOptions, run_study
from mcage.cli.spec_options import OF_TABLES, SpecArguments, SpecOptions
from mcage.studies.vmin.spec import VminSpec


def vmin(
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "vmin",
            kind=VminSpec,
            example="vmin.share=0.99",
            without=("aging.nbti_spread_mv", "aging.vmin_model", "faults.cell", *OF_TABLES),
        ),
    ],
    run: RunOptions,
    engine: Engine = "auto",
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Find the lowest Vdd at which slices run their kernels under each technique, new and aged.

    The same command again continues a study that was stopped.
    """
    run_study(arguments.spec(show_spec), run, json, show_spec, engine)
