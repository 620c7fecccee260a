"""Rows of numbers: a table for people, a list for scripts."""

import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

Nominal = Annotated[
    Path | None,
    typer.Option(
        metavar="CASES.csv",
        help="Print the cases of a CSV file, without variation, instead of running a study.",
    ),
]


def print_rows(rows: Sequence[dict[str, Any]], json: bool, title: str = "") -> None:
    """Print rows that have the same keys; None where there is no value."""
    if json:
        typer.echo(json_module.dumps(list(rows), indent=2, allow_nan=False))
        return
    from mcage.report.console import console
    from mcage.report.tables.table import table_of_texts
    from mcage.report.tables.terminal import print_table
    from mcage.stats.wording import DASH

    words = [name for name, value in rows[0].items() if isinstance(value, str)]
    numbers = [name for name in rows[0] if name not in words]
    lines = [[DASH if value is None else _text(value) for value in row.values()] for row in rows]
    table = table_of_texts(title, list(rows[0]), lines, numbers, [*words, *numbers[:1]])
    print_table(table, console(), remedy="--json")


def _text(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)
