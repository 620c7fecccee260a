"""``mcage techniques``: the techniques that ship with mcage, with their sources."""

import json as json_module
from typing import Annotated

import typer


def techniques(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the protection techniques, their policies and their sources."""
    from mcage.techniques import TECHNIQUES

    rows = [
        {
            "technique": one.name,
            "placement": one.placement.value,
            "storage": one.storage.value,
            "gating": one.gating.value,
            "rotating_selectors": one.rotating_selectors,
            "summary": one.summary,
            "source": one.source,
        }
        for one in TECHNIQUES.values()
    ]
    if json:
        print(json_module.dumps(rows, indent=2))
        return
    from rich.table import Table

    from mcage.report.console import console

    table = Table(title="Protection techniques")
    for column in ("technique", "placement", "storage", "gating", "source"):
        table.add_column(column, no_wrap=column == "technique")
    for row in rows:
        placement = str(row["placement"]) + (", rotating" if row["rotating_selectors"] else "")
        table.add_row(
            str(row["technique"]),
            placement,
            str(row["storage"]),
            str(row["gating"]),
            str(row["source"]),
        )
    console().print(table)
    print("Your own: give it as module:NAME wherever a technique is asked for.")
