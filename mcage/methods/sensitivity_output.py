"""Tables and the tornado of a sensitivity study, in files of several forms."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mcage.files.atomic import FIGURES, JSON, TABLES, kind_of_name, make_ready, whole_file
from mcage.methods.sensitivity import Effect, OneAtATime, Sobol, TornadoBar, Value
from mcage.report.figures.canvas import in_style, save
from mcage.report.tables import Cell, Column, ResultTable, csv_of
from mcage.spec import SweepSpec
from mcage.stats.estimates import CONFIDENCE, DASH, Estimate, life, plain, with_bounds

# Results of a study as a table, for people and for files.

REFIT = "amplitude and mu fitted again to the published delay and share of faulty cells"
NO_REFIT = "amplitude and mu as they are, whatever varies"


def table_of(result: OneAtATime | Sobol) -> ResultTable:
    """Table of a study: a line for each setting or for each parameter, the largest bar first."""
    return _of_indices(result) if isinstance(result, Sobol) else _of_settings(result)


def _of_settings(result: OneAtATime) -> ResultTable:
    lines = []
    for bar in result.bars:
        of = bar.parameter
        for place, effect in enumerate(bar.effects):
            reference = f"{setting(of.nominal)} {_unit(of.unit)}".rstrip()
            name, status, reference = ("", "", "") if place else (of.name, of.status, reference)
            lines.append(
                [
                    Cell(name, of.name),
                    Cell("", of.key),
                    Cell(status, of.status),
                    Cell(reference, of.nominal),
                    Cell(setting(effect.setting), effect.setting),
                    Cell("", of.unit),
                    _cell(_number(effect.value, result.horizon_years, effect.alike), effect.value),
                    Cell(f"{effect.dies:,}", effect.dies),
                    _cell(
                        _difference(effect, effect.alike and result.nominal_alike),
                        effect.difference,
                    ),
                    Cell(f"{effect.pairs:,}", effect.pairs),
                ]
            )
    counted = result.leaves_out
    headings = {
        "parameter": "parameter",
        "key": "",
        "status": "status",
        "nominal": "reference",
        "setting": "setting",
        "unit": "",
        result.quantity: f"{result.quantity}\n[{result.unit}]",
        "dies": "instances" if counted else "",
        "difference": f"difference\n[{result.unit}]",
        "pairs": "pairs" if counted else "",
    }
    title = (
        f"{result.quantity} of {result.label}, {result.instances} instances, "
        f"horizon {result.horizon_years:g} years\n"
        f"reference: {_number(result.nominal, result.horizon_years, result.nominal_alike)} "
        f"{result.unit}{f', {result.nominal_dies:,} instances' if counted else ''}"
    )
    left_out = (
        "; instances: those that have the quantity, of which the value is; pairs: those that have "
        "it under both settings, of which the difference is"
    )
    caption = (
        f"{CONFIDENCE:.0%} intervals; differences from the reference setting die by die; "
        f"{REFIT if result.refit else NO_REFIT}{left_out if counted else ''}"
    )
    return _table(title, caption, headings, lines, ("parameter", "setting", "difference", "pairs"))


def _of_indices(result: Sobol) -> ResultTable:
    lines = []
    for index in result.indices:
        of = index.parameter
        low, high = of.ends
        ends = f"{setting(low)} ... {setting(high)} {_unit(of.unit)}".rstrip()
        lines.append(
            [
                Cell(of.name, of.name),
                Cell("", of.key),
                Cell(of.status, of.status),
                Cell(ends, low),
                Cell("", high),
                Cell("", of.unit),
                _cell(_index(index.first_order), index.first_order),
                _cell(_index(index.total), index.total),
            ]
        )
    headings = {
        "parameter": "parameter",
        "key": "",
        "status": "status",
        "low": "range",
        "high": "",
        "unit": "",
        "first_order": "first order",
        "total": "total",
    }
    title = (
        f"Sobol' indices of {result.quantity} of {result.label}, {result.instances} instances, "
        f"horizon {result.horizon_years:g} years\n"
        f"{result.evaluations} settings, N = {result.samples}: mean {result.mean:.4g}, deviation "
        f"{result.deviation:.3g}, {result.lowest:.4g} ... {result.highest:.4g} {result.unit}"
    )
    caption = (
        f"{CONFIDENCE:.0%} bootstrap intervals over the settings; "
        f"{REFIT if result.refit else NO_REFIT}"
    )
    return _table(title, caption, headings, lines, ("parameter", "first_order", "total"))


def _table(
    title: str,
    caption: str,
    headings: dict[str, str],
    lines: Sequence[Sequence[Cell]],
    primary: Sequence[str],
) -> ResultTable:
    """Table of lines of cells, with a heading for each key; columns of texts stand to the left."""
    columns = (
        Column(
            key,
            heading,
            tuple(cells),
            primary=key in primary,
            justify="left" if key in ("parameter", "status") else "right",
        )
        for (key, heading), cells in zip(headings.items(), zip(*lines, strict=True), strict=True)
    )
    return ResultTable(title, caption, tuple(columns))


def _cell(text: str, estimate: Estimate) -> Cell:
    return Cell(text, *vars(estimate).values())


def setting(value: Value) -> str:
    """Write a value of a parameter for people."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else f"{value:.6g}"


def _index(estimate: Estimate) -> str:
    """Write an index with two digits; more are not known."""
    numbers = (round(bound, 2) + 0.0 for bound in vars(estimate).values())
    return "{:.2f} [{:.2f}, {:.2f}]".format(*numbers)


def _unit(unit: str) -> str:
    return "" if unit == "1" else unit


def _number(estimate: Estimate, horizon_years: float, alike: bool) -> str:
    """Write a value and its bounds, if instances differ; only ages are ever infinite."""
    if any(math.isinf(bound) for bound in vars(estimate).values()):
        return life(estimate, horizon_years)
    return _with_bounds(estimate, alike)


def _with_bounds(estimate: Estimate, alike: bool) -> str:
    """Write a value and its bounds; what all instances have in common has no interval."""
    if alike and estimate.lower == estimate.upper:
        return f"{estimate.value:.3g} (all alike)"
    return with_bounds(estimate)


def _difference(effect: Effect, alike: bool) -> str:
    value = effect.difference.value
    if math.isnan(value):
        return "not known"
    if math.isinf(value):
        return f"{'>' if value > 0 else '<'} {effect.least_difference:+.2f}"
    bounds = (effect.difference.lower, effect.difference.upper)
    if any(math.isinf(bound) for bound in bounds):  # beyond the horizon, and so not known
        lower, upper = (DASH if math.isinf(bound) else f"{bound:.2f}" for bound in bounds)
        return f"{value:.2f} [{lower}, {upper}]"
    return _with_bounds(effect.difference, alike)


SUFFIXES = (*TABLES, *FIGURES)


def check_path(path: Path) -> None:
    """Refuse a file that could not be written, before anything is computed.

    Raises
    ------
    UserError
        Its suffix names no format, there is no such folder, or a file of another kind is there.
    """
    make_ready(path, kind_of_name(path, SUFFIXES))


def write(result: OneAtATime | Sobol, spec: SweepSpec, path: Path) -> None:
    """Write results into a file of the kind that its suffix names.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    kind = kind_of_name(path, SUFFIXES)
    if kind in FIGURES.values():
        draw(result, path)
        return
    text = f"{as_json(result, spec)}\n" if kind is JSON else csv_of(table_of(result))
    with whole_file(path, kind) as stream:
        stream.write(text.encode())


def as_json(result: OneAtATime | Sobol, spec: SweepSpec) -> str:
    """Write results and the spec of their case as JSON text."""
    case: dict[str, Any] = spec.model_dump(mode="json", exclude_none=True)
    return json.dumps({"spec": case} | plain(result), indent=2)


# Results of a study as a figure: a tornado of differences, or bars of Sobol' indices.

RISE, FALL = "#0072B2", "#D55E00"
"""Colours of a higher and of a lower setting, from the palette of Okabe and Ito."""

ROW_INCHES = 0.27


@in_style
def draw(result: OneAtATime | Sobol, path: Path) -> None:
    """Draw results into a file.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    count = len(result.indices if isinstance(result, Sobol) else result.bars)
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


def _draw_effect(axes: Axes, y: float, height: float, bar: TornadoBar, effect: Effect) -> None:
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
