"""Results of a study as tables for people, and as rows for files."""

import math
from dataclasses import replace
from typing import Any

from rich.console import Console

from mcage.report.tables.table import table_of_texts
from mcage.report.tables.terminal import print_table
from mcage.stats.estimates import CONFIDENCE, Estimate
from mcage.stats.wording import DASH, life, with_bounds
from mcage.studies.sensitivity.one_at_a_time import Effect, OneAtATime
from mcage.studies.sensitivity.parameters import Value
from mcage.studies.sensitivity.sobol import Sobol

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
                    _number(effect.value, result.horizon_years),
                    *([f"{effect.dies:,}"] if result.leaves_out else []),
                    _difference(effect),
                    *([f"{effect.pairs:,}"] if result.leaves_out else []),
                ]
            )
    table = table_of_texts(
        f"{result.quantity} of {result.label}, {result.instances} instances, "
        f"horizon {result.horizon_years:g} years\n"
        f"reference: {_number(result.nominal, result.horizon_years)} {result.unit}"
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
    return value if isinstance(value, str) else f"{value:.6g}"


def _index(estimate: Estimate) -> str:
    """Write an index with two digits; more are not known."""
    numbers = (round(bound, 2) + 0.0 for bound in vars(estimate).values())
    return "{:.2f} [{:.2f}, {:.2f}]".format(*numbers)


def _unit(unit: str) -> str:
    return "" if unit == "1" else unit


def _flat(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_lower": estimate.lower, f"{name}_upper": estimate.upper}


def _number(estimate: Estimate, horizon_years: float) -> str:
    """Write a value and its bounds; only ages are ever infinite."""
    if any(math.isinf(bound) for bound in vars(estimate).values()):
        return life(estimate, horizon_years)
    return with_bounds(estimate)


def _difference(effect: Effect) -> str:
    value = effect.difference.value
    if math.isnan(value):
        return "not known"
    if math.isinf(value):
        return f"{'>' if value > 0 else '<'} {effect.least_difference:+.2f}"
    bounds = (effect.difference.lower, effect.difference.upper)
    if any(math.isinf(bound) for bound in bounds):  # beyond the horizon, and so not known
        lower, upper = (DASH if math.isinf(bound) else f"{bound:.2f}" for bound in bounds)
        return f"{value:.2f} [{lower}, {upper}]"
    return with_bounds(effect.difference)
