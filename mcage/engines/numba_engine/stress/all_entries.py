"""A bit of all entries at once, where the bounds leave too many of them open.

What a residency shows at a bit is the same wherever it lives: it is summed up once, and added to
its home in every pass. That holds if released places are off, and every residency has an entry to
itself.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import add_everywhere
from mcage.engines.numba_engine.jit import inner, nested
from mcage.engines.numba_engine.placement.contents import BITS
from mcage.engines.numba_engine.placement.redirect import ENTRIES
from mcage.engines.numba_engine.placement.residencies import END, EVER, PARTIAL
from mcage.engines.numba_engine.simd import COMPONENTS, add_row, sum_plane


class AllEntries(NamedTuple):
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
        Entries of which every residency writes all; the times of the others are not known.
    sums : T[32, 64]
        Workspace.
    """

    done: NDArray[np.bool_]
    ones: NDArray[np.unsignedinteger]
    powered: NDArray[np.unsignedinteger]
    whole: NDArray[np.bool_]
    sums: NDArray[np.unsignedinteger]


@nested
def new_all_entries(cycles: Any) -> Any:
    """Make space for all bits; `cycles` is an array of the type of sums of cycles."""
    # Pages that are never touched take no memory.
    return AllEntries(
        np.zeros(BITS, np.bool_),
        np.empty((BITS, ENTRIES, COMPONENTS), cycles.dtype),
        np.zeros(ENTRIES, cycles.dtype),
        np.zeros(ENTRIES, np.bool_),
        np.zeros((BITS, COMPONENTS), cycles.dtype),
    )


@inner
def forget(all_entries: Any) -> None:
    """Forget all bits."""
    all_entries.done[:] = False


@inner
def power(residencies: Any, kernel: int, home: Any, all_entries: Any) -> None:
    """Find out for how long each entry is powered, and whether it is always written as a whole.

    Parameters
    ----------
    residencies, kernel : Residencies, int
        What runs.
    home : int16[residencies, passes]
        Home of each residency in each pass.
    all_entries : AllEntries
        Where the outcome goes.
    """
    facts, first = residencies.facts, residencies.kernels.first_residency[kernel]
    cycle, write_starts = residencies.writes.cycle, residencies.write_starts
    all_entries.powered[:] = 0
    all_entries.whole[:] = True
    for residency in range(first, residencies.kernels.first_residency[kernel + 1]):
        lasts = np.int64(facts[residency, END]) - cycle[write_starts[residency]]
        for pass_ in range(home.shape[1]):
            entry = home[residency - first, pass_] >> 3
            all_entries.powered[entry] += lasts
            all_entries.whole[entry] &= facts[residency, PARTIAL] == 0


@inner
def work_out_bit(residencies: Any, kernel: int, home: Any, bit: int, all_entries: Any) -> None:
    """Work out a bit of all entries; parameters as for `power`."""
    facts, write_starts = residencies.facts, residencies.write_starts
    planes, writes = residencies.contents.planes, residencies.writes
    ones, sums, member = all_entries.ones[bit], all_entries.sums, np.uint64(1)
    first = residencies.kernels.first_residency[kernel]
    for entry in range(ENTRIES):
        for component in range(COMPONENTS):
            ones[entry, component] = 0
    for residency in range(first, residencies.kernels.first_residency[kernel + 1]):
        ever = facts[residency, EVER] >> np.uint64(bit)
        if not ever & member:
            continue
        begin, end = write_starts[residency], write_starts[residency + 1]
        if ever >> np.uint64(BITS) & member:
            for component in range(COMPONENTS):
                sums[bit, component] = 0
            sum_plane(planes, writes.image, writes.duration, begin, end, bit, sums)
            for pass_ in range(home.shape[1]):
                add_row(ones, home[residency - first, pass_] >> 3, sums, bit)
        else:
            lasts = np.int64(facts[residency, END]) - writes.cycle[begin]
            for pass_ in range(home.shape[1]):
                add_everywhere(ones, home[residency - first, pass_] >> 3, lasts)
    all_entries.done[bit] = True
