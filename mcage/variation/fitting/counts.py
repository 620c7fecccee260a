"""Counts of faulty bits at several voltages, as a user measures them: a CSV file, read and checked.

The columns ``voltage``, ``faulty_bits`` and ``bits`` are needed. With a column ``array``, each row
is about the array of that name; without, about all arrays together. Then ``arrays``, their number,
and ``faultless_arrays``, how many of them have no faulty bit, may be given; the latter also for
some of the voltages only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.files.csv_table import Row, read_table
from mcage.plain_text import shortened

MOST_BITS = 10**15
MOST_COUNTS = 1_000_000
MIN_VOLTS, MAX_VOLTS = 0.001, 2.0
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
    return replace(read_counts(Path(str(files("mcage") / "data" / name))), name=name)


def read_counts(path: Path) -> FaultCounts:
    """Counts of a user's file.

    Raises
    ------
    UserError
        The file cannot be read, or a number in it cannot be meant; the message names the line.
    """
    counts: list[_Count] = []
    for row in read_table(path, NEEDED, MOST_COUNTS):
        if not counts:
            _check_columns(str(path), [*row.values])
        counts.append(_count(row))
    return _counts(str(path), counts)


@dataclass(frozen=True)
class _Count:
    """A line of the file; the optional numbers are -1 where there are none."""

    where: str
    volts: float
    faulty: int
    bits: int
    array: str
    arrays: int
    faultless: int


def _counts(name: str, rows: list[_Count]) -> FaultCounts:
    volts = np.array(sorted({row.volts for row in rows}, reverse=True))
    if len(volts) < 2:
        raise UserError(f"{name}: counts at two voltages or more are needed, not at {len(volts)}")
    arrays: dict[str, list[_Count]] = {}
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


def _in_order(name: str, rows: list[_Count], volts: NDArray[np.float64]) -> list[_Count]:
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


def _check_columns(source: str, columns: Sequence[str]) -> None:
    for key in columns:
        if key not in (*NEEDED, *OPTIONAL):
            raise UserError(
                f"{source}: unknown column {shortened(key)}; choose from "
                f"{', '.join((*NEEDED, *OPTIONAL))}"
            )
    if "array" in columns and len(columns) > len(NEEDED) + 1:
        raise UserError(f"{source}: with a column array, arrays are counted; leave out the others")
    if "faultless_arrays" in columns and "arrays" not in columns:
        raise UserError(f"{source}: column faultless_arrays needs the number of arrays: add arrays")


def _count(row: Row) -> _Count:
    volts = row.number("voltage", MIN_VOLTS, MAX_VOLTS)
    bits = row.integer("bits", 1, MOST_BITS)
    faulty = row.integer("faulty_bits", 0, bits)
    array = row.text("array") if "array" in row.values else ""
    arrays = row.integer("arrays", 1, bits) if "arrays" in row.values else UNKNOWN
    faultless = UNKNOWN
    if row.values.get("faultless_arrays"):
        faultless = row.integer("faultless_arrays", max(0, arrays - faulty), arrays)
        if faultless == arrays and faulty:
            raise UserError(
                f"{row.source}: faultless_arrays = {faultless}, but {faulty} faulty bits"
            )
    return _Count(row.source, volts, faulty, bits, array, arrays, faultless)
