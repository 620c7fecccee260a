"""Tables of lives: causes of death, fits, failure rates, and what joint draws of constants add."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.report import tables
from mcage.report.cases import CAUSES, cases_in, lives_of
from mcage.stats.estimates import CONFIDENCE, DASH, Bools, Estimate, Floats, percent, with_bounds
from mcage.stats.fits import Fit, fit_distributions
from mcage.stats.nested import (
    FEWEST_DRAWS,
    Decomposition,
    mean_by_draw,
    quantile_by_draw,
    share_of_constants,
)
from mcage.stats.survival import CaseLives, FailureRate, cumulative_incidence, failure_rate


@dataclass(frozen=True)
class CauseSummary:
    """Causes of death of the slices of a case by each age.

    Parameters
    ----------
    label : str
        The case.
    instances : int
        Sample size.
    years : tuple of float
        Ages: 0 and the ends of the epochs.
    dead_by : dict of str to list of Estimate
        By cause: share of all slices that have died of it up to and including each age.
    alive : list of Estimate
        Share of the slices that are alive after each age.
    """

    label: str
    instances: int
    years: tuple[float, ...]
    dead_by: dict[str, list[Estimate]]
    alive: list[Estimate]


def summarize_causes(results: xr.Dataset) -> list[CauseSummary]:
    """Cumulative incidence of each cause in each case, in the order of the file."""
    years = np.concatenate([[0.0], results["epoch_end_years"].values])
    return [_causes_of(lives_of(case), years) for case in cases_in(results)]


def _causes_of(lives: CaseLives, years: Floats) -> CauseSummary:
    def dead(of_cause: Bools) -> list[Estimate]:
        curve = cumulative_incidence(lives.years, lives.died, of_cause, years)
        bands = zip(curve.share, curve.lower, curve.upper, strict=True)
        return [Estimate(*map(float, band)) for band in bands]

    return CauseSummary(
        label=lives.label,
        instances=lives.years.size,
        years=tuple(map(float, years)),
        dead_by={name: dead(lives.cause == cause) for cause, name in CAUSES.items()},
        alive=[Estimate(1 - e.value, 1 - e.upper, 1 - e.lower) for e in dead(lives.died)],
    )


def table_of(summaries: Sequence[CauseSummary], files: Sequence[Path] = ()) -> tables.ResultTable:
    """Table with a line for each case and age, of several files where their paths are given.

    Causes that end no life in all cases have no column.
    """
    lines = [(summary, place) for summary in summaries for place in range(len(summary.years))]
    causes = [
        name
        for name in CAUSES.values()
        if any(_if_any(summary.dead_by[name]) for summary in summaries)
    ]
    pairs = zip(files, summaries, strict=True) if files else ()
    return tables.ResultTable(
        title=f"{tables.span([summary.instances for summary in summaries])} instances per case",
        caption=f"Percent of all slices, up to and including that age; {CONFIDENCE:.0%} intervals; "
        f"{DASH}: ends no life of the case",
        columns=(
            *tables.file_column([file for file, summary in pairs for _ in summary.years]),
            tables.names("case", "case", [summary.label for summary, _ in lines], groups=True),
            tables.numbers(
                "age_years",
                "age\n[years]",
                [summary.years[place] for summary, place in lines],
                "{:g}".format,
                primary=True,
            ),
            *(
                tables.estimates(
                    f"dead_by_{name.replace(' ', '_')}",
                    f"dead by\n{name} [%]",
                    [
                        summary.dead_by[name][place] if _if_any(summary.dead_by[name]) else None
                        for summary, place in lines
                    ],
                    _in_percent,
                )
                for name in causes
            ),
            tables.estimates(
                "alive",
                "alive\n[%]",
                [summary.alive[place] for summary, place in lines],
                _in_percent,
                primary=True,
            ),
        ),
    )


def _in_percent(share: Estimate) -> str:
    return with_bounds(share, 100.0)


def _if_any(shares: list[Estimate]) -> list[Estimate]:
    return shares if shares[-1].value > 0 else []


# The table of a sweep with joint draws of constants: what the lot and what they make uncertain.


@dataclass(frozen=True)
class DrawsSummary:
    """A case over the draws of its constants.

    Parameters
    ----------
    label : str
        The case.
    instances, draws : int
        Number of slices, and of the rows that they have their constants from.
    horizon_years : float
        End of the simulated time.
    median_life_years : Decomposition
        Age at which half of the slices are dead; infinity where that lies beyond the horizon.
    rmst_years : Decomposition
        Mean of the years before the horizon (RMST).
    max_dvth_mv : Decomposition
        Mean of the largest threshold shift of a slice, over the slices that worked at all, mV.
    share_of_life : Estimate
        Share of the variance of the years before the horizon that the constants explain.
    """

    label: str
    instances: int
    draws: int
    horizon_years: float
    median_life_years: Decomposition
    rmst_years: Decomposition
    max_dvth_mv: Decomposition
    share_of_life: Estimate


def summarize_draws(results: xr.Dataset) -> list[DrawsSummary]:
    """Summarize all cases, in the order of the file.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it.

    Raises
    ------
    UserError
        The sweep has no joint draws of constants.
    """
    if "draw" not in results:
        raise UserError("the sweep has no joint draws of constants (mcage sweep --constants)")
    draw = results["draw"].values
    return [_draws_of(case, draw) for case in cases_in(results)]


def _draws_of(case: xr.Dataset, draw: np.ndarray) -> DrawsSummary:
    lives = lives_of(case)
    return DrawsSummary(
        label=lives.label,
        instances=lives.years.size,
        draws=np.unique(draw).size,
        horizon_years=lives.horizon_years,
        median_life_years=quantile_by_draw(lives.years, lives.died, draw),
        rmst_years=mean_by_draw(lives.years, draw, within=lives.within),
        max_dvth_mv=mean_by_draw(case["max_dvth_mv"].values.max(axis=1), draw),
        share_of_life=share_of_constants(lives.years, draw),
    )


def table_of_draws(
    summaries: Sequence[DrawsSummary], files: Sequence[Path] = ()
) -> tables.ResultTable:
    """Table of the cases, of several files where their paths are given."""
    first = summaries[0]
    horizons = [summary.horizon_years for summary in summaries]
    per_draw = first.instances / first.draws
    caption = (
        f"lot: {CONFIDENCE:.0%} intervals, what another seed may change; constants: band in which "
        f"{CONFIDENCE:.0%} of further draws lie, without the lot\nshare: of the variance of life "
        "to the horizon among slices, what the constants explain"
    )
    if first.draws < FEWEST_DRAWS:
        caption += f"\nfewer than {FEWEST_DRAWS} draws give no band"
    if per_draw < 2:
        caption += "\nlot and constants cannot be told apart without two slices of a draw"
    medians = [summary.median_life_years for summary in summaries]
    return tables.ResultTable(
        title=f"{first.draws} draws of constants, {per_draw:.3g} slices of each, horizon "
        f"{tables.span(horizons)} years",
        caption=caption,
        columns=(
            *tables.file_column(files),
            tables.names("case", "case", [summary.label for summary in summaries]),
            tables.ages(
                "median_life_years_lot",
                "median life\n[years]\nlot",
                [m.lot for m in medians],
                horizons,
            ),
            tables.Column(
                "median_life_years_constants",
                "median life\n[years]\nconstants",
                tuple(
                    tables.Cell(_band(of.band, horizon), *vars(of.band).values())
                    for of, horizon in zip(medians, horizons, strict=True)
                ),
            ),
            *_means(
                "rmst_years",
                "RMST\n[years]",
                [summary.rmst_years for summary in summaries],
                primary=True,
            ),
            *_means("max_dvth_mv", "largest dVth\n[mV]", [s.max_dvth_mv for s in summaries]),
            tables.estimates(
                "share_of_constants",
                "share of\nconstants",
                [summary.share_of_life for summary in summaries],
                _share,
                primary=True,
            ),
        ),
    )


def _means(
    key: str, heading: str, parts: Sequence[Decomposition], *, primary: bool = False
) -> tuple[tables.Column, tables.Column]:
    """Columns of a mean: of the lot, and of the constants."""
    lots, bands = ([getattr(of, name) for of in parts] for name in ("lot", "band"))
    return (
        tables.estimates(f"{key}_lot", f"{heading}\nlot", lots, with_bounds, primary=primary),
        tables.estimates(
            f"{key}_constants", f"{heading}\nconstants", bands, _band, primary=primary
        ),
    )


def _band(band: Estimate, horizon_years: float = np.inf) -> str:
    """Write the ends of a band, which may lie beyond the horizon."""
    if np.isnan(band.lower):
        return DASH
    ends = (band.lower, band.upper)
    low, high = (f"> {horizon_years:g}" if np.isinf(end) else f"{end:.2f}" for end in ends)
    return low if low == high else f"{low} to {high}"


def _share(share: Estimate) -> str:
    if np.isnan(share.value):
        return DASH
    if np.isnan(share.lower):
        return percent(share.value)
    return f"{share.value:.0%} [{share.lower:.0%}, {share.upper:.0%}]"


# The table of fits: Weibull and lognormal distributions, and whether the lives allow them.


@dataclass(frozen=True)
class FitSummary:
    """Fits of the lives of one case."""

    label: str
    instances: int
    horizon_years: float
    fits: list[Fit]


def summarize_fits(results: xr.Dataset) -> list[FitSummary]:
    """Fit the lives of each case, in the order of the file."""
    return [
        FitSummary(
            label=lives.label,
            instances=lives.years.size,
            horizon_years=lives.horizon_years,
            fits=fit_distributions(lives.years, lives.died, lives.horizon_years),
        )
        for lives in map(lives_of, cases_in(results))
    ]


def table_of_fits(
    summaries: Sequence[FitSummary], files: Sequence[Path] = ()
) -> tables.ResultTable:
    """Table with a line for each distribution, of several files where their paths are given.

    A case without a fit says why there is none.
    """
    shown = [
        summary.fits if summary.fits[0].parameters else summary.fits[:1] for summary in summaries
    ]
    lines = [(summary, fit) for summary, fits in zip(summaries, shown, strict=True) for fit in fits]
    fits = [fit for _, fit in lines]
    parameters = dict.fromkeys(name for fit in fits for name in fit.parameters)
    pairs = zip(files, shown, strict=True) if files else ()
    return tables.ResultTable(
        title=f"{tables.span([s.instances for s in summaries])} instances per case, horizon "
        f"{tables.span([s.horizon_years for s in summaries])} years",
        caption=f"Distributions of lives of slices that worked at all; {CONFIDENCE:.0%} intervals; "
        "A²: Anderson-Darling up to the horizon",
        columns=(
            *tables.file_column([file for file, of in pairs for _ in of]),
            tables.names("case", "case", [summary.label for summary, _ in lines], groups=True),
            tables.names(
                "distribution",
                "distribution",
                [f.distribution if f.parameters else DASH for f in fits],
            ),
            tables.estimates(
                "dead_on_arrival",
                "dead on\narrival [%]",
                [fit.dead_on_arrival for fit in fits],
                _in_percent,
            ),
            tables.remarks("parameters", [_parameters(fit) for fit in fits], primary=True),
            *(
                tables.estimates(name, "", [fit.parameters.get(name) for fit in fits], with_bounds)
                for name in parameters
            ),
            tables.numbers(
                "anderson_darling", "A²", [f.anderson_darling for f in fits], _short("{:.3g}")
            ),
            tables.numbers(
                "p_value", "p", [fit.p_value for fit in fits], _short("{:.3f}"), primary=True
            ),
            tables.names("verdict", "verdict", [fit.reason for fit in fits]),
        ),
    )


def _short(form: str) -> Callable[[float], str]:
    return lambda value: DASH if math.isnan(value) else form.format(value)


def _parameters(fit: Fit) -> str:
    written = (
        f"{name.removesuffix('_years')} {with_bounds(value)}"
        for name, value in fit.parameters.items()
    )
    return "\n".join(written) or DASH


# The table of failure rates: failures by an age in ppm, and their mean rate until then in FIT.


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
    return [
        RatesSummary(
            label=lives.label,
            instances=lives.years.size,
            horizon_years=lives.horizon_years,
            rates=[failure_rate(lives, age) for age in ages_years],
        )
        for lives in map(lives_of, cases_in(results))
    ]


def table_of_rates(
    summaries: Sequence[RatesSummary], files: Sequence[Path] = ()
) -> tables.ResultTable:
    """Table with a line for each case and age, of several files if given."""
    lines = [(summary, rate) for summary in summaries for rate in summary.rates]
    pairs = zip(files, summaries, strict=True) if files else ()
    rates = [rate for _, rate in lines]
    return tables.ResultTable(
        title=f"{tables.span([summary.instances for summary in summaries])} instances per case",
        caption=f"{CONFIDENCE:.0%} intervals; of a single slice, not of a GPU. Failed: dead by "
        "that age, or on arrival. Mean rate: of slices that worked at all, the constant failure "
        "rate that would leave as many of them alive at that age, -ln(1 - F) / age; FIT: failures "
        "in 1e9 hours of a slice",
        columns=(
            *tables.file_column([file for file, summary in pairs for _ in summary.rates]),
            tables.names("case", "case", [summary.label for summary, _ in lines], groups=True),
            tables.numbers(
                "age_years",
                "age\n[years]",
                [rate.age_years for rate in rates],
                "{:g}".format,
                primary=True,
            ),
            tables.estimates(
                "failed_ppm",
                "failed by then\n[ppm]",
                [r.failed_ppm for r in rates],
                _whole,
                primary=True,
            ),
            tables.estimates(
                "dead_on_arrival_ppm",
                "dead on arrival\n[ppm]",
                [rate.dead_on_arrival_ppm for rate in rates],
                _whole,
            ),
            tables.estimates(
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
