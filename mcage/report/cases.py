"""Cases of a results file: the names that select them, and their lives."""

import json
import operator
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.plain_text import shown, visible
from mcage.protection.policy import PROTECTED, unprotected
from mcage.results.header import Header
from mcage.results.reader import open_results
from mcage.stats.estimates import Floats
from mcage.stats.survival import CaseLives

Numbers = TypeVar("Numbers")

CAUSES = {
    cause: cause.name.lower().replace("_", " ")
    for cause in EndCause
    if cause is not EndCause.CENSORED
}
"""Causes of death in words."""


def lives_of(case: xr.Dataset) -> CaseLives:
    """Lives of a case of a results file."""
    cause = case["end_cause"].values
    return CaseLives(
        label=str(case["case"].item()),
        years=case["life_years"].values,
        died=cause != EndCause.CENSORED,
        cause=cause,
        horizon_years=float(case["epoch_end_years"][-1]),
    )


SLOWDOWN_VARIABLES = ("life_years", "end_cause", "slowdown_new", "epoch_slowdown")
"""What tells how slices become slower with age."""


def slowdown_by_age(case: xr.Dataset) -> tuple[Floats, Floats]:
    """Age 0 and the ends of the epochs, and the slowdown of each slice then: [age], [age, slice].

    That at the end of the epoch in which a slice dies is the one at its death.
    """
    of_epochs = case["epoch_slowdown"].transpose("epoch", "instance").values
    slower = np.concatenate([case["slowdown_new"].values[None], of_epochs])
    return np.concatenate([[0.0], case["epoch_end_years"].values]), slower


def years_until_slower(case: xr.Dataset, limit: float) -> Floats:
    """Age at which each slice is dead or slower than a limit: float64[instance], years.

    Between the ends of epochs, a slowdown is taken to grow with the fourth root of time, by which
    faults grow (numerical).

    Parameters
    ----------
    case : xarray.Dataset
        A case of a sweep.
    limit : float
        Slowdown, as a fraction.

    Returns
    -------
    ndarray of float [instance]
        The horizon where a slice is neither by then.
    """
    ages, slower = slowdown_by_age(case)
    years = case["life_years"].values.copy()
    years[slower[0] > limit] = 0.0
    for epoch, (before, after) in enumerate(pairwise(slower)):
        crosses = (before <= limit) & (after > limit)
        start, end = ages[epoch] ** 0.25, np.minimum(ages[epoch + 1], years[crosses]) ** 0.25
        part = (limit - before[crosses]) / (after[crosses] - before[crosses])
        years[crosses] = np.minimum(years[crosses], (start + part * (end - start)) ** 4)
    return np.asarray(years)


@dataclass(frozen=True)
class Setting:
    """Environment, scenario and voltages: what cases that differ in their technique alone share.

    Parameters
    ----------
    environment, scenario : str
        Names of the two.
    voltages : str
        Supply voltage at each operating point of the environment, with the unit.
    """

    environment: str
    scenario: str
    voltages: str

    @classmethod
    def of(cls, case: xr.Dataset) -> "Setting":
        """Setting of a case of a results file."""
        names = ("technique", "environment", "scenario", "case")
        return cls.of_names(*(str(case[name].item()) for name in names))

    @classmethod
    def of_names(cls, technique: str, environment: str, scenario: str, label: str) -> "Setting":
        """Setting of a case by its names and its label, which is made of them and the voltages."""
        voltages = label.removeprefix(f"{technique} {environment} {scenario} ")
        return cls(environment, scenario, voltages)

    @property
    def title(self) -> str:
        """The setting in words."""
        return visible(f"{self.environment} {self.voltages}, {self.scenario}")


@dataclass(frozen=True)
class Named(Generic[Numbers]):
    """A case by its names, with what a figure shows of it.

    Parameters
    ----------
    label : str
        Label of the case, as a figure may show it.
    technique : str
        Its technique, as a figure may show it.
    setting : Setting
        What it shares with cases of other techniques.
    numbers : any
        What is shown of it.
    identity : str
        The technique as the file has it; empty where it is no technique of mcage.
    """

    label: str
    technique: str
    setting: Setting
    numbers: Numbers
    identity: str = ""

    @classmethod
    def of(cls, case: xr.Dataset, numbers: Numbers) -> "Named[Numbers]":
        """Name a case of a results file."""
        identity = str(case["technique"].item())
        label, name = str(case["case"].item()), names_in(case).get(identity, visible(identity))
        return cls(visible(label), name, Setting.of(case), numbers, identity)


def identities(cases: Iterable[Named[Numbers]]) -> dict[str, str]:
    """Techniques of cases as the file has them, by the names that figures show."""
    return {case.technique: case.identity or case.technique for case in cases}


NAMES = "technique_names"
"""Attribute of results: names of techniques for people, by what the file calls them, as JSON."""


def names_in(results: xr.Dataset) -> dict[str, str]:
    """Names for people of techniques, by what the file calls them; others bear that name."""
    names: dict[str, str] = json.loads(results.attrs.get(NAMES, "{}"))
    return {technique: visible(name) for technique, name in names.items()}


def names_for(headers: Sequence[Header], labels: Mapping[str, str]) -> dict[str, str]:
    """Names for people of the techniques of files: labels, or else what techniques call themselves.

    Parameters
    ----------
    headers : sequence of Header
        Headers of the files.
    labels : mapping of str to str
        Names by technique or policy, as the files call it.

    Raises
    ------
    UserError
        No file has such a technique, a label is empty, or two techniques would have the same name.
    """
    coordinates = [coordinate for header in headers for coordinate in header.coordinates]
    there = dict.fromkeys(
        str(value)
        for coordinate in coordinates
        if coordinate.variable.name in ("technique", "policy")
        for value in coordinate.values
    )
    unguarded = {name: unprotected(name) for name in there}
    for technique, label in labels.items():
        if technique not in there and technique not in dict(unguarded.values()):
            raise UserError(
                f"label of {shown(technique)}: there is none; there are {', '.join(there)}"
            )
        if not label.strip():
            raise UserError(f"label of {shown(technique)}: it is empty")
        _check_mathematics(technique, label)
    declared = (json.loads(header.declaration().get(NAMES, "{}")) for header in headers)
    names = {name: label for of_file in declared for name, label in of_file.items()} | dict(labels)
    # The name of a technique is that of its cases with any protection, unless these have another.
    for given, (technique, guard) in unguarded.items():
        if given not in names and technique in names:
            names[given] = f"{names[technique]}{PROTECTED}{guard}"
    bearers: dict[str, str] = {}
    for technique in there:
        name = names.get(technique, technique)
        if bearers.setdefault(name, technique) != technique:
            raise UserError(
                f"{shown(bearers[name])} and {shown(technique)} would both be called "
                f"{shown(name)}: give them other labels"
            )
    return names


def _check_mathematics(technique: str, label: str) -> None:
    """Refuse a label whose mathematics no figure could show."""
    if "$" not in label:
        return
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(label)
    except ValueError as error:
        why = str(error).splitlines()[-1]
        raise UserError(f"label of {shown(technique)}: {shown(label)}: {why}") from error


def parsed_labels(texts: Iterable[str]) -> dict[str, str]:
    """Read the names of techniques as they are given on the command line: ``TECHNIQUE=NAME``.

    Raises
    ------
    UserError
        One has no equals sign, or a technique has several.
    """
    pairs = {}
    for text in texts:
        technique, equals, label = text.partition("=")
        if not equals:
            raise UserError(f"--label {shown(text)}: TECHNIQUE=NAME is needed, such as rrcd=RRCD")
        if (technique := technique.strip()) in pairs:
            raise UserError(f"--label {shown(text)}: {shown(technique)} is given twice")
        pairs[technique] = label.strip()
    return pairs


def with_names(results: xr.Dataset, names: Mapping[str, str]) -> xr.Dataset:
    """Results whose techniques have other names for people, as `names_for` returns them."""
    return results.assign_attrs({NAMES: json.dumps(dict(names))})


def by_setting(cases: Iterable[Named[Numbers]]) -> dict[Setting, list[Named[Numbers]]]:
    """Cases by what they share but for their technique, in the order of the file."""
    settings: dict[Setting, list[Named[Numbers]]] = {}
    for case in cases:
        settings.setdefault(case.setting, []).append(case)
    return settings


def labels_of(results: xr.Dataset) -> list[str]:
    """Labels of all cases, in the order of the file; none where there are no cases."""
    return [str(label) for label in results["case"].values] if "case" in results.dims else []


def find_case(labels: Sequence[str], name: str) -> int:
    """Find the only case that a name means.

    Parameters
    ----------
    labels : sequence of str
        Labels of the cases of the file.
    name : str
        A label or its beginning: of whole words (``rrcd dvfs`` does not mean
        ``rrcd dvfsx``, nor ``rrcd`` the technique ``rrcd+pg``); if no label begins with such words,
        of words without the protection (``rrcd dvfs`` for ``rrcd@secded32 dvfs``), or of letters.

    Returns
    -------
    int
        Place of the case in the order of the file.

    Raises
    ------
    UserError
        No case has that name, or several have.
    """
    for begins in (str.__eq__, _begins_with_words, _begins_unprotected, str.startswith):
        places = [place for place, label in enumerate(labels) if begins(label, name)]
        if len(places) == 1:
            return places[0]
        if places:
            meant = ", ".join(repr(labels[place]) for place in places)
            raise UserError(f"case {name!r} may be {meant}: give more of its label")
    raise UserError(f"no case {name!r}; there are {', '.join(map(repr, labels))}")


def _begins_with_words(label: str, name: str) -> bool:
    words = name.split()
    return bool(words) and label.split()[: len(words)] == words


def _begins_unprotected(label: str, name: str) -> bool:
    return _begins_with_words(" ".join(unprotected(word)[0] for word in label.split()), name)


# Which cases of a results file are wanted: conditions such as ``technique=rrcd``.

Summary = TypeVar("Summary")

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Between a key and a value; the last four are for numbers."""

SAME_NUMBER = 1e-9
"""Numbers that differ by less are equal but for rounding."""

CASE_KEYS = {
    "technique": "technique",
    "protection": "protection",
    "environment": "environment",
    "scenario": "scenario",
    "vdd": "vdd_volts",
    "case": "case",
}
"""Coordinates of cases, by the keys that select them; files of studies have some of them."""


@dataclass(frozen=True)
class Condition:
    """What cases must fulfil to be shown.

    Parameters
    ----------
    key : str
        Coordinate of the cases.
    comparison : str
        A key of `COMPARISONS`.
    values : tuple of str
        Values of which, for ``=``, any will do, and for ``!=``, none may be; otherwise one number.
    """

    key: str
    comparison: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """Read a condition as it is given on the command line.

        Raises
        ------
        UserError
            It is none.
        """
        match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(!=|<=|>=|=|<|>)(.+)", text, re.DOTALL)
        if match is None:
            raise UserError(
                f"--where {shown(text)}: KEY=VALUE is needed, such as technique=rrcd, or another "
                f"comparison: {' '.join(COMPARISONS)}"
            )
        key, comparison, given = match.groups()
        values = tuple(value.strip() for value in given.split(","))
        if comparison not in ("=", "!=") and (len(values) > 1 or _number(values[0]) is None):
            raise UserError(f"--where {shown(text)}: {comparison} compares with one number")
        return cls(key, comparison, values)

    def names(self, actual: str | float) -> tuple[str | float, ...]:
        """What selects a value of the key: a technique also has its name without protection."""
        if self.key == "technique" and isinstance(actual, str):
            return unprotected(actual)[0], actual
        return (actual,)

    def holds(self, actual: str | float) -> bool:
        """Whether a case with this value of the key fulfils it."""
        if self.comparison in ("=", "!="):
            same = any(_same(name, value) for name in self.names(actual) for value in self.values)
            return same == (self.comparison == "=")
        bound = _number(self.values[0])
        if isinstance(actual, str) or bound is None:
            raise UserError(f"--where {self}: {self.key} is no number; use = or !=")
        if abs(actual - bound) <= SAME_NUMBER:
            return "=" in self.comparison
        return COMPARISONS[self.comparison](actual, bound)

    def __str__(self) -> str:
        return shown(f"{self.key}{self.comparison}{','.join(self.values)}")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _same(actual: str | float, text: str) -> bool:
    if isinstance(actual, str):
        return actual == text
    number = _number(text)
    return number is not None and abs(actual - number) <= SAME_NUMBER


def places_where(
    conditions: Sequence[Condition], of: Sequence[Mapping[str, str | float]]
) -> list[int]:
    """Places of the lines that fulfil all conditions.

    Parameters
    ----------
    conditions : sequence of Condition
        What they must fulfil.
    of : sequence of mapping
        For each line, its values by key; all lines have the same keys.

    Raises
    ------
    UserError
        A key does not exist, or no line fulfils all of the conditions; the message says which keys
        and values there are.
    """
    kept = list(range(len(of)))
    for condition in conditions:
        if condition.key not in of[0]:
            raise UserError(
                f"--where {condition}: there is no key {shown(condition.key)}; "
                f"the keys are {', '.join(of[0])}"
            )
        there = dict.fromkeys(line[condition.key] for line in of)
        kept = [place for place in kept if condition.holds(of[place][condition.key])]
        if not any(condition.holds(value) for value in there):
            names = dict.fromkeys(condition.names(value)[0] for value in there)
            values = ", ".join(
                shown(f"{name:g}" if isinstance(name, float) else name) for name in names
            )
            raise UserError(
                f"--where {condition}: nothing has it; values of {condition.key}: {values}"
            )
    if not kept:
        together = " and ".join(map(str, conditions))
        raise UserError(
            f"--where {together}: nothing has all of it; alternatives are separated by commas"
        )
    return kept


def axes_of(results: xr.Dataset) -> list[dict[str, Any]]:
    """Of each case what tells it from others, by those keys of `CASE_KEYS` that the results have.

    Files of sweeps and of Vmin name the protection of a case with its technique.
    """
    values = {
        key: results[name].values.tolist()
        for key, name in CASE_KEYS.items()
        if name in results.coords
    }
    if "protection" not in values and "technique" in values:
        values["protection"] = [unprotected(name)[1] for name in values["technique"]]
    keys = [key for key in CASE_KEYS if key in values]
    return [
        dict(zip(keys, line, strict=True))
        for line in zip(*(values[key] for key in keys), strict=True)
    ]


def selected(
    summaries: Sequence[Summary], conditions: Sequence[Condition], keys: Sequence[str], path: Path
) -> list[Summary]:
    """Summaries that fulfil all conditions on their attributes of these names.

    Raises
    ------
    UserError
        As `places_where`; it names the file.
    """
    lines = [
        {key: getattr(summary, CASE_KEYS.get(key, key)) for key in keys} for summary in summaries
    ]
    try:
        return [summaries[place] for place in places_where(conditions, lines)]
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def selected_cases(results: xr.Dataset, conditions: Sequence[Condition]) -> xr.Dataset:
    """Cases that fulfil all conditions.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it.
    conditions : sequence of Condition
        On the keys of `CASE_KEYS` that the results have; ``vdd`` is the lowest supply voltage in
        volts. Of results without cases, on the names along the only other dimension of texts.

    Raises
    ------
    UserError
        As `places_where`; or there are several dimensions of texts, or none.
    """
    if not conditions:
        return results
    if "case" in results.dims:
        return results.isel(case=places_where(conditions, axes_of(results)))
    dims = [name for name in results.dims if _names_along(results, name)]
    if len(dims) != 1:
        raise UserError(
            f"--where {conditions[0]}: these results have no cases; mcage show selects lines of "
            "their table"
        )
    lines = [{str(dims[0]): name} for name in results[dims[0]].values.tolist()]
    return results.isel({dims[0]: places_where(conditions, lines)})


def _names_along(results: xr.Dataset, dim: Hashable) -> bool:
    return dim in results.coords and results[dim].dtype.kind in "OUT"


def summarized(
    path: Path,
    summarize: Callable[[xr.Dataset], Summary],
    conditions: Sequence[Condition] = (),
) -> Summary:
    """What a function says of the cases of a file that fulfil all conditions.

    Parameters
    ----------
    path : Path
        Results file of a sweep.
    summarize : callable
        Function of the open file.
    conditions : sequence of Condition
        As for `selected_cases`.

    Raises
    ------
    UserError
        The file is missing, foreign, damaged or of a newer mcage; or as `selected_cases` and the
        function, with the name of the file.
    """
    with open_results(path) as results:
        try:
            return summarize(selected_cases(results, conditions))
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
