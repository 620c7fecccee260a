"""``mcage show``: the table of a results file."""

from pathlib import Path
from typing import Annotated

import typer


def show(
    file: Annotated[Path, typer.Argument(help="Results file of a sweep.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show for each case its median life, threshold shifts, spill rate and causes of death."""
    from json import dumps

    from rich.console import Console

    from mcage.report.tables import (
        WIDTH_WITHOUT_TERMINAL,
        as_json,
        print_summaries,
        summarize_file,
    )

    summaries = summarize_file(file)
    if json:
        typer.echo(dumps(as_json(summaries), indent=2, allow_nan=False))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_WITHOUT_TERMINAL)
    print_summaries(summaries, console)
