"""The table of a sweep with joint draws of constants: what the lot and what they make uncertain."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.report.cases import lives_of
from mcage.report.selection import Condition, summarized
from mcage.report.tables.table import (
    Cell,
    Column,
    ResultTable,
    ages,
    estimates,
    file_column,
    names,
    span,
)
from mcage.stats.estimates import CONFIDENCE, Estimate
from mcage.stats.nested import (
    FEWEST_DRAWS,
    Decomposition,
    mean_by_draw,
    quantile_by_draw,
    share_of_constants,
)
from mcage.stats.wording import DASH, percent, with_bounds


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
    life_to_horizon_years : Decomposition
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
    life_to_horizon_years: Decomposition
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
    return [
        _summarize_case(results.isel(case=place), draw) for place in range(results.sizes["case"])
    ]


def _summarize_case(case: xr.Dataset, draw: np.ndarray) -> DrawsSummary:
    lives = lives_of(case)
    return DrawsSummary(
        label=lives.label,
        instances=lives.years.size,
        draws=np.unique(draw).size,
        horizon_years=lives.horizon_years,
        median_life_years=quantile_by_draw(lives.years, lives.died, draw),
        life_to_horizon_years=mean_by_draw(lives.years, draw),
        max_dvth_mv=mean_by_draw(case["max_dvth_mv"].values.max(axis=1), draw),
        share_of_life=share_of_constants(lives.years, draw),
    )


def summarize_draws_of_file(path: Path, where: Sequence[Condition] = ()) -> list[DrawsSummary]:
    """Summarize the cases of a results file that fulfil all conditions.

    Raises
    ------
    UserError
        As `summarize_draws` and `mcage.report.selection.summarized`.
    """
    return summarized(path, summarize_draws, where)


def table_of(summaries: Sequence[DrawsSummary], files: Sequence[Path] = ()) -> ResultTable:
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
    return ResultTable(
        title=f"{first.draws} draws of constants, {per_draw:.3g} slices of each, horizon "
        f"{span(horizons)} years",
        caption=caption,
        columns=(
            *file_column(files),
            names("case", "case", [summary.label for summary in summaries]),
            ages(
                "median_life_years_lot",
                "median life\n[years]\nlot",
                [m.lot for m in medians],
                horizons,
            ),
            Column(
                "median_life_years_constants",
                "median life\n[years]\nconstants",
                tuple(
                    Cell(_band(of.band, horizon), *vars(of.band).values())
                    for of, horizon in zip(medians, horizons, strict=True)
                ),
            ),
            *_means(
                "life_to_horizon_years",
                "RMST\n[years]",
                [summary.life_to_horizon_years for summary in summaries],
                primary=True,
            ),
            *_means("max_dvth_mv", "largest dVth\n[mV]", [s.max_dvth_mv for s in summaries]),
            estimates(
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
) -> tuple[Column, Column]:
    """Columns of a mean: of the lot, and of the constants."""
    lots, bands = ([getattr(of, name) for of in parts] for name in ("lot", "band"))
    return (
        estimates(f"{key}_lot", f"{heading}\nlot", lots, with_bounds, primary=primary),
        estimates(f"{key}_constants", f"{heading}\nconstants", bands, _band, primary=primary),
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
