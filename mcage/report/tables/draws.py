"""The table of a sweep with joint draws of constants: what the lot and what they make uncertain."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from rich import box
from rich.console import Console
from rich.table import Table

from mcage.errors import UserError
from mcage.report.cases import lives_of
from mcage.results.reader import open_results
from mcage.stats.estimates import CONFIDENCE, Estimate
from mcage.stats.nested import (
    FEWEST_DRAWS,
    Decomposition,
    mean_by_draw,
    quantile_by_draw,
    share_of_constants,
)
from mcage.stats.wording import DASH, life, percent, with_bounds


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


def summarize_draws_of_file(path: Path) -> list[DrawsSummary]:
    """Summarize the cases of a results file.

    Raises
    ------
    UserError
        As `summarize_draws`; or the file cannot be read.
    """
    with open_results(path) as results:
        try:
            return summarize_draws(results)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error


def print_draws(summaries: Sequence[DrawsSummary], console: Console) -> None:
    """Print the table."""
    first = summaries[0]
    each = first.instances / first.draws
    caption = (
        f"lot: {CONFIDENCE:.0%} intervals, what another seed may change; constants: band in which "
        f"{CONFIDENCE:.0%} of further draws lie, without the lot\nshare: of the variance of life "
        "to the horizon among slices, what the constants explain"
    )
    if first.draws < FEWEST_DRAWS:
        caption += f"\nfewer than {FEWEST_DRAWS} draws give no band"
    if each < 2:
        caption += "\nlot and constants cannot be told apart without two slices of a draw"
    table = Table(
        title=f"{first.draws} draws of constants, {each:.3g} slices of each\n"
        f"horizon {first.horizon_years:g} years",
        caption=caption,
        box=box.SIMPLE_HEAD,
    )
    table.add_column("case")
    for quantity in ("median life\n[years]", "life to horizon\n[years]", "largest dVth\n[mV]"):
        for part in ("lot", "constants"):
            table.add_column(f"{quantity}\n{part}", justify="right")
    table.add_column("share of\nconstants", justify="right")
    for case in summaries:
        horizon, means = case.horizon_years, (case.life_to_horizon_years, case.max_dvth_mv)
        table.add_row(
            case.label,
            life(case.median_life_years.lot, horizon),
            _band(case.median_life_years.band, horizon),
            *(text for mean in means for text in (with_bounds(mean.lot), _band(mean.band))),
            _share(case.share_of_life),
        )
    console.print(table)


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
