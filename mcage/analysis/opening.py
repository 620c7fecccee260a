"""`mcage.open_results`: a results file as a dataset that knows its cases by their parts."""

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from xarray.core.indexing import IndexSelResult
from xarray.indexes import Index

from mcage.analysis.accessor import Analysis
from mcage.files.inputs import named_file
from mcage.plain_text import shortened
from mcage.results import reader

# The parts of which cases are made, as an index: `sel` finds cases by technique, environment, Vdd.
#
#     results.sel(technique="rrcd", environment="dvfs")
#     results.sel(technique=["rrcd", "baseline"], vdd_volts=slice(0.4, 0.5))
#
# The labels of the cases keep an index of their own, as in every other dataset: results are
# aligned by labels, and a label selects a single case. A `pandas.MultiIndex` of the parts would
# take the labels away. Imports xarray, which takes long: to be imported where it is needed.

SAME_NUMBER = 1e-9
"""Relative difference up to which a number of a part is the number that is asked for."""


class PartsIndex(Index):
    """Coordinates that say of what each case is made.

    Parameters
    ----------
    dim : hashable
        The dimension of the cases.
    parts : mapping of hashable to ndarray [case]
        Texts or numbers by the name of their coordinate.
    """

    def __init__(self, dim: Hashable, parts: Mapping[Hashable, NDArray[Any]]) -> None:
        self.dim, self.parts = dim, dict(parts)

    @classmethod
    def from_variables(
        cls, variables: Mapping[Any, xr.Variable], *, options: Mapping[str, Any]
    ) -> Self:
        """Index of coordinates that lie along one dimension, whose labels are not among them."""
        del options
        dims = {dim for variable in variables.values() for dim in variable.dims}
        if len(dims) != 1 or dims & set(variables):
            raise ValueError(f"parts lie along one dimension beside its labels, not {dims}")
        return cls(dims.pop(), {name: np.asarray(v.values) for name, v in variables.items()})

    @classmethod
    def concat(
        cls,
        indexes: Sequence[Self],
        dim: Hashable,
        positions: Iterable[Iterable[int]] | None = None,
    ) -> Self:
        """The cases of several indexes, one after the other or in the given places."""
        parts = {
            name: np.concatenate([index.parts[name] for index in indexes])
            for name in indexes[0].parts
        }
        if positions is not None:
            order = np.argsort(np.concatenate([np.asarray(list(places)) for places in positions]))
            parts = {name: values[order] for name, values in parts.items()}
        return cls(dim, parts)

    def create_variables(
        self, variables: Mapping[Any, xr.Variable] | None = None
    ) -> dict[Hashable, xr.Variable]:
        """The coordinates, with the attributes of the given ones."""
        present = variables or {}
        described = {name: (present[name].attrs, present[name].encoding) for name in present}
        return {
            name: xr.Variable((self.dim,), values, *described.get(name, ()))
            for name, values in self.parts.items()
        }

    def to_pandas_index(self) -> pd.MultiIndex:
        """The parts as levels."""
        return pd.MultiIndex.from_arrays(list(self.parts.values()), names=list(self.parts))

    def isel(self, indexers: Mapping[Any, Any]) -> Self | None:
        """The index of some cases; None of a single case, and of cases that form a table."""
        place = indexers[self.dim]
        if isinstance(place, xr.Variable):
            if place.dims != (self.dim,):
                return None
            place = place.values
        if not isinstance(place, slice) and np.ndim(place) == 0:
            return None
        return type(self)(self.dim, {name: values[place] for name, values in self.parts.items()})

    def sel(
        self, labels: dict[Any, Any], method: str | None = None, tolerance: float | None = None
    ) -> IndexSelResult:
        """Places of the cases that are asked for, in the order of the file; the dimension stays.

        Parameters
        ----------
        labels : dict
            By the name of the part: a value, a list of values, or a slice of numbers, both ends
            included.
        method : str, optional
            ``nearest``: of each number that is asked for, the nearest that there is.
        tolerance : float, optional
            How far away the nearest may be.

        Raises
        ------
        KeyError
            No case has these parts.
        """
        if method not in (None, "nearest"):
            raise ValueError(f"method={method!r}: cases know 'nearest' only")
        chosen = np.ones(len(next(iter(self.parts.values()))), np.bool_)
        for name, wanted in labels.items():
            having = self._having(name, wanted, np.inf if tolerance is None else tolerance, method)
            if not having.any():
                there_are = ", ".join(map(str, dict.fromkeys(self.parts[name].tolist())))
                raise KeyError(f"no case with {name} {_said(wanted)}; there are {there_are}")
            chosen &= having
        if not chosen.any():
            asked = ", ".join(f"{name} {_said(wanted)}" for name, wanted in labels.items())
            raise KeyError(f"no case has all of {asked}")
        return IndexSelResult({self.dim: np.flatnonzero(chosen)})

    def _having(
        self, name: Hashable, wanted: Any, tolerance: float, method: str | None
    ) -> NDArray[np.bool_]:
        """Which cases have a part that is asked for."""
        values = self.parts[name]
        is_number = values.dtype.kind in "iuf"
        if isinstance(wanted, slice):
            if not is_number or wanted.step is not None:
                raise ValueError(f"{name}: only numbers have ranges; give a list of values")
            lowest = -np.inf if wanted.start is None else wanted.start * (1 - SAME_NUMBER)
            highest = np.inf if wanted.stop is None else wanted.stop * (1 + SAME_NUMBER)
            return np.asarray((lowest <= values) & (values <= highest))
        asked = np.atleast_1d(np.asarray(wanted)).ravel()
        if not is_number:
            return np.isin(values.astype(str), asked.astype(str))
        numbers = asked.astype(np.float64)
        apart = np.abs(values[:, None] - numbers)
        if method == "nearest":
            return np.asarray(((apart == apart.min(axis=0)) & (apart <= tolerance)).any(axis=1))
        return np.asarray((apart <= SAME_NUMBER * np.abs(numbers)).any(axis=1))

    def join(self, other: Self, how: str = "inner") -> Self:
        """Not supported: datasets with different cases would be aligned by label only."""
        del other, how
        raise ValueError(
            f"these have different cases: leave the parts out before you align them, with "
            f".drop_vars({list(self.parts)}), or select the same cases in both"
        )

    def reindex_like(self, other: Self) -> dict[Hashable, Any]:
        """Refused, as by `join`."""
        raise NotImplementedError(f"use .drop_vars({list(self.parts)}) before you reindex")

    def equals(self, other: Index, *, exclude: frozenset[Hashable] | None = None) -> bool:
        """Whether another index has the same parts in the same order."""
        del exclude
        return (
            isinstance(other, PartsIndex)
            and self.parts.keys() == other.parts.keys()
            and all(np.array_equal(values, other.parts[n]) for n, values in self.parts.items())
        )

    def roll(self, shifts: Mapping[Any, int]) -> Self:
        """The cases, rolled."""
        shift = shifts[self.dim]
        return type(self)(self.dim, {n: np.roll(values, shift) for n, values in self.parts.items()})

    def rename(self, name_dict: Mapping[Any, Hashable], dims_dict: Mapping[Any, Hashable]) -> Self:
        """The index with other names."""
        parts = {name_dict.get(name, name): values for name, values in self.parts.items()}
        return type(self)(dims_dict.get(self.dim, self.dim), parts)

    def __repr__(self) -> str:
        return f"PartsIndex({', '.join(map(str, self.parts))})"


def _said(wanted: Any) -> str:
    return shortened(wanted.values.tolist() if hasattr(wanted, "values") else wanted)


if TYPE_CHECKING:

    class Results(xr.Dataset):  # type: ignore[no-untyped-call]
        """A dataset whose accessor editors and type checkers know; no class of its own."""

        @property
        def mcage(self) -> Analysis:
            """Statistics, tables and figures of these results."""

else:
    Results = xr.Dataset


def open_results(path: str | os.PathLike[str]) -> Results:
    """Open a results file lazily, by name of variable and dimension.

    What is in a file says docs/results-format.md. The cases of a sweep are found by their parts,
    too: ``results.sel(technique="rrcd", environment="dvfs")`` gives all cases of these, and keeps
    the dimension ``case``; so does ``results.sel(protection="secded32")``. ``results.mcage.cube()``
    has axes as dimensions. ``results.mcage`` computes what `mcage show` prints.

    Parameters
    ----------
    path : str or path
        File that a campaign wrote.

    Returns
    -------
    xarray.Dataset
        Values are read when they are needed. Close it, or use it in a ``with`` block.

    Raises
    ------
    UserError
        The file is missing, not readable, not a results file, damaged, or of a newer mcage.
    """
    results = reader.open_results(named_file(path))
    parts = [
        str(name)
        for name, coordinate in results.coords.items()
        if coordinate.dims == ("case",) and name != "case"
    ]
    if parts:
        results = results.set_xindex(parts, PartsIndex)
    return cast(Results, results)
