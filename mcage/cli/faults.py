"""``mcage faults``: one sampled fault map, and the classes of entries over many maps."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mcage.variation import FaultModel, TailCells

COLUMNS = 64
"""Entries in one band of the terminal map."""

STYLES = ("dim", "green", "yellow", "dark_orange", "red")
"""Terminal styles of the classes 0, 1, 2, 3, >=4."""

MAX_ID = 2**63 - 1
"""Largest seed and largest instance id."""

MOST_MAPS = 10_000_000
"""Maps behind the shares at most: the classes of so many find room in memory."""

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
            help="varius: spatial model, any Vdd; varius-selected: only its maps that are close to "
            "the published table; table: classes drawn from that table; table-exact: exactly its "
            "shares in every map."
        ),
    ] = "varius",
    spread_blocks: Annotated[
        bool, typer.Option("--spread-blocks", help="i >= 2 faulty bits cost min(i, 4) blocks.")
    ] = False,
    sigma_die: Annotated[
        float | None, typer.Option(help="Deviation of Vmin from die to die, V.")
    ] = None,
    sigma_systematic: Annotated[
        float | None, typer.Option(help="Deviation of the correlated part within a slice, V.")
    ] = None,
    sigma_random: Annotated[
        float | None, typer.Option(help="Deviation from cell to cell, V.")
    ] = None,
    phi: Annotated[
        float | None, typer.Option(help="Range of the correlation, in slice sides.")
    ] = None,
    slices_per_chip: Annotated[
        int, typer.Option(min=1, max=10_000, help="Slices with successive ids that share a die.")
    ] = 1,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Of varius-selected: largest deviation of a class, 0.05 for 5 points."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_ID)] = 1,
    instance: Annotated[
        int, typer.Option(min=0, max=MAX_ID, help="Instance whose map is shown.")
    ] = 0,
    maps: Annotated[int, typer.Option(min=1, max=MOST_MAPS, help="Maps behind the shares.")] = 200,
    png: Annotated[Path | None, typer.Option(help="Draw the map into this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Show a sampled fault map, and the share of faulty entries over many maps."""
    import numpy as np

    from mcage.files.atomic import make_ready
    from mcage.files.kinds import kind_of_name
    from mcage.variation import (
        CLASSES,
        expected_classes,
        fault_map,
        fault_model,
        faulty_bits,
        sample_die,
        sample_field,
    )

    model = fault_model(
        scenario,
        mode,
        spread_blocks=spread_blocks,
        slices_per_chip=slices_per_chip,
        tolerance=tolerance,
        sigma_die_volts=sigma_die,
        sigma_systematic_volts=sigma_systematic,
        sigma_random_volts=sigma_random,
        phi=phi,
    )
    law = model.scenario
    vdd_volts = law.vdd_volts if vdd is None else vdd
    model.check_vdd(vdd_volts)
    if png is not None:
        make_ready(png, kind_of_name(png, [".png"]))

    shown = np.array([instance])
    cells = model.sample(seed, shown, vdd_volts)
    faulty = cells.vmin_volts > vdd_volts
    bits = faulty_bits(cells, faulty)[0]
    blocks = fault_map(cells, faulty, spread_blocks)[0]
    attempts = model.attempts(seed, shown)
    die = model.dies(shown)

    shares, standard_error = _shares(model, seed, maps, vdd_volts)
    rows = {"mean": shares, "standard_error": standard_error, "table": np.array(law.table_shares)}
    if mode == "varius":
        rows["expected"] = expected_classes(law, vdd_volts)

    found: dict[str, object] = {
        "scenario": scenario,
        "mode": mode,
        "vdd_volts": vdd_volts,
        "spread_blocks": spread_blocks,
        "seed": seed,
        "instance": instance,
        "maps": maps,
        "slices_per_chip": slices_per_chip,
        "die": int(die[0]),
        "faulty_entries_of_die": _faulty_entries(model, seed, int(die[0]), vdd_volts),
    }
    if model.grows:
        found |= {
            "mu_volts": law.mu_volts,
            "sigma_die_volts": law.sigma_die_volts,
            "sigma_systematic_volts": law.sigma_systematic_volts,
            "sigma_random_volts": law.sigma_random_volts,
            "phi": law.phi,
            "die_shift_volts": float(sample_die(law, seed, die)[0]),
        }
    if mode == "varius-selected":
        found |= {"tolerance": model.tolerance, "rejected_before": int(attempts[0])}
    if as_json:
        found |= {
            "faulty_bits": bits.tolist(),
            "unusable_blocks": blocks.tolist(),
            "classes": list(CLASSES),
            "shares": {
                key: [None if math.isnan(share) else share for share in row.tolist()]
                for key, row in rows.items()
            },
        }
        typer.echo(json.dumps(found))
    else:
        entries = f"{np.count_nonzero(bits > 1)} of {len(bits)} entries faulty"
        _print_map("\n".join([*_headings(found), entries]), cells, bits, blocks)
        _print_shares(rows, maps, law.vdd_volts)
    if png is not None:
        from mcage.variation.figure import draw_map

        field = sample_field(law, seed, shown, attempts)[0] if model.grows else None
        draw_map(png, ", ".join(_headings(found)), cells, blocks, field)


def _headings(found: dict[str, Any]) -> list[str]:
    """What is shown: scenario and instance, and the die or the selection where there is one."""
    lines = [
        f"{found['scenario']}, mode {found['mode']}, Vdd {found['vdd_volts']:g} V, "
        f"seed {found['seed']}, instance {found['instance']}"
    ]
    if found.get("sigma_die_volts") or found["slices_per_chip"] > 1:
        shift = f", Vmin {1000 * found['die_shift_volts']:+.1f} mV" if "phi" in found else ""
        counts = found["faulty_entries_of_die"]
        lines.append(
            f"die {found['die']}{shift}; faulty entries of its {len(counts)} slices: "
            f"{min(counts)} to {max(counts)}"
        )
    if "rejected_before" in found:
        lines.append(
            f"every class within {100 * found['tolerance']:g} points of the table; "
            f"maps rejected before: {found['rejected_before']}"
        )
    return lines


def _shares(
    model: "FaultModel", seed: int, maps: int, vdd_volts: float
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """Mean class shares of instances 0, 1, ..., and their standard errors: float64[5] each.

    Slices of one die are no independent sample, but dies are: deviations are summed over each die
    first.
    """
    import numpy as np

    from mcage.variation import class_shares

    instances = np.arange(maps)
    shares = class_shares(_bits(model, seed, instances, vdd_volts))
    mean = shares.mean(axis=0)
    dies = np.unique(model.dies(instances), return_index=True)[1]
    deviations = np.add.reduceat(shares - mean, dies, axis=0)
    if len(dies) == 1:
        return mean, np.full(len(mean), np.nan)
    variance = (deviations**2).sum(axis=0) * len(dies) / (len(dies) - 1)
    return mean, np.sqrt(variance) / maps


def _faulty_entries(model: "FaultModel", seed: int, die: int, vdd_volts: float) -> list[int]:
    """Faulty entries of every slice of a die."""
    import numpy as np

    first = die * model.slices_per_chip
    slices = first + np.arange(min(model.slices_per_chip, MAX_ID + 1 - first))
    counts: list[int] = (_bits(model, seed, slices, vdd_volts) > 1).sum(axis=1).tolist()
    return counts


def _bits(
    model: "FaultModel", seed: int, instances: "NDArray[np.int64]", vdd_volts: float
) -> "NDArray[np.int16]":
    """Faulty bits of every entry, int16[I, 256]."""
    import numpy as np

    from mcage.variation import faulty_bits

    parts = []
    for first in range(0, len(instances), BATCH):
        cells = model.sample(seed, instances[first : first + BATCH], vdd_volts)
        parts.append(faulty_bits(cells, cells.vmin_volts > vdd_volts))
    return np.concatenate(parts)


def _print_map(
    title: str, cells: "TailCells", bits: "NDArray[np.int16]", blocks: "NDArray[np.uint8]"
) -> None:
    """Entries from left to right in bands, the four blocks of an entry below each other."""
    import numpy as np
    from rich.text import Text

    from mcage.geometry import SLICE
    from mcage.report.console import PlainConsole

    hit = np.zeros((SLICE.entries, SLICE.blocks), bool)
    hit[cells.entry, cells.block] = True
    console = PlainConsole()
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
    from rich.table import Table

    from mcage.report.console import PlainConsole
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
    PlainConsole().print(table)
