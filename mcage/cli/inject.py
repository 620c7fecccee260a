"""``mcage inject``: from faulty cells to wrong answers of a program."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from mcage.cli.run_options import Engine, Json, RunOptions, ShowSpec, show_or_run
from mcage.cli.spec_options import SpecArguments, SpecOptions

SPECS = (".toml", ".h5", ".shards")
"""Ends of names of files that record a spec, the kernel included."""


def inject(
    kernel: Annotated[
        str,
        typer.Argument(
            help="OpenCL C (.cl), Triton (.py), or a code object of AMD's compilers; or a file "
            "that records a spec.",
            metavar="KERNEL",
        ),
    ],
    arguments: Annotated[
        SpecArguments,
        SpecOptions(
            "inject",
            kind="mcage.studies.injection.spec:InjectSpec",
            example="inject.tolerance=0.001",
        ),
    ],
    run: RunOptions,
    engine: Engine = "auto",
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Inject faults into the registers of a running kernel: masked, silently wrong, or detected.

    The kernel runs on an emulated GPU, as with mcage trace emulate. The same command again
    continues injections that were stopped.
    """
    from mcage.studies.injection.study import study_of_spec

    if kernel.endswith(SPECS) and arguments.file is None:
        arguments = replace(arguments, file=Path(kernel))
    else:
        value = "program.source", kernel, "KERNEL"
        arguments = replace(arguments, values=[value, *arguments.values])
    make = partial(study_of_spec, arguments.spec(), engine)
    show_or_run(make, run, json, show_spec, uses_devices=True)
