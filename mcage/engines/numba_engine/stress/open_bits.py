"""Bits of entries that bounds leave open, of instances that run the same kernel.

All of them are worked out in one pass through the residencies of the kernel: what a residency shows
is the same wherever it lives. That holds if released places are off, and every residency has an
entry to itself.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.aligned import aligned_zeros
from mcage.engines.numba_engine.jit import inlined, inner
from mcage.engines.numba_engine.placement.contents import BITS
from mcage.engines.numba_engine.vectors import COMPONENTS

SIDE_BY_SIDE = 16
"""Instances that are worked on at a time."""

_ROWS = 1 << 14
"""Open bits of all these instances for which there is space. Others are looked at one by one."""

BIT = np.uint64(1)

IN_ROW = 4
"""Tracked cells of an entry in a row."""

AT_ONE, PLACE, POWERED, OPEN, ROW, MORE, MORE_END = 0, 4, 8, 9, 10, 11, 12
"""Columns of `OpenBits.lines`."""
_COLUMNS = 16


class OpenBits(NamedTuple):
    """Open bits of instances in their latest epochs; the instances are numbered from 0.

    Attributes
    ----------
    bits : uint64[16, entries]
        Set of the open bits of each entry.
    first : int64[16, entries]
        Row of `ones` of the first of them; the others follow.
    used : int64[1]
        Rows in use.
    ones : T[rows, 64]
        Cycles at '1' of the cells of an open bit.
    lines : T[16 * entries, 16]
        What is asked of an entry of an instance whenever a residency lives there, in one cache
        line: cycles at '1' of its first four tracked cells from `AT_ONE` on, and from `PLACE` on
        where each is, as in `CellList`; `POWERED`: cycles for which it is powered; `OPEN`, `ROW`:
        its `bits` and `first`; `MORE`, `MORE_END`: rows of further tracked cells.
    """

    bits: NDArray[np.uint64]
    first: NDArray[np.int64]
    used: NDArray[np.int64]
    ones: NDArray[np.unsignedinteger]
    lines: NDArray[np.unsignedinteger]


def new_open_bits(entries: int, cycles: Any) -> Any:
    """Make space for open bits of slices of so many entries.

    `cycles` is an array of the type of sums of cycles.
    """
    # Pages that are never touched take no memory.
    return OpenBits(
        np.zeros((SIDE_BY_SIDE, entries), np.uint64),
        np.zeros((SIDE_BY_SIDE, entries), np.int64),
        np.zeros(1, np.int64),
        aligned_zeros((_ROWS, COMPONENTS), cycles.dtype),
        aligned_zeros((SIDE_BY_SIDE * entries, _COLUMNS), cycles.dtype),
    )


def forget(open_bits: Any) -> None:
    """Forget all open bits."""
    open_bits.bits[:] = 0
    open_bits.used[0] = 0


@inner
def add_open(open_bits: Any, place: int, entry: int, chosen: np.uint64) -> None:
    """Add the chosen bits of an entry of an instance, unless there is no space for them."""
    used, ones = open_bits.used[0], open_bits.ones
    more = np.int64(0)
    for bit in range(BITS):
        more += np.int64(chosen >> np.uint64(bit) & BIT)
    if used + more > len(ones):
        return
    open_bits.bits[place, entry] = chosen
    open_bits.first[place, entry] = used
    for row in range(used, used + more):
        for component in range(COMPONENTS):
            ones[row, component] = 0
    open_bits.used[0] = used + more


@inlined
def powered_of(open_bits: Any, place: int, entry: int) -> Any:
    """Cycles for which an entry is powered."""
    return open_bits.lines[place * open_bits.bits.shape[1] + entry, POWERED]


@inlined
def take_over(open_bits: Any, place: int, entry: int, chosen: np.uint64, times: Any) -> None:
    """Copy the times of the chosen bits of an entry, which are among the open ones."""
    row, powered = open_bits.first[place, entry], powered_of(open_bits, place, entry)
    for bit in range(BITS):
        if open_bits.bits[place, entry] >> np.uint64(bit) & BIT:
            if chosen >> np.uint64(bit) & BIT:
                for component in range(COMPONENTS):
                    times.ones[bit, component] = open_bits.ones[row, component]
                    times.powered[bit, component] = powered
            row += 1
