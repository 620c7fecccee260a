"""The table of a study of whole GPUs: margins, lives, powers under each policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from mcage.report.selection import Condition, selected
from mcage.report.tables.table import (
    ResultTable,
    ages,
    estimates,
    file_column,
    names,
    numbers,
    span,
)
from mcage.results.reader import open_results
from mcage.stats.estimates import CONFIDENCE, Estimate, mean, proportion
from mcage.stats.survival import life_quantile
from mcage.stats.wording import plus_minus, with_bounds

HIGH_QUANTILE = 0.99

KEYS = ("policy",)
"""What lines are selected by."""


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


def summarize(results: xr.Dataset) -> list[GpuSummary]:
    """Summarize all policies, in the order of the file.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it.
    """
    summaries = []
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


def summarize_file(path: Path, where: Sequence[Condition] = ()) -> list[GpuSummary]:
    """Summaries of the policies that fulfil all conditions, in the order of the file.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage; or nothing fulfils them.
    """
    with open_results(path) as results:
        return selected(summarize(results), where, KEYS, path)


def table_of(summaries: Sequence[GpuSummary], files: Sequence[Path] = ()) -> ResultTable:
    """Table of the policies, of several files where their paths are given."""
    horizons = [row.horizon_years for row in summaries]
    instances = [row.instances for row in summaries]

    def in_percent(of: Estimate) -> str:
        return plus_minus(of, 100)

    def bounds_in_percent(of: Estimate) -> str:
        return with_bounds(of, 100)

    def of(name: str) -> list[Estimate]:
        return [getattr(row, name) for row in summaries]

    return ResultTable(
        title=f"{span(instances)} GPUs, {span(horizons)} years",
        caption=f"{CONFIDENCE:.0%} intervals; margin: delay at the horizon over that of the "
        "slowest new SM, less 1: what half of the GPUs, and 99 % of them, need; max. dVth: of an "
        "SM at the horizon",
        columns=(
            *file_column(files),
            names("policy", "policy", [row.policy for row in summaries]),
            numbers("instances", "", instances),
            numbers("horizon_years", "", horizons),
            estimates(
                "median_margin",
                "median\nmargin [%]",
                of("median_margin"),
                bounds_in_percent,
                primary=True,
            ),
            estimates("high_margin", "margin of\n99 % [%]", of("high_margin"), bounds_in_percent),
            ages(
                "median_life_years",
                "median life\n[years]",
                of("median_life"),
                horizons,
                primary=True,
            ),
            estimates("alive", "alive\n[%]", of("alive"), bounds_in_percent),
            estimates(
                "max_dvth_mv", "max. dVth\n[mV]", of("max_dvth_mv"), plus_minus, primary=True
            ),
            estimates("slowdown", "slowdown\n[%]", of("slowdown"), in_percent),
            estimates("sm_power_w", "SMs\n[W]", of("sm_power_w"), plus_minus),
        ),
    )
