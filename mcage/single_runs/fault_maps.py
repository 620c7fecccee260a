"""`mcage.faults` and `mcage.fit_faults`: sampled fault maps, and fits of Vmin to counts."""

import math
import os
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.files.atomic import kind_of_name, make_ready
from mcage.files.inputs import named_file
from mcage.geometry import GCN, SliceGeometry, preset
from mcage.protection.policy import ECP
from mcage.stats.estimates import Estimate
from mcage.variation.fault_models import (
    FaultModel,
    class_shares,
    fault_map,
    fault_model,
    faulty_bits,
)
from mcage.variation.field import sample_die, sample_field
from mcage.variation.fitting import FaultCounts, FittedVmin, fit_vmin, read_counts, shipped_counts
from mcage.variation.scenarios import CELL_6T, CELL_8T, CLASSES, Scenario, on_cell, scenario
from mcage.variation.vmin_tail import TailCells, expected_classes

MAX_ID = 2**63 - 1
"""Largest seed and largest instance id."""

RANGES = {
    "seed": (0, MAX_ID),
    "instance": (0, MAX_ID),
    "maps": (1, 10_000_000),
    "slices_per_chip": (1, 10_000),
}
"""Least and largest values; the classes of so many maps find room in memory."""

BATCH = 250
"""Maps sampled at a time: bounds the memory, changes no number."""


class ModelKeys(TypedDict, total=False):
    """Fault model of the maps, by the names of the options of ``mcage faults``.

    scenario, mode, cell, geometry, arrays : str
        As in a spec of a sweep; by default ``common``, ``varius``, ``6t``, ``gcn``.
    vdd : float
        Supply voltage in V; by default the scenario's own.
    spread_blocks : bool
        Whether n >= 2 faulty bits cost n blocks, or all that there are.
    mu, sigma_die, sigma_systematic, sigma_random : float
        Middle and standard deviations of Vmin, in V; by default the scenario's.
    phi, tolerance : float
        As in a spec of a sweep.
    """

    scenario: str
    vdd: float
    mode: str
    cell: str
    spread_blocks: bool
    mu: float
    sigma_die: float
    sigma_systematic: float
    sigma_random: float
    phi: float
    arrays: str
    tolerance: float
    geometry: str


_VOLTS = ("mu", "sigma_die", "sigma_systematic", "sigma_random")
_NOT_OF_THE_MODEL = ("scenario", "vdd", "cell", "geometry")

_Rows = dict[str, NDArray[np.float64]]
"""Fractions of the entries in each class: of the maps, expected, published."""


@dataclass(frozen=True, eq=False)
class FaultMaps:
    """One fault map, and the fractions of faulty entries over many.

    Attributes
    ----------
    cells : TailCells
        Cells of the map with a high Vmin.
    bits : int16[256]
        Faulty bits of each entry.
    blocks : uint8[256]
        Unusable blocks of each entry, a bit each.
    facts : dict
        Plain values that describe the map.
    shares : dict of str to float64[5]
        Fractions of the entries with 0, 1, 2, 3 and more faulty bits: ``mean`` and
        ``standard_error`` over the maps, ``expected`` by the model, ``table`` as published.
    table_volts : float
        Vdd of the published fractions.
    """

    cells: TailCells
    bits: NDArray[np.int16]
    blocks: NDArray[np.uint8]
    facts: dict[str, Any]
    shares: _Rows
    table_volts: float

    def as_json(self) -> dict[str, Any]:
        """Map and fractions as plain values; a fraction that is unknown is None."""
        return self.facts | {
            "faulty_bits": self.bits.tolist(),
            "unusable_blocks": self.blocks.tolist(),
            "classes": list(CLASSES),
            "shares": {
                key: [None if math.isnan(fraction) else fraction for fraction in row.tolist()]
                for key, row in self.shares.items()
            },
        }

    @property
    def headings(self) -> list[str]:
        """Lines above the map: scenario and instance, and the die or the selection if any."""
        facts = self.facts
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
        return lines


def faults(
    seed: int = 1,
    instance: int = 0,
    maps: int = 200,
    slices_per_chip: int = 1,
    png: str | os.PathLike[str] | None = None,
    **model: Unpack[ModelKeys],
) -> FaultMaps:
    """Sample the fault map of an instance, and the fractions of faulty entries over many maps.

    Parameters
    ----------
    seed : int
        Seed of all random streams.
    instance : int
        Instance whose map is sampled.
    maps : int
        Number of maps behind the fractions.
    slices_per_chip : int
        Number of slices with successive ids that share a die.
    png : str or path, optional
        File to draw the map into.
    **model
        The fault model: keys of `ModelKeys`.

    Returns
    -------
    FaultMaps
        The map and the fractions; `FaultMaps.as_json` gives what ``--json`` prints.

    Raises
    ------
    UserError
        There is no such scenario, mode, cell or slice, a number is out of range, or the picture
        cannot be written.
    """
    sizes = {
        "seed": seed,
        "instance": instance,
        "maps": maps,
        "slices_per_chip": slices_per_chip,
    }
    for key, value in sizes.items():
        least, most = RANGES[key]
        if not least <= value <= most:
            raise UserError(f"{key} {value}: must lie between {least} and {most}")
    name, slice_ = model.get("scenario", "common"), preset(model.get("geometry", "gcn"))
    of_model: dict[str, Any] = {
        f"{key}_volts" if key in _VOLTS else key: value
        for key, value in model.items()
        if key not in _NOT_OF_THE_MODEL
    }
    made = fault_model(
        on_cell(scenario(name), model.get("cell")),
        geometry=slice_,
        slices_per_chip=slices_per_chip,
        **of_model,
    )
    vdd_volts = model.get("vdd", made.scenario.vdd_volts)
    made.check_vdd(vdd_volts)
    path = None if png is None else named_file(png)
    if path is not None:
        make_ready(path, kind_of_name(path, [".png"]))
    sampled = _sampled(
        made,
        {
            "scenario": name,
            "mode": made.mode,
            "cell": model.get("cell", CELL_6T),
            "vdd_volts": vdd_volts,
            "spread_blocks": made.spread_blocks,
            **sizes,
        },
    )
    if path is not None:
        _draw(path, made, sampled)
    return sampled


def _sampled(model: FaultModel, facts: dict[str, Any]) -> FaultMaps:
    """Sample the map that the facts describe, and tell what it shows."""
    seed, instances, vdd_volts = facts["seed"], np.array([facts["instance"]]), facts["vdd_volts"]
    cells = model.sample(seed, instances, vdd_volts)
    faulty = cells.vmin_volts > vdd_volts
    die = model.dies(instances)
    facts |= {
        "die": int(die[0]),
        "faulty_entries_of_die": _faulty_entries(model, seed, int(die[0]), vdd_volts),
    }
    constants = model.scenario
    if model.grows:
        facts |= {
            "mu_volts": constants.mu_volts,
            "sigma_die_volts": constants.sigma_die_volts,
            "sigma_systematic_volts": constants.sigma_systematic_volts,
            "sigma_random_volts": constants.sigma_random_volts,
            "phi": None if constants.arrays else constants.phi,
            "arrays": str(constants.arrays) if constants.arrays else None,
            "die_shift_volts": float(sample_die(constants, seed, die)[0]),
        }
    return FaultMaps(
        cells=cells,
        bits=faulty_bits(cells, faulty)[0],
        blocks=fault_map(cells, faulty, ECP.spread(model.spread_blocks))[0],
        facts=facts,
        shares=_shares(model, seed, facts["maps"], vdd_volts),
        table_volts=constants.vdd_volts,
    )


def _shares(model: FaultModel, seed: int, maps: int, vdd_volts: float) -> _Rows:
    """Fractions of the classes of entries, by what they are of."""
    mean, standard_error = _class_shares(model, seed, maps, vdd_volts)
    rows = {"mean": mean, "standard_error": standard_error}
    # The papers have counted entries of their slice.
    if model.scenario.table_shares and model.scenario.geometry.shape == GCN.shape:
        rows["table"] = np.array(model.scenario.table_shares)
    if model.grows:
        rows["expected"] = expected_classes(model.scenario, vdd_volts)
    return rows


def _draw(path: Path, model: FaultModel, sampled: FaultMaps) -> None:
    """Draw the map over the systematic part of Vmin."""
    from mcage.variation.figure import draw_map  # with Matplotlib

    field = None
    if model.grows:
        instances = np.array([sampled.facts["instance"]])
        field = sample_field(model.scenario, sampled.facts["seed"], instances)[0]
    draw_map(path, ", ".join(sampled.headings), sampled.cells, sampled.blocks, field)


def _class_shares(
    model: FaultModel, seed: int, maps: int, vdd_volts: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean fractions of the classes over instances 0, 1, ..., and standard errors: float64[5] each.

    Slices of a die are no independent sample, but dies are: the deviations of the slices of a die
    are summed first.
    """
    instances = np.arange(maps)
    classes = class_shares(_bits(model, seed, instances, vdd_volts))
    mean = classes.mean(axis=0)
    dies = np.unique(model.dies(instances), return_index=True)[1]
    deviations = np.add.reduceat(classes - mean, dies, axis=0)
    if len(dies) == 1:
        return mean, np.full(len(mean), np.nan)
    variance = (deviations**2).sum(axis=0) * len(dies) / (len(dies) - 1)
    return mean, np.sqrt(variance) / maps


def _faulty_entries(model: FaultModel, seed: int, die: int, vdd_volts: float) -> list[int]:
    """Faulty entries of every slice of a die."""
    first = die * model.slices_per_chip
    slices = first + np.arange(min(model.slices_per_chip, MAX_ID + 1 - first))
    counts: list[int] = (_bits(model, seed, slices, vdd_volts) > 1).sum(axis=1).tolist()
    return counts


def _bits(
    model: FaultModel, seed: int, instances: NDArray[np.int64], vdd_volts: float
) -> NDArray[np.int16]:
    """Faulty bits of every entry, int16[I, 256]."""
    parts = []
    for first in range(0, len(instances), BATCH):
        cells = model.sample(seed, instances[first : first + BATCH], vdd_volts)
        parts.append(faulty_bits(cells, cells.vmin_volts > vdd_volts))
    return np.concatenate(parts)


# Fits: the constants of Vmin that counts of faulty bits make likely.

SHIPPED = "shipped"
"""In place of a file: the counts to which scenario measured is fitted."""

THIRD = 1 / 3
"""Share of faulty entries at which the scenarios run."""

CONSTANTS = ("mu", "between", "within", "total")
"""Attributes of `FittedVmin`."""


@dataclass(frozen=True, eq=False)
class FaultFit:
    """Constants of Vmin that are fitted to counts of faulty bits.

    Attributes
    ----------
    counts : FaultCounts
        The counts.
    fitted : FittedVmin
        The constants, and what they predict.
    usage : dict
        Options and keys that make slices of the constants: ``options``, ``keys``, and the Vdd at
        which a third of the entries is faulty, ``third_faulty_volts``.
    """

    counts: FaultCounts
    fitted: FittedVmin
    usage: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The fit as plain values; a number that is unknown is None."""
        return _fit_facts(self.counts, self.fitted) | self.usage


def fit_faults(
    fit: str | os.PathLike[str],
    leave_out: Sequence[float] = (),
    seed: int = 1,
    geometry: str = "gcn",
) -> FaultFit:
    """Fit the distribution of Vmin to counts of faulty bits.

    Parameters
    ----------
    fit : str or path
        CSV file with the columns voltage, faulty_bits, bits, and array, or arrays and
        faultless_arrays; ``shipped``: the counts behind scenario ``measured``.
    leave_out : sequence of float
        Voltages, in V, whose counts the fit does not use, but predicts.
    seed : int
        Seed of the intervals.
    geometry : str
        Slice for which the constants are to be used.

    Returns
    -------
    FaultFit
        Constants with intervals; `FaultFit.as_json` gives what ``--json`` prints.

    Raises
    ------
    UserError
        The counts cannot be read or fitted.
    """
    counts = shipped_counts() if fit == SHIPPED else read_counts(named_file(fit))
    fitted = fit_vmin(counts, tuple(leave_out), seed=seed)
    return FaultFit(counts, fitted, _usage(counts, fitted, preset(geometry)))


def _usage(counts: FaultCounts, fitted: FittedVmin, geometry: SliceGeometry) -> dict[str, Any]:
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


def _arrays(counts: FaultCounts, geometry: SliceGeometry) -> str:
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


def _third_volts(values: dict[str, Any], arrays: str, geometry: SliceGeometry) -> float:
    """Vdd at which a third of the entries of a slice is faulty, to the millivolt."""
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


def _fit_facts(counts: FaultCounts, fitted: FittedVmin) -> dict[str, Any]:
    """The fit as plain values; a number that is unknown is None."""
    return {
        "counts": counts.name,
        "arrays": counts.arrays or None,
        "bits": counts.bits,
        "mended_counts": counts.mended,
        "likelihood": "exact" if fitted.exact else "composite",
        **{
            f"{key}_volts": _numbers(getattr(fitted, key))
            for key in CONSTANTS
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


def _numbers(estimate: Estimate) -> dict[str, float] | None:
    return None if math.isnan(estimate.value) else vars(estimate)
