"""CSV tables of users: the one reader of them, which refuses what cannot be meant, with its line.

The first line names the columns, each further line is a row with as many fields. Lines that begin
with ``#`` are comments, empty lines are skipped, and a field ends on the line on which it begins.
"""

import csv
import io
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcage.errors import UserError
from mcage.files.inputs import MIB, UnreadableFileError, read_regular
from mcage.plain_text import one_line, shortened, visible

MOST_BYTES = 64 * MIB
"""Largest file."""

MOST_ROWS = 100_000
"""Most rows of a table, unless its reader takes fewer."""

_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Parameters
    ----------
    source : str
        File and line, for error messages.
    values : dict of str to str
        Texts by column, without spaces around them.
    """

    source: str
    values: dict[str, str]

    def text(self, column: str, choices: Sequence[str] = (), default: str | None = None) -> str:
        """Text of a column.

        Raises
        ------
        UserError
            It is missing, or is none of the choices.
        """
        value = self.values.get(column) or default
        if value is None:
            raise UserError(f"{self.source}: {column} is missing")
        if choices and value not in choices:
            raise UserError(
                f"{self.source}: {column} = {shortened(value)} is unknown; choose from "
                f"{', '.join(choices)}"
            )
        return value

    def number(
        self,
        column: str,
        low: float = -math.inf,
        high: float = math.inf,
        default: float | None = None,
    ) -> float:
        """Number of a column, in decimal digits.

        Raises
        ------
        UserError
            It is missing, no number, out of its range, or not 0 and too small or too large for all
            its digits to be kept.
        """
        text = self.text(column, default=None if default is None else repr(default))
        value = decimal_number(text)
        if not low <= value <= high:
            bounds = "finite number in decimal digits, 0 or at least 2.3e-308"
            if low > -math.inf:
                bounds = f"number, {low:.15g} ... {high:.15g}"
            raise UserError(f"{self.source}: {column} = {shortened(text)} must be a {bounds}")
        return value

    def integer(self, column: str, low: int, high: int, default: int | None = None) -> int:
        """Whole number of a column.

        Raises
        ------
        UserError
            It is missing, no whole number, or out of its range.
        """
        value = self.number(column, low, high, default)
        if value != int(value):
            raise UserError(
                f"{self.source}: {column} = {shortened(self.values[column])} must be a whole number"
            )
        return int(value)

    def plain(self) -> dict[str, float | str]:
        """Values as JSON has them: numbers where they are numbers."""
        return {column: _number_or_text(text) for column, text in self.values.items()}


def read_table(
    path: Path, needed: Sequence[str] = (), most_rows: int = MOST_ROWS, most_bytes: int = MOST_BYTES
) -> Iterator[Row]:
    """Read the rows of a CSV file, one after the other.

    Parameters
    ----------
    path : Path
        The file, in UTF-8, with or without a byte order mark.
    needed : sequence of str
        Columns that it must have.
    most_rows, most_bytes : int
        Bounds of the table and of the file.

    Raises
    ------
    UserError
        It cannot be read, is no CSV in UTF-8, has no row or too many; a column is missing or stands
        twice, or a row has more or fewer fields than there are columns. The message names file and
        line.
    """
    lines = _lines(path, most_bytes)
    where, columns = next(lines, (str(path), []))
    columns = [visible(column) for column in columns]
    for column in needed:
        if column not in columns:
            raise UserError(
                f"{path}: the column {column} is missing; there are {shortened(', '.join(columns))}"
            )
    if twice := [column for column in columns if columns.count(column) > 1]:
        raise UserError(f"{where}: the column {shortened(twice[0])} stands there twice")
    count = 0
    for count, (where, fields) in enumerate(lines, 1):
        if len(fields) != len(columns):
            raise UserError(f"{where}: {len(fields)} values, but {len(columns)} columns")
        if count > most_rows:
            raise UserError(f"{where}: more than {most_rows:,} rows, which is the most possible")
        yield Row(where, dict(zip(columns, fields, strict=True)))
    if not count:
        raise UserError(f"{path}: there is no row in it")


def decimal_number(text: str) -> float:
    """Value of a number in decimal digits; NaN where the text is none, or has no normal value.

    Python's own reading also takes ``inf``, ``1_0`` and digits of other scripts, and rounds
    ``1e-400`` to 0.
    """
    if not _DECIMAL.fullmatch(text):
        return math.nan
    value = float(text)
    is_zero = not re.search("[1-9]", re.split("[eE]", text)[0])
    return value if is_zero or sys.float_info.min <= abs(value) < math.inf else math.nan


def _lines(path: Path, most_bytes: int) -> Iterator[tuple[str, list[str]]]:
    """Place and fields of each line that is neither empty nor a comment."""
    try:
        content = read_regular(path, most_bytes)
    except UnreadableFileError as error:
        raise UserError(f"{path}: cannot read the table ({error.reason})") from error
    number = 0
    try:
        for number, line in enumerate(io.TextIOWrapper(io.BytesIO(content), "utf-8-sig"), 1):
            if line.strip() and not line.startswith("#"):
                (fields,) = csv.reader([line], strict=True, skipinitialspace=True)
                yield f"{path}: line {number}", [field.strip() for field in fields]
    except csv.Error as error:
        raise UserError(f"{path}: line {number}: no CSV ({error})") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: the file is no UTF-8 text") from error


def _number_or_text(text: str) -> float | str:
    number = decimal_number(text)
    if math.isnan(number):
        return one_line(text)
    return int(text) if text.lstrip("+-").isdecimal() else number
