"""``mcage report``: figures, tables and a page of results files, in a folder."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mcage.cli.run_options import Labels


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
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Show only cases of sweeps that fulfil this, such as technique=rrcd,baseline or "
            "'vdd>0.42', as mcage show does. May be given several times; all must hold.",
        ),
    ] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Draw this figure only, such as survival. May be given several times.",
        ),
    ] = None,
    label: Labels = None,
    no_title: Annotated[
        bool,
        typer.Option("--no-title", help="Draw figures without titles, as papers caption them."),
    ] = False,
) -> None:
    """Write a page with summary, table and figures that needs no network, and all figures."""
    from rich.text import Text

    from mcage.plain_text import visible
    from mcage.report.cases import Condition, parsed_labels
    from mcage.report.folder import PAGE, ReportOptions, write_report
    from mcage.report.tables.table import PlainConsole

    options = ReportOptions(
        width_mm=float(width),
        where=tuple(map(Condition.parse, where or ())),
        figures=tuple(figure or ()),
        title=not no_title,
        labels=parsed_labels(label or ()),
    )

    # On a terminal alone: a line that says which figure is drawn.
    with PlainConsole(stderr=True).status("reading") as status:
        write_report(files, out, options, lambda title: status.update(Text(visible(title))))
    typer.echo(visible(f"{out / PAGE} is the page; figures, numbers and specs lie beside it"))
