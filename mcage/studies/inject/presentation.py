"""How injections are shown: their table, their figures, and what they say in sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import xarray as xr

from mcage.report.presentation import INTERVALS, Assumptions, Presentation, Summary
from mcage.report.tables import Column, column
from mcage.results.header import Header
from mcage.results.measures import Case, Measure
from mcage.studies.inject.outcomes import asked
from mcage.studies.inject.spec import FLIP, SINGLE

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, Plot


_FLIPS = (
    "One bit that is needed,",
    "Neighbouring cells of a row, of which at least one is needed, or lies in a needed word of a "
    "code,",
)
"""Flips of a single cell, and of several."""


class InjectPresentation(Presentation):
    """How injections are shown."""

    instances = "injections"
    along = ("age",)

    def added(self, case: Case) -> dict[str, Any]:
        """How many injections there are."""
        return {"injections": len(case["fate"])}

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
        return _caption(_is_flip(summaries))

    def figures(self, header: Header, results: xr.Dataset) -> "Iterator[Plot | AbsentFigure]":
        """Outcomes by bit and register of flips, or wrong answers of slices by age."""
        from mcage.studies.inject import figures

        draw = figures.of_flips if "flip_bit" in results else figures.of_slices
        return draw(results)

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
                    f"{_FLIPS[spec.inject.upset != SINGLE]} at any moment, each as likely as its "
                    "rate says; rates of 28 and 16 nm are recalled or extrapolated: worth a factor "
                    "of two.",
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
    return summaries[0].needed is not None


def _caption(is_flip: bool) -> str:
    common = (
        "SDC: the run ends with wrong memory, and no error is reported; beyond: by more than the "
        "tolerance; DUE: detected by an address, a limit of instructions, or a code. "
    )
    if is_flip:
        return common + (
            "Flips reach needed bits, several cells with a code any cell of a needed word; AVF: of "
            "all bits of the register file, by ACE, and as injected: not masked; FIT: of a slice "
            "while it runs the kernel. Slices that are not in use (retired) are left out. Wilson's "
            "95 % intervals."
        )
    return common + (
        "Retired: a test has found that the slice cannot run, its technique finds no room or is "
        "slower than life.slowdown_limit, or its delay has used up the guardband. So far: of "
        "slices that have ever given a silently wrong answer by this age before any detection, "
        "and of those with a detection. Before exchange: times that new faults give a "
        "silently wrong answer over a life, before the exchange rule acts; beside the last age. "
        "Slices that came to an instruction which is not emulated are left out."
    )
