"""``mcage replay``: one pass of one trace under one technique."""

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from mcage.cli.spec_options import Release


def replay(
    trace: Annotated[str, typer.Argument(help="Bundled kernel or trace file.")],
    technique: Annotated[str, typer.Option(help="Technique; see `mcage techniques`.")],
    fault_map: Annotated[
        Path | None,
        typer.Option(help="NumPy file, uint8[instances, 256]: bit b set = block b is unusable."),
    ] = None,
    release: Release = None,
    delta_limit: Annotated[
        str, typer.Option(help="Largest delta of a compressible value, or none.")
    ] = "64",
    technology: Annotated[
        str, typer.Option(help="Constants of slowdown and energy: 28nm or 32nm.")
    ] = "28nm",
    vdd: Annotated[
        float | None,
        typer.Option(help="Supply voltage of the slice in V; default: the technology's nominal."),
    ] = None,
    engine: Annotated[str, typer.Option(help="auto, numpy, numba or cuda.")] = "auto",
    devices: Annotated[
        str | None, typer.Option(help="Device of the cuda engine, such as 0; default: the first.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Replay a trace on given fault maps: duties, kinds of writes, spills, slowdown, energy."""
    from mcage.engines.select import parse_devices, select_engine
    from mcage.studies.single_replay import load_fault_maps, parse_delta_limit
    from mcage.studies.single_replay import replay as report_of
    from mcage.techniques import technique as named_technique
    from mcage.traces import open_trace
    from mcage.traces.transforms import WAVEFRONT

    limit = parse_delta_limit(delta_limit)
    chosen, _ = select_engine(engine, parse_devices(devices))
    maps = load_fault_maps(fault_map) if fault_map else None
    report = report_of(
        open_trace(trace),
        named_technique(technique),
        maps,
        limit,
        chosen,
        technology,
        vdd,
        release or WAVEFRONT,
    )
    if json:
        typer.echo(json_module.dumps(report, indent=2))
        return
    _print_table(report)


def _print_table(report: dict[str, Any]) -> None:
    from rich.table import Table

    from mcage.report.console import console

    table = Table(title=f"{report['trace']} under {report['technique']}")
    table.add_column("quantity")
    table.add_column("per instance" if report["instances"] > 1 else "value")
    for key, value in report.items():
        for name, one in value.items() if isinstance(value, dict) else [(None, value)]:
            table.add_row(f"{key}: {name}" if name else key, _in_words(one))
    console().print(table)


def _in_words(value: Any) -> str:
    values = value if isinstance(value, list) else [value]
    shown = [_number(one) for one in values[:8]]
    return ", ".join(shown) + (f", ... ({len(values)})" if len(values) > 8 else "")


def _number(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
