"""How a study is shown: its table, its figures, its words. A study overrides what it shows."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.report.cases import Condition, axes_of, names_in, places_where, points_of
from mcage.report.tables import Column, ResultTable, column, columns_of_cases, measured, span
from mcage.results.axes import CASE, Axis, label_of, named_axes
from mcage.results.header import PRESENTATIONS, Header, registered
from mcage.results.measures import Case, Measure, available, cases_of
from mcage.results.reader import open_results
from mcage.stats.estimates import CONFIDENCE, mean, plus_minus

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, Plot, Sheet

Assumptions = list[tuple[str, str]]
"""Subject of each study, and its assumptions."""

LEFT_OUT = "hot-carrier injection, breakdown of the gate oxide and electromigration"
"""Further aging of transistors that no study simulates."""

INTERVALS = (
    "Intervals",
    f"All cover {CONFIDENCE:.0%}: order statistics for B10 and median lives, Wilson's for "
    "shares, Student's t for means, pointwise Kaplan-Meier bands for curves. They say how "
    "far the sample may be off, not how far the model may be, and are not corrected for the "
    "number of comparisons.",
)
"""Meaning of all intervals of a report."""


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


class Summary(dict[str, Any]):
    """Content of a table about a case, by key, and as attributes.

    Its keys are the names of the case along the axes; those of the measures of the study, each with
    an `Estimate`, a number, or None where it does not apply; and what the study adds.
    """

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None


class Presentation:
    """How a study is shown; this one shows any study by the measures that it declares.

    Of a study without measures it shows the mean of every variable. A study registers its own as
    an entry point of the group ``mcage.presentations``.

    Parameters
    ----------
    of : Header or type of Header
        Header of a file of the study, or the class of its headers, which declares its measures.

    Attributes
    ----------
    measures : tuple of Measure
        Its measures.
    grid : tuple of str
        Dimensions along which its cases lie.
    axes : tuple of Axis
        Axes of its cases: of a study that declares none, these dimensions.
    """

    instances: ClassVar[str] = "instances"
    """Name of the instances, in the plural."""

    along: ClassVar[tuple[str, ...]] = ()
    """Further dimensions of which its table has a line for each place."""

    further: ClassVar[tuple[str, ...]] = ()
    """Variables that `added` reads where a file has them, besides those of measures."""

    reads_by_place: ClassVar[bool] = False
    """Whether the table compares with the first case, or knows cases by their places."""

    def __init__(self, of: Header | type[Header]) -> None:
        self.measures = of.measures
        self.grid = of.case_dims if isinstance(of, Header) else of.grid
        self.axes = of.axes or tuple(Axis(dim, dim) for dim in self.grid)

    def summarize(self, results: xr.Dataset, where: Sequence[Condition] = ()) -> list[Summary]:
        """Summarize the cases that fulfil all conditions, in the order of the file.

        Parameters
        ----------
        results : xarray.Dataset
            As `mcage.results.reader.open_results` returns it; read in blocks of cases.
        where : sequence of Condition
            On the names of cases.

        Raises
        ------
        UserError
            A condition has a key that does not exist, or nothing fulfils all of them.
        """
        if not self.measures:
            means = _means(results)
            called = [{"variable": row.variable} for row in means]
            return [means[line] for line in places_where(where, called)] if where else means
        there = available(self.measures, map(str, results.variables))
        needed = {name for measure in there for name in measure.variables}
        needed |= set(self.further) & set(map(str, results.variables))
        return [
            Summary(
                line
                | {"instances": results.sizes["instance"]}
                | self.added(case)
                | self._said(there, case)
            )
            for line, case in chosen_cases(results, (*self.grid, *self.along), needed, where)
        ]

    def added(self, case: Case) -> dict[str, Any]:
        """Content of a summary besides the measures of a case, by key."""
        return {} if math.isnan(case.horizon_years) else {"horizon_years": case.horizon_years}

    def _said(self, there: Sequence[Measure], case: Case) -> dict[str, Any]:
        """Estimates of a case by its measures, at each place of an axis of their own."""
        horizon = case.horizon_years
        of_case: dict[str, Any] = {}
        for measure in self.measures:
            if not measure.axis or measure.axis in self.along:
                said = measure.estimate(case, horizon) if measure in there else None
                of_case |= {key: said for key in (measure.key, measure.also) if key}
        further = [m for m in there if m.axis and m.axis not in self.along]
        for axis in dict.fromkeys(measure.axis for measure in further):
            of_case[f"{axis}s"] = [
                Summary(
                    {f"{axis}_years": at}
                    | {
                        m.key: m.estimate(case.further(**{axis: place}), horizon)
                        for m in further
                        if m.axis == axis
                    }
                )
                for place, at in enumerate(case[axis].tolist())
            ]
        return of_case

    def summarize_file(self, path: Path, where: Sequence[Condition] = ()) -> list[Summary]:
        """Summaries of a file, as `summarize`.

        Raises
        ------
        UserError
            Also if the file is missing, foreign, damaged or of a newer mcage.
        """
        with open_results(path) as results:
            try:
                return self.summarize(results, where)
            except UserError as error:
                raise UserError(f"{path}: {error}") from error

    def table_of(self, summaries: Sequence[Summary]) -> ResultTable:
        """Table of the summaries.

        Parameters
        ----------
        summaries : sequence of Summary
            Of files of the study, at least one; of several files, each says its ``file``.
        """
        if not self.measures:
            return _table_of_means(summaries)
        measures = self.columns(summaries)
        return ResultTable(
            title=self.title(summaries),
            caption=self.caption(summaries, measures),
            columns=(
                *self.named(summaries),
                *(measured(measure, summaries) for measure in measures),
            ),
        )

    def columns(self, summaries: Sequence[Summary]) -> list[Measure]:
        """Measures of which the table has columns, with the headings that they have there."""
        return [
            measure
            for measure in self.measures
            if any(row.get(measure.key) is not None for row in summaries)
        ]

    def title(self, summaries: Sequence[Summary]) -> str:
        """Title of the table: what all lines have in common."""
        counted = f"{span([row.instances for row in summaries])} {self.instances}"
        horizons = [row.horizon_years for row in summaries if "horizon_years" in row]
        return f"{counted}, {span(horizons)} years" if horizons else counted

    def caption(self, summaries: Sequence[Summary], measures: Sequence[Measure]) -> str:
        """Caption of the table: what its columns mean, and what their intervals are."""
        notes = dict.fromkeys(measure.note for measure in measures if measure.note)
        return "; ".join([f"{CONFIDENCE:.0%} intervals", *notes])

    def named(self, summaries: Sequence[Summary]) -> Sequence[Column]:
        """Columns that say which case each line is, and what of it stands in CSV alone."""
        taken = {"file", CASE, *(of.key for of in self.measures), *(of.name for of in self.axes)}
        counts = [
            key
            for key, value in summaries[0].items()
            if key not in taken and isinstance(value, str | int | float)
        ]
        return columns_of_cases(self.axes, summaries, counts)

    def summarize_by(self, results: xr.Dataset, by: str) -> list[Summary]:
        """Summaries of each case by what its instances have hit, where a study says that.

        Raises
        ------
        UserError
            It does not.
        """
        raise UserError(f"by {by}: only flips hit something; mcage inject makes them")

    def table_by(self, summaries: Sequence[Summary], by: str) -> ResultTable:
        """Table of the result of `summarize_by`."""
        raise NotImplementedError

    def figures(self, header: Header, results: xr.Dataset) -> "Iterator[Plot | AbsentFigure]":
        """The figures of a results file, one by one; by default the distribution of each variable.

        Parameters
        ----------
        header : Header
            Header of the file.
        results : xarray.Dataset
            Its content, or some of its cases.

        Raises
        ------
        UserError
            The spec in the file is not one of its study.
        """
        from mcage.report.figures import distributions

        return distributions.draw(header, results)

    def words(self, header: Header, results: xr.Dataset) -> Words:
        """Summary of a results file in sentences: what measures say of each case."""
        simulated = (
            f"The study {header.study} with {header.holds:,} {self.instances} and seed "
            f"{header.seed}."
        )
        if not self.measures:
            return Words(simulated, (("Table", "the mean of each variable over the instances."),))
        summaries = self.summarize(results)
        axes, names = named_axes(self.axes, summaries) or self.axes, names_in(results)
        return Words(
            simulated,
            tuple(
                (
                    (label_of(row, axes, names) or self.instances)
                    + (f" after {row.age_years:g} years" if "age_years" in row else ""),
                    self.sentence(row),
                )
                for row in summaries
            ),
        )

    def sentence(self, summary: Summary) -> str:
        """Measures of a case that a narrow table shows, in a sentence."""
        horizon = summary.get("horizon_years", math.nan)
        shown = [measure for measure in self.columns([summary]) if measure.heading]
        said = (
            f"{measure.title} {measure.in_words(summary[measure.key], horizon)}"
            for measure in [of for of in shown if of.primary] or shown
        )
        return f"{'; '.join(said)}."

    def assumptions(self, header: Header, results: xr.Dataset) -> Assumptions:
        """Models, limits and choices of the spec, and what is left out.

        Raises
        ------
        UserError
            The spec is not that of the study.
        """
        return [INTERVALS]


def lines_along(results: xr.Dataset, dims: Sequence[str]) -> Iterator[dict[str, str | float]]:
    """Name of each line of a table along some dimensions, in the order of the file."""
    of_dims = []
    for dim in dims:
        unit = results[dim].attrs.get("units", "1")
        key = f"{dim}_years" if unit == "year" else dim
        values = results[dim].values.tolist()
        of_dims.append(points_of(results) if dim == CASE else [{key: value} for value in values])
    for parts in product(*of_dims):
        yield {key: name for part in parts for key, name in part.items()}


def chosen_cases(
    results: xr.Dataset, dims: Sequence[str], names: Iterable[str], where: Sequence[Condition]
) -> Iterator[tuple[dict[str, str | float], Case]]:
    """Cases along some dimensions that fulfil all conditions, each with what it is called.

    Parameters
    ----------
    results, dims, names
        As of `mcage.results.measures.cases_of`.
    where : sequence of Condition
        On the names of cases.

    Raises
    ------
    UserError
        A condition has a key that does not exist, or nothing fulfils all of them.
    """
    lines = list(lines_along(results, dims))
    chosen = places_where(where, lines, axes_of(results))
    places = list(np.ndindex(*(results.sizes[dim] for dim in dims)))
    cases = cases_of(results, dims, names, [places[line] for line in chosen])
    yield from zip((lines[line] for line in chosen), cases, strict=True)


# Studies without measures: the mean of each variable.


def _means(results: xr.Dataset) -> list[Summary]:
    """Means of all variables of numbers of instances, in each place of other dimensions."""
    study = str(results.attrs["study"])
    return [
        Summary(
            study=study,
            variable=str(name),
            label=" ".join(str(array[d].values[i]) for d, i in zip(others, place, strict=True)),
            units=str(array.attrs.get("units", "1")),
            instances=int(np.count_nonzero(~np.isnan(values[place]))),
            mean=mean(values[place]),
        )
        for name, array in results.data_vars.items()
        if "instance" in array.dims and "flag_values" not in array.attrs
        for others in ([dim for dim in array.dims if dim != "instance"],)
        for values in (array.transpose(*others, "instance").values,)
        for place in np.ndindex(values.shape[:-1])
    ]


def _table_of_means(lines: Sequence[Summary]) -> ResultTable:
    return ResultTable(
        title=lines[0].study,
        caption=f"means over instances, {CONFIDENCE:.0%} intervals",
        columns=(
            *columns_of_cases((), lines, ()),
            column(lines, "variable", "variable"),
            replace(column(lines, "label", "of"), key="of"),
            replace(column(lines, "units", "unit"), key="unit"),
            column(lines, "instances", "instances", primary=True),
            column(lines, "mean", "mean", plus_minus, primary=True),
        ),
    )


def presentation_of(header: Header) -> Presentation:
    """How the study of a results file is shown."""
    chosen: type[Presentation] = registered(PRESENTATIONS, header.study) or Presentation
    return chosen(header)


def sheet_of(header: Header, results: xr.Dataset, width_mm: float) -> "Sheet":
    """Sheet of a width for the figures of a results file."""
    from mcage.report.figures.canvas import Sheet

    sheet = Sheet.of(header, width_mm, presentation_of(header).instances)
    return replace(sheet, names=tuple(names_in(results).values()))
