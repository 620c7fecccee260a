"""Figures of studies of whole GPUs: SM gating, heterogeneous structures, both levels."""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import xarray as xr

from mcage.plain_text import visible
from mcage.report.cases import Named, Setting, names_in
from mcage.report.figures import lives as life_figures
from mcage.report.figures.curves import Curve, CurveFigure, CurvePanel
from mcage.report.figures.distributions import (
    BAND,
    RowFigure,
    RowPanel,
    estimate_row,
    quantile_curve,
    quantile_row,
    share_curve,
    share_row,
)
from mcage.report.figures.sheet import (
    PERCENT,
    AbsentFigure,
    ReportFigure,
    Sheet,
    extremes,
    looks_of,
)
from mcage.stats.estimates import mean
from mcage.stats.survival import CaseLives

# Figures of studies of SM gating: margins, lives, shifts, retired SMs and what they cost.

BY_AGE = (
    (
        "margin-age",
        "margin_needed",
        "Delay margin needed against age",
        "delay margin needed (% of the new delay)",
        100.0,
        "Delay of the slowest SM that is not retired over that of the slowest new SM, less 1.",
    ),
    (
        "dvth-age",
        "max_dvth_mv",
        "Largest threshold shift of an SM against age",
        "largest threshold shift of an SM (mV)",
        1.0,
        "Largest NBTI threshold shift among the SMs of a GPU.",
    ),
    (
        "retired-age",
        "retired_sms",
        "Retired SMs against age",
        "SMs that have been given up",
        1.0,
        "SMs that have become too slow and are gated for good.",
    ),
)
"""Name, variable, title, label, scale and meaning of what a GPU has at each age."""

ROWS = (
    ("slowdown", "slowdown", "extra execution time (% of that on all SMs)", 100.0),
    ("sm_power_w", "power of all SMs", "power of all SMs together (W)", 1.0),
    ("hottest_kelvin", "hottest SM", "highest temperature of an SM (K)", 1.0),
)
"""Variable, title, label and scale of what a GPU has over the horizon."""


def draw(results: xr.Dataset, sheet: Sheet) -> Iterator[ReportFigure | AbsentFigure]:
    """Draw the figures of a study, each with a curve or a row for each policy.

    Parameters
    ----------
    results : xarray.Dataset
        Results of the study.
    sheet : Sheet
        What figures are drawn on.
    """
    labels, names = map(visible, map(str, results["policy"].values.tolist())), names_in(results)
    policies = {names.get(label, label): label for label in labels}
    ages = results["age"].values
    for name, variable, title, label, scale, meaning in BY_AGE:
        curves = []
        for place, (policy, case) in enumerate(policies.items()):
            values = results[variable].isel(policy=place).transpose("instance", "age").values
            curves.append(quantile_curve(policy, ages, values.astype(np.float64), scale, case))
        if not any(np.nanmax(curve.upper) > 0 for curve in curves if curve.upper is not None):
            yield AbsentFigure(name, title, "It is 0 in at least 95 % of the GPUs at every age.")
            continue
        at_last = {curve.name: float(curve.y[-1]) for curve in curves}
        figure = CurveFigure(
            name=name,
            title=f"{title}, {BAND} the GPUs",
            caption=f"{meaning} Median over GPUs, and as a band their 5 % and 95 % quantiles (no "
            "confidence interval). A GPU has the same variation under every policy.",
            x_label="age (years)",
            y_label=label,
            kind="line",
            x_limits=(0.0, float(ages[-1])),
        )
        yield from figure.pages(
            [CurvePanel("", tuple(curves), alt=extremes(title, "the last median", at_last))], sheet
        )
    yield from _lives(results, policies, sheet)
    panels = [
        RowPanel(
            title,
            label,
            tuple(
                quantile_row(policy, results[variable].isel(policy=place).values, scale, case)
                for place, (policy, case) in enumerate(policies.items())
            ),
        )
        for variable, title, label, scale in ROWS
    ]
    caption = "Medians over GPUs, and as lines their 5 % and 95 % quantiles, over the horizon."
    yield from RowFigure("costs", f"What policies cost, {BAND} the GPUs", caption).pages(
        panels, sheet
    )


def _lives(
    results: xr.Dataset, policies: Mapping[str, str], sheet: Sheet
) -> Iterator[ReportFigure]:
    cases = []
    for place, (policy, case) in enumerate(policies.items()):
        of_policy = results.isel(policy=place)
        cause = of_policy["end_cause"].values
        horizon = float(results["age"].values[-1])
        lives = CaseLives(case, of_policy["life_years"].values, cause != 0, cause, horizon)
        cases.append(Named(case, policy, Setting("", "", ""), life_figures.curve_of(lives)))
    panel = life_figures.panel_of("", cases)
    yield from life_figures.figure_of(cases, "GPUs").pages([panel], sheet)


# Figures of studies of heterogeneous structures: efficiency, delays, and where the order holds.

Y_LABEL = "draws with at most this value (%)"

PARTS = (
    ("scheduler, FinFET stage", "second_stage_delay"),
    ("scheduler, planar stage", "first_stage_delay"),
    ("L2, FinFET data array", "data_array_delay"),
    ("L2, planar tags", "tags_delay"),
)
"""Parts of the proposal and the variables of their delay increases."""


def draw_heterogeneity(results: xr.Dataset, sheet: Sheet) -> Iterator[ReportFigure]:
    """Draw the figures of a study: curves and rows for each design, panels for each reading.

    Parameters
    ----------
    results : xarray.Dataset
        Results of the study.
    sheet : Sheet
        What figures are drawn on.
    """
    readings = [visible(str(name)) for name in results["reading"].values.tolist()]
    designs = [visible(str(name)) for name in results["design"].values.tolist()]
    yield from _efficiency(results, readings, designs, sheet)
    yield from _delays(results, readings, designs, sheet)
    yield from _order(results, readings, sheet)


def _efficiency(
    results: xr.Dataset, readings: list[str], designs: list[str], sheet: Sheet
) -> Iterator[ReportFigure]:
    panels = []
    for place, reading in enumerate(readings):
        curves, better = [], {}
        for row, design in enumerate(designs):
            values = results["efficiency"].isel(reading=place, design=row).values
            if np.all(values == 1.0):
                continue  # the baseline, of which the others are ratios
            curves.append(share_curve(design, values, case=f"{reading} {design}"))
            better[design] = 100 * float(np.mean(values < 1.0))
        words = ", ".join(f"{design} in {share:.3g} %" for design, share in better.items())
        title = f"reading {reading}"
        panels.append(CurvePanel(title, tuple(curves), alt=f"{title}: better: {words} of draws."))
    highest = max(float(curve.x[-1]) for panel in panels for curve in panel.curves)
    lowest = min(float(curve.x[0]) for panel in panels for curve in panel.curves)
    figure = CurveFigure(
        name="efficiency",
        title=f"NBTI efficiency of designs, {PERCENT} bands",
        caption="Share of the draws in which the NBTI efficiency of a design, (D (1 + delay "
        "increase))^3 P over the baseline's, is not larger than the value of the axis, with "
        f"pointwise {PERCENT} bands after Wilson. Less than 1 is better than the baseline, which "
        "is 1 in every draw and has no curve.",
        x_label="efficiency over the baseline's (less is better)",
        y_label=Y_LABEL,
        kind="distribution",
        x_limits=(min(lowest, 1.0), max(highest, 1.0)),
        y_limits=(0.0, 103.0),
        x_mark=1.0,
    )
    yield from figure.pages(panels, sheet)


def _delays(
    results: xr.Dataset, readings: list[str], designs: list[str], sheet: Sheet
) -> Iterator[ReportFigure]:
    delays, breaks = [], []
    for place, reading in enumerate(readings):
        of_reading = results.isel(reading=place)
        curves = partial(_of_designs, of_reading, reading, designs)
        parts = tuple(share_curve(part, of_reading[name].values, 100.0) for part, name in PARTS)
        delays += [
            _panel(f"scheduler, reading {reading}", curves("scheduler_delay", 100.0)),
            _panel(f"L2, reading {reading}", curves("l2_delay", 100.0)),
            _panel(f"parts of the proposal, reading {reading}", parts),
        ]
        breaks.append(_panel(f"reading {reading}", curves("break_even", 1.0)))
    words = f"is not larger than the value of the axis, with {PERCENT} bands after Wilson."
    yield from CurveFigure(
        name="delays",
        title=f"Delay increases of designs, {PERCENT} bands",
        caption=f"Share of the draws in which the delay increase by NBTI over the service life "
        f"{words}",
        x_label="delay increase (% of the new delay)",
        y_label=Y_LABEL,
        kind="distribution",
        y_limits=(0.0, 103.0),
    ).pages(delays, sheet)
    yield from CurveFigure(
        name="break-even",
        title=f"D^3 P at which a design is as efficient as the baseline, {PERCENT} bands",
        caption="Share of the draws in which the D^3 P, below which a design is better than the "
        f"baseline, {words} It needs no power.",
        x_label="D^3 P at break-even (over the baseline's)",
        y_label=Y_LABEL,
        kind="distribution",
        y_limits=(0.0, 103.0),
    ).pages(breaks, sheet)


def _of_designs(
    of_reading: xr.Dataset, reading: str, designs: list[str], variable: str, scale: float
) -> tuple[Curve, ...]:
    """Curve of a variable for each design."""
    return tuple(
        share_curve(
            design, of_reading[variable].isel(design=row).values, scale, f"{reading} {design}"
        )
        for row, design in enumerate(designs)
    )


def _panel(title: str, curves: tuple[Curve, ...]) -> CurvePanel:
    medians = {curve.name: float(curve.x[np.searchsorted(curve.y, 50.0)]) for curve in curves}
    return CurvePanel(title, curves, alt=extremes(title, "the median", medians))


def _order(results: xr.Dataset, readings: list[str], sheet: Sheet) -> Iterator[ReportFigure]:
    common = results["common_field"].values != 0
    fills = results["fills"].values != 0
    kinds = {
        f"{fields}, fills {filled}": (common == (fields == "common"))
        & (fills == (filled == "counted"))
        for fields in ("swapped", "common")
        for filled in ("ignored", "counted")
    }
    kinds = {name: which for name, which in kinds.items() if which.any()}
    if len(kinds) > 1:
        kinds["all draws"] = np.ones(common.size, dtype=np.bool_)
    panels = [
        RowPanel(
            f"reading {reading}",
            "draws in which the order holds (%)",
            tuple(
                share_row(name, results["order_holds"].isel(reading=place).values[which] != 0)
                for name, which in kinds.items()
            ),
        )
        for place, reading in enumerate(readings)
    ]
    caption = (
        "Share of the draws, by their kind (field constants swapped or common, fills of "
        "the L2 counted or ignored), in which the efficiencies are in the printed order: "
        f"proposal < baseline < duplication; {PERCENT} intervals after Wilson."
    )
    title = f"Where the printed order holds, {PERCENT} intervals"
    yield from RowFigure("order", title, caption).pages(panels, sheet)


# Figures of studies of both levels: gating of SMs and techniques of register files.

ANYWHERE = Setting("", "", "")


class Pair(NamedTuple):
    """A policy and a technique: their names, and their places in the file."""

    name: str
    label: str
    policy: int
    technique: int


def draw_both(results: xr.Dataset, sheet: Sheet) -> Iterator[ReportFigure | AbsentFigure]:
    """Draw the figures of a study, each with a curve or a row for each policy and technique.

    Parameters
    ----------
    results : xarray.Dataset
        Results of the study.
    sheet : Sheet
        What figures are drawn on.
    """
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
    yield from _lives_both(results, pairs, sheet)
    yield from _causes(results, pairs, sheet)
    yield from _rows(results, pairs, sheet)


def _by_age(results: xr.Dataset, pairs: list[Pair], sheet: Sheet) -> Iterator[ReportFigure]:
    ages = results["age"].values
    looks = looks_of(pair.name for pair in pairs)

    def panel(title: str, variable: str, scale: float) -> CurvePanel:
        curves = tuple(
            quantile_curve(pair.name, ages, _of(results[variable], pair).T, scale, pair.label)
            for pair in pairs
        )
        at_last = {curve.name: float(curve.y[-1]) for curve in curves}
        alt = extremes(title, "the last median", at_last)
        return CurvePanel(title, curves, alt=alt)

    words = (
        "Medians over GPUs, and as bands their 5 % and 95 % quantiles (no confidence interval). A "
        "GPU has the same variation in every curve. Those of cells leave out the GPUs whose "
        "register files have failed for faults by that age."
    )
    margins = CurveFigure(
        name="margin-age",
        title=f"Delay margin needed against age, {BAND} the GPUs",
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
        title=f"Largest threshold shift against age, {BAND} the GPUs",
        caption="Largest NBTI threshold shift of a cell of the register files that still work, and "
        f"of the logic of SMs. {words}",
        x_label="age (years)",
        y_label="largest threshold shift (mV)",
        kind="line",
        x_limits=(0.0, float(ages[-1])),
    )
    of_both = [panel("cells", "max_dvth_mv", 1.0), panel("logic", "logic_dvth_mv", 1.0)]
    yield from shifts.pages(of_both, sheet, looks)


def _lives_both(results: xr.Dataset, pairs: list[Pair], sheet: Sheet) -> Iterator[ReportFigure]:
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
        panels, sheet, looks_of(pair.name for pair in pairs)
    )


def _causes(
    results: xr.Dataset, pairs: list[Pair], sheet: Sheet
) -> Iterator[ReportFigure | AbsentFigure]:
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


def _rows(results: xr.Dataset, pairs: list[Pair], sheet: Sheet) -> Iterator[ReportFigure]:
    """What the levels save at the horizon, and how long SMs and cells are under stress."""
    shifts = {pair: _of(results["max_dvth_mv"], pair)[-1] for pair in pairs}
    first = pairs[0]
    saved = tuple(
        estimate_row(pair.name, mean(1 - shifts[pair] / shifts[first]), 100.0, pair.label)
        for pair in pairs
        if pair is not first
    )
    if saved:
        panel = RowPanel("", f"saved (% of the shift with {first.name})", saved)
        caption = (
            f"Largest threshold shift of a cell at the horizon: how much less it is than with "
            f"{first.name}, mean over pairs of the same GPU, with {PERCENT} intervals (Student). "
            "GPUs whose register files have failed for faults by then have no value."
        )
        title = f"What both levels save, {PERCENT} intervals"
        looks = looks_of(pair.name for pair in pairs)
        yield from RowFigure("saved", title, caption).pages([panel], sheet, looks)
    of_time = [
        RowPanel(
            title,
            label,
            tuple(
                quantile_row(pair.name, _of(results[variable], pair), 100.0, pair.label)
                for pair in pairs
            ),
        )
        for title, variable, label in (
            ("SMs", "mean_share", "an SM is on, mean over the SMs (% of the time)"),
            ("cells", "longest_duty", "longest duty cycle of a cell (% of the life)"),
        )
    ]
    caption = "Medians over GPUs, and as lines their 5 % and 95 % quantiles."
    yield from RowFigure("stress", f"Time under stress, {BAND} the GPUs", caption).pages(
        of_time, sheet
    )


def _of(variable: xr.DataArray, pair: Pair) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Values of a pair, the instances last; those of its policy, if all techniques share them."""
    places = {"policy": pair.policy, "technique": pair.technique}
    chosen = variable.isel({dim: place for dim, place in places.items() if dim in variable.dims})
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = chosen.transpose(
        ..., "instance"
    ).values
    return values
