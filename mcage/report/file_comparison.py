"""Results files compared case by case: on the same dies where seeds match, otherwise apart."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.report.cases import lives_of
from mcage.report.comparison import compare_cases
from mcage.report.selection import CASE_KEYS, Condition, places_where
from mcage.report.spec_differences import Difference, keys_of, refuse_unmeant, spec_differences
from mcage.report.tables.comparison import QUANTITIES, Line, Pair, lines_of
from mcage.results.header import Header
from mcage.results.reader import open_results, read_header
from mcage.stats.estimates import Floats
from mcage.stats.paired import compare_apart, compare_means
from mcage.sweep.header import SweepHeader
from mcage.sweep.variables import TRANSISTORS

OF_INSTANCES = "of the instances"
"""Name of what an instance has whatever the case."""

LISTED = 6
"""Cases that a title names of those that only one file has; `FileComparison` has all."""


@dataclass(frozen=True)
class FileComparison:
    """Cases that two results files have in common, compared.

    Parameters
    ----------
    first, second : str
        Paths of the files.
    study : str
        Study of both.
    seeds : tuple of int
        Their seeds.
    instances : tuple of int
        Number of instances that are compared, of each file.
    paired : bool
        Whether instances are compared one by one: seeds are equal, so that instance i has the same
        random numbers in both.
    differences : list of Difference
        In what the specs differ, besides cases and instances.
    only_first, only_second : list of str
        Cases that one file has alone.
    pairs : list of Pair
        Cases that both have.
    """

    first: str
    second: str
    study: str
    seeds: tuple[int, int]
    instances: tuple[int, int]
    paired: bool
    differences: list[Difference]
    only_first: list[str]
    only_second: list[str]
    pairs: list[Pair]


@dataclass(frozen=True)
class _Case:
    """A case of a file: by which it is selected, and its part of the file."""

    named: Mapping[str, str | float]
    part: xr.Dataset


def compare_files(
    first: Path, second: Path, allowed: Sequence[str] = (), where: Sequence[Condition] = ()
) -> FileComparison:
    """Compare the cases that two files have in common.

    Parameters
    ----------
    first, second : Path
        Results files of the same study.
    allowed : sequence of str
        Keys of the specs, or sections, that are meant to differ.
    where : sequence of Condition
        What cases must fulfil.

    Raises
    ------
    UserError
        The files hold other studies, their specs differ in what is not allowed, they have no case
        or no instance in common; or a file cannot be read.
    """
    headers = read_header(first), read_header(second)
    try:
        differences = _checked(headers, allowed)
    except UserError as error:
        raise UserError(f"{first} and {second}: {error}") from error
    paired = headers[0].seed == headers[1].seed
    with ExitStack() as files:
        opened = [files.enter_context(open_results(path)) for path in (first, second)]
        if paired:
            opened = _on_common_instances(opened, (first, second))
        cases = [_cases(results, header) for results, header in zip(opened, headers, strict=True)]
        common = [label for label in cases[0] if label in cases[1]]
        if not common:
            raise UserError(
                f"{first} and {second} have no case in common: {', '.join(cases[0])}; "
                f"{', '.join(cases[1])}"
            )
        if where:
            common = _selected(common, cases[0], where)
        compare = _sweep_pair if isinstance(headers[0], SweepHeader) else _study_pair
        pairs = [
            compare(label, cases[0][label].part, cases[1][label].part, paired) for label in common
        ]
        return FileComparison(
            first=str(first),
            second=str(second),
            study=headers[0].study,
            seeds=(headers[0].seed, headers[1].seed),
            instances=(opened[0].sizes["instance"], opened[1].sizes["instance"]),
            paired=paired,
            differences=differences,
            only_first=[label for label in cases[0] if label not in cases[1]],
            only_second=[label for label in cases[1] if label not in cases[0]],
            pairs=[pair for pair in pairs if pair.lines],
        )


def _checked(headers: tuple[Header, Header], allowed: Sequence[str]) -> list[Difference]:
    """In what the specs differ, if all of it is allowed."""
    first, second = headers
    if first.study != second.study:
        raise UserError(f"they hold different studies, {first.study} and {second.study}")
    differences = spec_differences(first.spec_toml, second.spec_toml)
    refuse_unmeant(differences, allowed, keys_of(first.spec_toml, second.spec_toml))
    return differences


def _on_common_instances(
    opened: Sequence[xr.Dataset], paths: tuple[Path, Path]
) -> list[xr.Dataset]:
    ids = [results["instance"].values for results in opened]
    common, *places = np.intersect1d(ids[0], ids[1], assume_unique=True, return_indices=True)
    if not common.size:
        raise UserError(f"{paths[0]} and {paths[1]} hold no instance in common")
    if all(common.size == of.size for of in ids):
        return list(opened)
    return [results.isel(instance=at) for results, at in zip(opened, places, strict=True)]


def _cases(results: xr.Dataset, header: Header) -> dict[str, _Case]:
    """Cases of a file by their labels; those of other studies are places of its dimensions."""
    if isinstance(header, SweepHeader):
        of_sweep = (results.isel(case=place) for place in range(results.sizes["case"]))
        return {
            str(part["case"].item()): _Case(
                {key: part[name].item() for key, name in CASE_KEYS.items()}, part
            )
            for part in of_sweep
        }
    parts: dict[str, tuple[dict[str, str | float], dict[str, xr.DataArray]]] = {}
    for name, array in results.data_vars.items():
        if "instance" not in array.dims or "flag_values" in array.attrs:
            continue
        dims = [str(dim) for dim in array.dims if dim not in ("instance", "age")]
        for place in np.ndindex(tuple(results.sizes[dim] for dim in dims)):
            values = array.isel(dict(zip(dims, place, strict=True)))
            named = {dim: values[dim].item() for dim in dims}
            label = " ".join(map(str, named.values())) or OF_INSTANCES
            arrays = parts.setdefault(label, (named, {}))[1]
            arrays[str(name)] = values.drop_vars(dims)
    return {label: _Case(named, xr.Dataset(arrays)) for label, (named, arrays) in parts.items()}


def _selected(
    labels: Sequence[str], cases: Mapping[str, _Case], where: Sequence[Condition]
) -> list[str]:
    """Labels of the cases that fulfil all conditions; some cases have fewer keys than others."""
    keys = {condition.key for condition in where}
    with_keys = [label for label in labels if keys <= set(cases[label].named)]
    named = with_keys or [max(labels, key=lambda label: len(cases[label].named))]
    places = places_where(where, [cases[label].named for label in named])
    return [named[place] for place in places]


def _sweep_pair(label: str, case: xr.Dataset, other: xr.Dataset, paired: bool) -> Pair:
    if paired:
        comparison = compare_cases(case, other)
        return Pair(label, lines_of(comparison), comparison.outliving)
    first, second = _values_of(case), _values_of(other)
    return Pair(
        label,
        [Line(key, *QUANTITIES[key], compare_apart(first[key], second[key])) for key in first],
    )


def _values_of(case: xr.Dataset) -> dict[str, Floats]:
    """Values of a case of a sweep by instance, for each quantity that is compared."""
    shifts = case["max_dvth_mv"].values
    return {
        "life_to_horizon_years": lives_of(case).years,
        **{f"max_dvth_{name.lower()}_mv": shifts[:, i] for i, name in enumerate(TRANSISTORS)},
        "spill_rate": case["spill_rate"].values,
        "energy_saving_nominal": case["energy_saving_nominal"].values,
    }


def _study_pair(label: str, case: xr.Dataset, other: xr.Dataset, paired: bool) -> Pair:
    return Pair(label, study_lines(case, other, paired))


def study_lines(case: xr.Dataset, other: xr.Dataset, paired: bool) -> list[Line]:
    """Compare all numbers that each instance has, those with ages at the last age.

    Parameters
    ----------
    case, other : xarray.Dataset
        Numbers of two cases: [instance], or [instance, age].
    paired : bool
        Whether instances are compared one by one; they must be the same.
    """
    lines = []
    for name, array in case.data_vars.items():
        if name in other:
            first, second = _at_last_age(array), _at_last_age(other[name])
            means = compare_means(first, second) if paired else compare_apart(first, second)
            lines.append(Line(str(name), _name_of(array), 1.0, means))
    return lines


def _at_last_age(array: xr.DataArray) -> Floats:
    chosen = array.isel(age=-1) if "age" in array.dims else array
    return np.asarray(chosen.values, np.float64)


def _name_of(array: xr.DataArray) -> str:
    units = str(array.attrs.get("units", "1"))
    at = f" at {float(array['age'][-1]):g} years" if "age" in array.dims else ""
    name = str(array.attrs.get("long_name", array.name))
    return f"{name}{at}" + (f" [{units}]" if units != "1" else "")


def pairs_of(comparisons: Sequence[FileComparison]) -> list[Pair]:
    """Lines of the table of some comparisons with the same first file."""
    return [
        Pair(pair.case, pair.lines, pair.outliving, Path(of.second))
        for of in comparisons
        for pair in of.pairs
    ]


def title_of(comparisons: Sequence[FileComparison]) -> str:
    """What is compared, on which instances, and in what the specs differ."""
    first = comparisons[0]
    lines = [f"A: {first.first}"]
    for of in comparisons:
        lines.append(f"B: {of.second}")
        counts = of.instances
        if of.paired:
            lines.append(f"  {counts[0]} instances of both, one by one (seed {of.seeds[0]})")
        else:
            lines.append(
                f"  not the same dies (seeds {of.seeds[0]} and {of.seeds[1]}): {counts[0]} and "
                f"{counts[1]} instances, compared by their means"
            )
        lines += [f"  differs: {difference}" for difference in of.differences]
        for name, alone in (("A", of.only_first), ("B", of.only_second)):
            if alone:
                more = len(alone) - LISTED
                others = f", and {more} more" if more > 0 else ""
                lines.append(f"  only in {name}: {', '.join(alone[:LISTED])}{others}")
    return "\n".join(lines)


def as_json(comparison: FileComparison) -> dict[str, Any]:
    """Comparison as plain values: quantities by their keys."""
    from mcage.stats.wording import plain

    fields: dict[str, Any] = plain(comparison)
    for pair, of in zip(fields["pairs"], comparison.pairs, strict=True):
        del pair["file"]
        pair["lines"] = {line.key: {"name": line.name} | plain(line.means) for line in of.lines}
    return fields
