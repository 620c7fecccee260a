"""TOML files as plain values, and which plain values no key of a spec can have."""

import datetime
import math
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mcage.errors import UserError
from mcage.files.inputs import MIB, UnreadableFileError, read_regular
from mcage.plain_text import one_line, shortened

MOST_TOML_BYTES = 4 * MIB
"""Largest TOML file: a spec holds its recorded launches and its draws."""

_DEEPEST = 7
"""Depth of tables and lists in each other; constants of costs in a spec need all of it."""

_LARGEST_INTEGER = 2**64

_DEEP_KEY = re.compile(r"""(?:\.\s*[\w"'-]{1,80}\s*){100}""")
"""Part of a dotted key; TOML readers take a time for it that grows with the square of its parts."""


class NotPlainError(ValueError):
    """A value that no key of a spec can have."""


def read_toml(path: Path) -> dict[str, Any]:
    """Read the plain values of a TOML file.

    Raises
    ------
    UserError
        If it cannot be read or is no TOML, or if a value is no finite number of moderate size.
    """
    try:
        return parse_toml(read_regular(path, MOST_TOML_BYTES).decode("utf-8-sig"))
    except UnreadableFileError as error:
        raise UserError(f"{path}: cannot read the file ({error.reason})") from error
    except NotPlainError as error:
        raise UserError(f"{path}: {error}") from error
    except ValueError as error:  # also bytes that are no text, and numbers beyond Python's limit
        raise UserError(f"{path}: not TOML ({error})") from error


def parse_toml(text: str) -> dict[str, Any]:
    """Read the plain values of a TOML text.

    Raises
    ------
    NotPlainError
        If a key or a value is one that no spec can have.
    ValueError
        If the text is no TOML.
    """
    if _DEEP_KEY.search(text):
        raise NotPlainError("a key of more than a hundred parts; a spec needs seven")
    try:
        fields = tomllib.loads(text)
    except RecursionError as error:
        raise NotPlainError("not TOML that can be read (nested too deep)") from error
    check_plain("", fields)
    return fields


def check_plain(key: str, value: Any, depth: int = 0) -> None:
    """Refuse what no key of a spec can have, and what could not be written as JSON.

    Parameters
    ----------
    key : str
        Dotted key of the value; empty for the whole spec.
    value : object
        Nested plain values.
    depth : int
        Number of tables and lists around the value.

    Raises
    ------
    NotPlainError
        The message names key and value.
    """
    if depth > _DEEPEST:
        raise NotPlainError(f"{one_line(key)}: tables and lists are nested too deep")
    names: Iterable[Any] = value if isinstance(value, dict) else ()
    if isinstance(value, list | tuple):
        names = range(len(value))
    for name in names:
        _check_text(f"{key}: a key", name)
        check_plain(f"{key}.{name}" if key else str(name), value[name], depth + 1)
    _check_text(key, value)
    if isinstance(value, datetime.date | datetime.time):
        raise NotPlainError(f"{one_line(key)} = {value} must be no date or time; text needs quotes")
    if isinstance(value, float) and not math.isfinite(value):
        raise NotPlainError(f"{one_line(key)} = {value} must be a finite number")
    if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        raise NotPlainError(f"{one_line(key)} = {shortened(value)} must be at most 2**64")


def _check_text(key: str, value: Any) -> None:
    try:
        _ = isinstance(value, str) and value.encode()
    except UnicodeEncodeError:
        raise NotPlainError(f"{one_line(key)} = {shortened(value)}: must be UTF-8 text") from None
