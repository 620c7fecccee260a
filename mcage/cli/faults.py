"""``mcage faults``: sampled fault maps, and fits of Vmin to counts of faulty bits."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from rich.text import Text

import mcage
from mcage.cli.spec_options import KeyOptions
from mcage.errors import UserError
from mcage.report.tables import PlainConsole, plain_table
from mcage.stats.estimates import Estimate

if TYPE_CHECKING:
    from mcage.single_runs.fault_maps import FaultFit, FaultMaps
    from mcage.variation.fitting import FaultCounts, FittedVmin, Prediction

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


NAMES = {
    "mu": "mu, mean of Vmin",
    "between": "sigma between arrays",
    "within": "sigma inside an array",
    "total": "sigma of a cell, in all",
}
"""Constants of Vmin, as people call them."""

COLUMNS = 64
"""Entries in one band of the terminal map."""

STYLES = ("dim", "green", "yellow", "dark_orange", "red")
"""Terminal styles of the classes 0, 1, 2, 3, >=4."""


def faults(
    options: Annotated[
        GivenKeys,
        KeyOptions(
            MODEL_KEYS,
            MODEL,
            {
                "vdd_volts": "Supply voltage in V. Default: the scenario's own.",
                "faults.mode": "Fault model. varius: the spatial model, at any Vdd; table: "
                "classes of entries drawn from the published table; table-exact: exactly its "
                "fractions in every map. Default: varius.",
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
    model: dict[str, Any] = {
        flag.removeprefix("--").replace("-", "_"): value for _, value, flag in options
    }
    if fit is None:
        if leave_out:
            raise UserError(f"--leave-out {leave_out[0]:g}: give the counts with --fit")
        sampled = mcage.faults(**vars(which), png=png, **model)
        if as_json:
            typer.echo(json.dumps(sampled.as_json()))
        else:
            _print_map(sampled)
            _print_classes(sampled)
        return
    if png is not None:
        raise UserError("--png: a fit draws no map; leave it out")
    geometry = model.pop("geometry", "gcn")
    _refuse_others([*model], which)
    fitted = mcage.fit_faults(fit, leave_out or (), which.seed, geometry)
    if as_json:
        typer.echo(json.dumps(fitted.as_json()))
    else:
        _print_fit(fitted)


def _refuse_others(model: list[str], which: MapOptions) -> None:
    """Refuse options of a map: a fit draws none."""
    options = model + [
        key
        for key, value in vars(which).items()
        if key != "seed" and value != getattr(MapOptions, key)
    ]
    if options:
        flag = f"--{options[0].replace('_', '-')}"
        raise UserError(f"{flag}: a fit draws no map and has no use for it; leave it out")


def _print_fit(fit: "FaultFit") -> None:
    counts, fitted, usage = fit.counts, fit.fitted, fit.usage
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
    """Limits of the counts, the method of the intervals, and how far the tail is extrapolated."""
    if fitted.between is None:
        lines = [
            "these counts determine only mu and the deviation of a cell: counts of ten "
            "arrays or more (column array), or of arrays without a fault (faultless_arrays), would "
            "tell arrays from cells; without, intervals are too narrow if faults lie in patches"
        ]
    elif fitted.exact:
        lines = ["counts of each array determine all three constants; exact likelihood"]
    else:
        lines = [
            "totals, and arrays without a fault, determine all three constants; composite "
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


def _expected(estimate: Estimate) -> tuple[str, str]:
    return f"{estimate.value:.1f}", f"{estimate.lower:.0f}–{estimate.upper:.0f}"


def _print_map(sampled: "FaultMaps") -> None:
    """Print entries from left to right in bands, the blocks of an entry below each other."""
    cells, geometry = sampled.cells, sampled.cells.geometry
    hit = {*zip(cells.entry.tolist(), cells.block.tolist(), strict=True)}
    faulty = int((sampled.bits > 1).sum())
    entries = f"{faulty} of {len(sampled.bits)} entries faulty"
    console = PlainConsole()
    console.print("\n".join([*sampled.headings, entries]), soft_wrap=True)
    for first in range(0, geometry.entries, COLUMNS):
        console.print()
        for block in range(geometry.blocks):
            line = Text(f"{f'entry {first}' if block == 0 else '':<10}")
            for entry in range(first, first + COLUMNS):
                unusable = sampled.blocks[entry] >> block & 1
                glyph = "█" if unusable else "+" if (entry, block) in hit else "·"
                line.append(glyph, STYLES[min(int(sampled.bits[entry]), len(STYLES) - 1)])
            console.print(line)
    console.print("\n█ unusable block   + its only faulty bit is repaired   · no faulty bit\n")


def _print_classes(sampled: "FaultMaps") -> None:
    """Print the classes of entries beside Table I, in percent."""
    rows = sampled.shares
    labels = {
        "mean": f"mean of {sampled.facts['maps']} maps",
        "standard_error": "its standard error",
        "expected": "expected by the model",
        "table": f"published, at {sampled.table_volts:g} V",
    }
    table = plain_table("entries with faulty bits, %")
    for name in (*sampled.as_json()["classes"], "faulty"):
        table.add_column(name, justify="right")
    for key, label in labels.items():
        if key in rows:
            row = rows[key]
            cells = [*row, math.nan if key == "standard_error" else row[2:].sum()]
            table.add_row(label, *("" if math.isnan(v) else f"{100 * v:.2f}" for v in cells))
    PlainConsole().print(table)
