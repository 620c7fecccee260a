"""How much slower slices become with age."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from mcage.report.cases import Named, Setting, by_setting, identities, slowdown_by_age
from mcage.report.figures import canvas
from mcage.report.figures.curves import CurveFigure
from mcage.stats.estimates import Floats

QUANTILES = (0.05, 0.95)

TITLE = "Slowdown against age, means, and 5 to 95 % of the slices"


@dataclass(frozen=True)
class Slowing:
    """Slowdown of a case by age, of the slices that live until then.

    Parameters
    ----------
    ages : ndarray of float [age]
        Age 0 and the ends of the epochs, years, as long as slices live.
    mean : ndarray of float [age]
        Mean slowdown, %.
    quantiles : ndarray of float [quantile, age]
        `QUANTILES` of the slowdown, %.
    """

    ages: Floats
    mean: Floats
    quantiles: Floats


def numbers_of(case: xr.Dataset) -> Slowing:
    """Numbers that the figure shows of a case of a results file."""
    ages, slower = slowdown_by_age(case)
    lives = case["life_years"].values
    alive = [slower[place, (lives >= age) & (lives > 0)] for place, age in enumerate(ages)]
    seen = [place for place, values in enumerate(alive) if values.size]
    return Slowing(
        ages=ages[seen],
        mean=np.array([100 * alive[place].mean() for place in seen]),
        quantiles=np.array(
            [[100 * np.quantile(alive[place], share) for place in seen] for share in QUANTILES]
        ),
    )


def draw(
    cases: Sequence[Named[Slowing]], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Draw how slowdown grows with age."""
    looks = canvas.looks_of(identities(cases))
    panels = [
        _panel(setting, of_setting)
        for setting, of_setting in by_setting(cases).items()
        if any(case.numbers.ages.size for case in of_setting)
    ]
    if not panels:
        yield canvas.AbsentFigure("slowdown", TITLE, "No slice of any case works when it is new.")
        return
    yield from CurveFigure(
        "slowdown",
        TITLE,
        "Extra execution time of the mixes of the slices that live until an age, as a fraction of "
        "the time that a conventional slice takes: of new slices, and at the ends of the epochs.",
        "age (years)",
        "slowdown (%)",
    ).pages(panels, sheet, looks)


def _panel(setting: Setting, cases: Sequence[Named[Slowing]]) -> canvas.Panel:
    """The slowdown of the cases of a setting against age."""
    worked = [case for case in cases if case.numbers.ages.size]
    curves = tuple(
        canvas.Series(
            case.technique,
            case.numbers.ages,
            case.numbers.mean,
            lower=case.numbers.quantiles[0],
            upper=case.numbers.quantiles[1],
            case=case.label,
        )
        for case in worked
    )
    never = [case.technique for case in cases if not case.numbers.ages.size]
    return canvas.Panel(
        setting.title,
        curves,
        (f"no slice works: {canvas.listed(never)}",) if never else (),
        canvas.extremes(
            setting.title,
            "the mean slowdown at the last age",
            {curve.label: float(curve.y[-1]) for curve in curves},
            " %",
        ),
    )
