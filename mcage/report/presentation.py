"""How a study is shown: its table, its figures, its words. A study overrides what it shows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import xarray as xr

from mcage.report.cases import Condition, axes_of, names_in, selected
from mcage.report.tables import ResultTable, estimates, file_column, names, numbers
from mcage.results.header import PRESENTATIONS, Header, registered
from mcage.results.reader import open_results
from mcage.stats.estimates import CONFIDENCE, Estimate, mean, plus_minus

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, ReportFigure, Sheet

Assumptions = list[tuple[str, str]]
"""What each is about, and what is assumed."""

LEFT_OUT = "hot-carrier injection, breakdown of the gate oxide and electromigration"
"""What ages a transistor besides, and no study simulates."""

INTERVALS = (
    "Intervals",
    f"All cover {CONFIDENCE:.0%}: order statistics for B10 and median lives, Wilson's for "
    "shares, Student's t for means, pointwise Kaplan-Meier bands for curves. They say how "
    "far the sample may be off, not how far the model may be, and are not corrected for the "
    "number of comparisons.",
)
"""What all intervals of a report are."""


@dataclass(frozen=True)
class Words:
    """Summary of a results file.

    Parameters
    ----------
    simulated : str
        What was computed.
    outcomes : tuple of (str, str)
        Of what, and what came out.
    """

    simulated: str
    outcomes: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class VariableSummary:
    """What the table says about a variable.

    Parameters
    ----------
    study : str
        The study that computed it.
    variable, label : str
        The variable, and the place in its other dimensions; empty if it has no others.
    units : str
        Its unit.
    instances : int
        Instances that have a value.
    mean : Estimate
        Mean over these instances.
    """

    study: str
    variable: str
    label: str
    units: str
    instances: int
    mean: Estimate


class Presentation:
    """How a study is shown; this one shows any study by what its files declare.

    A study registers its own as an entry point of the group ``mcage.presentations``.
    """

    instances: ClassVar[str] = "instances"
    """What the instances are, in the plural."""

    grid: ClassVar[tuple[str, ...]] = ()
    """Dimensions along which the study compares; its cases."""

    reads_by_place: ClassVar[bool] = False
    """Whether the table compares with the first case, or knows cases by their places."""

    keys: ClassVar[tuple[str, ...]] = ("variable",)
    """Fields of a summary by which lines of the table are selected."""

    def summarize(self, results: xr.Dataset) -> Sequence[Any]:
        """Summarize all that the table has a line for, in the order of the file.

        Parameters
        ----------
        results : xarray.Dataset
            As `mcage.results.reader.open_results` returns it.
        """
        # By default: all variables of numbers that each instance has.
        study = str(results.attrs["study"])
        return [
            VariableSummary(
                study,
                str(name),
                " ".join(str(array[dim].values[i]) for dim, i in zip(others, place, strict=True)),
                str(array.attrs.get("units", "1")),
                int(np.count_nonzero(~np.isnan(values[place]))),
                mean(values[place]),
            )
            for name, array in results.data_vars.items()
            if "instance" in array.dims and "flag_values" not in array.attrs
            for others in ([dim for dim in array.dims if dim != "instance"],)
            for values in (array.transpose(*others, "instance").values,)
            for place in np.ndindex(values.shape[:-1])
        ]

    def summarize_file(self, path: Path, where: Sequence[Condition] = ()) -> Sequence[Any]:
        """Summaries that fulfil all conditions, in the order of the file.

        Raises
        ------
        UserError
            The file is missing, foreign, damaged or of a newer mcage; or nothing fulfils them.
        """
        with open_results(path) as results:
            return selected(self.summarize(results), where, self.keys, axes_of(results), path)

    def table_of(self, summaries: Sequence[Any], files: Sequence[Path] = ()) -> ResultTable:
        """Table of the summaries, of several files where their paths are given.

        Parameters
        ----------
        summaries : sequence
            Of files of the study, at least one.
        files : sequence of Path
            The file of each of them, where there are several files.
        """
        return ResultTable(
            title=summaries[0].study,
            caption=f"means over instances, {CONFIDENCE:.0%} intervals",
            columns=(
                *file_column(files),
                names("variable", "variable", [row.variable for row in summaries]),
                names("of", "of", [row.label for row in summaries]),
                names("unit", "unit", [row.units for row in summaries]),
                numbers(
                    "instances", "instances", [row.instances for row in summaries], primary=True
                ),
                estimates(
                    "mean", "mean", [row.mean for row in summaries], plus_minus, primary=True
                ),
            ),
        )

    def figures(
        self, header: Header, results: xr.Dataset, sheet: "Sheet"
    ) -> "Iterator[ReportFigure | AbsentFigure]":
        """Draw the figures of a results file, one by one.

        Every variable is read once. By default: the distribution of each.

        Parameters
        ----------
        header : Header
            Header of the file.
        results : xarray.Dataset
            Its content, or some of its cases.
        sheet : Sheet
            What figures are drawn on.

        Raises
        ------
        UserError
            The spec in the file is not one of its study.
        """
        from mcage.report.figures import distributions

        return distributions.draw(header, results, sheet)

    def words(self, header: Header, results: xr.Dataset) -> Words:
        """Summary of a results file in sentences."""
        simulated = (
            f"The study {header.study} with {header.holds:,} instances and seed {header.seed}."
        )
        return Words(simulated, (("Table", "the mean of each variable over the instances."),))

    def assumptions(self, header: Header, results: xr.Dataset) -> Assumptions:
        """Models, limits and choices of the spec, and what is left out.

        Raises
        ------
        UserError
            The spec is not that of the study.
        """
        return [INTERVALS]


def presentation_of(header: Header) -> Presentation:
    """How the study of a results file is shown."""
    chosen: type[Presentation] = registered(PRESENTATIONS, header.study) or Presentation
    return chosen()


def figures_of(
    header: Header,
    results: xr.Dataset,
    width_mm: float,
    title: bool = True,
    height_mm: float | None = None,
) -> "Iterator[ReportFigure | AbsentFigure]":
    """Draw the figures of a results file, one by one, as `Presentation.figures`.

    Parameters
    ----------
    header, results
        As of `Presentation.figures`.
    width_mm : float
        Width of the figures, such as those of `mcage.report.figures.canvas.WIDTHS_MM`.
    title : bool
        Whether figures have a title.
    height_mm : float, optional
        Height of the figures; by default what their panels need.
    """
    from mcage.report.figures.canvas import Sheet

    shown = presentation_of(header)
    sheet = replace(
        Sheet.of(header, width_mm, shown.instances),
        title=title,
        height_mm=height_mm,
        names=tuple(names_in(results).values()),
    )
    return shown.figures(header, results, sheet)


def in_a_row(names: Sequence[str]) -> str:
    """Names with commas and a last "and"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
