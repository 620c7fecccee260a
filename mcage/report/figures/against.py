"""Measures of cases against an axis of numbers, such as the supply voltage."""

from collections.abc import Sequence
from math import nan

import numpy as np
import xarray as xr

from mcage.plain_text import visible
from mcage.report.cases import axes_of, in_a_row, names_in, points_of
from mcage.report.figures import canvas
from mcage.report.figures.curves import CurveFigure
from mcage.results.axes import Along, Axis, along, axis_named, differing
from mcage.results.measures import Measure, available, cases_of
from mcage.stats.estimates import Estimate, Floats

CURVES = 12
"""Curves of a panel that a reader can distinguish."""


def numeric_axes(results: xr.Dataset) -> list[str]:
    """Names of axes of numbers by which cases differ, and which no other axis decides."""
    several = differing(axes_of(results), points_of(results)) if "case" in results.dims else ()
    return [axis.name for axis in several if axis.is_number and not axis.derived]


def curves_along(results: xr.Dataset, x: str) -> list[Along]:
    """Cases along an axis, as of `mcage.results.axes.along`."""
    return along(x, axes_of(results), points_of(results), names_in(results))


def plot_of(
    results: xr.Dataset, x: str, measures: Sequence[Measure]
) -> CurveFigure | canvas.AbsentFigure:
    """Measures against an axis: a panel for each, with a curve for each point on other axes.

    Parameters
    ----------
    results : xarray.Dataset
        Results with cases.
    x : str
        Name or key of an axis of numbers.
    measures : sequence of Measure
        Measures of the study.

    Raises
    ------
    UserError
        There is no such axis of numbers, or two cases differ in nothing that tells them apart.
    """
    axis = axis_named(x, axes_of(results))
    curves = [of for of in curves_along(results, x) if of.x.size > 1]
    name = (axis.key or axis.name).replace("_", "-")
    title = f"Measures against {axis.title.partition(' [')[0]}, {canvas.PERCENT} bands"
    if not curves:
        return canvas.AbsentFigure(name, title, "No two cases differ in it alone.")
    panels, unknown = [], []
    there = [of for of in available(measures, map(str, results.variables)) if not of.axis]
    names = {_name(results, curve): str(curve.point.get("technique", "")) for curve in curves}
    for measure, of_cases in zip(there, _estimates(results, there), strict=True):
        series = tuple(
            canvas.Series(label, curve.x, value, low, high, cases=curve.places)
            for label, curve in zip(names, curves, strict=True)
            for value, low, high in [of_cases[[*curve.places]].T]
        )
        if all(np.isnan(curve.y).all() for curve in series):
            unknown.append(measure.title)
            continue
        for first in range(0, len(series), CURVES):
            part = series[first : first + CURVES]
            alt = _alt(measure, axis, part)
            gaps = [curve.label for curve in part if np.isnan(curve.y).any()]
            notes = (f"not known everywhere: {in_a_row(gaps)}",) if gaps else ()
            panels.append(canvas.Panel("", part, notes, alt, y_label=_bracketed(measure.name)))
    if not panels:
        return canvas.AbsentFigure(name, title, "No case has a value of any measure.")
    caption = (
        f"Estimates of each case with {canvas.PERCENT} bands: intervals of Wilson for shares, of "
        f"Student for means. The dies of a curve are the same at each {axis.long_name}."
    )
    if unknown:
        caption += f" Left out, since no case has a value: {in_a_row(unknown)}."
    return CurveFigure(
        name,
        title,
        caption,
        _bracketed(axis.title),
        panels=tuple(panels),
        # A technique looks as in all other figures; further curves of it have other looks.
        looks=canvas.looks_of({name: technique or name for name, technique in names.items()}),
        shape="line",
        shares_axes=False,
    )


def _bracketed(name: str) -> str:
    """Name with its unit in round brackets, as on the axes of all figures."""
    return name.replace("[", "(").replace("]", ")")


def _name(results: xr.Dataset, curve: Along) -> str:
    """Name of a curve for people: what tells it from others, or else its technique."""
    technique = str(curve.point.get("technique", "all cases"))
    return visible(curve.label or names_in(results).get(technique, technique))


def _estimates(results: xr.Dataset, measures: Sequence[Measure]) -> Floats:
    """Estimate of each measure of each case, and its bounds: float64[measure, case, 3]."""
    needed = {name for measure in measures for name in measure.variables}
    said = [
        [measure.estimate(case, case.horizon_years) for measure in measures]
        for case in cases_of(results, ("case",), needed)
    ]
    bounds = [
        [vars(of).values() if isinstance(of, Estimate) else (of, nan, nan) for of in row]
        for row in said
    ]
    known = np.array(
        [[[nan if of is None else of for of in each] for each in row] for row in bounds], np.float64
    )
    factors = [100.0 if measure.name.endswith("[%]") else measure.scale for measure in measures]
    finite = np.where(np.isfinite(known), known, nan)
    return np.asarray(finite.swapaxes(0, 1) * np.array(factors)[:, None, None])


def _alt(measure: Measure, axis: Axis, curves: Sequence[canvas.Series]) -> str:
    """At which number of the axis each curve is best."""
    best = np.nanargmin if measure.better == "less" else np.nanargmax
    words = [
        f"{curve.label} at {axis.written(float(curve.x[place]))} ({curve.y[place]:.3g})"
        for curve in curves
        if not np.isnan(curve.y).all()
        for place in [int(best(curve.y))]
    ]
    which = "smallest" if measure.better == "less" else "largest"
    return f"{measure.name}: {which} of {in_a_row(words)}." if words else ""
