"""The table of causes: the share of slices that each cause of death has ended, age by age."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from rich import box
from rich.console import Console
from rich.table import Table

from mcage.report.cases import CAUSES, lives_of
from mcage.results.reader import open_results
from mcage.stats.competing_risks import cumulative_incidence
from mcage.stats.estimates import CONFIDENCE, Bools, Estimate, Floats
from mcage.stats.survival import CaseLives
from mcage.stats.wording import DASH, with_bounds


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
    return [
        _summarize_case(lives_of(results.isel(case=index)), years)
        for index in range(results.sizes["case"])
    ]


def summarize_causes_of_file(path: Path) -> list[CauseSummary]:
    """Summarize the causes of death in a results file, as `summarize_causes`.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage.
    """
    with open_results(path) as results:
        return summarize_causes(results)


def _summarize_case(lives: CaseLives, years: Floats) -> CauseSummary:
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


def print_causes(summaries: Sequence[CauseSummary], console: Console) -> None:
    """Print the table; causes that end no life in the whole file have no column."""
    causes = [
        name
        for name in CAUSES.values()
        if any(_if_any(summary.dead_by[name]) for summary in summaries)
    ]
    table = Table(
        title=f"{summaries[0].instances} instances per case",
        caption=f"Percent of all slices, up to and including that age; {CONFIDENCE:.0%} intervals; "
        f"{DASH}: ends no life of the case",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("case")
    table.add_column("age\n[years]", justify="right")
    for heading in (*(f"dead by\n{name}" for name in causes), "alive"):
        table.add_column(heading, justify="right")
    for summary in summaries:
        for place, age in enumerate(summary.years):
            columns = (*(_if_any(summary.dead_by[name]) for name in causes), summary.alive)
            table.add_row(
                "" if place else summary.label,
                f"{age:g}",
                *(with_bounds(column[place], 100.0) if column else DASH for column in columns),
                end_section=age == summary.years[-1],
            )
    console.print(table)


def _if_any(shares: list[Estimate]) -> list[Estimate]:
    return shares if shares[-1].value > 0 else []
