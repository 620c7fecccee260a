"""Panels of curves, which differ in their looks also where they coincide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes

from mcage.plain_text import shown
from mcage.report.figures import canvas
from mcage.stats.estimates import Floats

Shape = Literal["step", "line", "points", "distribution"]
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
    shape : {'step', 'line', 'points', 'distribution'}
        How curves are drawn; of a line with fewer than `FEWEST_POINTS` points, these alone.
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

    shape: Shape = "step"
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

    def heading(self, panel: canvas.Panel) -> list[str]:
        """Title, which curves coincide, and notes."""
        same = (f"same curve: {' = '.join(names)}" for names in coinciding(panel.series))
        return super().heading(replace(panel, notes=(*same, *panel.notes)))

    def kind(self, series: canvas.Series) -> Literal["step", "line", "points"]:
        """How a series is drawn: of few points no line."""
        if self.shape in ("step", "distribution"):
            return "step"
        are_few = series.marks is None and series.x.size < FEWEST_POINTS
        return "points" if are_few or self.shape == "points" else "line"

    def draw(self, axes: Axes, panel: canvas.Panel, looks: canvas.Looks) -> None:
        """Draw curves, and the numbers below them.

        Curves that coincide share the line, each in its own dashes.
        """
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
        curves = panel.series
        for place, curve in enumerate(curves):
            look = looks[curve.label]
            if curve.kind == "points":
                _draw_points(axes, curve, look)
                continue
            style: dict[str, Any] = {"color": look.colour, "linestyle": look.linestyle}
            alike = [other for other in curves if other.coincides_with(curve)]
            if len(alike) > 1:
                turn = next(turn for turn, other in enumerate(alike) if other is curve)
                gaps = DASH_LENGTH * (len(alike) - 1)
                style["linestyle"] = (DASH_LENGTH * turn, (DASH_LENGTH, gaps))
            _draw_line(axes, curve, style, 0.2 if len(curves) <= FEW else 0.1)
            if curve.kind == "line":
                at = slice(None) if curve.marks is None else curve.marks
                marked = curve.x[at], curve.y[at]
            elif self.shape == "distribution":
                marked = _marks_of_distribution(curve, (place + 0.5) / len(curves))
            else:
                marked = _marks_of_steps(axes, curve, (place + 0.5) / len(curves))
            _mark(axes, curve, look, *marked)
        _write_rows(axes, panel.rows, self.rows_title)

    def width_mm(self) -> float:
        """Smallest width of a panel, which long names beside numbers would make too narrow."""
        return NARROW_MM if _longest_name(self.panels) <= SHORT_NAME else WIDE_MM

    def axis_mm(self, sheet: canvas.Sheet) -> float:
        """Height of the axes of a panel, and of the numbers below them."""
        rows = max(len(panel.rows) for panel in self.panels)
        return super().axis_mm(sheet) + canvas.line_mm(canvas.SMALL) * (rows + bool(rows))


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


def _draw_points(axes: Axes, series: canvas.Series, look: canvas.CurveLook) -> None:
    """Draw points with their intervals, and nothing between them."""
    (points,) = axes.plot(
        series.x, series.y, color=look.colour, marker=look.marker, linestyle="none", clip_on=False
    )
    points.set_gid(series.gid)
    if series.lower is not None and series.upper is not None:
        bars = axes.vlines(series.x, series.lower, series.upper, look.colour, linewidth=0.8)
        bars.set_gid(f"{series.gid}-band")


def _marks_of_distribution(series: canvas.Series, phase: float) -> tuple[Floats, Floats]:
    """Where to mark steps from 0 to 100 %: at heights of their own, beside those of others."""
    heights = 100 * (np.arange(MARKS) + phase) / MARKS
    heights = heights[heights >= series.y[0]]
    return series.x[np.searchsorted(series.y[:-1], heights)], heights


def _marks_of_steps(axes: Axes, series: canvas.Series, phase: float) -> tuple[Floats, Floats]:
    """Where to mark steps: at places of their own, beside those of others."""
    low, high = axes.get_xlim() if axes.get_autoscalex_on() is False else series.x[[0, -1]]
    places = low + (high - low) * (np.arange(MARKS) + phase) / MARKS
    step = np.searchsorted(series.x, places, side="right") - 1
    seen = (step >= 0) & (places <= series.x[-1])
    places, heights = places[seen], series.y[step[seen]]
    # On the axis, markers would hide its numbers.
    return places[heights > 0], heights[heights > 0]


def _mark(
    axes: Axes, series: canvas.Series, look: canvas.CurveLook, places: Floats, heights: Floats
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
    size = canvas.points(canvas.SMALL)
    below: dict[str, Any] = {"textcoords": "offset points", "fontsize": size, "va": "top"}
    digits = max(len(str(number)) for _, _, numbers in rows for number in numbers)
    left = -size * (0.33 * digits + 0.7)
    for row, (name, places, numbers) in enumerate([(title, (), ()), *rows]):
        height = -24 - canvas.LINE * size * row
        name = shown(name, LONGEST_NAME)
        axes.annotate(name, (0, 0), (left, height), xycoords="axes fraction", ha="right", **below)
        for place, number in zip(places, numbers, strict=True):
            at = ("data", "axes fraction")
            axes.annotate(f"{number}", (place, 0), (0, height), xycoords=at, ha="center", **below)


def _longest_name(panels: Sequence[canvas.Panel]) -> int:
    return max((len(name) for panel in panels for name, _, _ in panel.rows), default=0)
