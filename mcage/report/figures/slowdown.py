"""How much slower slices become with age."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xarray as xr

from mcage.report.cases import CAUSES, Named, Setting, by_setting, identities, slowdown_by_age
from mcage.report.figures import canvas, distributions
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
    at_death : dict of str to ndarray of float [slice]
        By cause in words, slowdown in the epoch of death of the slices that it has ended, %; that
        of new slices where these are dead on arrival. Slices of which it is not known, and causes
        without any other, are left out.
    """

    ages: Floats
    mean: Floats
    quantiles: Floats
    at_death: dict[str, Floats]


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
        at_death=_at_death(slower, case["end_cause"].values),
    )


def _at_death(slower: Floats, cause: npt.NDArray[np.int8]) -> dict[str, Floats]:
    """Last slowdown that is known of each slice that has died, by the cause; %."""
    last = np.count_nonzero(~np.isnan(slower), axis=0) - 1  # it is NaN after death
    by_cause = {
        name: 100 * slower[last[here], here]
        for number, name in CAUSES.items()
        for here in [np.flatnonzero((cause == number) & (last >= 0))]
    }
    return {name: values for name, values in by_cause.items() if values.size}


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
    yield from _deaths(cases, sheet, looks)


def _deaths(
    cases: Sequence[Named[Slowing]], sheet: canvas.Sheet, looks: canvas.Looks
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Draw the slowdown in the epoch of death: a panel for each setting and cause."""
    panels = [
        distributions.row_panel(
            f"{setting.title}: {cause}",
            "slowdown in the epoch of death (%)",
            [
                distributions.quantile_row(
                    case.technique, case.numbers.at_death[cause], case=case.label
                )
                for case in named
                if cause in case.numbers.at_death
            ],
        )
        for setting, named in by_setting(cases).items()
        for cause in dict.fromkeys(cause for case in named for cause in case.numbers.at_death)
    ]
    title = f"Slowdown at death by cause, {distributions.BAND} the slices"
    if not panels:
        yield canvas.AbsentFigure(
            "slowdown-at-death", title, "No slice dies of which a slowdown is known."
        )
        return
    caption = (
        "Extra execution time in the epoch in which a slice dies, as a fraction of the time that a "
        "conventional slice takes: medians over the slices that the cause ends and of which "
        "the slowdown is known, when new of those dead on arrival, and as lines their 5 % and 95 % "
        "quantiles."
    )
    figure = distributions.RowFigure("slowdown-at-death", title, caption)
    yield from figure.pages(panels, sheet, looks)


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
