"""``mcage replay``: one pass of one trace under one technique."""

import json as json_module
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from mcage.cli.commands import RUN, Engine, Json, Release
from mcage.cli.spec_options import KeyOptions
from mcage.engines import parse_devices, select_engine
from mcage.report.tables import console, plain_table
from mcage.techniques import technique as named_technique


@dataclass(frozen=True)
class ReplayOptions:
    """Options beside trace and technique."""

    fault_map: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """NumPy file, uint8 of shape (instances, 256): bit b set = block b is unusable. Default: no
    faults."""
    release: Release = "wavefront"
    delta_limit: Annotated[str, typer.Option(metavar="N")] = "64"
    """Largest delta of a compressible value, a power of two, or none."""
    vdd: Annotated[float | None, typer.Option(metavar="VOLTS")] = None
    """Supply voltage of the slice in V. Default: the technology's nominal one."""


def replay(
    trace: Annotated[str, typer.Argument(help="Bundled kernel or trace file.")],
    technique: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Protection technique, as `mcage techniques` lists them, or a user-defined one "
            "as module:NAME.",
        ),
    ],
    options: ReplayOptions,
    costs: Annotated[
        list[tuple[str, Any, str]],
        KeyOptions({"costs.technology": "", "costs.tables": "", "costs.vdd_scaling": ""}),
    ],
    engine: Engine = "auto",
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="Device of the engine cuda, such as 0. Default: the first.",
            rich_help_panel=RUN,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Replay a trace on given fault maps: duties, kinds of writes, spills, slowdown, energy."""
    from mcage.single_runs.replay import load_fault_maps, parse_delta_limit
    from mcage.single_runs.replay import replay as report_of
    from mcage.spec import SweepSpec
    from mcage.traces import open_trace

    limit = parse_delta_limit(options.delta_limit)
    selected, _ = select_engine(engine, parse_devices(devices))
    opened = open_trace(trace)
    maps = load_fault_maps(options.fault_map, opened.geometry) if options.fault_map else None
    tables = {key.removeprefix("costs."): value for key, value, _ in costs}
    report = report_of(
        opened,
        named_technique(technique),
        maps,
        limit,
        selected,
        SweepSpec.from_mapping({"costs": tables}, "replay").costs,
        options.vdd,
        options.release,
    )
    if json:
        typer.echo(json_module.dumps(report, indent=2))
        return
    _print_table(report)


_PASS = "in a pass"
_UNITS = {
    **dict.fromkeys(("writes", "reads", "mov_writes", "wakeups", "mispredicted_writes"), _PASS),
    **dict.fromkeys(("peak_spilled_rows", "mean_spilled_rows"), "rows"),
    **dict.fromkeys(("longest_zero_duty", "longest_one_duty"), "of the time"),
    "long_run_passes": "passes",
    "compressible_write_share": "of the writes",
    "window_size": "registers",
    "concurrent_windows": "windows",
    "cycles": _PASS,
    "needed_faulty_entries": "entries",
    "vdd_volts": "V",
    "slowdown": "of the cycles",
    "energy": "of the energy",
}
"""Unit of each quantity that has one, or what it is a share or a number of."""

_LABELS = {"compressible_write_share": "writes of a compressible pattern, whatever their lanes"}


def _print_table(report: dict[str, Any]) -> None:
    table = plain_table("quantity", title=f"{report['trace']} under {report['technique']}")
    table.add_column("of each instance" if report["instances"] > 1 else "value")
    table.add_column("unit")
    for key, value in report.items():
        if key in ("trace", "technique") or value == "":
            continue
        for name, part in value.items() if isinstance(value, dict) else [("", value)]:
            unit = "pJ in a pass" if name.endswith("_pj") else _UNITS.get(key, "")
            words = f"{key}: {name}" if name else _LABELS.get(key, key)
            words = words.removesuffix("_pj").removesuffix("_volts").replace("_", " ")
            table.add_row(words, _in_words(part), unit)
    console().print(table)


def _in_words(value: Any) -> str:
    values = value if isinstance(value, list) else [value]
    shown = [_number(number) for number in values[:8]]
    return ", ".join(shown) + (f", ... ({len(values)})" if len(values) > 8 else "")


def _number(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return " and ".join(map(_number, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)
