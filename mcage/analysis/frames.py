"""Results as data frames of pandas: a table as it is, and lives as rows."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from mcage.analysis import grid as grids
from mcage.errors import UserError
from mcage.report.tables import ResultTable


def table_frame(table: ResultTable) -> pd.DataFrame:
    """Columns of a table under their keys, each estimate followed by its bounds."""
    columns: dict[str, list[Any]] = {}
    for column in table.columns:
        if not column.key:
            continue
        columns[column.key] = [cell.value for cell in column.cells]
        if column.has_intervals:
            for bound in ("lower", "upper"):
                columns[f"{column.key}_{bound}"] = [getattr(cell, bound) for cell in column.cells]
    return pd.DataFrame(columns)


# Lives as rows of a table: one for each case and instance, with what is known of each life.

OVER_TIME = ("epoch", "age")
"""Dimensions that make a column for each moment of a life: left out unless they are asked for."""


def table_of_lives(results: xr.Dataset, variables: Sequence[str] | None) -> pd.DataFrame:
    """All rows at once, as `Analysis.to_pandas` says.

    Raises
    ------
    UserError
        There is no such variable.
    """
    results = grids.with_grid(results)
    chosen = _chosen(results, variables)
    grid = grids.grid_of(results)
    labels = [str(n) for n, c in results.coords.items() if c.dims and set(c.dims) <= set(grid)]
    labels.sort(key=lambda name: (name not in grid, name))
    others = [name for name in labels if name not in grid]
    plain = results.drop_indexes(others, errors="ignore")
    of_all = {column: of for name in chosen for column, of in _columns_of(plain, name).items()}
    named = plain[[*labels, "instance"]].reset_coords(others).assign(of_all)
    rows = named.to_dataframe(dim_order=[*grid, "instance"]).reset_index()
    names = [*labels, "instance", *of_all]
    return pd.DataFrame({name: _categories(named[name], rows[name]) for name in names}, copy=False)


def parts_of_lives(
    results: xr.Dataset, variables: Sequence[str] | None, instances: int
) -> Iterator[pd.DataFrame]:
    """The same rows in parts of so many instances of all cases, as `Analysis.iter_pandas` says.

    Raises
    ------
    UserError
        There is no such variable, or the number is not positive.
    """
    if instances < 1:
        raise UserError(f"instances = {instances}: a part needs at least 1")
    results = grids.with_grid(results)
    for first in range(0, results.sizes["instance"], instances):
        part = results.isel(instance=slice(first, first + instances))
        yield table_of_lives(part, variables)


def _chosen(results: xr.Dataset, variables: Sequence[str] | None) -> list[str]:
    """Variables that have a value for each instance; by default those without moments."""
    known = [str(name) for name, array in results.data_vars.items() if "instance" in array.dims]
    if variables is None:
        return [name for name in known if not set(OVER_TIME) & set(results[name].dims)]
    names = [variables] if isinstance(variables, str) else list(variables)
    for name in names:
        if name not in known:
            raise UserError(
                f"{name!r} is no variable of each instance of the study "
                f"{grids.study_of(results)!r}; "
                f"there are {', '.join(known)}"
            )
    return names


def _further(array: xr.DataArray, grid: Sequence[str]) -> list[str]:
    """Dimensions whose places are columns of their own."""
    return [str(dim) for dim in array.dims if dim not in grid and dim != "instance"]


def _columns_of(results: xr.Dataset, name: str) -> dict[str, xr.DataArray]:
    """A variable by the names of its columns, one for each place of its further dimensions."""
    further = _further(results[name], grids.grid_of(results))
    parts = {}
    for place in product(*(range(results.sizes[dim]) for dim in further)):
        of_place = dict(zip(further, place, strict=True))
        words = [str(results[dim].values[at]) for dim, at in of_place.items()]
        parts["_".join([name, *words])] = results[name].isel(of_place).reset_coords(drop=True)
    return parts


def _categories(array: xr.DataArray, column: pd.Series) -> Any:
    """Texts, and names that flags stand for, as categories; numbers as they are."""
    if array.dtype.kind in "OUT":
        return pd.Categorical(column, list(dict.fromkeys(array.values.ravel().tolist())))
    if meanings := str(array.attrs.get("flag_meanings", "")).split():
        flags = pd.Index(np.atleast_1d(array.attrs["flag_values"]))
        return pd.Categorical.from_codes(flags.get_indexer(column).tolist(), meanings)
    return column
