"""How a sweep is shown: its table, its figures, its words."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr

from mcage.report.cases import Condition, names_in
from mcage.report.presentation import Assumptions, Presentation, Words
from mcage.report.tables import ResultTable
from mcage.results.header import Header
from mcage.sweep.header import SweepHeader
from mcage.sweep.presentation.summary import CaseSummary, summarize, summarize_file, table_of
from mcage.sweep.presentation.words import assumptions_of, outcomes, simulated

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, ReportFigure, Sheet


class SweepPresentation(Presentation):
    """How a sweep is shown."""

    instances = "instances per case"
    grid = ("case",)

    def summarize(self, results: xr.Dataset) -> list[CaseSummary]:
        """Summaries of all cases, in the order of the file."""
        return summarize(results)

    def summarize_file(self, path: Path, where: Sequence[Condition] = ()) -> list[CaseSummary]:
        """Summaries of the cases that fulfil all conditions, read one by one."""
        return summarize_file(path, where)

    def table_of(self, summaries: Sequence[CaseSummary], files: Sequence[Path] = ()) -> ResultTable:
        """Table of the cases, of several files where their paths are given."""
        return table_of(summaries, files)

    def figures(
        self, header: Header, results: xr.Dataset, sheet: "Sheet"
    ) -> "Iterator[ReportFigure | AbsentFigure]":
        """Draw the figures of a results file, one by one."""
        from mcage.sweep.presentation.figures import draw

        assert isinstance(header, SweepHeader)
        return draw(header, results, sheet)

    def words(self, header: Header, results: xr.Dataset) -> Words:
        """What was computed, and which technique lives longest on the same dies."""
        assert isinstance(header, SweepHeader)
        return Words(simulated(header, names_in(results)), tuple(outcomes(results)))

    def assumptions(self, header: Header) -> Assumptions:
        """Models, limits and choices of the spec, and what is left out."""
        assert isinstance(header, SweepHeader)
        return assumptions_of(header)
