"""The table of chips: lives of chips of several slices, some of which they can spare."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from rich import box
from rich.console import Console
from rich.table import Table

from mcage.errors import UserError
from mcage.report.cases import CAUSES, lives_of
from mcage.report.recorded_spec import faults_of
from mcage.results.reader import open_results
from mcage.stats.chips import chip_lives
from mcage.stats.estimates import CONFIDENCE, Estimate, proportion
from mcage.stats.survival import CaseLives, life_quantile
from mcage.stats.wording import DASH, life, percent
from mcage.variation import scenario


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
    path: Path, slices_per_chip: int | None = None, spare_slices: int = 0
) -> list[ChipSummary]:
    """Summarize the lives of chips in a results file, as `summarize_chips`.

    Raises
    ------
    UserError
        As `summarize_chips`; or the file is missing, foreign, damaged or of a newer mcage.
    """
    with open_results(path) as results:
        try:
            return summarize_chips(results, slices_per_chip, spare_slices)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error


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


def print_chips(summaries: Sequence[ChipSummary], console: Console) -> None:
    """Print the table; its title says how many slices an incomplete last chip has."""
    first = summaries[0]
    title = f"{first.chips} chips of {first.slices_per_chip} slices, {first.spare_slices} to spare"
    if first.slices_left_out:
        title += f"; {first.slices_left_out} slices of an incomplete chip left out"
    table = Table(
        title=f"{title}\nhorizon {first.horizon_years:g} years",
        caption=f"{CONFIDENCE:.0%} intervals over chips",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("case")
    for heading in ("B10 life\n[years]", "median life\n[years]", "reach the\nhorizon"):
        table.add_column(heading, justify="right")
    table.add_column("lives end by")
    for summary in summaries:
        table.add_row(
            summary.label,
            life(summary.b10_life_years, summary.horizon_years),
            life(summary.median_life_years, summary.horizon_years),
            percent(summary.censored_share.value),
            _causes(summary),
        )
    console.print(table)


def _causes(summary: ChipSummary) -> str:
    causes = sorted(summary.end_cause_share.items(), key=lambda item: -item[1].value)
    return ", ".join(f"{name} {percent(s.value)}" for name, s in causes if s.value > 0) or DASH
