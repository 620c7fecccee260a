"""Lives in figures: the share of what lives that still works, and causes of death, against age."""

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.ticker import MaxNLocator

from mcage.report.figures import canvas
from mcage.report.figures.curves import CurveFigure
from mcage.stats.estimates import Floats
from mcage.stats.survival import CaseLives, cumulative_incidence, kaplan_meier

NEVER_WORK = 0.99
"""Share dead on arrival above which a case is named, not drawn: its curve lies on the axis."""

MOST_STEPS = 20_000
FINENESS = 1e-4

AGES = 120
"""Equal steps of the time axis at which shares of causes are computed, besides given ages."""


def survival(horizon_years: float, what: str) -> CurveFigure:
    """Survival curves of cases with their numbers at risk; ``what`` is what lives."""
    return CurveFigure(
        name="survival",
        title=f"{what[0].upper()}{what[1:]} that still work, {canvas.PERCENT} bands",
        caption=f"Share of the {what} that still work at each age: Kaplan-Meier curves with "
        f"pointwise {canvas.PERCENT} bands, on the scale of log(-log S). Lives are censored at "
        f"{horizon_years:g} years, where the simulation ends. An instance has the same dies and "
        "the same workloads in every curve of a panel, so that these are not independent of each "
        f"other. At risk: {what} that are alive just before the age. Cases with more than "
        f"{100 * NEVER_WORK:g} % dead on arrival are named, not drawn.",
        x_label="age (years)",
        y_label=f"{what} that still work (% of all)",
        x_limits=(0.0, horizon_years),
        y_limits=(0.0, 103.0),
        rows_title="at risk:",
        worth=f"the mean life up to {horizon_years:g} years",
        unit=" years",
    )


def alive(lives: CaseLives, panel: str = "") -> canvas.CasePart:
    """Part of a survival figure that shows a case: its curve from age 0 to the horizon.

    Of more than `MOST_STEPS` steps, those are left out that change a share by less than `FINENESS`
    of the range of the curve, so that a case of any number of instances takes the same memory.
    """
    mean = float(lives.years.mean(dtype=np.float64))
    dead = float(np.mean(lives.years == 0))
    if dead > NEVER_WORK:
        why = f"not drawn, {100 * dead:.4g} % dead on arrival"
        return canvas.CasePart(None, panel, why, mean)
    curve = kaplan_meier(lives.years, lives.died)
    shares = [
        np.concatenate([[1.0], part, part[-1:] if part.size else [1.0]])
        for part in (curve.survival, curve.lower, curve.upper)
    ]
    years = np.concatenate([[0.0], curve.years, [lives.horizon_years]])
    keep = np.ones(years.size, dtype=bool)
    if years.size > MOST_STEPS:
        keep = canvas.kept_steps(shares, FINENESS)
    ages = np.array(MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(0.0, lives.horizon_years))
    ages = ages[(ages >= 0) & (ages <= lives.horizon_years)]
    at_risk = lives.years.size - np.searchsorted(np.sort(lives.years), ages)
    series = canvas.Series(lives.label, years[keep], *(100 * share[keep] for share in shares))
    return canvas.CasePart(series, panel, worth=mean, row=(tuple(ages), tuple(at_risk.tolist())))


def causes(horizon_years: float, what: str) -> CurveFigure:
    """Cumulative incidences of causes of death, a panel for each that ends a life."""
    return CurveFigure(
        name="causes",
        title=f"Causes of death, {canvas.PERCENT} bands",
        caption=f"Share of all {what} that a cause has ended by each age, while the other causes "
        f"compete (Aalen-Johansen), with pointwise {canvas.PERCENT} bands after Wilson. Who is "
        "dead on arrival has died at age 0. Causes that end no life have no panel, and cases of "
        "which a cause ends none have no curve.",
        x_label="age (years)",
        y_label=f"dead of the cause (% of all {what})",
        x_limits=(0.0, horizon_years),
        y_limits=(0.0, 103.0),
        worth=f"the share that it has ended by {horizon_years:g} years",
        unit=" %",
        without="ends none of",
    )


def dead(lives: CaseLives, names: Mapping[int, str], ages: Floats) -> Iterator[canvas.CasePart]:
    """Part of a figure of causes that shows a case.

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
    for cause, name in names.items():
        if (lives.cause == cause).any():
            of = cumulative_incidence(lives.years, lives.died, lives.cause == cause, grid)
            shares = (100 * share for share in (of.share, of.lower, of.upper))
            series = canvas.Series(lives.label, of.years, *shares)
            yield canvas.CasePart(series, name, worth=float(series.y[-1]))
