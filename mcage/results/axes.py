"""Axes: what the cases of a study differ by, each declared once. A case is a point on them.

An axis is a coordinate of results files and datasets, a key of ``sel`` and ``--where``, a column of
tables, CSV, JSON and pandas, and the x axis of a figure if it is one of numbers: all of it follows
from its declaration in the ``axes`` of its study's header. Labels of cases are made of axes, for
people; nothing is found by a label but what a user types.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.results.variable import Better, Coordinate, Variable

CASE = "case"
"""The dimension of the cases; its coordinate holds their labels."""

NAMED_FOR_PEOPLE = ("technique", "policy")
"""Axes whose values have other names for people; see `mcage.report.cases.names_for`."""

JOINED = "@"
"""Stands between parts of the name of a case where a user types one: ``rrcd@secded32``."""

Value = str | float
Point = Mapping[str, Value]
"""Values by the names of axes; in files beside the label of the case, which is named `CASE`."""


@dataclass(frozen=True)
class Axis:
    """Something by which cases differ.

    Parameters
    ----------
    name : str
        Name of its coordinate, and of its column for programs.
    long_name : str
        What it is, for people.
    of : callable, optional
        From a planned case of its study to the value of the case, where cases are planned.
    of_spec : callable, optional
        From the plain values of a spec and the name of an environment to the value of its cases: of
        what differs from file to file, or with the environment, alone.
    units : str
        Unit of its numbers, as of a `Variable`.
    dtype : str
        ``"text"``, or the NumPy name of a type of numbers.
    key : str
        Another name by which a user may select its values, such as ``vdd`` of ``vdd_volts``.
    heading : str
        Heading of its column for people, where the column is shown; the long name by default.
    named : {'always', 'differing', 'never'}
        Whether labels and tables for people have its value: in any file, only where cases of the
        file differ in it, or never, since another axis says it.
    derived : bool
        Whether other axes decide its value, so that it alone distinguishes no cases.
    moves : tuple of str
        Axes of names that change with it, such as the environment with its temperature. Along it,
        all other axes tell curves apart.
    better : {'less', 'more', ''}
        What is better of two values, where it may be an objective; empty where that depends.
    condition : bool
        Whether cases are compared under one value of it: figures have a panel for each, and
        summaries a sentence.
    """

    name: str
    long_name: str
    of: Callable[[Any], Value] | None = None
    units: str = "1"
    dtype: str = "text"
    key: str = ""
    heading: str = ""
    named: Literal["always", "differing", "never"] = "differing"
    derived: bool = False
    moves: tuple[str, ...] = ()
    of_spec: Callable[[Mapping[str, Any], str], Value] | None = None
    better: Better = ""
    condition: bool = False

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers."""
        return self.dtype != "text"

    def variable(self, dim: str = CASE) -> Variable:
        """Its coordinate along a dimension."""
        return Variable(self.name, (dim,), self.dtype, self.units, self.long_name)

    def coordinate(self, values: Sequence[Any], dim: str = CASE) -> Coordinate:
        """Its coordinate along a dimension, with these values."""
        return Coordinate(self.variable(dim), values)

    def written(self, value: Value) -> str:
        """A value for people, with its unit."""
        if isinstance(value, str):
            return value
        unit = "" if self.units == "1" else f" {self.units}"
        return f"{value:.10g}{unit}"

    @property
    def title(self) -> str:
        """Heading of its column, or what a figure's axis says, with the unit."""
        unit = "" if self.units == "1" else f" [{self.units}]"
        return self.heading or f"{self.long_name}{unit}"


def differing(axes: Iterable[Axis], points: Sequence[Point]) -> tuple[Axis, ...]:
    """Axes of which points have several values."""
    return tuple(axis for axis in axes if len({point[axis.name] for point in points}) > 1)


def identity(point: Point, axes: Iterable[Axis]) -> frozenset[tuple[str, Value]]:
    """Properties by which a case is the same in two files, whose specs are compared separately."""
    names = {axis.name for axis in axes if not axis.derived and not axis.of_spec}
    return frozenset((name, value) for name, value in point.items() if name in names)


def named_axes(axes: Iterable[Axis], points: Sequence[Point]) -> tuple[Axis, ...]:
    """Axes whose values people read beside each of these points."""
    axes = tuple(axes)
    several = differing(axes, points)
    return tuple(
        axis
        for axis in axes
        if axis.named == "always" or (axis.named == "differing" and axis in several)
    )


def label_of(point: Point, axes: Iterable[Axis], names: Mapping[str, str] | None = None) -> str:
    """Values of a point on some axes, for people, who may know techniques by other names."""
    return " ".join(
        (names or {}).get(str(point[axis.name]), str(point[axis.name]))
        if axis.name in NAMED_FOR_PEOPLE
        else axis.written(point[axis.name])
        for axis in axes
    )


def labelled(axes: Sequence[Axis], points: Sequence[Point]) -> tuple[dict[str, Value], ...]:
    """Points with their labels, by the name `CASE`."""
    shown = named_axes(axes, points)
    return tuple({CASE: label_of(point, shown), **point} for point in points)


def points_of_cases(
    axes: Sequence[Axis], cases: Iterable[Any], spec: Mapping[str, Any]
) -> tuple[dict[str, Value], ...]:
    """Points of planned cases, with their labels.

    Parameters
    ----------
    axes : sequence of Axis
        Those of their study, each with `Axis.of` or `Axis.of_spec`.
    cases : iterable
        What `Axis.of` takes.
    spec : mapping
        Plain values of their spec.
    """
    points = ({axis.name: axis.of(case) for axis in axes if axis.of} for case in cases)
    return labelled(axes, [point | values_of_spec(axes, spec, point) for point in points])


def values_of_spec(axes: Iterable[Axis], spec: Mapping[str, Any], point: Point) -> dict[str, Value]:
    """Values that a spec and the environment of a point decide, by the names of axes."""
    environment = str(point.get("environment", ""))
    return {axis.name: axis.of_spec(spec, environment) for axis in axes if axis.of_spec}


def coordinates_of(axes: Sequence[Axis], points: Sequence[Point]) -> tuple[Coordinate, ...]:
    """Coordinates of cases: their labels, and their values on each axis."""
    return tuple(axis.coordinate([point[axis.name] for point in points]) for axis in (LABEL, *axes))


LABEL = Axis(CASE, "case")
"""Labels of cases, which users select by, too."""


def without_label(point: Point) -> dict[str, Value]:
    """A point on its axes alone."""
    return {name: value for name, value in point.items() if name != CASE}


def find_point(points: Sequence[Point], name: str, axes: Iterable[Axis] = ()) -> int:
    """Find the only case that a user means.

    Parameters
    ----------
    points : sequence of Point
        The cases of a file.
    name : str
        The whole label of a case as the user reads it; or values of axes, in any order, with spaces
        or `JOINED` between them (``rrcd dvfs``, ``rrcd@secded32``), each as it is or, if no case
        has them all, its beginning.
    axes : iterable of Axis
        Axes of the points; values that all cases of a file share by its spec find none.

    Returns
    -------
    int
        Place of the case.

    Raises
    ------
    UserError
        No case has these values, or several have.
    """
    labels = [point.get(CASE) for point in points]
    if labels.count(name) == 1:
        return labels.index(name)
    wanted = name.replace(JOINED, " ").split()
    shared = {CASE, *(axis.name for axis in axes if axis.of_spec)}
    of_cases = [_words(point, shared) for point in points]
    for has in (_has_words, _has_beginnings):
        places = [place for place, words in enumerate(of_cases) if wanted and has(words, wanted)]
        if len(places) == 1:
            return places[0]
        if places:
            meant = ", ".join(repr(said(points[place])) for place in places)
            raise UserError(f"case {name!r} may be {meant}: say more of it")
    raise UserError(f"no case {name!r}; there are {', '.join(repr(said(p)) for p in points)}")


def said(point: Point) -> str:
    """A case in words: its label, or its values."""
    return str(point.get(CASE, " ".join(map(str, point.values()))))


def _words(point: Point, without: Collection[str]) -> list[str]:
    return [
        word
        for name, value in point.items()
        if name not in without
        for word in (value if isinstance(value, str) else f"{value:.10g}").split()
    ]


def _has_words(words: Sequence[str], wanted: Sequence[str]) -> bool:
    return set(wanted) <= set(words)


def _has_beginnings(words: Sequence[str], wanted: Sequence[str]) -> bool:
    return all(any(word.startswith(part) for word in words) for part in wanted)


# Cases along an axis of numbers: what a figure draws against it.


@dataclass(frozen=True)
class Along:
    """Cases that differ along one axis alone: a curve.

    Parameters
    ----------
    point : Point
        What they share on the other axes.
    label : str
        Their values on those of these axes by which curves differ; empty of a single curve.
    x : float64[n]
        Values on the axis, rising.
    places : tuple of int
        Places of the cases, in that order.
    """

    point: Point
    label: str
    x: NDArray[np.float64]
    places: tuple[int, ...]


def along(
    name: str,
    axes: Sequence[Axis],
    points: Sequence[Point],
    names: Mapping[str, str] | None = None,
) -> list[Along]:
    """Curves of cases along an axis of numbers, one for each point on the other axes.

    Axes whose values others decide (`Axis.derived`) tell no curves apart. To draw a measure against
    Vdd: ``along("vdd", axes_of(results), points_of(results))``, by `mcage.report.cases`, and of
    each curve the measure of ``results.isel(case=list(curve.places))`` against ``curve.x``, with
    ``axis_named(...).title`` below it.

    Parameters
    ----------
    name : str
        Name or key of the axis.
    axes, points
        Of the results, as of `mcage.report.cases.axes_of` and `points_of`.
    names : mapping of str to str, optional
        As of `label_of`.

    Raises
    ------
    UserError
        There is no such axis of numbers, or cases differ along another one alone.
    """
    axis = axis_named(name, axes)
    if not axis.is_number:
        numbers = ", ".join(other.name for other in axes if other.is_number) or "none"
        raise UserError(f"axis {name}: is one of names; axes of numbers: {numbers}")
    others = [
        other
        for other in axes
        if other.name not in (axis.name, *axis.moves) and (axis.moves or not other.derived)
    ]
    several = [
        other for other in differing(others, points) if not axis.moves or other.named != "never"
    ]
    curves: dict[tuple[Value, ...], list[int]] = {}
    for place, point in enumerate(points):
        curves.setdefault(tuple(point[other.name] for other in others), []).append(place)
    result = []
    for of_others, places in curves.items():
        places.sort(key=lambda place: points[place][axis.name])
        x = np.array([points[place][axis.name] for place in places], np.float64)
        if (np.diff(x) == 0).any():
            raise UserError(f"axis {name}: two cases differ in nothing else")
        shared = {other.name: value for other, value in zip(others, of_others, strict=True)}
        result.append(Along(shared, label_of(shared, several, names), x, tuple(places)))
    return result


def axis_named(name: str, axes: Sequence[Axis]) -> Axis:
    """Axis of this name or key.

    Raises
    ------
    UserError
        There is none.
    """
    for axis in axes:
        if name in (axis.name, axis.key):
            return axis
    raise UserError(f"axis {name}: there is none; there are {', '.join(a.name for a in axes)}")
