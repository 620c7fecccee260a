"""How studies of both levels are shown: their table, figures, and what they say in sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from mcage.report.presentation import INTERVALS, Assumptions, Presentation, Summary, Words
from mcage.report.tables import Column
from mcage.results.header import Header
from mcage.results.measures import Case, Measure
from mcage.stats.estimates import percent, plus_minus
from mcage.studies.gpu_both.study import OF_LASTING
from mcage.studies.gpu_gating.presentation import (
    age_in_words,
    assumptions_of_gating,
    gpus_in_words,
    names_along,
    spec_of,
)

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, ReportFigure, Sheet


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
        f"{percent(shares[name])} {'reach the horizon' if name == 'censored' else f'die of {name}'}"
        for name in ordered
    )
    return f"Of the GPUs, {', '.join(said)}."


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

    def words(self, header: Header, results: xr.Dataset) -> Words:
        """What each level saves, and what ends lives."""
        policies, techniques = names_along(results, "policy"), names_along(results, "technique")
        horizon = float(results["age"].values[-1])
        shifts = results["max_dvth_mv"].values[..., -1]
        ends, flags = results["end_cause"].values, results["end_cause"].attrs
        summaries = iter(self.summarize(results))
        outcomes = []
        for p, policy in enumerate(policies):
            for t, technique in enumerate(techniques):
                of = next(summaries)
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
                    if of.saved is None or not pairs
                    else f"; the largest shift of a cell is {plus_minus(of.saved, 100)} % less "
                    f"than with {policies[0]} and {techniques[0]}{where}"
                )
                outcomes.append(
                    (
                        f"{policy} with {technique}",
                        f"half of the GPUs live {age_in_words(of.median_life_years, horizon)} "
                        f"years{less}. "
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
