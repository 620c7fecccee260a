"""What is wrong with a spec, in one line that names the key, the value and what is right."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import get_args

from pydantic import ValidationError

from mcage.plain_text import one_line, shortened
from mcage.spec.environments import Point
from mcage.spec.sections import Section, Workload

_NO_ENVIRONMENT_TABLE = (
    "unknown key 'environment'; give the operating points of an environment as "
    "[[operating_points.NAME]], and the names of the environments to compare as environments = "
    "[...]"
)
"""For specs that take `operating_points` for a key by the name of `environments` without its s."""

_MOST_MEANT = 3
"""Keys that a message proposes at most."""


def first_problem(error: ValidationError, spec: type[Section]) -> str:
    """Say what is wrong first; a misspelt key comes before one that is therefore missing.

    Parameters
    ----------
    error : ValidationError
        What pydantic found.
    spec : type
        The whole spec, to name the keys that there are.
    """
    problems = error.errors(include_url=False)
    unknown = (problem for problem in problems if problem["type"] == "extra_forbidden")
    problem = next(unknown, problems[0])
    location = [part for part in problem["loc"] if not str(part).startswith("literal[")]
    key = one_line(".".join(map(str, location)))
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        return _unknown_key(location, spec)
    if problem["type"] == "missing":
        return f"{key} is missing"
    if not key:
        return message
    return f"{key} = {shortened(problem['input'])}: {message[:1].lower()}{message[1:]}"


def _unknown_key(location: Sequence[int | str], spec: type[Section]) -> str:
    if location == ["environment"]:
        return _NO_ENVIRONMENT_TABLE
    *table, name = map(str, location)
    known = _keys_of(location, spec)
    everywhere = list(_dotted(spec))
    meant = (
        _here(table, _begin_with(name, known))
        or _begin_with(name, everywhere)
        or _here(table, get_close_matches(name[:100], known, n=1))
        or _close_to(name, everywhere)
    )[:_MOST_MEANT]
    hint = f"; is {' or '.join(meant)} meant?" if meant else ""
    key = one_line(".".join([*table, name]))
    return f"unknown key {key!r}; there are {', '.join(known)}{hint}"


def _here(table: Sequence[str], names: Iterable[str]) -> list[str]:
    return [".".join([*table, name]) for name in names]


def _begin_with(name: str, keys: Iterable[str]) -> list[str]:
    """Keys that a name without its unit, or without its table, may stand for."""
    return [key for key in keys if f"{key.rpartition('.')[2]}_".startswith(f"{name}_")]


def _close_to(name: str, keys: Iterable[str]) -> list[str]:
    """Keys of other tables that a misspelt name may stand for."""
    by_name = {key.rpartition(".")[2]: key for key in keys}
    return [by_name[close] for close in get_close_matches(name[:100], by_name, n=1, cutoff=0.8)]


def _dotted(spec: type[Section], table: str = "") -> Iterator[str]:
    """All keys below a table, tables among them."""
    for name, field in spec.model_fields.items():
        kinds = (field.annotation, *get_args(field.annotation))
        sections = [k for k in kinds if isinstance(k, type) and issubclass(k, Section)]
        for section in sections:
            yield from _dotted(section, f"{table}{name}.")
        yield f"{table}{name}"


def _keys_of(location: Sequence[int | str], spec: type[Section]) -> list[str]:
    """Keys of the table in which the last part of a location was looked for."""
    section = spec
    if len(location) > 1:
        annotation = spec.model_fields[str(location[0])].annotation
        kinds = (annotation, *get_args(annotation))
        sections = (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Section))
        section = next(sections, Point)
    return [*section.model_fields, *(["period_years"] if section is Workload else [])]
