"""``mcage avf``: for how long stored bits are needed, and which reads stuck cells make wrong."""

import json as json_module
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import mcage
from mcage.cli.commands import Json, Release
from mcage.errors import UserError
from mcage.report.tables import Column, ResultTable, column, console, csv_of, print_table

STUCK = "Stuck cells"
"""Panel of the help."""


@dataclass(frozen=True)
class AvfOptions:
    """Options beside traces and techniques."""

    fault_map: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """NumPy file, uint8 of shape (instances, 256): bit b set = block b is unusable. Default: no
    faults."""
    release: Release = "wavefront"
    delta_limit: Annotated[str, typer.Option(metavar="N")] = "64"
    """Largest delta of a compressible value, a power of two, or none."""
    by: Annotated[Literal["entry", "bit"] | None, typer.Option(metavar="PLACE")] = None
    """AVF of each entry, or of each bit of an entry: a line for each."""
    stuck_cells: Annotated[Path | None, typer.Option(metavar="FILE", rich_help_panel=STUCK)] = None
    """NumPy file of integers, shape (cells, 3): instance; cell, cells of an entry x entry + bit;
    the value at which it is stuck, or -1 if that is drawn."""
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, metavar="N", rich_help_panel=STUCK)] = 1
    """Seed of the values that are drawn."""


def avf(
    traces: Annotated[
        list[str], typer.Argument(help="Bundled kernels or trace files.", metavar="TRACE...")
    ],
    options: AvfOptions,
    techniques: Annotated[
        list[str] | None,
        typer.Option(
            "--technique",
            metavar="NAME",
            help="Protection technique; may be repeated. Default: baseline.",
        ),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json: Json = False,
) -> None:
    """Show how vulnerable a slice is: AVF by ACE time, under techniques, with stuck cells.

    A bit counts from the write of a value to its last read. A trace knows no masking by logic, no
    wrong address and no control flow: the AVF is an upper bound.
    """
    if csv and json:
        raise UserError("--csv and --json are two forms: give one of them")
    rows = mcage.avf(traces, techniques or "baseline", **vars(options))
    if json:
        typer.echo(json_module.dumps(rows, indent=2))
        return
    _print(rows, csv)


_HEADINGS = {
    "trace": "trace",
    "technique": "technique",
    "order": "in a cycle",
    "instance": "instance",
    "entry": "entry",
    "bit": "bit",
    "avf": "AVF\n%",
    "avf_of_allocated": "of allocated\n%",
    "avf_of_registers": "by register\n%",
    "allocated": "allocated\n%",
    "resident": "resident\n%",
    "writes": "writes",
    "dead_writes": "dead\n%",
    "in_file": "in the file\n%",
    "in_table": "in the table\n%",
    "in_lds": "in the LDS\n%",
    "in_memory": "in memory\n%",
    "stuck_cells": "stuck cells",
    "wrong_reads": "wrong reads\n%",
    "wrong_values": "wrong values\n%",
    "differing": "differing\n%",
}
"""Columns and their headings; of a heading with %, the number is a share."""

_PRIMARY = ("avf", "avf_of_allocated", "in_file", "wrong_reads")

_CAPTION = (
    "AVF: share of the bits of the register file that are needed, on the mean over time, an upper "
    "bound. By register: a write ends the values of all lanes. Dead: writes that nobody reads. In "
    "the file, table, LDS, memory: where values lie while they are needed."
)


def _print(rows: list[dict[str, Any]], csv: bool) -> None:
    table = ResultTable("Vulnerability of the register file", _CAPTION, tuple(_columns(rows)))
    if csv:
        typer.echo(csv_of(table), nl=False)
    else:
        print_table(table, console(), remedy="mcage avf --csv")


def _columns(rows: list[dict[str, Any]]) -> Iterator[Column]:
    for key, heading in _HEADINGS.items():
        if key in rows[0]:
            write = partial(_text, share=heading.endswith("%"))
            yield column(rows, key, heading, write, primary=key in _PRIMARY)


def _text(value: float | str, share: bool) -> str:
    if isinstance(value, str):
        return value
    return f"{100 * value:.2f}" if share else f"{value:,}"
