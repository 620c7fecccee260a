"""``mcage trace emulate``: a kernel's trace from its source, without a GPU."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import mcage
from mcage.cli.spec_options import KeyOptions
from mcage.plain_text import lines_of
from mcage.tracing.emulation.program import Program

if TYPE_CHECKING:
    from mcage.tracing.emulation.record import Recorded


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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Record a kernel without a GPU: compile it, run it on an emulated processor, check it."""
    given = {key: value for key, value, _ in keys} | {"tolerance": tolerance}
    recorded = mcage.emulate(source, out, progress="auto", **given)
    if as_json:
        typer.echo(json.dumps(_facts(recorded, out)))
    else:
        _print(recorded, out)


def _facts(recorded: "Recorded", out: Path) -> dict[str, Any]:
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


def _print(recorded: "Recorded", out: Path) -> None:
    from mcage.report.tables import console, plain_table

    trace = recorded.trace
    table = plain_table(title=f"{trace.name}, {trace.geometry.name}", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
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
    for key, value in [*facts.items(), *lines_of(trace.source)]:
        table.add_row(key.replace("_", " "), value)
    console().print(table)
