"""``mcage faults``: one sampled fault map, and the classes of entries over many maps."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcage.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mcage.variation import FaultModel, TailCells

COLUMNS = 64
"""Entries in one band of the terminal map."""

STYLES = ("dim", "green", "yellow", "dark_orange", "red")
"""Terminal styles of the classes 0, 1, 2, 3, >=4."""

BATCH = 250
"""Maps sampled at a time: bounds the memory, changes no number."""


def faults(
    scenario: Annotated[str, typer.Option(help="common, clustered or dispersed.")] = "common",
    vdd: Annotated[
        float | None, typer.Option(help="Supply voltage in volts; the scenario's own if not given.")
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            help="varius: spatial model, any Vdd; table: classes drawn from the published table; "
            "table-exact: exactly its shares in every map."
        ),
    ] = "varius",
    spread_blocks: Annotated[
        bool, typer.Option("--spread-blocks", help="i >= 2 faulty bits cost min(i, 4) blocks.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1)] = 1,
    instance: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Instance whose map is shown.")
    ] = 0,
    maps: Annotated[int, typer.Option(min=1, help="Maps behind the shares.")] = 200,
    png: Annotated[Path | None, typer.Option(help="Draw the map into this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Show a sampled fault map, and the share of faulty entries over many maps."""
    import numpy as np

    from mcage.variation import (
        CLASSES,
        FaultModel,
        expected_classes,
        fault_map,
        faulty_bits,
        sample_field,
    )
    from mcage.variation import scenario as scenario_named

    model = FaultModel(scenario_named(scenario), mode, spread_blocks)
    vdd_volts = model.scenario.vdd_volts if vdd is None else vdd
    model.check_vdd(vdd_volts)
    if png is not None:
        _check_writable(png)

    shown = np.array([instance])
    cells = model.sample(seed, shown, vdd_volts)
    faulty = cells.vmin_volts > vdd_volts
    bits = faulty_bits(cells, faulty)[0]
    blocks = fault_map(cells, faulty, spread_blocks)[0]

    shares = _shares(model, seed, maps, vdd_volts)
    spread = shares.std(axis=0, ddof=1) if maps > 1 else np.full(len(CLASSES), np.nan)
    rows = {
        "mean": shares.mean(axis=0),
        "standard_error": spread / math.sqrt(maps),
        "table": np.array(model.scenario.table_shares),
    }
    if mode == "varius":
        rows["expected"] = expected_classes(model.scenario, vdd_volts)

    setting = {
        "scenario": scenario,
        "mode": mode,
        "vdd_volts": vdd_volts,
        "spread_blocks": spread_blocks,
        "seed": seed,
        "instance": instance,
        "maps": maps,
    }
    if as_json:
        result = setting | {
            "faulty_bits": bits.tolist(),
            "unusable_blocks": blocks.tolist(),
            "classes": list(CLASSES),
            "shares": {
                key: [None if math.isnan(share) else share for share in row.tolist()]
                for key, row in rows.items()
            },
        }
        typer.echo(json.dumps(result))
    else:
        title = (
            f"{scenario}, mode {mode}, Vdd {vdd_volts:g} V, seed {seed}, instance {instance}\n"
            f"{np.count_nonzero(bits > 1)} of {len(bits)} entries faulty"
        )
        _print_map(title, cells, bits, blocks)
        _print_shares(rows, maps, model.scenario.vdd_volts)
    if png is not None:
        from mcage.variation.picture import draw_map

        field = sample_field(model.scenario, seed, shown)[0] if mode == "varius" else None
        title = f"{scenario}, {mode}, {vdd_volts:g} V, seed {seed}, instance {instance}"
        draw_map(png, title, cells, blocks, field)


def _check_writable(path: Path) -> None:
    """Refuse a file that could not be written, before anything is computed."""
    existed = path.exists()
    try:
        with path.open("ab"):
            pass
    except OSError as error:
        raise UserError(
            f"--png {path}: cannot be written ({error.strerror}); give a file in a folder "
            "that exists and may be written"
        ) from None
    if not existed:
        path.unlink()


def _shares(model: "FaultModel", seed: int, maps: int, vdd_volts: float) -> "NDArray[np.float64]":
    """Class shares of instances 0, 1, ..., float64[maps, 5]."""
    import numpy as np

    from mcage.variation import class_shares, faulty_bits

    parts = []
    for first in range(0, maps, BATCH):
        instances = np.arange(first, min(first + BATCH, maps))
        cells = model.sample(seed, instances, vdd_volts)
        parts.append(class_shares(faulty_bits(cells, cells.vmin_volts > vdd_volts)))
    return np.concatenate(parts)


def _print_map(
    title: str, cells: "TailCells", bits: "NDArray[np.int16]", blocks: "NDArray[np.uint8]"
) -> None:
    """Entries from left to right in bands, the four blocks of an entry below each other."""
    import numpy as np
    from rich.console import Console
    from rich.text import Text

    from mcage.geometry import SLICE

    hit = np.zeros((SLICE.entries, SLICE.blocks), bool)
    hit[cells.entry, cells.block] = True
    console = Console(highlight=False)
    console.print(title, soft_wrap=True)
    for first in range(0, SLICE.entries, COLUMNS):
        console.print()
        for block in range(SLICE.blocks):
            line = Text(f"{f'entry {first}' if block == 0 else '':<10}")
            for entry in range(first, first + COLUMNS):
                unusable = blocks[entry] >> block & 1
                glyph = "█" if unusable else "+" if hit[entry, block] else "·"
                line.append(glyph, STYLES[min(int(bits[entry]), len(STYLES) - 1)])
            console.print(line)
    console.print("\n█ unusable block   + its only faulty bit is repaired   · no faulty bit\n")


def _print_shares(rows: "dict[str, NDArray[np.float64]]", maps: int, table_volts: float) -> None:
    """Classes of entries beside Table I, in percent."""
    from rich.console import Console
    from rich.table import Table

    from mcage.variation import CLASSES

    labels = {
        "mean": f"mean of {maps} maps",
        "standard_error": "its standard error",
        "expected": "expected by the model",
        "table": f"published, at {table_volts:g} V",
    }
    table = Table("entries with faulty bits, %", title_justify="left")
    for name in (*CLASSES, "faulty"):
        table.add_column(name, justify="right")
    for key, label in labels.items():
        if key in rows:
            row = rows[key]
            cells = [*row, math.nan if key == "standard_error" else row[2:].sum()]
            table.add_row(label, *("" if math.isnan(v) else f"{100 * v:.2f}" for v in cells))
    Console(highlight=False).print(table)
