"""Distributions over instances, and the figures of a study that brings none of its own."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from mcage.plain_text import shown, visible
from mcage.report.figures import canvas
from mcage.report.figures.curves import Curve, CurveFigure, CurvePanel
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


@dataclass(frozen=True)
class Row:
    """A point with a line through it.

    Parameters
    ----------
    name : str
        Whose it is.
    value, lower, upper : float
        The point and the ends of the line; NaN where there is none.
    case : str
        Label of the case; empty where it is of no single case.
    """

    name: str
    value: float
    lower: float
    upper: float
    case: str = ""


@dataclass(frozen=True)
class RowPanel:
    """Rows with a common axis.

    Parameters
    ----------
    title, x_label : str
        Title, and label of the axis with its unit.
    rows : tuple of Row
        The rows, from above.
    """

    title: str
    x_label: str
    rows: tuple[Row, ...]

    @property
    def alt(self) -> str:
        """Which row has the smallest and which the largest value."""
        return canvas.extremes(self.title, "the value", {row.name: row.value for row in self.rows})


@dataclass(frozen=True)
class RowFigure:
    """A figure of panels of rows.

    Parameters
    ----------
    name, title, caption : str
        As of `ReportFigure`; the sheet's caveats follow the caption.
    """

    name: str
    title: str
    caption: str

    def pages(
        self,
        panels: Sequence[RowPanel],
        sheet: canvas.Sheet,
        looks: Mapping[str, canvas.Look] | None = None,
    ) -> Iterator[canvas.ReportFigure]:
        """Draw panels on as many pages as they need, in the looks of `looks_of` by default."""
        if looks is None:
            looks = canvas.looks_of(row.name for panel in panels for row in panel.rows)
        height_mm, narrowest_mm = _height_mm(panels), _narrowest_mm(panels)
        for name, part, of_page in sheet.pages(self.name, panels, height_mm, narrowest_mm):
            yield self._page(name, part, of_page, sheet, looks)

    @canvas.in_style
    def _page(
        self,
        name: str,
        part: str,
        panels: Sequence[RowPanel],
        sheet: canvas.Sheet,
        looks: Mapping[str, canvas.Look],
    ) -> canvas.ReportFigure:
        narrowest_mm = _narrowest_mm(panels)
        figure, grid = sheet.grid(len(panels), _height_mm(panels), narrowest_mm, share=False)
        drawn = []
        for number, (axes, panel) in enumerate(zip(grid, panels, strict=True)):
            series = []
            for place, row in enumerate(panel.rows):
                look = looks[row.name]
                axes.plot((row.lower, row.upper), (place, place), color=look.colour, linewidth=1.4)
                (point,) = axes.plot(row.value, place, marker=look.marker, color=look.colour)
                gid = f"{name}-{number + 1}-{place + 1}"
                point.set_gid(gid)
                values = (np.array([v]) for v in (row.value, row.lower, row.upper))
                x, lower, upper = values
                y = np.array([float(place)])
                of_row = canvas.Series(
                    gid, row.name, row.case, x, y, "points", x_lower=lower, x_upper=upper
                )
                series.append(of_row)
            axes.set_xlabel(sheet.label(panel.x_label, len(panels), narrowest_mm, 0.6))
            canvas.name_rows(axes, [row.name for row in panel.rows])
            _widen(axes.get_xlim, axes.set_xlim)
            drawn.append(canvas.Panel(axes, panel.title, panel.x_label, "", tuple(series)))
        canvas.heads(grid, [panel.title for panel in panels], [""] * len(grid))
        title = f"{self.title}{part}"
        sheet.finish(figure, f"{title}: {sheet.population}")
        alt = " ".join(panel.alt for panel in panels)
        return canvas.ReportFigure(
            name, title, sheet.captioned(self.caption), alt, figure, tuple(drawn)
        )


def quantile_row(name: str, values: Floats, scale: float = 1.0, case: str = "") -> Row:
    """Row of the quantiles of instances; missing values (NaN) do not count."""
    known = values[~np.isnan(values)]
    if not known.size:
        return Row(name, np.nan, np.nan, np.nan, case)
    lower, middle, upper = (scale * float(v) for v in np.quantile(known, QUANTILES))
    return Row(name, middle, lower, upper, case)


def estimate_row(name: str, estimate: Estimate, scale: float = 1.0, case: str = "") -> Row:
    """Row of an estimate with its interval."""
    return Row(name, scale * estimate.value, scale * estimate.lower, scale * estimate.upper, case)


def share_row(name: str, which: Bools, case: str = "") -> Row:
    """Row of the share of instances for which something holds, in percent, with its interval."""
    if not which.size:
        return Row(name, np.nan, np.nan, np.nan, case)
    return estimate_row(name, proportion(int(which.sum()), which.size), 100.0, case)


def quantile_curve(
    name: str, ages: Floats, values: Floats, scale: float = 1.0, case: str = ""
) -> Curve:
    """Median over instances at each age, with the band of `QUANTILES`.

    Parameters
    ----------
    name, case : str
        As of `Curve`.
    ages : ndarray of float [age]
        Ages.
    values : ndarray of float [instance, age]
        Values; missing ones (NaN) do not count.
    scale : float
        Factor on the values.
    """
    rows = [quantile_row(name, of_age, scale) for of_age in values.T]
    lower, middle, upper = np.array([(row.lower, row.value, row.upper) for row in rows]).T
    return Curve(name, ages, middle, lower, upper, case)


def share_curve(name: str, values: Floats, scale: float = 1.0, case: str = "") -> Curve:
    """Share of the instances whose value is not larger, in percent, with Wilson's interval.

    Its steps are the values themselves, or if they are many, places from the smallest to the
    largest at equal distances.
    """
    ordered = np.sort(scale * values[~np.isnan(values)].astype(np.float64))
    places = np.unique(ordered)
    if places.size > PLACES:
        places = np.linspace(places[0], places[-1], PLACES)
    share = np.searchsorted(ordered, places, side="right") / max(1, ordered.size)
    places, share = np.append(places[:1], places), np.append(0.0, share)
    lower, upper = wilson(share, np.full(share.size, float(ordered.size)))
    return Curve(name, places, 100 * share, 100 * lower, 100 * upper, case)


def _widen(limits: Callable[[], tuple[float, float]], set_limits: Callable[..., object]) -> None:
    """Let an axis on which all values are equal show more than rounding."""
    low, high = limits()
    middle = (low + high) / 2
    if high - low < 0.02 * abs(middle):
        set_limits(middle - 0.01 * abs(middle), middle + 0.01 * abs(middle))


def _narrowest_mm(panels: Sequence[RowPanel]) -> float:
    longest = max(len(row.name) for panel in panels for row in panel.rows)
    return NARROW_MM if longest <= SHORT_NAME else WIDE_MM


def _height_mm(panels: Sequence[RowPanel]) -> float:
    return canvas.LABELS_MM + ROW_MM * max(len(panel.rows) for panel in panels)


# Figures of a study that has none of its own: the distribution of each variable.

CURVES = 12
"""Curves of a panel."""


def draw(
    header: Header, results: xr.Dataset, sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Draw a figure for each variable, in the order of the file.

    Parameters
    ----------
    header : Header
        Header of the study, which declares its variables.
    results : xarray.Dataset
        Its results.
    sheet : Sheet
        What figures are drawn on.
    """
    for number, variable in enumerate(header.variables, start=1):
        name = f"variable-{number}-{re.sub('[^A-Za-z0-9]+', '-', variable.name).strip('-')}"
        if variable.flags:
            yield from _shares_of_flags(name, variable, results, sheet)
        elif variable.per_instance:
            yield from _shares(name, variable, results, sheet)
        else:
            yield from _sums(name, variable, results, sheet)


def _shares(
    name: str, variable: Variable, results: xr.Dataset, sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Cumulative shares of the instances, a curve for each place in the other dimensions."""
    title = _title(variable)
    curves = [
        share_curve(label, values.astype(np.float64))
        for label, values in _places(variable, results, "instance")
        if not np.isnan(values).all()
    ]
    if not curves:
        yield canvas.AbsentFigure(name, title, "No instance has a value.")
        return
    figure = CurveFigure(
        name=name,
        title=f"{title}, {canvas.PERCENT} bands",
        caption=f"Share of the instances whose value is not larger than that of the axis, with "
        f"pointwise {canvas.PERCENT} bands after Wilson. {_comment(variable)}",
        x_label=f"{_title(variable)}{_unit(variable)}",
        y_label="instances with at most this value (%)",
        kind="distribution",
        y_limits=(0.0, 103.0),
    )
    yield from figure.pages(_panels(curves), sheet)


def _shares_of_flags(
    name: str, variable: Variable, results: xr.Dataset, sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure]:
    """Share of the instances with each flag, a panel for each place in the other dimensions."""
    panels = [
        RowPanel(
            label,
            "instances (%)",
            tuple(share_row(visible(flag), values == value) for flag, value in variable.flags),
        )
        for label, values in _places(variable, results, "instance")
    ]
    title = f"{_title(variable)}, {canvas.PERCENT} intervals"
    words = f"Share of the instances, with {canvas.PERCENT} intervals after Wilson."
    caption = f"{words} {_comment(variable)}"
    yield from RowFigure(name, title, caption).pages(panels, sheet)


def _sums(
    name: str, variable: Variable, results: xr.Dataset, sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure]:
    """What is summed over instances, against its last dimension: numbers, or names in rows."""
    along = variable.dims[-1]
    coordinate = results[along]
    title = f"{_title(variable)}, summed over instances"
    label = f"{_title(variable)}{_unit(variable)}"
    caption = f"Sum over all instances. {_comment(variable)}".strip()
    sums = list(_places(variable, results, along))
    if not np.issubdtype(coordinate.dtype, np.number):
        names = [shown(str(text), 40) for text in coordinate.values.tolist()]
        panels = [
            RowPanel(
                "" if len(sums) == 1 else place,
                label,
                tuple(
                    Row(text, float(value), np.nan, np.nan)
                    for text, value in zip(names, values, strict=True)
                ),
            )
            for place, values in sums
        ]
        yield from RowFigure(name, title, caption).pages(panels, sheet)
        return
    x = coordinate.values.astype(np.float64)
    curves = [Curve(place, x, values.astype(np.float64)) for place, values in sums]
    figure = CurveFigure(
        name=name,
        title=title,
        caption=caption,
        x_label=f"{shown(along)} ({shown(coordinate.attrs.get('units', '1'), 20)})",
        y_label=label,
        kind="line",
    )
    yield from figure.pages(_panels(curves), sheet)


def _places(
    variable: Variable, results: xr.Dataset, along: str
) -> Iterator[tuple[str, np.ndarray[tuple[int], np.dtype[Any]]]]:
    """Values along a dimension at each place of the others, with the labels of the place."""
    others = [dim for dim in variable.dims if dim != along]
    for place in product(*(range(results.sizes[dim]) for dim in others)):
        at = dict(zip(others, place, strict=True))
        words = [visible(str(results[dim].values[number])) for dim, number in at.items()]
        yield shown(" ".join(words), 40) or "all instances", results[variable.name].isel(at).values


def _panels(curves: Sequence[Curve]) -> list[CurvePanel]:
    """Panels of so many curves as can be told apart."""
    parts = [curves[first : first + CURVES] for first in range(0, len(curves), CURVES)]
    return [CurvePanel("", tuple(part), alt=_alt(part)) for part in parts]


def _alt(curves: Sequence[Curve]) -> str:
    """Ranges of the curves; of shares, the values that half of the instances do not exceed."""
    return " ".join(f"{curve.name}: {_range(curve)}." for curve in curves)


def _range(curve: Curve) -> str:
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
