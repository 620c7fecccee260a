"""Which cases of a results file are wanted: conditions such as ``technique=rrcd``."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import xarray as xr

from mcage.errors import UserError
from mcage.plain_text import shown
from mcage.results.reader import open_results

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
    "environment": "environment",
    "scenario": "scenario",
    "vdd": "vdd_volts",
}
"""Coordinates of the cases of a sweep, by the keys that select them."""


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

    def holds(self, actual: str | float) -> bool:
        """Whether a case with this value of the key fulfils it."""
        if self.comparison == "=":
            return any(_same(actual, value) for value in self.values)
        if self.comparison == "!=":
            return not any(_same(actual, value) for value in self.values)
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
            values = ", ".join(
                shown(f"{value:g}" if isinstance(value, float) else value) for value in there
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


def selected(
    summaries: Sequence[Summary], conditions: Sequence[Condition], keys: Sequence[str], path: Path
) -> list[Summary]:
    """Summaries that fulfil all conditions on their attributes of these names.

    Raises
    ------
    UserError
        As `places_where`; it names the file.
    """
    lines = [{key: getattr(summary, key) for key in keys} for summary in summaries]
    try:
        return [summaries[place] for place in places_where(conditions, lines)]
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def selected_cases(results: xr.Dataset, conditions: Sequence[Condition]) -> xr.Dataset:
    """Cases of a sweep that fulfil all conditions.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it.
    conditions : sequence of Condition
        On ``technique``, ``environment``, ``scenario`` and ``vdd``, the lowest supply voltage in
        volts.

    Raises
    ------
    UserError
        As `places_where`.
    """
    if not conditions:
        return results
    values = {key: results[name].values.tolist() for key, name in CASE_KEYS.items()}
    lines = [dict(zip(values, line, strict=True)) for line in zip(*values.values(), strict=True)]
    return results.isel(case=places_where(conditions, lines))


def summarized(
    path: Path,
    summarize: Callable[[xr.Dataset], Summary],
    conditions: Sequence[Condition] = (),
) -> Summary:
    """What a function says of the cases of a sweep that fulfil all conditions.

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
