"""``mcage report``: figures, tables and a page of results files, in a folder."""

from pathlib import Path
from typing import Annotated

import typer


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
) -> None:
    """Write a page with summary, table and figures that needs no network, and all figures."""
    from mcage.plain_text import visible
    from mcage.report.folder import PAGE, write_report

    write_report(files, out)
    typer.echo(visible(f"{out / PAGE} is the page; figures, numbers and specs lie beside it"))
