"""What the specs of all studies have in common: TOML in and out, and a digest."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform, get_args, get_origin

import tomli_w
from pydantic import BaseModel, Field, ValidationError

from mcage.errors import UserError
from mcage.files.inputs import check_plain, read_toml
from mcage.plain_text import one_line, shortened, unit_in_words
from mcage.spec.environments import Point
from mcage.spec.keys import Key, inner_section, keys_below, option_keys
from mcage.spec.sections import Section

# What is wrong with a spec, in one line that names the key, the value and what is right.

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
    unit = unit_in_words(
        next((name for name in location[::-1] if isinstance(name, str)), ""), message
    )
    return f"{key} = {shortened(problem['input'])}: {message[:1].lower()}{message[1:]}{unit}"


def _unknown_key(location: Sequence[int | str], spec: type[Section]) -> str:
    if location == ["environment"]:
        return _NO_ENVIRONMENT_TABLE
    *table, name = map(str, location)
    known = list(_section_at(table, spec).model_fields)
    everywhere = [key for key, _ in keys_below(spec)]
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


def _section_at(table: Iterable[int | str], spec: type[BaseModel]) -> type[BaseModel]:
    """Section in which the last part of a location was looked for."""
    section = spec
    for name in table:
        field = section.model_fields.get(str(name))
        inner = field and inner_section(field.annotation)
        if inner is None:  # below operating points, by name and number
            return Point
        section = inner
    return section


# What may be typed in Python where a spec is made: plain values, and what stands for them.
#
# A tuple or an array stands for a list, a single text or number for a list of one where a list is
# needed, and a table is a dict or a section.


def plain_fields(given: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Plain values, as TOML would give them, for what somebody has typed in Python.

    Parameters
    ----------
    given : mapping of str to object
        Keys of a table of a spec, with whatever they were given. Unknown keys stay.
    model : type
        The section whose keys these are.
    """
    known = model.model_fields
    return {
        name: _plain(value, known[name].annotation if name in known else None)
        for name, value in given.items()
    }


def _plain(value: Any, annotation: Any = None) -> Any:
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in sorted(value.model_fields_set)}
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        value = value.tolist()
    if isinstance(value, Mapping):
        return plain_fields(value, inner_section(annotation) or Section)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    wants_list = any(get_origin(kind) is tuple for kind in (annotation, *get_args(annotation)))
    return [value] if wants_list and isinstance(value, str | int | float) else value


EXTENT = ("instances", "stopping")
"""Keys that say how many instances are computed, and decide none of them."""

BESIDE = (*EXTENT, "programs")
"""Keys that are not in the digest of a spec: programs themselves are."""


if TYPE_CHECKING:  # where it has no public name
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(Section)


@dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
class _OfPython(ModelMetaclass):
    """Checks what is typed in Python as if it stood in TOML, by the same rules and words."""

    if not TYPE_CHECKING:

        def __call__(spec, /, **fields):  # noqa: N805
            return spec.from_mapping(plain_fields(fields, spec), spec.__name__)


class StudySpec(Section, metaclass=_OfPython):
    """Everything that decides the results of a study.

    In Python, `SweepSpec(techniques=["rrcd"], life={"horizon_years": 5})` takes what TOML takes,
    and sections as objects; see `mcage.spec.study_spec`.

    Attributes
    ----------
    command : str
        How messages call a spec that comes from no file.
    compared : list of str
        Keys whose options stand first in the help.
    decided_by : mapping of str to sequence of str
        By the key of a program: keys of the spec, and sections, that make it another one.

    Raises
    ------
    UserError
        As `from_mapping`.
    """

    command: ClassVar[str]
    compared: ClassVar[list[str]] = []
    decided_by: ClassVar[Mapping[str, Sequence[str]]] = {}

    @classmethod
    def from_mapping(cls, fields: dict[str, Any], source: str | None = None) -> Self:
        """Check nested plain values, such as TOML gives, and make a spec of them.

        Parameters
        ----------
        fields : dict
            Keys of the spec; missing ones keep their defaults.
        source : str, optional
            Where the values come from, for error messages.

        Raises
        ------
        UserError
            One line that names the key, the value and what is right.
        """
        source = source or cls.command
        try:
            check_plain("", fields)
            return cls.model_validate_json(json.dumps(cls.plain(fields), default=str))
        except ValidationError as error:
            raise UserError(f"{source}: {first_problem(error, cls)}") from error
        except (TypeError, ValueError) as error:
            raise UserError(f"{source}: {error}") from error

    @classmethod
    def options(cls) -> list[Key]:
        """Return the keys that have options, in the order of the help."""
        return option_keys(cls)

    @classmethod
    def plain(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with the keys of the spec in place of what else users may give."""
        return fields

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a spec from a TOML file."""
        return cls.from_mapping(read_toml(path), str(path))

    def to_toml(self) -> str:
        """TOML text from which the same spec is read again; keys that are None are left out."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))

    def digest(self, *further: str) -> str:
        """Hexadecimal digest of what decides an instance: of the spec, and of further texts.

        How many instances are computed, and when a campaign stops, decides no instance.
        """
        fields = json.dumps(self._of_an_instance(), sort_keys=True)
        return hashlib.blake2b("\0".join([fields, *further]).encode(), digest_size=32).hexdigest()

    def _of_an_instance(self) -> dict[str, Any]:
        """Plain values of the spec without `BESIDE`, its own and those of the specs in it."""
        fields = self.model_dump(mode="json", exclude_none=True, exclude=set(BESIDE))
        inner = {name: spec for name, spec in self if isinstance(spec, StudySpec)}
        return fields | {name: spec._of_an_instance() for name, spec in inner.items()}


def with_table(
    fields: dict[str, Any], key: str, read: Callable[[Path], dict[str, Any]]
) -> dict[str, Any]:
    """Replace the name of a file by the table in it, since that decides results.

    Parameters
    ----------
    fields : dict
        Plain values of a spec or a section.
    key : str
        Dotted key under which the name, or the table itself, may stand.
    read : callable
        Reads the file.
    """
    key, _, below = key.partition(".")
    given = fields.get(key)
    if below:
        if not isinstance(given, dict):
            return fields
        return fields | {key: with_table(given, below, read)}
    return fields | {key: read(Path(given))} if isinstance(given, str) else fields
