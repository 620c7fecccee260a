"""Duty cycles by bit and by register, from the kernels of the spec on a slice without faults."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from mcage.replays.most_stressed import DutyCycles
from mcage.report.figures.curves import Curve, CurveFigure, CurvePanel
from mcage.report.figures.figure import ReportFigure
from mcage.report.figures.sheet import Sheet, extremes
from mcage.report.figures.style import looks_of
from mcage.stats.estimates import Floats
from mcage.sweep.plan import SweepPlan

BITS = 32
"""Bits of a component of a register."""


def draw(plan: SweepPlan, names: Mapping[str, str], sheet: Sheet) -> Iterator[ReportFigure]:
    """Draw duty cycles of the techniques of a sweep.

    Parameters
    ----------
    plan : SweepPlan
        Plan of the sweep; its replays are computed unless they are kept on disk.
    names : mapping of str to str
        The techniques that are drawn, by the names that figures show.
    sheet : Sheet
        What figures are drawn on.
    """
    of_bits: tuple[list[Curve], list[Curve]] = [], []
    of_entries: tuple[list[Curve], list[Curve]] = [], []
    for name, technique in names.items():
        duties = plan.fault_free[technique].duties
        for which, of_state in enumerate((duties.at_zero, duties.at_one)):
            other = (duties.at_one, duties.at_zero)[which]
            of_bits[which].append(_steps(name, _by_bit(of_state, other)))
            entries = _by_entry(of_state, other, plan.geometry.entries)
            of_entries[which].append(_steps(name, entries))
    kernels = f"{len(plan.traces)} kernel{'s' if len(plan.traces) > 1 else ''}"
    replayed = replace(sheet, population=f"{kernels}, replayed without faults")
    looks = looks_of(names)
    for figure, curves in ((_bits(), of_bits), (_entries(plan.geometry.entries), of_entries)):
        panels = [
            CurvePanel(title, tuple(part), alt=_alt(title, part))
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


def _steps(name: str, shares: Floats) -> Curve:
    """Curve in percent whose last step is as long as the others."""
    return Curve(name, np.arange(shares.size + 1.0), 100 * np.append(shares, shares[-1:]))


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


def _alt(title: str, curves: list[Curve]) -> str:
    """Which technique has the longest and the shortest duty cycle."""
    longest = {curve.name: float(np.nanmax(curve.y)) for curve in curves}
    return extremes(title, "the largest value of a curve", longest, " %")
