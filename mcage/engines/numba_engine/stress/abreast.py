"""One bit of all entries abreast, where the bounds leave too many of them open.

What a run shows at a bit is the same wherever it lives: it is summed up once, and added to its home
in every pass. That is for released places that are off, and runs with an entry to themselves.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import add_everywhere
from mcage.engines.numba_engine.jit import compiled, inner
from mcage.engines.numba_engine.placement.redirect import ENTRIES
from mcage.engines.numba_engine.placement.residencies import BITS, END, EVER, PARTIAL
from mcage.engines.numba_engine.simd import LANES, add_row, sum_plane


class Abreast(NamedTuple):
    """Times of the bits that have been worked out for all entries.

    Attributes
    ----------
    done : bool[32]
        Which bits those are.
    ones : T[32, 256, 64]
        Cycles at '1' of their cells.
    powered : T[256]
        Cycles for which each entry is powered.
    whole : bool[256]
        Entries whose runs write all of it: for the others, times are not known.
    sums : T[32, 64]
        Room to work.
    """

    done: NDArray[np.bool_]
    ones: NDArray[np.unsignedinteger]
    powered: NDArray[np.unsignedinteger]
    whole: NDArray[np.bool_]
    sums: NDArray[np.unsignedinteger]


@compiled
def new_abreast(sums: Any) -> Any:
    """Room for all bits; `sums` is an array of the type of sums."""
    # Pages that are never touched take no memory.
    return Abreast(
        np.zeros(BITS, np.bool_),
        np.empty((BITS, ENTRIES, LANES), sums.dtype),
        np.zeros(ENTRIES, sums.dtype),
        np.zeros(ENTRIES, np.bool_),
        np.zeros((BITS, LANES), sums.dtype),
    )


@inner
def forget(abreast: Any) -> None:
    """No bit is worked out yet."""
    abreast.done[:] = False


@inner
def power(residencies: Any, kernel: int, homes: Any, abreast: Any) -> None:
    """For how long each entry is powered, and whether it is always written as a whole."""
    facts, home, passes = residencies.facts, homes.home, len(homes.founds)
    first = residencies.residency_starts[kernel]
    abreast.powered[:] = 0
    abreast.whole[:] = True
    for residency in range(first, residencies.residency_starts[kernel + 1]):
        own = (
            np.int64(facts[residency, END]) - residencies.cycle[residencies.write_starts[residency]]
        )
        for one in range(passes):
            entry = home[one, residency - first] >> 3
            abreast.powered[entry] += own
            abreast.whole[entry] &= facts[residency, PARTIAL] == 0


@inner
def work_out_bit(residencies: Any, kernel: int, homes: Any, bit: int, abreast: Any) -> None:
    """Work out a bit of all entries."""
    facts, home, passes = residencies.facts, homes.home, len(homes.founds)
    ones, sums, member = abreast.ones[bit], abreast.sums, np.uint64(1)
    first = residencies.residency_starts[kernel]
    for entry in range(ENTRIES):
        for lane in range(LANES):
            ones[entry, lane] = 0
    for residency in range(first, residencies.residency_starts[kernel + 1]):
        ever = facts[residency, EVER] >> np.uint64(bit)
        if not ever & member:
            continue
        begin, end = residencies.write_starts[residency], residencies.write_starts[residency + 1]
        if ever >> np.uint64(BITS) & member:
            for lane in range(LANES):
                sums[bit, lane] = 0
            sum_plane(
                residencies.planes, residencies.image, residencies.duration, begin, end, bit, sums
            )
            for one in range(passes):
                add_row(ones, home[one, residency - first] >> 3, sums, bit)
        else:
            own = np.int64(facts[residency, END]) - residencies.cycle[begin]
            for one in range(passes):
                add_everywhere(ones, home[one, residency - first] >> 3, own)
    abreast.done[bit] = True
