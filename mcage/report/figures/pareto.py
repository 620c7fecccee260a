"""Designs by their objectives: how probable each is on the front, in its size and its colour."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D

from mcage.report.figures import canvas
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


@canvas.in_style
def draw(
    axes: Sequence[Axis],
    names: Sequence[str],
    probability: Floats,
    on_front: Bools,
    sheet: canvas.Sheet,
) -> canvas.ReportFigure:
    """Draw the first objective against each of the others.

    Parameters
    ----------
    axes : sequence of Axis
        Objectives, two or more.
    names : sequence of str
        Technique of each design, by which it is marked.
    probability : ndarray of float [design]
        With which it is on the front, 0 ... 1.
    on_front : ndarray of bool [design]
        Whether it is, by its values.
    sheet : Sheet
        What is drawn on.
    """
    upright, *others = axes
    count = len(others)
    height_mm = sheet.axis_mm(count) + canvas.LABELS_MM
    figure, grid = sheet.grid(count, height_mm, share=False)
    likely = probability >= LIKELY
    looks = _markers([name for name, is_likely in zip(names, likely, strict=True) if is_likely])
    panels = []
    for number, (panel, along) in enumerate(zip(grid, others, strict=True)):
        panel.set_xlabel(sheet.label(along.label, count))
        panel.set_ylabel(sheet.upright(upright.label, count))
        series = _draw_designs(panel, (along, upright), names, probability, looks)
        _draw_bars(panel, (along, upright), on_front)
        panels.append(canvas.Panel(panel, "", along.label, upright.label, tuple(series)))
        for place in range(len(series)):
            panel.collections[place].set_gid(f"pareto-{number + 1}-{place + 1}")
    _draw_scale(figure, grid)
    title = f"{on_front.sum():,} of {len(names):,} cases on the front: {sheet.population}"
    sheet.finish(figure, title, _handles(looks))
    best = canvas.listed(sorted({n for n, here in zip(names, on_front, strict=True) if here}))
    caption = (
        "Each point is a case, the darker and the larger the more resamples of the dies have it on "
        f"the front; those in less than {LIKELY:.0%} of them are grey. Bars: {canvas.PERCENT} "
        f"intervals of the cases on the front, where these are {MOST_BARS} at most."
    )
    alt = f"On the front are cases of {best}."
    return canvas.ReportFigure(
        "pareto", title, sheet.captioned(caption), alt, figure, tuple(panels)
    )


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
        "pareto",
        name,
        "",
        along.values[here],
        upright.values[here],
        "points",
        upright.lower[here],
        upright.upper[here],
        along.lower[here],
        along.upper[here],
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


def _draw_scale(figure: Any, grid: Sequence[Axes]) -> None:
    """Draw the scale of colours to the right of the panels."""
    from matplotlib.cm import ScalarMappable

    mappable = ScalarMappable(Normalize(0.0, 100.0), COLOURS)
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
