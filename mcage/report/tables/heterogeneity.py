"""The tables of a study of heterogeneous structures: each design, and where the order holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from mcage.results.reader import open_results
from mcage.stats.estimates import CONFIDENCE, Estimate, mean, proportion
from mcage.stats.wording import DASH, plus_minus, with_bounds

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
class Summaries:
    """Both tables."""

    designs: list[DesignSummary]
    orders: list[OrderSummary]


def summarize_file(path: Path) -> Summaries:
    """Summaries of a file.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage.
    """
    with open_results(path) as results:
        readings = [str(name) for name in results["reading"].values.tolist()]
        designs = [
            _design(results.isel(reading=place, design=row), reading, str(name))
            for place, reading in enumerate(readings)
            for row, name in enumerate(results["design"].values.tolist())
        ]
        orders = [
            order
            for place, reading in enumerate(readings)
            for order in _orders(results.isel(reading=place), reading)
        ]
    return Summaries(designs, orders)


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


def print_summaries(summaries: Summaries, console: Console) -> None:
    """Print both tables."""
    console.print(_design_table(summaries.designs))
    console.print(_order_table(summaries.orders))


def _design_table(designs: Sequence[DesignSummary]) -> Table:
    table = Table(
        title=f"{designs[0].instances:,} draws",
        caption=f"{CONFIDENCE:.0%} intervals of means; efficiency: (D (1 + delay increase))^3 P "
        "over the baseline's, less is better; break-even: D^3 P at which it is 1",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("reading", "design"):
        table.add_column(heading)
    for heading in (
        "scheduler, %",
        "L2, %",
        "break-even D^3 P",
        "efficiency",
        "5 ... 95 %",
        "better, %",
    ):
        table.add_column(heading, justify="right")
    for row in designs:
        table.add_row(
            row.reading,
            row.design,
            plus_minus(row.scheduler_delay, 100),
            plus_minus(row.l2_delay, 100),
            plus_minus(row.break_even),
            plus_minus(row.efficiency),
            f"{row.range[0]:.3f} ... {row.range[1]:.3f}",
            DASH if row.design == "baseline" else with_bounds(row.better, 100),
        )
    return table


def _order_table(orders: Sequence[OrderSummary]) -> Table:
    table = Table(
        title="proposal < baseline < duplication",
        caption="% of the draws; planar limits: a planar part sets the delay of the proposal",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("reading", "fields", "fills"):
        table.add_column(heading)
    for heading in (
        "draws",
        "holds",
        "proposal better",
        "duplication worse",
        "planar limits",
    ):
        table.add_column(heading, justify="right")
    for row in orders:
        shares = (row.holds, row.proposal_better, row.duplication_worse, row.planar_limits)
        texts = (row.reading, row.fields, row.fills, f"{row.instances:,}")
        table.add_row(*texts, *(with_bounds(share, 100) for share in shares))
    return table
