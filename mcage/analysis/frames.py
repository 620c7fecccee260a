"""Results as data frames of pandas: lives, histograms, summaries, and two cases die by die."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from mcage.analysis import grid as grids
from mcage.errors import UserError
from mcage.report import comparison
from mcage.report.cases import SLOWDOWN_VARIABLES, years_until_slower
from mcage.report.notes import note_on_programs
from mcage.report.tables import ResultTable
from mcage.results.differences import keys_of, refuse_unmeant
from mcage.stats.estimates import Estimate, Floats, mean
from mcage.stats.paired import PairedMeans, outliving
from mcage.stats.survival import (
    CaseLives,
    cumulative_incidence,
    failure_rate,
    kaplan_meier,
    life_quantile,
)

Row = dict[str, Any]


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


def bounds(name: str, estimate: Estimate) -> Row:
    """An estimate as three columns."""
    return {
        name: estimate.value,
        f"{name}_lower": estimate.lower,
        f"{name}_upper": estimate.upper,
    }


def per_case(results: xr.Dataset, columns: Callable[[CaseLives], Row]) -> pd.DataFrame:
    """A line for each case: its labels, its instances, and what follows from its lives."""
    rows = [
        {**case.labels, "instances": lives.years.size, **columns(lives)}
        for case, lives in grids.lives_in(results)
    ]
    return pd.DataFrame(rows)


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise UserError(f"share = {share}: must lie between 0 and 1, both excluded")


def quantile_frame(results: xr.Dataset, name: str, share: float, confidence: float) -> pd.DataFrame:
    """Ages at which a share of the instances are dead.

    Raises
    ------
    UserError
        The share is not between 0 and 1.
    """
    _check_share(share)
    _check(confidence)
    return per_case(
        results,
        lambda lives: bounds(name, life_quantile(lives.years, lives.died, share, confidence)),
    )


def slower_frame(
    results: xr.Dataset, limit: float, share: float, confidence: float
) -> pd.DataFrame:
    """Ages at which a share of the slices are dead or slower than a limit.

    Raises
    ------
    UserError
        The study has no slowdown by age, or the share is not between 0 and 1.
    """
    if missing := set(SLOWDOWN_VARIABLES) - set(results.data_vars):
        raise UserError(f"there is no {min(missing)} in these results, and so no slowdown by age")
    _check_share(share)
    _check(confidence)
    slower = {
        case.name: years_until_slower(case.results, limit)
        for case in grids.cases_of(results[list(SLOWDOWN_VARIABLES)])
    }

    def row(lives: CaseLives) -> Row:
        years = slower[lives.label]
        reached = life_quantile(years, years < lives.horizon_years, share, confidence)
        return {"limit": limit, **bounds("slower_years", reached)}

    return per_case(results, row)


def rmst_frame(results: xr.Dataset, age_years: float | None, confidence: float) -> pd.DataFrame:
    """Mean lives up to an age, by default the horizon.

    Raises
    ------
    UserError
        The age lies beyond the horizon.
    """
    _check(confidence)

    def row(lives: CaseLives) -> Row:
        age = lives.horizon_years if age_years is None else age_years
        _check_age(age, lives)
        lived = mean(np.minimum(lives.years, age), confidence, within=(0.0, age))
        return {"age_years": age, **bounds("rmst_years", lived)}

    return per_case(results, row)


def rates_frame(results: xr.Dataset, ages_years: Floats, confidence: float) -> pd.DataFrame:
    """Failures by ages in ppm and FIT: a line for each case and each age.

    Raises
    ------
    UserError
        An age is not above 0, or lies beyond the horizon.
    """
    _check(confidence)

    def rates(lives: CaseLives) -> pd.DataFrame:
        rows = []
        for age in ages_years.tolist():
            _check_age(age, lives)
            if age == 0:
                raise UserError("age 0 years: there is no rate until then")
            rate = failure_rate(lives, age, confidence)
            row: Row = {"age_years": age} | bounds("failed_ppm", rate.failed_ppm)
            row |= bounds("dead_on_arrival_ppm", rate.dead_on_arrival_ppm)
            rows.append(row | bounds("mean_rate_fit", rate.mean_rate_fit))
        return pd.DataFrame(rows)

    return _stacked((case.labels, rates(lives)) for case, lives in grids.lives_in(results))


def survival_frame(
    results: xr.Dataset, ages_years: Sequence[float] | None, confidence: float
) -> pd.DataFrame:
    """Kaplan-Meier curves: a line for each case and each age at which the curve steps."""
    _check(confidence)

    def curve(lives: CaseLives) -> pd.DataFrame:
        steps = kaplan_meier(lives.years, lives.died, confidence)
        default = np.unique([0.0, *steps.years, lives.horizon_years])
        ages = _ages(ages_years, default, lives)
        step = np.searchsorted(steps.years, ages, side="right")
        return pd.DataFrame(
            {
                "age_years": ages,
                "survival": np.concatenate([[1.0], steps.survival])[step],
                "survival_lower": np.concatenate([[1.0], steps.lower])[step],
                "survival_upper": np.concatenate([[1.0], steps.upper])[step],
                "at_risk": lives.years.size - np.searchsorted(np.sort(lives.years), ages),
            }
        )

    return _stacked((case.labels, curve(lives)) for case, lives in grids.lives_in(results))


def causes_frame(
    results: xr.Dataset, ages_years: Sequence[float] | None, confidence: float
) -> pd.DataFrame:
    """Cumulative incidence: a line for each case, cause and age."""
    _check(confidence)
    causes = grids.causes_in(results) if "end_cause" in results else {}

    def curves(lives: CaseLives) -> pd.DataFrame:
        ages = _ages(ages_years, np.unique([0.0, *grids.ages_of(grids.header_of(results))]), lives)

        def dead(of_cause: Any) -> Row:
            curve = cumulative_incidence(lives.years, lives.died, of_cause, ages, confidence)
            return {"share": curve.share, "share_lower": curve.lower, "share_upper": curve.upper}

        parts = [
            {"age_years": ages, "cause": name, **dead(lives.cause == number)}
            for number, name in causes.items()
        ]
        ended = dead(lives.died)
        alive = {
            "share": 1 - ended["share"],
            "share_lower": 1 - ended["share_upper"],
            "share_upper": 1 - ended["share_lower"],
        }
        parts.append({"age_years": ages, "cause": "alive", **alive})
        return pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True)

    return _stacked((case.labels, curves(lives)) for case, lives in grids.lives_in(results))


def histogram_frame(results: xr.Dataset) -> pd.DataFrame:
    """Counts of sampled cells: a line for each case, transistor and bin.

    Raises
    ------
    UserError
        As `mcage.analysis.grid.whole_histogram`.
    """
    name = str(grids.whole_histogram(results).name)

    def counts(case: xr.Dataset) -> pd.DataFrame:
        tables = [
            pd.DataFrame(
                {
                    "transistor": str(of_one["transistor"].item()),
                    "dvth_lower_mv": case["dvth_bin_lower_mv"].values,
                    "dvth_upper_mv": case["dvth_bin_upper_mv"].values,
                    "cells": of_one.values,
                    "share": of_one.values / (int(of_one.sum()) or np.nan),
                }
            )
            for of_one in case[name]
        ]
        return pd.concat(tables, ignore_index=True)

    return _stacked((case.labels, counts(case.results)) for case in grids.cases_of(results))


def _stacked(parts: Iterable[tuple[Row, pd.DataFrame]]) -> pd.DataFrame:
    """Frames of cases below each other, with the labels of their case in the first columns."""
    frames = [frame.assign(**labels)[[*labels, *frame.columns]] for labels, frame in parts]
    return pd.concat(frames, ignore_index=True)


def _ages(given: Sequence[float] | None, default: Floats, lives: CaseLives) -> Floats:
    if given is None:
        return default
    ages = np.atleast_1d(np.asarray(given, np.float64))
    for age in ages.tolist():
        _check_age(age, lives)
    return ages


def _check_age(age: float, lives: CaseLives) -> None:
    if not 0 <= age <= lives.horizon_years:
        raise UserError(
            f"age {age:g} years: lives are simulated from 0 to {lives.horizon_years:g} years, and "
            "nothing is known beyond"
        )


def _check(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise UserError(f"confidence = {confidence}: must lie between 0 and 1, both excluded")


# Lives as rows of a table: one for each case and instance, with what is known of each life.

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
    results = grids.with_grid(results)
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
    results = grids.with_grid(results)
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
                f"{name!r} is no variable of each instance of the study "
                f"{grids.study_of(results)!r}; "
                f"there are {', '.join(known)}"
            )
    return names


def _extent(results: xr.Dataset, chosen: Sequence[str]) -> tuple[int, int, int]:
    """Rows, columns and bytes of a table."""
    grid = grids.grid_of(results)
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
    grid = grids.grid_of(results)
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
    grid = grids.grid_of(results)
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


# Two cases compared instance by instance, in one dataset or in two.


@dataclass(frozen=True)
class Second:
    """The second of two cases.

    Parameters
    ----------
    name : str
        The case.
    results : xarray.Dataset, optional
        Results that it is of; by default those of the first.
    allow : sequence of str
        Keys in which the specs of both may differ.
    """

    name: str
    results: xr.Dataset | None = None
    allow: Sequence[str] = ()


def paired_frame(results: xr.Dataset, first: str, second: Second) -> pd.DataFrame:
    """A line for each quantity: means, their difference and ratio, die by die.

    Raises
    ------
    UserError
        A name means no case or several; both are the same case; or the two datasets are not of
        the same instances, or of specs that differ in what has not been allowed.
    """
    case, other = _both(results, first, second)
    grids.warn_of_dependence(grids.header_of(results))
    rows = [_row(line) for line in _lines(case, other)]
    return pd.DataFrame(rows)


def outliving_frame(results: xr.Dataset, first: str, second: Second) -> pd.DataFrame:
    """One line: the shares of the instances on which each of two cases lives longer.

    Raises
    ------
    UserError
        As `paired_frame`; or the study simulates no lives.
    """
    parts = _both(results, first, second)
    grids.warn_of_dependence(grids.header_of(results))
    (_, lives), (_, others) = (next(grids.lives_in(part.results)) for part in parts)
    shares = outliving(lives.years, lives.died, others.years, others.died)
    row = {"instances": lives.years.size}
    for field in fields(shares):
        value = getattr(shares, field.name)
        row |= bounds(field.name, value) if isinstance(value, Estimate) else {field.name: value}
    return pd.DataFrame([row])


def _both(results: xr.Dataset, first: str, second: Second) -> tuple[grids.GridCase, grids.GridCase]:
    """Both cases with the instances that they have in common."""
    case = grids.case_named(results, first)
    if second.results is None:
        other = grids.case_named(results, second.name)
        if other.name == case.name:
            raise UserError(f"{first!r} and {second.name!r} are both {case.name!r}: two are needed")
        return case, other
    _require_same_dies(results, second.results, second.allow)
    other = grids.case_named(second.results, second.name)
    ids, others = case.results["instance"].values, other.results["instance"].values
    common, *places = np.intersect1d(ids, others, assume_unique=True, return_indices=True)
    if not common.size:
        raise UserError("the two datasets have no instance in common")
    case, other = (
        replace(of, results=of.results.isel(instance=at))
        for of, at in zip((case, other), places, strict=True)
    )
    return case, other


def _require_same_dies(results: xr.Dataset, other: xr.Dataset, allow: Sequence[str]) -> None:
    """Refuse datasets of which an instance of the same id is not the same die."""
    headers = grids.header_of(results), grids.header_of(other)
    if headers[0].study != headers[1].study:
        raise UserError(f"they are of different studies, {headers[0].study}, {headers[1].study}")
    if headers[0].seed != headers[1].seed:
        raise UserError(
            f"seeds {headers[0].seed} and {headers[1].seed}: their dies differ, and cannot be "
            "compared die by die; mcage compare compares means of different dies"
        )
    specs = headers[0].spec_toml, headers[1].spec_toml
    differences = headers[0].differences(headers[1])
    refuse_unmeant(differences, allow, keys_of(*specs), lambda keys: f"allow={list(keys)}")
    for note in filter(None, map(note_on_programs, headers)):
        warnings.warn(note, stacklevel=5)


def _lines(case: grids.GridCase, other: grids.GridCase) -> list[comparison.Line]:
    if comparison.compared_measures(case.results):
        return comparison.measured_lines(case.results, other.results, paired=True)
    return comparison.study_lines(_compared(case), _compared(other), paired=True)


def _compared(case: grids.GridCase) -> xr.Dataset:
    """Numbers of each instance that differ from case to case."""
    arrays = case.results.data_vars.items()
    return xr.Dataset(
        {
            name: array
            for name, array in arrays
            if name in case.compared
            and "instance" in array.dims
            and {*array.dims} <= {"instance", "age"}
            and "flag_values" not in array.attrs
        }
    )


def _row(line: comparison.Line) -> dict[str, object]:
    means = line.means
    assert isinstance(means, PairedMeans)
    row: dict[str, object] = {"quantity": line.key, "dies": means.dies}
    for name in ("first", "second", "difference", "ratio"):
        row |= bounds(name, getattr(means, name))
    return row | {"variance_reduction": means.variance_reduction}
