"""Cases of a results file: the names that select them, and their lives."""

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.plain_text import shown, visible
from mcage.results.axes import CASE, LABEL, Axis, Point, Value, label_of, named_axes, said
from mcage.results.header import OLDEST_STUDY, Header, header_class
from mcage.results.reader import open_results
from mcage.stats.estimates import Floats
from mcage.stats.survival import CaseLives

CAUSES = {
    cause: cause.name.lower().replace("_", " ")
    for cause in EndCause
    if cause is not EndCause.CENSORED
}
"""Causes of death in words."""


def cases_in(results: xr.Dataset) -> Iterator[xr.Dataset]:
    """Each case of results, in the order of `points_of`."""
    dims = _dims_of(results)
    for place in np.ndindex(*(results.sizes[dim] for dim in dims)):
        yield results.isel(dict(zip(dims, place, strict=True)))


def _dims_of(results: xr.Dataset) -> list[str]:
    """Dimensions along which cases lie, the last of which varies fastest."""
    if CASE in results.coords:
        return [CASE] if CASE in results.dims else []
    return [axis.name for axis in axes_of(results) if axis.name in results.dims]


def in_a_row(names: Sequence[str]) -> str:
    """Names with commas and a last "and"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def lives_of(case: xr.Dataset) -> CaseLives:
    """Lives of a case of a results file."""
    cause = case["end_cause"].values
    return CaseLives(
        label=str(case["case"].item()),
        years=case["life_years"].values,
        died=cause != EndCause.CENSORED,
        cause=cause,
        horizon_years=float(case["epoch_end_years"][-1]),
    )


SLOWDOWN_VARIABLES = ("life_years", "end_cause", "slowdown_new", "epoch_slowdown")
"""Variables that show how slices become slower with age."""


def slowdown_by_age(case: xr.Dataset) -> tuple[Floats, Floats]:
    """Age 0 and the ends of the epochs, and the slowdown of each slice then: [age], [age, slice].

    That at the end of the epoch in which a slice dies is the one at its death.
    """
    of_epochs = case["epoch_slowdown"].transpose("epoch", "instance").values
    slower = np.concatenate([case["slowdown_new"].values[None], of_epochs])
    return np.concatenate([[0.0], case["epoch_end_years"].values]), slower


def years_until_slower(case: xr.Dataset, limit: float) -> Floats:
    """Age at which each slice is dead or slower than a limit: float64[instance], years.

    Between the ends of epochs, a slowdown is taken to grow with the fourth root of time, by which
    faults grow (numerical).

    Parameters
    ----------
    case : xarray.Dataset
        A case of a sweep.
    limit : float
        Slowdown, as a fraction.

    Returns
    -------
    ndarray of float [instance]
        The horizon where a slice is neither by then.
    """
    ages, slower = slowdown_by_age(case)
    years = case["life_years"].values.copy()
    years[slower[0] > limit] = 0.0
    for epoch, (before, after) in enumerate(pairwise(slower)):
        crosses = (before <= limit) & (after > limit)
        start, end = ages[epoch] ** 0.25, np.minimum(ages[epoch + 1], years[crosses]) ** 0.25
        part = (limit - before[crosses]) / (after[crosses] - before[crosses])
        years[crosses] = np.minimum(years[crosses], (start + part * (end - start)) ** 4)
    return np.asarray(years)


@dataclass(frozen=True)
class NamedCase:
    """A case by the names that figures and sentences give it.

    Parameters
    ----------
    places : tuple of int
        Its place among the cases of the results, or those of several that share a curve.
    name : str
        What tells its curve from the others of a panel: its technique, and its values on other axes
        by which cases differ and that are no conditions.
    conditions : str
        What the cases of a panel share: their values on the axes that are `Axis.condition`.
    identity : str
        The technique as the file has it, by which it looks; empty where there is none.
    """

    places: tuple[int, ...]
    name: str
    conditions: str
    identity: str


def named_cases(results: xr.Dataset) -> list[NamedCase]:
    """Cases of results by their names for people, in the order of the file."""
    points, people = points_of(results), names_in(results)
    named = named_axes(axes_of(results), points)
    conditions = [axis for axis in named if axis.condition]
    others = [axis for axis in named if not axis.condition and not axis.derived]

    return [
        NamedCase(
            (place,),
            visible(label_of(point, others, people) or said(point)),
            visible(label_of(point, conditions)),
            str(point.get("technique", "")),
        )
        for place, point in enumerate(points)
    ]


NAMES = "technique_names"
"""Attribute of results: names of techniques for people, by what the file calls them, as JSON."""


def names_in(results: xr.Dataset) -> dict[str, str]:
    """Names for people of techniques, by what the file calls them; others bear that name."""
    names: dict[str, str] = json.loads(results.attrs.get(NAMES, "{}"))
    return {technique: visible(name) for technique, name in names.items()}


def names_for(headers: Sequence[Header], labels: Mapping[str, str]) -> dict[str, str]:
    """Names for people of the techniques of files: labels, or else what techniques call themselves.

    Parameters
    ----------
    headers : sequence of Header
        Headers of the files.
    labels : mapping of str to str
        Names by technique or policy, as the files call it.

    Raises
    ------
    UserError
        No file has such a technique, a label is empty, or two techniques would have the same name.
    """
    coordinates = [coordinate for header in headers for coordinate in header.coordinates]
    there = dict.fromkeys(
        str(value)
        for coordinate in coordinates
        if coordinate.variable.name in ("technique", "policy")
        for value in coordinate.values
    )
    for technique, label in labels.items():
        if technique not in there:
            raise UserError(
                f"label of {shown(technique)}: there is none; there are {', '.join(there)}"
            )
        if not label.strip():
            raise UserError(f"label of {shown(technique)}: it is empty")
        _check_mathematics(technique, label)
    declared = (json.loads(header.declaration().get(NAMES, "{}")) for header in headers)
    names = {name: label for of_file in declared for name, label in of_file.items()} | dict(labels)
    bearers: dict[str, str] = {}
    for technique in there:
        name = names.get(technique, technique)
        if bearers.setdefault(name, technique) != technique:
            raise UserError(
                f"{shown(bearers[name])} and {shown(technique)} would both be called "
                f"{shown(name)}: give them other labels"
            )
    return names


def _check_mathematics(technique: str, label: str) -> None:
    """Refuse a label whose mathematics no figure could show."""
    if "$" not in label:
        return
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(label)
    except ValueError as error:
        why = str(error).splitlines()[-1]
        raise UserError(f"label of {shown(technique)}: {shown(label)}: {why}") from error


def parsed_labels(texts: Iterable[str]) -> dict[str, str]:
    """Read the names of techniques as they are given on the command line: ``TECHNIQUE=NAME``.

    Raises
    ------
    UserError
        One has no equals sign, or a technique has several.
    """
    pairs = {}
    for text in texts:
        technique, equals, label = text.partition("=")
        if not equals:
            raise UserError(f"--label {shown(text)}: TECHNIQUE=NAME is needed, such as rrcd=RRCD")
        if (technique := technique.strip()) in pairs:
            raise UserError(f"--label {shown(text)}: {shown(technique)} is given twice")
        pairs[technique] = label.strip()
    return pairs


def with_names(results: xr.Dataset, names: Mapping[str, str]) -> xr.Dataset:
    """Results whose techniques have other names for people, as `names_for` returns them."""
    return results.assign_attrs({NAMES: json.dumps(dict(names))})


# The cases of a dataset as points.


def axes_of(results: xr.Dataset) -> tuple[Axis, ...]:
    """Axes of results: those that their study declares; of others, of the coordinates that name.

    These are the coordinates along ``case``, or else the dimensions of texts.
    """
    declared = header_class(str(results.attrs.get("study", OLDEST_STUDY))).axes
    if declared:
        return tuple(axis for axis in declared if axis.name in results.coords)
    coordinates = [results[name] for name in results.coords]
    if CASE in results.coords:
        dims = results[CASE].dims
        named = [each for each in coordinates if each.dims == dims and each.name != CASE]
    else:
        named = [
            each
            for each in coordinates
            if each.dtype.kind in "OUT" and each.dims in ((), (each.name,))
        ]
    return tuple(map(_declared_by, named))


def _declared_by(coordinate: xr.DataArray) -> Axis:
    """Axis of a study that declares none, as its coordinate describes it."""
    return Axis(
        str(coordinate.name),
        str(coordinate.attrs.get("long_name", coordinate.name)),
        units=str(coordinate.attrs.get("units", "1")),
        dtype="text" if coordinate.dtype.kind in "OUT" else coordinate.dtype.name,
    )


def points_of(results: xr.Dataset) -> list[dict[str, Value]]:
    """Cases of results as points, in the order of the file.

    Without the dimension ``case``, they are the places of the dimensions that are axes, the last
    varying fastest.
    """
    axes = axes_of(results)
    is_case = CASE in results.coords
    names = [axis.name for axis in ((LABEL, *axes) if is_case else axes)]
    columns = [np.atleast_1d(results[name].values).tolist() for name in names]
    lines = zip(*columns, strict=True) if is_case else product(*columns)
    return [dict(zip(names, line, strict=True)) for line in lines]


# Which cases of a results file are wanted: conditions such as ``technique=rrcd``.

Summary = TypeVar("Summary")

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Between a key and a value; the last four are for numbers."""

SAME_NUMBER = 1e-9
"""Numbers that differ by less are equal but for rounding."""


@dataclass(frozen=True)
class Condition:
    """Conditions that cases must fulfil to be shown.

    Parameters
    ----------
    key : str
        Coordinate of the cases.
    comparison : str
        A key of `COMPARISONS`.
    values : tuple of str
        Values of which, for ``=``, any will do, and for ``!=``, none may be; otherwise one number.
    """

    key: str
    comparison: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """Read a condition as it is given on the command line.

        Raises
        ------
        UserError
            It is none.
        """
        match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(!=|<=|>=|=|<|>)(.+)", text, re.DOTALL)
        if match is None:
            raise UserError(
                f"--where {shown(text)}: KEY=VALUE is needed, such as technique=rrcd, or another "
                f"comparison: {' '.join(COMPARISONS)}"
            )
        key, comparison, alternatives = match.groups()
        values = tuple(value.strip() for value in alternatives.split(","))
        if comparison not in ("=", "!=") and (len(values) > 1 or _number(values[0]) is None):
            raise UserError(f"--where {shown(text)}: {comparison} compares with one number")
        return cls(key, comparison, values)

    def holds(self, actual: str | float) -> bool:
        """Whether a case with this value of the key fulfils it."""
        if self.comparison in ("=", "!="):
            same = any(_same(actual, value) for value in self.values)
            return same == (self.comparison == "=")
        bound = _number(self.values[0])
        if isinstance(actual, str) or bound is None:
            raise UserError(f"--where {self}: {self.key} is no number; use = or !=")
        if abs(actual - bound) <= SAME_NUMBER:
            return "=" in self.comparison
        return COMPARISONS[self.comparison](actual, bound)

    def __str__(self) -> str:
        return shown(f"{self.key}{self.comparison}{','.join(self.values)}")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _same(actual: str | float, text: str) -> bool:
    if isinstance(actual, str):
        return actual == text
    number = _number(text)
    return number is not None and abs(actual - number) <= SAME_NUMBER


def places_where(
    conditions: Sequence[Condition], points: Sequence[Point], axes: Sequence[Axis] = ()
) -> list[int]:
    """Places of the points that fulfil all conditions.

    Parameters
    ----------
    conditions : sequence of Condition
        What they must fulfil.
    points : sequence of Point
        Values by name; all points have the same names.
    axes : sequence of Axis
        Axes, by whose keys their values are known, too.

    Raises
    ------
    UserError
        A key does not exist, or no point fulfils all of the conditions; the message says which
        keys and values there are.
    """
    names = {axis.key: axis.name for axis in axes if axis.key}
    keys = {name: key for key, name in names.items()}
    kept = list(range(len(points)))
    for condition in conditions:
        name = names.get(condition.key, condition.key)
        if name not in points[0]:
            raise UserError(
                f"--where {condition}: there is no key {shown(condition.key)}; "
                f"the keys are {', '.join(keys.get(name, name) for name in points[0])}"
            )
        there = dict.fromkeys(point[name] for point in points)
        kept = [place for place in kept if condition.holds(points[place][name])]
        if not any(condition.holds(value) for value in there):
            values = ", ".join(
                shown(f"{value:g}" if isinstance(value, float) else value) for value in there
            )
            raise UserError(
                f"--where {condition}: nothing has it; values of {condition.key}: {values}"
            )
    if not kept:
        together = " and ".join(map(str, conditions))
        raise UserError(
            f"--where {together}: nothing has all of it; alternatives are separated by commas"
        )
    return kept


def selected_cases(results: xr.Dataset, conditions: Sequence[Condition]) -> xr.Dataset:
    """Cases that fulfil all conditions.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it.
    conditions : sequence of Condition
        On their axes. Of results without cases, on the names along the only dimension of texts.

    Raises
    ------
    UserError
        As `places_where`; or there are several dimensions of texts, or none.
    """
    if not conditions:
        return results
    axes, points = axes_of(results), points_of(results)
    if CASE in results.dims:
        return results.isel(case=places_where(conditions, points, axes))
    if len(axes) != 1:
        raise UserError(
            f"--where {conditions[0]}: these results have no cases; mcage show selects lines of "
            "their table"
        )
    return results.isel({axes[0].name: places_where(conditions, points)})


def summarized(
    path: Path,
    summarize: Callable[[xr.Dataset], Summary],
    conditions: Sequence[Condition] = (),
) -> Summary:
    """Results of a function for the cases of a file that fulfil all conditions.

    Parameters
    ----------
    path : Path
        Results file of a sweep.
    summarize : callable
        Function of the open file.
    conditions : sequence of Condition
        As for `selected_cases`.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage; or as `selected_cases` and the
        function, with the name of the file.
    """
    with open_results(path) as results:
        try:
            return summarize(selected_cases(results, conditions))
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
