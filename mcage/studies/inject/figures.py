"""Figures of injections: outcomes by bit and by register, and wrong answers against age."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from numpy.typing import NDArray

from mcage.report.figures import canvas
from mcage.report.figures.canvas import PERCENT, ReportFigure, Sheet
from mcage.report.figures.curves import CurveFigure
from mcage.stats.estimates import wilson
from mcage.studies.inject.outcomes import DETECTED, NOT_RUN, SILENT, Fate, are_known

AGES = 61
"""Points of a curve against age."""

OUTCOMES: Mapping[str, tuple[str, tuple[Fate, ...]]] = {
    "masked": ("#BBBBBB", (Fate.MASKED,)),
    "wrong, tolerable": ("#E69F00", (Fate.TOLERABLE,)),
    "wrong, beyond": ("#D55E00", (Fate.SDC,)),
    "detected": ("#0072B2", DETECTED),
}
"""Colour of the parts of a bar, from the axis upwards, and which fates each counts."""


@dataclass(frozen=True)
class Hits:
    """Flips of a case.

    Parameters
    ----------
    case : str
        Which.
    hit : int[instance]
        Bit or register that each has hit, negative where none is shown.
    fate : int[instance]
        What has become of each.
    """

    case: str
    hit: NDArray[Any]
    fate: NDArray[Any]


def of_flips(results: xr.Dataset, sheet: Sheet) -> Iterator[ReportFigure]:
    """Outcome of flips by bit and by register, a panel for each case, at the last age."""
    fate = results["fate"].transpose("case", "instance", "age").values[..., -1]
    cases, ran = results["case"].values.tolist(), ~np.isin(fate, NOT_RUN)
    for variable, what in (("flip_bit", "bit"), ("flip_register", "register")):
        hit = results[variable].transpose("case", "instance").values
        hits = [
            Hits(str(case), hit[row, ran[row]], fate[row, ran[row]])
            for row, case in enumerate(cases)
        ]
        panels = [canvas.Panel(of.case, alt=_alt(of, what), cases=(of,)) for of in hits]
        yield from Outcomes(
            f"outcome-by-{what}",
            f"Outcome of flips by {what}",
            f"Shares of the flips by the {what} that was hit; slices that are not in use are left "
            "out. Of compressed values, of which many lanes hang on one cell, and of check bits, "
            "no bit is shown; of several cells, it is that of the one that was drawn.",
            what,
            "flips (%)",
        ).pages(panels, sheet, {})


class Outcomes(canvas.Plot):
    """Stacked bars for each place that was hit."""

    shares_axes = True

    def draw(
        self, axes: Axes, panel: canvas.Panel, looks: canvas.Looks, gid: str
    ) -> tuple[canvas.Series, ...]:
        """Draw the bars of a case."""
        (hits,) = panel.cases
        axes.set_ylim(0, 100)
        return _draw_bars(axes, hits, gid)

    def handles(self, panels: Sequence[canvas.Panel], looks: canvas.Looks) -> Mapping[str, Artist]:
        """The outcomes."""
        return {
            outcome: Patch(**canvas.part_style(colour, place))
            for place, (outcome, (colour, _)) in enumerate(OUTCOMES.items())
        }


def _draw_bars(axes: Axes, panel: Hits, gid: str) -> tuple[canvas.Series, ...]:
    """Draw a bar for each place that was hit; the file of numbers has Wilson's bounds."""
    places = np.unique(panel.hit[panel.hit >= 0])
    of_place = [panel.fate[panel.hit == place] for place in places]
    edges = np.arange(places.max(initial=0) + 2) - 0.5
    below, drawn = np.full(len(edges) - 1, np.nan), []
    below[places] = 0
    for number, (outcome, (colour, of)) in enumerate(OUTCOMES.items()):
        part = _curve(outcome, panel.case, places, [np.isin(fates, of) for fates in of_place])
        above = below.copy()
        above[places] += part.y
        style = canvas.part_style(colour, number)
        bars = axes.stairs(above, edges, baseline=below, fill=True, **style)
        below, name = above, f"{gid}-{number + 1}"
        bars.set_gid(name)
        drawn.append(replace(part, kind="bars", gid=name))
    return tuple(drawn)


def _alt(panel: Hits, what: str) -> str:
    """Which place does most harm unseen."""
    silent = np.isin(panel.fate, SILENT)
    places = np.unique(panel.hit[panel.hit >= 0])
    if not len(places):
        return f"{panel.case}: no {what} is shown."
    shares = [100 * silent[panel.hit == place].mean() for place in places]
    worst = int(np.argmax(shares))
    return (
        f"{panel.case}: {what} {places[worst]} is silently wrong most often, "
        f"in {shares[worst]:.3g} % of the flips."
    )


def _curve(
    name: str, case: str, x: NDArray[Any], happens: Sequence[NDArray[np.bool_]]
) -> canvas.Series:
    """Share in which something happens, at each place, in percent."""
    share = np.array([each.mean() for each in happens])
    lower, upper = wilson(share, np.array([float(len(each)) for each in happens]))
    return canvas.Series(name, x.astype(np.float64), 100 * share, 100 * lower, 100 * upper, case)


def of_slices(results: xr.Dataset, sheet: Sheet) -> Iterator[ReportFigure | canvas.AbsentFigure]:
    """Wrong answers of slices against their age, and what has told of them."""
    name, heading = "wrong-by-age", f"Wrong answers against age, {PERCENT} bands"
    last = float(results["age"].values[-1])
    if not last:
        yield canvas.AbsentFigure(name, heading, "All slices are looked at when they are new.")
        return
    cases, ages = results["case"].values.tolist(), np.linspace(0.0, last, AGES)
    known = are_known(results["fate"].transpose("case", "instance", "age").values)
    panels = []
    for title, variable in (
        ("silently wrong before anything told", "silent_years"),
        ("told, by an error or a test", "told_years"),
    ):
        years = results[variable].transpose("case", "instance").values
        curves = tuple(
            _curve(str(case), str(case), ages, list(years[row, known[row]] <= ages[:, None]))
            for row, case in enumerate(cases)
            if known[row].any()
        )
        panels.append(canvas.Panel(title, curves))
    yield from CurveFigure(
        name,
        heading,
        "Share of the slices that have given a silently wrong answer by an age before anything had "
        "told, and of those of which something has told by then: a detected error, or a test. "
        "Wilson's bands.",
        "age (years)",
        "slices (%)",
        kind="line",
        y_limits=(0.0, 103.0),
    ).pages(panels, sheet)
