"""Counts of faulty bits at several voltages, as a user measures them: a CSV file, read and checked.

The columns ``voltage``, ``faulty_bits`` and ``bits`` are needed. With a column ``array``, each row
is about the array of that name; without, about all arrays together. Then ``arrays``, their number,
and ``faultless_arrays``, how many of them have no faulty bit, may be given; the latter also for
some of the voltages only. Lines that begin with ``#`` are comments.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.files.inputs import read_regular
from mcage.plain_text import shortened

MOST_BYTES = 64 << 20
MOST_BITS = 10**15
MAX_VOLTS = 2.0
NEEDED = ("voltage", "faulty_bits", "bits")
OPTIONAL = ("array", "arrays", "faultless_arrays")
UNKNOWN = -1
"""In place of a number of arrays without a fault that nobody counted."""


@dataclass(frozen=True, eq=False)
class FaultCounts:
    """Faulty bits of the same arrays at V falling voltages.

    Attributes
    ----------
    name : str
        Where they come from.
    volts : float64[V]
        Voltages, falling.
    faulty : int64[V]
        Faulty bits of all arrays together: of those that were faulty at a voltage before, none is
        missing.
    bits : int
        Bits of all arrays together.
    arrays : int
        Number of arrays; 0 if unknown.
    faultless : int64[V]
        Arrays without a faulty bit; -1 where unknown.
    by_array : int64[A, V] or None
        Faulty bits of each array.
    array_bits : int64[A] or None
        Bits of each array.
    mended : int
        Counts that were raised to the count at the voltage before.
    """

    name: str
    volts: NDArray[np.float64]
    faulty: NDArray[np.int64]
    bits: int
    arrays: int
    faultless: NDArray[np.int64]
    by_array: NDArray[np.int64] | None = None
    array_bits: NDArray[np.int64] | None = None
    mended: int = 0

    def at(self, kept: NDArray[np.bool_]) -> "FaultCounts":
        """Counts at selected voltages, bool[V]."""
        by_array = None if self.by_array is None else self.by_array[:, kept]
        return replace(
            self,
            volts=self.volts[kept],
            faulty=self.faulty[kept],
            faultless=self.faultless[kept],
            by_array=by_array,
        )


def shipped_counts() -> FaultCounts:
    """The public counts to which scenario ``measured`` is fitted."""
    name = "measured_counts.csv"
    text = files("mcage").joinpath("data", name).read_text(encoding="utf-8")
    return _counts(name, text)


def read_counts(path: Path) -> FaultCounts:
    """Counts of a user's file.

    Raises
    ------
    UserError
        The file cannot be read, or a number in it cannot be meant; the message names the line.
    """
    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: no text in UTF-8") from error
    return _counts(str(path), text)


@dataclass(frozen=True)
class _Row:
    """A line of the file; the optional numbers are -1 where there are none."""

    where: str
    volts: float
    faulty: int
    bits: int
    array: str
    arrays: int
    faultless: int


def _counts(name: str, text: str) -> FaultCounts:
    rows = list(_rows(name, text))
    volts = np.array(sorted({row.volts for row in rows}, reverse=True))
    if len(volts) < 2:
        raise UserError(f"{name}: counts at two voltages or more are needed, not at {len(volts)}")
    arrays: dict[str, list[_Row]] = {}
    for row in rows:
        arrays.setdefault(row.array, []).append(row)
    parts = [_in_order(name, group, volts) for group in arrays.values()]
    faulty = np.array([[row.faulty for row in part] for part in parts], np.int64)
    bits = np.array([part[0].bits for part in parts], np.int64)
    raised = np.maximum.accumulate(faulty, axis=1)
    counts = FaultCounts(
        name=name,
        volts=volts,
        faulty=raised.sum(axis=0),
        bits=int(bits.sum()),
        arrays=max(parts[0][0].arrays, 0),
        faultless=np.array([row.faultless for row in parts[0]], np.int64),
        mended=int((raised != faulty).sum()),
    )
    if rows[0].array:
        faultless = (raised == 0).sum(axis=0)
        counts = replace(
            counts, arrays=len(parts), faultless=faultless, by_array=raised, array_bits=bits
        )
    if counts.faulty[-1] == counts.faulty[0]:
        raise UserError(
            f"{name}: {counts.faulty[0]} faulty bits at all voltages; the counts must rise as the "
            "voltage falls"
        )
    return counts


def _in_order(name: str, rows: list[_Row], volts: NDArray[np.float64]) -> list[_Row]:
    """Rows of an array by falling voltage; each voltage once, the other numbers always the same."""
    of = f" of array {shortened(rows[0].array)}" if rows[0].array else ""
    ordered = sorted(rows, key=lambda row: -row.volts)
    for before, row in pairwise(ordered):
        if before.volts == row.volts:
            raise UserError(f"{row.where}: voltage = {row.volts:g}{of} stands there twice")
        for key in ("bits", "arrays"):
            first, other = getattr(before, key), getattr(row, key)
            if first != other:
                raise UserError(
                    f"{row.where}: {key} = {other}{of}, but {first} at {before.volts:g} V; the "
                    "same bits must be counted at all voltages"
                )
    missing = set(volts.tolist()) - {row.volts for row in rows}
    if missing:
        raise UserError(f"{name}: no row{of} at {max(missing):g} V")
    return ordered


def _rows(name: str, text: str) -> Iterator[_Row]:
    lines = [
        (number, line)
        for number, line in enumerate(io.StringIO(text), 1)
        if line.strip() and not line.startswith("#")
    ]
    try:
        cells = [*csv.reader([line for _, line in lines], strict=True)]
    except csv.Error as error:
        raise UserError(f"{name}: no CSV: {error}") from error
    if len(cells) < 2 or len(cells) != len(lines):
        raise UserError(f"{name}: a line of headings and a line for each voltage are needed")
    head = [cell.strip() for cell in cells[0]]
    _check_head(name, head)
    for (number, _), values in zip(lines[1:], cells[1:], strict=True):
        where = f"{name}, line {number}"
        if len(values) != len(head):
            raise UserError(f"{where}: {len(values)} values, but {len(head)} headings")
        yield _row(where, dict(zip(head, map(str.strip, values), strict=True)))


def _check_head(name: str, head: list[str]) -> None:
    for key in NEEDED:
        if key not in head:
            raise UserError(f"{name}: column {key} is missing; needed are {', '.join(NEEDED)}")
    for key in head:
        if key not in (*NEEDED, *OPTIONAL):
            raise UserError(
                f"{name}: unknown column {shortened(key)}; choose from "
                f"{', '.join((*NEEDED, *OPTIONAL))}"
            )
    if len(set(head)) < len(head):
        raise UserError(f"{name}: a column stands there twice")
    if "array" in head and len(head) > len(NEEDED) + 1:
        raise UserError(f"{name}: with a column array, arrays are counted; leave out the others")
    if "faultless_arrays" in head and "arrays" not in head:
        raise UserError(f"{name}: column faultless_arrays needs the number of arrays: add arrays")


def _row(where: str, given: dict[str, str]) -> _Row:
    try:
        volts = float(given["voltage"])
    except ValueError:
        volts = np.nan
    if not 0 < volts <= MAX_VOLTS:
        raise UserError(
            f"{where}: voltage = {shortened(given['voltage'])}, expected volts: 0 < V <= 2"
        )
    bits = _whole(where, given, "bits", 1, MOST_BITS)
    arrays = _whole(where, given, "arrays", 1, bits) if given.get("arrays") else UNKNOWN
    faulty = _whole(where, given, "faulty_bits", 0, bits)
    faultless = UNKNOWN
    if given.get("faultless_arrays"):
        faultless = _whole(where, given, "faultless_arrays", max(0, arrays - faulty), arrays)
        if faultless == arrays and faulty:
            raise UserError(f"{where}: faultless_arrays = {faultless}, but {faulty} faulty bits")
    array = given.get("array", "")
    if "array" in given and not array:
        raise UserError(f"{where}: the name of the array is missing")
    if "arrays" in given and arrays == UNKNOWN:
        raise UserError(f"{where}: the number of arrays is missing")
    return _Row(where, volts, faulty, bits, array, arrays, faultless)


def _whole(where: str, given: dict[str, str], key: str, low: int, high: int) -> int:
    text = given[key]
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and low <= int(text) <= high):
        raise UserError(
            f"{where}: {key} = {shortened(text)}, expected a whole number, {low} ... {high}"
        )
    return int(text)
