"""Against the low Vdd: slices that work when new and at the horizon, and the energy saved."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from mcage.report.cases import Named, identities
from mcage.report.figures.curves import Curve, draw_curves
from mcage.report.figures.energy import DEAD_SAVE_NOTHING, NARROWEST_MM, Worth
from mcage.report.figures.figure import Panel, ReportFigure, Series
from mcage.report.figures.sheet import LABELS_MM, LINE_MM, PERCENT, Sheet, heads, line_of, listed
from mcage.report.figures.style import Look, in_style, looks_of
from mcage.stats.estimates import Estimate

NAME = "vdd"
TITLE = f"Lives and energy saving against the low Vdd, {PERCENT} intervals"
X_LABEL = "lowest Vdd (V)"

Group = tuple[str, list[Named[Worth]]]


def draw(cases: Sequence[Named[Worth]], sheet: Sheet) -> Iterator[ReportFigure]:
    """Draw lives and, if known, energy of each environment and scenario of several voltages."""
    groups: dict[str, list[Named[Worth]]] = {}
    for case in cases:
        title = f"{case.setting.environment}, {case.setting.scenario}"
        groups.setdefault(title, []).append(case)
    several = [item for item in groups.items() if len(_voltages(item[1])) > 1]
    if not several:
        return
    looks = looks_of(identities(cases))
    knows_energy = not any(np.isnan(case.numbers.saving.value) for case in cases)
    each = 2 if knows_energy else 1
    height_mm = each * _height_mm(each, sheet) / sheet.columns(each, NARROWEST_MM)
    for name, part, of_page in sheet.pages(NAME, several, height_mm, sheet.width_mm):
        yield _page(name, part, of_page, each, looks, sheet)


@in_style
def _page(
    name: str,
    part: str,
    groups: Sequence[Group],
    each: int,
    looks: Mapping[str, Look],
    sheet: Sheet,
) -> ReportFigure:
    count = each * len(groups)
    figure, grid = sheet.grid(count, _height_mm(count, sheet), NARROWEST_MM, share=False)
    nominal = groups[0][1][0].numbers.nominal_vdd_volts
    saved = f"energy saved over a conventional slice at {nominal:g} V"
    panels, notes = [], []
    for number, axes in enumerate(grid):
        title, cases = groups[number // each]
        of_lives, gid = number % each == 0, f"{name}-{number + 1}"
        label = "slices that work (% of all)" if of_lives else f"{saved} (% of its energy)"
        if of_lives:
            alive = _curves(cases, lambda c: c.works_at_horizon)
            series = draw_curves(axes, alive, looks, gid, "line")
            series += _draw_new(axes, _curves(cases, lambda c: c.works_when_new), looks, gid)
            axes.set_ylim(0, 103)
        else:
            series = draw_curves(axes, _curves(cases, lambda c: c.saving), looks, gid, "line")
        notes.append("dotted: when new; lines: at the horizon" if of_lives else "")
        axes.set_xlabel(X_LABEL)
        axes.set_ylabel(sheet.upright(label, count, NARROWEST_MM))
        panels.append(Panel(axes, title, X_LABEL, label, series))
    heads(grid, [panel.title for panel in panels], notes)
    handles = {technique: line_of(look) for technique, look in looks.items()}
    sheet.finish(figure, f"{TITLE}{part}: {sheet.population}", handles)
    caption = sheet.captioned(
        "Of each environment and scenario, the slices that still work at the horizon and, dotted, "
        f"those that work when they are new (with {PERCENT} intervals of Wilson), and the mean "
        f"{saved} that does the same work, over all slices (with those of Student). "
        f"{DEAD_SAVE_NOTHING} Savings are those of the time for which a slice lives. The dies are "
        "the same at each voltage."
    )
    alt = " ".join(_alt(title, cases, each == 2) for title, cases in groups)
    return ReportFigure(name, TITLE + part, caption, alt, figure, tuple(panels))


def _curves(cases: Sequence[Named[Worth]], shown: Callable[[Worth], Estimate]) -> tuple[Curve, ...]:
    """A curve for each technique, from the lowest voltage to the highest."""
    points: dict[str, list[tuple[float, ...]]] = {}
    for case in cases:
        estimate = vars(shown(case.numbers)).values()
        points.setdefault(case.technique, []).append((case.numbers.vdd_volts, *estimate))
    return tuple(Curve(name, *np.array(sorted(of_it)).T) for name, of_it in points.items())


def _draw_new(
    axes: Axes, curves: Sequence[Curve], looks: Mapping[str, Look], gid: str
) -> tuple[Series, ...]:
    """Draw the shares of slices that work when they are new, dotted."""
    drawn = []
    for place, curve in enumerate(curves):
        look, name = looks[curve.name], f"{gid}-new-{place + 1}"
        style: dict[str, Any] = {"color": look.colour, "linewidth": 0.6, "markersize": 2.5}
        style |= {"linestyle": ":", "marker": look.marker, "fillstyle": "none"}
        axes.plot(curve.x, curve.y, gid=name, **style)
        label, bounds = f"{curve.name}, when new", (curve.lower, curve.upper)
        drawn.append(Series(name, label, "", curve.x, curve.y, "line", *bounds))
    return tuple(drawn)


def _voltages(cases: Sequence[Named[Worth]]) -> set[float]:
    return {case.numbers.vdd_volts for case in cases}


def _alt(title: str, cases: Sequence[Named[Worth]], of_energy: bool) -> str:
    """At which voltage each technique saves most, or else has most slices that work."""
    curves = _curves(cases, lambda c: c.saving if of_energy else c.works_at_horizon)
    words = [
        f"{curve.name} at {curve.x[best]:g} V ({curve.y[best]:.3g} %)"
        for curve in curves
        for best in [int(np.argmax(curve.y))]
    ]
    what = "most energy is saved by" if of_energy else "most slices reach the horizon under"
    return f"{title}: {what} {listed(words)}."


def _height_mm(panels: int, sheet: Sheet) -> float:
    return sheet.axis_mm(panels, NARROWEST_MM) + LABELS_MM + LINE_MM
