"""Figures of injections: outcomes by bit and by register, and wrong answers against age."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from mcage.report.figures.canvas import PERCENT, ReportFigure, Sheet
from mcage.report.figures.curves import Curve, CurveFigure, CurvePanel
from mcage.stats.estimates import wilson
from mcage.studies.injection.outcomes import DETECTED, Fate

AGES = 61
"""Points of a curve against age."""

OUTCOMES: Mapping[str, tuple[Fate, ...]] = {
    "masked": (Fate.MASKED,),
    "wrong, tolerable": (Fate.TOLERABLE,),
    "wrong, beyond": (Fate.SDC,),
    "detected": DETECTED,
}
"""What curves show, and which fates each counts."""


def of_flips(results: xr.Dataset, sheet: Sheet) -> Iterator[ReportFigure]:
    """Outcome of flips by bit and by register, a panel for each case, at the last age."""
    fate = results["fate"].transpose("case", "instance", "age").values[..., -1]
    cases = results["case"].values.tolist()
    for variable, what in (("flip_bit", "bit"), ("flip_register", "register")):
        hit = results[variable].transpose("case", "instance").values
        panels = [_panel(str(cases[row]), hit[row], fate[row]) for row in range(len(cases))]
        yield from CurveFigure(
            f"outcome-by-{what}",
            f"Outcome of flips by {what}, {PERCENT} bands",
            f"Shares of the flips of needed bits by the {what} that was hit, with Wilson's bands. "
            "Of compressed values, of which many lanes hang on one cell, no bit is shown.",
            what,
            "flips (%)",
            kind="line",
            y_limits=(0.0, 103.0),
        ).pages(panels, sheet)


def _panel(case: str, hit: NDArray[Any], fate: NDArray[Any]) -> CurvePanel:
    places = np.unique(hit[hit >= 0])
    of_place = [fate[hit == place] for place in places]
    curves = tuple(
        _curve(name, case, places, [np.isin(fates, of) for fates in of_place])
        for name, of in OUTCOMES.items()
    )
    return CurvePanel(case, curves)


def _curve(name: str, case: str, x: NDArray[Any], happens: Sequence[NDArray[np.bool_]]) -> Curve:
    """Share in which something happens, at each place, in percent."""
    share = np.array([each.mean() for each in happens])
    lower, upper = wilson(share, np.array([float(len(each)) for each in happens]))
    return Curve(name, x.astype(np.float64), 100 * share, 100 * lower, 100 * upper, case)


def of_slices(results: xr.Dataset, sheet: Sheet) -> Iterator[ReportFigure]:
    """Wrong answers of slices against their age, and what has told of them."""
    last = float(results["age"].values[-1])
    cases, ages = results["case"].values.tolist(), np.linspace(0.0, last, AGES)
    panels = []
    for title, variable in (
        ("silently wrong before anything told", "silent_years"),
        ("told, by an error or a test", "told_years"),
    ):
        years = results[variable].transpose("case", "instance").values
        curves = tuple(
            _curve(str(case), str(case), ages, list(years[row] <= ages[:, None]))
            for row, case in enumerate(cases)
        )
        panels.append(CurvePanel(title, curves))
    yield from CurveFigure(
        "wrong-by-age",
        f"Wrong answers against age, {PERCENT} bands",
        "Share of the slices that have given a silently wrong answer by an age before anything had "
        "told, and of those of which something has told by then: a detected error, or a test. "
        "Wilson's bands.",
        "age (years)",
        "slices (%)",
        kind="line",
        y_limits=(0.0, 103.0),
    ).pages(panels, sheet)
