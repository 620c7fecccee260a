"""The table of a sweep: one line for each case, every estimate with its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from rich import box
from rich.console import Console
from rich.table import Table

from mcage.aging.end_of_life import EndCause
from mcage.report.statistics import CONFIDENCE, Estimate, life_quantile, mean, proportion
from mcage.results.reader import open_results
from mcage.results.schema import TRANSISTORS

WIDTH_WITHOUT_TERMINAL = 132
DASH = "–"
CAUSES = {
    EndCause.DELAY: "delay",
    EndCause.FAULTY_ENTRY: "faulty entry",
    EndCause.NO_HOME: "no home",
}


@dataclass(frozen=True)
class CaseSummary:
    """What the table says about one case.

    Parameters
    ----------
    label, technique, environment, scenario, vdd_volts
        The case.
    instances : int
        Sample size.
    horizon_years : float
        End of the simulated time.
    median_life_years : Estimate
        Infinity where it lies beyond the horizon.
    censored_share : Estimate
        Share of the lives that reach the horizon.
    max_dvth_mv : dict of str to Estimate
        By transistor: mean over instances of the slice's largest threshold shift, mV.
    spill_rate : Estimate
        Mean of the share of register writes that go to the LDS, over the instances that lived:
        a slice dead on arrival writes nothing.
    end_cause_share : dict of str to Estimate
        Share of all lives, by cause of their end.
    """

    label: str
    technique: str
    environment: str
    scenario: str
    vdd_volts: float
    instances: int
    horizon_years: float
    median_life_years: Estimate
    censored_share: Estimate
    max_dvth_mv: dict[str, Estimate]
    spill_rate: Estimate
    end_cause_share: dict[str, Estimate]


def summarize(results: xr.Dataset) -> list[CaseSummary]:
    """Summaries of all cases, in the order of the file.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it; read case by case.
    """
    return [_summarize_case(results.isel(case=index)) for index in range(results.sizes["case"])]


def _summarize_case(case: xr.Dataset) -> CaseSummary:
    cause = case["end_cause"].values
    died = cause != EndCause.CENSORED
    dvth = case["max_dvth_mv"].values
    count = cause.size
    return CaseSummary(
        label=str(case["case"].item()),
        technique=str(case["technique"].item()),
        environment=str(case["environment"].item()),
        scenario=str(case["scenario"].item()),
        vdd_volts=float(case["vdd_volts"]),
        instances=count,
        horizon_years=float(case["epoch_end_years"][-1]),
        median_life_years=life_quantile(case["life_years"].values, died),
        censored_share=proportion(int(np.count_nonzero(~died)), count),
        max_dvth_mv={name: mean(dvth[:, i]) for i, name in enumerate(TRANSISTORS)},
        spill_rate=mean(case["spill_rate"].values),
        end_cause_share={
            name: proportion(int(np.count_nonzero(cause == value)), count)
            for value, name in CAUSES.items()
        },
    )


def summarize_file(path: Path) -> list[CaseSummary]:
    """Summaries of a results file.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage.
    """
    with open_results(path) as results:
        return summarize(results)


def print_summaries(summaries: Sequence[CaseSummary], console: Console) -> None:
    """Print the table; what all cases share goes into its title.

    Parameters
    ----------
    summaries : sequence of CaseSummary
        At least one.
    console : rich.console.Console
        Where to.
    """
    first = summaries[0]
    several_settings = len({(s.scenario, s.vdd_volts) for s in summaries}) > 1
    shared = [f"{first.instances} instances per case", f"horizon {first.horizon_years:g} years"]
    if not several_settings:
        shared.append(f"scenario {_setting(first)}")
    table = Table(
        title=", ".join(shared),
        caption=f"{CONFIDENCE:.0%} intervals; dVth: mean of the slice's worst cell",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("technique", "environment", *(["scenario"] if several_settings else [])):
        table.add_column(heading)
    for heading in ("median life\n[years]", "reach the\nhorizon"):
        table.add_column(heading, justify="right")
    for name in TRANSISTORS:
        table.add_column(f"dVth {name}\n[mV]", justify="right")
    table.add_column("spill rate\n[%]", justify="right")
    table.add_column("lives end by")
    for summary in summaries:
        table.add_row(
            summary.technique,
            summary.environment,
            *([_setting(summary)] if several_settings else []),
            _life(summary),
            _percent(summary.censored_share.value),
            *(_plus_minus(summary.max_dvth_mv[name]) for name in TRANSISTORS),
            _plus_minus(summary.spill_rate, 100.0),
            _causes(summary),
        )
    console.print(table)


def as_json(summaries: Sequence[CaseSummary]) -> list[dict[str, Any]]:
    """Summaries as what JSON can say.

    An unknown bound is null. So is a life beyond the horizon, and then the list
    ``beyond_horizon`` of that estimate names it.
    """
    return [_plain(vars(summary)) for summary in summaries]


def _plain(value: Any) -> Any:
    if isinstance(value, Estimate):
        bounds = vars(value)
        plain: dict[str, Any] = {k: v if math.isfinite(v) else None for k, v in bounds.items()}
        beyond = [name for name, bound in bounds.items() if math.isinf(bound)]
        return {**plain, "beyond_horizon": beyond} if beyond else plain
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _setting(summary: CaseSummary) -> str:
    return f"{summary.scenario} {summary.vdd_volts:g} V"


def _life(summary: CaseSummary) -> str:
    def years(value: float) -> str:
        if math.isnan(value):
            return DASH
        return f"> {summary.horizon_years:g}" if math.isinf(value) else f"{value:.2f}"

    life = summary.median_life_years
    if math.isinf(life.value) and not math.isfinite(life.lower):
        return years(life.value)
    return f"{years(life.value)} [{years(life.lower)}, {years(life.upper)}]"


def _plus_minus(estimate: Estimate, scale: float = 1.0) -> str:
    if math.isnan(estimate.value):
        return DASH
    half = (estimate.upper - estimate.lower) / 2 * scale
    if math.isnan(half):
        return f"{estimate.value * scale:.3g} ±{DASH}"
    if half == 0:
        return f"{estimate.value * scale:.3g} ±0"
    # Two digits of the error, and the value to the same place.
    digits = min(6, max(0, 1 - math.floor(math.log10(half))))
    return f"{estimate.value * scale:.{digits}f} ±{half:.{digits}f}"


def _percent(part: float) -> str:
    return f"{part * 100:.3g} %"


def _causes(summary: CaseSummary) -> str:
    found = sorted(summary.end_cause_share.items(), key=lambda item: -item[1].value)
    return ", ".join(f"{name} {_percent(s.value)}" for name, s in found if s.value > 0) or DASH
