"""Rows of a CSV file of a user, with every value checked where it enters."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mcage.errors import UserError
from mcage.files.inputs import MIB, UnreadableFileError, read_regular
from mcage.plain_text import one_line, shortened

MOST_BYTES = 64 * MIB


@dataclass(frozen=True)
class CsvRow:
    """A row.

    Parameters
    ----------
    source : str
        File and number of the row, for error messages.
    values : dict of str to str
        Texts by column.
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

    def number(self, column: str, low: float, high: float, default: float | None = None) -> float:
        """Number of a column.

        Raises
        ------
        UserError
            It is missing, no number, or out of its range.
        """
        text = self.text(column, default=None if default is None else repr(default))
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise UserError(
                f"{self.source}: {column} = {shortened(text)} must be a number, {low:g} ... "
                f"{high:g}"
            )
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


def read_rows(path: Path, needed: Sequence[str]) -> list[CsvRow]:
    """Rows of a CSV file; lines that begin with # are comments.

    Parameters
    ----------
    path : Path
        The file.
    needed : sequence of str
        Columns that it must have.

    Raises
    ------
    UserError
        It cannot be read, has no rows, lacks a column, or a row has too many values.
    """
    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except UnreadableFileError as error:
        raise UserError(f"{path}: cannot read the cases ({error.reason})") from error
    except ValueError as error:
        raise UserError(f"{path}: the file is no UTF-8 text") from error
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    reader = csv.DictReader(lines)
    columns = reader.fieldnames or ()
    for column in needed:
        if column not in columns:
            raise UserError(
                f"{path}: the column {column} is missing; there are {shortened(', '.join(columns))}"
            )
    rows = []
    for number, values in enumerate(reader, 1):
        if None in values:
            raise UserError(f"{path}: row {number} has more values than there are columns")
        texts = {column: one_line(text or "").strip() for column, text in values.items()}
        rows.append(CsvRow(f"{path}: row {number}", texts))
    if not rows:
        raise UserError(f"{path}: there is no row in it")
    return rows


def _number_or_text(text: str) -> float | str:
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        return text
    return int(number) if text.lstrip("+-").isdecimal() else number
