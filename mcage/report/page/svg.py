"""A figure as SVG inside a page: small, coloured by the page, and with the numbers behind it.

Matplotlib draws; what it writes is made smaller, every colour becomes a variable that the page
may set, and every name becomes unique in the page.
"""

import colorsys
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
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

# Colours of figures on a dark page: as light as needed to be told from the background.

BACKGROUND = "1b1d21"
"""What `report.css` calls ``--paper`` on a dark page."""

LEAST_CONTRAST = 4.5
"""As WCAG 2.2 asks of text (AA)."""

_STEPS = 40


def dark_colours(colours: Iterable[str]) -> dict[str, str]:
    """Colours as they stand on a dark page, both as rrggbb.

    Black and white change places with the ink and the paper of the page; any other colour keeps
    its hue, and becomes lighter where it is too dark.
    """
    return {
        colour: _light_enough(colour)
        for colour in sorted(colours)
        if colour not in ("000000", "ffffff") and contrast(colour, BACKGROUND) < LEAST_CONTRAST
    }


def contrast(colour: str, other: str) -> float:
    """Ratio of the luminances of two colours, 1 to 21, as WCAG 2.2 defines it."""
    high, low = sorted((_luminance(colour), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in _parts(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _parts(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4))
    return red, green, blue


def _light_enough(colour: str) -> str:
    hue, lightness, saturation = colorsys.rgb_to_hls(*_parts(colour))
    for step in range(_STEPS + 1):
        lighter = lightness + (1 - lightness) * step / _STEPS
        parts = colorsys.hls_to_rgb(hue, lighter, saturation)
        candidate = "".join(f"{round(255 * part):02x}" for part in parts)
        if contrast(candidate, BACKGROUND) >= LEAST_CONTRAST:
            return candidate
    return "ffffff"


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

STEPS_PER_POINT = 10
"""Positions that a long path may have along a point (1/72 inch)."""

LONG_PATH = 12
"""Points of a path above which it is written shorter."""

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_POINT = re.compile(r"([ML]) (\S+) (\S+)")
_FONT = re.compile(r"(.*?)([\d.]+px).*")
_CIRCLE = re.compile(r"M[^MCz]*(?:C[^MCz]*){8}z")
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
    styles : mapping of str to str
        Declarations of its classes. A class of the same name is the same in all figures.
    colours : frozenset of str
        Colours in it, as rrggbb; the markup takes each from the variable ``--c-rrggbb``.
    panels : list of dict
        Of each panel where its axes lie, their limits and labels, and the numbers of its series,
        as JSON; empty if the figure shows no series.
    narrow : bool
        Whether a phone shows all of it.
    """

    svg: str
    styles: Mapping[str, str]
    colours: frozenset[str]
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
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.figure.savefig(stream, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(_CONTROL.sub(b"?", stream.getvalue()))
    kept = {gid for panel in figure.panels for series in panel.series for gid in _names(series)}
    markup = _Markup(root, prefix, kept, labels)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": visible(figure.alt)}
    panels = [numbers_of(panel, figure.figure, prefix) for panel in figure.panels if panel.series]
    svg = ElementTree.tostring(root, "unicode")
    narrow = figure.figure.get_figwidth() < NARROW_INCHES
    return PageFigure(svg, markup.styles, frozenset(markup.colours), panels, narrow)


def _names(series: Series) -> tuple[str, ...]:
    return (series.gid, f"{series.gid}-band", f"{series.gid}-marks")


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


# ---- markup ---------------------------------------------------------------------------------


class _Markup:
    """Markup of a figure, which becomes shorter.

    Parameters
    ----------
    root : Element
        What Matplotlib has written.
    prefix : str
        What all names begin with.
    kept : set of str
        Names that stay, besides those that the markup refers to.
    labels : mapping of str to str
        Names of entries of legends, and what they stand for.
    """

    def __init__(
        self,
        root: ElementTree.Element,
        prefix: str,
        kept: set[str],
        labels: Mapping[str, str],
    ) -> None:
        self.root = root
        self.styles: dict[str, str] = {}
        self.colours: set[str] = set()
        self._prefix = prefix
        self._labels = labels
        self._kept = kept | _references(root)
        for element in root.iter():
            for child in list(element):
                if child.tag in (f"{_SVG}metadata", f"{_SVG}style"):
                    element.remove(child)
        for element in root.iter():
            self._shorten(element)
        for pattern in root.iter("pattern"):
            for path in pattern.iter("path"):
                path.set("d", _CIRCLE.sub(_circle, path.get("d", "")))
        _lift(root)

    def _shorten(self, element: ElementTree.Element) -> None:
        element.tag = element.tag.removeprefix(_SVG)
        element.text, element.tail = (element.text or "").strip() or None, None
        given = dict(element.attrib)
        element.attrib.clear()
        name = given.pop("id", "")
        if name in self._labels:
            element.set("data-legend", self._labels[name])
        elif name in self._kept:
            element.set("id", f"{self._prefix}-{name}")
        if link := given.pop(_LINK, ""):
            element.set("href", f"#{self._prefix}-{link[1:]}" if link.startswith("#") else link)
        if fill := given.pop("fill", ""):
            given["style"] = f"fill: {fill}; {given.get('style', '')}"
        for key, value in given.items():
            value = _REFERENCE.sub(rf"url(#{self._prefix}-\1)", value)
            if key == "style":
                self._set_style(element, value)
            elif key == "d":
                element.set(key, _path(value))
            elif key in ("x", "y", "width", "height", "transform", "points"):
                if not value.startswith("rotate(-0 "):
                    element.set(key, _NUMBER.sub(_short, value))
            else:
                element.set(key, value)

    def _set_style(self, element: ElementTree.Element, style: str) -> None:
        """Give a style the class of all that look alike; one that names other parts stays."""
        style = ";".join(_declarations(style))
        self.colours |= {colour[1:] for colour in _COLOUR.findall(style)}
        style = _COLOUR.sub(lambda match: f"var(--c-{match[0][1:]},{match[0]})", style)
        if "url(" in style:
            element.set("style", style)
            return
        name = f"s{hashlib.blake2b(style.encode(), digest_size=4).hexdigest()}"
        self.styles[name] = style
        element.set("class", name)


def _references(root: ElementTree.Element) -> set[str]:
    """Names that the markup refers to."""
    names = set()
    for element in root.iter():
        for value in element.attrib.values():
            names |= set(_REFERENCE.findall(value))
        names.add(element.get(_LINK, "").removeprefix("#"))
    return names - {""}


def _lift(element: ElementTree.Element) -> None:
    """Put what lies in groups without a name in the place of these groups."""
    children = []
    for child in element:
        _lift(child)
        children += list(child) if child.tag == "g" and not child.attrib else [child]
    element[:] = children


def _declarations(style: str) -> Iterator[str]:
    """Declarations of a style without the family of a font, which the page chooses."""
    for declaration in filter(None, map(str.strip, style.split(";"))):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font" and (match := _FONT.fullmatch(value)):
            if re.search("bold|[6-9]00", match[1]):
                yield "font-weight:bold"
            yield f"font-size:{match[2]}"
        elif name != "font-family":
            yield f"{name}:{value}"


def _circle(match: re.Match[str]) -> str:
    """A closed ring of curves as the circle that it is."""
    numbers = np.array([float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", match[0])])
    x, y = numbers[::2], numbers[1::2]
    radius = (y.max() - y.min()) / 2
    at = f"M{x.mean():.4g} {y.max():.4g}"
    return f"{at}a{radius:.2g} {radius:.2g} 0 1 0 .01 0z"


def _short(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")


def _path(description: str) -> str:
    """Path with two decimals; if it is a long polygon, by steps from point to point."""
    commands = description.split()
    letters = {command for command in commands if command.isalpha()}
    if letters <= {"M", "L", "z"} and len(commands) > 3 * LONG_PATH:
        parts = (part for part in re.split(r"(?=M)", description) if part.strip())
        return "".join(map(_polygon, parts))
    return re.sub(r" ?([A-Za-z]) ?", r"\1", _NUMBER.sub(_short, " ".join(commands)))


def _polygon(description: str) -> str:
    """One line of a path, in whole steps, without points on a straight way."""
    points = np.array([(float(x), float(y)) for _, x, y in _POINT.findall(description)])
    whole = np.rint(points * STEPS_PER_POINT).astype(int)
    moves = np.diff(whole, axis=0)
    moves = moves[np.any(moves != 0, axis=1)]
    written = ["M{} {}".format(*map(_tenths, whole[0].tolist()))]
    for across, down in _joined(moves.tolist()):
        if not down:
            written.append(f"h{_tenths(across)}")
        elif not across:
            written.append(f"v{_tenths(down)}")
        else:
            written.append(f"l{_tenths(across)} {_tenths(down)}")
    return "".join(written) + ("z" if "z" in description else "")


def _joined(moves: list[list[int]]) -> Iterator[tuple[int, int]]:
    """Moves with neighbours joined that go the same way along an axis."""
    before = (0, 0)
    for across, down in moves:
        level = not down and not before[1] and across * before[0] > 0
        upright = not across and not before[0] and down * before[1] > 0
        if level or upright:
            before = (before[0] + across, before[1] + down)
            continue
        if before != (0, 0):
            yield before
        before = (across, down)
    if before != (0, 0):
        yield before


def _tenths(steps: int) -> str:
    return f"{steps / STEPS_PER_POINT:g}"
