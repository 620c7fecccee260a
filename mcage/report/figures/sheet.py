"""The sheet that figures are drawn on: its width, its panels, its legend and what stands below."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from mcage.plain_text import shown, visible
from mcage.report.figures.style import (
    GREY,
    LABEL,
    MM_PER_INCH,
    SMALL,
    Look,
    StyledFigure,
    inches,
)
from mcage.report.notes import caveats_of
from mcage.results.header import Header
from mcage.stats.estimates import CONFIDENCE

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

INSTANCES = {
    "sweep": "instances per case",
    "gpu-gating": "GPUs",
    "gpu-both": "GPUs",
    "gpu-heterogeneity": "draws",
}
"""What the instances of a study are."""


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
    """

    width_mm: float
    population: str
    caveats: tuple[str, ...] = ()
    title: bool = True
    rows: bool = True
    bands: bool = True

    @classmethod
    def of(cls, header: Header, width_mm: float) -> "Sheet":
        """Sheet of a width for the figures of a file, by its header."""
        population = f"{header.holds:,} {INSTANCES.get(header.study, 'instances')}"
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
        size = inches(self.width_mm), inches(self.head_mm + height_mm * rows)
        figure = StyledFigure(figsize=size, layout=ConstrainedLayoutEngine(wspace=0.06))
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
        """Add title, legend and caveats, and lay the figure out once and for all."""
        if self.title:
            words = textwrap.fill(title, self.letters(8.5))
            figure.suptitle(words, x=0.01, horizontalalignment="left")
        caveats = "\n".join(textwrap.fill(line, self.letters(SMALL) - 4) for line in self.caveats)
        if legend:
            longest = max(map(len, legend)) + 9  # as many letters as a handle takes
            columns = max(1, min(len(legend), self.letters(6.5) // longest))
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
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


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
