"""``mcage report``: figures, tables and a page of results files, in a folder."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Width(StrEnum):
    """Width of the figures in mm: a column, or a page, of a paper."""

    COLUMN = "85"
    PAGE = "180"


def report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Results files. Those of the same study stand side by side.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the page (index.html), figures as PDF and PNG, and their numbers as "
            "CSV. A report that is there already is replaced, and nothing else is.",
        ),
    ],
    width: Annotated[
        Width,
        typer.Option(
            metavar="MM",
            help="Width of the figures in mm: 85, a column of a paper, or 180, its page.",
        ),
    ] = Width.PAGE,
) -> None:
    """Write a page with summary, table and figures that needs no network, and all figures."""
    from rich.text import Text

    from mcage.plain_text import visible
    from mcage.report.console import PlainConsole
    from mcage.report.folder import PAGE, write_report

    # On a terminal alone: a line that says which figure is drawn.
    with PlainConsole(stderr=True).status("reading") as status:
        write_report(files, out, float(width), lambda title: status.update(Text(visible(title))))
    typer.echo(visible(f"{out / PAGE} is the page; figures, numbers and specs lie beside it"))
