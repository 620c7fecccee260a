"""How studies of heterogeneous structures are shown: tables, and what they say in sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from mcage.report.cases import Condition
from mcage.report.presentation import INTERVALS, LEFT_OUT, Assumptions, Presentation, Summary
from mcage.report.tables import Column, ResultTable, column, columns_of_cases, measured
from mcage.results.header import Header
from mcage.results.measures import cases_of
from mcage.studies.gpu_heterogeneity.study import ORDERS

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, Plot

FIELDS = ("swapped", "common")
FILLS = ("ignored", "counted")


def orders_of(results: xr.Dataset) -> dict[str, list[Summary]]:
    """By reading, how often the order holds among draws of each kind, and of all if there are more.

    Kinds differ in the field constants of both kinds of transistors, and in whether fills count.
    """
    common = results["common_field"].values != 0
    counted = results["fills"].values != 0
    kinds: list[tuple[str, str, NDArray[np.bool_]]] = [
        (fields, fills, (common == (fields == "common")) & (counted == (fills == "counted")))
        for fields, fills in product(FIELDS, FILLS)
    ]
    kinds = [kind for kind in kinds if kind[2].any()]
    if len(kinds) > 1:
        kinds.append(("all", "all", np.ones(len(common), np.bool_)))
    needed = {name for measure in ORDERS for name in measure.variables}
    orders: dict[str, list[Summary]] = {}
    for fields, fills, selected in kinds:
        for case in cases_of(results.isel(instance=selected), ("reading",), needed):
            reading = str(case["reading"])
            named = {"reading": reading, "fields": fields, "fills": fills}
            said = {of.key: of.estimate(case, case.horizon_years) for of in ORDERS}
            counts = {"instances": int(np.count_nonzero(selected))}
            orders.setdefault(reading, []).append(Summary(named | counts | said))
    return orders


class HeterogeneityPresentation(Presentation):
    """How studies of heterogeneous structures are shown."""

    instances = "draws"
    reads_by_place = True

    def summarize(self, results: xr.Dataset, where: Sequence[Condition] = ()) -> list[Summary]:
        """Summarize the designs that fulfil all conditions; each has the orders of its reading."""
        orders = orders_of(results)
        return [
            Summary(row | {"orders": orders[row.reading]})
            for row in super().summarize(results, where)
        ]

    def named(self, summaries: Sequence[Summary]) -> list[Column]:
        """Reading and design; lines of a reading stand together."""
        columns = super().named(summaries)
        return [replace(column, groups=column.key == "reading") for column in columns]

    def table_of(self, summaries: Sequence[Summary]) -> ResultTable:
        """Table of the designs, and below it that of the order."""
        of_readings = {
            (row.get("file"), row.reading): [
                ({"file": row.file} if "file" in row else {}) | order for order in row.orders
            ]
            for row in summaries
        }
        orders = [order for of in of_readings.values() for order in of]
        below = ResultTable(
            title="proposal < baseline < duplication",
            caption="% of the draws; planar limits: a planar part sets the delay of the proposal",
            columns=(
                *columns_of_cases((), orders, ()),
                column(orders, "reading", "reading", groups=True),
                column(orders, "fields", "fields"),
                column(orders, "fills", "fills"),
                column(orders, "instances", "draws"),
                *(measured(measure, orders) for measure in ORDERS),
            ),
        )
        return replace(super().table_of(summaries), below=(below,))

    def figures(self, header: Header, results: xr.Dataset) -> "Iterator[Plot | AbsentFigure]":
        """The figures of a results file, one by one."""
        from mcage.studies.gpu_heterogeneity.figures import draw

        return draw(results)

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
