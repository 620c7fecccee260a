"""``mcage trace``: the traces that there are, and what they are like."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcage.cli.grouped_command import GroupedCommand
from mcage.cli.records import with_options
from mcage.cli.trace_import import import_command
from mcage.cli.trace_profiles import characterize_command, lines_of, synthesize_command

if TYPE_CHECKING:
    from mcage.traces.summary import TraceSummary

app = typer.Typer(help="Recorded register traces.", no_args_is_help=True)
app.command("import", cls=GroupedCommand)(with_options(import_command))
app.command("characterize", cls=GroupedCommand)(characterize_command)
app.command("synthesize", cls=GroupedCommand)(synthesize_command)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


@app.command("list", cls=GroupedCommand)
def list_traces(as_json: AsJson = False) -> None:
    """List the bundled traces."""
    from mcage.report.console import console, plain_table
    from mcage.traces.library import KERNELS, PROFILES, SHORT_NAMES, bundled_trace

    entries: list[dict[str, Any]] = []
    for name in KERNELS:
        trace = bundled_trace(name)
        entries.append(
            {
                "name": name,
                "short_name": SHORT_NAMES[name],
                "window_sizes": list(trace.window_sizes),
                "concurrent_windows": trace.concurrent_windows,
                "windows": trace.windows,
                "generations": trace.generations,
                "writes": trace.writes,
                "reads": trace.reads,
                "cycles": trace.cycles,
            }
        )
    if as_json:
        typer.echo(json.dumps(entries))
        return
    table = plain_table(
        padding=0,
        caption="N: registers per window; gen.: windows of the least used slot\n"
        f"With 32 lanes, drawn from profiles and not recorded: {PROFILES[0]} and so on",
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


@app.command("show", cls=GroupedCommand)
def show_trace(
    trace: Annotated[str, typer.Argument(help="Name of a bundled trace, or a trace file.")],
    as_json: AsJson = False,
) -> None:
    """Show what a trace is like: windows, how full the slice is, patterns of its values."""
    from dataclasses import asdict

    from mcage.traces.library import open_trace
    from mcage.traces.summary import summarize_trace

    opened = open_trace(trace)
    numbers = summarize_trace(opened)
    if as_json:
        typer.echo(json.dumps(asdict(numbers) | {"source": opened.source}))
    else:
        _print_summary(numbers, opened.source)


@app.command("validate", cls=GroupedCommand)
def validate_traces(
    files: Annotated[list[Path], typer.Argument(help="Trace files.", metavar="FILE...")],
) -> None:
    """Check trace files against every rule of the format; stop at the first violation."""
    from mcage.plain_text import visible
    from mcage.traces.library import warn_of_padding
    from mcage.traces.storage import load_trace

    for file in files:
        warn_of_padding(load_trace(file))
        typer.echo(visible(f"{file}: ok"))


def _print_summary(numbers: "TraceSummary", source: dict[str, Any]) -> None:
    from mcage.report.console import console, plain_table

    kernels = ", ".join(f"{k.name} ({k.window_size} registers)" for k in numbers.kernels)
    facts = {
        "kernels": kernels,
        "cycles": f"{numbers.cycles:,}",
        "windows": f"{numbers.windows:,}, at most {numbers.concurrent_windows} at once",
        "generations": f"{numbers.generations} in the least used slot",
        "entries in use": f"{numbers.peak_utilisation:.1%} at most, "
        f"{numbers.mean_utilisation:.1%} in the mean",
        "writes": f"{numbers.writes:,}, {numbers.divergent_share:.1%} of them divergent",
        "reads": f"{numbers.reads:,}",
        "digest": numbers.digest,
    }
    table = plain_table(title=numbers.name, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in [*facts.items(), *lines_of(source)]:
        table.add_row(key.replace("_", " "), value)

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
