"""Lives in figures: the share of slices that work against age, and causes of death."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.ticker import MaxNLocator

from mcage.report.cases import CAUSES, Named, by_setting, identities, lives_of
from mcage.report.figures import canvas
from mcage.report.figures.curves import CurveFigure
from mcage.stats.estimates import Floats
from mcage.stats.survival import CaseLives, Incidence, cumulative_incidence, kaplan_meier

VARIABLES = ("life_years", "end_cause")

NEVER_WORK = 0.99
"""Share dead on arrival above which a case is named, not drawn: its curve lies on the axis."""

MOST_STEPS = 20_000
FINENESS = 1e-4

X_LABEL = "age (years)"


@dataclass(frozen=True)
class SurvivalCurve:
    """Lives of a case as the figure shows them.

    Parameters
    ----------
    years, alive, lower, upper : ndarray of float [step]
        Kaplan-Meier curve from 0 to the horizon with its band, years and shares; the band is NaN
        where no slice is left.
    ages : ndarray of float [age]
        Ages at which numbers at risk are given, years.
    at_risk : ndarray of int [age]
        Slices that are alive just before each age.
    dead_on_arrival : float
        Share of the slices that never work.
    mean_years : float
        Mean life up to the horizon (RMST).
    """

    years: Floats
    alive: Floats
    lower: Floats
    upper: Floats
    ages: Floats
    at_risk: npt.NDArray[np.int64]
    dead_on_arrival: float
    mean_years: float

    @property
    def never_works(self) -> bool:
        """Whether hardly a slice works when it is new."""
        return self.dead_on_arrival > NEVER_WORK

    def drawn(self, name: str, case: str) -> canvas.Series:
        """Return the curve in percent, with the name of its technique and the label of its case."""
        alive, lower, upper = (100 * part for part in (self.alive, self.lower, self.upper))
        return canvas.Series(name, self.years, alive, lower, upper, case)


def numbers_of(case: xr.Dataset) -> SurvivalCurve:
    """Numbers that the figure shows of a case of a results file."""
    return curve_of(lives_of(case))


def curve_of(lives: CaseLives) -> SurvivalCurve:
    """Survival curve of lives, from age 0 to the horizon.

    Of more than `MOST_STEPS` steps, those are left out that change a share by less than `FINENESS`
    of the range of the curve, so that a case of any number of instances takes the same memory.
    """
    curve = kaplan_meier(lives.years, lives.died)
    alive, lower, upper = (
        np.concatenate([[1.0], part, part[-1:] if part.size else [1.0]])
        for part in (curve.survival, curve.lower, curve.upper)
    )
    years = np.concatenate([[0.0], curve.years, [lives.horizon_years]])
    keep = np.ones(years.size, dtype=bool)
    if years.size > MOST_STEPS:
        keep = canvas.kept_steps((alive, lower, upper), FINENESS)
    ages = np.array(MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(0.0, lives.horizon_years))
    ages = ages[(ages >= 0) & (ages <= lives.horizon_years)]
    return SurvivalCurve(
        years=years[keep],
        alive=alive[keep],
        lower=lower[keep],
        upper=upper[keep],
        ages=ages,
        at_risk=lives.years.size - np.searchsorted(np.sort(lives.years), ages),
        dead_on_arrival=float(np.mean(lives.years == 0)),
        mean_years=float(lives.years.mean(dtype=np.float64)),
    )


def draw(
    cases: Sequence[Named[SurvivalCurve]], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Draw survival curves, a panel for each setting that works, on as many pages as they need."""
    looks = canvas.looks_of(identities(cases))
    panels = [panel_of(setting.title, of_it) for setting, of_it in by_setting(cases).items()]
    figure, works = figure_of(cases), [panel for panel in panels if panel.series]
    if not works:
        reason = f"Of all cases more than {100 * NEVER_WORK:g} % are dead on arrival."
        yield canvas.AbsentFigure(figure.name, figure.title, reason)
        return
    if never := [panel.title for panel in panels if not panel.series]:
        words = f"{figure.caption} None of the cases works in: {'; '.join(never)}."
        figure = replace(figure, caption=words)
    yield from figure.pages(works, sheet, looks)


def figure_of(cases: Sequence[Named[SurvivalCurve]], what: str = "slices") -> CurveFigure:
    """What all panels of a survival figure have in common; ``what`` is what lives."""
    horizon = max(float(case.numbers.years[-1]) for case in cases)
    sentences = [
        f"Share of the {what} that still work at each age: Kaplan-Meier curves with pointwise "
        f"{canvas.PERCENT} bands, on the scale of log(-log S).",
        f"Lives are censored at {horizon:g} years, where the simulation ends.",
        "An instance has the same dies and the same workloads in every curve of a panel, so that "
        "these are not independent of each other.",
        f"At risk: {what} that are alive just before the age.",
    ]
    if any(case.numbers.never_works for case in cases):
        sentences.append(
            f"Cases with more than {100 * NEVER_WORK:g} % dead on arrival are named, not drawn."
        )
    return CurveFigure(
        name="survival",
        title=f"{what[0].upper()}{what[1:]} that still work, {canvas.PERCENT} bands",
        caption=" ".join(sentences),
        x_label=X_LABEL,
        y_label=f"{what} that still work (% of all)",
        x_limits=(0.0, horizon),
        y_limits=(0.0, 103.0),
        rows_title="at risk:",
    )


def panel_of(title: str, cases: Sequence[Named[SurvivalCurve]]) -> canvas.Panel:
    """A panel with the survival curves of cases, and their numbers at risk."""
    drawn = [case for case in cases if not case.numbers.never_works]
    return canvas.Panel(
        title=title,
        series=tuple(case.numbers.drawn(case.technique, case.label) for case in drawn),
        notes=_notes(cases),
        alt=_alt(title, cases),
        rows=tuple(
            (
                case.technique,
                tuple(case.numbers.ages.tolist()),
                tuple(case.numbers.at_risk.tolist()),
            )
            for case in drawn
        ),
    )


def _notes(cases: Sequence[Named[SurvivalCurve]]) -> tuple[str, ...]:
    """Which cases have no curve."""
    never = [case for case in cases if case.numbers.never_works]
    if not never:
        return ()
    shares = [case.numbers.dead_on_arrival for case in never]
    bound = "" if min(shares) == max(shares) else "at least "
    names = canvas.listed([case.technique for case in never])
    return (f"not drawn, {bound}{100 * min(shares):.4g} % dead on arrival: {names}",)


def _alt(title: str, cases: Sequence[Named[SurvivalCurve]]) -> str:
    """Which techniques live longest, and which shortest."""
    years = {case.technique: case.numbers.mean_years for case in cases}
    horizon = cases[0].numbers.years[-1]
    return canvas.extremes(title, f"the mean life up to {horizon:g} years", years, " years")


# Causes of death in time: the share of the slices that each cause has ended by each age.

CAUSES_VARIABLES = ("life_years", "end_cause")
NAME = "causes"
TITLE = f"Causes of death, {canvas.PERCENT} bands"

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


def numbers_of_causes(case: xr.Dataset) -> Causes:
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


def draw_causes(
    cases: Sequence[Named[Causes]], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Draw cumulative incidences: a panel for each setting and each cause that occurs in it."""
    panels = [
        panel
        for setting, of_setting in by_setting(cases).items()
        for panel in panels_of(f"{setting.title}: ", of_setting)
    ]
    yield from pages(panels, cases, sheet, "slices")


def panels_of(title: str, cases: Sequence[Named[Causes]]) -> list[canvas.Panel]:
    """A panel for each cause that ends a life of the cases; its title begins with the given one."""
    names = dict.fromkeys(cause for case in cases for cause in case.numbers.dead_by)
    return [_panel(f"{title}{cause}", cause, cases) for cause in names]


def pages(
    panels: Sequence[canvas.Panel], cases: Sequence[Named[Causes]], sheet: canvas.Sheet, what: str
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Draw the panels of all cases; ``what`` is what lives."""
    horizon = max(case.numbers.horizon_years for case in cases)
    if not panels:
        reason = f"No life ends before the horizon of {horizon:g} years."
        yield canvas.AbsentFigure(NAME, TITLE, reason)
        return
    figure = CurveFigure(
        name=NAME,
        title=TITLE,
        caption=f"Share of all {what} that a cause has ended by each age, while the other causes "
        f"compete (Aalen-Johansen), with pointwise {canvas.PERCENT} bands after Wilson. Who is "
        "dead on "
        "arrival has died at age 0. Causes that end no life have no panel, and cases of which a "
        "cause ends none have no curve.",
        x_label="age (years)",
        y_label=f"dead of the cause (% of all {what})",
        x_limits=(0.0, horizon),
        y_limits=(0.0, 103.0),
    )
    yield from figure.pages(panels, sheet, canvas.looks_of(identities(cases)))


def _panel(title: str, cause: str, cases: Sequence[Named[Causes]]) -> canvas.Panel:
    shown = [case for case in cases if cause in case.numbers.dead_by]
    curves = tuple(_curve(case, case.numbers.dead_by[cause]) for case in shown)
    at_last = {curve.label: float(curve.y[-1]) for curve in curves}
    most = max(at_last.values())
    names = canvas.listed([name for name, percent in at_last.items() if percent == most])
    horizon = shown[0].numbers.horizon_years
    alt = f"{title}: by {horizon:g} years it has ended most lives of {names}, {most:.3g} %."
    others = [case.technique for case in cases if case not in shown]
    return canvas.Panel(
        title, curves, (f"ends none of: {canvas.listed(others)}",) if others else (), alt
    )


def _curve(case: Named[Causes], dead: Incidence) -> canvas.Series:
    share, lower, upper = (100 * part for part in (dead.share, dead.lower, dead.upper))
    return canvas.Series(case.technique, dead.years, share, lower, upper, case.label)
