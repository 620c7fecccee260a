"""Figures of studies of both levels."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import xarray as xr

from mcage.plain_text import visible
from mcage.report.cases import Named, Setting, names_in
from mcage.report.figures import canvas, distributions
from mcage.report.figures import lives as life_figures
from mcage.report.figures.curves import CurveFigure
from mcage.stats.estimates import mean
from mcage.stats.survival import CaseLives

# Figures of studies of both levels: gating of SMs and techniques of register files.

ANYWHERE = Setting("", "", "")


class Pair(NamedTuple):
    """A policy and a technique: their names, and their places in the file."""

    name: str
    label: str
    policy: int
    technique: int


def draw(
    results: xr.Dataset, sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Draw the figures of a study, each with a curve or a row for each policy and technique."""
    policies = [visible(str(name)) for name in results["policy"].values.tolist()]
    techniques = [visible(str(name)) for name in results["technique"].values.tolist()]
    names = names_in(results)
    pairs = [
        Pair(
            f"{names.get(policy, policy)}, {names.get(technique, technique)}",
            f"{policy} {technique}",
            p,
            t,
        )
        for (p, policy), (t, technique) in product(enumerate(policies), enumerate(techniques))
    ]
    yield from _by_age(results, pairs, sheet)
    yield from _lives(results, pairs, sheet)
    yield from _causes(results, pairs, sheet)
    yield from _rows(results, pairs, sheet)


def _by_age(
    results: xr.Dataset, pairs: list[Pair], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure]:
    ages = results["age"].values
    looks = canvas.looks_of(pair.name for pair in pairs)

    def panel(title: str, variable: str, scale: float) -> canvas.Panel:
        curves = tuple(
            distributions.quantile_curve(
                pair.name, ages, _of(results[variable], pair).T, scale, pair.label
            )
            for pair in pairs
        )
        at_last = {curve.label: float(curve.y[-1]) for curve in curves}
        alt = canvas.extremes(title, "the last median", at_last)
        return canvas.Panel(title, curves, alt=alt)

    words = (
        "Medians over GPUs, and as bands their 5 % and 95 % quantiles (no confidence interval). A "
        "GPU has the same variation in every curve. Those of cells leave out the GPUs whose "
        "register files have failed for faults by that age."
    )
    margins = CurveFigure(
        name="margin-age",
        title=f"Delay margin needed against age, {distributions.BAND} the GPUs",
        caption="Delay of the slowest cell of the register files, and of the logic of the slowest "
        f"SM that is not retired, over that of the slowest new one, less 1. {words}",
        x_label="age (years)",
        y_label="delay margin needed (% of the new delay)",
        kind="line",
        x_limits=(0.0, float(ages[-1])),
    )
    of_both = [panel("cells", "cell_margin", 100.0), panel("logic", "logic_margin", 100.0)]
    yield from margins.pages(of_both, sheet, looks)
    shifts = CurveFigure(
        name="dvth-age",
        title=f"Largest threshold shift against age, {distributions.BAND} the GPUs",
        caption="Largest NBTI threshold shift of a cell of the register files that still work, and "
        f"of the logic of SMs. {words}",
        x_label="age (years)",
        y_label="largest threshold shift (mV)",
        kind="line",
        x_limits=(0.0, float(ages[-1])),
    )
    of_both = [panel("cells", "max_dvth_mv", 1.0), panel("logic", "logic_dvth_mv", 1.0)]
    yield from shifts.pages(of_both, sheet, looks)


def _lives(
    results: xr.Dataset, pairs: list[Pair], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure]:
    horizon = float(results["age"].values[-1])
    parts = (
        ("GPU, any cause", "life_years"),
        ("delay of cells", "cell_life_years"),
        ("delay of logic", "logic_life_years"),
        ("faults of cells", "fault_life_years"),
    )
    panels, everything = [], []
    for title, variable in parts:
        cases = []
        for pair in pairs:
            years = _of(results[variable], pair)
            died = years < horizon
            if variable == "life_years":
                died = _of(results["end_cause"], pair) != 0
            lives = CaseLives(pair.label, years, died, died.astype(np.int64), horizon)
            curve = life_figures.curve_of(lives)
            cases.append(Named(pair.label, pair.name, ANYWHERE, curve))
        panels.append(life_figures.panel_of(title, cases))
        everything += cases
    yield from life_figures.figure_of(everything, "GPUs").pages(
        panels, sheet, canvas.looks_of(pair.name for pair in pairs)
    )


def _causes(
    results: xr.Dataset, pairs: list[Pair], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    ages, attributes = results["age"].values, results["end_cause"].attrs
    names = [name.replace("_", " ") for name in str(attributes["flag_meanings"]).split()]
    flags = dict(zip(np.atleast_1d(attributes["flag_values"]).tolist(), names, strict=True))
    flags.pop(0)
    cases = []
    for pair in pairs:
        cause = _of(results["end_cause"], pair).astype(np.int64)
        years = _of(results["life_years"], pair)
        lives = CaseLives(pair.label, years, cause != 0, cause, float(ages[-1]))
        numbers = life_figures.causes_of(lives, flags, ages)
        cases.append(Named(pair.label, pair.name, ANYWHERE, numbers))
    panels = life_figures.panels_of("", cases)
    yield from life_figures.pages(panels, cases, sheet, "GPUs")


def _rows(
    results: xr.Dataset, pairs: list[Pair], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure]:
    """What the levels save at the horizon, and how long SMs and cells are under stress."""
    shifts = {pair: _of(results["max_dvth_mv"], pair)[-1] for pair in pairs}
    first = pairs[0]
    saved = tuple(
        distributions.estimate_row(
            pair.name, mean(1 - shifts[pair] / shifts[first]), 100.0, pair.label
        )
        for pair in pairs
        if pair is not first
    )
    if saved:
        panel = distributions.row_panel("", f"saved (% of the shift with {first.name})", saved)
        caption = (
            f"Largest threshold shift of a cell at the horizon: how much less it is than with "
            f"{first.name}, mean over pairs of the same GPU, with {canvas.PERCENT} intervals "
            "(Student). "
            "GPUs whose register files have failed for faults by then have no value."
        )
        title = f"What both levels save, {canvas.PERCENT} intervals"
        looks = canvas.looks_of(pair.name for pair in pairs)
        yield from distributions.RowFigure("saved", title, caption).pages([panel], sheet, looks)
    of_time = [
        distributions.row_panel(
            title,
            label,
            tuple(
                distributions.quantile_row(
                    pair.name, _of(results[variable], pair), 100.0, pair.label
                )
                for pair in pairs
            ),
        )
        for title, variable, label in (
            ("SMs", "mean_share", "an SM is on, mean over the SMs (% of the time)"),
            ("cells", "longest_duty", "longest duty cycle of a cell (% of the life)"),
        )
    ]
    caption = "Medians over GPUs, and as lines their 5 % and 95 % quantiles."
    yield from distributions.RowFigure(
        "stress", f"Time under stress, {distributions.BAND} the GPUs", caption
    ).pages(of_time, sheet)


def _of(variable: xr.DataArray, pair: Pair) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Values of a pair, the instances last; those of its policy, if all techniques share them."""
    places = {"policy": pair.policy, "technique": pair.technique}
    chosen = variable.isel({dim: place for dim, place in places.items() if dim in variable.dims})
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = chosen.transpose(
        ..., "instance"
    ).values
    return values
