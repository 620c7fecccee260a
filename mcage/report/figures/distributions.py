"""Distributions over instances, and the figures of a study that brings none of its own."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from mcage.plain_text import shown, visible
from mcage.report.figures import canvas
from mcage.report.figures.curves import CurveFigure
from mcage.results.header import Header
from mcage.results.variable import Variable
from mcage.stats.estimates import Bools, Estimate, Floats, proportion, wilson

QUANTILES = (0.05, 0.5, 0.95)
BAND = "median, and 5 % to 95 % of"
"""What curves and rows of quantiles show, before the name of the instances."""

PLACES = 240
"""Places at which cumulative shares of many instances are computed."""

ROW_MM = 5.5
NARROW_MM, WIDE_MM = 58.0, 80.0
"""Smallest widths of a panel, with short and with longer names of rows."""

SHORT_NAME = 14


class RowFigure(canvas.Plot):
    """Panels of rows: a point with a line through it for each name."""

    label_share = 0.6
    has_legend = False

    def named(self, panel: canvas.Panel, name: str) -> canvas.Panel:
        """The panel with the names of its rows, each of which has its place."""
        named = super().named(panel, name)
        placed = (replace(of, y=np.array([float(row)])) for row, of in enumerate(named.series))
        return replace(named, series=tuple(placed))

    def draw(self, axes: Axes, panel: canvas.Panel, looks: canvas.Looks) -> None:
        """Draw the rows of a panel, from above."""
        for row in panel.series:
            look = looks[row.label]
            bounds = [row.x if bound is None else bound for bound in (row.x_lower, row.x_upper)]
            axes.plot(np.concatenate(bounds), [*row.y] * 2, color=look.colour, linewidth=1.4)
            axes.plot(row.x, row.y, marker=look.marker, color=look.colour, gid=row.gid)
        canvas.name_rows(axes, [row.label for row in panel.series])
        _widen(axes.get_xlim, axes.set_xlim)

    def width_mm(self) -> float:
        """Smallest width of a panel, by the names of its rows."""
        longest = max(len(row.label) for panel in self.panels for row in panel.series)
        return NARROW_MM if longest <= SHORT_NAME else WIDE_MM

    def axis_mm(self, sheet: canvas.Sheet) -> float:
        """Height of the rows of a panel."""
        return ROW_MM * max(len(panel.series) for panel in self.panels)


def row_of(name: str, value: float, lower: float = np.nan, upper: float = np.nan) -> canvas.Series:
    """Row of a panel: a point and the ends of the line through it, NaN where there is none."""
    x, x_lower, x_upper = (np.array([number]) for number in (value, lower, upper))
    return canvas.Series(name, x, np.zeros(1), x_lower=x_lower, x_upper=x_upper)


def row_panel(title: str, x_label: str, rows: Sequence[canvas.Series]) -> canvas.Panel:
    """Panel of rows with a common axis, which says whose value is smallest and whose largest."""
    alt = canvas.extremes(title, "the value", {row.label: float(row.x[0]) for row in rows})
    return canvas.Panel(title, tuple(rows), alt=alt, x_label=x_label)


def quantile_row(name: str, values: Floats, scale: float = 1.0) -> canvas.Series:
    """Row of the quantiles of instances; missing values (NaN) do not count."""
    lower, middle, upper = _quantiles(values, scale)
    return row_of(name, middle, lower, upper)


def _quantiles(values: Floats, scale: float) -> Floats:
    """`QUANTILES` of the values that are not missing; NaN where all are."""
    known = values[~np.isnan(values)]
    if not known.size:
        return np.full(len(QUANTILES), np.nan)
    return np.asarray(scale * np.quantile(known, QUANTILES))


def estimate_row(name: str, estimate: Estimate, scale: float = 1.0) -> canvas.Series:
    """Row of an estimate with its interval."""
    return row_of(name, scale * estimate.value, scale * estimate.lower, scale * estimate.upper)


def share_row(name: str, which: Bools) -> canvas.Series:
    """Row of the share of instances for which something holds, in percent, with its interval."""
    if not which.size:
        return row_of(name, np.nan)
    return estimate_row(name, proportion(int(which.sum()), which.size), 100.0)


def of_row(series: canvas.Series, panel: str = "") -> canvas.CasePart:
    """Part of a figure of rows that shows a case."""
    return canvas.CasePart(series, panel, worth=float(series.x[0]))


def quantile_curve(
    ages: Floats, values: Floats, scale: float = 1.0, name: str = ""
) -> canvas.Series:
    """Median over instances at each age, with the band of `QUANTILES`.

    Parameters
    ----------
    ages : ndarray of float [age]
        Ages.
    values : ndarray of float [instance, age]
        Values; missing ones (NaN) do not count.
    scale : float
        Factor on the values.
    name : str
        As of `Series`; cases have names of their own.
    """
    lower, middle, upper = np.array([_quantiles(of_age, scale) for of_age in values.T]).T
    return canvas.Series(name, ages, middle, lower, upper)


def share_curve(values: Floats, scale: float = 1.0, name: str = "") -> canvas.Series:
    """Share of the instances whose value is not larger, in percent, with Wilson's interval.

    Its steps are the values themselves, or if they are many, quantiles at equal distances.
    """
    ordered = np.sort(scale * values[~np.isnan(values)].astype(np.float64))
    places = np.unique(ordered)
    if places.size > PLACES:
        places = np.unique(np.quantile(ordered, np.linspace(0, 1, PLACES), method="lower"))
    share = np.searchsorted(ordered, places, side="right") / max(1, ordered.size)
    places, share = np.append(places[:1], places), np.append(0.0, share)
    lower, upper = wilson(share, np.full(share.size, float(ordered.size)))
    return canvas.Series(name, places, 100 * share, 100 * lower, 100 * upper)


def of_shares(series: canvas.Series, panel: str = "") -> canvas.CasePart:
    """Part of a figure of cumulative shares that shows a case, which its median stands for."""
    return canvas.CasePart(series, panel, worth=float(series.x[np.searchsorted(series.y, 50.0)]))


def _widen(limits: Callable[[], tuple[float, float]], set_limits: Callable[..., object]) -> None:
    """Let an axis on which all values are equal show more than rounding."""
    low, high = limits()
    middle = (low + high) / 2
    if high - low < 0.02 * abs(middle):
        set_limits(middle - 0.01 * abs(middle), middle + 0.01 * abs(middle))


# Figures of a study that has none of its own: the distribution of each variable.

CURVES = 12
"""Curves of a panel."""


def draw(header: Header, results: xr.Dataset) -> Iterator[canvas.Plot | canvas.AbsentFigure]:
    """A figure of each variable, in the order of the file.

    Parameters
    ----------
    header : Header
        Header of the study, which declares its variables.
    results : xarray.Dataset
        Its results.
    """
    for number, variable in enumerate(header.variables, start=1):
        name = f"variable-{number}-{re.sub('[^A-Za-z0-9]+', '-', variable.name).strip('-')}"
        if variable.flags:
            yield _shares_of_flags(name, variable, results)
        elif variable.per_instance:
            yield _shares(name, variable, results)
        else:
            yield _sums(name, variable, results)


def _shares(
    name: str, variable: Variable, results: xr.Dataset
) -> canvas.Plot | canvas.AbsentFigure:
    """Cumulative shares of the instances, a curve for each place in the other dimensions."""
    title = _title(variable)
    curves = [
        share_curve(values.astype(np.float64), name=label)
        for label, values in _places(variable, results, "instance")
        if not np.isnan(values).all()
    ]
    if not curves:
        return canvas.AbsentFigure(name, title, "No instance has a value.")
    return CurveFigure(
        name,
        f"{title}, {canvas.PERCENT} bands",
        f"Share of the instances whose value is not larger than that of the axis, with "
        f"pointwise {canvas.PERCENT} bands after Wilson. {_comment(variable)}",
        f"{_title(variable)}{_unit(variable)}",
        "instances with at most this value (%)",
        _panels(curves),
        shape="distribution",
        y_limits=(0.0, 103.0),
    )


def _shares_of_flags(name: str, variable: Variable, results: xr.Dataset) -> canvas.Plot:
    """Share of the instances with each flag, a panel for each place in the other dimensions."""
    panels = [
        row_panel(
            label,
            "instances (%)",
            tuple(share_row(visible(flag), values == value) for flag, value in variable.flags),
        )
        for label, values in _places(variable, results, "instance")
    ]
    title = f"{_title(variable)}, {canvas.PERCENT} intervals"
    words = f"Share of the instances, with {canvas.PERCENT} intervals after Wilson."
    return RowFigure(name, title, f"{words} {_comment(variable)}", panels=tuple(panels))


def _sums(name: str, variable: Variable, results: xr.Dataset) -> canvas.Plot:
    """What is summed over instances, against its last dimension: numbers, or names in rows."""
    along = variable.dims[-1]
    coordinate = results[along]
    title = f"{_title(variable)}, summed over instances"
    label = f"{_title(variable)}{_unit(variable)}"
    caption = f"Sum over all instances. {_comment(variable)}".strip()
    sums = list(_places(variable, results, along))
    if not np.issubdtype(coordinate.dtype, np.number):
        names = [shown(str(text), 40) for text in coordinate.values.tolist()]
        panels = tuple(
            row_panel("" if len(sums) == 1 else place, label, tuple(map(row_of, names, values)))
            for place, values in sums
        )
        return RowFigure(name, title, caption, panels=panels)
    x = coordinate.values.astype(np.float64)
    curves = [canvas.Series(place, x, values.astype(np.float64)) for place, values in sums]
    x_label = f"{shown(along)} ({shown(coordinate.attrs.get('units', '1'), 20)})"
    return CurveFigure(name, title, caption, x_label, label, _panels(curves), shape="line")


def _places(
    variable: Variable, results: xr.Dataset, along: str
) -> Iterator[tuple[str, np.ndarray[tuple[int], np.dtype[Any]]]]:
    """Values along a dimension at each place of the others, with the labels of the place."""
    others = [dim for dim in variable.dims if dim != along]
    for place in product(*(range(results.sizes[dim]) for dim in others)):
        at = dict(zip(others, place, strict=True))
        words = [visible(str(results[dim].values[number])) for dim, number in at.items()]
        yield shown(" ".join(words), 40) or "all instances", results[variable.name].isel(at).values


def _panels(curves: Sequence[canvas.Series]) -> tuple[canvas.Panel, ...]:
    """Panels with as many curves as a reader can distinguish."""
    parts = (curves[first : first + CURVES] for first in range(0, len(curves), CURVES))
    return tuple(canvas.Panel("", tuple(part), alt=_alt(part)) for part in parts)


def _alt(curves: Sequence[canvas.Series]) -> str:
    """Ranges of the curves; of shares, the values that half of the instances do not exceed."""
    return " ".join(f"{curve.label}: {_range(curve)}." for curve in curves)


def _range(curve: canvas.Series) -> str:
    if curve.lower is None:
        return f"from {np.nanmin(curve.y):.4g} to {np.nanmax(curve.y):.4g}"
    median = curve.x[np.searchsorted(curve.y, 50.0)]
    return f"median {median:.4g}, from {curve.x[0]:.4g} to {curve.x[-1]:.4g}"


def _title(variable: Variable) -> str:
    return shown(visible(variable.long_name), 60)


def _unit(variable: Variable) -> str:
    return "" if variable.units == "1" else f" ({shown(variable.units, 20)})"


def _comment(variable: Variable) -> str:
    return visible(variable.comment)
