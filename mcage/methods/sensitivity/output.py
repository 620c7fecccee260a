"""Tables and the tornado of a sensitivity study, in files of several forms."""

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console

from mcage.files.atomic import FIGURES, JSON, TABLES, kind_of_name, make_ready, whole_file
from mcage.methods.sensitivity.methods import Bar, Effect, OneAtATime, Sobol
from mcage.methods.sensitivity.parameters import Value
from mcage.plain_text import csv_text
from mcage.report.figures.canvas import STYLE, save
from mcage.report.tables import print_table, table_of_texts
from mcage.spec import SweepSpec
from mcage.stats.estimates import CONFIDENCE, DASH, Estimate, life, plain, with_bounds

# Results of a study as tables for people, and as rows for files.

REFIT = "amplitude and mu fitted again to the published delay and share of faulty cells"
NO_REFIT = "amplitude and mu as they are, whatever varies"


def print_one_at_a_time(result: OneAtATime, console: Console) -> None:
    """Print a line for each setting, those of a parameter together, the largest bar first."""
    value, difference = f"{result.quantity}\n[{result.unit}]", f"difference\n[{result.unit}]"
    headings = (
        (value, "instances", difference, "pairs") if result.leaves_out else (value, difference)
    )
    lines = []
    for bar in result.bars:
        parameter = bar.parameter
        nominal = f"{setting(parameter.nominal)} {_unit(parameter.unit)}".rstrip()
        for place, effect in enumerate(bar.effects):
            of_parameter = [parameter.name, parameter.status, nominal]
            lines.append(
                [
                    *(["", "", ""] if place else of_parameter),
                    setting(effect.setting),
                    _number(effect.value, result.horizon_years, effect.alike),
                    *([f"{effect.dies:,}"] if result.leaves_out else []),
                    _difference(effect, effect.alike and result.nominal_alike),
                    *([f"{effect.pairs:,}"] if result.leaves_out else []),
                ]
            )
    table = table_of_texts(
        f"{result.quantity} of {result.label}, {result.instances} instances, "
        f"horizon {result.horizon_years:g} years\n"
        f"reference: {_number(result.nominal, result.horizon_years, result.nominal_alike)} "
        f"{result.unit}"
        f"{f', {result.nominal_dies:,} instances' if result.leaves_out else ''}",
        ("parameter", "status", "reference", "setting", *headings),
        lines,
        ("reference", "setting", *headings),
        ("parameter", "setting", difference, *headings[3:]),
    )
    left_out = (
        "; instances: those that have the quantity, of which the value is; pairs: those that have "
        "it under both settings, of which the difference is"
    )
    caption = (
        f"{CONFIDENCE:.0%} intervals; differences from the reference setting die by die; "
        f"{REFIT if result.refit else NO_REFIT}{left_out if result.leaves_out else ''}"
    )
    print_table(replace(table, caption=caption), console, remedy="--json")


def print_sobol(result: Sobol, console: Console) -> None:
    """Print a line for each parameter, the largest total index first."""
    lines = [
        [
            index.parameter.name,
            index.parameter.status,
            f"{setting(index.parameter.low)} ... {setting(index.parameter.high)} "
            f"{_unit(index.parameter.unit)}".rstrip(),
            _index(index.first_order),
            _index(index.total),
        ]
        for index in result.indices
    ]
    table = table_of_texts(
        f"Sobol' indices of {result.quantity} of {result.label}, {result.instances} instances, "
        f"horizon {result.horizon_years:g} years\n"
        f"{result.evaluations} settings, N = {result.samples}: mean {result.mean:.4g}, deviation "
        f"{result.deviation:.3g}, {result.lowest:.4g} ... {result.highest:.4g} {result.unit}",
        ("parameter", "status", "range", "first order", "total"),
        lines,
        ("range", "first order", "total"),
        ("parameter", "first order", "total"),
    )
    caption = (
        f"{CONFIDENCE:.0%} bootstrap intervals over the settings; "
        f"{REFIT if result.refit else NO_REFIT}"
    )
    print_table(replace(table, caption=caption), console, remedy="--json")


def rows(result: OneAtATime | Sobol) -> list[dict[str, Any]]:
    """Convert results into a flat row for each setting, or for each parameter."""
    if isinstance(result, Sobol):
        return [
            {
                "parameter": index.parameter.name,
                "key": index.parameter.key,
                "status": index.parameter.status,
                "low": index.parameter.low,
                "high": index.parameter.high,
                "unit": index.parameter.unit,
                **_flat("first_order", index.first_order),
                **_flat("total", index.total),
            }
            for index in result.indices
        ]
    return [
        {
            "parameter": bar.parameter.name,
            "key": bar.parameter.key,
            "status": bar.parameter.status,
            "nominal": bar.parameter.nominal,
            "setting": effect.setting,
            "unit": bar.parameter.unit,
            **_flat(result.quantity, effect.value),
            **_flat("difference", effect.difference),
            "dies": effect.dies,
            "pairs": effect.pairs,
        }
        for bar in result.bars
        for effect in bar.effects
    ]


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


def _flat(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_lower": estimate.lower, f"{name}_upper": estimate.upper}


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
    text = f"{as_json(result, spec)}\n" if kind is JSON else as_csv(result)
    with whole_file(path, kind) as stream:
        stream.write(text.encode())


def as_csv(result: OneAtATime | Sobol) -> str:
    """Write results as CSV text, with a line for each row of their table."""
    table = rows(result)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(table[0]))
    writer.writeheader()
    writer.writerows(
        {key: csv_text(value) if isinstance(value, str) else value for key, value in row.items()}
        for row in table
    )
    return text.getvalue()


def as_json(result: OneAtATime | Sobol, spec: SweepSpec) -> str:
    """Write results and the spec of their case as JSON text."""
    case: dict[str, Any] = spec.model_dump(mode="json", exclude_none=True)
    return json.dumps({"spec": case} | plain(result), indent=2)


# Results of a study as a figure: a tornado of differences, or bars of Sobol' indices.

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
