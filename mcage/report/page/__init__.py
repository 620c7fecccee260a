"""The page of a report: its parts, put into the templates.

Figures stand in it as Matplotlib writes them, with the numbers behind them.
"""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any

import matplotlib
import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter

from mcage.plain_text import visible, visible_lines
from mcage.report.figures.canvas import POINTS_PER_INCH, Panel, ReportFigure, Series, in_style
from mcage.report.presentation import Assumptions, Words
from mcage.report.references import mcage_bibtex, references_of
from mcage.report.tables import Column, ResultTable
from mcage.results.header import Header, code_in_words
from mcage.stats.estimates import Floats
from mcage.version import running_code

MOST_CHOICES = 40
"""Different words in a column up to which one may choose among them."""

VOLTAGES = {"vdd_volts": "lowest Vdd [V]"}
"""Columns of numbers among which one may choose, and how they are called."""


@dataclass(frozen=True)
class PageSource:
    """A results file of a report.

    Parameters
    ----------
    name : str
        Its file name.
    header : Header
        Its header.
    words : Words
        Its summary.
    assumptions : list of (str, str)
        What it rests on.
    notes : tuple of str
        What must be known of it: caveats, missing instances, other code.
    spec_name : str
        Name of the file in the folder that holds the spec.
    """

    name: str
    header: Header
    words: Words
    assumptions: Assumptions
    notes: tuple[str, ...]
    spec_name: str

    @property
    def command(self) -> str:
        """Command line that computes the file again; empty where there is none."""
        if not self.header.command:
            return ""
        command = self.header.command.format(engine=self.header.engine)
        return f"{command} {shlex.quote(self.spec_name)} --out {shlex.quote(self.name)}"

    @property
    def codes(self) -> str:
        """Code that computed the file."""
        return code_in_words(self.header.codes)


@dataclass(frozen=True)
class Drawing:
    """A figure as a page holds it.

    Parameters
    ----------
    svg : str
        Markup.
    alt : str
        What can be seen in it.
    panels : list of dict
        Of each panel where its axes lie, their limits and labels, and the numbers of its series,
        as JSON; empty if the figure shows no series.
    narrow : bool
        Whether a phone shows all of it.
    """

    svg: str
    alt: str
    panels: list[dict[str, Any]]
    narrow: bool


@dataclass(frozen=True)
class PageFigure:
    """A figure of a report, or why there is none.

    Parameters
    ----------
    name, title, caption : str
        As of the figure; of a figure that is absent, ``caption`` says why.
    source : int
        Number of its results file in the report.
    file : str
        The results file; empty if the report is of a single one.
    drawing : Drawing, optional
        The figure; None if it is absent.
    links : tuple of (str, str)
        Format and path in the folder.
    """

    name: str
    title: str
    caption: str
    source: int
    file: str = ""
    drawing: Drawing | None = None
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Choice:
    """Words of a column among which a reader may choose lines.

    Parameters
    ----------
    name : str
        What the column holds.
    words : tuple of str
        Different words.
    at : tuple of int
        Place of the word of each line.
    """

    name: str
    words: tuple[str, ...]
    at: tuple[int, ...]


@dataclass(frozen=True)
class StudySection:
    """The results files of one study: a section of the page.

    Parameters
    ----------
    name : str
        The study.
    sources : tuple of PageSource
        Its files.
    table : ResultTable
        Its table.
    table_links : tuple of str
        Paths of the same as CSV in the folder: of the table, and of those below it.
    cases : tuple of str
        Number of the file and place of the case of each line of the table; empty of a line that is
        of no case.
    figures : tuple of tuple of PageFigure
        Its figures; those of the same name, one for each file, stand side by side.
    """

    name: str
    sources: tuple[PageSource, ...]
    table: ResultTable
    table_links: tuple[str, ...]
    cases: tuple[str, ...]
    figures: tuple[tuple[PageFigure, ...], ...]

    @property
    def filters(self) -> tuple[Choice, ...]:
        """Columns by whose words lines may be chosen."""
        return tuple(filter(None, map(_choice, self.table.columns)))


def _choice(column: Column) -> Choice | None:
    """Choice among the words of a column, or among its voltages; none of other numbers."""
    texts = [cell.text for cell in column.cells]
    words = tuple(dict.fromkeys(texts))
    of_words = all(isinstance(cell.value, str) for cell in column.cells)
    if column.key in ("", "case") or not (of_words or column.key in VOLTAGES):
        return None
    if not 1 < len(words) <= MOST_CHOICES:
        return None
    name = column.name or VOLTAGES.get(column.key, column.key.replace("_", " "))
    return Choice(name, words, tuple(map(words.index, texts)))


def page_of(studies: Sequence[StudySection]) -> str:
    """HTML of the page of at least one study."""
    script = _static("report.js")
    sources = [source for study in studies for source in study.sources]
    papers = dict.fromkeys(
        paper.bibtex() for source in sources for paper in references_of(source.header)
    )
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            studies=studies,
            sources=sources,
            title=", ".join(source.name for source in sources),
            bibtex="\n\n".join([mcage_bibtex(), *papers]),
            style=Markup(_static("report.css")),
            script=Markup(script),
            script_hash=_hash(script),
            version=running_code(),
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__name__),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible_lines(value) if type(value) is str else value,
    )
    environment.filters |= {"island": _island, "markup": Markup, "parts": _parts}
    return environment


def _parts(text: str) -> list[str]:
    """A number and its interval, between which a line of a narrow column may end."""
    return re.split(r" (?=[\[±])", text, maxsplit=1)


def _island(value: Any) -> Markup:
    """JSON inside a script element: nothing in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _static(name: str) -> str:
    folder = files(__name__) / "static"
    return (folder / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


# A figure as SVG, and the numbers behind it: few enough, and with few enough digits.

GRID = 200
"""Places at most at which a page knows a curve."""

MOST_POINTS = 1000
"""Points at most that a page knows of a series of points."""

DIGITS = 4
"""Digits of a number in a page."""

NARROW_INCHES = 5.0
"""Width of a figure up to which a phone shows all of it."""

_NAME = re.compile(r' id="([^"]*)"')
_PATH = re.compile(r' d="[^"]*"')
_DECIMALS = re.compile(r"(\.\d)\d+")


@in_style
def drawing_of(figure: ReportFigure, prefix: str) -> Drawing:
    """A figure ready for a page, in which the names of its series have a prefix."""
    stream = BytesIO()
    # Names that Matplotlib makes of what they name differ from those of other figures.
    style: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": f"{prefix}-{figure.name}"}
    undated = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context(style):
        figure.figure.savefig(stream, format="svg", metadata=undated, transparent=True)
    svg = stream.getvalue().decode()
    svg = _NAME.sub(lambda match: _renamed(match[1], prefix), svg[svg.index("<svg") :])
    # A tenth of a point (1/72 inch) is seen by nobody, and a fifth of the page.
    svg = _PATH.sub(lambda match: _DECIMALS.sub(r"\1", match[0]), svg)
    panels = [_numbers_of(panel, figure.figure, prefix) for panel in figure.panels]
    return Drawing(svg, figure.alt, panels, figure.figure.get_figwidth() < NARROW_INCHES)


def _renamed(name: str, prefix: str) -> str:
    """Attribute of an element: names of series get the prefix, Matplotlib's numbers go."""
    if "_" in name:  # to which nothing refers
        return ""
    return f' id="{prefix}-{name}"' if "-" in name else f' id="{name}"'


def _numbers_of(panel: Panel, figure: Figure, prefix: str) -> dict[str, Any]:
    """Where a panel lies in the SVG, in its units, and what it shows, as JSON."""
    axes = panel.axes
    width, height = figure.get_size_inches() * POINTS_PER_INCH
    place = axes.get_position()
    box = (place.x0 * width, (1 - place.y1) * height, place.x1 * width, (1 - place.y0) * height)
    steps = [of.x for of in panel.series if of.kind == "step" and of.x.size]
    grid = _grid(np.unique(np.concatenate(steps)), axes.get_xscale()) if steps else np.empty(0)
    return {
        "title": panel.title,
        "box": [round(number, 1) for number in box],
        "x": _axis(axes.xaxis, axes.get_xlim(), panel.x_label),
        "y": _axis(axes.yaxis, axes.get_ylim(), panel.y_label),
        "grid": _numbers(grid),
        "series": [_series(series, grid, prefix) for series in panel.series],
    }


def _axis(axis: Axis, limits: tuple[float, float], label: str) -> dict[str, Any]:
    known = {"label": label, "limits": _numbers(np.array(limits)), "log": axis.get_scale() == "log"}
    if isinstance(axis.get_major_formatter(), FixedFormatter):  # names of rows
        words = [text.get_text() for text in axis.get_ticklabels()]
        known["names"] = {f"{at:g}": of for at, of in zip(axis.get_ticklocs(), words, strict=True)}
    return known


def _grid(places: Floats, scale: str) -> Floats:
    """Where all step curves of a panel are known: at each step, or at even distances."""
    if places.size <= GRID:
        return places
    spaced = np.geomspace if scale == "log" else np.linspace
    even = spaced(places[0], places[-1], GRID + 1)
    return np.unique(np.rint(even)) if np.all(places == np.rint(places)) else even


def _series(series: Series, grid: Floats, prefix: str) -> dict[str, Any]:
    """Numbers of a series; those of a step curve at the places of the grid."""
    columns = {
        "y": series.y,
        "lower": series.lower,
        "upper": series.upper,
        "x_lower": series.x_lower,
        "x_upper": series.x_upper,
    }
    known: dict[str, Any] = {
        "id": f"{prefix}-{series.gid}",
        "label": visible(series.label),
        "cases": series.cases,
        "kind": series.kind,
    }
    if series.kind == "step":
        at = np.searchsorted(series.x, grid, side="right") - 1
    else:
        most = MOST_POINTS if series.kind == "points" else GRID
        at = np.linspace(0, series.x.size - 1, min(series.x.size, most)).astype(int)
        known["x"] = _numbers(series.x[at])
    for name, column in columns.items():
        if column is not None:
            known[name] = _numbers(np.where(at < 0, np.nan, column[np.maximum(at, 0)]))
    return known


def _numbers(values: Floats) -> list[float | int | None]:
    """Numbers as JSON has them; null where there is none."""
    return [_number(value) for value in values.tolist()]


def _number(value: float) -> float | int | None:
    if not np.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded
