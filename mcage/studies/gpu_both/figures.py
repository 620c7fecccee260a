"""Figures of studies of both levels: gating of SMs and techniques of register files."""

from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr

from mcage.report.cases import cases_in, named_cases
from mcage.report.figures import canvas, distributions, lives
from mcage.report.figures.canvas import CasePart
from mcage.report.figures.curves import CurveFigure
from mcage.stats.estimates import mean
from mcage.stats.survival import CaseLives

QUANTILES = (
    "Medians over GPUs, and as bands their 5 % and 95 % quantiles (no confidence interval). A GPU "
    "has the same variation in every curve. Those of cells leave out the GPUs whose register files "
    "have failed for faults by that age."
)
BY_AGE = (
    (
        CurveFigure(
            "margin-age",
            f"Delay margin needed against age, {distributions.BAND} the GPUs",
            "Delay of the slowest cell of the register files, and of the logic of the slowest SM "
            f"that is not retired, over that of the slowest new one, less 1. {QUANTILES}",
            "age (years)",
            "delay margin needed (% of the new delay)",
            shape="line",
            worth="the last median",
        ),
        {"cells": "cell_margin", "logic": "logic_margin"},
        100.0,
    ),
    (
        CurveFigure(
            "dvth-age",
            f"Largest threshold shift against age, {distributions.BAND} the GPUs",
            "Largest NBTI threshold shift of a cell of the register files that still work, and of "
            f"the logic of SMs. {QUANTILES}",
            "age (years)",
            "largest threshold shift (mV)",
            shape="line",
            worth="the last median",
        ),
        {"cells": "max_dvth_mv", "logic": "logic_dvth_mv"},
        1.0,
    ),
)
"""Figures against age, the variables of their panels, and their scale."""

LIVES = {
    "GPU, any cause": "life_years",
    "delay of cells": "cell_life_years",
    "delay of logic": "logic_life_years",
    "faults of cells": "fault_life_years",
}
STRESS = {
    "an SM is on, mean over the SMs (% of the time)": "mean_share",
    "longest duty cycle of a cell (% of the life)": "longest_duty",
}


def draw(results: xr.Dataset) -> Iterator[canvas.Plot | canvas.AbsentFigure]:
    """The figures of a study, each with a curve or a row for each policy and technique."""
    names, cases = named_cases(results), [*cases_in(results)]
    ages, attributes = results["age"].values, results["end_cause"].attrs
    horizon = float(ages[-1])

    def of_each(
        plot: canvas.Plot, parts: Callable[[xr.Dataset], Iterator[CasePart]]
    ) -> canvas.Plot | canvas.AbsentFigure:
        return plot.of_cases((name, parts(case)) for name, case in zip(names, cases, strict=True))

    for plot, variables, scale in BY_AGE:

        def by_age(
            case: xr.Dataset, variables: dict[str, str] = variables, scale: float = scale
        ) -> Iterator[CasePart]:
            for panel, variable in variables.items():
                values = case[variable].transpose("instance", "age").values
                curve = distributions.quantile_curve(ages, values, scale)
                yield CasePart(curve, panel, worth=float(curve.y[-1]))

        yield of_each(plot, by_age)

    def alive(case: xr.Dataset) -> Iterator[CasePart]:
        for panel, variable in LIVES.items():
            years = case[variable].values
            died = case["end_cause"].values != 0 if variable == "life_years" else years < horizon
            yield lives.alive(CaseLives("", years, died, died.astype(np.int64), horizon), panel)

    yield of_each(lives.survival(horizon, "GPUs"), alive)

    words = [name.replace("_", " ") for name in str(attributes["flag_meanings"]).split()]
    flags = dict(zip(np.atleast_1d(attributes["flag_values"]).tolist(), words, strict=True))
    flags.pop(0)

    def dead(case: xr.Dataset) -> Iterator[CasePart]:
        cause = case["end_cause"].values.astype(np.int64)
        of_case = CaseLives("", case["life_years"].values, cause != 0, cause, horizon)
        return lives.dead(of_case, flags, ages)

    yield of_each(lives.causes(horizon, "GPUs"), dead)

    first = cases[0]["max_dvth_mv"].transpose("age", "instance").values[-1]

    def saved(case: xr.Dataset) -> Iterator[CasePart]:
        shifts = case["max_dvth_mv"].transpose("age", "instance").values[-1]
        if case is not cases[0]:
            row = distributions.estimate_row("", mean(1 - shifts / first), 100.0)
            yield distributions.of_row(row)

    if len(cases) > 1:
        yield of_each(
            distributions.RowFigure(
                "saved",
                f"What both levels save, {canvas.PERCENT} intervals",
                "Largest threshold shift of a cell at the horizon: how much less it is than with "
                f"{names[0].name}, mean over pairs of the same GPU, with {canvas.PERCENT} "
                "intervals (Student). GPUs whose register files have failed for faults by then "
                "have no value.",
                f"saved (% of the shift with {names[0].name})",
                worth="the mean",
                unit=" %",
            ),
            saved,
        )

    def stressed(case: xr.Dataset) -> Iterator[CasePart]:
        for panel, variable in STRESS.items():
            row = distributions.quantile_row("", case[variable].values, 100.0)
            yield distributions.of_row(row, panel)

    yield of_each(
        distributions.RowFigure(
            "stress",
            f"Time under stress, {distributions.BAND} the GPUs",
            "Medians over GPUs, and as lines their 5 % and 95 % quantiles.",
            worth="the median",
            unit=" %",
        ),
        stressed,
    )
