"""The cases of any study, their lives, and these as rows: what the methods of `Analysis` use."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.report.cases import axes_of, points_of
from mcage.report.presentation import presentation_of
from mcage.results.axes import CASE, LABEL, differing, find_point, said
from mcage.results.header import OLDEST_STUDY, Header, header_class
from mcage.results.reader import read_header
from mcage.stats.estimates import Floats
from mcage.stats.survival import CaseLives


class DependentSlicesWarning(UserWarning):
    """Slices share dies, so that intervals are too narrow."""


@dataclass(frozen=True)
class GridCase:
    """One case of a study.

    Parameters
    ----------
    labels : dict
        Its coordinates by name: of a sweep the label and its parts, of whole GPUs the policy.
    results : xarray.Dataset
        Its results, without the dimensions of the grid.
    compared : tuple of str
        Variables of it that lie along the grid, and so differ from case to case.
    """

    labels: dict[str, Any]
    results: xr.Dataset
    compared: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How a user calls it: the label, or the values of its coordinates."""
        return said(self.labels)


def study_of(results: xr.Dataset) -> str:
    """Name of the study that computed results."""
    return str(results.attrs.get("study", OLDEST_STUDY))


def header_of(results: xr.Dataset) -> Header:
    """Header of the file that results come from, also if they have been copied since.

    Raises
    ------
    UserError
        The attributes of a results file are gone.
    """
    campaign = results.attrs.get("campaign")
    if campaign is not None:
        text = campaign.decode() if isinstance(campaign, bytes) else str(campaign)
        try:
            return header_class(study_of(results)).from_json(text)
        except ValueError as error:
            raise UserError(f"attribute campaign: {error}") from error
    source = results.encoding.get("source")
    if source is None or "filetype" not in results.attrs:
        raise UserError(
            "these are not the results of mcage any more: the attributes of the file are gone; "
            "keep them (`xarray.set_options(keep_attrs=True)`), or use what open_results returns"
        )
    return read_header(source)


def warn_of_dependence(header: Header) -> None:
    """Warn where slices share dies that differ: intervals take them for independent."""
    if (slices := header.dependent_instances) > 1:
        warnings.warn(
            f"{slices} slices share each die, and dies differ: slices are not independent, so that "
            "intervals are too narrow",
            DependentSlicesWarning,
            stacklevel=4,
        )


def grid_of(results: xr.Dataset) -> tuple[str, ...]:
    """Dimensions along which the cases of a study lie."""
    return presentation_of(header_of(results)).grid


def with_grid(results: xr.Dataset) -> xr.Dataset:
    """Results as the file has them: dimensions in order, a single case as a grid of one.

    Raises
    ------
    UserError
        There are no instances or cases, a dimension of a life has been cut, or cases lie along
        the dimensions of a cube.
    """
    header = header_of(results)
    shown = presentation_of(header)
    grid = shown.grid
    for dim in (*grid, "instance"):
        if dim not in results.dims and dim in results.coords:
            if results[dim].dims:
                raise UserError(
                    f"the dimension {dim!r} is gone, as in a cube: compute statistics of what "
                    "open_results returns"
                )
            along = [c.variable.name for c in header.coordinates if c.variable.dims == (dim,)]
            of_it = {name: results[name].expand_dims(dim).variable for name in along}
            results = results.drop_vars(along).expand_dims(dim, axis=0).assign_coords(of_it)
        if not results.sizes.get(dim):
            raise UserError(f"there is no {dim} in these results: select at least one")
    turned = {
        variable.name: results[variable.name].variable.transpose(*variable.dims)
        for variable in header.variables
        if variable.name in results and set(results[variable.name].dims) == set(variable.dims)
    }
    results = results.assign(turned)
    for coordinate in header.coordinates:
        name = coordinate.variable.name
        if coordinate.variable.dims != (name,) or name == "instance" or name not in results.coords:
            continue
        left, whole = results[name].size, len(coordinate.values)
        if left != whole and (name not in grid or shown.reads_by_place):
            raise UserError(
                f"{left} of {whole} of the dimension {name!r} are left: select only cases and "
                "instances before statistics are computed"
            )
    return results


def with_lives(results: xr.Dataset) -> xr.Dataset:
    """Results as of `with_grid`, all of whose lives are known, if they have any.

    Raises
    ------
    UserError
        As `with_grid`; or lives have been masked, which would count as survivors.
    """
    results = with_grid(results)
    if "life_years" in results:
        masked = int(np.isnan(results["life_years"].values).sum())
        if masked:
            raise UserError(
                f"life_years is NaN in {masked:,} of {results['life_years'].size:,} places, as "
                "where() without drop=True leaves it: select cases and instances by isel or sel"
            )
    return results


def ages_of(header: Header) -> Floats:
    """Ages at which results are given, years; the last of them is the horizon."""
    contents = {coordinate.variable.name: coordinate.values for coordinate in header.coordinates}
    ages = contents.get("epoch_end_years", contents.get("age"))
    if ages is None:
        raise UserError(f"the study {header.study!r} does not say to what age it simulates")
    return np.asarray(ages, np.float64)


def cases_of(results: xr.Dataset) -> Iterator[GridCase]:
    """All cases, in the order of the file.

    Raises
    ------
    UserError
        As `with_lives`.
    """
    results = with_lives(results)
    grid = grid_of(results)
    names = [str(n) for n, c in results.coords.items() if c.dims and set(c.dims) <= set(grid)]
    first = sorted(names, key=lambda name: name not in grid)
    compared = tuple(str(n) for n, v in results.data_vars.items() if set(grid) & set(v.dims))
    for place in np.ndindex(*(results.sizes[dim] for dim in grid)):
        case = results.isel(dict(zip(grid, place, strict=True)))
        yield GridCase({name: case[name].item() for name in first}, case, compared)


def case_named(results: xr.Dataset, name: str) -> GridCase:
    """The only case that a name means, as of `mcage.results.axes.find_point`.

    Raises
    ------
    UserError
        As `with_lives`; or no case has that name, or several have.
    """
    cases = list(cases_of(results))
    axes = axes_of(results)
    names = [axis.name for axis in (LABEL, *axes)]
    points = [{n: case.labels[n] for n in names if n in case.labels} for case in cases]
    return cases[find_point(points, name, axes)]


def lives_in(results: xr.Dataset) -> Iterator[tuple[GridCase, CaseLives]]:
    """All cases with their lives, in the order of the file.

    Raises
    ------
    UserError
        As `with_lives`; or the study simulates no lives.
    """
    if missing := {"life_years", "end_cause"} - set(results.data_vars):
        raise UserError(
            f"there is no {min(missing)} in these results of the study {study_of(results)!r}, "
            "and so no life: summary() and to_pandas() show what there is"
        )
    header = header_of(results)
    warn_of_dependence(header)
    horizon = float(ages_of(header)[-1])
    for case in cases_of(results[["life_years", "end_cause"]]):
        cause = case.results["end_cause"].values
        years = case.results["life_years"].values
        yield case, CaseLives(case.name, years, cause != EndCause.CENSORED, cause, horizon)


def whole_histogram(results: xr.Dataset) -> xr.DataArray:
    """The histogram of the shifts of sampled cells.

    Raises
    ------
    UserError
        There is none, or instances have been selected, of which it does not know.
    """
    name = "dvth_histogram"
    if name not in results:
        raise UserError(f"there is no {name} in these results of the study {study_of(results)!r}")
    of_all, left = header_of(results).holds, results.sizes.get("instance", 1)
    if left != of_all:
        raise UserError(
            f"{name} counts cells of all {of_all:,} instances, and {left:,} are selected: take it "
            "before you select instances"
        )
    return results[name]


def causes_in(results: xr.Dataset) -> dict[int, str]:
    """Names of the causes of death of a study by their numbers, without that of the censored."""
    described = results["end_cause"].attrs
    names = str(described["flag_meanings"]).split()
    numbers = np.atleast_1d(described["flag_values"]).tolist()
    return {n: name for n, name in zip(numbers, names, strict=True) if n != EndCause.CENSORED}


# The cases of a study as a cube: axes of technique, environment, Vdd ... as dimensions.


def cube_of(results: xr.Dataset, dims: Sequence[str] = ()) -> xr.Dataset:
    """Cases along dimensions of their own, as `Analysis.cube` says.

    Parameters
    ----------
    results : xarray.Dataset
        Several cases.
    dims : sequence of str
        Names of axes; empty: those that every label names, and as many others as are needed to tell
        cases apart.

    Raises
    ------
    UserError
        There are no cases, a dimension is no part of them, or two cases would lie in one place.
    """
    if CASE not in results.dims:
        raise UserError("a cube is made of several cases of a sweep; these results have none")
    axes_there = [axis for axis in axes_of(results) if not axis.derived]
    there = [axis.name for axis in axes_there]
    if unknown := [name for name in dims if name not in there]:
        raise UserError(f"{unknown[0]!r} is no dimension of a cube; there are {', '.join(there)}")
    labels = [str(n) for n, c in results.coords.items() if c.dims == (CASE,)]
    frame = pd.DataFrame({name: results[name].values for name in labels})
    chosen = {*dims} or {axis.name for axis in axes_there if axis.named == "always"}
    for axis in () if dims else differing(axes_there, points_of(results)):
        if frame.duplicated(sorted(chosen)).any():
            chosen.add(axis.name)
    names = list(dims) or [name for name in there if name in chosen]
    alike = frame[frame.duplicated(names, keep=False)]
    if not alike.empty:
        first, second, *_ = alike[(alike[names] == alike[names].iloc[0]).all(axis=1)][CASE]
        raise UserError(
            f"{first!r} and {second!r} are alike in {', '.join(names)}: name more dimensions"
        )
    index = pd.MultiIndex.from_frame(frame[names])
    cases = results.drop_indexes(labels, errors="ignore").drop_vars(labels)
    cube = cases.assign_coords(xr.Coordinates.from_pandas_multiindex(index, CASE)).unstack(CASE)
    # Numbers rise, and texts stay in the order of the file.
    in_order = {name: frame[name].unique() for name in names if results[name].dtype.kind in "OUT"}
    cube = cube.sel(in_order)
    for name in labels:
        if name not in names:
            decided = _coordinate(frame, name, names)
            cube = cube.assign_coords({name: decided.sel({d: cube[d] for d in decided.dims})})
    for name in labels:
        cube[name].attrs = results[name].attrs
    return cube.transpose(*names, ...)


def _coordinate(frame: pd.DataFrame, name: str, dims: Sequence[str]) -> xr.DataArray:
    """A coordinate along the fewest dimensions that decide it; the label along all."""
    for count in range(len(dims) if name == CASE else 0, len(dims) + 1):
        for chosen in map(list, combinations(dims, count)):
            decided = frame[[*chosen, name]].drop_duplicates()
            if not chosen and len(decided) == 1:
                return xr.DataArray(decided[name].iloc[0])
            if chosen and not decided.duplicated(chosen).any():
                array: xr.DataArray = decided.set_index(chosen)[name].to_xarray()
                return array.fillna("").astype(str) if array.dtype.kind in "OUT" else array
    raise AssertionError("the labels of cases differ")


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
    results = with_grid(results)
    chosen = _chosen(results, variables)
    grid = grid_of(results)
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
    results = with_grid(results)
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
                f"{study_of(results)!r}; "
                f"there are {', '.join(known)}"
            )
    return names


def _further(array: xr.DataArray, grid: Sequence[str]) -> list[str]:
    """Dimensions whose places are columns of their own."""
    return [str(dim) for dim in array.dims if dim not in grid and dim != "instance"]


def _columns_of(results: xr.Dataset, name: str) -> dict[str, xr.DataArray]:
    """A variable by the names of its columns, one for each place of its further dimensions."""
    further = _further(results[name], grid_of(results))
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
