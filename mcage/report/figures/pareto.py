"""Cases by their objectives: how probable each is on the front, in its size."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.transforms import IdentityTransform

from mcage.plain_text import visible
from mcage.report.cases import in_a_row, names_in, points_of
from mcage.report.figures import canvas
from mcage.report.pareto import LIKELY, Design, Front, default_objectives, fronts_of
from mcage.results.axes import Axis, Point, Value, label_of, named_axes, without_label
from mcage.results.header import Header
from mcage.results.measures import Measure

SIZES = (3.0, 34.0)
"""Areas of the marker of a case that is never, and always, on the front, square points."""

MOST_BARS = 60
"""Cases on the front up to which intervals are drawn: bars of more would hide the cases."""

PLANE = ("area", "energy_saving_of_all")
"""Objectives along and up a figure of a front that nobody has named the objectives of."""

NEVER = "#c8c8c8"
"""Colour of cases that are hardly ever on the front."""

SPOTS = (((-2, 4), "right"), ((2, -9), "left"), ((2, 4), "left"), ((-2, -9), "right"))
"""Where words may stand, in points from their point."""


class Beside(Annotation):
    """Words beside a point: in the first spot where no others stand, or not at all."""

    stands = False
    """Whether they found room when they were drawn last."""

    def draw(self, renderer: RendererBase) -> None:
        """Draw the words, after those that stand before them among the texts of the axes."""
        assert self.axes is not None
        before = self.axes.texts[: self.axes.texts.index(self)]
        taken = [
            of.get_window_extent(renderer) for of in before if isinstance(of, Beside) and of.stands
        ]
        self.stands = False
        for offset, side in SPOTS:
            self.set(position=offset, horizontalalignment=side)
            box = self.get_window_extent(renderer)
            if not any(box.overlaps(other) for other in taken):
                self.stands = True
                super().draw(renderer)
                return


class Cloud(canvas.Plot):
    """Cases by two objectives: points, and of those on the front intervals and words."""

    narrowest_mm = 80.0

    def draw(self, axes: Axes, panel: canvas.Panel, looks: canvas.Looks) -> None:
        """Draw the cases of a panel, those that are probable on the front above the others."""
        bars = sum(int(of.marks.sum()) for of in panel.series if of.marks is not None)
        least, most = SIZES
        for of in panel.series:
            assert of.sizes is not None
            assert of.marks is not None
            look, likely = looks[of.label], of.sizes >= LIKELY
            points = axes.scatter(
                of.x,
                of.y,
                least + (most - least) * of.sizes,
                np.where(likely, look.colour, NEVER),
                marker=look.marker,
                linewidths=0,
                zorder=3 if likely.any() else 1,
            )
            points.set_gid(of.gid)
            if bars <= MOST_BARS:
                style: dict[str, Any] = {"colors": canvas.GREY, "linewidths": 0.5, "zorder": 2}
                x, y, low, high, left, right = (
                    column[of.marks]
                    for column in (of.x, of.y, of.lower, of.upper, of.x_lower, of.x_upper)
                    if column is not None
                )
                axes.vlines(x, low, high, **style)
                axes.hlines(y, left, right, **style)
            for place in np.flatnonzero(of.marks).tolist():
                words = Beside(
                    of.words[place],
                    (of.x[place], of.y[place]),
                    SPOTS[0][0],
                    textcoords="offset points",
                    fontsize=canvas.SMALL,
                )
                words.set_transform(IdentityTransform())
                words.set_in_layout(False)
                axes.add_artist(words)
                words.set_clip_on(False)

    def handle(self, look: canvas.CurveLook) -> Line2D:
        """Handle of a name in the legend."""
        return Line2D([], [], color=look.colour, marker=look.marker, linestyle="none", markersize=4)


def of_file(header: Header, results: xr.Dataset) -> Iterator[Cloud | canvas.AbsentFigure]:
    """The front of a file of several cases, whose study declares two objectives or more."""
    points = points_of(results)
    if len(points) < 2 or len(default_objectives(header)) < 2:
        return
    fronts = fronts_of(header, results)
    if isinstance(fronts, str):
        yield canvas.AbsentFigure("pareto", "Cases on the front", fronts)
    else:
        yield plot_of(fronts, names_in(results), points)


def plane(objectives: Sequence[Measure], x: str = "", y: str = "") -> tuple[Measure, Measure]:
    """The two objectives of a figure, along and up: those named, or `PLANE`, or the first ones.

    Parameters
    ----------
    objectives : sequence of Measure
        Those of the front, two at least.
    x, y : str
        Their keys; empty for the default.
    """
    there = {objective.key: objective for objective in objectives}
    y = y or next(key for key in (PLANE[1], *there) if key in there and key != x)
    x = x or next(key for key in (PLANE[0], *there) if key in there and key != y)
    return there[x], there[y]


def plot_of(
    fronts: Mapping[str, Front],
    names: Mapping[str, str],
    points: Sequence[Point] = (),
    planes: Sequence[tuple[Measure, Measure]] = (),
) -> Cloud:
    """Cases of fronts by two objectives in each panel.

    Parameters
    ----------
    fronts : mapping of str to Front
        Fronts by what tells their panels apart, such as a scenario; empty of a single one.
    names : mapping of str to str
        Names of techniques for people, as `mcage.report.cases.names_for` returns them.
    points : sequence of Point
        Cases of the only file, in its order.
    planes : sequence of (Measure, Measure)
        Objectives along and up each panel; by default each of the others along, the first up.
    """
    places = [without_label(point) for point in points]
    designs = [design for front in fronts.values() for design in front.designs]
    on_front = sum(design.on_front for design in designs)
    axes = next(iter(fronts.values())).axes
    named_by = named_axes(axes, [design.point for design in designs])
    beside = [of for of in named_by if not of.condition and not of.derived]
    called = {
        _name(design, beside, names): str(design.point.get("technique", design.label))
        for design in designs
    }
    panels = []
    for title, front in fronts.items():
        best = sorted({_name(of, beside, names) for of in front.designs if of.on_front})
        named: dict[str, list[Design]] = {}
        for design in front.designs:
            named.setdefault(_name(design, beside, names), []).append(design)
        upright, *others = front.objectives
        for number, (along, up) in enumerate(planes or [(along, upright) for along in others]):
            alt = f"the cases that no other beats are of {in_a_row(best or ['none'])}."
            alt = "" if number else canvas.said_of(title, alt)
            series = tuple(
                _series(name, of_name, (along, up), places) for name, of_name in named.items()
            )
            gaps = [of.label for of in series if np.isnan(of.x + of.y).any()]
            notes = (f"not known everywhere: {in_a_row(gaps)}",) if gaps else ()
            panels.append(
                canvas.Panel(title, series, notes, alt, x_label=_label(along), y_label=_label(up))
            )
    return Cloud(
        "pareto",
        f"{on_front:,} of {len(designs):,} cases on the front",
        "Each point is a case, the larger the more resamples of the instances have it on the "
        f"front; those in less than {LIKELY:.0%} of them are grey. Bars: {canvas.PERCENT} "
        f"intervals of the cases on the front, where these are {MOST_BARS} at most; beside them, "
        "where there is room, their lowest Vdd, if they have one. On the front: no other case is "
        "as good in all objectives and better in one.",
        panels=tuple(panels),
        looks=canvas.looks_of(called),
    )


def _label(objective: Measure) -> str:
    name = objective.name.replace("[", "(").replace("]", ")")
    return f"{name}, {objective.better} is better"


def _name(design: Design, beside: Sequence[Axis], names: Mapping[str, str]) -> str:
    """Technique of a case for people, if it has one, and what else tells it from others."""
    return visible(label_of(design.point, beside, names) or design.label)


def _series(
    name: str,
    designs: Sequence[Design],
    objectives: tuple[Measure, Measure],
    points: list[dict[str, Value]],
) -> canvas.Series:
    """Cases of a name by two objectives."""
    (x, left, right), (y, low, high) = (
        of.scale * np.array([[*vars(each.objectives[of.key]).values()] for each in designs]).T
        for of in objectives
    )
    return canvas.Series(
        name,
        x,
        y,
        low,
        high,
        cases=tuple(points.index(dict(of.point)) for of in designs) if points else (),
        marks=np.array([of.on_front for of in designs], bool),
        x_lower=left,
        x_upper=right,
        sizes=np.array([of.front_probability for of in designs]),
        words=[f"{of.point['vdd_volts']:g} V" if "vdd_volts" in of.point else "" for of in designs],
    )
