"""Causes of death in time: the share of the slices that each cause has ended by each age."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from mcage.report.cases import CAUSES, Named, by_setting, lives_of
from mcage.report.figures.curves import Curve, CurveFigure, CurvePanel
from mcage.report.figures.figure import AbsentFigure, ReportFigure
from mcage.report.figures.sheet import PERCENT, Sheet, listed
from mcage.report.figures.style import looks_of
from mcage.stats.competing_risks import Incidence, cumulative_incidence

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
    lives = lives_of(case)
    even = np.linspace(0.0, lives.horizon_years, AGES + 1)
    ages = np.unique(np.concatenate([even, case["epoch_end_years"].values]))
    dead_by = {
        name: cumulative_incidence(lives.years, lives.died, lives.cause == cause, ages)
        for cause, name in CAUSES.items()
        if (lives.cause == cause).any()
    }
    return Causes(dead_by, lives.horizon_years)


def draw(cases: Sequence[Named[Causes]], sheet: Sheet) -> Iterator[ReportFigure | AbsentFigure]:
    """Draw cumulative incidences: a panel for each setting and each cause that occurs in it."""
    horizon = max(case.numbers.horizon_years for case in cases)
    panels = [
        _panel(f"{setting.title}: {cause}", cause, of_setting)
        for setting, of_setting in by_setting(cases).items()
        for cause in CAUSES.values()
        if any(cause in case.numbers.dead_by for case in of_setting)
    ]
    if not panels:
        reason = f"No life ends before the horizon of {horizon:g} years."
        yield AbsentFigure(NAME, TITLE, reason)
        return
    figure = CurveFigure(
        name=NAME,
        title=TITLE,
        caption="Share of all slices that a cause has ended by each age, while the other causes "
        f"compete (Aalen-Johansen), with pointwise {PERCENT} bands after Wilson. Slices "
        "that are dead on arrival have died at age 0. Causes that end no life of a panel's "
        "setting have no panel, and techniques of which the cause ends none have no curve.",
        x_label="age (years)",
        y_label="dead of the cause (% of all slices)",
        x_limits=(0.0, horizon),
        y_limits=(0.0, 103.0),
    )
    yield from figure.pages(panels, sheet, looks_of(case.technique for case in cases))


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
