"""Results of a study as a figure: a tornado of differences, or bars of Sobol' indices."""

import math
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mcage.report.figures.figure import save
from mcage.report.figures.style import STYLE
from mcage.studies.sensitivity.one_at_a_time import Bar, Effect, OneAtATime
from mcage.studies.sensitivity.sobol import Sobol
from mcage.studies.sensitivity.tables import setting

RISE, FALL = "#0072B2", "#D55E00"
"""Colours of a higher and of a lower setting, from the palette of Okabe and Ito."""

ROW_INCHES = 0.27


def draw(result: OneAtATime | Sobol, path: Path) -> None:
    """Draw results into a file.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    count = len(result.indices if isinstance(result, Sobol) else result.bars)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.2, 0.9 + ROW_INCHES * count), layout="constrained")
        axes = figure.add_subplot()
        if isinstance(result, Sobol):
            draw_indices(axes, result)
        else:
            draw_tornado(axes, result)
        save(figure, path)


def draw_tornado(axes: Axes, result: OneAtATime) -> None:
    """Draw bars from the nominal value to that of each setting, with intervals."""
    names = [bar.parameter.name for bar in result.bars]
    for row, bar in enumerate(result.bars):
        middle = (len(bar.effects) - 1) / 2
        height = 0.7 / len(bar.effects)
        for place, effect in enumerate(bar.effects):
            _draw_effect(axes, row + height * (place - middle), 0.9 * height, bar, effect)
    axes.axvline(0, color="#000000", linewidth=0.6)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(x=0.14)
    axes.set_xlabel(f"difference of {result.quantity} from the reference ({result.unit})")
    axes.set_title(result.label)


def _draw_effect(axes: Axes, y: float, height: float, bar: Bar, effect: Effect) -> None:
    """Draw a bar and its setting; dots follow a setting whose lives go on beyond the horizon."""
    nominal, size = bar.parameter.nominal, effect.least_difference
    words = isinstance(effect.setting, str) or isinstance(nominal, str)
    rises = words or effect.setting > nominal  # type: ignore[operator]
    axes.barh(y, size, height=height, color=RISE if rises else FALL)
    ends = [size]
    interval = (effect.difference.lower, effect.difference.upper)
    if size and all(math.isfinite(bound) for bound in interval):
        axes.plot(interval, (y, y), color="#000000", linewidth=0.7)
        ends += interval
    beyond = " …" if math.isinf(effect.difference.value) else ""
    axes.annotate(
        f"{setting(effect.setting)}{beyond}",
        (min(ends) if size < 0 else max(ends), y),
        xytext=(-3 if size < 0 else 3, 0),
        textcoords="offset points",
        ha="right" if size < 0 else "left",
        va="center",
        fontsize=5.5,
    )


def draw_indices(axes: Axes, result: Sobol) -> None:
    """Draw the first-order index of each parameter in front of its total index."""
    names = [index.parameter.name for index in result.indices]
    for row, index in enumerate(result.indices):
        axes.barh(row, index.total.value, height=0.62, color="#56B4E9")
        axes.barh(row, index.first_order.value, height=0.34, color=RISE)
        for estimate, offset in ((index.total, 0.22), (index.first_order, 0.0)):
            bounds = (estimate.lower, estimate.upper)
            axes.plot(bounds, (row + offset, row + offset), color="#000000", linewidth=0.6)
    axes.axvline(0, color="#000000", linewidth=0.6)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel(
        f"share of the variance of {result.quantity}: total (wide), first order (narrow)"
    )
    axes.set_title(result.label)
