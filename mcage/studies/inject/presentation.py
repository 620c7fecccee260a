"""How injections are shown: their table, their figures, and what they say in sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from typing_extensions import override

from mcage.errors import UserError
from mcage.report.cases import cases_in, points_of
from mcage.report.presentation import INTERVALS, Assumptions, Presentation, Summary
from mcage.report.tables import Column, ResultTable, column, columns_of_cases
from mcage.results.header import Header
from mcage.results.measures import Case, Measure
from mcage.stats.estimates import proportion, with_bounds
from mcage.studies.inject.outcomes import (
    BITS,
    CELLS,
    LANES,
    NOT_RUN,
    PLACES,
    RESULTS,
    SHARES,
    SLICES,
    asked,
    population,
)
from mcage.studies.inject.spec import FLIP
from mcage.studies.sweep.axes import AXES

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, Plot


_FLIPS = {
    BITS: "One bit that is needed, at any moment, each as likely as its rate says; rates of 28 and "
    "16 nm are recalled or extrapolated: worth a factor of two.",
    CELLS: "Neighbouring cells of a row, of which at least one is needed, or lies in a needed word "
    "of a code, at any moment, each as likely as its rate says; rates of 28 and 16 nm are recalled "
    "or extrapolated: worth a factor of two.",
    LANES: "A lane's register that is needed, at any moment at which it is, each as likely.",
    RESULTS: "The result of an instruction in a lane, just after it, needed or not, each as "
    "likely: not to be set beside shares that are weighted by time.",
    PLACES: "At chosen places and moments: shares are those of what was chosen.",
}
"""What flips are drawn from."""


class InjectPresentation(Presentation):
    """How injections are shown."""

    instances = "injections"
    along = ("age",)

    def added(self, case: Case) -> dict[str, Any]:
        """How many injections there are, and of what."""
        return {"injections": len(case["fate"]), "population": population(asked(case.spec_toml))}

    def named(self, summaries: Sequence[Summary]) -> list[Column]:
        """The case, and the age where there are several, or slices: lines of a case together."""
        has_ages = len({row.age_years for row in summaries}) > 1 or not _is_flip(summaries)
        columns = [of for of in super().named(summaries) if of.key != "age_years"]
        if not has_ages:
            return columns
        age = column(summaries, "age_years", "age\n[years]", "{:g}".format, primary=True)
        return [*(replace(of, groups=bool(of.heading)) for of in columns), age]

    def columns(self, summaries: Sequence[Summary]) -> list[Measure]:
        """All measures; retired slices of flips, and what is not emulated, where there are such."""
        is_flip = _is_flip(summaries)
        is_empty = {
            "retired": is_flip and not any(row.retired.value for row in summaries),
            "not_emulated": not any(row.not_emulated for row in summaries),
        }
        return [
            replace(of, primary=is_flip) if of.key == "masked" else of
            for of in super().columns(summaries)
            if not is_empty.get(of.key)
        ]

    def title(self, summaries: Sequence[Summary]) -> str:
        """Meaning of the lines."""
        return "Injections"

    def caption(self, summaries: Sequence[Summary], measures: Sequence[Measure]) -> str:
        """Meaning of the columns, of flips or of slices."""
        of = dict.fromkeys(row.population for row in summaries)
        return _COMMON + " ".join(_CAPTIONS[population] for population in of)

    def figures(self, header: Header, results: xr.Dataset) -> "Iterator[Plot | AbsentFigure]":
        """Outcomes by bit and register of flips, or wrong answers of slices by age."""
        from mcage.studies.inject import figures

        draw = figures.of_flips if "flip_bit" in results else figures.of_slices
        return draw(results)

    @override
    def summarize_by(self, results: xr.Dataset, by: str) -> list[Summary]:
        """Outcomes of the flips of each case by what they have hit.

        Parameters
        ----------
        results : xarray.Dataset
            Of flips.
        by : str
            One of `BY`, the endings of variables.

        Returns
        -------
        list of Summary
            Of each case: ``hit``, a summary for each place with its number (of an instruction also
            its line), the flips there and their shares, at the last age.

        Raises
        ------
        UserError
            The file has no flips, or does not say what they have hit.
        """
        if by not in BY or f"flip_{by}" not in results:
            raise UserError(
                f"by {by}: no flips are counted by that; those of injections without --fault are "
                f"by {', '.join(BY)}"
            )
        lines = results["instruction"].values if by == "instruction" else None
        summaries = []
        for point, of in zip(points_of(results), cases_in(results), strict=True):
            fate = of["fate"].transpose("instance", "age").values[:, -1]
            hit, counted = of[f"flip_{by}"].values, ~np.isin(fate, NOT_RUN)
            places = []
            for number in np.unique(hit[counted]).tolist():
                fates = fate[counted & (hit == number)]
                places.append(
                    Summary(
                        {by: number if lines is None else str(lines[number]), "flips": len(fates)}
                        | {
                            key: proportion(int(np.isin(fates, of_key).sum()), len(fates))
                            for key, _, of_key, *_ in _OF_PLACES
                        }
                    )
                )
            summaries.append(Summary(point | {"hit": places}))
        return summaries

    @override
    def table_by(self, summaries: Sequence[Summary], by: str) -> ResultTable:
        """Table with a line for each case and what was hit, of the result of `summarize_by`."""
        lines = [{**row, **place} for row in summaries for place in row.hit]
        for line in lines:
            del line["hit"]
        return ResultTable(
            title=f"Flips by {by}",
            caption=f"{_COMMON}Instructions: those that have left the value that was hit. Wilson's "
            "95 % intervals.",
            columns=(
                *columns_of_cases([axis for axis in AXES if axis.name in lines[0]], lines),
                column(lines, by, by, primary=True),
                column(lines, "flips", "flips", "{:,}".format, primary=True),
                *(
                    column(
                        lines,
                        key,
                        f"{heading}\n[%]",
                        lambda share: with_bounds(share, 100.0),
                        primary=key != "sdc_beyond",
                    )
                    for key, _, _, heading, *_ in _OF_PLACES
                ),
            ),
        )

    def assumptions(self, header: Header, results: xr.Dataset) -> Assumptions:
        """Assumptions."""
        spec = asked(header.spec_toml)
        assumed = [
            (
                "Scope",
                "The register file of one SIMD unit alone: no logic, no caches, no scalar "
                "registers; one kernel, with its inputs.",
            ),
            (
                "Detection",
                "An address in a page of 4 KiB without a buffer, three times the instructions, or "
                "a code. No program checks its own results.",
            ),
        ]
        if spec.inject.fault == FLIP:
            assumed.append(
                (
                    "Flips",
                    _FLIPS[population(spec)],
                )
            )
        elif spec.inject.stuck_cells is not None:
            assumed.append(
                (
                    "Faulty cells",
                    "Those of a file, which also says what each gives, or that it is drawn. They "
                    "are faulty from the beginning, and no test has found them.",
                )
            )
        else:
            assumed.append(
                (
                    "Faulty cells",
                    "Each gives the value of its transistor that has shifted less, or a drawn one "
                    "if it is faulty when new; tests find faulty cells at intervals of "
                    f"{spec.inject.test_interval_years:g} years.",
                )
            )
        return [*assumed, INTERVALS]


def _is_flip(summaries: Sequence[Summary]) -> bool:
    return str(summaries[0].population) != SLICES


_COMMON = (
    "SDC: the run ends with wrong memory, and no error is reported; beyond: by more than the "
    "tolerance; DUE: detected by an address, a limit of instructions, or a code. "
)
_OF_CELLS = (
    "Flips reach needed bits, several cells with a code any cell of a needed word; AVF: of "
    "all bits of the register file, by ACE, and as injected: not masked; FIT: of a slice "
    "while it runs the kernel. Slices that are not in use (retired) are left out. Wilson's "
    "95 % intervals."
)
_CAPTIONS = {
    BITS: _OF_CELLS,
    CELLS: _OF_CELLS,
    LANES: "Flips reach needed registers of lanes. Wilson's 95 % intervals.",
    RESULTS: "Flips reach results of instructions, each lane of each as likely, needed or not: "
    "shares weighted by time are others. Wilson's 95 % intervals.",
    PLACES: "Flips reach chosen places. Wilson's 95 % intervals, of places chosen at random.",
    SLICES: "Retired: a test has found that the slice cannot run, its technique finds no room or "
    "is slower than life.slowdown_limit, or its delay has used up the guardband. So far: of "
    "slices that have ever given a silently wrong answer by this age before any detection, "
    "and of those with a detection. Before exchange: times that new faults give a "
    "silently wrong answer over a life, before the exchange rule acts; beside the last age. "
    "Slices that came to an instruction which is not emulated are left out.",
}


BY = ("instruction", "register", "bit", "lane")
"""What flips can be counted by; variables of files are named after it."""

_OF_PLACES = SHARES[:4]
"""Shares of what has hit one place; those of ways of detection would hold a few flips each."""
