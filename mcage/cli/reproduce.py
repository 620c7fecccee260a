"""``mcage reproduce``: the papers' figures beside mcage's own."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from mcage.cli.run_options import Engine, Release


def reproduce(
    paper: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Paper: valero-2019 (000) or toca-diaz-rrcd (002), on register files; chen-2014 "
            "(003) or zhang-2015 (004), on whole GPUs. Default: all four.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    release: Release = "wavefront",
    engine: Engine = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the table as JSON, and for every figure as CSV and PNG, whose names "
            "begin with the number of the paper; it is made if it is not there.",
        ),
    ] = None,
) -> None:
    """Compute what four papers print, and say where mcage disagrees and why.

    Papers on register files are computed from recorded traces; --release and --engine concern them
    alone.
    """
    from mcage.engines.select import select_engine
    from mcage.errors import UserError
    from mcage.files.atomic import ready_folder
    from mcage.report.tables import console
    from mcage.studies.reproduction import whole_gpus
    from mcage.studies.reproduction.drawings import (
        ages,
        check_figures,
        check_plots,
        write_figures,
        write_plots,
    )
    from mcage.studies.reproduction.kernel_replays import GPU_PAPERS, NUMBERS, PAPERS, KernelReplays
    from mcage.studies.reproduction.table import (
        check_table,
        print_rows,
        reproduce_gpus,
        to_json,
        write_table,
    )
    from mcage.studies.reproduction.table import reproduce as rows_of
    from mcage.studies.reproduction.whole_gpus import print_ages

    number = None if paper is None else NUMBERS.get(paper, paper)
    if number is not None and number not in PAPERS | GPU_PAPERS:
        raise UserError(f"paper {paper!r} is unknown; choose from {', '.join(NUMBERS)}")
    with nullcontext() if out is None else ready_folder(out):
        if out is not None:
            check_table(out)
            check_figures(out, number)
            check_plots(out, number)
        chosen = select_engine(engine)[0]
        study = KernelReplays(chosen, release=release)
        rows = [] if number in GPU_PAPERS else rows_of(study, number)
        rows += [] if number in PAPERS else reproduce_gpus(number)
        if out is not None:
            write_table(rows, out)
            write_figures(lambda plot: plot.table(study), out, number)
            write_plots(out, number)
    if json:
        typer.echo(to_json(rows))
        return
    print_rows(rows, console())
    if number in (None, whole_gpus.PAPER):
        print_ages(ages(), console())
