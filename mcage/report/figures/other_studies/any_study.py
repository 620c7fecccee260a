"""Figures of a study that has none of its own: the distribution of each variable."""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from mcage.plain_text import shown, visible
from mcage.report.figures.curves import Curve, CurveFigure, CurvePanel
from mcage.report.figures.figure import AbsentFigure, ReportFigure
from mcage.report.figures.other_studies.distributions import (
    Row,
    RowFigure,
    RowPanel,
    share_curve,
    share_row,
)
from mcage.report.figures.sheet import PERCENT, Sheet
from mcage.results.header import Header
from mcage.results.variable import Variable

CURVES = 12
"""Curves of a panel."""


def draw(
    header: Header, results: xr.Dataset, sheet: Sheet
) -> Iterator[ReportFigure | AbsentFigure]:
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
    name: str, variable: Variable, results: xr.Dataset, sheet: Sheet
) -> Iterator[ReportFigure | AbsentFigure]:
    """Cumulative shares of the instances, a curve for each place in the other dimensions."""
    title = _title(variable)
    curves = [
        share_curve(label, values.astype(np.float64))
        for label, values in _places(variable, results, "instance")
        if not np.isnan(values).all()
    ]
    if not curves:
        yield AbsentFigure(name, title, "No instance has a value.")
        return
    figure = CurveFigure(
        name=name,
        title=f"{title}, {PERCENT} bands",
        caption=f"Share of the instances whose value is not larger than that of the axis, with "
        f"pointwise {PERCENT} bands after Wilson. {_comment(variable)}",
        x_label=f"{_title(variable)}{_unit(variable)}",
        y_label="instances with at most this value (%)",
        kind="distribution",
        y_limits=(0.0, 103.0),
    )
    yield from figure.pages(_panels(curves), sheet)


def _shares_of_flags(
    name: str, variable: Variable, results: xr.Dataset, sheet: Sheet
) -> Iterator[ReportFigure]:
    """Share of the instances with each flag, a panel for each place in the other dimensions."""
    panels = [
        RowPanel(
            label,
            "instances (%)",
            tuple(share_row(visible(flag), values == value) for flag, value in variable.flags),
        )
        for label, values in _places(variable, results, "instance")
    ]
    title = f"{_title(variable)}, {PERCENT} intervals"
    caption = f"Share of the instances, with {PERCENT} intervals after Wilson. {_comment(variable)}"
    yield from RowFigure(name, title, caption).pages(panels, sheet)


def _sums(
    name: str, variable: Variable, results: xr.Dataset, sheet: Sheet
) -> Iterator[ReportFigure]:
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
