"""Exposure where compressed values live in a table and the selectors rotate.

Released places are off there and every write is whole, so that a stay adds the same times to the
cells of whatever entry it has. Its sum is made once, in a tile of components that fits the
first-level cache, and added to its home in every pass; the tile's sums of all entries fit the
second-level one.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.native.columns import DURATION, IMAGE, Columns
from mcage.engines.native.compile import compiled
from mcage.engines.native.place import ENTRIES
from mcage.engines.native.stays import Stays
from mcage.engines.native.walk import BITS, BLOCK_COMPONENTS, BLOCKS, add_seconds
from mcage.engines.prepare import PreparedReplay
from mcage.techniques import Storage

_TILES = BLOCKS
_TILE_COMPONENTS = BLOCK_COMPONENTS
_TILE_CELLS = _TILE_COMPONENTS * BITS
_BIT = np.uint32(1) << np.arange(BITS, dtype=np.uint32)
_LONGEST_SUM = 0xFFFF_FFFF


class Spread(NamedTuple):
    """Stays that have an entry as their home, if a replay is of that kind; arrays [stays].

    `first` is the write that begins a stay, `cycles` its length. Its sum is row `row` of
    `Stays.whole` (-1: none) and the writes ``members[starts[stay]:starts[stay + 1]]``.
    """

    usable: bool
    first: NDArray[np.int64]
    cycles: NDArray[np.int64]
    row: NDArray[np.int64]
    starts: NDArray[np.int64]
    members: NDArray[np.int64]


def spread(replay: PreparedReplay, schedule: Columns, stays: Stays) -> Spread:
    """Stays of a replay, ready to be spread over its passes."""
    technique = replay.technique
    in_entry = np.flatnonzero(~replay.schedule.compressed)
    first, belongs = np.unique(stays.first[in_entry], return_inverse=True)
    cycles = np.bincount(belongs, weights=schedule.facts[in_entry, DURATION], minlength=len(first))
    row = stays.row[first]
    single = (row[belongs] < 0) | (in_entry == stays.last[first][belongs])
    order = np.argsort(belongs[single], kind="stable")
    counts = np.bincount(belongs[single], minlength=len(first))
    return Spread(
        usable=technique.storage is Storage.TABLE
        and technique.gates_released
        and replay.schedule.writes_whole
        and replay.period <= _LONGEST_SUM,
        first=first,
        cycles=cycles.astype(np.int64),
        row=row,
        starts=np.concatenate([[0], np.cumsum(counts)]),
        members=in_entry[single][order],
    )


@compiled
def expose_spread(
    spread: Any,
    stays: Any,
    schedule: Any,
    homes: NDArray[np.int64],
    scale: float,
    zero_seconds: NDArray[np.float64],
    one_seconds: NDArray[np.float64],
    longest: NDArray[np.float64],
) -> None:
    """Add the cell times of all passes of one instance, in place.

    Parameters
    ----------
    spread, stays, schedule : Spread, Stays, Columns
        The replay.
    homes : int64[passes, stays]
        Entry that each stay has in each pass.
    scale : float
        Seconds that a cycle stands for.
    zero_seconds, one_seconds : float64[256, 64, 32]
        Seconds of the instance's cells so far.
    longest : float64[2, 32]
        Longest of them, for each bit of a component; raised in place.
    """
    passes, count = homes.shape
    starts, members, row = spread.starts, spread.members, spread.row
    whole, contents, facts = stays.whole, schedule.contents, schedule.facts
    powered = np.zeros(ENTRIES, np.int64)
    for one in range(passes):
        for stay in range(count):
            powered[homes[one, stay]] += spread.cycles[stay]
    sums = np.empty((ENTRIES, _TILE_CELLS), np.uint32)
    of_stay = np.empty(_TILE_CELLS, np.uint32)
    ones, on = np.empty(BITS, np.int64), np.empty(BITS, np.int64)
    by_component = of_stay.reshape(_TILE_COMPONENTS, BITS)
    for tile in range(_TILES):
        begin = tile * _TILE_COMPONENTS
        sums[:] = 0
        for stay in range(count):
            _start(by_component, whole, row[stay], begin)
            for i in range(starts[stay], starts[stay + 1]):
                image, cycles = facts[members[i], IMAGE], facts[members[i], DURATION]
                _hold(by_component, contents, image, begin, cycles)
            for one in range(passes):
                entry = homes[one, stay]
                for cell in range(_TILE_CELLS):
                    sums[entry, cell] += of_stay[cell]
        for entry in range(ENTRIES):
            if powered[entry]:
                on[:] = powered[entry]
                for component in range(_TILE_COMPONENTS):
                    first = BITS * component
                    for bit in range(BITS):
                        ones[bit] = sums[entry, first + bit]
                    add_seconds(
                        ones,
                        on,
                        scale,
                        zero_seconds[entry, begin + component],
                        one_seconds[entry, begin + component],
                        longest[0],
                        longest[1],
                    )


@compiled
def _start(of_stay: Any, whole: Any, row: int, begin: int) -> None:
    if row < 0:
        of_stay[:] = 0
    else:
        for component in range(_TILE_COMPONENTS):
            for bit in range(BITS):
                of_stay[component, bit] = whole[row, begin + component, bit]


@compiled
def _hold(of_stay: Any, contents: Any, image: int, begin: int, cycles: int) -> None:
    for component in range(_TILE_COMPONENTS):
        value = contents[image, begin + component]
        total = of_stay[component]
        for bit in range(BITS):
            if value & _BIT[bit]:
                total[bit] += cycles
