"""The table of chips: lives of chips of several slices, some of which they can spare."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.report.cases import CAUSES, lives_of
from mcage.report.recorded_spec import faults_of
from mcage.report.selection import Condition, summarized
from mcage.report.tables.summary import causes_of_death
from mcage.report.tables.table import (
    ResultTable,
    ages,
    estimates,
    file_column,
    names,
    numbers,
    span,
)
from mcage.stats.chips import chip_lives
from mcage.stats.estimates import CONFIDENCE, Estimate, proportion
from mcage.stats.survival import CaseLives, life_quantile
from mcage.stats.wording import percent
from mcage.variation.scenarios import scenario


@dataclass(frozen=True)
class ChipSummary:
    """Lives of the chips of a case.

    Parameters
    ----------
    label : str
        The case.
    slices_per_chip, spare_slices : int
        Number of slices of a chip, and how many of them may die before the chip does.
    chips : int
        Number of chips.
    slices_left_out : int
        Number of slices of an incomplete last chip.
    horizon_years : float
        End of the simulated time.
    b10_life_years, median_life_years : Estimate
        Ages at which a tenth and half of the chips are dead; infinity where that lies beyond the
        horizon.
    censored_share : Estimate
        Share of the chips that reach the horizon.
    end_cause_share : dict of str to Estimate
        Share of all chips, by cause of the death that ended the chip.
    """

    label: str
    slices_per_chip: int
    spare_slices: int
    chips: int
    slices_left_out: int
    horizon_years: float
    b10_life_years: Estimate
    median_life_years: Estimate
    censored_share: Estimate
    end_cause_share: dict[str, Estimate]


def summarize_chips(
    results: xr.Dataset, slices_per_chip: int | None = None, spare_slices: int = 0
) -> list[ChipSummary]:
    """Summarize the lives of chips in each case, in the order of the file.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it.
    slices_per_chip : int, optional
        Number of slices of a chip; by default as many as shared a die in the sweep.
    spare_slices : int
        Number of dead slices that a chip can spare.

    Raises
    ------
    UserError
        As `chip_lives`; or dies differ, and had another number of slices in the sweep; or the file
        is partial, so that slices that follow one another in it are of different chips.
    """
    if results["instance"][-1] != results.sizes["instance"] - 1:
        raise UserError(
            "slices are missing in this partial file, so that chips cannot be put together"
        )
    faults = faults_of(results.attrs["spec"])
    sampled, sigma_volts = faults.slices_per_chip, faults.sigma_die_volts
    slices_per_chip = sampled if slices_per_chip is None else slices_per_chip
    summaries = []
    for index in range(results.sizes["case"]):
        case = results.isel(case=index)
        shipped = scenario(str(case["scenario"].item())).sigma_die_volts
        if slices_per_chip != sampled and (shipped if sigma_volts is None else sigma_volts) > 0:
            raise UserError(
                f"slices_per_chip = {slices_per_chip}, but dies differ and {sampled} slices shared "
                "each in this sweep: leave it out, or run the sweep with "
                f"faults.slices_per_chip = {slices_per_chip}"
            )
        summaries.append(_summarize_case(lives_of(case), slices_per_chip, spare_slices))
    return summaries


def summarize_chips_of_file(
    path: Path,
    slices_per_chip: int | None = None,
    spare_slices: int = 0,
    where: Sequence[Condition] = (),
) -> list[ChipSummary]:
    """Summarize the lives of chips in the cases of a results file that fulfil all conditions.

    Raises
    ------
    UserError
        As `summarize_chips` and `mcage.report.selection.summarized`.
    """
    summarize = partial(summarize_chips, slices_per_chip=slices_per_chip, spare_slices=spare_slices)
    return summarized(path, summarize, where)


def _summarize_case(slices: CaseLives, slices_per_chip: int, spare_slices: int) -> ChipSummary:
    chips = chip_lives(slices, slices_per_chip, spare_slices)
    count = chips.years.size
    return ChipSummary(
        label=chips.label,
        slices_per_chip=slices_per_chip,
        spare_slices=spare_slices,
        chips=count,
        slices_left_out=slices.years.size - count * slices_per_chip,
        horizon_years=chips.horizon_years,
        b10_life_years=life_quantile(chips.years, chips.died, 0.1),
        median_life_years=life_quantile(chips.years, chips.died),
        censored_share=proportion(int(np.count_nonzero(~chips.died)), count),
        end_cause_share={
            name: proportion(int(np.count_nonzero(chips.cause == cause)), count)
            for cause, name in CAUSES.items()
        },
    )


def table_of(summaries: Sequence[ChipSummary], files: Sequence[Path] = ()) -> ResultTable:
    """Table of the cases, of several files where their paths are given.

    Its title says how many slices an incomplete last chip has.
    """
    first = summaries[0]
    horizons = [summary.horizon_years for summary in summaries]
    title = (
        f"{span([s.chips for s in summaries])} chips of {first.slices_per_chip} slices, "
        f"{first.spare_slices} to spare"
    )
    if any(summary.slices_left_out for summary in summaries):
        left_out = span([summary.slices_left_out for summary in summaries])
        title += f"; {left_out} slices of an incomplete chip left out"
    return ResultTable(
        title=f"{title}; horizon {span(horizons)} years",
        caption=f"{CONFIDENCE:.0%} intervals over chips",
        columns=(
            *file_column(files),
            names("case", "case", [summary.label for summary in summaries]),
            numbers("slices_per_chip", "", [summary.slices_per_chip for summary in summaries]),
            numbers("spare_slices", "", [summary.spare_slices for summary in summaries]),
            numbers("chips", "", [summary.chips for summary in summaries]),
            numbers("horizon_years", "", horizons),
            ages(
                "b10_life_years",
                "B10 life\n[years]",
                [s.b10_life_years for s in summaries],
                horizons,
                primary=True,
            ),
            ages(
                "median_life_years",
                "median life\n[years]",
                [summary.median_life_years for summary in summaries],
                horizons,
                primary=True,
            ),
            estimates(
                "censored_share",
                "reach the\nhorizon",
                [summary.censored_share for summary in summaries],
                lambda share: percent(share.value),
            ),
            *causes_of_death([summary.end_cause_share for summary in summaries]),
        ),
    )
