"""Measures: the numbers that a study says of a case, each declared once.

Tables, CSV, JSON, pandas, sentences, comparisons, fronts and stopping rules read them. A new one
takes its declaration beside the variables of its study, and the class of the study's headers
names them all.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby, islice, product
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mcage.results.variable import Better, Coordinate, Quantity, Sample, Variable
from mcage.stats.estimates import (
    CONFIDENCE,
    DASH,
    Bools,
    Estimate,
    Floats,
    Range,
    life,
    mean,
    percent,
    plus_minus,
    proportion,
    with_bounds,
)
from mcage.stats.survival import Precision, life_quantile, mean_precision, quantile_precision

if TYPE_CHECKING:
    import xarray as xr

Kind = Literal["mean", "share", "count", "number"]
"""What is estimated: the mean over instances, the share of the instances that have something, how
many have it; or a number of the case itself, which depends on no instance."""

Form = Literal["mean", "bounds", "age", "percent", "short"]
"""How an estimate is written: with half its interval, with its bounds, as an age that may lie
beyond the horizon; or without its interval, in percent with the sign, or in the name's unit."""

Unknown = Literal["left out", "decides"]
"""Rule for the estimate where the value of an instance that works is not known (NaN)."""

Said = Estimate | float | int | None
"""Estimate of a measure for a case; None where it does not apply."""


class Case(Mapping[str, Any]):
    """A case of a study: what its file holds at one point of the axes.

    As a mapping it gives arrays by the name of a variable or coordinate, without the dimensions
    along which the case has a place: float64[instance, ...] of a variable.

    Parameters
    ----------
    arrays : mapping of str to (tuple of str, ndarray)
        Dimensions and values by name.
    index : mapping of str to int
        Where the case lies in these arrays, along dimensions.
    place : mapping of str to int, optional
        Where it lies in its file; by default the same.
    spec_toml : str
        Spec of the study.
    elsewhere : callable, optional
        From places along dimensions to the case of the same file that lies there.
    """

    def __init__(
        self,
        arrays: Mapping[str, tuple[tuple[str, ...], Any]],
        index: Mapping[str, int],
        place: Mapping[str, int] | None = None,
        spec_toml: str = "",
        elsewhere: "Callable[[Mapping[str, int]], Case] | None" = None,
    ) -> None:
        self._arrays, self._index, self._elsewhere = arrays, index, elsewhere
        self.place, self.spec_toml = place or index, spec_toml

    def __getitem__(self, name: str) -> Any:
        dims, values = self._arrays[name]
        return values[tuple(self._index.get(dim, slice(None)) for dim in dims)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def at(self, **place: int) -> "Case":
        """The case of the same file at other places along some dimensions."""
        assert self._elsewhere is not None
        return self._elsewhere({**self.place, **place})

    def further(self, **place: int) -> "Case":
        """The same case at a place along a further dimension, such as that of ages."""
        index, places = {**self._index, **place}, {**self.place, **place}
        return Case(self._arrays, index, places, self.spec_toml, self._elsewhere)

    def along(self, dim: str) -> "Case":
        """The same case at all places along a dimension."""
        index = {of: at for of, at in self._index.items() if of != dim}
        return Case(self._arrays, index, self.place, self.spec_toml, self._elsewhere)

    @property
    def horizon_years(self) -> float:
        """Last age of which results are, years; NaN where results have no ages."""
        name = next((name for name in ("epoch_end_years", "age") if name in self._arrays), "")
        return float(self._arrays[name][1][-1]) if name else math.nan


UNKNOWN = Estimate(math.nan, math.nan, math.nan)
"""Estimate where nothing is known."""


@dataclass(frozen=True)
class Measure:
    """A number of a case, estimated from its instances.

    Parameters
    ----------
    key : str
        Its name in CSV, JSON and pandas, with the unit.
    name : str
        Its name for people, with the unit in brackets.
    variables : tuple of str
        What it is computed from, by default the variable of its key; a file that lacks one of them
        has no such measure.
    values : callable, optional
        From a case to the value of each instance, NaN where it has none or it is not known; of
        shares and counts, whether an instance counts. Of a number, from a case to that number. By
        default the first of the variables.
    heading : str
        Heading of its column; empty if it stands in CSV and JSON alone.
    form : str
        How it is written: see `Form`.
    kind : str
        What is estimated: see `Kind`.
    quantile : float, optional
        The age, or the value, that this share of the instances does not exceed, in place of the
        mean; values that are not finite exceed all others. Where ``end_cause`` is among the
        variables, it says who has died at all.
    estimator : callable, optional
        From a case to its estimate, where none of these gives it; None where it does not apply.
    scale : float
        What makes a value that of the name's unit: by default 100 where that is percent, else 1.
    scale_in_csv : float
        The same for numbers in CSV and pandas, of the few that are not in the unit of their key.
    primary : bool
        Whether its column stays in a narrow terminal.
    of_working : bool
        Whether only instances that worked at all have it.
    works : callable, optional
        From a case to whether each instance works at all, where one that does not still counts.
    not_working : float
        Value that an instance which does not work counts with.
    unknown : str
        What a value that is not known does: see `Unknown`.
    axis : str
        Further dimension of the study, such as that of ages, at each place of which it is a number
        of its own.
    compared : bool
        Whether it is compared case by case.
    by_epoch : tuple of (str, int), optional
        Variable, and place in its last dimension, that has it at the end of each epoch, so that it
        is compared at equal age, too.
    better : {'less', 'more', ''}
        What is better of two values, where it may be an objective; empty where that depends.
    stops, part : str
        By what name a stopping rule knows it; empty if none may. Measures of the same name are
        known together, each with a label of its own.
    note : str
        What the caption of a table says of it.
    also : str
        Another name that it has in JSON, from before keys of CSV and JSON were the same.
    """

    key: str
    name: str
    variables: tuple[str, ...] = ()
    values: Callable[[Any], Any] | None = None
    heading: str = ""
    form: Form = "mean"
    kind: Kind = "mean"
    quantile: float | None = None
    estimator: Callable[[Case], Estimate | None] | None = None
    scale: float = 0.0
    scale_in_csv: float = 1.0
    primary: bool = False
    of_working: bool = False
    works: Callable[[Any], Bools] | None = None
    not_working: float = 0.0
    unknown: Unknown = "left out"
    axis: str = ""
    compared: bool = False
    by_epoch: tuple[str, int] | None = None
    better: Better = ""
    stops: str = ""
    part: str = ""
    note: str = ""
    also: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", self.variables or (self.key,))
        object.__setattr__(self, "scale", self.scale or (100.0 if "[%" in self.name else 1.0))

    @property
    def title(self) -> str:
        """Its name for people, without the unit."""
        return self.name.partition(" [")[0]

    @property
    def unit(self) -> str:
        """The unit of its name."""
        return self.name.rpartition("[")[2].rstrip("]") if "[" in self.name else ""

    def of(self, case: Sample) -> Floats:
        """Value of each instance of a case, as the mean of them counts it."""
        values = np.asarray(self._values(case), np.float64)
        if self.works is not None:
            values = np.where(self.works(case), values, self.not_working)
        if self.unknown == "decides" and np.isnan(values).any():
            return np.full_like(values, np.nan)
        return values

    def _values(self, case: Any) -> Any:
        return case[self.variables[0]] if self.values is None else self.values(case)

    def within(self, horizon_years: float) -> Range | None:
        """Range of its values: ages are counted up to the horizon, and shares are of one."""
        if self.kind == "share":
            return 0.0, 1.0
        return (0.0, horizon_years) if self.form == "age" else None

    def estimate(self, case: Any, horizon_years: float) -> Said:
        """Estimate for a case."""
        if self.estimator is not None:
            return self.estimator(case)
        if self.kind == "number":
            return float(self._values(case))
        values = self.of(case)
        if self.kind == "count":
            return int(np.count_nonzero(values))
        if self.kind == "share":
            known = values[~np.isnan(values)]
            return proportion(int(np.count_nonzero(known)), known.size) if known.size else UNKNOWN
        if self.quantile is not None:
            return life_quantile(values, self._died(case, values), self.quantile)
        return mean(values, within=self.within(horizon_years))

    def precision(self, case: Sample, horizon_years: float, level: float) -> Precision:
        """How precisely the instances of a case tell it, by intervals of a level."""
        values = self.of(case)
        if self.quantile is not None:
            return quantile_precision(values, self._died(case, values), self.quantile, level)
        known = mean_precision(values, level, self.within(horizon_years))
        if self.form == "age" and not values.any():
            # Where every slice is dead on arrival, no number of slices gives a relative precision.
            return replace(known, relative=0.0)
        return known

    def written(self, said: Said, horizon_years: float) -> str:
        """Write what it says of a case, without the unit."""
        if isinstance(said, int):
            return f"{said:,}"
        if not isinstance(said, Estimate):
            if said is None or math.isnan(said):
                return DASH
            return f"{said * self.scale:.4g}"
        if self.form == "short":
            return f"{said.value * self.scale:.3g}"
        if self.form == "age":
            return life(said, horizon_years)
        if self.form == "percent":
            return percent(said.value)
        return (plus_minus if self.form == "mean" else with_bounds)(said, self.scale)

    def in_words(self, estimate: Said, horizon_years: float) -> str:
        """Write what it says of a case with bounds and unit."""
        if self.form == "age" and isinstance(estimate, Estimate):
            return f"{life(estimate, horizon_years)} years"
        text = self.written(estimate, horizon_years)
        if isinstance(estimate, Estimate):
            text = with_bounds(estimate, self.scale)
        return f"{text} {self.unit}".rstrip()

    def _died(self, case: Sample, values: Floats) -> Bools:
        if "end_cause" in self.variables:
            return np.asarray(case["end_cause"] != 0)
        return np.isfinite(values)


def available(measures: Iterable[Measure], names: Iterable[str]) -> tuple[Measure, ...]:
    """Measures all of whose variables are there."""
    there = set(names)
    return tuple(measure for measure in measures if there.issuperset(measure.variables))


# The cases of a results file, as measures see them.

BLOCK_BYTES = 2**26
"""Memory for the variables of the cases that are read together: to open a part of a file by name
takes a hundred times as long as to read a few instances."""


def cases_of(
    results: "xr.Dataset",
    grid: Sequence[str],
    names: Iterable[str],
    places: Sequence[tuple[int, ...]] | None = None,
) -> Iterator[Case]:
    """Cases of a results file, in its order.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it; read in blocks of cases.
    grid : sequence of str
        Dimensions along which cases lie.
    names : iterable of str
        Variables that are needed; coordinates come with them.
    places : sequence of tuple of int, optional
        Where the wanted cases lie along the grid, in the order of the file; by default all.
    """
    needed = results[sorted({*names, *map(str, results.coords)} - {"instance"})]
    spec_toml = str(results.attrs.get("spec", ""))

    def arrays_of(part: "xr.Dataset") -> dict[str, tuple[tuple[str, ...], Any]]:
        variables = part.transpose("instance", ..., missing_dims="ignore").variables
        return {str(n): (tuple(map(str, of.dims)), of.values) for n, of in variables.items()}

    @lru_cache(maxsize=8)
    def read(place: tuple[tuple[str, int], ...]) -> Case:
        part = needed.isel(dict(place), missing_dims="ignore")
        return Case(arrays_of(part), {}, dict(place), spec_toml, elsewhere)

    def elsewhere(place: Mapping[str, int]) -> Case:
        return read(tuple(sorted(place.items())))

    sizes = {dim: results.sizes[dim] for dim in grid}
    wanted = list(np.ndindex(*sizes.values())) if places is None else list(places)
    first, *_ = grid
    of_first = {number: list(of) for number, of in groupby(wanted, itemgetter(0))}
    together = max(1, BLOCK_BYTES * sizes[first] // max(1, needed.nbytes))
    remaining = iter(of_first)
    while numbers := list(islice(remaining, together)):
        arrays = arrays_of(needed.isel({first: numbers}))
        for at, number in enumerate(numbers):
            for place in of_first[number]:
                of_case = dict(zip(grid, place, strict=True))
                yield Case(arrays, of_case | {first: at}, of_case, spec_toml, elsewhere)


# Stopping a campaign.


def quantities_of(
    measures: Iterable[Measure],
    grid: Sequence[str],
    coordinates: Iterable[Coordinate],
    variables: Iterable[Variable],
    spec_toml: str = "",
) -> dict[str, Quantity]:
    """Quantities of declared measures that can stop a campaign, in each of its cases.

    Of a measure with an axis, its number at the last place decides.

    Parameters
    ----------
    measures : iterable of Measure
        Measures of the study.
    grid : sequence of str
        Dimensions along which its cases lie.
    coordinates : iterable of Coordinate
        What labels them.
    variables : iterable of Variable
        What the study computes.
    spec_toml : str
        Its spec.
    """
    together: dict[str, list[Measure]] = {}
    for measure in available(measures, [variable.name for variable in variables]):
        if measure.stops:
            together.setdefault(measure.stops, []).append(measure)
    labels = {
        of.variable.name: (of.variable.dims, np.asarray(of.values))
        for of in coordinates
        if of.variable.name != "instance"
    }
    dims = {variable.name: variable.dims for variable in variables}

    def precisions(
        measures: Sequence[Measure], sample: Sample, level: float = CONFIDENCE
    ) -> dict[str, Precision]:
        arrays = labels | {name: (dims[name], array) for name, array in sample.items()}
        known = {}
        for place in product(*(range(len(labels[dim][1])) for dim in grid)):
            index = dict(zip(grid, place, strict=True))
            label = " ".join(str(labels[dim][1][at]) for dim, at in index.items())
            for measure in measures:
                last = {measure.axis: -1} if measure.axis else {}
                case = Case(arrays, index | last, spec_toml=spec_toml)
                known[f"{label} {measure.part}".rstrip()] = measure.precision(
                    case, case.horizon_years, level
                )
        return known

    def quantity(of: Sequence[Measure]) -> Quantity:
        horizon = Case(labels, {}).horizon_years
        return Quantity(
            of[0].variables,
            partial(precisions, of),
            lambda estimate: of[0].in_words(estimate, horizon),
        )

    return {name: quantity(of) for name, of in together.items()}
