"""Options on the lines, the columns and the form of tables of results, and their printing."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcage.errors import UserError

if TYPE_CHECKING:
    from mcage.report.tables.table import ResultTable

FORM = "Lines, columns and form"


@dataclass(frozen=True)
class FormOptions:
    """Which lines and columns a table has, and its form."""

    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Show only what fulfils this, such as technique=rrcd,baseline or 'vdd>0.42': by "
            "technique, environment, scenario, vdd; of GPUs by policy, technique, reading, "
            "design. May be given several times; all must hold.",
            rich_help_panel=FORM,
        ),
    ] = None
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Order lines by a column, named as --csv heads it (or by the beginning of that "
            "name); -COLUMN: the largest first.",
            rich_help_panel=FORM,
        ),
    ] = None
    wide: Annotated[
        bool,
        typer.Option(
            "--wide",
            help="Print all columns, also those for which the terminal has no room.",
            rich_help_panel=FORM,
        ),
    ] = False
    csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV instead of a table.", rich_help_panel=FORM)
    ] = False
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of a table.", rich_help_panel=FORM)
    ] = False


def check_form(form: FormOptions) -> None:
    """Refuse options that contradict each other.

    Raises
    ------
    UserError
        They do.
    """
    if form.csv and form.json:
        raise UserError("--csv and --json are two forms: give one of them")
    if form.json and form.sort is not None:
        raise UserError("--sort orders the lines of a table or of CSV: leave out --json")


def print_in_form(table: "ResultTable", form: FormOptions) -> None:
    """Print a table for people or as CSV, as the options say.

    Raises
    ------
    UserError
        There is no column to sort by.
    """
    from mcage.report.console import console
    from mcage.report.tables.table import csv_of, sorted_by
    from mcage.report.tables.terminal import print_table

    if form.sort is not None:
        table = sorted_by(table, form.sort)
    if not form.csv:
        print_table(table, console(), wide=form.wide, remedy="--wide")
        return
    typer.echo(csv_of(table), nl=False)
    for below in table.below:
        typer.echo(f"not in this CSV, but in --json and in mcage report: {below.title}", err=True)


def print_json(content: Any) -> None:
    """Print plain values as JSON."""
    from json import dumps

    typer.echo(dumps(content, indent=2, allow_nan=False))


def print_notes(files: Sequence[Path], *, to_stderr: bool) -> None:
    """Print what must be known of the files; of several, with their names."""
    from mcage.plain_text import visible
    from mcage.report.notes import notes_on
    from mcage.results.reader import read_header

    for file in files:
        name = f"{file}: " if len(files) > 1 else ""
        for note in notes_on(file, read_header(file)):
            typer.echo(visible(name + note), err=to_stderr)
