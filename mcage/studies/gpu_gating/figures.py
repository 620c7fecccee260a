"""Figures of studies of SM gating: margins, lives, shifts, retired SMs and what policies cost."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from mcage.report.cases import cases_in, named_cases
from mcage.report.figures import canvas, distributions, lives
from mcage.report.figures.curves import CurveFigure
from mcage.stats.estimates import Floats
from mcage.stats.survival import CaseLives

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
    ("slowdown", "slowdown: extra execution time (% of that on all SMs)", 100.0),
    ("sm_power_w", "power of all SMs together (W)", 1.0),
    ("hottest_kelvin", "highest temperature of an SM (K)", 1.0),
)
"""Variable, label and scale of what a GPU has over the horizon."""


def draw(results: xr.Dataset) -> Iterator[canvas.Plot | canvas.AbsentFigure]:
    """The figures of a study, each with a curve or a row for each policy."""
    names, cases = named_cases(results), [*cases_in(results)]
    ages = results["age"].values
    horizon = float(ages[-1])
    for name, variable, title, label, scale, meaning in BY_AGE:
        values = (case[variable].transpose("instance", "age").values for case in cases)
        parts = [[_of_age(ages, of.astype(np.float64), scale)] for of in values]
        yield CurveFigure(
            name,
            f"{title}, {distributions.BAND} the GPUs",
            f"{meaning} Median over GPUs, and as a band their 5 % and 95 % quantiles (no "
            "confidence interval). A GPU has the same variation under every policy.",
            "age (years)",
            label,
            shape="line",
            x_limits=(0.0, horizon),
            worth="the last median",
        ).of_cases(zip(names, parts, strict=True))
    yield lives.survival(horizon, "GPUs").of_cases(
        (name, [lives.alive(_lives(case, horizon))])
        for name, case in zip(names, cases, strict=True)
    )
    yield distributions.RowFigure(
        "costs",
        f"What policies cost, {distributions.BAND} the GPUs",
        "Medians over GPUs, and as lines their 5 % and 95 % quantiles, over the horizon.",
        worth="the median",
    ).of_cases(
        (
            name,
            [
                distributions.of_row(
                    distributions.quantile_row("", case[variable].values, scale), label
                )
                for variable, label, scale in ROWS
            ],
        )
        for name, case in zip(names, cases, strict=True)
    )


def _of_age(
    ages: Floats,
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    scale: float,
) -> canvas.CasePart:
    """Quantiles by age; no curve where hardly a GPU has anything but 0."""
    curve = distributions.quantile_curve(ages, values, scale)
    if curve.upper is not None and not (curve.upper > 0).any():
        known = "0 in at least 95 % of the GPUs at every age"
        return canvas.CasePart(
            None, why=known if (curve.upper == 0).any() else "no GPU has a value"
        )
    return canvas.CasePart(curve, worth=float(curve.y[-1]))


def _lives(case: xr.Dataset, horizon: float) -> CaseLives:
    cause = case["end_cause"].values
    return CaseLives("", case["life_years"].values, cause != 0, cause, horizon)
