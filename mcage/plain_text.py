"""Text that others wrote, as a terminal may show it: short, and without control characters.

Names of traces, files, specs and plug-ins, values that a user gave, and messages of exceptions
come from outside. Escape sequences among them would reach the terminal, and a value of 100 kB
would bury the message that quotes it.
"""

import ast
import inspect
import re
import reprlib
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

LONGEST_MESSAGE = 600
"""Characters of an error that are shown."""

LONGEST_PATH = 200
"""Characters of a path that are shown in an error."""

_LONGEST_VALUE = 60
_FORMULAS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""How a cell begins that a spreadsheet computes; wide letters count as the narrow ones."""

_LARGEST_INTEGER = 10**20


class _Shortening(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = _LONGEST_VALUE
        self.maxlevel = self.maxdict = 3

    def repr_int(self, value: int, level: int) -> str:
        if abs(value) < _LARGEST_INTEGER:
            return repr(value)
        digits = int(value.bit_length() * 0.30103) + 1
        return f"an integer of about {digits} digits"


_SHORTENING = _Shortening()


def shortened(value: object) -> str:
    """Value as an error quotes it: its `repr`, with the middle left out where it is long."""
    return _SHORTENING.repr(value)


def shown(value: object, longest: int = _LONGEST_VALUE) -> str:
    """Text of a value without quotation marks, visible, with the middle left out where it is long.

    Parameters
    ----------
    value : object
        What a file holds, or a path.
    longest : int
        Characters that are shown of it.
    """
    text = visible(str(value))
    return text if len(text) <= longest else f"{text[: longest // 2]}...{text[-longest // 2 :]}"


def shown_path(path: Path) -> str:
    """Path as an error names it: as `shown`, but for the length."""
    return shown(path, LONGEST_PATH)


def visible(text: str) -> str:
    r"""Text in which whatever cannot be printed stands as ``\u001b``, as TOML and JSON write it.

    This concerns control characters, line breaks among them, marks that reverse the direction of
    writing, and bytes of file names that are no UTF-8.
    """
    return text if text.isprintable() else "".join(map(_visible_character, text))


def visible_lines(text: str) -> str:
    """As `visible`, line by line: line breaks stay."""
    return "\n".join(visible(line) for line in text.split("\n"))


def csv_text(text: str) -> str:
    """Name as a CSV file holds it: `visible`, and never a formula.

    Spreadsheets compute what begins as a formula does, and what it computes may lead out of the
    sheet. An apostrophe in front makes it text for them. Numbers stay as they are.
    """
    text = visible(text)
    if not text.startswith(_FORMULAS):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def lines_of(part: dict[str, Any], before: str = "", levels: int = 4) -> list[tuple[str, str]]:
    """Nested values as lines, whatever their shape: a line for each text, number or list."""
    lines: list[tuple[str, str]] = []
    for key, value in part.items():
        items = value if isinstance(value, list) else [value]
        if value is items and any(isinstance(item, dict | list) for item in items):
            value = {str(number): item for number, item in enumerate(items, 1)}
        if isinstance(value, dict) and levels:
            lines += lines_of(value, f"{before}{key}: ", levels - 1)
        elif value != "":
            texts = (f"{item:.4g}" if isinstance(item, float) else str(item) for item in items)
            lines.append((f"{before}{key}", ", ".join(texts)))
    return lines


def one_line(text: str) -> str:
    """Message in one line, with the middle left out where it is long."""
    line = visible(" ".join(text.split()))
    if len(line) <= LONGEST_MESSAGE:
        return line
    return f"{line[: 2 * LONGEST_MESSAGE // 3]} ... {line[-LONGEST_MESSAGE // 3 :]}"


_UNITS = {
    **{"volts": "volts, such as 0.421", "years": "years", "days": "days", "seconds": "seconds"},
    **{"kelvin": "kelvin, such as 353", "mv": "millivolts", "mm": "millimetres"},
}


def unit_in_words(name: str, message: str) -> str:
    """How an error ends that asks for a number with a unit, which the name of its key ends in.

    Parameters
    ----------
    name : str
        Name of a key, or what stands for the value of an option in the help: ``low_volts``,
        ``VOLTS``.
    message : str
        The error, which may say the unit already.
    """
    unit = _UNITS.get(name.rpartition("_")[2].lower())
    is_said = re.search(r"\b(V|K|mV)\b|; in ", message)
    return f"; in {unit}" if unit and not is_said else ""


def said_by(error: BaseException) -> str:
    """Type and message of an exception, in one line."""
    try:
        message = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # of an exception that is itself defective
        message = ""
    return one_line(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def _visible_character(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def field_docstring(record: type, name: str) -> str:
    """Return the first paragraph below a field in its class or a base of it; empty if none."""
    return field_paragraphs(record, name)[0]


def field_paragraphs(record: type, name: str) -> list[str]:
    """Return the paragraphs below a field in its class or a base of it, on one line each."""
    homes = (base for base in record.__mro__ if name in vars(base).get("__annotations__", ()))
    home = next(homes)
    text = _docstrings(home.__module__).get((home.__name__, name), "")
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


@cache
def _docstrings(module: str) -> dict[tuple[str, str], str]:
    """Texts below the fields of all classes of a module, by class and field."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        (record.name, field.target.id): below.value.value
        for record in ast.walk(tree)
        if isinstance(record, ast.ClassDef)
        for field, below in pairwise(record.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(below.value.value, str)
    }
