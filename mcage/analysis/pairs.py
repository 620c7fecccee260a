"""Two cases compared instance by instance, in one dataset or in two."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
import xarray as xr

from mcage.analysis import grid as grids
from mcage.analysis.frames import bounds
from mcage.errors import UserError
from mcage.report.comparison import (
    Line,
    compare_cases,
    keys_of,
    refuse_unmeant,
    spec_differences,
    study_lines,
)
from mcage.stats.estimates import Estimate
from mcage.stats.paired import PairedMeans, outliving


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
    differences = spec_differences(*specs)
    refuse_unmeant(differences, allow, keys_of(*specs), lambda keys: f"allow={list(keys)}")


def _lines(case: grids.GridCase, other: grids.GridCase) -> list[Line]:
    if "case" in case.results.coords:
        return compare_cases(case.results, other.results).lines
    return study_lines(_compared(case), _compared(other), paired=True)


def _compared(case: grids.GridCase) -> xr.Dataset:
    """Numbers of each instance that differ from case to case."""
    arrays = case.results.data_vars.items()
    return xr.Dataset(
        {
            name: array
            for name, array in arrays
            if name in case.compared
            and "instance" in array.dims
            and "flag_values" not in array.attrs
        }
    )


def _row(line: Line) -> dict[str, object]:
    means = line.means
    assert isinstance(means, PairedMeans)
    row: dict[str, object] = {"quantity": line.key, "dies": means.dies}
    for name in ("first", "second", "difference", "ratio"):
        row |= bounds(name, getattr(means, name))
    return row | {"variance_reduction": means.variance_reduction}
