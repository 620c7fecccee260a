"""Figures of injections: outcomes by bit and by register, and wrong answers against age."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from mcage.report.cases import NamedCase, cases_in, named_cases
from mcage.report.figures import canvas
from mcage.report.figures.canvas import PERCENT, Part
from mcage.report.figures.curves import CurveFigure
from mcage.stats.estimates import wilson
from mcage.studies.inject.outcomes import DETECTED, NOT_RUN, Fate, are_known

AGES = 61
"""Points of a curve against age."""

OUTCOMES: Mapping[str, tuple[Fate, ...]] = {
    "masked": (Fate.MASKED,),
    "wrong, tolerable": (Fate.TOLERABLE,),
    "wrong, beyond": (Fate.SDC,),
    "detected": DETECTED,
}
"""Which fates each curve counts."""


def of_flips(results: xr.Dataset) -> Iterator[canvas.Plot | canvas.AbsentFigure]:
    """Outcome of flips by bit and by register, a panel for each case, at the last age."""
    for variable, what in (("flip_bit", "bit"), ("flip_register", "register")):
        plot = CurveFigure(
            f"outcome-by-{what}",
            f"Outcome of flips by {what}, {PERCENT} intervals",
            f"Shares of the flips by the {what} that was hit, with Wilson's intervals; slices that "
            "are not in use are left out. Of compressed values, of which many lanes hang on one "
            "cell, and of check bits, no bit is shown; of several cells, it is that of the one "
            "that was drawn.",
            what,
            "flips (%)",
            shape="points",
            y_limits=(0.0, 103.0),
            worth="the largest share",
            unit=" %",
        )
        panels = []
        for case, of in zip(named_cases(results), cases_in(results), strict=True):
            fate = of["fate"].transpose("instance", "age").values[:, -1]
            hit = of[variable].values
            shown = ~np.isin(fate, NOT_RUN) & (hit >= 0)
            title = f"{case.conditions}: {case.name}"
            panels += [
                (NamedCase(case.places, outcome, title, ""), _shares(hit[shown], of_fate))
                for outcome, fates in OUTCOMES.items()
                for of_fate in (np.isin(fate[shown], fates),)
            ]
        yield plot.of_cases(panels)


def _shares(hit: NDArray[np.integer], happens: NDArray[np.bool_]) -> Iterator[Part]:
    """Share in which something happens, at each place that was hit."""
    places = np.unique(hit)
    if not places.size:
        yield Part(None, why="no place is shown")
        return
    curve = _curve(places.astype(np.float64), [happens[hit == place] for place in places])
    yield Part(curve, worth=float(curve.y.max()))


def _curve(x: NDArray[np.float64], happens: Sequence[NDArray[np.bool_]]) -> canvas.Series:
    """Share in which something happens, at each place, in percent."""
    share = np.array([each.mean() for each in happens])
    lower, upper = wilson(share, np.array([float(len(each)) for each in happens]))
    return canvas.Series("", x, 100 * share, 100 * lower, 100 * upper)


WRONG = {
    "silently wrong before anything told": "silent_years",
    "told, by an error or a test": "told_years",
}


def of_slices(results: xr.Dataset) -> Iterator[canvas.Plot | canvas.AbsentFigure]:
    """Wrong answers of slices against their age, and what has told of them."""
    plot = CurveFigure(
        "wrong-by-age",
        f"Wrong answers against age, {PERCENT} bands",
        "Share of the slices that have given a silently wrong answer by an age before anything had "
        "told, and of those of which something has told by then: a detected error, or a test. "
        "Wilson's bands.",
        "age (years)",
        "slices (%)",
        y_limits=(0.0, 103.0),
        worth="the last share",
        unit=" %",
    )
    last = float(results["age"].values[-1])
    if not last:
        why = "All slices are looked at when they are new."
        yield canvas.AbsentFigure(plot.name, plot.title, why)
        return
    ages = np.linspace(0.0, last, AGES)

    def parts(case: xr.Dataset) -> Iterator[Part]:
        known = are_known(case["fate"].transpose("instance", "age").values)
        for panel, variable in WRONG.items():
            if not known.any():
                yield Part(None, panel, "not known")
                continue
            curve = _curve(ages, list(case[variable].values[known] <= ages[:, None]))
            yield Part(curve, panel, worth=float(curve.y[-1]))

    cases = zip(named_cases(results), cases_in(results), strict=True)
    yield plot.of_cases((name, parts(case)) for name, case in cases)
