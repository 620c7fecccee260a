"""How studies of heterogeneous structures are shown: their table, and what it says in sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from mcage.report import tables
from mcage.report.cases import Condition, axes_of, selected
from mcage.report.presentation import (
    INTERVALS,
    LEFT_OUT,
    Assumptions,
    Presentation,
    Words,
)
from mcage.results.header import Header
from mcage.results.reader import open_results
from mcage.stats import estimates
from mcage.studies.gpu_gating.presentation import names_along

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, ReportFigure, Sheet

# The tables of a study of heterogeneous structures: each design, and where the order holds.


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
    scheduler_delay: estimates.Estimate
    l2_delay: estimates.Estimate
    break_even: estimates.Estimate
    efficiency: estimates.Estimate
    range: tuple[float, float]
    better: estimates.Estimate


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
    holds: estimates.Estimate
    proposal_better: estimates.Estimate
    duplication_worse: estimates.Estimate
    planar_limits: estimates.Estimate


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
        scheduler_delay=estimates.mean(of_design["scheduler_delay"].values),
        l2_delay=estimates.mean(of_design["l2_delay"].values),
        break_even=estimates.mean(of_design["break_even"].values),
        efficiency=estimates.mean(efficiency),
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


def _share(holds: NDArray[Any]) -> estimates.Estimate:
    return estimates.proportion(int(np.count_nonzero(holds)), len(holds))


def _design_table(designs: Sequence[DesignSummary], files: Sequence[Path]) -> tables.ResultTable:
    def of(name: str) -> list[estimates.Estimate]:
        return [getattr(row, name) for row in designs]

    instances = [row.instances for row in designs]
    low, high = ([row.range[end] for row in designs] for end in (0, 1))
    ranges = [f"{row.range[0]:.3f} ... {row.range[1]:.3f}" for row in designs]
    return tables.ResultTable(
        title=f"{tables.span(instances)} draws",
        caption=f"{estimates.CONFIDENCE:.0%} intervals of means; efficiency: (D (1 + delay "
        "increase))^3 P "
        "over the baseline's, less is better; break-even: D^3 P at which it is 1",
        columns=(
            *tables.file_column(files),
            tables.names("reading", "reading", [row.reading for row in designs], groups=True),
            tables.names("design", "design", [row.design for row in designs]),
            tables.numbers("instances", "", instances),
            tables.estimates("scheduler_delay", "scheduler\n[%]", of("scheduler_delay"), _percent),
            tables.estimates("l2_delay", "L2\n[%]", of("l2_delay"), _percent),
            tables.estimates(
                "break_even", "break-even\nD^3 P", of("break_even"), estimates.plus_minus
            ),
            tables.estimates(
                "efficiency", "efficiency", of("efficiency"), estimates.plus_minus, primary=True
            ),
            tables.remarks("5 ... 95 %\nof the draws", ranges, primary=True),
            tables.numbers("efficiency_5_percent", "", low),
            tables.numbers("efficiency_95_percent", "", high),
            tables.estimates(
                "better",
                "better than\nbaseline [%]",
                [None if row.design == "baseline" else row.better for row in designs],
                _bounds,
                primary=True,
            ),
        ),
    )


def _order_table(orders: Sequence[OrderSummary], files: Sequence[Path]) -> tables.ResultTable:
    def shares(name: str, heading: str, *, primary: bool = True) -> tables.Column:
        return tables.estimates(
            name, heading, [getattr(row, name) for row in orders], _bounds, primary=primary
        )

    return tables.ResultTable(
        title="proposal < baseline < duplication",
        caption="% of the draws; planar limits: a planar part sets the delay of the proposal",
        columns=(
            *tables.file_column(files),
            tables.names("reading", "reading", [row.reading for row in orders], groups=True),
            tables.names("fields", "fields", [row.fields for row in orders]),
            tables.names("fills", "fills", [row.fills for row in orders]),
            tables.numbers("instances", "draws", [row.instances for row in orders]),
            shares("holds", "holds"),
            shares("proposal_better", "proposal\nbetter"),
            shares("duplication_worse", "duplication\nworse"),
            shares("planar_limits", "planar\nlimits", primary=False),
        ),
    )


def _percent(of: estimates.Estimate) -> str:
    return estimates.plus_minus(of, 100)


def _bounds(of: estimates.Estimate) -> str:
    return estimates.with_bounds(of, 100)


class HeterogeneityPresentation(Presentation):
    """How studies of heterogeneous structures are shown."""

    instances = "draws"
    grid = ("reading", "design")
    keys = ("reading", "design")
    reads_by_place = True

    def summarize(self, results: xr.Dataset) -> list[ReadingSummary]:
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

    def summarize_file(self, path: Path, where: Sequence[Condition] = ()) -> list[ReadingSummary]:
        """Summaries of the readings and designs that fulfil all conditions, in the file's order.

        Raises
        ------
        UserError
            The file is missing, foreign, damaged or of a newer mcage; or nothing fulfils them.
        """
        with open_results(path) as results:
            readings, axes = self.summarize(results), axes_of(results)
        rows = [row for reading in readings for row in reading.designs]
        wanted = selected(rows, where, self.keys, axes, path)
        of_readings = [
            replace(reading, designs=[row for row in reading.designs if row in wanted])
            for reading in readings
        ]
        return [reading for reading in of_readings if reading.designs]

    def table_of(
        self, summaries: Sequence[ReadingSummary], files: Sequence[Path] = ()
    ) -> tables.ResultTable:
        """Table of the designs, and below it that of the order, of several files where given."""
        designs = [row for summary in summaries for row in summary.designs]
        orders = [row for summary in summaries for row in summary.orders]
        pairs = list(zip(files, summaries, strict=True)) if files else []
        of_designs = [file for file, summary in pairs for _ in summary.designs]
        of_orders = [file for file, summary in pairs for _ in summary.orders]
        return replace(_design_table(designs, of_designs), below=(_order_table(orders, of_orders),))

    def words(self, header: Header, results: xr.Dataset) -> Words:
        """In which share of the draws the order of the paper holds."""
        outcomes = []
        for place, reading in enumerate(names_along(results, "reading")):
            holds = results["order_holds"].values[place] != 0
            share = estimates.proportion(int(np.count_nonzero(holds)), holds.size)
            outcomes.append(
                (
                    f"Reading {reading}",
                    "proposal better than baseline, and baseline better than duplication, holds in "
                    f"{estimates.with_bounds(share, 100)} % of the draws.",
                )
            )
            efficiency = results["efficiency"].values[place]
            for row, design in enumerate(names_along(results, "design")):
                if row:
                    better = estimates.proportion(
                        int(np.count_nonzero(efficiency[row] < 1)), holds.size
                    )
                    outcomes.append(
                        (
                            f"Reading {reading}, {design}",
                            "NBTI efficiency "
                            f"{estimates.plus_minus(estimates.mean(efficiency[row]))} of the "
                            "baseline's (less is better); better than the baseline in "
                            f"{estimates.with_bounds(better, 100)} % of the draws.",
                        )
                    )
        simulated = (
            f"{header.holds:,} draws of what the paper leaves open, with seed {header.seed}; each "
            "draw is the same for all designs."
        )
        return Words(simulated, tuple(outcomes))

    def figures(
        self, header: Header, results: xr.Dataset, sheet: "Sheet"
    ) -> "Iterator[ReportFigure | AbsentFigure]":
        """Draw the figures of a results file, one by one."""
        from mcage.studies.gpu_heterogeneity.figures import draw

        return draw(results, sheet)

    def assumptions(self, header: Header, results: xr.Dataset) -> Assumptions:
        """Models, limits and choices of the spec."""
        return [
            (
                "Draws",
                "What the paper leaves open is drawn anew for each instance, from the "
                "distributions in the spec below.",
            ),
            ("Left out", f"{LEFT_OUT.capitalize()}."),
            INTERVALS,
        ]
