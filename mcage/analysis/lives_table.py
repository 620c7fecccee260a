"""Lives as rows of a table: one for each case and instance, with what is known of each life."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from mcage.analysis.grid import grid_of, study_of, with_grid
from mcage.errors import UserError

OVER_TIME = ("epoch", "age")
"""Dimensions that make a column for each moment of a life: left out unless they are asked for."""

MOST_BYTES = 2**30
"""Size of a table above which memory is not taken for it unasked."""

CODE_BYTES = 8
"""Bytes of a row for each label, at most: labels are kept as codes."""


def table_of_lives(
    results: xr.Dataset, variables: Sequence[str] | None, most_bytes: int
) -> pd.DataFrame:
    """All rows at once, as `Analysis.to_pandas` says.

    Raises
    ------
    UserError
        There is no such variable, or the table would be too large.
    """
    results = with_grid(results)
    chosen = _chosen(results, variables)
    rows, columns, size = _extent(results, chosen)
    if size > most_bytes:
        cases = rows // results.sizes["instance"]
        raise UserError(
            f"{rows:,} rows ({cases} cases of {results.sizes['instance']:,} instances) of "
            f"{columns} columns take {_in_words(size)}, and most_bytes allows "
            f"{_in_words(most_bytes)}: name fewer variables, such as variables=['life_years'], "
            "select cases or instances before, take the rows in parts with iter_pandas(), or "
            f"allow more with most_bytes={size}"
        )
    return pd.DataFrame({**_labels(results), **_values(results, chosen)}, copy=False)


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
    results = with_grid(results)
    for first in range(0, results.sizes["instance"], instances):
        part = results.isel(instance=slice(first, first + instances))
        yield table_of_lives(part, variables, np.iinfo(np.int64).max)


def _chosen(results: xr.Dataset, variables: Sequence[str] | None) -> list[str]:
    """Variables that have a value for each instance; by default those without moments."""
    known = [str(name) for name, array in results.data_vars.items() if "instance" in array.dims]
    if variables is None:
        return [name for name in known if not set(OVER_TIME) & set(results[name].dims)]
    names = [variables] if isinstance(variables, str) else list(variables)
    for name in names:
        if name not in known:
            raise UserError(
                f"{name!r} is no variable of each instance of the study {study_of(results)!r}; "
                f"there are {', '.join(known)}"
            )
    return names


def _extent(results: xr.Dataset, chosen: Sequence[str]) -> tuple[int, int, int]:
    """Rows, columns and bytes of a table."""
    grid = grid_of(results)
    rows = results.sizes["instance"] * int(np.prod([results.sizes[dim] for dim in grid], initial=1))
    columns = {
        name: int(np.prod([results.sizes[dim] for dim in _further(results[name], grid)], initial=1))
        for name in chosen
    }
    labels = sum(set(coord.dims) <= set(grid) for coord in results.coords.values())
    of_row = sum(count * results[name].dtype.itemsize for name, count in columns.items())
    size = rows * (of_row + CODE_BYTES * (labels + 1))
    return rows, sum(columns.values()), size


def _in_words(size: int) -> str:
    """Size in KiB, MiB or GiB."""
    power = max(1, min(3, (size.bit_length() - 1) // 10))
    return f"{size / 1024**power:,.1f} {'KMG'[power - 1]}iB"


def _further(array: xr.DataArray, grid: Sequence[str]) -> list[str]:
    """Dimensions whose places are columns of their own."""
    return [str(dim) for dim in array.dims if dim not in grid and dim != "instance"]


def _labels(results: xr.Dataset) -> dict[str, Any]:
    """Columns that say of what case and of which instance a row is; texts are categories."""
    grid = grid_of(results)
    sizes = {dim: results.sizes[dim] for dim in (*grid, "instance")}
    names = [str(n) for n, c in results.coords.items() if c.dims and set(c.dims) <= set(grid)]
    columns = {}
    for name in (*sorted(names, key=lambda name: name not in grid), "instance"):
        values = results[name].values
        codes, distinct = pd.factorize(values)
        is_text = values.dtype.kind in "OUT"
        along = xr.Variable(results[name].dims, codes if is_text else values)
        column = _spread(along, sizes).reshape(-1)
        columns[name] = pd.Categorical.from_codes(column, distinct) if is_text else column
    return columns


def _values(results: xr.Dataset, chosen: Sequence[str]) -> dict[str, Any]:
    """Columns of numbers, and of the names that flags stand for."""
    grid = grid_of(results)
    columns: dict[str, Any] = {}
    for name in chosen:
        array = results[name]
        further = _further(array, grid)
        sizes = {dim: results.sizes[dim] for dim in (*further, *grid, "instance")}
        values = _spread(array.variable[...], sizes)
        for place in np.ndindex(*(sizes[dim] for dim in further)):
            of = [str(array[dim].values[i]) for dim, i in zip(further, place, strict=True)]
            columns["_".join([name, *of])] = _named(array, values[place].reshape(-1))
    return columns


def _spread(variable: xr.Variable, sizes: Mapping[str, int]) -> NDArray[Any]:
    """Values along all of the dimensions, repeated along those that the variable has not."""
    values = variable.transpose(*(dim for dim in sizes if dim in variable.dims)).values
    place = tuple(slice(None) if dim in variable.dims else None for dim in sizes)
    return np.broadcast_to(values[place], tuple(sizes.values()))


def _named(array: xr.DataArray, values: NDArray[Any]) -> Any:
    """Numbers, or the names that flags stand for."""
    meanings = str(array.attrs.get("flag_meanings", "")).split()
    if not meanings:
        return values
    flags = pd.Index(np.atleast_1d(array.attrs["flag_values"]))
    return pd.Categorical.from_codes(flags.get_indexer(values).tolist(), meanings)
