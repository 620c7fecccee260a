"""``mcage reproduce``: the papers' figures beside mcage's own."""

import os
from pathlib import Path
from typing import Annotated

import typer

from mcage.cli.shared_options import RELEASE, Engine, Release


def reproduce(
    paper: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="Paper: 000 (Valero et al.) or 002 (RRCD), on register files; 003 (Chen et al.) "
            "or 004 (Zhang et al.), on whole GPUs. Default: all four.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    release: Release = RELEASE,
    engine: Engine = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the table as JSON, and for every figure as CSV and PNG.",
        ),
    ] = None,
) -> None:
    """Compute what four papers print, and say where mcage disagrees and why.

    Papers on register files are computed from recorded traces; --release and --engine concern them
    alone.
    """
    from mcage.engines.select import select_engine
    from mcage.errors import UserError
    from mcage.report.console import console
    from mcage.studies.reproduction.figures import check_figures, write_figures
    from mcage.studies.reproduction.gpu.age_table import print_ages
    from mcage.studies.reproduction.gpu.drawings import check_plots, write_plots
    from mcage.studies.reproduction.gpu.plots import ages
    from mcage.studies.reproduction.kernel_replays import KernelReplays
    from mcage.studies.reproduction.published import GPU_PAPERS, PAPERS
    from mcage.studies.reproduction.table import (
        check_table,
        print_rows,
        reproduce_gpus,
        to_json,
        write_table,
    )
    from mcage.studies.reproduction.table import reproduce as rows_of

    if paper is not None and paper not in PAPERS | GPU_PAPERS:
        papers = ", ".join(sorted(PAPERS | GPU_PAPERS))
        raise UserError(f"paper {paper!r} is unknown; choose from {papers}")
    if out is not None and not os.path.isdir(out):
        raise UserError(f"--out {out}: no such folder")
    if out is not None:
        check_table(out)
        check_figures(out, paper)
        check_plots(out, paper)
    chosen = select_engine(engine)[0]
    study = KernelReplays(chosen, release=release)
    rows = [] if paper in GPU_PAPERS else rows_of(study, paper)
    rows += [] if paper in PAPERS else reproduce_gpus(paper)
    if out is not None:
        write_table(rows, out)
        write_figures(lambda plot: plot.table(study), out, paper)
        write_plots(out, paper)
    if json:
        typer.echo(to_json(rows))
        return
    print_rows(rows, console())
    if paper in (None, "003"):
        print_ages(ages(), console())
