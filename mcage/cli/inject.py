"""``mcage inject``: from faulty cells to wrong answers of a program."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcage.cli.run_options import Engine, Json, RunOptions, ShowSpec, show_or_run
from mcage.cli.spec_options import SpecArguments, SpecOptions
from mcage.errors import UserError
from mcage.plain_text import shown_path, visible

if TYPE_CHECKING:
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
            kind="mcage.studies.inject.spec:InjectSpec",
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
    from mcage.campaign.progress import say_on_stderr
    from mcage.studies.inject.study import study_of_spec

    if kernel.endswith(SPECS) and arguments.file is None:
        arguments = replace(arguments, file=Path(kernel))
    else:
        value = "program.source", kernel, "KERNEL"
        arguments = replace(arguments, values=[value, *arguments.values])
    if picture is not None:
        from mcage.files.atomic import place_of
        from mcage.report.figures.canvas import check_figure_path

        check_figure_path(picture)
        if run.out is not None and place_of(run.out) == place_of(picture):
            raise UserError(f"--picture {shown_path(picture)}: is the results file, as of --out")
        if run.part is not None:
            raise UserError("--picture: a part of the injections has no results file; leave it out")
    spec = arguments.spec(show_spec)
    spec.check_program()
    make = partial(study_of_spec, spec, engine, partial(say_on_stderr, run.progress))
    show_or_run(spec, make, run, json, show_spec, uses_devices=True)
    if picture is not None and run.out is not None and not show_spec:
        _draw(spec, engine, run.out, picture)


def _draw(spec: "InjectSpec", engine: str, out: Path, picture: Path) -> None:
    from mcage.engines.select import select_engine
    from mcage.results.reader import open_results
    from mcage.studies.inject.pictures import draw, pictures_of
    from mcage.studies.inject.study import InjectStudy

    study = InjectStudy(spec, *select_engine(engine))
    with open_results(out) as results:
        draw(pictures_of(study, results), picture)
    typer.echo(visible(str(picture)))
