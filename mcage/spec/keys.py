"""Parts of specs: keys, each with its option and its use, sections, and whole specs.

What a key says beside its range stands in the annotation of its field, such as
`Option("--epochs N")` in that of `Life.epochs`: the option that sets it, and when it is of no use.
The docstring of the field is the help. All else follows: the default in words, what the command
line reads, ``--set``, the refusal of values that no case depends on. A new key is one field.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from mcage.errors import UserError
from mcage.files.inputs import check_plain, read_toml
from mcage.plain_text import field_docstring, one_line, shortened, unit_in_words
from mcage.plugins import is_plugin

if TYPE_CHECKING:
    from mcage.techniques import Technique

COMPARED = "What to compare"
"""Panel of the keys that are looked at first."""


@dataclass(frozen=True)
class Option:
    """The option of the command line that sets a key of a spec.

    Parameters
    ----------
    usage : str
        The flag, and after a space what stands for the value in the help; for a Boolean value both
        flags, with a slash between them. A value called ``NAME=VALUE`` makes a table of numbers.
    default : str
        Default in words, where the value of the field does not say it.
    seldom : bool
        Whether ``--help`` leaves the option to ``--help-all``.
    is_axis : bool
        Whether each value of a list is a case: a command of one case takes the option once.
    panel : str
        Panel of the help; by default that of the section.
    """

    usage: str
    default: str = ""
    seldom: bool = False
    is_axis: bool = False
    panel: str = ""


@dataclass(frozen=True)
class UsedIf:
    """Condition under which a case of a spec may depend on a key, and the reason if none does.

    Parameters
    ----------
    condition : callable
        Judges the spec and its techniques.
    reason : str or callable
        Why no case depends on the key, and what would change that; a format of ``spec``, or a
        function of it.
    """

    condition: "Callable[[Any, Sequence[Technique]], bool]"
    reason: str | Callable[[Any], str]


@dataclass(frozen=True)
class RunsCode:
    """Which values of a key run code of whoever has written them.

    Parameters
    ----------
    condition : callable
        Judges a value of the key, or each of a list.
    compiles : bool
        Whether the others are compiled, too, or run on an emulated processor.
    """

    condition: Callable[[str], bool]
    compiles: bool = False


PLUG_IN = RunsCode(is_plugin)
"""Use of keys that name techniques, models or policies, those of users as ``module:NAME``."""


def code_in(
    spec: BaseModel, or_compiled: bool = False, table: str = ""
) -> Iterator[tuple[str, str, RunsCode]]:
    """Keys of a spec that run code of whoever has written it, with the value and what says so.

    Parameters
    ----------
    spec : BaseModel
        The spec, or a section of it.
    or_compiled : bool
        Whether code that is compiled, or runs on an emulated processor, counts as well.
    table : str
        What dotted keys begin with.
    """
    for name, field in type(spec).model_fields.items():
        value = getattr(spec, name)
        if isinstance(value, BaseModel):
            yield from code_in(value, or_compiled, f"{table}{name}.")
        values = value if isinstance(value, tuple) else (value,)
        for mark in field.metadata:
            if isinstance(mark, RunsCode):
                for text in values:
                    is_code = isinstance(text, str) and text and mark.condition(text)
                    if is_code or (or_compiled and mark.compiles):
                        yield f"{table}{name}", text, mark


def plug_ins(spec: BaseModel) -> set[str]:
    """Modules of the techniques, models and policies of users that a spec names."""
    return {name.partition(":")[0] for _, name, mark in code_in(spec) if mark is PLUG_IN}


@dataclass(frozen=True)
class Key:
    """A key of a spec that has an option.

    Parameters
    ----------
    name : str
        Dotted name.
    option : Option
        What the field says of it.
    types : frozenset of type
        Types that a value may have; ``tuple`` among them if it is a list of the others.
    default : object
        Default in a spec of this kind.
    help : str
        Meaning, without the default.
    panel : str
        Panel of the help.
    once : bool
        Whether the option is given once where the key is a list, which is then of one value.
    """

    name: str
    option: Option
    types: frozenset[type]
    default: Any
    help: str
    panel: str
    once: bool = False

    @property
    def flags(self) -> str:
        """Flag as Typer takes it, such as ``--epochs`` or ``--spread-blocks/--keep-blocks``."""
        return self.option.usage.partition(" ")[0]

    @property
    def flag(self) -> str:
        """Flag by which messages call the option."""
        return self.flags.partition("/")[0]

    @property
    def metavar(self) -> str | None:
        """Placeholder of the value in the help."""
        return self.option.usage.partition(" ")[2] or None

    @property
    def parameter(self) -> str:
        """Name of the parameter that holds the value."""
        return self.name.replace(".", "_")

    @property
    def repeats(self) -> bool:
        """Whether the option may be given several times."""
        return (tuple in self.types and not self.once) or self._is_table

    @property
    def type(self) -> type:
        """Type that the command line reads: ``bool``, ``int``, ``float``, or else text."""
        if "/" in self.flags:
            return bool
        kind, *others = self.types - {tuple}
        return kind if kind in (bool, int, float) and not others else str

    @property
    def _is_table(self) -> bool:
        return self.metavar == "NAME=VALUE"

    def default_text(self, default: Any = None) -> str:
        """Return the default in words, or another value in its place."""
        if default is None and self.option.default:
            return self.option.default
        value = self.default if default is None else default
        if "/" in self.flags:
            return self.flags.split("/")[not value]
        values = value if isinstance(value, list | tuple) else [value]
        return re.sub(r"(\d)\.0\b", r"\1", ", ".join(map(str, values)))

    def read(self, value: Any) -> Any:
        """Make a value of the spec of what the command line has read; the spec judges it."""
        if self._is_table:
            return named_numbers(self.flag, value)
        if self.type is str and float in self.types:
            return number_or_text(value)
        if self.type is str and int in self.types and value.isdecimal() and len(value) < 20:
            return int(value)
        return [value] if self.once and tuple in self.types else value


def number_or_text(text: str) -> float | str:
    """Read a number; any other text stays as it is."""
    try:
        return float(text)
    except ValueError:
        return text


def named_numbers(option: str, texts: list[str]) -> dict[str, float | str]:
    """Read numbers by name; a word stays a word, for the spec to judge.

    Raises
    ------
    UserError
        If a text is not NAME=VALUE, or a name comes twice.
    """
    numbers: dict[str, float | str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UserError(f"{option} {one_line(text)}: NAME=VALUE is needed, such as eta=0.3")
        if name in numbers:
            raise UserError(f"{option} {one_line(text)}: {one_line(name)} is given twice")
        numbers[name] = number_or_text(value)
    return numbers


def option_keys(spec: type[BaseModel]) -> list[Key]:
    """Return the keys of a spec that have options; first those that ``spec.compared`` names."""
    keys = {key.name: key for key in _keys(spec, spec(), "", "")}
    compared = [keys.pop(name) for name in getattr(spec, "compared", []) if name in keys]
    return [*(replace(key, panel=COMPARED) for key in compared), *keys.values()]


def _keys(section: type[BaseModel], defaults: Any, table: str, panel: str) -> Iterator[Key]:
    panel = getattr(section, "panel", panel)
    for name, field in section.model_fields.items():
        default = field.get_default() if defaults is None else getattr(defaults, name)
        inner = inner_section(field.annotation)
        for option in field.metadata:
            if isinstance(option, Option):
                said = field_docstring(section, name).replace("``", "")
                types = frozenset(_types(field.annotation)) - {NoneType}
                yield Key(table + name, option, types, default, said, option.panel or panel)
                break
        else:
            if inner is not None:
                yield from _keys(inner, default, f"{table}{name}.", panel)


def inner_section(annotation: Any) -> type[BaseModel] | None:
    """Section that the values of a key are, if they are one."""
    kinds = (annotation, *get_args(annotation))
    sections = (k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel))
    return next(sections, None)


def keys_below(section: type[BaseModel], table: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Dotted names of all keys below a table, tables after what is in them, and their fields."""
    for name, field in section.model_fields.items():
        if inner := inner_section(field.annotation):
            yield from keys_below(inner, f"{table}{name}.")
        yield f"{table}{name}", field


def unused_key(
    spec: BaseModel, techniques: "Sequence[Technique]", drawn: Collection[str]
) -> str | None:
    """Say which value, other than the default, no case has a use for, and why.

    Parameters
    ----------
    spec : BaseModel
        The spec.
    techniques : sequence of Technique
        Those that it compares.
    drawn : collection of str
        Keys whose values are drawn jointly.
    """
    values, defaults = (each.model_dump(mode="json") for each in (spec, type(spec)()))
    for name, field in keys_below(type(spec)):
        for use in field.metadata:
            if isinstance(use, UsedIf):
                value = "drawn" if name in drawn else _at(values, name)
                if value != _at(defaults, name) and not use.condition(spec, techniques):
                    reason = use.reason
                    words = reason.format(spec=spec) if isinstance(reason, str) else reason(spec)
                    return f"{name} = {shortened(value)}: {words}"
    return None


def _at(fields: dict[str, Any], key: str) -> Any:
    part, dot, name = key.rpartition(".")
    return fields[part][name] if dot else fields[name]


def _types(annotation: Any) -> Iterator[type]:
    """Types in an annotation, those of the members of a list among them."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _types(inner[0])
    elif origin in (Union, UnionType):
        yield from (kind for part in inner for kind in _types(part))
    elif origin is tuple:
        yield tuple
        yield from _types(inner[0])
    elif origin is Literal:
        yield from map(type, inner)
    else:
        yield origin or annotation


class Section(BaseModel):
    """A table of a spec; it cannot be changed, and takes no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


# Errors of a spec, in one line that names the key, the value and what is right.

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
        section = (field and _model_in(field.annotation)) or section
    return section


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Section in an annotation, however deep, such as that of operating points."""
    inner = map(_model_in, get_args(annotation))
    return inner_section(annotation) or next(filter(None, inner), None)


# Types of the fields of a spec in Python: plain values, and what stands for them.
#
# A tuple or an array stands for a list, a single text or number for a list of one where a list is
# needed, and a table is a dict or a section.


def plain_fields(fields: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Plain values, as TOML would give them, for what somebody has typed in Python.

    Parameters
    ----------
    fields : mapping of str to object
        Keys of a table of a spec, with whatever they were given. Unknown keys stay.
    model : type
        The section whose keys these are.
    """
    known = model.model_fields
    return {
        name: _plain(value, known[name].annotation if name in known else None)
        for name, value in fields.items()
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
    and sections as objects; see `mcage.spec.keys`.

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
    value = fields.get(key)
    if below:
        if not isinstance(value, dict):
            return fields
        return fields | {key: with_table(value, below, read)}
    return fields | {key: read(Path(value))} if isinstance(value, str) else fields
