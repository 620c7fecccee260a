"""What an option is that sets a key of a spec, and how its text becomes a value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mcage.errors import UserError
from mcage.plain_text import one_line


def number_or_distribution(text: str) -> float | str:
    """Read a number; any other text is a distribution, which the spec judges."""
    try:
        return float(text)
    except ValueError:
        return text


def whole_number_or_word(text: str) -> int | str:
    """Read a whole number; any other text is a word, which the spec judges."""
    return int(text) if text.isdecimal() and len(text) < 20 else text


def constants(given: list[str]) -> dict[str, float | str]:
    """Read the constants of an NBTI model."""
    return named_numbers("--constant", given)


def named_numbers(option: str, given: Sequence[str]) -> dict[str, float | str]:
    """Read numbers by name; a word stays a word, for the spec to judge.

    Raises
    ------
    UserError
        If a text is not NAME=VALUE, or a name comes twice.
    """
    numbers: dict[str, float | str] = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UserError(f"{option} {one_line(text)}: NAME=VALUE is needed, such as eta=0.3")
        if name in numbers:
            raise UserError(f"{option} {one_line(text)}: {one_line(name)} is given twice")
        try:
            numbers[name] = float(value)
        except ValueError:
            numbers[name] = value
    return numbers


def as_given(value: Any) -> Any:
    """Take a value as the command line reads it."""
    return value


@dataclass(frozen=True)
class SpecOption:
    """An option of the command line that sets a key of the spec.

    Parameters
    ----------
    usage : str
        The flag, and after a space what stands for the value in the help; of a Boolean value
        both flags, with a slash between them.
    key : str
        Dotted key of the spec.
    kind : type
        ``int``, ``float``, ``str`` or ``bool``: how the command line reads it.
    help : str
        Meaning, without the default.
    default : str
        Default of a sweep in words; where the spec has None, what a sweep does then.
    repeats : bool
        Whether the option may be given several times.
    is_axis : bool
        Whether each value is a case: a command of one case takes the option once.
    only_sweeps : bool
        Whether the option makes sense for a sweep alone.
    seldom : bool
        Whether ``--help`` leaves the option to ``--help-all``.
    read : callable
        From what the command line reads to what the spec takes.
    group : str
        Panel of the help.
    """

    usage: str
    key: str
    kind: type
    help: str
    default: str
    repeats: bool = False
    is_axis: bool = False
    only_sweeps: bool = False
    seldom: bool = False
    read: Callable[[Any], Any] = as_given
    group: str = ""

    @property
    def flags(self) -> str:
        """Flag as Typer takes it, such as ``--epochs`` or ``--spread-blocks/--keep-blocks``."""
        return self.usage.partition(" ")[0]

    @property
    def flag(self) -> str:
        """Flag by which messages call the option."""
        return self.flags.partition("/")[0]

    @property
    def metavar(self) -> str | None:
        """What stands for the value in the help."""
        return self.usage.partition(" ")[2] or None

    @property
    def name(self) -> str:
        """Name of the parameter that holds the value."""
        return self.flag.removeprefix("--").replace("-", "_")


def grouped(group: str, *rows: SpecOption) -> tuple[SpecOption, ...]:
    """Rows of a panel of the help."""
    return tuple(replace(row, group=group) for row in rows)
