"""The figures of a sweep, in the order in which a report shows them."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from mcage.engines.select import select_engine
from mcage.errors import UserError
from mcage.plain_text import visible
from mcage.plugins import is_plugin
from mcage.replays.most_stressed import DutyCycles
from mcage.report.cases import SLOWDOWN_VARIABLES, Named, names_in, points_of, told_beside
from mcage.report.figures import canvas, energy, lives, shifts, slowdown
from mcage.report.figures.curves import CurveFigure
from mcage.report.notes import note_on_code
from mcage.results.axes import identity, points_of_cases
from mcage.spec import SweepSpec
from mcage.stats.estimates import Floats
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.plan import PlannedCase, SweepPlan
from mcage.studies.sweep.presentation import fault_maps
from mcage.studies.sweep.study import Sweep
from mcage.version import running_code


@dataclass(frozen=True)
class Kind:
    """A figure, or a group of figures, of sweeps.

    Parameters
    ----------
    variables : tuple of str
        Variables of the file that it needs.
    numbers : callable
        What it shows of a case, whose variables have been read.
    draw : callable
        Draws the figures from what they show of all cases, and yields them one by one.
    """

    variables: tuple[str, ...]
    numbers: Callable[[xr.Dataset], Any]
    draw: Callable[
        [Sequence[Named[Any]], canvas.Sheet], Iterator[canvas.ReportFigure | canvas.AbsentFigure]
    ]


KINDS = (
    Kind(lives.VARIABLES, lives.numbers_of, lives.draw),
    Kind(lives.CAUSES_VARIABLES, lives.numbers_of_causes, lives.draw_causes),
    Kind(shifts.VARIABLES, shifts.numbers_of, shifts.draw),
    Kind(SLOWDOWN_VARIABLES, slowdown.numbers_of, slowdown.draw),
    Kind(energy.WRITES_VARIABLES, energy.numbers_of_writes, energy.draw_writes),
    Kind(energy.VARIABLES, energy.numbers_of, energy.draw),
)
"""Figures of a sweep, of what its file holds."""

REPLAYED = {
    "duty-bits": "Duty cycles by bit of a register",
    "duty-registers": "Longest duty cycles by register",
    "fault-maps": "Fault maps of a new slice",
}
"""Names and titles of the figures that need the kernels and the dies of the spec again."""


def draw(
    header: SweepHeader, results: xr.Dataset, sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Draw all figures of a sweep, one by one.

    Every variable is read once, case by case. What is kept of a case does not grow with the number
    of instances beyond `mcage.report.figures.lives.MOST_STEPS`.
    """
    needed = {name for kind in KINDS for name in kind.variables}
    shown = results.drop_vars([name for name in results.data_vars if name not in needed])
    numbers: list[list[Named[Any]]] = [[] for _ in KINDS]
    others = told_beside(results)
    for place in range(results.sizes["case"]):
        case = shown.isel(case=place).load()
        for kind, of_cases in zip(KINDS, numbers, strict=True):
            of_cases.append(Named.of(case, kind.numbers(case), others))
    for kind, of_cases in zip(KINDS, numbers, strict=True):
        yield from kind.draw(of_cases, sheet)
    yield from replayed_figures(header, results, sheet)


def replayed_figures(
    header: SweepHeader, results: xr.Dataset, sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Figures that need the traces and the dies of the sweep, or why they cannot be drawn."""
    if not all(running_code().computes_as(code) for code in header.codes):
        warning = f"WARNING: replayed by other code; the file was {note_on_code(header)}"
        sheet = replace(sheet, caveats=(*sheet.caveats, warning))
    try:
        plan = plan_of(header)
        row = int(results["draw"][0]) if header.draws else None
        shown = {identity(point, header.axes) for point in points_of(results)}
        points = points_of_cases(header.axes, plan.cases, plan.spec_values)
        cases = [
            case
            for case, point in zip(plan.cases, points, strict=True)
            if identity(point, header.axes) in shown
        ]
        yield from draw_duty(plan, cases, names_in(results), sheet)
        yield from fault_maps.draw(plan, cases, header.ids[0], row, sheet)
    except UserError as error:
        for name, title in REPLAYED.items():
            yield canvas.AbsentFigure(
                name, title, f"It cannot be drawn again: {visible(str(error))}."
            )


def plan_of(header: SweepHeader) -> SweepPlan:
    """Plan of the sweep of a results file, to replay its kernels and to draw its dies again.

    Other code than that of the file may make it: see `mcage.report.notes.note_on_code`.

    No module of a user is imported because a file names it.

    Raises
    ------
    UserError
        The plan would not be that of the file: it has plug-ins, or its traces are not at hand, or
        these, its techniques or its model are others by now.
    """
    spec = SweepSpec.from_mapping(tomllib.loads(header.spec_toml))
    named = [*spec.techniques, spec.aging.model, str(spec.aging.pbti)]
    if plugins := [name for name in named if is_plugin(name)]:
        raise UserError(f"it needs user-defined code, {plugins[0]}, which no report imports")
    engine, _ = select_engine("numba", None)
    sweep = Sweep(spec, engine)
    if sweep.header.spec_digest != header.spec_digest:
        raise UserError("its traces, techniques or model are others by now")
    return sweep.plan


# Duty cycles by bit and by register, from the kernels of the spec on a slice without faults.

BITS = 32
"""Bits of a component of a register."""


def draw_duty(
    plan: SweepPlan, cases: Sequence[PlannedCase], told: Mapping[str, str], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure]:
    """Draw duty cycles of the techniques of a sweep.

    Parameters
    ----------
    plan : SweepPlan
        Plan of the sweep; its replays are computed unless they are kept on disk.
    cases : sequence of PlannedCase
        Cases of the plan whose techniques are drawn, each once whatever protects its entries.
    told : mapping of str to str
        Names for people of techniques, as of `mcage.report.cases.names_in`.
    sheet : canvas.Sheet
        What figures are drawn on.
    """
    of_bits: tuple[list[canvas.Series], list[canvas.Series]] = [], []
    of_entries: tuple[list[canvas.Series], list[canvas.Series]] = [], []
    techniques = dict.fromkeys(case.case.technique for case in cases)
    names = {told.get(technique, visible(technique)): technique for technique in techniques}
    for name, technique in names.items():
        duties = plan.fault_free[technique].duties
        for which, of_state in enumerate((duties.at_zero, duties.at_one)):
            other = (duties.at_one, duties.at_zero)[which]
            of_bits[which].append(_steps(name, _by_bit(of_state, other)))
            entries = _by_entry(of_state, other, plan.geometry.entries)
            of_entries[which].append(_steps(name, entries))
    kernels = f"{len(plan.traces)} kernel{'s' if len(plan.traces) > 1 else ''}"
    replayed = replace(sheet, population=f"{kernels}, replayed without faults")
    looks = canvas.looks_of(names)
    for figure, curves in ((_bits(), of_bits), (_entries(plan.geometry.entries), of_entries)):
        panels = [
            canvas.Panel(title, tuple(part), alt=_alt(title, part))
            for title, part in zip(("'0' (stresses T0)", "'1' (stresses T1)"), curves, strict=True)
        ]
        yield from figure.pages(panels, replayed, looks)


def _bits() -> CurveFigure:
    return CurveFigure(
        name="duty-bits",
        title="Duty cycles by bit of a register",
        caption="Fraction of the time for which a cell holds '0' or '1', by the bit of the 32-bit "
        "component: mean over all cells of this bit that hold a value at any time, and over the "
        "kernels with equal weights. Cells that are off hold neither.",
        x_label="bit of a component (0: least significant)",
        y_label="mean duty cycle (% of the time)",
        kind="step",
        x_limits=(0.0, float(BITS)),
        y_limits=(0.0, 103.0),
    )


def _entries(count: int) -> CurveFigure:
    return CurveFigure(
        name="duty-registers",
        title="Longest duty cycles by register",
        caption="Largest fraction of the time for which a single cell of a physical register holds "
        "'0' or '1': mean over the kernels with equal weights; a kernel that leaves the register "
        "unused counts as 0. Registers that no kernel uses have no value.",
        x_label="physical register (entry of the slice)",
        y_label="longest duty cycle (% of the time)",
        kind="step",
        x_limits=(0.0, float(count)),
        y_limits=(0.0, 103.0),
    )


def _steps(name: str, shares: Floats) -> canvas.Series:
    """canvas.Series in percent whose last step is as long as the others."""
    return canvas.Series(name, np.arange(shares.size + 1.0), 100 * np.append(shares, shares[-1:]))


def _by_bit(of_state: DutyCycles, other: DutyCycles) -> Floats:
    """Mean duty cycle of each bit, over cells in use and kernels: float64[bits]."""
    means = np.zeros(BITS)
    for kernel, period in enumerate(of_state.period):
        cycles = of_state.cycles[kernel].reshape(-1, BITS)
        used = (cycles > 0) | (other.cycles[kernel].reshape(-1, BITS) > 0)
        held = cycles.sum(axis=0, dtype=np.float64)
        means += held / np.maximum(1, np.count_nonzero(used, axis=0)) / period
    return means / len(of_state.period)


def _by_entry(of_state: DutyCycles, other: DutyCycles, entries: int) -> Floats:
    """Longest duty cycle of a cell of each entry, mean over kernels; NaN where none uses it."""
    longest, of_other = (
        duties.cycles.reshape(len(duties.period), entries, -1).max(axis=2)
        for duties in (of_state, other)
    )
    used = ((longest > 0) | (of_other > 0)).any(axis=0)
    return np.where(used, (longest / of_state.period[:, None]).mean(axis=0), np.nan)


def _alt(title: str, curves: list[canvas.Series]) -> str:
    """Which technique has the longest and the shortest duty cycle."""
    longest = {curve.label: float(np.nanmax(curve.y)) for curve in curves}
    return canvas.extremes(title, "the largest value of a curve", longest, " %")
