"""The numbers behind a figure, as a page knows them: few enough, and with few enough digits."""

import re
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text

from mcage.plain_text import visible
from mcage.report.figures.figure import Panel, Series
from mcage.report.figures.sheet import POINTS_PER_INCH
from mcage.stats.estimates import Floats

GRID = 200
"""Places at most at which a page knows the curves of a panel."""

MOST_POINTS = 1000
"""Points at most that a page knows of a series of points."""

DIGITS = 4
"""Digits of a number in a page."""


def numbers_of(panel: Panel, figure: Figure, prefix: str) -> dict[str, Any]:
    """Where a panel lies in the SVG, in its units, and what it shows, as JSON.

    Parameters
    ----------
    panel : Panel
        Axes with at least one series.
    figure : matplotlib.figure.Figure
        The figure, laid out.
    prefix : str
        What the names of its artists begin with in the page.
    """
    axes = panel.axes
    width, height = figure.get_size_inches() * POINTS_PER_INCH
    place = axes.get_position()
    grid = _common_grid(panel.series, axes.get_xscale() == "log")
    return {
        "title": panel.title,
        "box": [
            round(number, 1)
            for number in (
                place.x0 * width,
                (1 - place.y1) * height,
                place.x1 * width,
                (1 - place.y0) * height,
            )
        ],
        "x": _axis(axes, axes.xaxis, axes.get_xlim(), panel.x_label),
        "y": _axis(axes, axes.yaxis, axes.get_ylim(), panel.y_label),
        "ages": _numbers(grid),
        "series": [_series(series, grid, prefix) for series in panel.series],
    }


def _axis(axes: Axes, axis: Axis, limits: tuple[float, float], label: str) -> dict[str, Any]:
    known: dict[str, Any] = {"label": label, "limits": _numbers(np.array(limits))}
    if axis.get_scale() == "log":
        known["log"] = True
    if names := _category_names(axis):
        known["names"] = names
    return known


def _category_names(axis: Axis) -> dict[str, str]:
    """Names of places along an axis that has words instead of numbers."""
    texts: list[Text] = axis.get_ticklabels()
    words = [text.get_text() for text in texts]
    if not any(re.search(r"[A-Za-z]{2}", word) for word in words):
        return {}
    return {f"{at:g}": word for at, word in zip(axis.get_ticklocs(), words, strict=True)}


def _common_grid(series: tuple[Series, ...], logarithmic: bool) -> Floats:
    """Where all step curves of a panel are known: at each step, or at even distances.

    Without step curves, the places that all series share, if these are few; else none.
    """
    steps = [curve.x for curve in series if curve.kind == "step" and curve.x.size]
    if not steps:
        first = np.asarray(series[0].x, float)
        shared = all(np.array_equal(curve.x, first) for curve in series)
        return first if shared and first.size <= GRID else np.empty(0)
    places = np.unique(np.concatenate(steps))
    places = places[np.isfinite(places)]
    if places.size <= GRID:
        return places
    spaced = np.geomspace if logarithmic and places[0] > 0 else np.linspace
    even = spaced(places[0], places[-1], GRID + 1)
    return np.unique(np.rint(even)) if np.all(places == np.rint(places)) else even


def _series(series: Series, grid: Floats, prefix: str) -> dict[str, Any]:
    """Numbers of a series; those of a step curve at the places of the grid."""
    known: dict[str, Any] = {
        "id": f"{prefix}-{series.gid}",
        "label": visible(series.label),
        "case": visible(series.case),
        "kind": series.kind,
    }
    columns = {
        "y": series.y,
        "lower": series.lower,
        "upper": series.upper,
        "x_lower": series.x_lower,
        "x_upper": series.x_upper,
    }
    if series.kind == "step":
        last = np.searchsorted(series.x, grid, side="right") - 1
        before = last < 0
        for name, column in columns.items():
            if column is not None:
                at_grid = np.where(before, np.nan, np.asarray(column, float)[np.maximum(last, 0)])
                known[name] = _numbers(at_grid)
        return known
    most = MOST_POINTS if series.kind == "points" else GRID
    chosen = np.unique(np.linspace(0, series.x.size - 1, min(series.x.size, most)).astype(int))
    if not np.array_equal(series.x, grid):
        known["x"] = _numbers(series.x[chosen])
    for name, column in columns.items():
        if column is not None:
            known[name] = _numbers(np.asarray(column, float)[chosen])
    return known


def _numbers(values: Floats) -> list[float | int | None]:
    """Numbers as JSON has them; null where there is none."""
    return [_number(value) for value in np.asarray(values, float).tolist()]


def _number(value: float) -> float | int | None:
    if not np.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded
