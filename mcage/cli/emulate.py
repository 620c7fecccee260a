"""``mcage trace emulate``: a kernel's trace from its source, without a GPU."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcage.plain_text import lines_of

if TYPE_CHECKING:
    from mcage.tracing.emulation.record import Recorded, Request

MOST_INSTRUCTIONS = 20_000_000


@dataclass(frozen=True)
class Asked:
    """What runs, and on what."""

    arch: Annotated[str, typer.Option(metavar="PROCESSOR")]
    """Processor: gfx90a (MI200), gfx942 (MI300), gfx1030 (RX 6000), gfx1100 (RX 7000) or gfx900
    (Vega)."""
    grid: Annotated[str | None, typer.Option(metavar="X[,Y[,Z]]")] = None
    """Work-groups in each direction; without it, GRID of the Python file."""
    block: Annotated[str | None, typer.Option(metavar="X[,Y[,Z]]")] = None
    """Work-items of a work-group in each direction; without it, BLOCK of the Python file."""
    args: Annotated[str | None, typer.Option(metavar="NAME=VALUE...|FILE.py")] = None
    """Arguments: numbers, arrays such as x=f32[4096]~normal, @FILE.npy; or a Python file with a
    function arguments(random)."""
    check: Annotated[Path | None, typer.Option(metavar="FILE.py")] = None
    """Python file with a function expected(**arguments), with which outputs are compared."""
    tolerance: Annotated[float | None, typer.Option(metavar="X", min=0.0)] = None
    """Largest error of an output, relative to its largest value; without it, TOLERANCE of the
    file."""
    entry: Annotated[str | None, typer.Option("--entry", "--kernel", metavar="NAME")] = None
    """Which kernel of the source; needed if there are several."""
    flags: Annotated[str, typer.Option(metavar="OPTIONS")] = ""
    """Further options of clang, such as "-DTILE=32"."""
    inputs: Annotated[
        int, typer.Option("--inputs", "--seed", metavar="N", min=0, max=2**63 - 1)
    ] = 0
    """Seed of the inputs."""
    compute_units: Annotated[int, typer.Option(metavar="N", min=1, max=1024)] = 1
    """Work-groups go round so many compute units; the first is recorded."""
    latency: Annotated[float, typer.Option(metavar="FACTOR", min=0.01, max=100.0)] = 1.0
    """Factor on the latencies of memory, which are assumed."""
    most_instructions: Annotated[int, typer.Option(metavar="N", min=1, max=10**10)] = (
        MOST_INSTRUCTIONS
    )
    """Wave instructions at which the run is refused."""

    def request(self, source: Path) -> "Request":
        """Return what is asked for, of a kernel."""
        from mcage.tracing.emulation.record import Request, arguments_of, extent_of, options_of

        return Request(
            source,
            self.arch,
            arguments_of(self.args),
            extent_of("--grid", self.grid),
            extent_of("--block", self.block),
            self.check,
            self.tolerance,
            self.entry,
            options_of("--flags", self.flags),
            self.inputs,
            self.compute_units,
            self.latency,
            self.most_instructions,
        )


def emulate_command(
    source: Annotated[
        Path,
        typer.Argument(
            help="OpenCL C (.cl), Triton (.py), or a code object of AMD's compilers.",
            metavar="KERNEL",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File of the trace.")],
    asked: Asked,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Record a kernel without a GPU: compile it, run it on an emulated processor, check it."""
    from mcage.campaign.progress import progress_on_stderr
    from mcage.files.atomic import TRACE, make_ready
    from mcage.traces.storage import save_trace
    from mcage.tracing.emulation.record import record_kernel

    make_ready(out, TRACE)
    recorded = record_kernel(asked.request(source), progress_on_stderr().say)
    save_trace(recorded.trace, out)
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
