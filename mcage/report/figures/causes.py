"""Causes of death in time: the share of the slices that each cause has ended by each age."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from mcage.report.cases import CAUSES, Named, by_setting, identities, lives_of
from mcage.report.figures.curves import Curve, CurveFigure, CurvePanel
from mcage.report.figures.figure import AbsentFigure, ReportFigure
from mcage.report.figures.sheet import PERCENT, Sheet, listed
from mcage.report.figures.style import looks_of
from mcage.stats.competing_risks import Incidence, cumulative_incidence
from mcage.stats.estimates import Floats
from mcage.stats.survival import CaseLives

VARIABLES = ("life_years", "end_cause")
NAME = "causes"
TITLE = f"Causes of death, {PERCENT} bands"

AGES = 120
"""Equal steps of the time axis at which shares are computed, besides the ends of epochs."""


@dataclass(frozen=True)
class Causes:
    """Causes of death of a case.

    Parameters
    ----------
    dead_by : dict of str to Incidence
        By cause in words: share of all slices that it has ended by each age; causes that end none
        are left out.
    horizon_years : float
        End of the simulated time.
    """

    dead_by: dict[str, Incidence]
    horizon_years: float


def numbers_of(case: xr.Dataset) -> Causes:
    """Numbers that the figure shows of a case of a results file."""
    numbers = {int(cause): name for cause, name in CAUSES.items()}
    return causes_of(lives_of(case), numbers, case["epoch_end_years"].values)


def causes_of(lives: CaseLives, names: Mapping[int, str], ages: Floats) -> Causes:
    """Causes of death of lives.

    Parameters
    ----------
    lives : CaseLives
        The lives.
    names : mapping of int to str
        Causes in words, by number.
    ages : ndarray of float [age]
        Ages, years, at which shares are computed besides those of a grid.
    """
    even = np.linspace(0.0, lives.horizon_years, AGES + 1)
    grid = np.unique(np.concatenate([even, ages]))
    dead_by = {
        name: cumulative_incidence(lives.years, lives.died, lives.cause == cause, grid)
        for cause, name in names.items()
        if (lives.cause == cause).any()
    }
    return Causes(dead_by, lives.horizon_years)


def draw(cases: Sequence[Named[Causes]], sheet: Sheet) -> Iterator[ReportFigure | AbsentFigure]:
    """Draw cumulative incidences: a panel for each setting and each cause that occurs in it."""
    panels = [
        panel
        for setting, of_setting in by_setting(cases).items()
        for panel in panels_of(f"{setting.title}: ", of_setting)
    ]
    yield from pages(panels, cases, sheet, "slices")


def panels_of(title: str, cases: Sequence[Named[Causes]]) -> list[CurvePanel]:
    """A panel for each cause that ends a life of the cases; its title begins with the given one."""
    names = dict.fromkeys(cause for case in cases for cause in case.numbers.dead_by)
    return [_panel(f"{title}{cause}", cause, cases) for cause in names]


def pages(
    panels: Sequence[CurvePanel], cases: Sequence[Named[Causes]], sheet: Sheet, what: str
) -> Iterator[ReportFigure | AbsentFigure]:
    """Draw the panels of all cases; ``what`` is what lives."""
    horizon = max(case.numbers.horizon_years for case in cases)
    if not panels:
        reason = f"No life ends before the horizon of {horizon:g} years."
        yield AbsentFigure(NAME, TITLE, reason)
        return
    figure = CurveFigure(
        name=NAME,
        title=TITLE,
        caption=f"Share of all {what} that a cause has ended by each age, while the other causes "
        f"compete (Aalen-Johansen), with pointwise {PERCENT} bands after Wilson. Who is dead on "
        "arrival has died at age 0. Causes that end no life have no panel, and cases of which a "
        "cause ends none have no curve.",
        x_label="age (years)",
        y_label=f"dead of the cause (% of all {what})",
        x_limits=(0.0, horizon),
        y_limits=(0.0, 103.0),
    )
    yield from figure.pages(panels, sheet, looks_of(identities(cases)))


def _panel(title: str, cause: str, cases: Sequence[Named[Causes]]) -> CurvePanel:
    shown = [case for case in cases if cause in case.numbers.dead_by]
    curves = tuple(_curve(case, case.numbers.dead_by[cause]) for case in shown)
    at_last = {curve.name: float(curve.y[-1]) for curve in curves}
    most = max(at_last.values())
    names = listed([name for name, percent in at_last.items() if percent == most])
    horizon = shown[0].numbers.horizon_years
    alt = f"{title}: by {horizon:g} years it has ended most lives of {names}, {most:.3g} %."
    others = [case.technique for case in cases if case not in shown]
    return CurvePanel(title, curves, (f"ends none of: {listed(others)}",) if others else (), alt)


def _curve(case: Named[Causes], dead: Incidence) -> Curve:
    share, lower, upper = (100 * part for part in (dead.share, dead.lower, dead.upper))
    return Curve(case.technique, dead.years, share, lower, upper, case.label)
