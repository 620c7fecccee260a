"""The tables of a sweep: a line for each case, and the lives of chips of several slices."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from mcage.costs import Technology
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.report import tables
from mcage.report.cases import CAUSES, cases_in, lives_of
from mcage.report.presentation import Summary
from mcage.results.axes import CASE
from mcage.results.measures import Case
from mcage.spec.sections import costs_of, faults_of
from mcage.stats.estimates import CONFIDENCE, DASH, Estimate, mean, percent, proportion
from mcage.stats.survival import CaseLives, chip_lives, life_quantile
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.measures import last_slowdown


@lru_cache(maxsize=8)
def technology_of(spec_toml: str) -> Technology:
    """Constants of the costs of a sweep, by the spec of its file."""
    return costs_of(spec_toml).of_technology


def few_worked(summary: Summary) -> bool:
    """Whether less than half of the slices worked, so that means over these are of the best."""
    return bool(0 < summary.worked < summary.instances / 2)


def added_to(case: Case) -> dict[str, Any]:
    """What a summary says besides the measures of a case.

    ``label``, ``horizon_years``, ``worked`` (slices that worked at all), ``technology`` and
    ``nominal_vdd_volts`` (of the constants of the energy), ``end_cause_share`` (share of all lives
    by cause of death), ``too_slow`` (of slices that worked until they were too slow, the slowdown
    ``when_new`` and ``when_last_in_use``).
    """
    technology, cause = technology_of(case.spec_toml), case["end_cause"]
    return {
        "label": str(case[CASE]),
        "horizon_years": case.horizon_years,
        "worked": int(np.count_nonzero(case["life_years"] > 0)),
        "too_slow": {
            when: mean(slower[cause == EndCause.TOO_SLOW])
            for when, slower in (
                ("when_new", case["slowdown_new"]),
                ("when_last_in_use", last_slowdown(case)),
            )
        },
        "technology": technology,
        "nominal_vdd_volts": technology.nominal_vdd_volts,
        "end_cause_share": {
            name: proportion(int(np.count_nonzero(cause == value)), cause.size)
            for value, name in CAUSES.items()
        },
    }


def table_of(summaries: Sequence[Summary], files: Sequence[Path] = ()) -> tables.ResultTable:
    """Table of the cases; its title says what all of them have in common.

    Parameters
    ----------
    summaries : sequence of Summary
        Cases, at least one.
    files : sequence of Path
        The file of each case, where there are several files.

    Raises
    ------
    UserError
        The nominal Vdd of their technologies differs.
    """
    nominal_vdds = [f"{volts:g} V" for volts in {s.nominal_vdd_volts for s in summaries}]
    if len(nominal_vdds) > 1:
        raise UserError(f"technologies of {' and '.join(nominal_vdds)} need tables of their own")
    (nominal_vdd,) = nominal_vdds
    instances = tables.span([summary.instances for summary in summaries])
    horizon = tables.span([summary.horizon_years for summary in summaries])
    last = "energy saving" if _energy_is_known(summaries) else "slowdown"
    few = "in brackets, where less than half of them did; " * any(few_worked(s) for s in summaries)
    energy = (
        "; energy saving: against one at the same voltages, and at the technology's nominal "
        f"{nominal_vdd}"
    ) * _energy_is_known(summaries)
    of_all = (
        "; of all slices: those that are dead on arrival run as conventional ones at "
        f"{nominal_vdd}, and save nothing"
    ) * _counts_the_dead(summaries)
    return tables.ResultTable(
        title=f"{instances} instances per case, horizon {horizon} years",
        caption=f"{CONFIDENCE:.0%} intervals; dVth to {last}: means over the slices that worked at "
        f"all, which are not dead on arrival; {few}dVth: of the slice's worst cell; slowdown: "
        f"against a conventional slice{energy}{of_all}{_mixture(summaries) if files else ''}",
        columns=(
            *tables.file_column(files),
            *tables.columns_of_cases(SweepHeader.axes, summaries),
            *_columns(summaries, nominal_vdd),
        ),
    )


def _mixture(summaries: Sequence[Summary]) -> str:
    """What the caveat of a sweep says if its cases have several files: energies on two curves."""
    vdds_volts: dict[Technology, set[float]] = {}
    for summary in summaries if _energy_is_known(summaries) else ():
        vdds_volts.setdefault(summary.technology, set()).add(summary.vdd_volts)
    notes = (technology.note_on_mixture(v) for technology, v in vdds_volts.items())
    return "".join(f"; {note}" for note in notes if note)


def _energy_is_known(summaries: Sequence[Summary]) -> bool:
    """Whether there are constants of the energy of the slice, as far as any slice worked."""
    worked = [summary for summary in summaries if summary.worked]
    return not worked or any(not math.isnan(s.energy_saving.value) for s in worked)


def _counts_the_dead(summaries: Sequence[Summary]) -> bool:
    """Whether the mean saving of all slices is another than that of those that worked."""
    return _energy_is_known(summaries) and any(s.worked < s.instances for s in summaries)


def _columns(summaries: Sequence[Summary], nominal_vdd: str) -> tuple[tables.Column, ...]:
    """Columns of the measures."""
    known, with_dead = _energy_is_known(summaries), _counts_the_dead(summaries)
    columns = []
    for measure in SweepHeader.measures:
        heading, primary = measure.heading.format(nominal=nominal_vdd), measure.primary
        if measure.key == "energy_saving_of_all" and not with_dead:
            heading = ""
        elif measure.key == "energy_saving_nominal":
            primary = not with_dead
        if measure.key.startswith("energy") and not known:
            heading = ""
        column = tables.measured(replace(measure, heading=heading, primary=primary), summaries)
        if measure.of_working:
            column = replace(column, cells=tuple(map(_in_brackets, column.cells, summaries)))
        columns.append(column)
    return (
        *columns,
        *causes_of_death(
            [s.end_cause_share for s in summaries], [_how_slow(s.too_slow) for s in summaries]
        ),
    )


def _how_slow(too_slow: Mapping[str, Estimate]) -> str:
    """By what slices became too slow that worked until then; empty where there are none."""
    new, last = (100 * estimate.value for estimate in too_slow.values())
    if math.isnan(last):
        return ""
    return f" ({new:.3g} % slower when new, {last:.3g} % when last in use)"


def _in_brackets(cell: tables.Cell, summary: Summary) -> tables.Cell:
    """Cell of a mean over the slices that worked: in brackets where these are few."""
    return replace(cell, text=f"({cell.text})") if few_worked(summary) else cell


def causes_of_death(
    shares: Sequence[dict[str, Estimate]], how_slow: Sequence[str] = ()
) -> tuple[tables.Column, ...]:
    """Columns of the causes of death: in words, and the share of each for programs.

    Parameters
    ----------
    shares : sequence of dict of str to Estimate
        For each line, the share of all lives by cause of death.
    how_slow : sequence of str, optional
        For each line, what is said of slices that became too slow.
    """
    notes = how_slow or [""] * len(shares)
    return (
        tables.remarks("lives end by", list(map(_in_words, shares, notes))),
        *(
            tables.estimates(
                f"ended_by_{cause.replace(' ', '_')}",
                "",
                [by_cause[cause] for by_cause in shares],
                lambda share: percent(share.value),
            )
            for cause in CAUSES.values()
        ),
    )


def _in_words(shares: dict[str, Estimate], how_slow: str) -> str:
    causes = sorted(shares.items(), key=lambda item: -item[1].value)
    slow = CAUSES[EndCause.TOO_SLOW]
    return (
        ", ".join(
            f"{name} {percent(s.value)}{how_slow * (name == slow)}"
            for name, s in causes
            if s.value > 0
        )
        or DASH
    )


# The table of chips: lives of chips of several slices, some of which they can spare.


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
    sampled = faults.slices_per_chip
    slices_per_chip = sampled if slices_per_chip is None else slices_per_chip
    summaries = []
    for case in cases_in(results):
        if slices_per_chip != sampled and faults.dies_differ([str(case["scenario"].item())]):
            raise UserError(
                f"slices_per_chip = {slices_per_chip}, but dies differ and {sampled} slices shared "
                "each in this sweep: leave it out, or run the sweep with "
                f"faults.slices_per_chip = {slices_per_chip}"
            )
        summaries.append(_chips_of(lives_of(case), slices_per_chip, spare_slices))
    return summaries


def _chips_of(slices: CaseLives, slices_per_chip: int, spare_slices: int) -> ChipSummary:
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


def table_of_chips(
    summaries: Sequence[ChipSummary], files: Sequence[Path] = ()
) -> tables.ResultTable:
    """Table of the cases, of several files where their paths are given.

    Its title says how many slices an incomplete last chip has.
    """
    first = summaries[0]
    horizons = [summary.horizon_years for summary in summaries]
    title = (
        f"{tables.span([s.chips for s in summaries])} chips of {first.slices_per_chip} slices, "
        f"{first.spare_slices} to spare"
    )
    if any(summary.slices_left_out for summary in summaries):
        left_out = tables.span([summary.slices_left_out for summary in summaries])
        title += f"; {left_out} slices of an incomplete chip left out"
    return tables.ResultTable(
        title=f"{title}; horizon {tables.span(horizons)} years",
        caption=f"{CONFIDENCE:.0%} intervals over chips",
        columns=(
            *tables.file_column(files),
            tables.names("case", "case", [summary.label for summary in summaries]),
            tables.numbers(
                "slices_per_chip", "", [summary.slices_per_chip for summary in summaries]
            ),
            tables.numbers("spare_slices", "", [summary.spare_slices for summary in summaries]),
            tables.numbers("chips", "", [summary.chips for summary in summaries]),
            tables.numbers("horizon_years", "", horizons),
            tables.ages(
                "b10_life_years",
                "B10 life\n[years]",
                [s.b10_life_years for s in summaries],
                horizons,
                primary=True,
            ),
            tables.ages(
                "median_life_years",
                "median life\n[years]",
                [summary.median_life_years for summary in summaries],
                horizons,
                primary=True,
            ),
            tables.estimates(
                "censored_share",
                "reach the\nhorizon",
                [summary.censored_share for summary in summaries],
                lambda share: percent(share.value),
            ),
            *causes_of_death([summary.end_cause_share for summary in summaries]),
        ),
    )
