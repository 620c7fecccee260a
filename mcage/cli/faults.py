"""``mcage faults``: sampled fault maps, and fits of Vmin to counts of faulty bits."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from mcage.cli.spec_options import KeyOptions
from mcage.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mcage.geometry import SliceGeometry
    from mcage.stats.estimates import Estimate
    from mcage.variation.fault_models import FaultModel
    from mcage.variation.fitting import FaultCounts, FittedVmin, Prediction
    from mcage.variation.scenarios import Scenario
    from mcage.variation.vmin_tail import TailCells


MAX_ID = 2**63 - 1
"""Largest seed and largest instance id."""

MOST_MAPS = 10_000_000
"""Maps behind the shares at most: the classes of so many find room in memory."""

MODEL, SAMPLE, FIT = "Fault model", "Fault maps", "Fit to counts"
"""Panels of the help."""


MODEL_KEYS = {
    "scenarios": "",
    "vdd_volts": "",
    "faults.mode": "--mode MODE",
    "faults.cell": "",
    "faults.spread_blocks": "--spread-blocks",
    "faults.mu_volts": "",
    "faults.sigma_die_volts": "",
    "faults.sigma_systematic_volts": "",
    "faults.sigma_random_volts": "",
    "faults.phi": "",
    "faults.arrays": "",
    "faults.tolerance": "",
    "registers.geometry": "",
}
"""Keys of a sweep that decide a fault model, and their usage where it is another here."""

GivenKeys = list[tuple[str, Any, str]]
"""Keys of a sweep with their values, and the options that were given for them."""


@dataclass(frozen=True)
class MapOptions:
    """Which maps are looked at."""

    panel: ClassVar = SAMPLE

    slices_per_chip: Annotated[
        int, typer.Option(min=1, max=10000, metavar="N", rich_help_panel=MODEL)
    ] = 1
    """Number of slices with successive ids that share a die."""
    seed: Annotated[int, typer.Option(min=0, max=MAX_ID, metavar="N")] = 1
    """Seed of all random streams."""
    instance: Annotated[
        int, typer.Option(min=0, max=MAX_ID, metavar="N", rich_help_panel=SAMPLE)
    ] = 0
    """Instance whose map is shown."""
    maps: Annotated[
        int, typer.Option(min=1, max=MOST_MAPS, metavar="N", rich_help_panel=SAMPLE)
    ] = 200
    """Number of maps behind the table."""


# ``mcage faults --fit``: the constants of Vmin that counts of faulty bits make likely.

SHIPPED = "shipped"
"""In place of a file: the counts to which scenario measured is fitted."""

THIRD = 1 / 3
"""Share of faulty entries at which the scenarios run."""

NAMES = {
    "mu": "mu, mean of Vmin",
    "between": "sigma between arrays",
    "within": "sigma inside an array",
    "total": "sigma of a cell, in all",
}


def fit_counts(
    path: str, left_out: list[float], options: GivenKeys, which: MapOptions, as_json: bool
) -> None:
    """Fit the constants to the counts of a file, and print them.

    Raises
    ------
    UserError
        The counts cannot be read or fitted, or options are given that a fit has no use for.
    """
    from mcage.geometry import preset
    from mcage.variation.fitting import fit_vmin, read_counts, shipped_counts

    _refuse_others(options, which)
    counts = shipped_counts() if path == SHIPPED else read_counts(Path(path))
    fitted = fit_vmin(counts, tuple(left_out), seed=which.seed)
    usage = _usage(counts, fitted, preset(_fields(options).get("registers.geometry", "gcn")))
    if as_json:
        typer.echo(json.dumps(_fit_facts(counts, fitted) | usage))
    else:
        _print_fit(counts, fitted, usage)


def _refuse_others(options: GivenKeys, which: MapOptions) -> None:
    """Refuse options of a map: a fit draws none."""
    flags = [flag for key, _, flag in options if key != "registers.geometry"]
    flags += [
        f"--{key.replace('_', '-')}"
        for key, value in vars(which).items()
        if key != "seed" and value != getattr(MapOptions, key)
    ]
    if flags:
        raise UserError(f"{flags[0]}: a fit draws no map and has no use for it; leave it out")


def _usage(
    counts: "FaultCounts", fitted: "FittedVmin", geometry: "SliceGeometry"
) -> dict[str, Any]:
    """Options and keys that make slices of the fitted constants."""
    between = fitted.between.value if fitted.between else 0.0
    within = fitted.within.value if fitted.within else fitted.total.value
    arrays = _arrays(counts, geometry) if fitted.between else "none"
    values: dict[str, Any] = {
        "mu_volts": round(fitted.mu.value, 4),
        "sigma_systematic_volts": round(between, 4),
        "sigma_random_volts": round(within, 4),
    }
    options = {
        "--mu": "mu_volts",
        "--sigma-systematic": "sigma_systematic_volts",
        "--sigma-random": "sigma_random_volts",
    }
    vdd_volts = _third_volts(values, arrays, geometry)
    words = [f"{option} {values[key]:g}" for option, key in options.items()]
    keys = [f"{key} = {value:g}" for key, value in values.items()]
    return {
        "options": " ".join(
            ["--scenario measured", *words, f"--arrays {arrays}", f"--vdd {vdd_volts:g}"]
        ),
        "keys": ", ".join([*keys, f'arrays = "{arrays}"']),
        "third_faulty_volts": vdd_volts,
    }


def _arrays(counts: "FaultCounts", geometry: "SliceGeometry") -> str:
    """Size of arrays of about as many bits as were counted in each, as square as can be."""
    bits = counts.bits / counts.arrays
    sizes = [
        (entries, columns)
        for entries in _divisors(geometry.entries)
        for columns in _divisors(geometry.entry_bits)
    ]

    def distance(size: tuple[int, int]) -> tuple[float, float, int]:
        entries, columns = size
        off = abs(math.log(entries * columns / bits))
        return round(off, 9), abs(math.log(entries / columns)), entries

    entries, columns = min(sizes, key=distance)
    return f"{entries}x{columns}"


def _divisors(number: int) -> list[int]:
    return [part for part in range(1, number + 1) if number % part == 0]


def _third_volts(values: dict[str, Any], arrays: str, geometry: "SliceGeometry") -> float:
    """Vdd at which a third of the entries of a slice is faulty, to the millivolt."""
    from bisect import bisect_left

    from mcage.variation.fault_models import fault_model
    from mcage.variation.vmin_tail import expected_classes

    scenario: Scenario = fault_model(
        "measured", geometry=geometry, arrays=arrays, **values
    ).scenario
    millivolts = range(1, 2001)
    place = bisect_left(
        millivolts,
        -THIRD,
        key=lambda mv: -float(expected_classes(scenario, mv / 1000)[2:].sum()),
    )
    return millivolts[min(place, len(millivolts) - 1)] / 1000


def _fit_facts(counts: "FaultCounts", fitted: "FittedVmin") -> dict[str, Any]:
    """The fit as plain values; a number that is unknown is None."""
    return {
        "counts": counts.name,
        "arrays": counts.arrays or None,
        "bits": counts.bits,
        "mended_counts": counts.mended,
        "likelihood": "exact" if fitted.exact else "composite",
        **{
            f"{key}_volts": _numbers(getattr(fitted, key))
            for key in NAMES
            if getattr(fitted, key) is not None
        },
        "predictions": [
            {
                "volts": prediction.volts,
                "left_out": prediction.left_out,
                "counted": int(faulty),
                "faulty_bits": _numbers(prediction.faulty),
                "faultless_arrays": _numbers(prediction.faultless),
            }
            for prediction, faulty in zip(fitted.predictions, counts.faulty, strict=True)
        ],
    }


def _numbers(estimate: "Estimate") -> dict[str, float] | None:
    return None if math.isnan(estimate.value) else vars(estimate)


def _print_fit(counts: "FaultCounts", fitted: "FittedVmin", usage: dict[str, Any]) -> None:
    from mcage.report.tables import PlainConsole

    console = PlainConsole()
    arrays = f", {counts.arrays:,} arrays" if counts.arrays else ""
    console.print(
        f"{counts.name}: {len(counts.volts)} voltages, {counts.bits:,} bits{arrays}\n",
        *(f"{line}\n" for line in _caveats(counts, fitted)),
        sep="",
        soft_wrap=True,
    )
    console.print(_constants_table(fitted))
    console.print(_counts_table(counts, fitted.predictions))
    console.print(
        f"to use it: {usage['options']} (of mcage sweep and mcage faults), or in a spec "
        f"[faults] {usage['keys']}; at {usage['third_faulty_volts']:g} V a third of the entries "
        "is faulty",
        soft_wrap=True,
    )


def _caveats(counts: "FaultCounts", fitted: "FittedVmin") -> list[str]:
    """What the counts can tell, how intervals are made, and how far the tail is extrapolated."""
    if fitted.between is None:
        lines = [
            "only mu and the deviation of a cell can be told from these counts: counts of ten "
            "arrays or more (column array), or of arrays without a fault (faultless_arrays), would "
            "tell arrays from cells; without, intervals are too narrow if faults lie in patches"
        ]
    elif fitted.exact:
        lines = ["counts of each array: all three constants can be told; exact likelihood"]
    else:
        lines = [
            "totals, and arrays without a fault: all three constants can be told; composite "
            "likelihood"
        ]
    lines.append("95 % intervals: percentiles of a parametric bootstrap of 200 samples")
    if counts.mended:
        lines.append(
            f"{counts.mended} counts fall with the voltage; the largest so far stands for them"
        )
    share = counts.faulty[-1] / counts.bits
    lines.append(
        f"at most {share:.1e} of the bits are faulty: what follows for more is extrapolated"
    )
    return lines


def _constants_table(fitted: "FittedVmin") -> Any:
    from mcage.report.tables import plain_table

    table = plain_table("constant, mV")
    for name in ("value", "95 % interval"):
        table.add_column(name, justify="right")
    for key, label in NAMES.items():
        estimate = getattr(fitted, key)
        if estimate is not None:
            lower, upper = 1000 * estimate.lower, 1000 * estimate.upper
            table.add_row(label, f"{1000 * estimate.value:.1f}", f"{lower:.1f}–{upper:.1f}")
    return table


def _counts_table(counts: "FaultCounts", predictions: "tuple[Prediction, ...]") -> Any:
    from mcage.report.tables import plain_table

    table = plain_table("V")
    headings = ["faulty", "expected", "95 %"]
    with_arrays = not math.isnan(predictions[0].faultless.value)
    if with_arrays:
        headings += ["without a fault", "expected", "95 %"]
    for name in headings:
        table.add_column(name, justify="right")
    for place, prediction in enumerate(predictions):
        mark = " (left out)" if prediction.left_out else ""
        cells = [str(counts.faulty[place]), *_expected(prediction.faulty)]
        if with_arrays:
            known = counts.faultless[place]
            cells += [str(known) if known >= 0 else "", *_expected(prediction.faultless)]
        table.add_row(f"{prediction.volts:g}{mark}", *cells)
    return table


def _expected(estimate: "Estimate") -> tuple[str, str]:
    return f"{estimate.value:.1f}", f"{estimate.lower:.0f}–{estimate.upper:.0f}"


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
    options: Annotated[
        GivenKeys,
        KeyOptions(
            MODEL_KEYS,
            MODEL,
            {
                "vdd_volts": "Supply voltage in V. Default: the scenario's own.",
                "faults.mode": "Fault model. varius: the spatial model, at any Vdd; "
                "varius-selected: only its maps that are close to the published table; table: "
                "classes of entries drawn from that table; table-exact: exactly its fractions in "
                "every map. Default: varius.",
                "faults.spread_blocks": "Let n >= 2 faulty bits cost n blocks, or all that there "
                "are.",
                "registers.geometry": "Slice: gcn, nvidia or another of mcage docs geometry. "
                "Default: gcn.",
            },
        ),
    ],
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
    from mcage.files.atomic import kind_of_name, make_ready
    from mcage.variation.cells import CELL_6T

    if fit is not None:
        if png is not None:
            raise UserError("--png: a fit draws no map; leave it out")
        fit_counts(fit, leave_out or [], options, which, as_json)
        return
    if leave_out:
        raise UserError(f"--leave-out {leave_out[0]:g}: give the counts with --fit")
    fields = _fields(options)
    scenario = fields.get("scenarios", "common")
    model = _model(scenario, fields, which)
    vdd_volts = fields.get("vdd_volts", model.scenario.vdd_volts)
    model.check_vdd(vdd_volts)
    if png is not None:
        make_ready(png, kind_of_name(png, [".png"]))
    cell = fields.get("faults.cell", CELL_6T)
    sampled = _sampled(model, scenario, cell, which, vdd_volts)
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


def _fields(options: GivenKeys) -> dict[str, Any]:
    return {key: value for key, value, _ in options}


def _model(name: str, fields: dict[str, Any], which: MapOptions) -> "FaultModel":
    from mcage.geometry import preset
    from mcage.variation.cells import on_cell
    from mcage.variation.fault_models import fault_model
    from mcage.variation.scenarios import scenario

    return fault_model(
        on_cell(scenario(name), fields.get("faults.cell")),
        geometry=preset(fields.get("registers.geometry", "gcn")),
        slices_per_chip=which.slices_per_chip,
        **{
            key.removeprefix("faults."): value
            for key, value in fields.items()
            if key.startswith("faults.") and key != "faults.cell"
        },
    )


def _sampled(
    model: "FaultModel", name: str, cell: str, which: MapOptions, vdd_volts: float
) -> _SampledMap:
    """Sample the map of the instance."""
    import numpy as np

    from mcage.protection.policy import ECP
    from mcage.variation.fault_models import fault_map, faulty_bits
    from mcage.variation.field import sample_die

    seed, instances = which.seed, np.array([which.instance])
    cells = model.sample(seed, instances, vdd_volts)
    faulty = cells.vmin_volts > vdd_volts
    attempts, die = model.attempts(seed, instances), model.dies(instances)
    facts: dict[str, Any] = {
        "scenario": name,
        "mode": model.mode,
        "cell": cell,
        "vdd_volts": vdd_volts,
        "spread_blocks": model.spread_blocks,
        "seed": seed,
        "instance": which.instance,
        "maps": which.maps,
        "slices_per_chip": which.slices_per_chip,
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
    if model.mode == "varius-selected":
        facts |= {"tolerance": model.tolerance, "rejected_before": int(attempts[0])}
    return _SampledMap(
        cells=cells,
        bits=faulty_bits(cells, faulty)[0],
        blocks=fault_map(cells, faulty, ECP.spread(model.spread_blocks))[0],
        facts=facts,
    )


def _rows(model: "FaultModel", seed: int, maps: int, vdd_volts: float) -> _Rows:
    """Fractions of the classes of entries, by what they are of."""
    import numpy as np

    from mcage.geometry import GCN
    from mcage.variation.vmin_tail import expected_classes

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
    from mcage.variation.cells import CELL_8T

    cell = f", {facts['cell'].upper()} cells" if facts["cell"] == CELL_8T else ""
    lines = [
        f"{facts['scenario']}{cell}, mode {facts['mode']}, Vdd {facts['vdd_volts']:g} V, "
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

    from mcage.variation.fault_models import class_shares

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

    from mcage.variation.fault_models import faulty_bits

    parts = []
    for first in range(0, len(instances), BATCH):
        cells = model.sample(seed, instances[first : first + BATCH], vdd_volts)
        parts.append(faulty_bits(cells, cells.vmin_volts > vdd_volts))
    return np.concatenate(parts)


def _print_map(title: str, sampled: _SampledMap) -> None:
    """Print entries from left to right in bands, the blocks of an entry below each other."""
    import numpy as np
    from rich.text import Text

    from mcage.report.tables import PlainConsole

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
    from mcage.report.tables import PlainConsole, plain_table
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
