"""The table of a study of whole GPUs: margins, lives, powers under each policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from mcage.results.reader import open_results
from mcage.stats.estimates import CONFIDENCE, Estimate, mean, proportion
from mcage.stats.survival import life_quantile
from mcage.stats.wording import life, plus_minus, with_bounds

HIGH_QUANTILE = 0.99


@dataclass(frozen=True)
class GpuSummary:
    """Lives of GPUs under a policy.

    Parameters
    ----------
    policy : str
        The policy.
    instances : int
        GPUs.
    horizon_years : float
        Simulated time.
    median_margin, high_margin : Estimate
        Delay margin that half of the GPUs, and 99 % of them, need at the horizon.
    median_life : Estimate
        Years after which half of the GPUs need more than the guardband.
    alive : Estimate
        Share of the GPUs that reach the horizon.
    max_dvth_mv : Estimate
        Largest shift of an SM at the horizon, mV; mean over GPUs.
    slowdown : Estimate
        Extra execution time, mean over GPUs.
    sm_power_w : Estimate
        Power of all SMs, W; mean over GPUs.
    """

    policy: str
    instances: int
    horizon_years: float
    median_margin: Estimate
    high_margin: Estimate
    median_life: Estimate
    alive: Estimate
    max_dvth_mv: Estimate
    slowdown: Estimate
    sm_power_w: Estimate


def summarize_file(path: Path) -> list[GpuSummary]:
    """Summaries of all policies, in the order of the file.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage.
    """
    summaries = []
    with open_results(path) as results:
        ages = results["age"].values
        for place, name in enumerate(results["policy"].values.tolist()):
            of_policy = results.isel(policy=place)
            margins = of_policy["margin_needed"].values[:, -1]
            died = of_policy["end_cause"].values != 0
            everywhere = np.ones(len(margins), np.bool_)
            summaries.append(
                GpuSummary(
                    policy=str(name),
                    instances=len(margins),
                    horizon_years=float(ages[-1]),
                    median_margin=life_quantile(margins, everywhere, 0.5),
                    high_margin=life_quantile(margins, everywhere, HIGH_QUANTILE),
                    median_life=life_quantile(of_policy["life_years"].values, died, 0.5),
                    alive=proportion(int((~died).sum()), len(died)),
                    max_dvth_mv=mean(of_policy["max_dvth_mv"].values[:, -1]),
                    slowdown=mean(of_policy["slowdown"].values),
                    sm_power_w=mean(of_policy["sm_power_w"].values),
                )
            )
    return summaries


def print_summaries(summaries: Sequence[GpuSummary], console: Console) -> None:
    """Print the table."""
    horizon = summaries[0].horizon_years
    table = Table(
        title=f"{summaries[0].instances:,} GPUs, {horizon:g} years",
        caption=f"{CONFIDENCE:.0%} intervals; margin: delay over that of the slowest new SM",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("policy")
    for heading in (
        "median margin, %",
        "99 % of GPUs, %",
        "median life, years",
        "alive, %",
        "max. dVth, mV",
        "slowdown, %",
        "SMs, W",
    ):
        table.add_column(heading, justify="right")
    for row in summaries:
        table.add_row(
            row.policy,
            with_bounds(row.median_margin, 100),
            with_bounds(row.high_margin, 100),
            life(row.median_life, horizon),
            plus_minus(row.alive, 100),
            plus_minus(row.max_dvth_mv),
            plus_minus(row.slowdown, 100),
            plus_minus(row.sm_power_w),
        )
    console.print(table)
