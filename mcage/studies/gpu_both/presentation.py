"""How studies of both levels are shown: their table, and what it says in sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from mcage.report import tables
from mcage.report.presentation import (
    INTERVALS,
    Assumptions,
    Presentation,
    Words,
)
from mcage.results.header import Header
from mcage.stats import estimates
from mcage.stats.survival import life_quantile
from mcage.studies.gpu_gating.presentation import (
    age_in_words,
    assumptions_of_gating,
    gpus_in_words,
    names_along,
    spec_of,
)

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, ReportFigure, Sheet

# The table of a study of both levels: shifts, margins and lives with none, each, and both.


@dataclass(frozen=True)
class BothSummary:
    """GPUs under a policy and a technique; means over GPUs, at the horizon.

    Parameters
    ----------
    policy, technique : str
        What assigns SMs, and what protects register files.
    instances : int
        GPUs.
    horizon_years : float
        Simulated time.
    share : Estimate
        Share of the time for which an SM is on.
    lasting : int
        GPUs whose register files have not failed for faults by the horizon; shifts and margins of
        cells are those of these GPUs.
    max_dvth_mv : Estimate
        Largest shift of a cell, mV.
    saved, independent : Estimate
        What that is less than with the first policy and the first technique of the file, relative
        to it; and what it would be if the savings of both levels were independent. Pairs of the
        same GPU, of those that last with all that is compared.
    cell_margin, logic_margin : Estimate
        Delay margins that cells and logic need.
    cell_life, fault_life, logic_life, median_life : Estimate
        Years after which half of the GPUs have cells that are too slow, fail for faulty cells,
        have logic that is too slow; and are dead for any cause.
    exchange_life : Estimate, optional
        Years after which half of the GPUs have banks with too many uncorrectable words; None where
        these end no life.
    """

    policy: str
    technique: str
    instances: int
    horizon_years: float
    share: estimates.Estimate
    lasting: int
    max_dvth_mv: estimates.Estimate
    saved: estimates.Estimate
    independent: estimates.Estimate
    cell_margin: estimates.Estimate
    logic_margin: estimates.Estimate
    cell_life: estimates.Estimate
    fault_life: estimates.Estimate
    logic_life: estimates.Estimate
    median_life: estimates.Estimate
    exchange_life: estimates.Estimate | None = None


def _files(summaries: Sequence[BothSummary], files: Sequence[Path]) -> Sequence[Path]:
    return files or [Path()] * len(summaries)


def _exchanges(
    summaries: Sequence[BothSummary], horizons: Sequence[float]
) -> Iterator[tables.Column]:
    """Column of the ages of exchange, where soft errors end lives in any of the files."""
    if any(row.exchange_life for row in summaries):
        unknown = estimates.Estimate(np.nan, np.nan, np.nan)
        lives = [row.exchange_life or unknown for row in summaries]
        yield tables.ages("median_exchange_years", "exchange\n[years]", lives, horizons)


def _short_percent(share: estimates.Estimate) -> str:
    return f"{100 * share.value:.3g}"


def _levels(row: BothSummary, first: BothSummary) -> str:
    """Which levels differ from the first row."""
    if row.policy == first.policy:
        return "none" if row.technique == first.technique else "registers"
    return "gating" if row.technique == first.technique else "both"


def _ends(ends: np.ndarray, flags: dict[str, object]) -> str:
    """What ends the lives, the most frequent cause first."""
    meanings = str(flags.get("flag_meanings", "")).split()
    values = np.atleast_1d(np.asarray(flags.get("flag_values", ())))
    shares = {
        meaning.lower().replace("_", " "): float(np.mean(ends == value))
        for meaning, value in zip(meanings, values, strict=True)
    }
    ordered = sorted(
        (name for name, share in shares.items() if share), key=lambda name: -shares[name]
    )
    said = (
        f"{estimates.percent(shares[name])} "
        f"{'reach the horizon' if name == 'censored' else f'die of {name}'}"
        for name in ordered
    )
    return f"Of the GPUs, {', '.join(said)}."


class BothPresentation(Presentation):
    """How studies of both levels are shown."""

    instances = "GPUs"
    grid = ("policy", "technique")
    keys = ("policy", "technique")
    reads_by_place = True

    def summarize(self, results: xr.Dataset) -> list[BothSummary]:
        """Summarize all policies and techniques, in the order of the file.

        Parameters
        ----------
        results : xarray.Dataset
            As `mcage.results.reader.open_results` returns it.
        """
        values = {name: results[name].values for name in results.variables}
        horizon = float(values["age"][-1])
        shifts = values["max_dvth_mv"][..., -1]
        left = shifts / shifts[0, 0]

        def median_life(name: str, *place: int) -> estimates.Estimate:
            years = values[name][place]
            return life_quantile(years, years < horizon, 0.5)

        return [
            BothSummary(
                policy=str(policy),
                technique=str(technique),
                instances=shifts.shape[-1],
                horizon_years=horizon,
                share=estimates.mean(values["mean_share"][p]),
                lasting=int(np.isfinite(shifts[p, t]).sum()),
                max_dvth_mv=estimates.mean(shifts[p, t]),
                saved=estimates.mean(1 - left[p, t]),
                independent=estimates.mean(1 - left[p, 0] * left[0, t]),
                cell_margin=estimates.mean(values["cell_margin"][p, t, :, -1]),
                logic_margin=estimates.mean(values["logic_margin"][p, :, -1]),
                cell_life=median_life("cell_life_years", p, t),
                fault_life=median_life("fault_life_years", p, t),
                logic_life=median_life("logic_life_years", p),
                median_life=life_quantile(
                    values["life_years"][p, t], values["end_cause"][p, t] != 0, 0.5
                ),
                exchange_life=(
                    median_life("exchange_years", p, t) if "exchange_years" in values else None
                ),
            )
            for p, policy in enumerate(values["policy"].tolist())
            for t, technique in enumerate(values["technique"].tolist())
        ]

    def table_of(
        self, summaries: Sequence[BothSummary], files: Sequence[Path] = ()
    ) -> tables.ResultTable:
        """Table of policies and techniques, of several files where their paths are given."""
        horizons = [row.horizon_years for row in summaries]
        instances = [row.instances for row in summaries]
        # What the others save is against the first line of the same file.
        firsts = [
            next(
                row
                for row, of in zip(summaries, _files(summaries, files), strict=True)
                if of == file
            )
            for file in _files(summaries, files)
        ]
        pairs = list(zip(summaries, firsts, strict=True))

        def in_percent(of: estimates.Estimate) -> str:
            return estimates.plus_minus(of, 100)

        def of(name: str) -> list[estimates.Estimate]:
            return [getattr(row, name) for row in summaries]

        first = summaries[0]
        failed = any(row.lasting < row.instances for row in summaries)
        population = (
            "; max. dVth, saved, margin of cells: of the GPUs whose register files last, which "
            "have not failed for faults by the horizon; saved: of those that last with both"
            if failed
            else ""
        )
        return tables.ResultTable(
            title=f"{tables.span(instances)} GPUs, {tables.span(horizons)} years",
            caption=f"{estimates.CONFIDENCE:.0%} intervals; saved: of the largest shift of a cell, "
            "against "
            f"{first.policy} with {first.technique}{population}; lives: medians, years",
            columns=(
                *tables.file_column(files),
                tables.names("policy", "policy", [row.policy for row in summaries], groups=True),
                tables.names("technique", "technique", [row.technique for row in summaries]),
                tables.names("levels", "levels", [_levels(row, first) for row, first in pairs]),
                tables.numbers("instances", "", instances),
                tables.numbers("horizon_years", "", horizons),
                tables.estimates("mean_share", "SM is on\n[%]", of("share"), _short_percent),
                tables.numbers(
                    "lasting",
                    "files last\n[GPUs]" if failed else "",
                    [row.lasting for row in summaries],
                    primary=True,
                ),
                tables.estimates(
                    "max_dvth_mv",
                    "max. dVth\n[mV]",
                    of("max_dvth_mv"),
                    estimates.plus_minus,
                    primary=True,
                ),
                tables.estimates(
                    "saved",
                    "saved\n[%]",
                    [row.saved if row is not first else None for row, first in pairs],
                    in_percent,
                    primary=True,
                ),
                tables.estimates(
                    "saved_if_independent",
                    "if independent\n[%]",
                    [
                        row.independent if _levels(row, first) == "both" else None
                        for row, first in pairs
                    ],
                    in_percent,
                ),
                tables.estimates(
                    "cell_margin", "margin of\ncells [%]", of("cell_margin"), in_percent
                ),
                tables.estimates(
                    "logic_margin", "margin of\nlogic [%]", of("logic_margin"), in_percent
                ),
                tables.ages(
                    "median_cell_life_years",
                    "life: cells'\ndelay [years]",
                    of("cell_life"),
                    horizons,
                ),
                tables.ages(
                    "median_fault_life_years", "faults\n[years]", of("fault_life"), horizons
                ),
                tables.ages(
                    "median_logic_life_years", "logic\n[years]", of("logic_life"), horizons
                ),
                *_exchanges(summaries, horizons),
                tables.ages(
                    "median_life_years",
                    "life: GPU\n[years]",
                    of("median_life"),
                    horizons,
                    primary=True,
                ),
            ),
        )

    def words(self, header: Header, results: xr.Dataset) -> Words:
        """What each level saves, and what ends lives."""
        policies, techniques = names_along(results, "policy"), names_along(results, "technique")
        horizon = float(results["age"].values[-1])
        shifts = results["max_dvth_mv"].values[..., -1]
        lives, ends = results["life_years"].values, results["end_cause"].values
        flags = results["end_cause"].attrs
        outcomes = []
        for p, policy in enumerate(policies):
            for t, technique in enumerate(techniques):
                median = life_quantile(lives[p, t], ends[p, t] != 0, 0.5)
                saved = 1 - shifts[p, t] / shifts[0, 0]
                pairs = int(np.isfinite(saved).sum())
                where = (
                    ""
                    if pairs == saved.size
                    else f", on the {pairs} of {saved.size} GPUs whose register files last with "
                    "both"
                )
                less = (
                    ""
                    if p == t == 0 or not pairs
                    else "; the largest shift of a cell is "
                    f"{estimates.plus_minus(estimates.mean(saved), 100)} % less "
                    f"than with {policies[0]} and {techniques[0]}{where}"
                )
                outcomes.append(
                    (
                        f"{policy} with {technique}",
                        f"half of the GPUs live {age_in_words(median, horizon)} years{less}. "
                        f"{_ends(ends[p, t], flags)}",
                    )
                )
        return Words(gpus_in_words(header, results, horizon), tuple(outcomes))

    def figures(
        self, header: Header, results: xr.Dataset, sheet: "Sheet"
    ) -> "Iterator[ReportFigure | AbsentFigure]":
        """Draw the figures of a results file, one by one."""
        from mcage.studies.gpu_both.figures import draw

        return draw(results, sheet)

    def assumptions(self, header: Header, results: xr.Dataset) -> Assumptions:
        """Models, limits and choices of the spec."""
        spec = spec_of(header)
        technique = spec["sweep"]
        return [
            *assumptions_of_gating(spec["gating"], technique["aging"]["pbti"]),
            (
                "Register files",
                f"{spec['slices_per_sm']} slices stand for each SM; a slice has the faults of "
                f"scenario {', '.join(technique['scenarios'])}, and windows are released with "
                f"their {technique['workload']['release']}.",
            ),
            INTERVALS,
        ]
