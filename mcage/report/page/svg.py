"""A figure as SVG inside a page, with the numbers behind it.

Matplotlib draws; what it writes gets names that are unique in the page.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text

from mcage.plain_text import visible
from mcage.report.figures.canvas import POINTS_PER_INCH, Panel, ReportFigure, Series, in_style
from mcage.stats.estimates import Floats

# The numbers behind a figure, as a page knows them: few enough, and with few enough digits.

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


NARROW_INCHES = 5.0
"""Width of a figure up to which a phone shows all of it, in inches."""

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_DECIMALS = re.compile(r"(\.\d)\d+")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""What XML cannot hold."""

_LEGEND = "legend-entry-"


@dataclass(frozen=True)
class PageFigure:
    """A figure as a page holds it.

    Parameters
    ----------
    svg : str
        Markup.
    panels : list of dict
        Of each panel where its axes lie, their limits and labels, and the numbers of its series,
        as JSON; empty if the figure shows no series.
    narrow : bool
        Whether a phone shows all of it.
    """

    svg: str
    panels: list[dict[str, Any]]
    narrow: bool


@in_style
def page_figure(figure: ReportFigure, prefix: str) -> PageFigure:
    """Make a figure ready for a page.

    Parameters
    ----------
    figure : ReportFigure
        The figure.
    prefix : str
        What all names in the markup begin with: letters, digits, hyphens.
    """
    labels = _mark_legends(figure.figure)
    stream = BytesIO()
    # Names that Matplotlib makes of what they name differ from those of other figures.
    style: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": f"{prefix}-{figure.name}"}
    with matplotlib.rc_context(style):
        figure.figure.savefig(stream, format="svg", metadata={"Date": None}, transparent=True)
    root = ElementTree.fromstring(_CONTROL.sub(b"?", stream.getvalue()))
    _make_inline(root, prefix, labels)
    root.attrib |= {"role": "img", "aria-label": visible(figure.alt)}
    panels = [numbers_of(panel, figure.figure, prefix) for panel in figure.panels if panel.series]
    narrow = figure.figure.get_figwidth() < NARROW_INCHES
    return PageFigure(ElementTree.tostring(root, "unicode"), panels, narrow)


def _mark_legends(figure: Figure) -> dict[str, str]:
    """Give the entries of all legends names, and return the label of each name."""
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    labels: dict[str, str] = {}
    for legend in filter(None, legends):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            for artist in (handle, text):
                if artist is not None:
                    name = f"{_LEGEND}{len(labels)}"
                    artist.set_gid(name)
                    labels[name] = visible(text.get_text())
    return labels


def _make_inline(root: ElementTree.Element, prefix: str, labels: Mapping[str, str]) -> None:
    """Give markup that Matplotlib has written names that are unique in the page.

    Entries of legends, by their names, get the label that they stand for. Names that nothing
    refers to, metadata and styles of the whole document go, and decimals that nobody sees.
    """
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        for child in list(element):
            if child.tag in (f"{_SVG}metadata", f"{_SVG}style"):
                element.remove(child)
        name = element.attrib.pop("id", "")
        if name in labels:
            element.set("data-legend", labels[name])
        elif name and "_" not in name:  # Matplotlib's own numbers have one
            element.set("id", f"{prefix}-{name}")
        if link := element.attrib.pop(_LINK, ""):
            element.set("href", f"#{prefix}-{link[1:]}" if link.startswith("#") else link)
        for key in ("style", "clip-path", "fill"):
            if "url(#" in (value := element.get(key, "")):
                element.set(key, value.replace("url(#", f"url(#{prefix}-"))
        if path := element.get("d"):  # a tenth of a point (1/72 inch) is seen by nobody
            element.set("d", _DECIMALS.sub(r"\1", " ".join(path.split())))
        element.text, element.tail = (element.text or "").strip() or None, None
