"""Rows of a table of events, many at once, as far as nothing about them is strange.

Python takes a microsecond for each field that it cuts out and looks at. Where fields begin, what
event a row has, its cycle and its register are therefore found for all lines of a block together.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_LINE_BREAK, _COMMA, _QUOTE, _ZERO = b'\n,"0'
_MOST_DIGITS, _MOST_DIGITS_OF_REGISTER = 18, 3
"""So many digits make no number that is too large."""

READ, WRITE = 1, 2

Places = NDArray[np.int64]


class Columns(NamedTuple):
    """Numbers of the columns that reads and writes have; -1 for one that the file lacks."""

    cycle: int
    event: int
    window: int
    register: int
    lanes: int
    values: int


class Rows(NamedTuple):
    """Lines of a block, from the first to the last.

    Places are two numbers, where they begin and where they end, and no objects that the collector
    of garbage would have to look through.

    Attributes
    ----------
    line : iterator of (int, int, int)
        Place of each line without its line break, and its event: `READ` or `WRITE`, or 0 if it is
        to be looked at by itself.
    access : iterator of (int, int, int, int)
        Cycle, register and place of the window's name, of each read and write in turn.
    content : iterator of (int, int, int, int)
        Places of lanes and values, of each write in turn.
    """

    line: Iterator[tuple[int, int, int]]
    access: Iterator[tuple[int, int, int, int]]
    content: Iterator[tuple[int, int, int, int]]


def rows_of(block: bytes, columns: Columns, names: int) -> Rows:
    """Find the rows of a block of whole lines, of a table with so many columns."""
    text = np.frombuffer(block, np.uint8)
    end = np.flatnonzero(text == _LINE_BREAK)
    begin = np.append(0, end[:-1] + 1)
    comma = np.flatnonzero(text == _COMMA)
    first = np.searchsorted(comma, begin)
    plain = np.diff(first, append=len(comma)) == names - 1
    plain[np.searchsorted(end, np.flatnonzero((text == _QUOTE) | (text == 0)))] = False

    def field(column: int, row: Places) -> tuple[Places, Places]:
        """Where a field of rows begins and ends; it is empty if there is no such column."""
        if column < 0:
            return np.zeros_like(row), np.zeros_like(row)
        left = comma[first[row] + column - 1] + 1 if column else begin[row]
        return left, comma[first[row] + column] if column < names - 1 else end[row]

    row = np.flatnonzero(plain)
    event = _events(block, *field(columns.event, row))
    cycle = _numbers(text, *field(columns.cycle, row), _MOST_DIGITS)
    register = _numbers(text, *field(columns.register, row), _MOST_DIGITS_OF_REGISTER)
    length = {
        name: np.subtract(*field(column, row)[::-1]) for name, column in columns._asdict().items()
    }
    good = (event > 0) & (cycle >= 0) & (register >= 0) & (length["window"] > 0)
    content = (length["lanes"] + length["values"]) * (event == WRITE)
    used = content + sum(length[name] for name in ("cycle", "event", "window", "register"))
    good &= used + names - 1 == end[row] - begin[row]  # all other fields are empty
    row, event, cycle, register = (column[good] for column in (row, event, cycle, register))
    of_line = np.zeros(len(end), np.int64)
    of_line[row] = event
    write = row[event == WRITE]
    return Rows(
        _each(begin, end, of_line),
        _each(cycle, register, *field(columns.window, row)),
        _each(*field(columns.lanes, write), *field(columns.values, write)),
    )


def _each(*columns: Places) -> Iterator[Any]:
    """The rows of columns, one after another."""
    return zip(*(column.tolist() for column in columns), strict=True)


def _events(block: bytes, begin: Places, end: Places) -> Places:
    """Which event is named in each of n places; 0 if it is another."""
    if len(block) < len(b"read"):
        return np.zeros_like(begin)
    fours = np.ndarray(len(block) - 3, "<u4", block, strides=(1,))  # of bytes, from each on
    length, last = end - begin, len(fours) - 1
    head, tail = (fours[np.minimum(begin + shift, last)] for shift in (0, 1))
    read = (length == len(b"read")) & (head == _number(b"read"))
    write = (length == len(b"write")) & (head == _number(b"writ")) & (tail == _number(b"rite"))
    named: Places = READ * read + WRITE * write
    return named


def _number(four: bytes) -> int:
    return int.from_bytes(four, "little")


def _numbers(text: NDArray[np.uint8], begin: Places, end: Places, most_digits: int) -> Places:
    """Number in each of n places; -1 if there is none, or it is longer than so many digits."""
    length, number = end - begin, np.zeros_like(begin)
    good = (length > 0) & (length <= most_digits)
    for place in range(int(length[good].max(initial=0))):
        digit = text[np.minimum(begin + place, len(text) - 1)].astype(np.int64) - _ZERO
        within = place < length
        good &= ~within | ((digit >= 0) & (digit <= 9))
        number = np.where(within & good, 10 * number + digit, number)
    return np.where(good, number, -1)
