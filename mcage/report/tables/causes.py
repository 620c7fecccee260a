"""The table of causes: the share of slices that each cause of death has ended, age by age."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from mcage.report.cases import CAUSES, lives_of
from mcage.report.selection import Condition, summarized
from mcage.report.tables.table import ResultTable, estimates, file_column, names, numbers, span
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


def summarize_causes_of_file(path: Path, where: Sequence[Condition] = ()) -> list[CauseSummary]:
    """Summarize the causes of death in the cases of a results file that fulfil all conditions.

    Raises
    ------
    UserError
        As `mcage.report.selection.summarized`.
    """
    return summarized(path, summarize_causes, where)


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


def table_of(summaries: Sequence[CauseSummary], files: Sequence[Path] = ()) -> ResultTable:
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
    return ResultTable(
        title=f"{span([summary.instances for summary in summaries])} instances per case",
        caption=f"Percent of all slices, up to and including that age; {CONFIDENCE:.0%} intervals; "
        f"{DASH}: ends no life of the case",
        columns=(
            *file_column([file for file, summary in pairs for _ in summary.years]),
            names("case", "case", [summary.label for summary, _ in lines], groups=True),
            numbers(
                "age_years",
                "age\n[years]",
                [summary.years[place] for summary, place in lines],
                "{:g}".format,
                primary=True,
            ),
            *(
                estimates(
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
            estimates(
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
