"""A figure with its words and its numbers, and how it is written to a file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mcage.files.atomic import FIGURES, kind_of_name, make_ready, whole_file
from mcage.report.figures.style import in_style
from mcage.stats.estimates import Bools, Floats

DOTS_PER_INCH = 300
FINENESS = 1 / 250
"""Largest deviation of a thinned curve, as a part of the range of its numbers."""

# What would differ from run to run, or from one Matplotlib to the next, is left out.
_UNDATED = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}


@dataclass(frozen=True)
class Series:
    """Numbers of a curve, or of a group of points or bars.

    Parameters
    ----------
    gid : str
        Name of the drawn artist, unique among all figures of a file: letters, digits, hyphens. The
        artist of a band has it with ``-band``, those of markers with ``-marks``.
    label : str
        Name as in the legend.
    case : str
        Label of the case; empty where the numbers are of no single case.
    x, y : ndarray of float [point]
        Numbers in the units of the axes. Of steps, ``y`` holds from its ``x`` to the next.
    kind : {'step', 'line', 'points', 'bars'}
        How they are drawn.
    lower, upper : ndarray of float [point], optional
        Bounds of the interval of ``y``; NaN where there is none.
    x_lower, x_upper : ndarray of float [point], optional
        Bounds of the interval of ``x``, as of horizontal bars.
    """

    gid: str
    label: str
    case: str
    x: Floats
    y: Floats
    kind: Literal["step", "line", "points", "bars"]
    lower: Floats | None = None
    upper: Floats | None = None
    x_lower: Floats | None = None
    x_upper: Floats | None = None

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
    """Axes of a figure and the numbers that they show.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Axes.
    title : str
        What the panel is about, such as a setting; empty if the figure has a single panel.
    x_label, y_label : str
        Labels of the axes, with their units.
    series : tuple of Series
        What is drawn.
    """

    axes: Axes
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]


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
        Its parts, with the numbers that they show.
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
        figure.savefig(stream, format=form, dpi=DOTS_PER_INCH, metadata=_UNDATED[form])


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
