"""The table of fits: Weibull and lognormal distributions, and whether the lives allow them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import xarray as xr
from rich import box
from rich.console import Console
from rich.table import Table

from mcage.report.cases import lives_of
from mcage.results.reader import open_results
from mcage.stats.estimates import CONFIDENCE
from mcage.stats.fits import Fit, fit_distributions
from mcage.stats.wording import DASH, with_bounds


@dataclass(frozen=True)
class FitSummary:
    """Fits of the lives of one case."""

    label: str
    instances: int
    horizon_years: float
    fits: list[Fit]


def summarize_fits(results: xr.Dataset) -> list[FitSummary]:
    """Fit the lives of each case, in the order of the file."""
    cases = (lives_of(results.isel(case=index)) for index in range(results.sizes["case"]))
    return [
        FitSummary(
            label=lives.label,
            instances=lives.years.size,
            horizon_years=lives.horizon_years,
            fits=fit_distributions(lives.years, lives.died, lives.horizon_years),
        )
        for lives in cases
    ]


def summarize_fits_of_file(path: Path) -> list[FitSummary]:
    """Fit the lives of each case of a results file, as `summarize_fits`.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage.
    """
    with open_results(path) as results:
        return summarize_fits(results)


def print_fits(summaries: Sequence[FitSummary], console: Console) -> None:
    """Print the table; a case without a fit says why there is none."""
    first = summaries[0]
    table = Table(
        title=f"{first.instances} instances per case, horizon {first.horizon_years:g} years",
        caption=f"Distributions of lives of slices that worked at all; {CONFIDENCE:.0%} intervals; "
        "A²: Anderson-Darling up to the horizon",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("case")
    table.add_column("dead on\narrival [%]", justify="right")
    table.add_column("distribution")
    table.add_column("parameters")
    table.add_column("A²", justify="right")
    table.add_column("p", justify="right")
    table.add_column("verdict")
    for summary in summaries:
        shown = summary.fits if summary.fits[0].parameters else summary.fits[:1]
        for place, fit in enumerate(shown):
            table.add_row(
                "" if place else summary.label,
                "" if place else with_bounds(fit.dead_on_arrival, 100.0),
                fit.distribution if fit.parameters else DASH,
                _parameters(fit),
                f"{fit.anderson_darling:.3g}" if fit.parameters else DASH,
                f"{fit.p_value:.3f}" if fit.parameters else DASH,
                fit.reason,
                end_section=place == len(shown) - 1,
            )
    console.print(table)


def _parameters(fit: Fit) -> str:
    written = (
        f"{name.removesuffix('_years')} {with_bounds(value)}"
        for name, value in fit.parameters.items()
    )
    return "\n".join(written) or DASH
