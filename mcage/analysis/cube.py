"""The cases of a sweep as a cube: technique, environment, scenario and Vdd as dimensions.

The cube reads from the file what is asked of it, as the dataset does of which it is made.
Imports xarray, which takes long: to be imported where it is needed.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing
from xarray.core.dtypes import maybe_promote

from mcage.errors import UserError

CASE = "case"
PARTS = ("technique", "environment", "scenario", "vdd_volts")
"""Parts of cases that may be dimensions of a cube, in this order."""

NOWHERE = -1
"""Stands in the table of a cube where there is no case."""

Columns = Mapping[str, Sequence[Any]]


def cube_of(results: xr.Dataset, dims: Sequence[str] = ()) -> xr.Dataset:
    """Cases along dimensions of their own, as `Analysis.cube` says.

    Parameters
    ----------
    results : xarray.Dataset
        Several cases.
    dims : sequence of str
        Among `PARTS`; empty: the first three, and the Vdd if it is needed to tell cases apart.

    Raises
    ------
    UserError
        There are no cases, a dimension is no part of them, or two cases would lie in one place.
    """
    if CASE not in results.dims:
        raise UserError("a cube is made of several cases of a sweep; these results have none")
    if unknown := [name for name in dims if name not in PARTS]:
        raise UserError(f"{unknown[0]!r} is no dimension of a cube; there are {', '.join(PARTS)}")
    columns = {str(n): c.values.tolist() for n, c in results.coords.items() if c.dims == (CASE,)}
    names = list(dims or PARTS[:3])
    if not dims and _first_in_one_place(columns, names):
        names = list(PARTS)
    if both := _first_in_one_place(columns, names):
        first, second = (columns[CASE][place] for place in both)
        raise UserError(
            f"{first!r} and {second!r} are alike in {', '.join(names)}: name more dimensions"
        )
    axes = {name: _axis(columns[name]) for name in names}
    table = np.full([len(axis) for axis in axes.values()], NOWHERE)
    places = [[axes[name].index(value) for value in columns[name]] for name in names]
    table[tuple(places)] = range(results.sizes[CASE])
    others = {
        name: _coordinate(results[name].variable, values, axes, places, whole=name == CASE)
        for name, values in columns.items()
        if name not in names
    }
    variables = {
        name: _along(variable, names, table) if CASE in variable.dims else variable
        for name, variable in results.variables.items()
        if name not in columns
    }
    labels = {name: xr.Variable(name, axis, results[name].attrs) for name, axis in axes.items()}
    coords = (set(results.coords) - set(columns)) | set(others)
    return xr.Dataset({**labels, **others, **variables}, attrs=results.attrs).set_coords(coords)


def _first_in_one_place(columns: Columns, names: Sequence[str]) -> tuple[int, int] | None:
    """The first two cases that these parts do not tell apart, if there are any."""
    seen: dict[tuple[Any, ...], int] = {}
    for place, parts in enumerate(zip(*(columns[name] for name in names), strict=True)):
        if seen.setdefault(parts, place) != place:
            return seen[parts], place
    return None


def _axis(values: Sequence[Any]) -> list[Any]:
    """Each value once: numbers rising, texts in the order of the file."""
    distinct = list(dict.fromkeys(values))
    return distinct if isinstance(distinct[0], str) else sorted(distinct)


def _coordinate(
    described: xr.Variable,
    values: Sequence[Any],
    axes: Mapping[str, Sequence[Any]],
    places: Sequence[Sequence[int]],
    whole: bool,
) -> xr.Variable:
    """A coordinate along the fewest dimensions that decide it, or along the whole cube."""
    for count in range(len(axes) if whole else 0, len(axes) + 1):
        for chosen in combinations(range(len(axes)), count):
            keys = list(zip(*(places[axis] for axis in chosen), strict=True)) or [()] * len(values)
            decided = dict(zip(keys, values, strict=True))
            if all(decided[key] == value for key, value in zip(keys, values, strict=True)):
                names = [name for axis, name in enumerate(axes) if axis in chosen]
                is_text = isinstance(values[0], str)
                shape = [len(axes[name]) for name in names]
                content = np.full(shape, "" if is_text else np.nan, object if is_text else float)
                for key, value in decided.items():
                    content[key] = value
                return xr.Variable(
                    names, content.astype(str) if is_text else content, described.attrs
                )
    raise AssertionError("the labels of cases differ")


def _along(variable: xr.Variable, names: Sequence[str], table: NDArray[np.int_]) -> xr.Variable:
    """A variable with the dimensions of the cube in place of that of the cases."""
    axis = variable.dims.index(CASE)
    dims = (*variable.dims[:axis], *names, *variable.dims[axis + 1 :])
    lazy: Any = indexing.LazilyIndexedArray(_CubeArray(variable, table))
    unchanged: Any = indexing.CopyOnWriteArray(lazy)
    read_once = indexing.MemoryCachedArray(unchanged)  # type: ignore[no-untyped-call]
    return xr.Variable(dims, read_once, variable.attrs)


class _CubeArray(BackendArray):
    """One variable of a cube, or the part of it that is asked for."""

    def __init__(self, variable: xr.Variable, table: NDArray[np.int_]) -> None:
        self._variable, self._table = variable, table
        self._axis = axis = variable.dims.index(CASE)
        self.shape = (*variable.shape[:axis], *table.shape, *variable.shape[axis + 1 :])
        self.dtype, self._fill = variable.dtype, 0
        if (table == NOWHERE).any():
            dtype, self._fill = maybe_promote(variable.dtype)
            self.dtype = np.dtype(dtype)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> NDArray[Any]:
        part: NDArray[Any] = indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER, self._part
        )
        return part

    def _part(self, key: tuple[Any, ...]) -> NDArray[Any]:
        first, last = self._axis, self._axis + self._table.ndim
        before, of_cube, after = key[:first], key[first:last], key[last:]
        numbers = np.asarray(self._table)
        for axis, chosen in reversed(list(enumerate(of_cube))):
            numbers = np.asarray(numbers[(slice(None),) * axis + (chosen,)])
        shape = self._variable[(*before, 0, *after)].shape
        stacked = np.full((numbers.size, *shape), self._fill, self.dtype)
        for place, number in enumerate(numbers.ravel()):
            if number != NOWHERE:
                stacked[place] = self._variable[(*before, int(number), *after)].values
        # The cases come first, and go where the variable has them.
        kept = sum(not isinstance(chosen, int | np.integer) for chosen in before)
        sources = range(numbers.ndim)
        targets = [kept + axis for axis in sources]
        return np.moveaxis(stacked.reshape(*numbers.shape, *shape), sources, targets)
