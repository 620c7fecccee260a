"""Figures of studies of SM gating."""

from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr

from mcage.plain_text import visible
from mcage.report.cases import Named, Setting, names_in
from mcage.report.figures import canvas, distributions
from mcage.report.figures import lives as life_figures
from mcage.report.figures.curves import CurveFigure
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


def draw(
    results: xr.Dataset, sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Draw the figures of a study, each with a curve or a row for each policy."""
    labels, names = map(visible, map(str, results["policy"].values.tolist())), names_in(results)
    policies = {names.get(label, label): label for label in labels}
    ages = results["age"].values
    for name, variable, title, label, scale, meaning in BY_AGE:
        curves = []
        for place, (policy, case) in enumerate(policies.items()):
            values = results[variable].isel(policy=place).transpose("instance", "age").values
            curves.append(
                distributions.quantile_curve(policy, ages, values.astype(np.float64), scale, case)
            )
        highest = np.concatenate([curve.upper for curve in curves if curve.upper is not None])
        if not (highest > 0).any():
            known = "It is 0 in at least 95 % of the GPUs at every age."
            reason = known if (highest == 0).any() else "No GPU has a value."
            yield canvas.AbsentFigure(name, title, reason)
            continue
        at_last = {curve.label: float(curve.y[-1]) for curve in curves}
        figure = CurveFigure(
            name=name,
            title=f"{title}, {distributions.BAND} the GPUs",
            caption=f"{meaning} Median over GPUs, and as a band their 5 % and 95 % quantiles (no "
            "confidence interval). A GPU has the same variation under every policy.",
            x_label="age (years)",
            y_label=label,
            kind="line",
            x_limits=(0.0, float(ages[-1])),
        )
        yield from figure.pages(
            [
                canvas.Panel(
                    "", tuple(curves), alt=canvas.extremes(title, "the last median", at_last)
                )
            ],
            sheet,
        )
    yield from _lives(results, policies, sheet)
    panels = [
        distributions.row_panel(
            title,
            label,
            tuple(
                distributions.quantile_row(
                    policy, results[variable].isel(policy=place).values, scale, case
                )
                for place, (policy, case) in enumerate(policies.items())
            ),
        )
        for variable, title, label, scale in ROWS
    ]
    caption = "Medians over GPUs, and as lines their 5 % and 95 % quantiles, over the horizon."
    yield from distributions.RowFigure(
        "costs", f"What policies cost, {distributions.BAND} the GPUs", caption
    ).pages(panels, sheet)


def _lives(
    results: xr.Dataset, policies: Mapping[str, str], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure]:
    cases = []
    for place, (policy, case) in enumerate(policies.items()):
        of_policy = results.isel(policy=place)
        cause = of_policy["end_cause"].values
        horizon = float(results["age"].values[-1])
        lives = CaseLives(case, of_policy["life_years"].values, cause != 0, cause, horizon)
        cases.append(Named(case, policy, Setting("", "", ""), life_figures.curve_of(lives)))
    panel = life_figures.panel_of("", cases)
    yield from life_figures.figure_of(cases, "GPUs").pages([panel], sheet)
