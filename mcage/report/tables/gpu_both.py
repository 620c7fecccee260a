"""The table of a study of both levels: shifts, margins and lives with none, each, and both."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from mcage.results.reader import open_results
from mcage.stats.estimates import CONFIDENCE, Estimate, mean
from mcage.stats.survival import life_quantile
from mcage.stats.wording import DASH, life, plus_minus


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
    max_dvth_mv : Estimate
        Largest shift of a cell, mV.
    saved, independent : Estimate
        What that is less than with the first policy and the first technique of the file, relative
        to it; and what it would be if the savings of both levels were independent. Pairs of the
        same GPU.
    cell_margin, logic_margin : Estimate
        Delay margins that cells and logic need.
    cell_life, fault_life, logic_life, median_life : Estimate
        Years after which half of the GPUs have cells that are too slow, fail for faulty cells,
        have logic that is too slow; and are dead for any of these causes.
    """

    policy: str
    technique: str
    instances: int
    horizon_years: float
    share: Estimate
    max_dvth_mv: Estimate
    saved: Estimate
    independent: Estimate
    cell_margin: Estimate
    logic_margin: Estimate
    cell_life: Estimate
    fault_life: Estimate
    logic_life: Estimate
    median_life: Estimate


def summarize_file(path: Path) -> list[BothSummary]:
    """Summaries of all policies and techniques, in the order of the file.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage.
    """
    with open_results(path) as results:
        values = {name: results[name].values for name in results.variables}
    horizon = float(values["age"][-1])
    shifts = values["max_dvth_mv"][..., -1]
    left = shifts / shifts[0, 0]

    def median_life(name: str, *place: int) -> Estimate:
        years = values[name][place]
        return life_quantile(years, years < horizon, 0.5)

    return [
        BothSummary(
            policy=str(policy),
            technique=str(technique),
            instances=shifts.shape[-1],
            horizon_years=horizon,
            share=mean(values["mean_share"][p]),
            max_dvth_mv=mean(shifts[p, t]),
            saved=mean(1 - left[p, t]),
            independent=mean(1 - left[p, 0] * left[0, t]),
            cell_margin=mean(values["cell_margin"][p, t, :, -1]),
            logic_margin=mean(values["logic_margin"][p, :, -1]),
            cell_life=median_life("cell_life_years", p, t),
            fault_life=median_life("fault_life_years", p, t),
            logic_life=median_life("logic_life_years", p),
            median_life=life_quantile(
                values["life_years"][p, t], values["end_cause"][p, t] != 0, 0.5
            ),
        )
        for p, policy in enumerate(values["policy"].tolist())
        for t, technique in enumerate(values["technique"].tolist())
    ]


def print_summaries(summaries: Sequence[BothSummary], console: Console) -> None:
    """Print the table."""
    first = summaries[0]
    horizon = first.horizon_years
    table = Table(
        title=f"{first.instances:,} GPUs, {horizon:g} years",
        caption=f"{CONFIDENCE:.0%} intervals; saved: of the largest shift of a cell, against "
        f"{first.policy} with {first.technique}; lives: medians, years",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("policy", "technique", "levels"):
        table.add_column(heading)
    for heading in (
        "SM is on, %",
        "max. dVth, mV",
        "saved, %",
        "if independent, %",
        "margin of cells, %",
        "of logic, %",
        "life: cells' delay",
        "faults",
        "logic",
        "GPU",
    ):
        table.add_column(heading, justify="right")
    for row in summaries:
        is_both = row.policy != first.policy and row.technique != first.technique
        table.add_row(
            row.policy,
            row.technique,
            _levels(row, first),
            f"{100 * row.share.value:.3g}",
            plus_minus(row.max_dvth_mv),
            plus_minus(row.saved, 100) if row is not first else DASH,
            plus_minus(row.independent, 100) if is_both else DASH,
            plus_minus(row.cell_margin, 100),
            plus_minus(row.logic_margin, 100),
            life(row.cell_life, horizon),
            life(row.fault_life, horizon),
            life(row.logic_life, horizon),
            life(row.median_life, horizon),
        )
    console.print(table)


def _levels(row: BothSummary, first: BothSummary) -> str:
    """Which levels differ from the first row."""
    if row.policy == first.policy:
        return "none" if row.technique == first.technique else "registers"
    return "gating" if row.technique == first.technique else "both"
