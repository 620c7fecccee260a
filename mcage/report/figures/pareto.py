"""Designs by their objectives: how probable each is on the front, in its size and its colour."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D

from mcage.report.figures import canvas
from mcage.report.figures.energy import label_front, part_labels
from mcage.stats.estimates import Bools, Floats

LIKELY = 0.05
"""Probability from which a design has the marker of its name."""

SIZES = (3.0, 34.0)
"""Areas of the marker of a design that is never, and always, on the front, square points."""

MOST_BARS = 60
"""Designs up to which intervals are drawn: bars of more would hide the designs."""

COLOURS = "viridis_r"
"""Colours of probabilities, which the colour-blind and grey printers keep in order."""

NEVER = "#c8c8c8"
"""Colour of designs that are hardly ever on the front."""


@dataclass(frozen=True)
class Axis:
    """An objective along an axis.

    Parameters
    ----------
    label : str
        Its name with the unit, and what is better.
    values, lower, upper : ndarray of float [design]
        Values and bounds; bounds are NaN where there are none.
    """

    label: str
    values: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class Cloud(canvas.Plot):
    """Designs by two objectives; a panel shows an `Axis` against another.

    Parameters
    ----------
    names : sequence of str
        Technique of each design, by which it is marked.
    probability : ndarray of float [design]
        With which it is on the front, 0 ... 1.
    on_front : ndarray of bool [design]
        Whether it is, by its values.
    marks : sequence of str
        What stands beside each design on the front, where there is room, such as its Vdd.
    """

    names: Sequence[str] = ()
    probability: Floats = field(default_factory=lambda: np.empty(0))
    on_front: Bools = field(default_factory=lambda: np.empty(0, bool))
    marks: Sequence[str] = ()

    def draw(
        self, axes: Axes, panel: canvas.Panel, looks: canvas.Looks, gid: str
    ) -> tuple[canvas.Series, ...]:
        """Draw the designs of a panel, and intervals of those on the front."""
        along, upright = panel.cases
        series = _draw_designs(axes, (along, upright), self.names, self.probability, self._markers)
        _draw_bars(axes, (along, upright), self.on_front)
        for place in np.flatnonzero(self.on_front).tolist():
            label_front(axes, along.values[place], upright.values[place], self.marks[place])
        drawn = []
        for place, points in enumerate(series):
            drawn.append(replace(points, gid=f"{gid}-{place + 1}"))
            axes.collections[place].set_gid(drawn[-1].gid)
        return tuple(drawn)

    def settle(self, grid: Sequence[Axes]) -> None:
        """Move what stands beside designs apart."""
        for axes in grid:
            part_labels(axes)

    @property
    def _markers(self) -> dict[str, Any]:
        likely = self.probability >= LIKELY
        return _markers([name for name, is_it in zip(self.names, likely, strict=True) if is_it])

    def handles(self, panels: Sequence[canvas.Panel], looks: canvas.Looks) -> Mapping[str, Artist]:
        """Markers of names; and the scale of colours beside the panels."""
        _draw_scale([panel.axes for panel in panels])
        return _handles(self._markers)


def draw(
    axes: Sequence[Axis],
    names: Sequence[str],
    probability: Floats,
    on_front: Bools,
    marks: Sequence[str],
    sheet: canvas.Sheet,
) -> canvas.ReportFigure:
    """Draw the first objective against each of the others.

    Parameters
    ----------
    axes : sequence of Axis
        Objectives, two or more.
    names, probability, on_front, marks
        As of `Cloud`.
    sheet : Sheet
        What is drawn on.
    """
    upright, *others = axes
    best = canvas.listed(sorted({n for n, here in zip(names, on_front, strict=True) if here}))
    panels = [
        canvas.Panel(
            "",
            alt="" if number else f"On the front are cases of {best}.",
            x_label=along.label,
            cases=(along, upright),
        )
        for number, along in enumerate(others)
    ]
    caption = (
        "Each point is a case, the darker and the larger the more resamples of the instances have "
        f"it on the front; those in less than {LIKELY:.0%} of them are grey. Bars: "
        f"{canvas.PERCENT} intervals of the cases on the front, where these are {MOST_BARS} at most"
        f"{'; beside them, where there is room, their lowest Vdd' * any(marks)}."
    )
    title = f"{on_front.sum():,} of {len(names):,} cases on the front"
    cloud = Cloud("pareto", title, caption, "", upright.label, names, probability, on_front, marks)
    return cloud.page("pareto", "", panels, sheet, {})


def _markers(names: Sequence[str]) -> dict[str, Any]:
    """Marker of each name; a disc for all where there are more than markers."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) > len(canvas.MARKERS):
        return dict.fromkeys(distinct, "o")
    return {name: look.marker for name, look in canvas.looks_of(distinct).items()}


def _draw_designs(
    axes: Axes,
    pair: tuple[Axis, Axis],
    names: Sequence[str],
    probability: Floats,
    markers: dict[str, Any],
) -> list[canvas.Series]:
    """Draw designs, the most probable of each name last and so above the others."""
    along, upright = pair
    least, most = SIZES
    rest = probability < LIKELY
    axes.scatter(along.values[rest], upright.values[rest], least, NEVER, linewidths=0, zorder=1)
    series = [_series("other cases", pair, rest)]
    for name, marker in markers.items():
        here = np.array([of == name for of in names]) & ~rest
        order = np.flatnonzero(here)[np.argsort(probability[here], kind="stable")]
        axes.scatter(
            along.values[order],
            upright.values[order],
            least + (most - least) * probability[order],
            probability[order],
            marker=marker,
            cmap=COLOURS,
            norm=Normalize(0.0, 1.0),
            linewidths=0.3,
            edgecolors="white",
            zorder=3,
        )
        series.append(_series(name, pair, here))
    return series


def _series(name: str, pair: tuple[Axis, Axis], here: Bools) -> canvas.Series:
    along, upright = pair
    return canvas.Series(
        name,
        along.values[here],
        upright.values[here],
        upright.lower[here],
        upright.upper[here],
        kind="points",
        x_lower=along.lower[here],
        x_upper=along.upper[here],
    )


def _draw_bars(axes: Axes, pair: tuple[Axis, Axis], on_front: Bools) -> None:
    """Draw intervals of the designs on the front, if these are few."""
    if on_front.sum() > MOST_BARS:
        return
    along, upright = pair
    style: dict[str, Any] = {"colors": canvas.GREY, "linewidths": 0.5, "zorder": 2}
    x, y = along.values[on_front], upright.values[on_front]
    axes.vlines(x, upright.lower[on_front], upright.upper[on_front], **style)
    axes.hlines(y, along.lower[on_front], along.upper[on_front], **style)


def _draw_scale(grid: Sequence[Axes]) -> None:
    """Draw the scale of colours to the right of the panels."""
    from matplotlib.cm import ScalarMappable

    mappable = ScalarMappable(Normalize(0.0, 100.0), COLOURS)
    figure: Any = grid[0].figure
    bar = figure.colorbar(mappable, ax=list(grid), fraction=0.04, pad=0.01, aspect=30)
    bar.set_label("on the front in so many resamples (%)")
    bar.outline.set_linewidth(0.4)


def _handles(markers: dict[str, Any]) -> dict[str, Artist]:
    """Entries of the legend."""
    if len(set(map(str, markers.values()))) < len(markers):
        return {}
    return {
        name: Line2D([], [], color=canvas.GREY, marker=marker, linestyle="none", markersize=4)
        for name, marker in markers.items()
    }
