"""Tracked cells in groups of up to eight, which are summed together."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.placement.contents import BITS, CODE_BITS
from mcage.engines.numba_engine.placement.redirect import WHOLE_ENTRY
from mcage.engines.numba_engine.simd import TOGETHER
from mcage.engines.numba_engine.stress.open_bits import IN_ROW
from mcage.engines.numba_engine.vectors import COMPONENTS
from mcage.engines.tracked_cells import TrackedCells
from mcage.geometry import SliceGeometry


class TrackedGroups(NamedTuple):
    """Groups of up to eight tracked cells of an entry that are always written together.

    Attributes
    ----------
    first : int64[entries * instances + 1]
        First group of each entry of each instance.
    block : int64[groups]
        Block whose records overwrite the cells, or 4 if no record does.
    column, component : int64[groups, 8], uint64[groups, 8]
        Bit and component of each cell.
    tracked : int64[groups, 8]
        Number of the cell among those tracked, or -1 for a place that is not taken.
    """

    first: NDArray[np.int64]
    block: NDArray[np.int64]
    column: NDArray[np.int64]
    component: NDArray[np.uint64]
    tracked: NDArray[np.int64]


class CellList(NamedTuple):
    """Tracked cells entry by entry, four in a row; every entry has at least one row.

    Few entries have more tracked cells than four, so that nearly all have the same number of rows:
    a processor would guess wrong how many cells there are.

    Attributes
    ----------
    first : int64[entries * instances + 1]
        First row of each entry of each instance.
    place : uint32[rows, 4]
        64 times the bit, plus the component: narrower, hence faster to look sums up by.
    tracked : int64[rows, 4]
        Number of the cell among those tracked, or -1 for a place that is not taken.
    """

    first: NDArray[np.int64]
    place: NDArray[np.uint32]
    tracked: NDArray[np.int64]


class Progress(NamedTuple):
    """How far cells, groups and instances have come in an epoch.

    Attributes
    ----------
    cycles_at_one : T[rows, 4]
        Cycles at '1' of the cells of the list, but for the first row of an entry.
    ones : int64[groups, 8]
        Cycles at '1' of the cells.
    powered : int64[groups]
        Cycles powered.
    since, first : int64[groups, passes]
        End of the latest occupant, -1 before; start of the first occupant.
    write, shift : int64[groups, passes], uint64[groups, passes]
        What the cells hold since then, and how many components further on than in its plane.
    upcoming : int64[instances, entries * passes]
        Occupant that comes next.
    depends : bool[instances, entries]
        Entries of whose cells it matters what they held before an occupant.
    mixed : bool[instances, entries]
        Entries of which blocks hold records.
    """

    cycles_at_one: NDArray[np.unsignedinteger]
    ones: NDArray[np.int64]
    powered: NDArray[np.int64]
    since: NDArray[np.int64]
    first: NDArray[np.int64]
    write: NDArray[np.int64]
    shift: NDArray[np.uint64]
    upcoming: NDArray[np.int64]
    depends: NDArray[np.bool_]
    mixed: NDArray[np.bool_]


class Tracking(NamedTuple):
    """Tracked cells of a batch of instances, and their stress times.

    Attributes
    ----------
    groups, cells, progress : TrackedGroups, CellList, Progress
        Cells, and how far they have come.
    seconds : float64[2, tracked]
        Seconds at '0' and '1'.
    """

    groups: TrackedGroups
    cells: CellList
    progress: Progress
    seconds: NDArray[np.float64]


def groups_of(
    tracked: TrackedCells, geometry: SliceGeometry, instances: int, in_blocks: bool
) -> TrackedGroups:
    """Put tracked cells into groups; if values go to blocks, by what overwrites them."""
    entry, bits = np.divmod(tracked.cell, geometry.entry_bits)
    component, column = np.divmod(bits, BITS)
    block, within = np.divmod(component, geometry.block_components)
    in_record = (within == 0) | ((within == 1) & (column < CODE_BITS))
    block = np.where(in_record & in_blocks, block, WHOLE_ENTRY)
    place = tracked.instance * geometry.entries + entry
    order = np.lexsort((bits, block, place))
    kind = (place * (WHOLE_ENTRY + 1) + block)[order]
    begins = np.flatnonzero(np.diff(kind, prepend=-1))
    rank = np.arange(len(kind)) - np.repeat(begins, np.diff(np.append(begins, len(kind))))
    group = np.cumsum(rank % TOGETHER == 0) - 1
    count = int(group[-1]) + 1 if len(group) else 0
    opens = order[rank % TOGETHER == 0]
    shape = (count, TOGETHER)
    groups = TrackedGroups(
        first=np.searchsorted(place[opens], np.arange(geometry.entries * instances + 1)),
        block=block[opens],
        column=np.zeros(shape, dtype=np.int64),
        component=np.zeros(shape, dtype=np.uint64),
        tracked=np.full(shape, -1, dtype=np.int64),
    )
    where = (group, rank % TOGETHER)
    groups.column[where], groups.component[where] = column[order], component[order]
    groups.tracked[where] = order
    return groups


def cells_of(tracked: TrackedCells, geometry: SliceGeometry, instances: int) -> CellList:
    """List tracked cells entry by entry, those of a bit side by side."""
    entry, bits = np.divmod(tracked.cell, geometry.entry_bits)
    component, column = np.divmod(bits, BITS)
    where, place = tracked.instance * geometry.entries + entry, column * COMPONENTS + component
    order = np.lexsort((place, where))
    count = np.bincount(where, minlength=geometry.entries * instances)
    first = np.append(0, np.cumsum(np.maximum(1, -(-count // IN_ROW))))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    at = first[where[order]] + rank // IN_ROW, rank % IN_ROW
    cells = CellList(
        first=first,
        place=np.zeros((first[-1], IN_ROW), dtype=np.uint32),
        tracked=np.full((first[-1], IN_ROW), -1, dtype=np.int64),
    )
    cells.place[at], cells.tracked[at] = place[order], order
    return cells


def new_progress(
    rows: int, groups: int, entries: int, instances: int, passes: int, cycles: Any
) -> Any:
    """Make space for progress; `cycles` is an array of the type of sums of cycles."""
    return Progress(
        np.empty((rows, IN_ROW), cycles.dtype),
        np.empty((groups, TOGETHER), np.int64),
        np.empty(groups, np.int64),
        np.empty((groups, passes), np.int64),
        np.empty((groups, passes), np.int64),
        np.empty((groups, passes), np.int64),
        np.empty((groups, passes), np.uint64),
        np.empty((instances, entries * passes), np.int64),
        np.empty((instances, entries), np.bool_),
        np.empty((instances, entries), np.bool_),
    )
