"""``mcage trace import``: traces that other tools have recorded, made native."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcage.errors import UserError
from mcage.plain_text import shortened

if TYPE_CHECKING:
    from mcage.traces.importing.limits import Limits
    from mcage.traces.importing.run import Import
    from mcage.traces.importing.sources import Source

_SECONDS_BETWEEN_LINES = 2.0


@dataclass(frozen=True)
class Wanted:
    """Which part of the files is imported."""

    windows: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Only the first N windows."),
    ] = None
    cycles: Annotated[
        str | None,
        typer.Option(
            metavar="FROM:TO",
            help="Only windows that open in these cycles; what is open at the end is released.",
        ),
    ] = None
    slices: Annotated[
        list[str] | None,
        typer.Option(
            "--slice", metavar="NAME", help="Only this slice, such as cu0.simd1. May be repeated."
        ),
    ] = None

    def limits(self) -> "Limits":
        """Return which windows are wanted."""
        from mcage.traces.importing.limits import Limits

        earliest, latest = _range(self.cycles)
        return Limits(self.windows, earliest, latest, frozenset(self.slices or ()))


def import_command(
    files: Annotated[
        list[Path],
        typer.Argument(help="Files of one run; .gz and .zst are read as well.", metavar="FILE..."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where the traces go.")
    ],
    wanted: Wanted,
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Format: auto, csv, npz, gem5, multi2sim, mgpusim, cutracer, nvbit, recorder or "
            "accelsim.",
        ),
    ] = "auto",
    ticks_per_cycle: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Time units of the file in a cycle (gem5)."),
    ] = None,
    values: Annotated[
        str | None,
        typer.Option(
            metavar="before|after",
            help="When CUTracer has recorded contents: before the instruction (taken unless the "
            "file contradicts it) or after.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Import traces that other tools have recorded: a trace for each slice of the GPU."""
    from mcage.traces.importing.limits import Options
    from mcage.traces.importing.run import import_traces

    options = Options(wanted.limits(), ticks_per_cycle, values)
    imported = import_traces(files, format_name, out, options, _Progress().tell)
    if as_json:
        typer.echo(json.dumps(imported.facts()))
    else:
        _print(imported, out)


def _range(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    first, colon, last = text.partition(":")
    numbers = all(not end or (end.isdecimal() and len(end) < 16) for end in (first, last))
    if not colon or not numbers:
        raise UserError(f"--cycles {shortened(text)}: must be FROM:TO, such as 0:5000")
    earliest, latest = (int(end) if end else None for end in (first, last))
    return earliest, latest


class _Progress:
    """Lines on standard error while long files are read."""

    def __init__(self) -> None:
        self._begin = self._last = time.monotonic()

    def tell(self, source: "Source", done: int) -> None:
        """Say how much of a file has been read, every two seconds."""
        now = time.monotonic()
        if now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            share = done / max(source.bytes_on_disk, 1)
            seconds = now - self._begin
            message = f"{source.path.name}: {share:.0%} of {source.bytes_on_disk:,} bytes read"
            print(f"{message}, {seconds:.0f} s", file=sys.stderr)


def _print(imported: "Import", out: Path) -> None:
    from mcage.report.console import console, plain_table

    facts = imported.facts()
    about = plain_table(title=facts["format"], show_header=False)
    about.add_column(style="bold", no_wrap=True)
    about.add_column(overflow="fold")
    for key, value in _lines(facts):
        about.add_row(key, value)
    traces = plain_table(title=f"traces in {out}")
    traces.add_column("file")
    for header in ("windows", "writes", "reads", "cycles"):
        traces.add_column(header, justify="right")
    for made in facts["traces"]:
        numbers = (f"{made[key]:,}" for key in ("windows", "writes", "reads", "cycles"))
        traces.add_row(made["file"], *numbers)
    terminal = console()
    terminal.print(about, "", traces)


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    gaps = facts["gaps"]
    lines = [("approximate", f"{what}: {why}") for what, why in facts["approximate"].items()]
    lines += [("in the file", f"{what}: {how}") for what, how in facts["in_file"].items()]
    lines += [("inferred", f"{what}: {how}") for what, how in facts["inferred"].items()]
    lines += [("recorded by", f"{tool} {version}") for tool, version in facts["tools"].items()]
    for reason, left_out in facts["skipped"].items():
        first = f"; the first: {left_out['first']}" if left_out["first"] else ""
        lines.append(("left out", f"{left_out['records']:,} x {reason}{first}"))
    lines.append(
        (
            "gaps",
            f"{gaps['share']:.2%} of {gaps['reads']:,} reads: {gaps['before_any_write']:,} before "
            f"any write, {gaps['other_contents']:,} with other contents than the last write",
        )
    )
    return lines
