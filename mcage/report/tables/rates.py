"""The table of failure rates: failures by an age in ppm, and their mean rate until then in FIT."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import xarray as xr

from mcage.errors import UserError
from mcage.report.cases import lives_of
from mcage.report.selection import Condition, summarized
from mcage.report.tables.table import ResultTable, estimates, file_column, names, numbers, span
from mcage.stats.estimates import CONFIDENCE, Estimate
from mcage.stats.rates import FailureRate, failure_rate
from mcage.stats.wording import DASH


@dataclass(frozen=True)
class RatesSummary:
    """Failures of the slices of a case.

    Parameters
    ----------
    label : str
        The case.
    instances : int
        Number of slices.
    horizon_years : float
        End of the simulated time.
    rates : list of FailureRate
        For each age that was asked for.
    """

    label: str
    instances: int
    horizon_years: float
    rates: list[FailureRate]


def summarize_rates(results: xr.Dataset, ages_years: Sequence[float]) -> list[RatesSummary]:
    """Failures by some ages in each case, in the order of the file.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it.
    ages_years : sequence of float
        Ages above 0, within the horizon.

    Raises
    ------
    UserError
        An age lies outside.
    """
    horizon = float(results["epoch_end_years"][-1])
    for age in ages_years:
        if not 0.0 < age <= horizon:
            raise UserError(
                f"--rate-at {age:g}: the age must lie above 0 and within the horizon of "
                f"{horizon:g} years"
            )
    lives = [lives_of(results.isel(case=place)) for place in range(results.sizes["case"])]
    return [
        RatesSummary(
            label=case.label,
            instances=case.years.size,
            horizon_years=case.horizon_years,
            rates=[failure_rate(case, age) for age in ages_years],
        )
        for case in lives
    ]


def summarize_rates_of_file(
    path: Path, ages_years: Sequence[float], where: Sequence[Condition] = ()
) -> list[RatesSummary]:
    """Failures in a results file, as `summarize_rates`, of the cases that fulfil all conditions.

    Raises
    ------
    UserError
        As `summarize_rates` and `mcage.report.selection.summarized`.
    """
    return summarized(path, partial(summarize_rates, ages_years=ages_years), where)


def table_of(summaries: Sequence[RatesSummary], files: Sequence[Path] = ()) -> ResultTable:
    """Table with a line for each case and age, of several files if given."""
    lines = [(summary, rate) for summary in summaries for rate in summary.rates]
    pairs = zip(files, summaries, strict=True) if files else ()
    rates = [rate for _, rate in lines]
    return ResultTable(
        title=f"{span([summary.instances for summary in summaries])} instances per case",
        caption=f"{CONFIDENCE:.0%} intervals; of a single slice, not of a GPU. Failed: dead by "
        "that age, or on arrival. Mean rate: of slices that worked at all, the constant failure "
        "rate that would leave as many of them alive at that age, -ln(1 - F) / age; FIT: failures "
        "in 1e9 hours of a slice",
        columns=(
            *file_column([file for file, summary in pairs for _ in summary.rates]),
            names("case", "case", [summary.label for summary, _ in lines], groups=True),
            numbers(
                "age_years",
                "age\n[years]",
                [rate.age_years for rate in rates],
                "{:g}".format,
                primary=True,
            ),
            estimates(
                "failed_ppm",
                "failed by then\n[ppm]",
                [r.failed_ppm for r in rates],
                _whole,
                primary=True,
            ),
            estimates(
                "dead_on_arrival_ppm",
                "dead on arrival\n[ppm]",
                [rate.dead_on_arrival_ppm for rate in rates],
                _whole,
            ),
            estimates(
                "mean_rate_fit",
                "mean rate\n[FIT]",
                [rate.mean_rate_fit for rate in rates],
                _whole,
                primary=True,
            ),
        ),
    )


def _whole(estimate: Estimate) -> str:
    """Write an estimate of large numbers, whose bounds may be unknown."""
    if math.isnan(estimate.value):
        return DASH if math.isnan(estimate.lower) else f"> {_number(estimate.lower)}"
    return f"{_number(estimate.value)} [{_number(estimate.lower)}, {_number(estimate.upper)}]"


def _number(number: float) -> str:
    if math.isnan(number):
        return DASH
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
