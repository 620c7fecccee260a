"""Panels of curves: each told apart from the others, also where curves coincide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from mcage.plain_text import shown
from mcage.report.figures import canvas
from mcage.stats.estimates import Floats

Kind = Literal["step", "line", "distribution"]
"""How curves are drawn; a distribution is steps from 0 to 100 %."""

FEW = 5
"""Curves of a panel up to which bands are drawn strongly."""

FEWEST_POINTS = 4
"""Points through which a line is drawn: between fewer, it would say what nobody has computed."""

MARKS = 4
"""Markers of a step curve."""

LONGEST_NAME = 22
"""Letters of a name beside a row of numbers."""

SHORT_NAME = 16
"""Letters of names that leave room for narrow panels."""

NARROW_MM, WIDE_MM = 55.0, 80.0
"""Smallest widths of a panel, with short and with longer names beside rows of numbers."""

DASH_LENGTH = 4.0
"""Dashes of curves that coincide, in widths of the line."""


@dataclass(frozen=True)
class CurveFigure(canvas.Plot):
    """Panels of curves.

    Parameters
    ----------
    kind : {'step', 'line', 'distribution'}
        How curves are drawn.
    x_limits, y_limits : tuple of float, optional
        Ends of the axes.
    x_scale : {'linear', 'log'}
        Scale of the axis.
    shares_axes : bool
        Whether all panels have the same axes.
    rows_title : str
        What the numbers below the axis are.
    x_mark : float, optional
        Place of a thin line across the axes.
    bands : str
        End of the title that says what the bands are.
    """

    kind: Kind = "step"
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    x_scale: Literal["linear", "log"] = "linear"
    shares_axes: bool = True
    rows_title: str = ""
    x_mark: float | None = None
    bands: str = f", {canvas.PERCENT} bands"

    def headline(self, sheet: canvas.Sheet) -> str:
        """Title, which names bands only where there are some."""
        return self.title if sheet.bands else self.title.removesuffix(self.bands)

    def draw(
        self, axes: Axes, panel: canvas.Panel, looks: canvas.Looks, gid: str
    ) -> tuple[canvas.Series, ...]:
        """Draw curves, and the numbers below them."""
        axes.set_xscale(self.x_scale)
        if self.x_limits:
            axes.set_xlim(self.x_limits)
        if self.y_limits:
            axes.set_ylim(self.y_limits)
        if self.x_mark is not None:
            axes.axvline(self.x_mark, color=canvas.GREY, linewidth=0.6)
        if self.x_scale == "log":  # words instead of mathematics
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
        series = draw_curves(axes, panel.series, looks, gid, self.kind)
        _write_rows(axes, panel.rows, self.rows_title)
        return series

    def handles(self, panels: Sequence[canvas.Panel], looks: canvas.Looks) -> Mapping[str, Artist]:
        """Lines of all names that have a curve."""
        names = {series.label for panel in panels for series in panel.series}
        return {name: canvas.line_of(look) for name, look in looks.items() if name in names}

    def narrowest_mm(self, panels: Sequence[canvas.Panel]) -> float:
        """Smallest width of a panel, which long names beside numbers would make too narrow."""
        return NARROW_MM if _longest_name(panels) <= SHORT_NAME else WIDE_MM

    def height_mm(self, panels: Sequence[canvas.Panel], sheet: canvas.Sheet) -> float:
        """Height of a panel with the numbers below it."""
        rows = max(len(panel.rows) for panel in panels)
        return super().height_mm(panels, sheet) + canvas.LINE_MM * (rows + 1)

    def wrapped_notes(self, panels: Sequence[canvas.Panel], sheet: canvas.Sheet) -> list[str]:
        """Which curves coincide, and notes of each panel, in lines as long as its axes."""
        beside = max(10, min(LONGEST_NAME, _longest_name(panels)) + 4)
        return [
            sheet.wrapped(
                [
                    *(f"same curve: {' = '.join(names)}" for names in coinciding(panel.series)),
                    *panel.notes,
                ],
                len(panels),
                self.narrowest_mm(panels),
                beside,
            )
            for panel in panels
        ]


def draw_curves(
    axes: Axes,
    curves: Sequence[canvas.Series],
    looks: canvas.Looks,
    gid: str,
    kind: Kind = "step",
) -> tuple[canvas.Series, ...]:
    """Draw curves with their bands; curves that coincide share the line, each in its own dashes.

    Parameters
    ----------
    axes : Axes
        Axes to draw on.
    curves : sequence of Series
        The curves.
    looks : mapping of str to Look
        Looks by name.
    gid : str
        Beginning of the names of artists.
    kind : {'step', 'line', 'distribution'}
        How they are drawn; of a line with fewer than `FEWEST_POINTS` points, these alone.
    """
    drawn = []
    for place, curve in enumerate(curves):
        look, is_line = looks[curve.label], kind == "line"
        are_points = is_line and curve.marks is None and curve.x.size < FEWEST_POINTS
        series = replace(
            curve,
            gid=f"{gid}-{place + 1}",
            kind="points" if are_points else "line" if is_line else "step",
        )
        drawn.append(series)
        if are_points:
            _draw_points(axes, series, look)
            continue
        style: dict[str, Any] = {"color": look.colour, "linestyle": look.linestyle}
        alike = [other for other in curves if other.coincides_with(curve)]
        if len(alike) > 1:
            turn = next(turn for turn, other in enumerate(alike) if other is curve)
            gaps = DASH_LENGTH * (len(alike) - 1)
            style["linestyle"] = (DASH_LENGTH * turn, (DASH_LENGTH, gaps))
        _draw_line(axes, series, style, 0.2 if len(curves) <= FEW else 0.1)
        if kind == "line":
            places = slice(None) if curve.marks is None else curve.marks
            _mark(axes, series, look, series.x[places], series.y[places])
        else:
            _mark(axes, series, look, *_marks(axes, series, kind, (place + 0.5) / len(curves)))
    return tuple(drawn)


def coinciding(curves: Sequence[canvas.Series]) -> list[list[str]]:
    """Names of curves that are the same over the whole range, in groups of two or more."""
    groups: list[list[canvas.Series]] = []
    for curve in curves:
        for group in groups:
            if group[0].coincides_with(curve):
                group.append(curve)
                break
        else:
            groups.append([curve])
    return [[curve.label for curve in group] for group in groups if len(group) > 1]


def _draw_line(axes: Axes, series: canvas.Series, style: Mapping[str, Any], alpha: float) -> None:
    """Draw a curve with its band of an opacity, as far as it can be seen."""
    seen = series.thinned()
    where = "post" if series.kind == "step" else None
    drawstyle = "steps-post" if where else "default"
    (line,) = axes.plot(seen.x, seen.y, drawstyle=drawstyle, **style)
    line.set_gid(series.gid)
    if seen.lower is not None and seen.upper is not None:
        band = axes.fill_between(
            seen.x,
            seen.lower,
            seen.upper,
            step="post" if where else None,
            color=style["color"],
            alpha=alpha,
            linewidth=0,
        )
        band.set_gid(f"{series.gid}-band")


def _draw_points(axes: Axes, series: canvas.Series, look: canvas.Look) -> None:
    """Draw points with their intervals, and nothing between them."""
    (points,) = axes.plot(
        series.x, series.y, color=look.colour, marker=look.marker, linestyle="none", clip_on=False
    )
    points.set_gid(series.gid)
    if series.lower is not None and series.upper is not None:
        bars = axes.vlines(series.x, series.lower, series.upper, look.colour, linewidth=0.8)
        bars.set_gid(f"{series.gid}-band")


def _marks(axes: Axes, series: canvas.Series, kind: Kind, phase: float) -> tuple[Floats, Floats]:
    """Where to mark steps: at places of their own, beside those of others.

    Distributions, which rise from 0 to 100 % somewhere, are marked at heights.
    """
    if kind == "distribution":
        heights = 100 * (np.arange(MARKS) + phase) / MARKS
        return series.x[np.searchsorted(series.y, heights)], heights
    low, high = axes.get_xlim() if axes.get_autoscalex_on() is False else series.x[[0, -1]]
    turns = (np.arange(MARKS) + phase) / MARKS
    is_log = axes.get_xscale() == "log"
    places = low * (high / low) ** turns if is_log else low + (high - low) * turns
    step = np.searchsorted(series.x, places, side="right") - 1
    seen = (step >= 0) & (places <= series.x[-1])
    places, heights = places[seen], series.y[step[seen]]
    # On the axis, markers would hide its numbers.
    return places[heights > 0], heights[heights > 0]


def _mark(
    axes: Axes, series: canvas.Series, look: canvas.Look, places: Floats, heights: Floats
) -> None:
    """Draw the markers of a curve."""
    (marks,) = axes.plot(
        places, heights, color=look.colour, marker=look.marker, linestyle="none", clip_on=False
    )
    marks.set_gid(f"{series.gid}-marks")
    marks.set_in_layout(False)


def _write_rows(
    axes: Axes, rows: Sequence[tuple[str, Sequence[float], Sequence[int]]], title: str
) -> None:
    """Write rows of numbers below the axes."""
    if not rows:
        return
    below: dict[str, Any] = {"textcoords": "offset points", "fontsize": canvas.SMALL, "va": "top"}
    digits = max(len(str(number)) for _, _, numbers in rows for number in numbers)
    left = -canvas.SMALL * (0.33 * digits + 0.7)
    for row, (name, places, numbers) in enumerate([(title, (), ()), *rows]):
        height = -24 - canvas.LINE * canvas.SMALL * row
        name = shown(name, LONGEST_NAME)
        axes.annotate(name, (0, 0), (left, height), xycoords="axes fraction", ha="right", **below)
        for place, number in zip(places, numbers, strict=True):
            at = ("data", "axes fraction")
            axes.annotate(f"{number}", (place, 0), (0, height), xycoords=at, ha="center", **below)


def _longest_name(panels: Sequence[canvas.Panel]) -> int:
    return max((len(name) for panel in panels for name, _, _ in panel.rows), default=0)
