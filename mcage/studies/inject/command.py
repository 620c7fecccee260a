"""``mcage inject``: from faulty cells to wrong answers of a program."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from mcage.cli.commands import Engine, Json, ShowSpec
from mcage.cli.run_options import RunOptions, run_study
from mcage.cli.spec_options import SpecArguments, SpecOptions
from mcage.studies.inject.spec import InjectSpec

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
            kind=InjectSpec,
            example="inject.tolerance=0.001",
        ),
    ],
    run: RunOptions,
    engine: Engine = "auto",
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to draw outputs of some silently wrong runs into: .png, .pdf or .svg.",
        ),
    ] = None,
    json: Json = False,
    show_spec: ShowSpec = False,
) -> None:
    """Inject faults into the registers of a running kernel: masked, silently wrong, or detected.

    The kernel runs on an emulated GPU, as with mcage trace emulate. The same command again
    continues injections that were stopped.
    """
    if kernel.endswith(SPECS) and arguments.file is None:
        arguments = replace(arguments, file=Path(kernel))
    else:
        value = "program.source", kernel, "KERNEL"
        arguments = replace(arguments, values=[value, *arguments.values])
    spec: InjectSpec = arguments.spec(show_spec)
    spec.check_program()
    run_study(spec, run, json, show_spec, engine, picture=picture)
