"""``mcage faults``: one sampled fault map, and the classes of entries over many maps."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcage.cli.fault_fit import fit_counts
from mcage.cli.fault_options import FIT, MAX_ID, MapOptions, ModelOptions
from mcage.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mcage.variation.fault_models import FaultModel
    from mcage.variation.vmin_tail import TailCells

COLUMNS = 64
"""Entries in one band of the terminal map."""

STYLES = ("dim", "green", "yellow", "dark_orange", "red")
"""Terminal styles of the classes 0, 1, 2, 3, >=4."""

BATCH = 250
"""Maps sampled at a time: bounds the memory, changes no number."""


_Rows = dict[str, "NDArray[np.float64]"]
"""Fractions of the entries in each class: of the maps, expected, published."""


@dataclass(frozen=True)
class _SampledMap:
    """One fault map.

    Attributes
    ----------
    cells : TailCells
        Cells with a high Vmin.
    bits : int16[256]
        Faulty bits of each entry.
    blocks : uint8[256]
        Unusable blocks of each entry, a bit each.
    facts : dict
        Plain values that describe the map.
    """

    cells: "TailCells"
    bits: "NDArray[np.int16]"
    blocks: "NDArray[np.uint8]"
    facts: dict[str, Any]


def faults(
    options: ModelOptions,
    which: MapOptions,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to draw the map into, .png.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    fit: Annotated[
        str | None,
        typer.Option(
            metavar="CSV",
            help="Show no map, but fit the distribution of Vmin to counts of faulty bits: columns "
            "voltage, faulty_bits, bits, and array, or arrays and faultless_arrays. shipped: the "
            "counts behind scenario measured.",
            rich_help_panel=FIT,
        ),
    ] = None,
    leave_out: Annotated[
        list[float] | None,
        typer.Option(
            metavar="VOLTS",
            help="Voltage whose counts the fit does not use, but predicts. May be repeated.",
            rich_help_panel=FIT,
        ),
    ] = None,
) -> None:
    """Show a sampled fault map, and the fractions of faulty entries over many maps."""
    from mcage.files.atomic import make_ready
    from mcage.files.kinds import kind_of_name

    if fit is not None:
        if png is not None:
            raise UserError("--png: a fit draws no map; leave it out")
        fit_counts(fit, leave_out or [], options, which, as_json)
        return
    if leave_out:
        raise UserError(f"--leave-out {leave_out[0]:g}: give the counts with --fit")
    model = options.model()
    vdd_volts = model.scenario.vdd_volts if options.vdd is None else options.vdd
    model.check_vdd(vdd_volts)
    if png is not None:
        make_ready(png, kind_of_name(png, [".png"]))
    sampled = _sampled(model, options, which, vdd_volts)
    rows = _rows(model, which.seed, which.maps, vdd_volts)
    if as_json:
        typer.echo(json.dumps(sampled.facts | _lists(sampled, rows)))
    else:
        faulty = int((sampled.bits > 1).sum())
        entries = f"{faulty} of {len(sampled.bits)} entries faulty"
        _print_map("\n".join([*_headings(sampled.facts), entries]), sampled)
        _print_classes(rows, which.maps, model.scenario.vdd_volts)
    if png is not None:
        _draw(png, model, which, sampled)


def _sampled(
    model: "FaultModel", options: ModelOptions, which: MapOptions, vdd_volts: float
) -> _SampledMap:
    """Sample the map of the instance."""
    import numpy as np

    from mcage.variation.die import sample_die
    from mcage.variation.fault_maps import fault_map, faulty_bits

    seed, instances = which.seed, np.array([which.instance])
    cells = model.sample(seed, instances, vdd_volts)
    faulty = cells.vmin_volts > vdd_volts
    attempts, die = model.attempts(seed, instances), model.dies(instances)
    facts: dict[str, Any] = {
        "scenario": options.scenario,
        "mode": options.mode,
        "vdd_volts": vdd_volts,
        "spread_blocks": options.spread_blocks,
        "seed": seed,
        "instance": which.instance,
        "maps": which.maps,
        "slices_per_chip": options.slices_per_chip,
        "die": int(die[0]),
        "faulty_entries_of_die": _faulty_entries(model, seed, int(die[0]), vdd_volts),
    }
    scenario = model.scenario
    if model.grows:
        facts |= {
            "mu_volts": scenario.mu_volts,
            "sigma_die_volts": scenario.sigma_die_volts,
            "sigma_systematic_volts": scenario.sigma_systematic_volts,
            "sigma_random_volts": scenario.sigma_random_volts,
            "phi": None if scenario.arrays else scenario.phi,
            "arrays": str(scenario.arrays) if scenario.arrays else None,
            "die_shift_volts": float(sample_die(scenario, seed, die)[0]),
        }
    if options.mode == "varius-selected":
        facts |= {"tolerance": model.tolerance, "rejected_before": int(attempts[0])}
    return _SampledMap(
        cells=cells,
        bits=faulty_bits(cells, faulty)[0],
        blocks=fault_map(cells, faulty, options.spread_blocks)[0],
        facts=facts,
    )


def _rows(model: "FaultModel", seed: int, maps: int, vdd_volts: float) -> _Rows:
    """Fractions of the classes of entries, by what they are of."""
    import numpy as np

    from mcage.geometry import GCN
    from mcage.variation.expected import expected_classes

    mean, standard_error = _class_shares(model, seed, maps, vdd_volts)
    rows = {"mean": mean, "standard_error": standard_error}
    # The papers have counted entries of their slice.
    if model.scenario.table_shares and model.scenario.geometry.shape == GCN.shape:
        rows["table"] = np.array(model.scenario.table_shares)
    if model.mode == "varius":
        rows["expected"] = expected_classes(model.scenario, vdd_volts)
    return rows


def _lists(sampled: _SampledMap, rows: _Rows) -> dict[str, Any]:
    """Map and classes as plain lists; a fraction that is unknown is None."""
    from mcage.variation.scenarios import CLASSES

    return {
        "faulty_bits": sampled.bits.tolist(),
        "unusable_blocks": sampled.blocks.tolist(),
        "classes": list(CLASSES),
        "shares": {
            key: [None if math.isnan(fraction) else fraction for fraction in row.tolist()]
            for key, row in rows.items()
        },
    }


def _draw(path: Path, model: "FaultModel", which: MapOptions, sampled: _SampledMap) -> None:
    """Draw the map over the systematic part of Vmin."""
    import numpy as np

    from mcage.variation.field import sample_field
    from mcage.variation.figure import draw_map

    field = None
    if model.grows:
        instances = np.array([which.instance])
        attempts = model.attempts(which.seed, instances)
        field = sample_field(model.scenario, which.seed, instances, attempts)[0]
    draw_map(path, ", ".join(_headings(sampled.facts)), sampled.cells, sampled.blocks, field)


def _headings(facts: dict[str, Any]) -> list[str]:
    """Lines above the map: scenario and instance, and the die or the selection if there is one."""
    lines = [
        f"{facts['scenario']}, mode {facts['mode']}, Vdd {facts['vdd_volts']:g} V, "
        f"seed {facts['seed']}, instance {facts['instance']}"
    ]
    if facts.get("sigma_die_volts") or facts["slices_per_chip"] > 1:
        shift = f", Vmin {1000 * facts['die_shift_volts']:+.1f} mV" if "phi" in facts else ""
        counts = facts["faulty_entries_of_die"]
        lines.append(
            f"die {facts['die']}{shift}; faulty entries of its {len(counts)} slices: "
            f"{min(counts)} to {max(counts)}"
        )
    if "rejected_before" in facts:
        lines.append(
            f"every class within {100 * facts['tolerance']:g} points of the table; "
            f"maps rejected before: {facts['rejected_before']}"
        )
    return lines


def _class_shares(
    model: "FaultModel", seed: int, maps: int, vdd_volts: float
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """Mean fractions of the classes over instances 0, 1, ..., and standard errors: float64[5] each.

    Slices of a die are no independent sample, but dies are: the deviations of the slices of a die
    are summed first.
    """
    import numpy as np

    from mcage.variation.fault_maps import class_shares

    instances = np.arange(maps)
    classes = class_shares(_bits(model, seed, instances, vdd_volts))
    mean = classes.mean(axis=0)
    dies = np.unique(model.dies(instances), return_index=True)[1]
    deviations = np.add.reduceat(classes - mean, dies, axis=0)
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

    from mcage.variation.fault_maps import faulty_bits

    parts = []
    for first in range(0, len(instances), BATCH):
        cells = model.sample(seed, instances[first : first + BATCH], vdd_volts)
        parts.append(faulty_bits(cells, cells.vmin_volts > vdd_volts))
    return np.concatenate(parts)


def _print_map(title: str, sampled: _SampledMap) -> None:
    """Print entries from left to right in bands, the blocks of an entry below each other."""
    import numpy as np
    from rich.text import Text

    from mcage.report.console import PlainConsole

    geometry = sampled.cells.geometry
    hit = np.zeros((geometry.entries, geometry.blocks), bool)
    hit[sampled.cells.entry, sampled.cells.block] = True
    console = PlainConsole()
    console.print(title, soft_wrap=True)
    for first in range(0, geometry.entries, COLUMNS):
        console.print()
        for block in range(geometry.blocks):
            line = Text(f"{f'entry {first}' if block == 0 else '':<10}")
            for entry in range(first, first + COLUMNS):
                unusable = sampled.blocks[entry] >> block & 1
                glyph = "█" if unusable else "+" if hit[entry, block] else "·"
                line.append(glyph, STYLES[min(int(sampled.bits[entry]), len(STYLES) - 1)])
            console.print(line)
    console.print("\n█ unusable block   + its only faulty bit is repaired   · no faulty bit\n")


def _print_classes(rows: _Rows, maps: int, table_volts: float) -> None:
    """Print the classes of entries beside Table I, in percent."""
    from mcage.report.console import PlainConsole, plain_table
    from mcage.variation.scenarios import CLASSES

    labels = {
        "mean": f"mean of {maps} maps",
        "standard_error": "its standard error",
        "expected": "expected by the model",
        "table": f"published, at {table_volts:g} V",
    }
    table = plain_table("entries with faulty bits, %")
    for name in (*CLASSES, "faulty"):
        table.add_column(name, justify="right")
    for key, label in labels.items():
        if key in rows:
            row = rows[key]
            cells = [*row, math.nan if key == "standard_error" else row[2:].sum()]
            table.add_row(label, *("" if math.isnan(v) else f"{100 * v:.2f}" for v in cells))
    PlainConsole().print(table)
