"""The sheet that figures are drawn on: its style, its panels, its legend and what stands below."""

import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import wraps
from itertools import count, product
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.path import Path as Shape
from matplotlib.text import Text

from mcage.files.atomic import FIGURES, kind_of_name, make_ready, whole_file
from mcage.plain_text import shown, visible
from mcage.report.cases import NamedCase, in_a_row
from mcage.report.notes import caveats_of
from mcage.results.header import Header
from mcage.stats.estimates import CONFIDENCE, Bools, Floats

# The style of all figures: fonts, widths, and how curves differ, in colour and in grey.

Given = ParamSpec("Given")
Drawn = TypeVar("Drawn")

WIDTHS_MM = (85.0, 180.0)
"""Widths of a column and of a page of a paper."""

MM_PER_INCH = 25.4
POINTS_PER_INCH = 72

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # which ships with Matplotlib: the same on every machine
    "font.size": 7,  # to which all other sizes are relative
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.titlesize": "medium",
    "axes.titlelocation": "left",
    "axes.titlepad": 5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "lines.linewidth": 1.1,
    "lines.markersize": 4,
    "pdf.fonttype": 42,  # TrueType: journals refuse fonts of type 3
    "ps.fonttype": 42,
    "svg.hashsalt": "mcage",
    "savefig.dpi": 300,
    # Names of techniques and kernels are no mathematics, whatever signs they have.
    "text.parse_math": False,
}

SMALL = "small"
"""Size of the smallest text: numbers at risk, values beside points."""

GREY = "#666666"
"""Colour of what is no data: limits, notes."""

PALETTE = (
    *("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#332288", "#882255", "#999933", "#777777"),
)
"""Colours of Okabe and Ito, and of Tol, which the colour-blind tell apart."""

SOLID: tuple[float, ...] = ()
DASHES: tuple[tuple[float, ...], ...] = (
    SOLID,
    (5, 1.6),
    (1, 1.2),
    (5, 1.4, 1, 1.4),
    (9, 2),
    (5, 1.4, 1, 1.4, 1, 1.4),
    (2.4, 1.2),
)
"""Line styles: points on, off, ..., in widths of the line."""

MARKERS = ("o", "s", "^", "v", "D", "P", "X", "*", "<", ">", "h", "p", "d", "8")

FREE_COLOURS = ("#772200", "#7766FF", "#22CC77", "#550055")
"""Colours beside those of `PALETTE`: the colour-blind tell each of them from all of these, too."""

_CORNERS = ((-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (-1.0, -1.0))
FREE_MARKERS = (Shape(_CORNERS), Shape([(y, x) for x, y in _CORNERS]))
"""Markers beside `MARKERS`: an hourglass, upright and lying."""


@dataclass(frozen=True)
class CurveLook:
    """How a curve looks.

    Parameters
    ----------
    colour : str
        Colour as #RRGGBB.
    dashes : tuple of float
        Points on, off, ..., in widths of the line; empty for a solid line.
    marker : str or matplotlib.path.Path
        Marker of Matplotlib.
    """

    colour: str
    dashes: tuple[float, ...]
    marker: Any

    @property
    def linestyle(self) -> Any:
        """Line style as Matplotlib takes it."""
        return (0, self.dashes) if self.dashes else "solid"

    @property
    def in_grey(self) -> tuple[tuple[float, ...], Any]:
        """Look of a curve without colours."""
        return self.dashes, self.marker


Looks = Mapping[str, CurveLook]

LOOKS = {
    "baseline": CurveLook("#000000", SOLID, "o"),
    "rar": CurveLook("#882255", DASHES[4], "<"),
    "rc": CurveLook("#999933", DASHES[2], ">"),
    "rc+rar": CurveLook("#D55E00", DASHES[1], "s"),
    "wc": CurveLook("#332288", DASHES[6], "v"),
    "argo": CurveLook("#777777", DASHES[3], "h"),
    "disable": CurveLook("#E69F00", DASHES[4], "X"),
    "gr-guard": CurveLook("#CC79A7", DASHES[5], "P"),
    "rrcd": CurveLook("#0072B2", DASHES[3], "^"),
    "rrcd+pg": CurveLook("#56B4E9", DASHES[1], "D"),
    "rrcd+rc+rar": CurveLook("#009E73", DASHES[2], "*"),
}
"""Looks of the techniques that ship with mcage, the same in each figure."""


def looks_of(names: Iterable[str] | Mapping[str, str]) -> dict[str, CurveLook]:
    """Look of each technique, or of whatever else has curves of its own.

    Parameters
    ----------
    names : iterable of str, or mapping of str to str
        Names in the order of the file; a mapping says which technique has the name. Techniques
        that `LOOKS` does not have get looks whose colours and markers none of the others has, as
        long as there are such, and always another line style or marker; so do further names of
        one technique.

    Returns
    -------
    dict of str to Look
        Looks that differ from each other in line style or marker.
    """
    techniques = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
    firsts = {technique: name for name, technique in reversed(techniques.items())}
    shipped = [LOOKS[technique] for technique in firsts if technique in LOOKS]
    others = _other_looks(shipped)
    return {
        name: LOOKS[technique] if technique in LOOKS and firsts[technique] == name else next(others)
        for name, technique in techniques.items()
    }


def _other_looks(shipped: Sequence[CurveLook]) -> Iterator[CurveLook]:
    """Looks beside those of techniques, each once; neighbours differ in all that they can."""
    # Free ones come first, so that a user's technique looks the same beside whatever it stands.
    palette = (*FREE_COLOURS, *PALETTE) if shipped else (*PALETTE[1:], PALETTE[0])
    every_marker = (*FREE_MARKERS, *MARKERS) if shipped else MARKERS
    seen = {look.colour for look in shipped}
    colours = [colour for colour in palette if colour not in seen]
    seen = {look.marker for look in shipped}
    markers = [marker for marker in every_marker if marker not in seen]
    turns = product(range(len(DASHES)), range(len(markers)))
    pairs = ((DASHES[(turn + place) % len(DASHES)], markers[place]) for turn, place in turns)
    taken = {look.in_grey for look in LOOKS.values()}
    numbers = ((SOLID, f"${number}$") for number in count(1))
    for number, (dashes, marker) in enumerate(pair for pair in pairs if pair not in taken):
        yield CurveLook(colours[number % len(colours)], dashes, marker)
    for number, (dashes, marker) in enumerate(numbers):  # more than a figure can show
        yield CurveLook(colours[number % len(colours)], dashes, marker)


def in_style(draw: Callable[Given, Drawn]) -> Callable[Given, Drawn]:
    """Decorate a function that draws or writes a figure in this style.

    What the user has set otherwise than Matplotlib does by default, stays so.
    """

    @wraps(draw)
    def drawing(*args: Given.args, **named: Given.kwargs) -> Drawn:
        now, default = matplotlib.rcParams, matplotlib.rcParamsDefault
        with matplotlib.rc_context({k: v for k, v in STYLE.items() if now[k] == default[k]}):
            return draw(*args, **named)

    return drawing


class StyledFigure(Figure):
    """A figure that is saved in this style by whoever saves it, and laid out for any size."""

    entries: Mapping[str, Line2D] = {}
    """Handles of the legend by their words."""

    mathematical: Sequence[str] = ()
    """Names in which dollar signs enclose mathematics."""

    savefig = in_style(Figure.savefig)

    def set_size_inches(self, *size: Any, **options: Any) -> None:
        """Set its size; see `matplotlib.figure.Figure.set_size_inches`."""
        super().set_size_inches(*size, **options)
        self.make_legend()

    @in_style
    def make_legend(self) -> None:
        """Make the legend below the panels, in as many columns as find room."""
        for former in [*self.legends]:
            former.remove()
        if self.entries:
            longest = max(map(len, self.entries)) + 9  # as many letters as a handle takes
            columns = letters(self.get_figwidth() * MM_PER_INCH) // longest
            self.legend(
                list(self.entries.values()),
                list(self.entries),
                loc="outside lower center",
                ncols=max(1, min(len(self.entries), columns)),
            )
        for text in self.findobj(Text):
            if any(name in text.get_text() for name in self.mathematical):
                text.set_parse_math(True)

    def _ipython_display_(self) -> None:
        """Let a notebook show it once, not at the end of the cell again, as pyplot would."""
        if "matplotlib.pyplot" in sys.modules and "inline" in matplotlib.get_backend():
            sys.modules["matplotlib.pyplot"].close(self)
        raise NotImplementedError  # IPython goes on as with any figure


def inches(millimetres: float) -> float:
    """Length in inches, as Matplotlib takes it."""
    return millimetres / MM_PER_INCH


def points(size: str = "medium") -> float:
    """Points of a size of text, which is relative to the user's or our ``font.size``."""
    return FontProperties(size=size).get_size_in_points()


def letters(millimetres: float, size: str = "medium") -> int:
    """Number of letters that a line takes."""
    return int(inches(millimetres) * POINTS_PER_INCH / (EM * points(size)))


def line_mm(size: str = "medium") -> float:
    """Distance of two lines of text."""
    return LINE * points(size) * MM_PER_INCH / POINTS_PER_INCH


# A figure with its words and its numbers, and how it is written to a file.

FINENESS = 1 / 250
"""Largest deviation of a thinned curve, as a part of the range of its numbers."""

# What would differ from run to run, or from one Matplotlib to the next, is left out.
_UNDATED = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}


@dataclass(frozen=True)
class Series:
    """Numbers of a curve, or of a group of points.

    Parameters
    ----------
    label : str
        Whose they are, such as a technique, as in the legend.
    x, y : ndarray of float [point]
        Numbers in the units of the axes. Of steps, ``y`` holds from its ``x`` to the next; of rows,
        it is the place of the row from above.
    lower, upper : ndarray of float [point], optional
        Bounds of the interval of ``y``; NaN where there is none.
    cases : tuple of int
        Places in the file of the cases that they are of; empty where they are of none.
    marks : ndarray of bool [point], optional
        Which points of a line have a marker, by default all; which of points are on a front.
    kind : {'step', 'line', 'points'}
        How they are drawn.
    x_lower, x_upper : ndarray of float [point], optional
        Bounds of the interval of ``x``, as of rows.
    sizes : ndarray of float [point], optional
        How large points are drawn, 0 ... 1.
    words : sequence of str [point]
        What stands beside points, where there is room.
    gid : str
        Name of the drawn artist, unique among the figures of a file: letters, digits, hyphens. The
        artist of a band has it with ``-band``, those of markers with ``-marks``. Empty until it is
        drawn.
    """

    label: str
    x: Floats
    y: Floats
    lower: Floats | None = None
    upper: Floats | None = None
    _: KW_ONLY
    cases: tuple[int, ...] = ()
    marks: Bools | None = None
    kind: Literal["step", "line", "points"] = "line"
    x_lower: Floats | None = None
    x_upper: Floats | None = None
    sizes: Floats | None = None
    words: Sequence[str] = ()
    gid: str = ""

    def coincides_with(self, other: "Series") -> bool:
        """Whether both are the same over the whole range."""
        return np.array_equal(self.x, other.x) and np.array_equal(self.y, other.y, equal_nan=True)

    def thinned(self) -> "Series":
        """Return the series without points of a step curve that nobody would see.

        A point stays where ``y`` or a bound has moved by more than `FINENESS` of its range since
        the last point that stayed, and so do the first, the last, and those where a bound begins
        or ends. So a curve that rises or falls all the time keeps some 250 points, and each
        bound adds as many at most. Series of other kinds stay as they are.
        """
        if self.kind != "step" or self.x.size < 2 / FINENESS:
            return self
        columns = [column for column in (self.y, self.lower, self.upper) if column is not None]
        keep = kept_steps(columns, FINENESS)
        bounds = (None if bound is None else bound[keep] for bound in (self.lower, self.upper))
        lower, upper = bounds
        return replace(self, x=self.x[keep], y=self.y[keep], lower=lower, upper=upper)


@dataclass(frozen=True)
class Panel:
    """A part of a figure with axes of its own.

    Parameters
    ----------
    title : str
        What the panel is about, such as conditions; empty if the figure has a single panel.
    series : tuple of Series
        What it shows.
    notes : tuple of str
        What cannot be seen in it.
    alt : str
        What can be seen in it, as a sentence.
    rows : tuple of (str, tuple of float, tuple of int)
        Names, places on the axis and numbers that stand there below it.
    x_label, y_label : str
        Labels of the axes, with their units; empty for those of the figure.
    axes : matplotlib.axes.Axes, optional
        Its axes, once it is drawn.
    """

    title: str
    series: tuple[Series, ...]
    notes: tuple[str, ...] = ()
    alt: str = ""
    rows: tuple[tuple[str, tuple[float, ...], tuple[int, ...]], ...] = ()
    x_label: str = ""
    y_label: str = ""
    axes: Any = None


@dataclass(frozen=True)
class CasePart:
    """Part of a figure that shows a case.

    Parameters
    ----------
    series : Series, optional
        Its numbers; None where there are none, or nobody could see them.
    panel : str
        What tells the panel from others of the same conditions, such as a cause of death.
    why : str
        Why there is no series, or what cannot be seen in it.
    worth : float
        Number by which sentences compare cases; NaN where it is not known.
    row : (tuple of float, tuple of int)
        Places on the axis and numbers that stand below them.
    """

    series: Series | None
    panel: str = ""
    why: str = ""
    worth: float = np.nan
    row: tuple[tuple[float, ...], tuple[int, ...]] = ((), ())


@dataclass(frozen=True)
class ReportFigure:
    """A page of a figure of a results file.

    Parameters
    ----------
    name : str
        Name of its files without suffix, unique among the figures of a file: letters, digits,
        hyphens. Pages of a figure with many panels end in ``-1``, ``-2``, ...
    title : str
        What it shows, in a line.
    caption : str
        Population, intervals and assumptions, in sentences.
    alt : str
        What can be seen in it, in a sentence or two, for those who cannot see it.
    figure : matplotlib.figure.Figure
        The drawing.
    panels : tuple of Panel
        Its parts as they are drawn, with the numbers that they show.
    """

    name: str
    title: str
    caption: str
    alt: str
    figure: Figure
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class AbsentFigure:
    """A figure that cannot be drawn.

    Parameters
    ----------
    name, title : str
        As of `ReportFigure`.
    reason : str
        Why there is none, in a sentence.
    """

    name: str
    title: str
    reason: str


def check_figure_path(path: Path) -> None:
    """Refuse a figure that could not be written.

    Raises
    ------
    UserError
        There is no such folder, the suffix names no format, or a file of another kind is there.
    """
    make_ready(path, kind_of_name(path, list(FIGURES)))


@in_style
def save(figure: Figure, path: Path) -> None:
    """Write a figure, all or nothing, in the format that its suffix names.

    Raises
    ------
    UserError
        It cannot be written.
    """
    form = path.suffix.removeprefix(".").lower()
    with whole_file(path, kind_of_name(path, list(FIGURES))) as stream:
        figure.savefig(stream, format=form, metadata=_UNDATED[form])


def kept_steps(columns: Sequence[Floats], fineness: float) -> Bools:
    """Steps that a curve and its bounds need to be drawn, bool[step].

    Parameters
    ----------
    columns : sequence of ndarray of float [step]
        Heights and bounds; a bound is NaN where there is none.
    fineness : float
        Largest deviation, as a part of the range of a column.
    """
    keep = np.zeros(columns[0].size, dtype=bool)
    keep[[0, -1]] = True
    for column in columns:
        keep |= _moves(column, fineness)
    return keep


def _moves(column: Floats, fineness: float) -> Bools:
    """Where a column has moved by more than the fineness since the last such point."""
    known = ~np.isnan(column)
    moves = np.zeros(column.size, dtype=bool)
    moves[1:] = known[1:] != known[:-1]
    if not known.any():
        return moves
    step = fineness * max(float(np.ptp(column[known])), np.finfo(float).tiny)
    # Cells of a grid as wide as the fineness: a point stays where another cell begins.
    cells = np.floor(np.where(known, column, 0.0) / step)
    moves[1:] |= cells[1:] != cells[:-1]
    return moves


EM = 0.56
"""Mean width of a letter, in sizes of its font."""

LINE = 1.3
"""Distance of two lines, in sizes of their font."""

AXIS_MM = (38.0, 62.0)
"""Smallest and largest height of the axes of a panel."""

HEAD_MM, TITLE_MM = 14.0, 5.0
"""Height of title, legend and the label of the lowest axes, and of the title alone."""

LABELS_MM = 16.0
"""Height of the title and of the labels of a panel."""

MOST_MM, MOST_RATIO = 235.0, 2.0
"""Height of the text of a page, which no figure exceeds, and largest height over width."""

LONGEST_NAME = 30
"""Letters of a name beside a row."""

PERCENT = f"{100 * CONFIDENCE:g} %"
"""Probability of all intervals, in words."""


@dataclass(frozen=True)
class Sheet:
    """Properties that all figures of a file share.

    Parameters
    ----------
    width_mm : float
        Width of each figure.
    population : str
        How many instances each number is of, in words.
    caveats : tuple of str
        What must be said wherever results of the file are shown.
    title, rows, bands : bool
        Whether figures have a title, numbers below their axes, and bands around their curves.
    height_mm : float, optional
        Height of each figure; by default what its panels need.
    names : tuple of str
        Names of techniques for people, in which dollar signs enclose mathematics.
    """

    width_mm: float
    population: str
    caveats: tuple[str, ...] = ()
    title: bool = True
    rows: bool = True
    bands: bool = True
    height_mm: float | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, header: Header, width_mm: float, instances: str = "instances") -> "Sheet":
        """Sheet of a width for the figures of a file, by its header; what its instances are."""
        population = f"{header.holds:,} {instances}"
        return cls(width_mm, population, tuple(map(visible, caveats_of(header))))

    def columns(self, panels: int, narrowest_mm: float) -> int:
        """Number of panels beside each other, of so many."""
        most = max(1, int(self.width_mm // narrowest_mm))
        rows = -(-panels // most)
        return min(most, -(-panels // rows))

    def shown(self, panel: Panel) -> Panel:
        """The panel without rows and bands that the sheet leaves out."""
        series = panel.series
        if not self.bands:
            series = tuple(replace(curve, lower=None, upper=None) for curve in series)
        return replace(panel, series=series, rows=panel.rows if self.rows else ())


@dataclass(frozen=True)
class Plot:
    """A figure of a study; a class for each kind says how a panel is drawn.

    Parameters
    ----------
    name, title, caption : str
        As of `ReportFigure`; the sheet's caveats follow the caption.
    x_label, y_label : str
        Labels of the axes, with their units, of panels that have none of their own.
    panels : tuple of Panel
        At least one, to be drawn.
    looks : mapping of str to Look, optional
        Look of each name; by default those of `looks_of`.
    worth, unit : str
        What the numbers are by which sentences compare cases, and their unit with the space before
        it.
    without : str
        What is said of cases that have nothing in a panel, before their names.
    population : str
        Of what its numbers are, if not of the instances of the file.
    caveats : tuple of str
        What must be said of it beside what must be said of the file.
    """

    name: str
    title: str
    caption: str
    x_label: str = ""
    y_label: str = ""
    panels: tuple[Panel, ...] = ()
    looks: Looks | None = None
    worth: str = ""
    unit: str = ""
    without: str = ""
    population: str = ""
    caveats: tuple[str, ...] = ()

    shares_axes = False
    """Whether all panels have the same axes."""

    narrowest_mm = 55.0
    """Smallest width of a panel."""

    label_share = 0.75
    """Part of the width of a panel that its axes take."""

    def draw(self, axes: Axes, panel: Panel, looks: Looks) -> None:
        """Draw a panel; its series name the artists that are drawn of them."""
        raise NotImplementedError

    def kind(self, series: Series) -> Literal["step", "line", "points"]:
        """How a series is drawn."""
        return "points"

    def handle(self, look: CurveLook) -> Line2D:
        """Handle of a name in the legend."""
        return line_of(look)

    has_legend = True
    """Whether a legend names the series."""

    def width_mm(self) -> float:
        """Smallest width of these panels."""
        return self.narrowest_mm

    def axis_mm(self, sheet: Sheet) -> float:
        """Height of the axes of a panel, by its width."""
        low, high = AXIS_MM
        columns = sheet.columns(len(self.panels), self.width_mm())
        if columns == 1 < len(self.panels):
            return low  # a column of a paper is narrow, and soon too high
        return min(high, max(low, 0.6 * sheet.width_mm / columns))

    def heading(self, panel: Panel) -> list[str]:
        """Text above a panel: its title, and notes on data that it cannot show."""
        return [*filter(None, (panel.title, *panel.notes))]

    def headline(self, sheet: Sheet) -> str:
        """Title on a sheet."""
        return self.title

    def of_cases(
        self, cases: Iterable[tuple[NamedCase, Iterable[CasePart]]]
    ) -> "Plot | AbsentFigure":
        """Return the figure of cases, with a panel for each of their conditions and parts.

        Parameters
        ----------
        cases : iterable of (NamedCase, iterable of Part)
            Cases, and what is shown of each.

        Returns
        -------
        Plot or AbsentFigure
            The latter if no case has a series.
        """
        panels: dict[tuple[str, str], list[tuple[NamedCase, CasePart]]] = {}
        names: dict[str, dict[str, str]] = {}
        for case, parts in cases:
            names.setdefault(case.conditions, {})[case.name] = case.identity
            for part in parts:
                panels.setdefault((case.conditions, part.panel), []).append((case, part))
        drawn, why = [], []
        for (conditions, place), pairs in panels.items():
            title = ": ".join(filter(None, (conditions, place)))
            notes: dict[str, list[str]] = {}
            for case, part in pairs:
                notes.setdefault(part.why, []).append(case.name)
            if absent := [n for n in names[conditions] if n not in {c.name for c, _ in pairs}]:
                notes.setdefault(self.without, []).extend(absent)
            said = tuple(f"{words}: {in_a_row(of)}" for words, of in notes.items() if words)
            if not any(part.series for _, part in pairs):
                why += [": ".join(filter(None, (title, "; ".join(said))))]
                continue
            panel = Panel(
                title,
                tuple(
                    replace(part.series, label=case.name, cases=case.places)
                    for case, part in pairs
                    if part.series
                ),
                said,
                extremes(
                    title,
                    self.worth,
                    {case.name: part.worth for case, part in pairs},
                    self.unit,
                ),
                tuple((case.name, *part.row) for case, part in pairs if part.row[0]),
            )
            drawn.append(panel)
        if not drawn:
            return AbsentFigure(self.name, self.title, f"{'. '.join(why) or 'No case has it'}.")
        caption = f"{self.caption} Not drawn: {'; '.join(why)}." if why else self.caption
        looks = looks_of({n: of or n for named in names.values() for n, of in named.items()})
        return replace(self, caption=caption, panels=tuple(drawn), looks=looks)

    @in_style
    def pages(self, sheet: Sheet) -> list[ReportFigure]:
        """Draw the panels on as many pages as they need, which are not too high."""
        panels = tuple(map(sheet.shown, self.panels))
        whole = replace(self, panels=panels, looks=self.looks_of_all)
        height_mm, head_mm = whole._height_mm(sheet), HEAD_MM - TITLE_MM * (not sheet.title)
        most_mm = min(MOST_MM, MOST_RATIO * sheet.width_mm)
        rows = max(1, int((most_mm - head_mm) // height_mm))
        size = rows * sheet.columns(len(self.panels), self.width_mm())
        number = -(-len(self.panels) // size)
        size = -(-len(self.panels) // number)  # pages of equal size
        if number == 1:
            return [whole._page(self.name, "", sheet)]
        return [
            replace(whole, panels=whole.panels[page * size : (page + 1) * size])._page(
                f"{self.name}-{page + 1}", f", page {page + 1} of {number}", sheet
            )
            for page in range(number)
        ]

    def named(self, panel: Panel, name: str) -> Panel:
        """The panel with the names of what is drawn of its series."""
        series = (
            replace(of, gid=f"{name}-{place}", kind=self.kind(of))
            for place, of in enumerate(panel.series, 1)
        )
        x_label, y_label = panel.x_label or self.x_label, panel.y_label or self.y_label
        return replace(panel, series=tuple(series), x_label=x_label, y_label=y_label)

    @property
    def looks_of_all(self) -> Looks:
        """Look of each name."""
        names = (series.label for panel in self.panels for series in panel.series)
        return self.looks or looks_of(names)

    def _height_mm(self, sheet: Sheet) -> float:
        """Height of a panel with its title, its notes and its labels."""
        wrapped = (self._wrapped(panel, sheet) for panel in self.panels)
        return self.axis_mm(sheet) + LABELS_MM + line_mm() * max(of.count("\n") for of in wrapped)

    def _wrapped(self, panel: Panel, sheet: Sheet) -> str:
        """Title and notes of a panel in lines as long as its axes."""
        width_mm = sheet.width_mm / sheet.columns(len(self.panels), self.width_mm())
        each = letters(self.label_share * width_mm)
        lines = (textwrap.wrap(of, each, break_on_hyphens=False) for of in self.heading(panel))
        return "\n".join(line for of in lines for line in of)

    def _page(self, name: str, part: str, sheet: Sheet) -> ReportFigure:
        """Draw the panels on a page; ``part`` says which part of the figure it is."""
        columns = sheet.columns(len(self.panels), self.width_mm())
        rows = -(-len(self.panels) // columns)
        head_mm = HEAD_MM - TITLE_MM * (not sheet.title)
        height_mm = sheet.height_mm or head_mm + self._height_mm(sheet) * rows
        size = inches(sheet.width_mm), inches(height_mm)
        figure = StyledFigure(figsize=size, layout="constrained")
        share = self.shares_axes
        grid = figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
        for spare in grid.flat[len(self.panels) :]:
            spare.remove()
        drawn = []
        for number, (axes, of) in enumerate(zip(grid.flat, self.panels, strict=False)):
            panel = replace(self.named(of, f"{name}-{number + 1}"), axes=axes)
            # An axis is named where no other panel below or beside it has the same.
            axes.xaxis.set_tick_params(labelbottom=True)
            axes.yaxis.set_tick_params(labelleft=not share or number % columns == 0)
            self.draw(axes, panel, self.looks_of_all)
            width_mm = self.label_share * sheet.width_mm / columns
            axes.set_xlabel(_filled(panel.x_label, letters(width_mm)))
            if not share or number % columns == 0:
                axes.set_ylabel(_filled(panel.y_label, letters(self.axis_mm(sheet))))
            axes.set_title(self._wrapped(panel, sheet))
            drawn.append(panel)
        title, population = f"{self.headline(sheet)}{part}", self.population or sheet.population
        caveats = *sheet.caveats, *self.caveats
        said = [f"{title}: {population}"] * sheet.title + [*caveats]
        figure.suptitle("\n".join(said), x=0.01, horizontalalignment="left", wrap=True)
        there = {series.label for panel in self.panels for series in panel.series}
        if self.has_legend:
            looks = self.looks_of_all.items()
            figure.entries = {of: self.handle(look) for of, look in looks if of in there}
        figure.mathematical = [of for of in sheet.names if "$" in of]
        figure.make_legend()
        alt = " ".join(filter(None, (panel.alt for panel in drawn)))
        caption = " ".join([f"{population}.", self.caption, *caveats])
        return ReportFigure(name, title, caption, alt, figure, tuple(drawn))


def line_of(look: CurveLook) -> Line2D:
    """Handle of a curve in a legend."""
    return Line2D(
        [], [], color=look.colour, linestyle=look.linestyle, marker=look.marker, markersize=4
    )


def _filled(words: str, each: int) -> str:
    """Label in lines of so many letters; short units in brackets stay together."""
    together = re.sub(
        r"\([^)]{1,20}\)", lambda unit: unit[0].replace(" ", "\N{NO-BREAK SPACE}"), words
    )
    return textwrap.fill(together, each)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Name the rows of a panel, of which the first is above."""
    axes.set_yticks(range(len(names)), [shown(name, LONGEST_NAME) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def said_of(title: str, words: str) -> str:
    """Sentence about a panel, which begins with its title if it has one."""
    return f"{title}: {words}" if title else f"{words[0].upper()}{words[1:]}"


def extremes(title: str, what: str, values: Mapping[str, float], unit: str = "") -> str:
    """Sentence about a panel: whose value is the smallest, and whose the largest.

    Parameters
    ----------
    title : str
        Title of the panel; empty if it has none.
    what : str
        What the values are, such as ``the median``.
    values : mapping of str to float
        Value of each name; those that are missing (NaN) do not count.
    unit : str
        Unit with the space before it.
    """
    of_text: dict[str, list[str]] = {}
    for name, value in sorted(values.items(), key=lambda item: item[1]):
        if value == value:
            of_text.setdefault(f"{value:.3g}{unit}", []).append(name)
    texts = list(of_text)
    if not texts:
        return said_of(title, f"{what} is not known.")
    if len(texts) == 1:
        return said_of(title, f"{what} is {texts[0]} for {in_a_row(of_text[texts[0]])}.")
    least, most = texts[0], texts[-1]
    return said_of(
        title,
        f"{what} is smallest for {in_a_row(of_text[least])} ({least}) and largest for "
        f"{in_a_row(of_text[most])} ({most}).",
    )
