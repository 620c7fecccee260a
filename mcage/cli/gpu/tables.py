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
    from rich import box
    from rich.table import Table

    from mcage.report.console import console
    from mcage.stats.wording import DASH

    table = Table(title=title or None, box=box.SIMPLE_HEAD)
    for name, value in rows[0].items():
        table.add_column(name, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(DASH if value is None else _text(value) for value in row.values()))
    console().print(table)


def _text(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)
