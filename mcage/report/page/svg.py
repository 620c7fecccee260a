"""A figure as SVG inside a page: small, coloured by the page, and with the numbers behind it.

Matplotlib draws; what it writes is made smaller, every colour becomes a variable that the page
may set, and every name becomes unique in the page.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from mcage.plain_text import visible
from mcage.report.figures.figure import ReportFigure, Series
from mcage.report.figures.style import in_style
from mcage.report.page.numbers import numbers_of

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
