"""Energy against life: what a technique saves at a voltage, and how long its slices live."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from mcage.report.cases import Named, identities, lives_of, savings_of_all
from mcage.report.figures.figure import AbsentFigure, Panel, ReportFigure, Series
from mcage.report.figures.sheet import LABELS_MM, LINE_MM, PERCENT, Sheet, heads, lines_of, listed
from mcage.report.figures.style import GREY, SMALL, Look, in_style, looks_of
from mcage.report.figures.survival import NEVER_WORK
from mcage.report.recorded_spec import costs_of
from mcage.stats.estimates import Bools, Estimate, mean, proportion

VARIABLES = ("life_years", "end_cause", "energy_saving_nominal")
NAME = "energy-life"
TITLE = f"Energy saving and life, {PERCENT} intervals"
Y_LABEL = "mean life up to the horizon (years)"
DEAD_SAVE_NOTHING = (
    "A slice that is dead on arrival fails its test at the low voltage; it is taken to run as such "
    "a conventional slice, and saves nothing."
)
NARROWEST_MM = 80.0
NEVER = f"Of all cases more than {100 * NEVER_WORK:g} % are dead on arrival."

FRONT = "_front"
"""Name of the labels of the Pareto front, which legends leave out."""

SPOTS = (((-2, 4), "right"), ((2, -9), "left"), ((2, 4), "left"), ((-2, -9), "right"))
"""Where a label may stand, in points from its point; the first is where no line falls."""

Fill = Literal["full", "none", "left", "right", "top", "bottom"]
FILLS: tuple[Fill, ...] = ("full", "none", "left", "right", "top", "bottom")
"""How markers are filled, by environment."""


@dataclass(frozen=True)
class Worth:
    """Energy and life of a case, over all of its slices.

    Parameters
    ----------
    vdd_volts : float
        Lowest supply voltage.
    saving : Estimate
        Mean energy saving over a conventional slice at the technology's nominal Vdd, %, where
        slices that are dead on arrival run as such slices and save nothing.
    years : Estimate
        Mean life up to the horizon.
    works_when_new, works_at_horizon : Estimate
        Shares of the slices, %.
    nominal_vdd_volts : float
        Nominal Vdd of the technology.
    """

    vdd_volts: float
    saving: Estimate
    years: Estimate
    works_when_new: Estimate
    works_at_horizon: Estimate
    nominal_vdd_volts: float

    @property
    def is_drawn(self) -> bool:
        """Whether its energy is known, and enough slices work for it to lie off the origin."""
        works = self.works_when_new.value >= 100 * (1 - NEVER_WORK)
        return works and not np.isnan(self.saving.value)


def numbers_of(case: xr.Dataset) -> Worth:
    """Numbers that the figures show of a case of a results file.

    Raises
    ------
    UserError
        The spec in the file is not that of a sweep.
    """
    technology = costs_of(case.attrs["spec"]).of_technology
    lives = lives_of(case)
    return Worth(
        vdd_volts=float(case["vdd_volts"]),
        saving=mean(100 * savings_of_all(case)),
        years=mean(lives.years),
        works_when_new=_percent_of(lives.years > 0),
        works_at_horizon=_percent_of(~lives.died),
        nominal_vdd_volts=technology.nominal_vdd_volts,
    )


def _percent_of(slices: Bools) -> Estimate:
    share = proportion(int(np.count_nonzero(slices)), slices.size)
    return Estimate(*(100 * bound for bound in vars(share).values()))


def draw(cases: Sequence[Named[Worth]], sheet: Sheet) -> Iterator[ReportFigure | AbsentFigure]:
    """Draw a point for each case, a panel for each scenario."""
    scenarios: dict[str, list[Named[Worth]]] = {}
    for case in cases:
        scenarios.setdefault(case.setting.scenario, []).append(case)
    items = [item for item in scenarios.items() if any(c.numbers.is_drawn for c in item[1])]
    if not items:
        unknown = any(np.isnan(case.numbers.saving.value) for case in cases)
        reason = "No constants of the slice's energy are known." if unknown else NEVER
        yield AbsentFigure(NAME, TITLE, reason)
        return
    looks = looks_of(identities(cases))
    fills = fills_of(cases)
    for name, part, of_page in sheet.pages(NAME, items, _height_mm(items, sheet), NARROWEST_MM):
        yield _page(name, part, of_page, looks, fills, sheet)


@in_style
def _page(
    name: str,
    part: str,
    scenarios: Sequence[tuple[str, Sequence[Named[Worth]]]],
    looks: Mapping[str, Look],
    fills: Mapping[str, Fill],
    sheet: Sheet,
) -> ReportFigure:
    height_mm = _height_mm(scenarios, sheet)
    figure, grid = sheet.grid(len(scenarios), height_mm, NARROWEST_MM, share=False)
    nominal = scenarios[0][1][0].numbers.nominal_vdd_volts
    panels, alts = [], []
    for number, (axes, (scenario, cases)) in enumerate(zip(grid, scenarios, strict=True)):
        series = draw_panel(axes, cases, looks, fills, f"{name}-{number + 1}")
        panels.append(Panel(axes, scenario, axes.get_xlabel(), Y_LABEL, series))
        axes.set_xlabel(sheet.label(axes.get_xlabel(), len(grid), NARROWEST_MM))
        front = pareto([case for case in cases if case.numbers.is_drawn])
        best = listed([f"{case.technique} ({case.setting.voltages})" for case in front])
        alts.append(f"{scenario}: no other case saves more and lives longer than {best}.")
    titles = [f"scenario {scenario}" for scenario, _ in scenarios]
    notes = [sheet.wrapped(_notes(of), len(scenarios), NARROWEST_MM) for _, of in scenarios]
    heads(grid, titles, notes)
    drawn = [case for _, cases in scenarios for case in cases]
    sheet.finish(figure, f"{TITLE}{part}: {sheet.population}", legend_of(drawn, looks, fills))
    for axes in grid:
        part_labels(axes)
    caption = sheet.captioned(
        f"Mean life up to the horizon against the mean energy saved over a conventional slice that "
        f"does the same work at {nominal:g} V, both over all slices and with {PERCENT} intervals "
        f"(Student). {DEAD_SAVE_NOTHING} Points of a technique in an environment are joined by "
        "voltage. The grey line is the Pareto front: no other case of the panel both saves more "
        f"and lives longer. Cases with more than {100 * NEVER_WORK:g} % dead on arrival are named "
        "instead of drawn. Slices that die early have done other work than those that live long, "
        "and their savings are those of their lives."
    )
    return ReportFigure(name, TITLE + part, caption, " ".join(alts), figure, tuple(panels))


def fills_of(cases: Sequence[Named[Worth]]) -> dict[str, Fill]:
    """How markers are filled, by environment, in the order of the file."""
    environments = dict.fromkeys(case.setting.environment for case in cases)
    return {name: FILLS[place % len(FILLS)] for place, name in enumerate(environments)}


def draw_panel(
    axes: Axes,
    cases: Sequence[Named[Worth]],
    looks: Mapping[str, Look],
    fills: Mapping[str, Fill],
    gid: str,
) -> tuple[Series, ...]:
    """Draw the cases of a scenario of which enough slices work, and their Pareto front.

    Parameters
    ----------
    axes : Axes
        Axes to draw on.
    cases : sequence of Named
        Energies and lives.
    looks : mapping of str to Look
        Looks by technique.
    fills : mapping of str to str
        How markers are filled, by environment.
    gid : str
        Beginning of the names of artists.
    """
    drawn = [case for case in cases if case.numbers.is_drawn]
    series = _draw_points(axes, drawn, looks, fills, gid)
    _draw_front(axes, pareto(drawn))
    nominal = drawn[0].numbers.nominal_vdd_volts
    horizon = max(case.numbers.years.value for case in drawn)
    axes.set(
        xlabel=f"energy saved over a conventional slice at {nominal:g} V (% of its energy)",
        ylabel=Y_LABEL,
        ylim=(-0.04 * horizon, 1.12 * horizon),
    )
    axes.margins(x=0.12)
    return series


def _draw_points(
    axes: Axes,
    cases: Sequence[Named[Worth]],
    looks: Mapping[str, Look],
    fills: Mapping[str, Fill],
    gid: str,
) -> tuple[Series, ...]:
    groups: dict[tuple[str, str], list[Named[Worth]]] = {}
    for case in cases:
        groups.setdefault((case.technique, case.setting.environment), []).append(case)
    for (technique, _), of_group in groups.items():
        of_group.sort(key=lambda case: (case.numbers.vdd_volts, case.setting.voltages))
        x = [case.numbers.saving.value for case in of_group]
        y = [case.numbers.years.value for case in of_group]
        look = looks[technique]
        axes.plot(x, y, color=look.colour, linestyle=look.linestyle, linewidth=0.5, alpha=0.5)
    series = []
    for place, case in enumerate(cases):
        look = looks[case.technique]
        saving, years = case.numbers.saving, case.numbers.years
        error: dict[str, Any] = {"color": look.colour, "linewidth": 0.8}
        axes.plot((saving.lower, saving.upper), (years.value,) * 2, **error)
        axes.plot((saving.value,) * 2, (years.lower, years.upper), **error)
        (point,) = axes.plot(
            saving.value,
            years.value,
            marker=look.marker,
            color=look.colour,
            fillstyle=fills[case.setting.environment],
            markerfacecoloralt="white",
            markersize=6,
            markeredgewidth=0.8,
        )
        name = f"{gid}-{place + 1}"
        point.set_gid(name)
        bounds = [
            np.array([bound]) for bound in (years.lower, years.upper, saving.lower, saving.upper)
        ]
        at = np.array([saving.value]), np.array([years.value])
        label = f"{case.technique}, {case.setting.environment} {case.setting.voltages}"
        series.append(Series(name, label, case.label, *at, "points", *bounds))
    return tuple(series)


def pareto(cases: Sequence[Named[Worth]]) -> list[Named[Worth]]:
    """Cases of which no other saves at least as much and lives at least as long, by saving."""
    front: list[Named[Worth]] = []
    for case in sorted(
        cases, key=lambda c: (c.numbers.saving.value, c.numbers.years.value), reverse=True
    ):
        if not front or case.numbers.years.value > front[-1].numbers.years.value:
            front.append(case)
    return front[::-1]


def _draw_front(axes: Axes, front: Sequence[Named[Worth]]) -> None:
    x = [case.numbers.saving.value for case in front]
    y = [case.numbers.years.value for case in front]
    axes.step(x, y, where="pre", color=GREY, linewidth=2.2, alpha=0.35, zorder=0.5)
    for case in front[::-1]:  # whatever saves most is labelled first
        worth = case.numbers
        _label_front(axes, worth.saving.value, worth.years.value, f"{worth.vdd_volts:g} V")


def _label_front(axes: Axes, x: float, y: float, text: str) -> None:
    offset, side = SPOTS[0]
    style: dict[str, Any] = {"textcoords": "offset points", "fontsize": SMALL}
    axes.annotate(text, (x, y), offset, ha=side, label=FRONT, **style)


def part_labels(axes: Axes) -> None:
    """Move labels of points that lie on each other apart, and hide those that find no room.

    Parameters
    ----------
    axes : Axes
        Axes of a figure that has been laid out.
    """
    taken: list[Bbox] = []
    for label in (text for text in axes.texts if text.get_label() == FRONT):
        for offset, side in SPOTS:
            label.set(position=offset, horizontalalignment=side)
            box = label.get_window_extent()
            if not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
        else:
            label.set_visible(False)


def legend_of(
    cases: Sequence[Named[Worth]], looks: Mapping[str, Look], fills: Mapping[str, Fill]
) -> dict[str, Artist]:
    """Handles of a legend by their words: techniques, and environments if there are several."""
    drawn = [case for case in cases if case.numbers.is_drawn]
    names = {case.technique for case in drawn}
    handles: dict[str, Artist] = {
        name: Line2D([], [], color=look.colour, linestyle="none", marker=look.marker)
        for name, look in looks.items()
        if name in names
    }
    environments = {case.setting.environment for case in drawn}
    for name, fill in fills.items():
        if name in environments and len(environments) > 1:
            handles[f"environment {name}"] = Line2D(
                *([], []),
                color=GREY,
                linestyle="none",
                marker="o",
                fillstyle=fill,
                markerfacecoloralt="white",
            )
    return handles


def _notes(cases: Sequence[Named[Worth]]) -> tuple[str, ...]:
    """Which cases are not drawn, by their voltages."""
    never: dict[str, list[str]] = {}
    for case in cases:
        if not case.numbers.is_drawn:
            never.setdefault(case.setting.voltages, []).append(case.technique)
    return tuple(
        f"not drawn at {voltages}, nearly all slices dead on arrival: {listed(names)}"
        for voltages, names in never.items()
    )


def _height_mm(scenarios: Sequence[tuple[str, Sequence[Named[Worth]]]], sheet: Sheet) -> float:
    notes = [sheet.wrapped(_notes(of), len(scenarios), NARROWEST_MM) for _, of in scenarios]
    return (
        sheet.axis_mm(len(scenarios), NARROWEST_MM)
        + LABELS_MM
        + LINE_MM * max(map(lines_of, notes))
    )
