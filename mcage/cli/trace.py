"""``mcage trace``: recorded traces, recordings without a GPU, and imports from other tools."""

import json
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

import mcage
from mcage.cli.spec_options import KeyOptions
from mcage.plain_text import lines_of, visible
from mcage.report.tables import console, plain_table
from mcage.tracing.emulation.program import Program

if TYPE_CHECKING:
    from mcage.traces.model import Trace
    from mcage.traces.patterns import TraceSummary
    from mcage.tracing.emulation.record import Recorded
    from mcage.tracing.importing.run import Import
    from mcage.tracing.importing.sources import Source


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


def _table_of_facts(title: str, facts: Iterable[tuple[str, str]]) -> Table:
    table = plain_table(title=title, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in facts:
        table.add_row(key.replace("_", " "), value)
    return table


# ``mcage trace import``: traces that other tools have recorded, made native.

_SECONDS_BETWEEN_LINES = 2.0


def import_command(
    files: Annotated[
        list[Path],
        typer.Argument(help="Files of one run; .gz and .zst are read as well.", metavar="FILE..."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where the traces go.")
    ],
    windows: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only the first N windows.")
    ] = None,
    slices: Annotated[
        list[str] | None,
        typer.Option(
            "--slice", metavar="NAME", help="Only this slice, such as cu0.simd1. May be repeated."
        ),
    ] = None,
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Format: auto, csv, gem5, multi2sim, mgpusim, cutracer, nvbit, recorder or "
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
    as_json: AsJson = False,
) -> None:
    """Import traces that other tools have recorded: a trace for each slice of the GPU."""
    from mcage.tracing.importing.run import import_traces
    from mcage.tracing.importing.sources import ImportOptions

    options = ImportOptions(windows, frozenset(slices or ()), ticks_per_cycle, values)
    imported = import_traces(files, format_name, out, options, _Progress().tell)
    if as_json:
        typer.echo(json.dumps(imported.facts()))
    else:
        _print_import(imported, out)


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


def _print_import(imported: "Import", out: Path) -> None:
    facts = imported.facts()
    about = _table_of_facts(facts["format"], _lines(facts))
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


# ``mcage trace emulate``: a kernel's trace from its source, without a GPU.


def emulate_command(
    source: Annotated[
        Path,
        typer.Argument(
            help="OpenCL C (.cl), Triton (.py), or a code object of AMD's compilers.",
            metavar="KERNEL",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File of the trace.")],
    keys: Annotated[
        list[tuple[str, Any, str]],
        KeyOptions(kind=Program),
    ],
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            min=0.0,
            help="Largest error of an output, relative to its largest value; without it, TOLERANCE "
            "of the file.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Record a kernel without a GPU: compile it, run it on an emulated processor, check it."""
    options = {key: value for key, value, _ in keys} | {"tolerance": tolerance}
    recorded = mcage.emulate(source, out, progress="auto", **options)
    if as_json:
        typer.echo(json.dumps(_recorded_facts(recorded, out)))
    else:
        _print_recorded(recorded, out)


def _recorded_facts(recorded: "Recorded", out: Path) -> dict[str, Any]:
    trace = recorded.trace
    return {
        "file": str(out),
        "geometry": trace.geometry.name,
        "windows": trace.windows,
        "window_sizes": list(trace.window_sizes),
        "generations": trace.generations,
        "writes": trace.writes,
        "reads": trace.reads,
        "cycles": trace.cycles,
        "digest": trace.digest(),
        "errors": recorded.errors,
        "tolerance": recorded.tolerance,
        "source": trace.source,
    }


def _print_recorded(recorded: "Recorded", out: Path) -> None:
    trace = recorded.trace
    checked = ", ".join(
        f"{name} is right within {error:.2g} of its largest value "
        f"(at most {recorded.tolerance:.2g})"
        for name, error in recorded.errors.items()
    )
    facts = {
        "trace": str(out),
        "windows": f"{trace.windows:,} of {', '.join(map(str, trace.window_sizes))} registers, at "
        f"most {trace.concurrent_windows} at once, {trace.generations} generations",
        "accesses": f"{trace.writes:,} writes, {trace.reads:,} reads in {trace.cycles:,} cycles",
        "outputs": checked or "not checked: no function expected(**arguments)",
    }
    title = f"{trace.name}, {trace.geometry.name}"
    console().print(_table_of_facts(title, [*facts.items(), *lines_of(trace.source)]))


# ``mcage trace list|show|validate``: the bundled traces, and what a trace is like.


def list_traces(
    suite: Annotated[
        str, typer.Option(metavar="SUITE", help="sdk-2011, modern or all.")
    ] = "sdk-2011",
    geometry: Annotated[
        str, typer.Option(metavar="NAME", help="Slice on which they were recorded.")
    ] = "gcn",
    as_json: AsJson = False,
) -> None:
    """List the bundled traces of a suite and a slice."""
    entries = mcage.bundled_traces(suite, geometry)
    if as_json:
        typer.echo(json.dumps(entries))
        return
    table = plain_table(
        padding=0,
        caption="N: registers per window; gen.: windows of the least used slot\n"
        "Suite sdk-2011: the ten of the papers, on gcn; modern: today's, on gcn, cdna2,\n"
        "rdna3 and nvidia; all: both. See --suite and --geometry.",
    )
    table.add_column("name")
    table.add_column("in papers")
    for header in ("N", "at once", "windows", "gen.", "writes", "cycles"):
        table.add_column(header, justify="right")
    for entry in entries:
        numbers = ("concurrent_windows", "windows", "generations", "writes", "cycles")
        table.add_row(
            entry["name"],
            entry["short_name"],
            ", ".join(map(str, entry["window_sizes"])),
            *(f"{entry[number]:,}" for number in numbers),
        )
    console().print(table)


_COUNTED = (
    *("cycles", "writes", "reads", "windows", "generations", "window_sizes"),
    "concurrent_windows",
)
"""Numbers of a trace that ``--json`` has."""


def show_trace(
    trace: Annotated[str, typer.Argument(help="Name of a bundled trace, or a trace file.")],
    as_json: AsJson = False,
) -> None:
    """Show what a trace is like: windows, how full the slice is, patterns of its values."""
    from mcage.traces.library import open_trace
    from mcage.traces.patterns import summarize_trace

    opened = open_trace(trace)
    numbers = summarize_trace(opened)
    if as_json:
        facts: dict[str, Any] = {"name": opened.name, "digest": opened.digest()}
        facts["kernels"] = [asdict(kernel) for kernel in opened.kernels]
        facts |= {key: getattr(opened, key) for key in _COUNTED}
        typer.echo(json.dumps(facts | asdict(numbers) | {"source": opened.source}))
    else:
        _print_summary(opened, numbers)


def validate_traces(
    files: Annotated[list[Path], typer.Argument(help="Trace files.", metavar="FILE...")],
) -> None:
    """Check trace files against every rule of the format; stop at the first violation."""
    from mcage.traces.library import warn_of_padding
    from mcage.traces.storage import load_trace

    for file in files:
        warn_of_padding(load_trace(file))
        typer.echo(visible(f"{file}: ok"))


def _print_summary(trace: "Trace", numbers: "TraceSummary") -> None:
    kernels = ", ".join(f"{k.name} ({k.window_size} registers)" for k in trace.kernels)
    facts = {
        "kernels": kernels,
        "cycles": f"{trace.cycles:,}",
        "windows": f"{trace.windows:,}, at most {trace.concurrent_windows} at once",
        "generations": f"{trace.generations} in the least used slot",
        "entries in use": f"{numbers.peak_utilisation:.1%} at most, "
        f"{numbers.mean_utilisation:.1%} in the mean",
        "writes": f"{trace.writes:,}, {numbers.divergent_share:.1%} of them divergent",
        "reads": f"{trace.reads:,}",
        "digest": trace.digest(),
    }
    table = _table_of_facts(trace.name, [*facts.items(), *lines_of(trace.source)])
    shares = plain_table("share of the writes")
    shares.add_column("%", justify="right")
    for pattern, share in numbers.pattern_shares.items():
        shares.add_row(f"pattern: {pattern}", f"{100 * share:.1f}")
    shares.add_section()
    for limit, share in numbers.compressible_shares.items():
        shares.add_row(f"compressible pattern, delta limit {limit}", f"{100 * share:.1f}")
    for limit, share in numbers.mispredicted_shares.items():
        shares.add_row(f"mispredicted, delta limit {limit}", f"{100 * share:.1f}")
    shares.add_section()
    for size, share in numbers.wc_shares.items():
        shares.add_row(f"Warped-Compression: {size} bytes", f"{100 * share:.1f}")
    terminal = console()
    terminal.print(table, "", shares)
