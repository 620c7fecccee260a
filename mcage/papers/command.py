"""``mcage reproduce``: the papers' figures beside mcage's own."""

from typing import Annotated

import typer

import mcage
from mcage.cli.commands import Engine, Release
from mcage.report.tables import console


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
) -> None:
    """Compute what four papers print, and say where mcage disagrees and why.

    Papers on register files are computed from recorded traces; --release and --engine concern them
    alone.
    """
    from mcage.papers.table import print_rows, to_json

    rows = mcage.reproduce(paper, release, engine)
    if json:
        typer.echo(to_json(rows))
    else:
        print_rows(rows, console())
