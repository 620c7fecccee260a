"""Tables of studies of whole GPUs: SM gating, heterogeneous structures, both levels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from mcage.report.cases import Condition, selected
from mcage.report.tables.table import (
    Column,
    ResultTable,
    ages,
    estimates,
    file_column,
    names,
    numbers,
    remarks,
    span,
)
from mcage.results.reader import open_results
from mcage.stats.estimates import CONFIDENCE, Estimate, mean, plus_minus, proportion, with_bounds
from mcage.stats.survival import life_quantile

# The table of a study of whole GPUs: margins, lives, powers under each policy.

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


# The tables of a study of heterogeneous structures: each design, and where the order holds.

HETEROGENEITY_KEYS = ("reading", "design")
"""What lines are selected by."""

FIELDS = ("swapped", "common")
FILLS = ("ignored", "counted")
BASELINE, PROPOSAL, DUPLICATION = range(3)
"""Places of the designs in the files."""


@dataclass(frozen=True)
class DesignSummary:
    """A design under a reading.

    Parameters
    ----------
    reading, design : str
        Which.
    instances : int
        Draws.
    scheduler_delay, l2_delay : Estimate
        Delay increases, mean over draws.
    break_even : Estimate
        D^3 P at which the design is as efficient as the baseline, mean over draws.
    efficiency : Estimate
        NBTI efficiency over the baseline's, mean over draws.
    range : tuple of float
        5 % and 95 % quantiles of the efficiency.
    better : Estimate
        Share of the draws in which the design is better than the baseline.
    """

    reading: str
    design: str
    instances: int
    scheduler_delay: Estimate
    l2_delay: Estimate
    break_even: Estimate
    efficiency: Estimate
    range: tuple[float, float]
    better: Estimate


@dataclass(frozen=True)
class OrderSummary:
    """How often proposal < baseline < duplication holds among draws of one kind.

    Parameters
    ----------
    reading, fields, fills : str
        The kind.
    instances : int
        Draws of it.
    holds, proposal_better, duplication_worse : Estimate
        Share of them in which the order holds; in which its first, and its second half holds.
    planar_limits : Estimate
        Share of them in which a planar part sets the delay of the proposal.
    """

    reading: str
    fields: str
    fills: str
    instances: int
    holds: Estimate
    proposal_better: Estimate
    duplication_worse: Estimate
    planar_limits: Estimate


@dataclass(frozen=True)
class ReadingSummary:
    """What both tables say about a reading.

    Parameters
    ----------
    reading : str
        Which.
    designs : list of DesignSummary
        Its designs.
    orders : list of OrderSummary
        Each kind of its draws, and all of them if there are several kinds.
    """

    reading: str
    designs: list[DesignSummary]
    orders: list[OrderSummary]


def summarize_heterogeneity(results: xr.Dataset) -> list[ReadingSummary]:
    """Summarize all readings, in the order of the file.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it.
    """
    return [
        _summarize(results.isel(reading=place), str(reading))
        for place, reading in enumerate(results["reading"].values.tolist())
    ]


def summarize_file_heterogeneity(
    path: Path, where: Sequence[Condition] = ()
) -> list[ReadingSummary]:
    """Summaries of the readings and designs that fulfil all conditions, in the order of the file.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage; or nothing fulfils them.
    """
    with open_results(path) as results:
        readings = summarize_heterogeneity(results)
    rows = [row for reading in readings for row in reading.designs]
    wanted = selected(rows, where, HETEROGENEITY_KEYS, path)
    of_readings = [
        replace(reading, designs=[row for row in reading.designs if row in wanted])
        for reading in readings
    ]
    return [reading for reading in of_readings if reading.designs]


def _summarize(results: xr.Dataset, reading: str) -> ReadingSummary:
    designs = enumerate(results["design"].values.tolist())
    return ReadingSummary(
        reading=reading,
        designs=[_design(results.isel(design=row), reading, str(name)) for row, name in designs],
        orders=_orders(results, reading),
    )


def _design(of_design: xr.Dataset, reading: str, name: str) -> DesignSummary:
    efficiency = of_design["efficiency"].values
    low, high = np.quantile(efficiency, (0.05, 0.95))
    return DesignSummary(
        reading=reading,
        design=name,
        instances=len(efficiency),
        scheduler_delay=mean(of_design["scheduler_delay"].values),
        l2_delay=mean(of_design["l2_delay"].values),
        break_even=mean(of_design["break_even"].values),
        efficiency=mean(efficiency),
        range=(float(low), float(high)),
        better=_share(efficiency < 1),
    )


def _orders(of_reading: xr.Dataset, reading: str) -> list[OrderSummary]:
    """Of each kind of draws that there is, and of all of them if there are several kinds."""
    common = of_reading["common_field"].values != 0
    fills = of_reading["fills"].values != 0
    kinds: list[tuple[str, str, NDArray[np.bool_]]] = [
        (fields, filled, (common == (fields == "common")) & (fills == (filled == "counted")))
        for fields in FIELDS
        for filled in FILLS
    ]
    kinds = [kind for kind in kinds if kind[2].any()]
    if len(kinds) > 1:
        kinds.append(("all", "all", np.ones(len(common), np.bool_)))
    efficiency = of_reading["efficiency"].values
    finfet = np.maximum(
        of_reading["second_stage_delay"].values, of_reading["data_array_delay"].values
    )
    planar = np.maximum(of_reading["first_stage_delay"].values, of_reading["tags_delay"].values)
    return [
        OrderSummary(
            reading=reading,
            fields=fields,
            fills=filled,
            instances=int(np.count_nonzero(selected)),
            holds=_share(of_reading["order_holds"].values[selected] != 0),
            proposal_better=_share(efficiency[PROPOSAL, selected] < 1),
            duplication_worse=_share(efficiency[DUPLICATION, selected] > 1),
            planar_limits=_share((planar > finfet)[selected]),
        )
        for fields, filled, selected in kinds
    ]


def _share(holds: NDArray[Any]) -> Estimate:
    return proportion(int(np.count_nonzero(holds)), len(holds))


def table_of_heterogeneity(
    summaries: Sequence[ReadingSummary], files: Sequence[Path] = ()
) -> ResultTable:
    """Table of the designs, and below it that of the order, of several files where given."""
    designs = [row for summary in summaries for row in summary.designs]
    orders = [row for summary in summaries for row in summary.orders]
    pairs = list(zip(files, summaries, strict=True)) if files else []
    of_designs = [file for file, summary in pairs for _ in summary.designs]
    of_orders = [file for file, summary in pairs for _ in summary.orders]
    return replace(_design_table(designs, of_designs), below=(_order_table(orders, of_orders),))


def _design_table(designs: Sequence[DesignSummary], files: Sequence[Path]) -> ResultTable:
    def of(name: str) -> list[Estimate]:
        return [getattr(row, name) for row in designs]

    instances = [row.instances for row in designs]
    low, high = ([row.range[end] for row in designs] for end in (0, 1))
    ranges = [f"{row.range[0]:.3f} ... {row.range[1]:.3f}" for row in designs]
    return ResultTable(
        title=f"{span(instances)} draws",
        caption=f"{CONFIDENCE:.0%} intervals of means; efficiency: (D (1 + delay increase))^3 P "
        "over the baseline's, less is better; break-even: D^3 P at which it is 1",
        columns=(
            *file_column(files),
            names("reading", "reading", [row.reading for row in designs], groups=True),
            names("design", "design", [row.design for row in designs]),
            numbers("instances", "", instances),
            estimates("scheduler_delay", "scheduler\n[%]", of("scheduler_delay"), _percent),
            estimates("l2_delay", "L2\n[%]", of("l2_delay"), _percent),
            estimates("break_even", "break-even\nD^3 P", of("break_even"), plus_minus),
            estimates("efficiency", "efficiency", of("efficiency"), plus_minus, primary=True),
            remarks("5 ... 95 %\nof the draws", ranges, primary=True),
            numbers("efficiency_5_percent", "", low),
            numbers("efficiency_95_percent", "", high),
            estimates(
                "better",
                "better than\nbaseline [%]",
                [None if row.design == "baseline" else row.better for row in designs],
                _bounds,
                primary=True,
            ),
        ),
    )


def _order_table(orders: Sequence[OrderSummary], files: Sequence[Path]) -> ResultTable:
    def shares(name: str, heading: str, *, primary: bool = True) -> Column:
        return estimates(
            name, heading, [getattr(row, name) for row in orders], _bounds, primary=primary
        )

    return ResultTable(
        title="proposal < baseline < duplication",
        caption="% of the draws; planar limits: a planar part sets the delay of the proposal",
        columns=(
            *file_column(files),
            names("reading", "reading", [row.reading for row in orders], groups=True),
            names("fields", "fields", [row.fields for row in orders]),
            names("fills", "fills", [row.fills for row in orders]),
            numbers("instances", "draws", [row.instances for row in orders]),
            shares("holds", "holds"),
            shares("proposal_better", "proposal\nbetter"),
            shares("duplication_worse", "duplication\nworse"),
            shares("planar_limits", "planar\nlimits", primary=False),
        ),
    )


def _percent(of: Estimate) -> str:
    return plus_minus(of, 100)


def _bounds(of: Estimate) -> str:
    return with_bounds(of, 100)


# The table of a study of both levels: shifts, margins and lives with none, each, and both.

BOTH_KEYS = ("policy", "technique")
"""What lines are selected by."""


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
        have logic that is too slow; and are dead for any of these causes.
    """

    policy: str
    technique: str
    instances: int
    horizon_years: float
    share: Estimate
    lasting: int
    max_dvth_mv: Estimate
    saved: Estimate
    independent: Estimate
    cell_margin: Estimate
    logic_margin: Estimate
    cell_life: Estimate
    fault_life: Estimate
    logic_life: Estimate
    median_life: Estimate


def summarize_both(results: xr.Dataset) -> list[BothSummary]:
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
            lasting=int(np.isfinite(shifts[p, t]).sum()),
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


def summarize_file_both(path: Path, where: Sequence[Condition] = ()) -> list[BothSummary]:
    """Summaries of the policies and techniques that fulfil all conditions, in the file's order.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage; or nothing fulfils them.
    """
    with open_results(path) as results:
        return selected(summarize_both(results), where, BOTH_KEYS, path)


def table_of_both(summaries: Sequence[BothSummary], files: Sequence[Path] = ()) -> ResultTable:
    """Table of policies and techniques, of several files where their paths are given."""
    horizons = [row.horizon_years for row in summaries]
    instances = [row.instances for row in summaries]
    # What the others save is against the first line of the same file.
    firsts = [
        next(row for row, of in zip(summaries, _files(summaries, files), strict=True) if of == file)
        for file in _files(summaries, files)
    ]
    pairs = list(zip(summaries, firsts, strict=True))

    def in_percent(of: Estimate) -> str:
        return plus_minus(of, 100)

    def of(name: str) -> list[Estimate]:
        return [getattr(row, name) for row in summaries]

    first = summaries[0]
    failed = any(row.lasting < row.instances for row in summaries)
    population = (
        "; max. dVth, saved, margin of cells: of the GPUs whose register files last, which have "
        "not failed for faults by the horizon; saved: of those that last with both"
        if failed
        else ""
    )
    return ResultTable(
        title=f"{span(instances)} GPUs, {span(horizons)} years",
        caption=f"{CONFIDENCE:.0%} intervals; saved: of the largest shift of a cell, against "
        f"{first.policy} with {first.technique}{population}; lives: medians, years",
        columns=(
            *file_column(files),
            names("policy", "policy", [row.policy for row in summaries], groups=True),
            names("technique", "technique", [row.technique for row in summaries]),
            names("levels", "levels", [_levels(row, first) for row, first in pairs]),
            numbers("instances", "", instances),
            numbers("horizon_years", "", horizons),
            estimates("mean_share", "SM is on\n[%]", of("share"), _short_percent),
            numbers(
                "lasting",
                "files last\n[GPUs]" if failed else "",
                [row.lasting for row in summaries],
                primary=True,
            ),
            estimates(
                "max_dvth_mv", "max. dVth\n[mV]", of("max_dvth_mv"), plus_minus, primary=True
            ),
            estimates(
                "saved",
                "saved\n[%]",
                [row.saved if row is not first else None for row, first in pairs],
                in_percent,
                primary=True,
            ),
            estimates(
                "saved_if_independent",
                "if independent\n[%]",
                [
                    row.independent if _levels(row, first) == "both" else None
                    for row, first in pairs
                ],
                in_percent,
            ),
            estimates("cell_margin", "margin of\ncells [%]", of("cell_margin"), in_percent),
            estimates("logic_margin", "margin of\nlogic [%]", of("logic_margin"), in_percent),
            ages(
                "median_cell_life_years", "life: cells'\ndelay [years]", of("cell_life"), horizons
            ),
            ages("median_fault_life_years", "faults\n[years]", of("fault_life"), horizons),
            ages("median_logic_life_years", "logic\n[years]", of("logic_life"), horizons),
            ages(
                "median_life_years",
                "life: GPU\n[years]",
                of("median_life"),
                horizons,
                primary=True,
            ),
        ),
    )


def _files(summaries: Sequence[BothSummary], files: Sequence[Path]) -> Sequence[Path]:
    return files or [Path()] * len(summaries)


def _short_percent(share: Estimate) -> str:
    return f"{100 * share.value:.3g}"


def _levels(row: BothSummary, first: BothSummary) -> str:
    """Which levels differ from the first row."""
    if row.policy == first.policy:
        return "none" if row.technique == first.technique else "registers"
    return "gating" if row.technique == first.technique else "both"
