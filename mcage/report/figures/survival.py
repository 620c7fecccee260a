"""The share of slices that still work, against age: Kaplan-Meier curves and numbers at risk."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from mcage.plain_text import shown
from mcage.report.cases import Named, Setting, by_setting, lives_of
from mcage.report.figures.figure import (
    AbsentFigure,
    Panel,
    ReportFigure,
    Series,
    check_figure_path,
    save,
)
from mcage.report.figures.sheet import (
    LINE,
    POINTS_PER_INCH,
    Sheet,
    heads,
    line_of,
    lines_of,
    listed,
)
from mcage.report.figures.style import MM_PER_INCH, SMALL, Look, in_style, looks_of
from mcage.results.reader import open_results, read_header
from mcage.stats.estimates import CONFIDENCE, Floats
from mcage.stats.survival import CaseLives, kaplan_meier

NAME = "survival"
VARIABLES = ("life_years", "end_cause")

NEVER_WORK = 0.99
"""Share dead on arrival above which a case is named, not drawn: its curve lies on the axis."""

AXIS_MM = 38.0
LABELS_MM = 16.0
LINE_MM = LINE * SMALL * MM_PER_INCH / POINTS_PER_INCH
MARKS = 4
"""Markers of a curve."""

LONGEST_NAME = 16
"""Letters of a technique beside its numbers at risk."""

Panels = Sequence[tuple[Setting, Sequence[Named["SurvivalCurve"]]]]

X_LABEL = "age (years)"
Y_LABEL = "slices that still work (% of all)"


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

    def equals(self, other: "SurvivalCurve") -> bool:
        """Whether both curves are the same over the whole range."""
        return np.array_equal(self.years, other.years) and np.array_equal(self.alive, other.alive)


def numbers_of(case: xr.Dataset) -> SurvivalCurve:
    """Numbers that the figure shows of a case of a results file."""
    return curve_of(lives_of(case))


def curve_of(lives: CaseLives) -> SurvivalCurve:
    """Survival curve of lives, from age 0 to the horizon."""
    curve = kaplan_meier(lives.years, lives.died)
    alive, lower, upper = (
        np.concatenate([[1.0], part, part[-1:] if part.size else [1.0]])
        for part in (curve.survival, curve.lower, curve.upper)
    )
    ages = np.array(MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(0.0, lives.horizon_years))
    ages = ages[(ages >= 0) & (ages <= lives.horizon_years)]
    at_risk = lives.years.size - np.searchsorted(np.sort(lives.years), ages)
    return SurvivalCurve(
        years=np.concatenate([[0.0], curve.years, [lives.horizon_years]]),
        alive=alive,
        lower=lower,
        upper=upper,
        ages=ages,
        at_risk=at_risk,
        dead_on_arrival=float(np.mean(lives.years == 0)),
        mean_years=float(lives.years.mean(dtype=np.float64)),
    )


def draw(
    cases: Sequence[Named[SurvivalCurve]], sheet: Sheet
) -> Iterator[ReportFigure | AbsentFigure]:
    """Draw survival curves, a panel for each setting, on as many pages as they need."""
    looks = looks_of(case.technique for case in cases)
    settings = list(by_setting(cases).items())
    height_mm = _height_mm(settings, sheet)
    for name, part, panels in sheet.pages(NAME, settings, height_mm):
        yield _draw_page(name, part, panels, looks, sheet)


@in_style
def _draw_page(
    name: str,
    part: str,
    settings: Panels,
    looks: Mapping[str, Look],
    sheet: Sheet,
) -> ReportFigure:
    figure, grid = sheet.grid(len(settings), _height_mm(settings, sheet))
    panels = []
    drawn: set[str] = set()
    for number, (axes, (setting, cases)) in enumerate(zip(grid, settings, strict=True)):
        series = draw_panel(axes, cases, looks, f"{name}-{number + 1}")
        write_numbers_at_risk(axes, cases)
        panels.append(Panel(axes, setting.title, X_LABEL, Y_LABEL, series))
        drawn |= {curve.label for curve in series}
    notes = [sheet.wrapped(_notes(cases), len(settings)) for _, cases in settings]
    heads(grid, [setting.title for setting, _ in settings], notes)
    title = f"Slices that still work{part}"
    handles = {technique: line_of(look) for technique, look in looks.items() if technique in drawn}
    sheet.finish(figure, f"{title}: {sheet.population}, 95 % bands", handles)
    return ReportFigure(
        name, title, _caption(settings, sheet), _alt(settings), figure, tuple(panels)
    )


def draw_panel(
    axes: Axes, cases: Sequence[Named[SurvivalCurve]], looks: Mapping[str, Look], gid: str
) -> tuple[Series, ...]:
    """Draw the curves of a setting with their bands; cases that never work have none.

    Curves that coincide share the line: each has its own dashes of it, in turn.

    Parameters
    ----------
    axes : Axes
        Axes to draw on.
    cases : sequence of Named
        Curves by technique.
    looks : mapping of str to Look
        Looks by technique.
    gid : str
        Beginning of the names of artists.
    """
    drawn = [case for case in cases if not case.numbers.never_works]
    series = []
    for place, case in enumerate(drawn):
        numbers, look = case.numbers, looks[case.technique]
        curve = Series(
            f"{gid}-{place + 1}",
            case.technique,
            case.label,
            numbers.years,
            100 * numbers.alive,
            "step",
            100 * numbers.lower,
            100 * numbers.upper,
        )
        alike = [other for other in drawn if other.numbers.equals(numbers)]
        style = {"color": look.colour, "linestyle": look.linestyle}
        if len(alike) > 1:
            on = 4.0
            order = [other.label for other in alike].index(case.label)
            style["linestyle"] = (on * order, (on, on * (len(alike) - 1)))
        draw_curve(axes, curve, style)
        _draw_marks(axes, curve, look, (place + 0.5) / len(drawn))
        series.append(curve)
    horizon = max(float(case.numbers.years[-1]) for case in cases)
    axes.set(xlim=(0, horizon), ylim=(0, 103), xlabel=X_LABEL, yticks=range(0, 101, 25))
    axes.set_xticks(cases[0].numbers.ages)
    spec = axes.get_subplotspec()
    if spec is None or spec.is_first_col():
        axes.set_ylabel(Y_LABEL)
    return tuple(series)


def draw_curve(axes: Axes, curve: Series, style: Mapping[str, Any]) -> None:
    """Draw a step curve with its band, as far as it can be seen; the style is of its line."""
    seen = curve.thinned()
    (line,) = axes.step(seen.x, seen.y, where="post", **style)
    line.set_gid(curve.gid)
    if seen.lower is not None and seen.upper is not None:
        band = axes.fill_between(
            seen.x,
            seen.lower,
            seen.upper,
            step="post",
            color=style["color"],
            alpha=0.2,
            linewidth=0,
        )
        band.set_gid(f"{curve.gid}-band")


def _draw_marks(axes: Axes, curve: Series, look: Look, phase: float) -> None:
    """Mark a curve at ages of its own, so that markers of coinciding curves lie side by side."""
    ages = curve.x[-1] * (np.arange(MARKS) + phase) / MARKS
    heights = curve.y[np.searchsorted(curve.x, ages, side="right") - 1]
    alive = heights > 0  # on the axis, markers would hide the numbers
    (marks,) = axes.plot(ages[alive], heights[alive], look.marker, color=look.colour, clip_on=False)
    marks.set_gid(f"{curve.gid}-marks")
    marks.set_in_layout(False)


def write_numbers_at_risk(axes: Axes, cases: Sequence[Named[SurvivalCurve]]) -> None:
    """Write below the axes how many slices of each case are alive just before each age."""
    drawn = [case for case in cases if not case.numbers.never_works]
    if not drawn:
        return
    below: dict[str, Any] = {"textcoords": "offset points", "fontsize": SMALL, "va": "top"}
    rows: list[tuple[str, list[int]]] = [("at risk:", [])]
    rows += [(shown(case.technique, LONGEST_NAME), case.numbers.at_risk.tolist()) for case in drawn]
    digits = max(len(str(number)) for _, counts in rows for number in counts)
    left = -SMALL * (0.33 * digits + 0.7)
    for row, (name, counts) in enumerate(rows):
        height = -24 - LINE * SMALL * row
        axes.annotate(name, (0, 0), (left, height), xycoords="axes fraction", ha="right", **below)
        for age, number in zip(drawn[0].numbers.ages, counts, strict=False):
            place = (float(age), 0)
            at = ("data", "axes fraction")
            axes.annotate(f"{number}", place, (0, height), xycoords=at, ha="center", **below)


def coinciding(cases: Sequence[Named[SurvivalCurve]]) -> list[list[str]]:
    """Techniques whose curves are the same over the whole range, in groups of two or more."""
    groups: list[list[Named[SurvivalCurve]]] = []
    for case in cases:
        if case.numbers.never_works:
            continue
        for group in groups:
            if group[0].numbers.equals(case.numbers):
                group.append(case)
                break
        else:
            groups.append([case])
    return [[case.technique for case in group] for group in groups if len(group) > 1]


def _notes(cases: Sequence[Named[SurvivalCurve]]) -> list[str]:
    """What cannot be seen in a panel: curves that coincide, and cases without a curve."""
    notes = [f"same curve: {' = '.join(names)}" for names in coinciding(cases)]
    if never := [case for case in cases if case.numbers.never_works]:
        shares = [case.numbers.dead_on_arrival for case in never]
        bound = "" if min(shares) == max(shares) else "at least "
        names = listed([case.technique for case in never])
        notes.append(f"not drawn, {bound}{100 * min(shares):.4g} % dead on arrival: {names}")
    return notes


def _height_mm(settings: Panels, sheet: Sheet) -> float:
    """Height of a panel with its title, notes and numbers at risk."""
    notes = max(lines_of(sheet.wrapped(_notes(cases), len(settings))) for _, cases in settings)
    rows = max(len(cases) for _, cases in settings) + 1
    return AXIS_MM + LABELS_MM + LINE_MM * (notes + rows)


def _caption(settings: Panels, sheet: Sheet) -> str:
    horizon = settings[0][1][0].numbers.years[-1]
    sentences = [
        f"Share of the slices that still work at each age ({sheet.population}): Kaplan-Meier "
        f"curves with pointwise {CONFIDENCE:.0%} bands, on the scale of log(-log S).",
        f"Lives are censored at {horizon:g} years, where the simulation ends.",
        "An instance is the same die with the same workloads in every case, so that curves of one "
        "panel are not independent of each other.",
        "At risk: slices alive just before the age.",
    ]
    if any(case.numbers.never_works for _, cases in settings for case in cases):
        sentences.append(
            f"Techniques of which more than {NEVER_WORK:.0%} of the slices are dead on arrival "
            "are named instead of drawn."
        )
    return " ".join([*sentences, *sheet.caveats])


def _alt(settings: Panels) -> str:
    """Say of each panel which techniques live longest, and which shortest."""
    return " ".join(_alt_of(setting, cases) for setting, cases in settings)


def _alt_of(setting: Setting, cases: Sequence[Named[SurvivalCurve]]) -> str:
    years = {case.technique: case.numbers.mean_years for case in cases}
    longest, shortest = max(years.values()), min(years.values())
    best = listed([name for name, mean in years.items() if mean == longest])
    worst = listed([name for name, mean in years.items() if mean == shortest])
    horizon = cases[0].numbers.years[-1]
    if longest == shortest:
        return f"{setting.title}: all live {longest:.3g} of {horizon:g} years in the mean ({best})."
    return (
        f"{setting.title}: slices live longest with {best} (in the mean {longest:.3g} of "
        f"{horizon:g} years), shortest with {worst} ({shortest:.3g} years)."
    )


def draw_survival_of_file(results_path: Path, path: Path) -> None:
    """Draw survival curves of all cases of a results file, with a panel for each setting.

    Parameters
    ----------
    results_path : Path
        Results file.
    path : Path
        Figure: .png, .pdf or .svg.

    Raises
    ------
    UserError
        The results file is missing, foreign or damaged; the figure cannot be written.
    """
    from mcage.report.figures.catalogue import sheet_of

    check_figure_path(path)
    header = read_header(results_path)
    with open_results(results_path) as results:
        cases = [
            Named.of(case, numbers_of(case))
            for case in (results.isel(case=place) for place in range(results.sizes["case"]))
        ]
    settings = list(by_setting(cases).items())
    looks = looks_of(case.technique for case in cases)
    sheet = sheet_of(header, 85.0 if len(settings) == 1 else 180.0)
    save(_draw_page(NAME, "", settings, looks, sheet).figure, path)
