"""Which protection at which voltage: tables, figure and data of a page.

    python scripts/experiments/which_protection.py FOLDER [--instances 32] [--instances-8t 16]

Computes the sweeps that are not in the folder yet, `which-protection-6t.h5`,
`which-protection-6t-further.h5` and `which-protection-8t.h5`, and prints what they take. Writes
`results/protection/*.csv`, `docs/figures/which-protection.png`, and the tables of
`results/protection/tables.md` and `docs/which-protection.md`, which stand between comments there.
With `--instances-8t 0`, there are no 8T cells.
"""

import argparse
import csv
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

import matplotlib
import numpy as np
from doc_tables import bring_up_to_date, markdown
from matplotlib.figure import Figure

from mcage import run_sweep
from mcage.campaign.progress import progress_on_stderr
from mcage.lifetime import EndCause
from mcage.protection.policy import protection
from mcage.random import stream
from mcage.report.figures.canvas import LOOKS, STYLE, line_of, save
from mcage.report.pareto import Front, front_of_files, objectives
from mcage.results.measures import cases_of
from mcage.results.reader import open_results, read_header
from mcage.soft_errors.rates import soft_errors, upsets
from mcage.spec import SweepSpec
from mcage.stats.estimates import DASH, Estimate, mean, plus_minus, proportion
from mcage.techniques import TECHNIQUES
from mcage.variation.fault_models import EntryFaults, FaultModel
from mcage.variation.scenarios import scenario

ROOT = Path(__file__).parents[2]
CSV = ROOT / "results" / "protection"
PAGE = ROOT / "docs" / "which-protection.md"
TABLES = ROOT / "results" / "protection" / "tables.md"
FIGURE = ROOT / "docs" / "figures" / "which-protection.png"

NAMES = ("baseline", "rc+rar", "disable", "gr-guard", "rrcd", "rrcd+rc+rar")
GUARDS = {
    "6t": ("none", "ecp1", "secded64", "secded32", "secded32+ecp1"),
    "6t-further": ("secded64+ecp1",),
    "8t": ("ecp1", "secded32"),
}
"""Protections of each sweep, whose name begins with that of the cell."""

VOLTS = (0.38, 0.4, 0.42, 0.44, 0.46, 0.48, 0.5, 0.52, 0.54, 0.57, 0.6, 0.7, 0.8)
SHOWN_VOLTS = (0.42, 0.6, 0.8)
ENOUGH = 0.99
"""Share of the slices that must live ten years for a Vdd to be usable."""

SHARD = 16
"""Dies of a shard: what a sweep that is stopped has at most to compute again, for each thread."""

MUCH = 0.55
"""Energy saving of all from which a case of the front is in the table; the file has the others."""

RESAMPLES = 1000
PAIRS = {
    "the best of each kind": None,
    "`rrcd`, `baseline`": ("rrcd", "baseline"),
    "`rrcd`, `rc+rar`": ("rrcd", "rc+rar"),
    "`gr-guard`, `baseline`": ("gr-guard", "baseline"),
    "`rrcd+rc+rar`, `rc+rar`": ("rrcd+rc+rar", "rc+rar"),
}
"""Techniques whose curves may cross: one that redirects, and one that does not."""

SHOWN_PAIR = ("rrcd", "baseline")
"""Pair whose crossing the figure shows."""

ASKED = ("none", "ecp1", "secded64", "secded32", "secded64+ecp1", "secded32+ecp1")
"""Protections under which curves are compared."""

COMMON_AVF = 0.33
"""Mean of `baseline` over the ten kernels (docs/soft-errors.md)."""

SLICES = 200
"""New slices whose words count for soft errors at the common AVF."""

BUDGETS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.01, 0.0)
"""Silent errors that are allowed, over those of a conventional slice without a code at 0.8 V."""

CORNERS = {
    "as they are": {},
    "fewer upsets of several cells": {"multi_cell_share": 0.1},
    "more upsets of several cells": {"multi_cell_share": 0.45},
    "flat in Vdd": {"slope_per_volt": 0.9},
    "steep in Vdd": {"slope_per_volt": 3.6},
}
"""Constants of upsets: those of mcage, and the ends of their ranges."""

Floats = np.ndarray
Rows = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Grid:
    """Cases of a sweep by technique, protection and Vdd, on the same dies.

    Attributes
    ----------
    paths : tuple of Path
        Results files.
    place : dict
        Place of the case of a technique, a protection and a Vdd.
    values : dict of str to float[case, instance]
        Whether a slice lives ten years (``alive``), and objectives of `mcage pareto`.
    area : float[case]
        Area added, as a fraction of the slice.
    """

    paths: tuple[Path, ...]
    place: dict[tuple[str, str, float], int]
    values: dict[str, Floats]
    area: Floats

    @classmethod
    def of(cls, *paths: Path) -> "Grid":
        """Cases of results files with the same dies."""
        parts = [cls._of_file(path) for path in paths]
        keys = [key for part in parts for key in part.place]
        return cls(
            paths,
            {key: place for place, key in enumerate(keys)},
            {name: np.concatenate([p.values[name] for p in parts]) for name in parts[0].values},
            np.concatenate([part.area for part in parts]),
        )

    @classmethod
    def _of_file(cls, path: Path) -> "Grid":
        with open_results(path) as results:
            volts = results["vdd_volts"].values.round(3).tolist()
            names = (results[name].values.tolist() for name in ("technique", "protection"))
            keys = list(zip(*names, volts, strict=True))
            wanted = ("energy_saving_of_all", "due_fit", "sdc_fit", "slowdown", "power_mw:min")
            chosen = objectives(read_header(path), (*wanted, "area"))
            needed = {name for of in chosen for name in of.variables}
            cases = list(cases_of(results, ("case",), needed))
            values = {of.key: np.array([of.of(case) for case in cases]) for of in chosen}
            area = values.pop("area")
            values["alive"] = (results["end_cause"].values == EndCause.CENSORED).astype(float)
            values["dead_on_arrival"] = (results["life_years"].values == 0).astype(float)
        return cls((path,), {key: place for place, key in enumerate(keys)}, values, area)

    @property
    def guards(self) -> list[str]:
        return list(dict.fromkeys(guard for _, guard, _ in self.place))

    @property
    def volts(self) -> list[float]:
        return sorted({vdd for *_, vdd in self.place})

    @property
    def instances(self) -> int:
        return self.values["alive"].shape[1]

    def share(self, place: int) -> Estimate:
        alive = self.values["alive"][place]
        return proportion(int(alive.sum()), alive.size)

    def mean(self, name: str, place: int) -> Estimate:
        return mean(self.values[name][place])

    def row(self, key: tuple[str, str, float]) -> dict[str, Any]:
        """All numbers of a case."""
        place = self.place[key]
        row: dict[str, Any] = dict(zip(("technique", "protection", "vdd_volts"), key, strict=True))
        row |= _numbers("alive", self.share(place))
        for name in self.values:
            if name != "alive":
                row |= _numbers(name, self.mean(name, place))
        return row | {"area": f"{self.area[place]:.6g}", "instances": self.instances}

    def lowest(self, name: str, guard: str, alive: Floats) -> int | None:
        """Place of the lowest Vdd from which on enough slices live at each Vdd of the grid."""
        lowest = None
        for vdd in reversed(self.volts):
            place = self.place[name, guard, vdd]
            if alive[place] < ENOUGH:
                break
            lowest = place
        return lowest

    @property
    def resampled(self) -> Iterator[tuple[Floats, Floats]]:
        """Share alive and energy saving of all cases, for each resample of the dies."""
        generator = stream(1, "which-protection", 0)
        count = self.instances
        for _ in range(RESAMPLES):
            weights = generator.multinomial(count, np.full(count, 1 / count)) / count
            yield self.values["alive"] @ weights, self.values["energy_saving_of_all"] @ weights


def _numbers(name: str, of: Estimate) -> dict[str, str]:
    return {f"{name}_{key}": _digits(number) for key, number in vars(of).items()}


def _digits(number: float) -> str:
    return "" if np.isnan(number) else f"{number:.6g}"


def computed(folder: Path, cell: str, instances: int) -> Path:
    """Results file of the sweep of a cell, computed unless it is there."""
    path = folder / f"which-protection-{cell}.h5"
    spec = SweepSpec.from_mapping(
        {
            "techniques": list(NAMES),
            "protections": list(GUARDS[cell]),
            "environments": ["undervolted"],
            "scenarios": ["common"],
            "vdd_volts": list(VOLTS),
            "instances": instances,
            "faults": {"cell": cell[:2]},
        },
        path.name,
    )
    if path.exists():
        return run_sweep(spec, path, shard_size=SHARD, progress=progress_on_stderr())
    began, before = time.monotonic(), _processor_seconds()
    run_sweep(spec, path, shard_size=SHARD, progress=progress_on_stderr())
    wall, used = time.monotonic() - began, _processor_seconds() - before
    cases = len(NAMES) * len(GUARDS[cell]) * len(VOLTS)
    print(
        f"{path}: {cases} cases x {instances} dies in {wall:.0f} s of wall time and {used:.0f} s "
        f"of processor time, {1000 * used / cases / instances:.2f} ms a case and die"
    )
    return path


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(of.ru_utime + of.ru_stime for of in used)


# From which Vdd on slices live, and what they save there.


def lowest_rows(grid: Grid) -> Rows:
    alive = grid.values["alive"].mean(axis=1)
    keys = {place: key for key, place in grid.place.items()}
    lowest = [grid.lowest(name, guard, alive) for guard in grid.guards for name in NAMES]
    return [grid.row(keys[place]) for place in lowest if place is not None]


def lowest_table(grid: Grid) -> str:
    """Lowest Vdd and energy saving: a line for each protection, a column for each technique."""
    by_pair = {(row["protection"], row["technique"]): row for row in lowest_rows(grid)}

    def cell(guard: str, name: str) -> str:
        row = by_pair.get((guard, name))
        return f"{row['vdd_volts']:g} V: {_saved(row)}" if row else DASH

    return markdown(
        ["protection", *(f"`{name}`" for name in NAMES)],
        [[f"`{guard}`", *(cell(guard, name) for name in NAMES)] for guard in grid.guards],
    )


def _saved(row: dict[str, Any]) -> str:
    return f"{100 * float(row['energy_saving_of_all_value']):.1f}"


def best_table(grid: Grid) -> str:
    """Of each protection, what saves most and lives: among techniques that redirect and others."""
    lines = []
    for guard in grid.guards:
        for kind, redirects in (("redirects", True), ("does not", False)):
            usable = [
                row
                for row in usable_rows(grid)
                if row["protection"] == guard
                and TECHNIQUES[row["technique"]].redirects == redirects
            ]
            if not usable:
                lines.append([f"`{guard}`", kind, *[DASH] * 8])
                continue
            row = max(usable, key=lambda row: float(row["energy_saving_of_all_value"]))
            lines.append([f"`{guard}`", kind, f"`{row['technique']}`", *best_cells(grid, row)])
    return markdown(
        [
            *("protection", "technique", "which", "Vdd", "live ten years, %"),
            *("energy saved by all, %", "power, mW", "area added, %", "DUE, FIT", "SDC, FIT"),
        ],
        lines,
    )


@cache
def usable_rows(grid_of: "Grid") -> Rows:
    """Cases whose slices live, with all numbers."""
    alive = grid_of.values["alive"].mean(axis=1)
    return [grid_of.row(key) for key, place in grid_of.place.items() if alive[place] >= ENOUGH]


def best_cells(grid: Grid, row: dict[str, Any]) -> list[str]:
    place = grid.place[row["technique"], row["protection"], row["vdd_volts"]]
    return [
        f"{row['vdd_volts']:g} V",
        _share(grid.share(place)),
        plus_minus(grid.mean("energy_saving_of_all", place), 100),
        plus_minus(grid.mean("power_mw", place)),
        f"{100 * grid.area[place]:.1f}",
        plus_minus(grid.mean("due_fit", place)),
        plus_minus(grid.mean("sdc_fit", place)),
    ]


def _share(of: Estimate) -> str:
    return f"{100 * of.value:.1f} [{100 * of.lower:.1f}, {100 * of.upper:.1f}]"


def at_table(grid: Grid, vdd: float, cell: Callable[[Grid, int], str]) -> str:
    """A number of all cases at a Vdd: a line for each technique, a column for each protection."""
    return markdown(
        ["technique", *(f"`{guard}`" for guard in grid.guards)],
        [
            [f"`{name}`", *(cell(grid, grid.place[name, guard, vdd]) for guard in grid.guards)]
            for name in NAMES
        ],
    )


def life_and_saving(grid: Grid, place: int) -> str:
    """Share that lives ten years, and energy saved by all."""
    saved = 100 * grid.mean("energy_saving_of_all", place).value
    return f"{100 * grid.share(place).value:.0f}; {saved:.1f}"


def soft(grid: Grid, place: int) -> str:
    """DUE and SDC of the slices that work, where at least half of them do."""
    if grid.values["dead_on_arrival"][place].mean() > 0.5:
        return DASH
    due, sdc = (grid.mean(name, place).value for name in ("due_fit", "sdc_fit"))
    return f"{due:.2g}; {sdc:.2g}"


# Where redirection pays.


def crossing_rows(grid: Grid) -> Rows:
    """Where curves of energy over Vdd cross, with intervals, by protection and pair."""
    guards = [guard for guard in ASKED if guard in grid.guards]
    kinds = {
        (guard, pair): tuple(
            np.array([[grid.place[name, guard, vdd] for vdd in grid.volts] for name in names])
            for names in _sides(of)
        )
        for guard in guards
        for pair, of in PAIRS.items()
    }
    point = {
        key: _crossing(grid, grid.values["energy_saving_of_all"].mean(axis=1), sides)
        for key, sides in kinds.items()
    }
    most = {
        key: _gain(
            grid, *(grid.values[n].mean(axis=1) for n in ("alive", "energy_saving_of_all")), sides
        )
        for key, sides in kinds.items()
    }
    crossed: dict[Any, list[float]] = {key: [] for key in kinds}
    gained: dict[Any, list[float]] = {key: [] for key in kinds}
    for alive, saving in grid.resampled:
        for key, sides in kinds.items():
            crossed[key].append(_crossing(grid, saving, sides))
            gained[key].append(_gain(grid, alive, saving, sides))
    rows = []
    for key in kinds:
        lower, upper = _bounds(crossed[key])
        least, largest = _bounds(gained[key])
        never = float(np.mean([np.isneginf(vdd) for vdd in crossed[key]]))
        rows.append(
            dict(zip(("protection", "pair"), key, strict=True))
            | {"pays_below_volts": point[key], "lower": lower, "upper": upper}
            | {"never_pays_share": never, "gain_at_best": most[key]}
            | {"gain_lower": least, "gain_upper": largest}
        )
    return rows


def _sides(pair: tuple[str, str] | None) -> tuple[list[str], list[str]]:
    if pair is not None:
        return [pair[0]], [pair[1]]
    redirecting = [name for name in NAMES if TECHNIQUES[name].redirects]
    return redirecting, [name for name in NAMES if name not in redirecting]


def _crossing(grid: Grid, saving: Floats, sides: tuple[Floats, Floats]) -> float:
    """End of the lowest range of Vdd in which the first side saves more; inf if it has none.

    -inf if it saves more nowhere. Where no slice of either side works, neither does.
    """
    first, second = (saving[side].max(axis=0) for side in sides)
    ahead, volts = first - second, grid.volts
    pays = ahead > 1e-6
    if not pays.any():
        return -np.inf
    beyond = np.flatnonzero(~pays & (np.cumsum(pays) > 0))
    if not beyond.size:
        return np.inf
    last = int(beyond[0]) - 1
    step = ahead[last] / (ahead[last] - ahead[last + 1])
    return float(volts[last] + step * (volts[last + 1] - volts[last]))


def _gain(grid: Grid, alive: Floats, saving: Floats, sides: tuple[Floats, Floats]) -> float:
    """Energy that the first side saves more, each at the Vdd at which it lives and saves most."""
    first, second = (np.where(alive[s] >= ENOUGH, saving[s], -np.inf).max() for s in sides)
    return float(first - second)


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    ordered = np.sort(np.nan_to_num(values, nan=-np.inf, posinf=np.inf, neginf=-np.inf))
    return float(ordered[int(0.025 * len(ordered))]), float(ordered[int(0.975 * len(ordered)) - 1])


def crossing_table(rows: Rows) -> str:
    lines = [
        [
            f"`{row['protection']}`",
            row["pair"],
            _volts(row["pays_below_volts"]),
            f"[{_volts(row['lower'])}, {_volts(row['upper'])}]",
            f"{_points(row['gain_at_best'])} "
            f"[{_points(row['gain_lower'])}, {_points(row['gain_upper'])}]",
        ]
        for row in rows
    ]
    return markdown(
        [
            *("protection", "who redirects, who does not", "saves more below, V", "95 %"),
            "saves more, each at its best Vdd, points",
        ],
        lines,
    )


def _points(gain: float) -> str:
    """Difference of energy; of what lives at no Vdd, nothing is saved."""
    return f"{100 * gain:+.1f}" if np.isfinite(gain) else "–"


def _volts(vdd: float) -> str:
    if np.isinf(vdd):
        return "at none" if vdd < 0 else "at all"
    return f"{vdd:.3f}"


# The front.


def front_table(front: Front) -> str:
    likely = [d for d in front.designs if d.front_probability > 0.05]
    likely = [d for d in likely if d.objectives["energy_saving_of_all"].value > MUCH]
    likely.sort(key=lambda d: -d.objectives["energy_saving_of_all"].value)
    return markdown(
        [
            *("technique", "Vdd", "mean life up to ten years", "energy saved by all, %"),
            *("area added, %", "SDC, FIT", "probability, %"),
        ],
        [
            [
                f"`{d.point['technique']}`",
                f"{d.point['vdd_volts']:g} V",
                f"{d.objectives['rmst_years'].value:.2f}",
                plus_minus(d.objectives["energy_saving_of_all"], 100),
                f"{100 * d.objectives['area'].value:.1f}",
                f"{d.objectives['sdc_fit'].value:.2g}",
                f"{100 * d.front_probability:.0f}",
            ]
            for d in likely
        ],
    )


def front_rows(front: Front) -> Rows:
    rows = []
    for d in front.designs:
        row: dict[str, Any] = {name: d.point[name] for name in ("technique", "vdd_volts")}
        for name, of in d.objectives.items():
            row |= _numbers(name, of)
        rows.append(row | {"on_front": d.on_front, "probability": d.front_probability})
    return rows


# Soft errors at one AVF, and a budget of silent ones.


@cache
def words_of(guard: str, vdd: float) -> tuple[float, float]:
    """Words of a new slice in use whose code is spent, and its words in use, on the mean."""
    model, given = FaultModel(scenario("common")), protection(guard)
    cells = model.sample(1, np.arange(SLICES), vdd, given)
    if given.code is None:
        return 0.0, float(model.scenario.geometry.cells // 32)
    faults = EntryFaults.none(SLICES, given).more(cells, cells.vmin_volts > vdd)
    usable = (faults.maps == 0).mean(axis=1)
    words = model.scenario.geometry.cells // given.word_bits
    at_risk = faults.uncovered().words / np.maximum(usable, 1e-9)
    return float(np.minimum(at_risk, words).mean()), float(words)


@cache
def rates_of(guard: str, vdd: float, corner: str = "as they are") -> tuple[float, float, float]:
    """Corrected, detected and silent soft errors at the common AVF, FIT of a slice."""
    at_risk, words = words_of(guard, vdd)
    given = protection(guard)
    cells = upsets("28nm", vdd, **CORNERS[corner])
    counts = [words - at_risk, at_risk, 0]
    errors = soft_errors(counts, COMMON_AVF, cells, given.code, given.interleave)
    return tuple(float(of) for of in (errors.corrected, errors.due, errors.sdc))


SOFT_GUARDS = ("none", "secded64", "secded32", "secded32x16", "secded64+ecp1", "secded32+ecp1")


def soft_rows() -> Rows:
    base = rates_of("none", 0.8)[2]
    return [
        {"protection": guard, "vdd_volts": vdd, "words_at_risk": _digits(words_of(guard, vdd)[0])}
        | {
            name: _digits(rate / base)
            for name, rate in zip(("corrected", "due", "sdc"), rates_of(guard, vdd), strict=True)
        }
        for guard in SOFT_GUARDS
        for vdd in VOLTS
    ]


def soft_table(rows: Rows) -> str:
    """DUE and SDC by protection and Vdd, over the SDC of an unprotected slice at 0.8 V."""
    shown = (0.38, 0.4, 0.42, 0.46, 0.5, 0.6, 0.8)
    by_place = {(row["protection"], row["vdd_volts"]): row for row in rows}
    return markdown(
        ["protection", *(f"{vdd:g} V" for vdd in shown)],
        [
            [
                f"`{guard}`",
                *(
                    f"{float(by_place[guard, vdd]['due']):.2g}; "
                    f"{float(by_place[guard, vdd]['sdc']):.2g}"
                    for vdd in shown
                ),
            ]
            for guard in SOFT_GUARDS
        ],
    )


def budget_rows(grid: Grid) -> Rows:
    """The usable design that saves most within a budget of silent errors, by constants."""
    rows = []
    base = grid.mean("sdc_fit", grid.place["baseline", "none", 0.8]).value
    for corner in CORNERS:
        most = base * _moved("none", 0.8, corner)
        silent = [(_silent(row, corner) / most, row) for row in usable_rows(grid)]
        for budget in BUDGETS:
            within = [(share, row) for share, row in silent if share <= budget + 1e-9]
            if not within:
                continue
            share, best = max(within, key=lambda of: float(of[1]["energy_saving_of_all_value"]))
            rows.append(
                {"constants": corner, "budget": budget, "sdc_share": _digits(share)}
                | {key: best[key] for key in ("technique", "protection", "vdd_volts")}
                | {"saved": float(best["energy_saving_of_all_value"])}
            )
    return rows


def _silent(row: dict[str, Any], corner: str) -> float:
    """Silent errors of a case with other constants: rates are proportional to the AVF."""
    return float(row["sdc_fit_value"]) * _moved(row["protection"], row["vdd_volts"], corner)


def _moved(guard: str, vdd: float, corner: str) -> float:
    usual = rates_of(guard, vdd)[2]
    return rates_of(guard, vdd, corner)[2] / usual if usual else 1.0


def budget_table(rows: Rows) -> str:
    by_place = {(row["budget"], row["constants"]): row for row in rows}

    def cell(budget: float, corner: str) -> str:
        row = by_place.get((budget, corner))
        if row is None:
            return DASH
        label = f"`{row['technique']}@{row['protection']}`"
        return f"{label} {row['vdd_volts']:g} V: {100 * row['saved']:.1f}"

    return markdown(
        ["silent errors allowed", *CORNERS],
        [[f"{budget:g}", *(cell(budget, corner) for corner in CORNERS)] for budget in BUDGETS],
    )


# The figure, and all together.


def figure(grid: Grid, rows: Rows) -> Figure:
    """Energy saved by all over Vdd, a panel for each protection; the line is the crossing."""
    picture = Figure(figsize=(7.8, 5.2), layout="constrained")
    panels = picture.subplots(2, 2, sharex=True, sharey=True)
    guards = ("ecp1", "secded64", "secded64+ecp1", "secded32+ecp1")
    for axes, guard in zip(panels.flat, guards, strict=True):
        for name in NAMES:
            places = [grid.place[name, guard, vdd] for vdd in grid.volts]
            saved = 100 * grid.values["energy_saving_of_all"][places].mean(axis=1)
            look = LOOKS[name]
            axes.plot(
                *(grid.volts, saved),
                color=look.colour,
                dashes=look.dashes or (None, None),
                marker=look.marker,
                ms=3,
                lw=1.0,
            )
        crossing = next(
            r for r in rows if r["protection"] == guard and PAIRS[r["pair"]] == SHOWN_PAIR
        )
        if np.isfinite(crossing["pays_below_volts"]):
            axes.axvline(crossing["pays_below_volts"], color="0.4", lw=0.8)
            axes.axvspan(crossing["lower"], crossing["upper"], color="0.85", zorder=0)
        axes.set_title(guard, fontsize=9)
        axes.set_xlabel("Vdd (V)")
        axes.label_outer()
    picture.supylabel("energy saved by all slices over 0.8 V (%)", fontsize=9)
    handles = [line_of(LOOKS[name]) for name in NAMES]
    picture.legend(handles, NAMES, loc="outside lower center", ncols=4, fontsize=8)
    return picture


def write_csv(name: str, rows: Rows) -> None:
    CSV.mkdir(parents=True, exist_ok=True)
    with (CSV / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def tables_of_6t(grid: Grid) -> dict[str, str]:
    """All tables of 6T cells; writes data and the figure."""
    crossings, softs, budget = crossing_rows(grid), soft_rows(), budget_rows(grid)
    front = front_of_files(
        grid.paths,
        ("rmst_years", "energy_saving_of_all", "area", "sdc_fit"),
        allowed=["protections"],
        resamples=RESAMPLES,
    )
    write_csv("crossings.csv", crossings)
    write_csv("soft-errors.csv", softs)
    write_csv("budgets.csv", budget)
    write_csv("front.csv", front_rows(front))
    with matplotlib.rc_context(STYLE):
        save(figure(grid, crossings), FIGURE)
    tables = {
        "best": best_table(grid),
        "crossings": crossing_table(crossings),
        "front": front_table(front),
        "soft errors": soft_table(softs),
        "budgets": budget_table(budget),
    }
    for vdd in SHOWN_VOLTS:
        tables[f"at {vdd:g} V"] = at_table(grid, vdd, life_and_saving)
        tables[f"soft errors at {vdd:g} V"] = at_table(grid, vdd, soft)
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the results files are, or will be")
    parser.add_argument("--instances", type=int, default=32, help="dies of 6T cells (32)")
    parser.add_argument("--instances-8t", type=int, default=16, help="dies of 8T cells (16)")
    given = parser.parse_args()
    tables: dict[str, str] = {}
    sweeps = {"6t": ("6t", "6t-further"), "8t": ("8t",)}
    for cell, instances in (("6t", given.instances), ("8t", given.instances_8t)):
        if not instances:
            continue
        grid = Grid.of(*(computed(given.folder, name, instances) for name in sweeps[cell]))
        write_csv(f"cases-{cell}.csv", [grid.row(key) for key in grid.place])
        write_csv(f"lowest-{cell}.csv", lowest_rows(grid))
        tables[f"lowest {cell}"] = lowest_table(grid)
        if cell == "6t":
            tables |= tables_of_6t(grid)
        else:
            tables["at 0.42 V 8t"] = at_table(grid, 0.42, life_and_saving)
    bring_up_to_date(TABLES, tables)
    bring_up_to_date(PAGE, {"lowest 6t": tables["lowest 6t"]})
    print("\n".join(f"{name}\n{text}" for name, text in tables.items()))


if __name__ == "__main__":
    main()
