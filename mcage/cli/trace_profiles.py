"""``mcage trace characterize|synthesize``: what a trace is like, and traces drawn from that."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcage.errors import UserError

if TYPE_CHECKING:
    from mcage.traces.profiles.profile import Profile


def characterize_command(
    trace: Annotated[str, typer.Argument(help="Name of a bundled trace, or a trace file.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File of the profile, .json.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile: JSON.")] = False,
) -> None:
    """Say what a trace is like: its profile, from which others like it can be drawn."""
    from mcage.files.atomic import make_ready, whole_file
    from mcage.files.kinds import PROFILE
    from mcage.plain_text import visible
    from mcage.traces.library import open_trace
    from mcage.traces.profiles.characterizing.characterize import characterize
    from mcage.traces.profiles.profile import profile_text

    if out is not None:
        make_ready(out, PROFILE)
    profile = characterize(open_trace(trace))
    if out is not None:
        with whole_file(out, PROFILE) as stream:
            stream.write(profile_text(profile).encode())
    if as_json:
        typer.echo(profile_text(profile), nl=False)
    elif out is not None:
        typer.echo(visible(str(out)))
    else:
        _print(profile)


def synthesize_command(
    profile: Annotated[
        str, typer.Argument(help="File of a profile, or name of a bundled one, such as DCT-32.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File of the trace.")],
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Equal seeds, equal traces.")] = 0,
    windows: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="About so many windows.")
    ] = None,
    cycles: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="About so many cycles of a pass.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Draw a trace from a profile."""
    from mcage.files.atomic import make_ready
    from mcage.files.kinds import TRACE
    from mcage.plain_text import visible
    from mcage.traces.library import open_profile
    from mcage.traces.profiles.synthesizing.synthesize import synthesize
    from mcage.traces.storage import save_trace

    if windows is not None and cycles is not None:
        raise UserError("--windows and --cycles: give one of them")
    make_ready(out, TRACE)
    trace = synthesize(open_profile(profile), seed, windows, cycles)
    save_trace(trace, out)
    facts = {
        "file": str(out),
        "caveat": trace.caveat,
        "seed": seed,
        "windows": trace.windows,
        "writes": trace.writes,
        "reads": trace.reads,
        "cycles": trace.cycles,
        "digest": trace.digest(),
    }
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for key, value in facts.items():
        typer.echo(visible(f"{key}: {value:,}" if isinstance(value, int) else f"{key}: {value}"))


def _print(profile: "Profile") -> None:
    """Print the statistics of a profile, a table for each of their parts."""
    from mcage.report.console import console, plain_table

    terminal = console()
    parts = dict(profile.statistics)
    whole = {key: parts.pop(key) for key in list(parts) if not isinstance(parts[key], dict)}
    for title, part in ({profile.name: whole} | parts).items():
        table = plain_table(title=title.replace("_", " "), show_header=False)
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for key, value in lines_of(part):
            table.add_row(key.replace("_", " "), value)
        terminal.print(table, "")


def lines_of(part: dict[str, Any], before: str = "", levels: int = 4) -> list[tuple[str, str]]:
    """What nested values say, whatever their shape: a line for each text, number or list."""
    lines: list[tuple[str, str]] = []
    for key, value in part.items():
        items = value if isinstance(value, list) else [value]
        if value is items and any(isinstance(item, dict | list) for item in items):
            value = {str(number): item for number, item in enumerate(items, 1)}
        if isinstance(value, dict) and levels:
            lines += lines_of(value, f"{before}{key}: ", levels - 1)
        elif value != "":
            texts = (f"{item:.4g}" if isinstance(item, float) else str(item) for item in items)
            lines.append((f"{before}{key}", ", ".join(texts)))
    return lines
