"""The style of all figures: fonts, widths, and how curves are told apart, in colour and in grey."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import count, product
from typing import Any, ParamSpec, TypeVar

import matplotlib
from matplotlib.figure import Figure
from matplotlib.path import Path as Shape

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
    # Names of techniques and kernels are no mathematics, whatever signs they have.
    "text.parse_math": False,
}

SMALL = 6.0
"""Points of the smallest text: numbers at risk, notes, caveats."""

GREY = "#666666"
"""Colour of what is no data: limits, notes."""

HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oo", "--")
"""Hatches of stacked parts, which tell them apart in grey."""

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
        long as there are such, and always another line style or marker.

    Returns
    -------
    dict of str to Look
        Looks that differ from each other in line style or marker.
    """
    techniques = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
    shipped = [LOOKS[technique] for technique in techniques.values() if technique in LOOKS]
    others = _other_looks(shipped)
    return {
        name: LOOKS[technique] if technique in LOOKS else next(others)
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
    """Decorate a function that draws or writes a figure in this style."""

    @wraps(draw)
    def drawing(*args: Given.args, **named: Given.kwargs) -> Drawn:
        with matplotlib.rc_context(STYLE):
            return draw(*args, **named)

    return drawing


class StyledFigure(Figure):
    """A figure that is saved in this style by whoever saves it."""

    savefig = in_style(Figure.savefig)

    def _ipython_display_(self) -> None:
        """Let a notebook show it once, not at the end of the cell again, as pyplot would."""
        if "matplotlib.pyplot" in sys.modules and "inline" in matplotlib.get_backend():
            sys.modules["matplotlib.pyplot"].close(self)
        raise NotImplementedError  # IPython goes on as with any figure


def inches(millimetres: float) -> float:
    """Length in inches, as Matplotlib takes it."""
    return millimetres / MM_PER_INCH
