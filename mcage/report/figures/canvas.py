"""The sheet that figures are drawn on: its width, its panels, its legend and what stands below."""

import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from itertools import count, product
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.path import Path as Shape
from matplotlib.text import Text

from mcage.files.atomic import FIGURES, kind_of_name, make_ready, whole_file
from mcage.plain_text import shown, visible
from mcage.report.notes import caveats_of
from mcage.results.header import Header
from mcage.stats.estimates import CONFIDENCE, Bools, Floats

# The style of all figures: fonts, widths, and how curves are told apart, in colour and in grey.

Given = ParamSpec("Given")
Drawn = TypeVar("Drawn")

WIDTHS_MM = (85.0, 180.0)
"""Widths of a column and of a page of a paper."""

MM_PER_INCH = 25.4

LABEL = 7.0
"""Points of the labels of axes."""

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # which ships with Matplotlib: the same on every machine
    "font.size": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.labelsize": LABEL,
    "axes.titlesize": 7.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 5,
    "axes.unicode_minus": True,
    "figure.titlesize": 8.5,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 6.5,
    "legend.handlelength": 3.2,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "lines.markersize": 4,
    "pdf.fonttype": 42,  # TrueType: journals refuse fonts of type 3
    "ps.fonttype": 42,
    "svg.hashsalt": "mcage",
    "savefig.dpi": 300,
    # Names of techniques and kernels are no mathematics, whatever signs they have.
    "text.parse_math": False,
}

SMALL = 6.0
"""Points of the smallest text: numbers at risk, notes, caveats."""

GREY = "#666666"
"""Colour of what is no data: limits, notes."""

HATCHES = ("", "////", "----", "xxxx", "\\\\\\\\", "++++", "||||", "//")
"""Hatches of stacked parts, which tell them apart in grey; lines, since dots make files large."""


def part_style(colour: str, place: int) -> dict[str, Any]:
    """How a part of a stacked bar looks, by its colour and its place among the parts."""
    hatch = HATCHES[place]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4}


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
class Look:
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
        """What is left to tell it by without colours."""
        return self.dashes, self.marker


LOOKS = {
    "baseline": Look("#000000", SOLID, "o"),
    "rar": Look("#882255", DASHES[4], "<"),
    "rc": Look("#999933", DASHES[2], ">"),
    "rc+rar": Look("#D55E00", DASHES[1], "s"),
    "wc": Look("#332288", DASHES[6], "v"),
    "argo": Look("#777777", DASHES[3], "h"),
    "disable": Look("#E69F00", DASHES[4], "X"),
    "gr-guard": Look("#CC79A7", DASHES[5], "P"),
    "rrcd": Look("#0072B2", DASHES[3], "^"),
    "rrcd+pg": Look("#56B4E9", DASHES[1], "D"),
    "rrcd+rc+rar": Look("#009E73", DASHES[2], "*"),
}
"""Looks of the techniques that ship with mcage, the same in each figure."""


def looks_of(names: Iterable[str] | Mapping[str, str]) -> dict[str, Look]:
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


def _other_looks(shipped: Sequence[Look]) -> Iterator[Look]:
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
        yield Look(colours[number % len(colours)], dashes, marker)
    for number, (dashes, marker) in enumerate(numbers):  # more than a figure can show
        yield Look(colours[number % len(colours)], dashes, marker)


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

    arrange: Callable[[], None] | None = None
    """Lays it out for its size, once it is drawn."""

    savefig = in_style(Figure.savefig)

    def set_size_inches(self, *size: Any, **options: Any) -> None:
        """Set its size; see `matplotlib.figure.Figure.set_size_inches`."""
        before = tuple(self.get_size_inches())
        super().set_size_inches(*size, **options)
        if self.arrange is not None and tuple(self.get_size_inches()) != before:
            self.arrange()

    def _ipython_display_(self) -> None:
        """Let a notebook show it once, not at the end of the cell again, as pyplot would."""
        if "matplotlib.pyplot" in sys.modules and "inline" in matplotlib.get_backend():
            sys.modules["matplotlib.pyplot"].close(self)
        raise NotImplementedError  # IPython goes on as with any figure


def inches(millimetres: float) -> float:
    """Length in inches, as Matplotlib takes it."""
    return millimetres / MM_PER_INCH


# A figure with its words and its numbers, and how it is written to a file.

FINENESS = 1 / 250
"""Largest deviation of a thinned curve, as a part of the range of its numbers."""

# What would differ from run to run, or from one Matplotlib to the next, is left out.
_UNDATED = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}


@dataclass(frozen=True)
class Series:
    """Numbers of a curve, or of a group of points or bars.

    Parameters
    ----------
    label : str
        Whose they are, such as a technique, as in the legend.
    x, y : ndarray of float [point]
        Numbers in the units of the axes. Of steps, ``y`` holds from its ``x`` to the next.
    lower, upper : ndarray of float [point], optional
        Bounds of the interval of ``y``; NaN where there is none.
    case : str
        Label of the case; empty where the numbers are of no single case.
    marks : ndarray of bool [point], optional
        Which points of a line have a marker; by default all.
    kind : {'step', 'line', 'points', 'bars'}
        How they are drawn.
    x_lower, x_upper : ndarray of float [point], optional
        Bounds of the interval of ``x``, as of horizontal bars.
    gid : str
        Name of the drawn artist, unique among all figures of a file: letters, digits, hyphens. The
        artist of a band has it with ``-band``, those of markers with ``-marks``. Empty until it is
        drawn.
    """

    label: str
    x: Floats
    y: Floats
    lower: Floats | None = None
    upper: Floats | None = None
    case: str = ""
    marks: Bools | None = None
    kind: Literal["step", "line", "points", "bars"] = "line"
    x_lower: Floats | None = None
    x_upper: Floats | None = None
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
        What the panel is about, such as a setting; empty if the figure has a single panel.
    series : tuple of Series
        What it shows; empty until it is drawn where only the drawing knows it.
    notes : tuple of str
        What cannot be seen in it.
    alt : str
        What can be seen in it, as a sentence.
    rows : tuple of (str, tuple of float, tuple of int)
        Names, places on the axis and numbers that stand there below it.
    x_label, y_label : str
        Labels of the axes, with their units; empty for those of the figure.
    cases : sequence
        What it is drawn from, where series alone do not say it.
    axes : matplotlib.axes.Axes, optional
        Its axes, once it is drawn.
    """

    title: str
    series: tuple[Series, ...] = ()
    notes: tuple[str, ...] = ()
    alt: str = ""
    rows: tuple[tuple[str, tuple[float, ...], tuple[int, ...]], ...] = ()
    x_label: str = ""
    y_label: str = ""
    cases: Sequence[Any] = ()
    axes: Any = None

    def on(self, sheet: "Sheet") -> "Panel":
        """Return the panel without rows and bands that the sheet leaves out."""
        series = self.series
        if not sheet.bands:
            series = tuple(replace(curve, lower=None, upper=None) for curve in series)
        return replace(self, series=series, rows=self.rows if sheet.rows else ())


@dataclass(frozen=True)
class ReportFigure:
    """A figure of a results file.

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
        The drawing, laid out.
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


Item = TypeVar("Item")

POINTS_PER_INCH = 72
EM = 0.56
"""Mean width of a letter, in sizes of its font."""

AXIS_MM = (38.0, 62.0)
"""Smallest and largest height of the axes of a panel."""

HEAD_MM, TITLE_MM = 14.0, 5.0
"""Height of title, legend and the label of the lowest axes, and of the title alone."""

MOST_MM, MOST_RATIO = 235.0, 2.0
"""Height of the text of a page, which no figure exceeds, and largest height over width."""

LONGEST_NAME = 30
"""Letters of a name beside a row."""

PERCENT = f"{100 * CONFIDENCE:g} %"
"""Probability of all intervals, in words."""

LINE = 1.3
"""Distance of two lines, in sizes of their font."""

LINE_MM = LINE * SMALL * MM_PER_INCH / POINTS_PER_INCH
"""Distance of two lines of the smallest text."""

LABELS_MM = 16.0
"""Height of the title and of the labels of a panel."""


@dataclass(frozen=True)
class Sheet:
    """What all figures of a file have in common.

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

    def captioned(self, caption: str) -> str:
        """Caption with the population, and what must be said."""
        return " ".join([f"{self.population}.", caption, *self.caveats])

    def columns(self, panels: int, narrowest_mm: float = 55.0) -> int:
        """Number of panels beside each other, of so many."""
        most = max(1, int(self.width_mm // narrowest_mm))
        rows = -(-panels // most)
        return min(most, -(-panels // rows))

    def axis_mm(self, panels: int, narrowest_mm: float = 55.0) -> float:
        """Height of the axes of such a panel, by its width."""
        low, high = AXIS_MM
        columns = self.columns(panels, narrowest_mm)
        if columns == 1 < panels:
            return low  # a column of a paper is narrow, and soon too high
        return min(high, max(low, 0.6 * self.width_mm / columns))

    @property
    def head_mm(self) -> float:
        """Height of title, legend and the label of the lowest axes."""
        return HEAD_MM if self.title else HEAD_MM - TITLE_MM

    def letters(self, points: float) -> int:
        """Number of letters of a size that a line takes."""
        return _letters(self.width_mm, points)

    def label(
        self, words: str, panels: int, narrowest_mm: float = 55.0, share: float = 0.75
    ) -> str:
        """Label of a horizontal axis, in lines as long as the axes: a share of a panel's width."""
        width_mm = share * self.width_mm / self.columns(panels, narrowest_mm)
        return _filled(words, _letters(width_mm, LABEL))

    def upright(self, words: str, panels: int, narrowest_mm: float = 55.0) -> str:
        """Label of a vertical axis in lines that are no longer than the axes of a panel."""
        return _filled(words, _letters(self.axis_mm(panels, narrowest_mm), LABEL))

    def pages(
        self, name: str, panels: Sequence[Item], height_mm: float, narrowest_mm: float = 55.0
    ) -> Iterator[tuple[str, str, Sequence[Item]]]:
        """Share panels of a height out among pages that are not higher than a figure may be.

        Returns
        -------
        iterator of (str, str, sequence)
            Name of the page, which part of the figure it is in words (empty if it is all of it),
            and its panels.
        """
        most_mm = min(MOST_MM, MOST_RATIO * self.width_mm)
        rows = max(1, int((most_mm - self.head_mm) // height_mm))
        size = rows * self.columns(len(panels), narrowest_mm)
        count = -(-len(panels) // size)
        size = -(-len(panels) // count)  # pages of equal size
        for page in range(count):
            part = panels[page * size : (page + 1) * size]
            if count == 1:
                yield name, "", part
            else:
                yield f"{name}-{page + 1}", f", page {page + 1} of {count}", part

    def grid(
        self, panels: int, height_mm: float, narrowest_mm: float = 55.0, share: bool = True
    ) -> tuple[Figure, list[Axes]]:
        """Return a new figure with axes for so many panels of a height.

        Parameters
        ----------
        panels : int
            Number of panels.
        height_mm : float
            Height of a panel with its title and labels.
        narrowest_mm : float
            Smallest width of a panel.
        share : bool
            Whether all panels have the same axes.
        """
        columns = self.columns(panels, narrowest_mm)
        rows = -(-panels // columns)
        size = inches(self.width_mm), inches(self.height_mm or self.head_mm + height_mm * rows)
        figure = StyledFigure(figsize=size)
        drawn = figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
        axes = list(drawn.flat)
        for spare in axes[panels:]:
            spare.remove()
        for number, panel in enumerate(axes[:panels]):
            # An axis is named where no other panel below or beside it has the same.
            panel.xaxis.set_tick_params(labelbottom=True)
            panel.yaxis.set_tick_params(labelleft=not share or number % columns == 0)
        return figure, axes[:panels]

    def wrapped(
        self, notes: Sequence[str], panels: int, narrowest_mm: float = 55.0, beside: int = 10
    ) -> str:
        """Sentences in lines as long as the axes; ``beside`` are letters to the left of these."""
        letters = self.letters(SMALL) // self.columns(panels, narrowest_mm) - beside
        return "\n".join(
            line for note in notes for line in textwrap.wrap(note, letters, break_on_hyphens=False)
        )

    def finish(
        self, figure: Figure, title: str, legend: Mapping[str, Artist] | None = None
    ) -> None:
        """Add title, legend and caveats, and lay the figure out, again when its size changes."""
        if isinstance(figure, StyledFigure):
            figure.arrange = partial(self._arrange, figure, title, legend)
        self._arrange(figure, title, legend)

    @in_style
    def _arrange(
        self, figure: Figure, title: str, legend: Mapping[str, Artist] | None = None
    ) -> None:
        sheet = replace(self, width_mm=figure.get_figwidth() * MM_PER_INCH)
        if self.title:
            words = textwrap.fill(title, sheet.letters(8.5))
            figure.suptitle(words, x=0.01, horizontalalignment="left")
        caveats = "\n".join(textwrap.fill(line, sheet.letters(SMALL) - 4) for line in self.caveats)
        for former in [*figure.legends]:
            former.remove()
        if legend:
            longest = max(map(len, legend)) + 9  # as many letters as a handle takes
            columns = max(1, min(len(legend), sheet.letters(6.5) // longest))
            figure.legend(
                list(legend.values()),
                list(legend),
                loc="outside lower center",
                ncols=columns,
                title=caveats or None,  # two texts below the axes would lie on each other
                title_fontsize=SMALL,
            )
        elif caveats:
            figure.supxlabel(caveats, fontsize=SMALL, x=0.01, horizontalalignment="left")
        mathematical = [name for name in self.names if "$" in name]
        for text in figure.findobj(Text):
            if any(name in text.get_text() for name in mathematical):
                text.set_parse_math(True)
        figure.set_layout_engine(ConstrainedLayoutEngine(wspace=0.06))
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


Looks = Mapping[str, Look]


@dataclass(frozen=True)
class Plot:
    """What all panels of a figure have in common; a class for each kind says how one is drawn.

    Parameters
    ----------
    name, title, caption : str
        As of `ReportFigure`; the sheet's caveats follow the caption.
    x_label, y_label : str
        Labels of the axes, with their units, of panels that have none of their own.
    """

    name: str
    title: str
    caption: str
    x_label: str = ""
    y_label: str = ""

    shares_axes = False
    """Whether all panels have the same axes."""

    least_mm = 55.0
    """Smallest width of a panel."""

    row_mm = 0.0
    """Height of a row of a panel of rows; 0 of panels whose height follows from their width."""

    label_share = 0.75
    """Part of the width of a panel that its axes take."""

    def draw(self, axes: Axes, panel: Panel, looks: Looks, gid: str) -> tuple[Series, ...]:
        """Draw a panel, and return what its axes show; ``gid`` begins the names of artists."""
        raise NotImplementedError

    def handles(self, panels: Sequence[Panel], looks: Looks) -> Mapping[str, Artist]:
        """Entries of the legend of drawn panels; none by default."""
        return {}

    def narrowest_mm(self, panels: Sequence[Panel]) -> float:
        """Smallest width of these panels."""
        return self.least_mm

    def height_mm(self, panels: Sequence[Panel], sheet: "Sheet") -> float:
        """Height of a panel with its title, its notes and its labels."""
        if self.row_mm:
            rows = max(len(panel.cases or panel.series) for panel in panels)
            return LABELS_MM + self.row_mm * rows
        axis_mm = sheet.axis_mm(len(panels), self.narrowest_mm(panels))
        notes = max(map(lines_of, self.wrapped_notes(panels, sheet)))
        return axis_mm + LABELS_MM + LINE_MM * notes

    def wrapped_notes(self, panels: Sequence[Panel], sheet: "Sheet") -> list[str]:
        """Notes of each panel, in lines as long as its axes."""
        narrowest_mm = self.narrowest_mm(panels)
        return [sheet.wrapped(panel.notes, len(panels), narrowest_mm) for panel in panels]

    def headline(self, sheet: "Sheet") -> str:
        """Title on a sheet."""
        return self.title

    def pages(
        self, panels: Sequence[Panel], sheet: "Sheet", looks: Looks | None = None
    ) -> Iterator[ReportFigure]:
        """Draw panels on as many pages as they need.

        Parameters
        ----------
        panels : sequence of Panel
            At least one.
        sheet : Sheet
            What they are drawn on.
        looks : mapping of str to Look, optional
            Look of each name; by default those of `looks_of`.
        """
        if looks is None:
            looks = looks_of(series.label for panel in panels for series in panel.series)
        panels = [panel.on(sheet) for panel in panels]
        height_mm, narrowest_mm = self.height_mm(panels, sheet), self.narrowest_mm(panels)
        for name, part, of_page in sheet.pages(self.name, panels, height_mm, narrowest_mm):
            yield self.page(name, part, of_page, sheet, looks)

    @in_style
    def page(
        self, name: str, part: str, panels: Sequence[Panel], sheet: "Sheet", looks: Looks
    ) -> ReportFigure:
        """Draw panels on a page; ``part`` says which part of the figure it is."""
        count, narrowest_mm = len(panels), self.narrowest_mm(panels)
        height_mm = self.height_mm(panels, sheet)
        figure, grid = sheet.grid(count, height_mm, narrowest_mm, self.shares_axes)
        drawn = []
        for number, (axes, panel) in enumerate(zip(grid, panels, strict=True), 1):
            labels = panel.x_label or self.x_label, panel.y_label or self.y_label
            series = self.draw(axes, panel, looks, f"{name}-{number}")
            axes.set_xlabel(sheet.label(labels[0], count, narrowest_mm, self.label_share))
            place = axes.get_subplotspec()
            if place is None or place.is_first_col() or not (self.shares_axes or self.row_mm):
                axes.set_ylabel(sheet.upright(labels[1], count, narrowest_mm))
            x_label, y_label = labels
            drawn.append(replace(panel, axes=axes, series=series, x_label=x_label, y_label=y_label))
        heads(grid, [panel.title for panel in panels], self.wrapped_notes(panels, sheet))
        title = f"{self.headline(sheet)}{part}"
        sheet.finish(figure, f"{title}: {sheet.population}", self.handles(drawn, looks))
        self.settle(grid)
        alt = " ".join(filter(None, (panel.alt for panel in panels)))
        return ReportFigure(name, title, sheet.captioned(self.caption), alt, figure, (*drawn,))

    def settle(self, grid: Sequence[Axes]) -> None:
        """Do what needs axes that have been laid out."""


def heads(grid: Sequence[Axes], titles: Sequence[str], notes: Sequence[str]) -> None:
    """Write the title of each panel, and below it what cannot be seen in the panel.

    Parameters
    ----------
    grid : sequence of matplotlib.axes.Axes
        The panels of a figure.
    titles, notes : sequence of str
        Their titles, and their notes as `Sheet.wrapped` returns them.
    """
    for axes, title, note in zip(grid, titles, notes, strict=True):
        row = (other for other, at in zip(notes, grid, strict=True) if _row(at) == _row(axes))
        height = 3 + LINE * SMALL * max(map(lines_of, row))
        axes.set_title(title or (" " if note else ""), pad=height + 3)
        if note:
            below = axes.annotate(
                note,
                (0, 1),
                (0, height),
                xycoords="axes fraction",
                textcoords="offset points",
                verticalalignment="top",
                fontsize=SMALL,
                color=GREY,
            )
            below.set_in_layout(False)  # the title makes room for it


def lines_of(text: str) -> int:
    """Number of lines of a text; none of an empty one."""
    return text.count("\n") + 1 if text else 0


def _letters(millimetres: float, points: float) -> int:
    return int(millimetres / MM_PER_INCH * POINTS_PER_INCH / (EM * points))


def _filled(words: str, letters: int) -> str:
    """Label in lines of so many letters; short units in brackets stay together."""
    together = re.sub(
        r"\([^)]{1,20}\)", lambda unit: unit[0].replace(" ", "\N{NO-BREAK SPACE}"), words
    )
    return textwrap.fill(together, letters)


def _row(axes: Axes) -> int:
    place = axes.get_subplotspec()
    assert place is not None
    return int(place.rowspan.start)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Name the rows of a panel, of which the first is above."""
    axes.set_yticks(range(len(names)), [shown(name, LONGEST_NAME) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def say_in_rows(axes: Axes, rows: Sequence[int], words: str = "no slice works") -> None:
    """Write into rows of a panel why they are empty."""
    for row in rows:
        axes.annotate(
            words,
            (0, row),
            (4, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            verticalalignment="center",
            fontsize=SMALL,
            color=GREY,
        )


def line_of(look: Look) -> Artist:
    """Handle of a curve in a legend."""
    return Line2D(
        [], [], color=look.colour, linestyle=look.linestyle, marker=look.marker, markersize=4
    )


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
        return said_of(title, f"{what} is {texts[0]} for {listed(of_text[texts[0]])}.")
    least, most = texts[0], texts[-1]
    return said_of(
        title,
        f"{what} is smallest for {listed(of_text[least])} ({least}) and largest for "
        f"{listed(of_text[most])} ({most}).",
    )


def listed(names: Sequence[str]) -> str:
    """Write names as a list in words."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
