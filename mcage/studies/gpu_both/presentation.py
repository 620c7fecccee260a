"""How studies of both levels are shown: their table, figures, and what they say in sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import xarray as xr

from mcage.report.presentation import INTERVALS, Assumptions, Presentation, Summary
from mcage.report.tables import Column
from mcage.results.header import Header
from mcage.results.measures import Case, Measure
from mcage.studies.gpu_both.study import OF_LASTING
from mcage.studies.gpu_gating.presentation import assumptions_of_gating, spec_of

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, Plot


class BothPresentation(Presentation):
    """How studies of both levels are shown."""

    instances = "GPUs"
    reads_by_place = True

    def added(self, case: Case) -> dict[str, Any]:
        """Which levels differ from the first policy and the first technique."""
        levels = "gating" * bool(case.place["policy"]), "registers" * bool(case.place["technique"])
        return {"levels": "both" if all(levels) else "".join(levels) or "none"} | super().added(
            case
        )

    def named(self, summaries: Sequence[Summary]) -> list[Column]:
        """Policy, technique and levels; lines of a policy stand together."""
        return [
            replace(of, heading="levels")
            if of.key == "levels"
            else replace(of, groups=of.key == "policy")
            for of in super().named(summaries)
        ]

    def columns(self, summaries: Sequence[Summary]) -> list[Measure]:
        """All measures; that some register files fail is said where they do."""
        last = all(row.lasting == row.instances for row in summaries)
        note = (
            f"max. dVth, saved, margin of cells: {OF_LASTING}; saved: of those that last with both"
        )
        return [
            replace(of, heading=of.heading * (not last), note=note * (not last))
            if of.key == "lasting"
            else of
            for of in super().columns(summaries)
        ]

    def figures(self, header: Header, results: xr.Dataset) -> "Iterator[Plot | AbsentFigure]":
        """The figures of a results file, one by one."""
        from mcage.studies.gpu_both.figures import draw

        return draw(results)

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
