"""``--set KEY=VALUE``: any key of a spec from the command line."""

from collections.abc import Sequence
from typing import Any

from mcage.errors import UserError
from mcage.plain_text import one_line, shortened

Path = tuple[str, ...]
"""Parts of a dotted key."""

_LONGEST_KEY = 500


def parse_set(text: str) -> tuple[Path, Any]:
    """Read one KEY=VALUE.

    Parameters
    ----------
    text : str
        The key as in the TOML file of a spec, with dots between tables; the value as in TOML, or a
        word without quotation marks.

    Returns
    -------
    path : tuple of str
        Parts of the key.
    value : object
        Plain value; a text where it is no TOML.

    Raises
    ------
    UserError
        If the text has another form.
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    path = _path_of(key)
    if not (equals and value and path):
        raise UserError(
            f"--set {one_line(text)}: KEY=VALUE is needed, such as faults.mu_volts=0.14"
        )
    return path, _value_of(text, value)


def _path_of(key: str) -> Path:
    """Parts of a key as TOML reads it; empty if it is no key."""
    from mcage.spec.toml_files import parse_toml

    path: list[str] = []
    if len(key) > _LONGEST_KEY or "\n" in key:
        return ()
    try:
        fields = parse_toml(f"{key} = 0")
    except ValueError:
        return ()
    while fields:
        (name,) = fields
        path.append(name)
        fields = fields[name]
    return tuple(path)


def _value_of(text: str, value: str) -> Any:
    from mcage.spec.toml_files import NotPlainError, parse_toml

    is_structured = value.startswith(("[", "{", '"', "'"))
    if "\n" in value and not is_structured:
        return value
    try:
        fields = parse_toml(f"value = {value}")
    except NotPlainError as error:
        raise UserError(f"--set {one_line(text)}: {error}") from error
    except ValueError as error:
        if is_structured:
            raise UserError(f"--set {one_line(text)}: not a TOML value ({error})") from error
        return value
    if list(fields) != ["value"]:
        raise UserError(f"--set {one_line(text)}: one KEY=VALUE is needed")
    return fields["value"]


def check_distinct(given: Sequence[tuple[Path, str]]) -> None:
    """Refuse two options for the same key, or for a table and a key of it.

    Parameters
    ----------
    given : sequence of (tuple of str, str)
        For each option the key that it sets, and the option as the user gave it.

    Raises
    ------
    UserError
        One line that names both.
    """
    for number, (path, option) in enumerate(given):
        for other_path, other in given[:number]:
            table = min(path, other_path, key=len)
            if path[: len(table)] == other_path[: len(table)]:
                raise UserError(
                    f"{one_line(other)} and {one_line(option)} both set "
                    f"{one_line('.'.join(table))}: give one of them"
                )


def put(fields: dict[str, Any], path: Sequence[str], value: Any, source: str) -> None:
    """Put a value into nested tables and lists, and make the tables that are missing.

    Parameters
    ----------
    fields : dict
        Plain values of a spec, which are changed.
    path : sequence of str
        Parts of the key; a number counts the places of a list from 0.
    value : object
        Plain value.
    source : str
        Where the fields come from, for error messages.

    Raises
    ------
    UserError
        If a part of the key stands for something else than a table or a list.
    """
    holder: Any = fields
    for length, name in enumerate(path[:-1], 1):
        if isinstance(holder, dict):
            holder = holder.setdefault(name, {})
        else:
            holder = holder[_place(holder, path[:length], source)]
        if not isinstance(holder, dict | list):
            key = one_line(".".join(path[:length]))
            raise UserError(f"{source}: {key} = {shortened(holder)}: must be a table")
    if isinstance(holder, list):
        holder[_place(holder, path, source)] = value
    else:
        holder[path[-1]] = value


def _place(holder: list[Any], path: Sequence[str], source: str) -> int:
    """Place of a list that the last part of a key names."""
    *table, name = path
    if name.isdecimal() and len(name) < 10 and int(name) < len(holder):
        return int(name)
    places = f"places 0 ... {len(holder) - 1}" if holder else "no places"
    raise UserError(f"{source}: {one_line('.'.join(table))} has {places}, not {one_line(name)}")
