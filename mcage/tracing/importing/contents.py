"""What registers hold: distinct contents, each kept once, and what every access finds and leaves.

The accesses of many windows are followed together, in the order in which they happen, by one
compiled function: a recording hands them over in blocks, wherever they come from.
"""

import secrets
from typing import Any

import numpy as np
import numpy.typing as npt

from mcage.compiled import compiled

Words = npt.NDArray[np.uint32]
Array = npt.NDArray[Any]

NOTHING = -1
"""In place of the number of a content: nobody has written the register."""

_FEWEST = 1 << 10
_READ = 3  # of the kinds of a trace


class Contents:
    """Distinct contents of registers, numbered in the order in which they first occur.

    Parameters
    ----------
    lanes : int
        Numbers of a content.
    rows : uint32[contents, lanes], optional
        Distinct contents that there are already.
    """

    def __init__(self, lanes: int, rows: Words | None = None) -> None:
        self.lanes = lanes
        rows = np.empty((0, lanes), np.uint32) if rows is None else rows
        self._count = np.array([len(rows)])
        self._key = np.uint64(secrets.randbits(64) | 1)  # so that no file makes them collide
        self._arrays = self._arrays_of(rows, np.empty(0, np.int32))

    def _arrays_of(self, rows: Words, table: npt.NDArray[np.int32]) -> tuple[Any, ...]:
        """What compiled functions take."""
        return rows, table, self._count, self._key, np.empty(self.lanes, np.uint32)

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self._count[0])

    @property
    def rows(self) -> Words:
        """The contents, uint32[count, lanes]."""
        rows: Words = self._arrays[0][: self.count]
        return rows

    @property
    def nbytes(self) -> int:
        """Bytes of all contents."""
        return self.count * self.lanes * 4

    def numbers(self, rows: Words) -> npt.NDArray[np.int32]:
        """Return the numbers of contents, new ones among them: uint32[n, lanes] to int32[n]."""
        numbers, done, rows = np.empty(len(rows), np.int32), 0, np.ascontiguousarray(rows)
        while (done := _number(rows, self._arrays, numbers, done)) < len(rows):
            self._grow()
        return numbers

    def follow(
        self, accesses: tuple[Array, ...], sources: Words | None, state: Array, gaps: Array
    ) -> npt.NDArray[np.int32]:
        """Follow accesses to registers in their order.

        Parameters
        ----------
        accesses : tuple of array[n]
            The place of each one's register in `state` (int64), its kind (uint8), its lanes
            (uint64) and the row of `sources` whose numbers it shows in these lanes (int32); -1 of a
            read that shows none.
        sources : uint32[rows, lanes] or None
            Numbers that accesses show; None: these contents.
        state : int32[places]
            Number of the content of each register, or `NOTHING`; is changed.
        gaps : int64[3]
            Receives reads, those of registers that hold nothing, and those that show something else
            than what the register holds.

        Returns
        -------
        int32[n]
            Of a write: the number of what its register holds afterwards; of a read `NOTHING`.
        """
        after, done = np.empty(len(accesses[0]), np.int32), 0
        shown = self.rows if sources is None else sources, sources is None
        while (done := _follow(accesses, shown, state, self._arrays, (after, gaps), done)) < len(
            after
        ):
            self._grow()
        return after

    def keep(self, order: npt.NDArray[np.int32]) -> None:
        """Renumber the contents, in their place: ``order[n]`` becomes n, and all others go.

        Parameters
        ----------
        order : int32[contents]
            Different numbers.
        """
        if np.array_equal(order, np.arange(self.count)):
            return
        rest = np.ones(self.count, np.bool_)
        rest[order] = False
        whole = np.concatenate([order, np.flatnonzero(rest).astype(np.int32)])
        rows, _, _, _, spare = self._arrays
        _permute(rows, whole, spare)
        self._count[0] = len(order)
        self._arrays = self._arrays_of(rows, np.empty(0, np.int32))

    def _grow(self) -> None:
        """Make room for three times as many more: all are entered again."""
        most = 1 << max(4 * self.count - 1, _FEWEST - 1).bit_length()
        rows, table = np.empty((most, self.lanes), np.uint32), np.full(2 * most, NOTHING, np.int32)
        rows[: self.count] = self.rows
        self._arrays = self._arrays_of(rows, table)
        _fill(self._arrays)


def first_uses(
    numbers: npt.NDArray[np.int32], new_of: npt.NDArray[np.int32], order: Array, count: int
) -> int:
    """Number contents by their first use, a part of all uses after the other.

    Parameters
    ----------
    numbers : int32[n]
        Contents that are used, in the order of time; -1 where none is. New numbers take their
        place.
    new_of : int32[contents]
        New number of each, -1 before the first use.
    order : int32[contents]
        Old number of each new one.
    count : int
        Contents that have been used before.

    Returns
    -------
    int
        Contents that have been used.
    """
    return int(_first_uses(numbers, new_of, order, count))


@compiled
def _first_uses(numbers: Any, new_of: Any, order: Any, count: Any) -> Any:
    for n in range(len(numbers)):
        old = numbers[n]
        if old >= 0:
            if new_of[old] < 0:
                new_of[old] = count
                order[count] = old
                count += 1
            numbers[n] = new_of[old]
    return count


@compiled
def _hash(row: Any, key: Any) -> Any:
    """Hash of a row: four sums side by side, which a processor computes at once."""
    a, b, c, d = key, ~key, key ^ np.uint64(1), ~key ^ np.uint64(1)
    lanes = len(row) // 4
    for lane in range(lanes):
        a = (a ^ np.uint64(row[lane])) * key
        b = (b ^ np.uint64(row[lane + lanes])) * key
        c = (c ^ np.uint64(row[lane + 2 * lanes])) * key
        d = (d ^ np.uint64(row[lane + 3 * lanes])) * key
        a ^= a >> np.uint64(29)
        b ^= b >> np.uint64(29)
        c ^= c >> np.uint64(29)
        d ^= d >> np.uint64(29)
    mixed = ((a * key ^ b) * key ^ c) * key ^ d
    for lane in range(4 * lanes, len(row)):
        mixed = (mixed ^ np.uint64(row[lane])) * key
    mixed = (mixed ^ mixed >> np.uint64(32)) * key
    return mixed ^ mixed >> np.uint64(29)


@compiled
def _place_in(table: Any, rows: Any, row: Any, key: Any) -> Any:
    """Place of a row in the table: that which holds its number, or the empty one that will."""
    last = np.uint64(len(table) - 1)  # the length is a power of two
    place = _hash(row, key) & last
    while True:
        known = table[place]
        if known < 0:
            return place
        different = np.uint32(0)
        for lane in range(len(row)):
            different |= rows[known, lane] ^ row[lane]
        if different == 0:
            return place
        place = (place + np.uint64(1)) & last


@compiled
def _fill(contents: Any) -> None:
    rows, table, count, key, _ = contents
    for n in range(count[0]):
        table[_place_in(table, rows, rows[n], key)] = n


@compiled
def _number_of(row: Any, contents: Any) -> Any:
    """Number of a content, which is added if it is new; `NOTHING` where it has no room."""
    rows, table, count, key, _ = contents
    if count[0] == len(rows) or 2 * count[0] >= len(table):
        return np.int32(NOTHING)
    place = _place_in(table, rows, row, key)
    if table[place] < 0:
        table[place] = count[0]
        for lane in range(len(row)):
            rows[count[0], lane] = row[lane]
        count[0] += 1
    return table[place]


@compiled
def _number(new: Any, contents: Any, numbers: Any, first: Any) -> Any:
    for n in range(first, len(new)):
        numbers[n] = _number_of(new[n], contents)
        if numbers[n] < 0:
            return n
    return len(new)


@compiled
def _follow(accesses: Any, sources: Any, state: Any, contents: Any, out: Any, first: Any) -> Any:
    """Follow accesses from one on; return the first that is not, for want of room."""
    place, kind, mask, source = accesses
    shown, are_contents = sources
    rows, _, _, _, whole = contents
    after, gaps = out
    lanes = rows.shape[1]
    for n in range(first, len(kind)):
        before, which, bits = state[place[n]], source[n], mask[n]
        if kind[n] == _READ:
            after[n] = NOTHING
            gaps[0] += 1
            if before < 0:
                gaps[1] += 1
            elif which >= 0:
                for lane in range(lanes):
                    on = bits >> np.uint64(lane) & np.uint64(1)
                    if on and rows[before, lane] != shown[which, lane]:
                        gaps[2] += 1
                        break
            continue
        alike = are_contents
        for lane in range(lanes):
            if bits >> np.uint64(lane) & np.uint64(1):
                whole[lane] = shown[which, lane]
            else:
                whole[lane] = rows[before, lane] if before >= 0 else np.uint32(0)
                alike = alike and whole[lane] == shown[which, lane]
        after[n] = which if alike else _number_of(whole, contents)
        if after[n] < 0:
            return n
        state[place[n]] = after[n]
    return len(kind)


@compiled
def _permute(rows: Any, order: Any, spare: Any) -> None:
    """Put row ``order[n]`` in place n, for all n; ``order`` is used up."""
    for first in range(len(order)):
        if order[first] < 0:
            continue
        for lane in range(len(spare)):
            spare[lane] = rows[first, lane]
        place = first
        while order[place] != first:
            source = order[place]
            for lane in range(len(spare)):
                rows[place, lane] = rows[source, lane]
            order[place] = -1
            place = source
        for lane in range(len(spare)):
            rows[place, lane] = spare[lane]
        order[place] = -1
