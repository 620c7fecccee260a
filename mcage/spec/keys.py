"""What a key of a spec says beside its range: the option that sets it, and when it is of no use.

Both stand in the annotation of the field, such as `Option("--epochs N")` in that of `Life.epochs`,
and the docstring of the field is the help. All else follows: the default in words, what the command
line reads, ``--set``, the refusal of values that no case depends on. A new key is one field.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mcage.errors import UserError
from mcage.plain_text import field_docstring, one_line, shortened
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
    help : str
        Meaning, without the default; by default the docstring of the field.
    """

    usage: str
    default: str = ""
    seldom: bool = False
    is_axis: bool = False
    panel: str = ""
    help: str = ""


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
"""Of keys that name techniques, models or policies, those of users as ``module:NAME``."""


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
        """What stands for the value in the help."""
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
        """What the command line reads: ``bool``, ``int``, ``float``, or else text."""
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
                said = option.help or field_docstring(section, name).replace("``", "")
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
