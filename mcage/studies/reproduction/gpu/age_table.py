"""The table of mitigations by age and NBTI model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from mcage.report.tables.table import table_of_texts
from mcage.report.tables.terminal import print_table
from mcage.studies.reproduction.gpu.by_age import LONG_TERM, SHOWN

NOTE = (
    f"{LONG_TERM}: duty n/16 in periods of 16/(16 - n) launches; its shifts are too large, by "
    "0.4 % after 100 launches and by 28 % after 100,000. The other models know the duty only; "
    "those of finfet and planar transistors are meant for years."
)
"""What a reader of the table must know."""

AGE_HEADINGS = ("model", "age", "mean of 14 kernels", *(f"{count} SMs" for count in SHOWN))


def age_cells(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Lines of the table, in per cent; ages at which the numbers are the same share a line."""
    lines: list[list[str]] = []
    for row in rows:
        numbers = [f"{row[key]:.1f}" for key in ("mean", *AGE_HEADINGS[3:])]
        if lines and (lines[-1][0], lines[-1][2:]) == (row["model"], numbers):
            lines[-1][1] = f"{lines[-1][1].partition(' to ')[0]} to {row['age']}"
        else:
            lines.append([row["model"], row["age"], *numbers])
    return lines


def print_ages(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print the table and what must be known of it."""
    title = "Mitigation of the largest shift by gating, %, by age and NBTI model (Chen et al.)"
    first = AGE_HEADINGS[:3]
    table = table_of_texts(title, AGE_HEADINGS, age_cells(rows), AGE_HEADINGS[2:], first)
    print_table(replace(table, caption=NOTE), console, remedy="--json")
