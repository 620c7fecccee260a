"""How long the cells of an entry can hold '0' or '1' at most, for each bit of a component.

A bound looks at runs, not at writes, and at 32 bits, not at 2,048 cells. The same bit of the 64
components of a register is often alike in all of them, so that the bounds are near the truth.
Runs are taken in order of time, in which they follow each other in memory, too.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import ALL_LANES, BLOCKS
from mcage.engines.numba_engine.jit import compiled, inlined, inner
from mcage.engines.numba_engine.placement.redirect import (
    ENTRIES,
    WHOLE_ENTRY,
    begin_of,
    block_of,
    residency_of,
)
from mcage.engines.numba_engine.placement.residencies import BITS, END, LAST
from mcage.engines.numba_engine.simd import LANES, add_row, add_row_where, add_where, prefetch

_VIEWS = BLOCKS + 1
"""What an entry looks like to the cells of a record in each block, and to all other cells."""
_SIDE_BY_SIDE = 64
"""Runs that all passes take before any pass goes on: they stay in the caches."""


_LINE = 16
"""Sums of 32 bits in a cache line."""
_AHEAD = 16
"""Runs between the one that is added and the one whose bounds are loaded."""


class Views(NamedTuple):
    """Room to work for `bound_visits`.

    Attributes
    ----------
    sums : T[4 * 256, 64]
        Bounds of the cells of records, at ``[4 * entry + block]``; the others' go where they
        belong at once.
    recorded : bool[256]
        Entries that hold records.
    record_cycles : int64[4 * 256]
        How long records are there.
    next : int64[passes]
        Visit at which each pass is.
    since, first : int64[passes * 256 * 5]
        Of each view, end of the latest visit, -1 before; start of the first one.
    held : uint64[passes * 256 * 5]
        What some component of it holds since then, numbered as `Residencies.facts`.
    """

    sums: NDArray[np.unsignedinteger]
    recorded: NDArray[np.bool_]
    record_cycles: NDArray[np.int64]
    next: NDArray[np.int64]
    since: NDArray[np.int64]
    first: NDArray[np.int64]
    held: NDArray[np.uint64]


@compiled
def new_views(passes: int, like: Any) -> Any:
    """Room for sums of the type of those of an array."""
    return Views(
        np.empty((ENTRIES * BLOCKS, LANES), like.dtype),
        np.empty(ENTRIES, np.bool_),
        np.empty(ENTRIES * BLOCKS, np.int64),
        np.empty(passes, np.int64),
        np.empty(passes * ENTRIES * _VIEWS, np.int64),
        np.empty(passes * ENTRIES * _VIEWS, np.int64),
        np.empty(passes * ENTRIES * _VIEWS, np.uint64),
    )


@inner
def bound_homes(residencies: Any, kernel: int, homes: Any, at_most: Any) -> None:
    """Bounds where released places are off and every run has an entry to itself from its start.

    Parameters
    ----------
    runs, kernel, homes : Runs, int, Homes
        A placement.
    at_most : T[256, 64]
        Of each entry, cycles of bit b at '1' in ``[:, b]``, at '0' in ``[:, 32 + b]``.
    """
    home, longest = homes.home, residencies.longest
    first = residencies.residency_starts[kernel]
    passes = len(homes.founds)
    at_most[:] = 0
    for mine in range(residencies.residency_starts[kernel + 1] - first):
        _load(residencies, first + mine + _AHEAD)
        for one in range(passes):
            add_row(at_most, home[one, mine] >> 3, longest, first + mine)


@inner
def bound_occupants(residencies: Any, kernel: int, homes: Any, views: Any, at_most: Any) -> None:
    """Bounds for any placement: as `bound_homes`.

    The cells of a block's record see the visits to the whole entry and the records in their block,
    the others only those to the whole entry: five views of an entry, each with a bound.
    """
    founds, position = homes.founds, views.next
    passes = len(founds)
    _start(homes, views, at_most)
    last = residencies.residency_starts[kernel + 1]
    for until in range(residencies.residency_starts[kernel], last + _SIDE_BY_SIDE, _SIDE_BY_SIDE):
        for one in range(passes):
            position[one] = _take(residencies, homes, one, position[one], until, views, at_most)
    if residencies.gated:
        _add_records(views, at_most)
    else:
        _come_round(residencies.cycles[kernel], passes, views, at_most)
    sums, recorded = views.sums, views.recorded
    for entry in range(ENTRIES):
        if recorded[entry]:
            for block in range(BLOCKS):
                for which in range(LANES):
                    most = max(at_most[entry, which], sums[entry * BLOCKS + block, which])
                    at_most[entry, which] = most


@inner
def _start(homes: Any, views: Any, at_most: Any) -> None:
    """Find out which entries hold records; nothing has happened yet."""
    found, entry, founds = homes.found, homes.entry, homes.founds
    sums, recorded = views.sums, views.recorded
    at_most[:] = 0
    recorded[:] = False
    views.record_cycles[:] = 0
    views.next[:] = 0
    views.since[:] = -1
    views.held[:] = 0
    for one in range(len(founds)):
        for i in range(founds[one]):
            recorded[entry[one, i]] |= block_of(found[one, i]) != WHOLE_ENTRY
    for number in range(ENTRIES):
        if recorded[number]:
            sums[number * BLOCKS : (number + 1) * BLOCKS] = 0


@inner
def _take(
    residencies: Any, homes: Any, one: int, position: int, until: int, views: Any, at_most: Any
) -> int:
    """Add the visits of a pass up to some run; how far that is."""
    found, entry_at, end_of_pass = homes.found, homes.entry, homes.founds[one]
    facts, cycle, write_starts = residencies.facts, residencies.cycle, residencies.write_starts
    sums, recorded, record_cycles = views.sums, views.recorded, views.record_cycles
    first_view = one * ENTRIES * _VIEWS
    while position < end_of_pass:
        occupant, entry = found[one, position], entry_at[one, position]
        residency, begin, block = residency_of(occupant), begin_of(occupant), block_of(occupant)
        if residency >= until:
            break
        _load(residencies, residency + _AHEAD)
        view = first_view + entry * _VIEWS
        start, end = cycle[begin], np.int64(facts[residency, END])
        complete = begin == write_starts[residency]
        if block != WHOLE_ENTRY:
            row = entry * BLOCKS + block
            _add(residencies, residency, complete, start, end, sums, row, views, view + block)
            record_cycles[row] += end - start
        else:
            _add(
                residencies,
                residency,
                complete,
                start,
                end,
                at_most,
                entry,
                views,
                view + WHOLE_ENTRY,
            )
            if recorded[entry]:
                for other in range(BLOCKS):
                    row = entry * BLOCKS + other
                    _add(
                        residencies, residency, complete, start, end, sums, row, views, view + other
                    )
        position += 1
    return position


@inlined
def _load(residencies: Any, residency: int) -> None:
    """Have what is known of a run at hand soon."""
    prefetch(residencies.facts, residency, 0)
    for column in range(0, LANES, _LINE):
        prefetch(residencies.longest, residency, column)


@inlined
def _add(
    residencies: Any,
    residency: int,
    complete: bool,
    start: np.int64,
    end: np.int64,
    sums: Any,
    row: int,
    views: Any,
    view: int,
) -> None:
    """Add a visit to a view, and what the view held since the visit before."""
    since, held, first = views.since, views.held, views.first
    if residencies.gated:
        if complete:
            add_row(sums, row, residencies.longest, residency)
        else:  # it began in the LDS
            _add_where(sums, row, ALL_LANES, end - start)
        return
    gap = sums.dtype.type(start - since[view])
    if complete:
        add_row_where(sums, row, residencies.longest, residency, held[view], gap)
    else:
        add_where(sums, row, held[view], gap)
        _add_where(sums, row, ALL_LANES, end - start)
    first[view] = start if since[view] < 0 else first[view]
    since[view] = end
    held[view] = residencies.facts[residency, LAST]


@inlined
def _add_where(sums: Any, row: int, bits: np.uint64, cycles: Any) -> None:
    add_where(sums, row, bits, sums.dtype.type(cycles))


@inner
def _come_round(cycles: int, passes: int, views: Any, at_most: Any) -> None:
    """What a view holds at the end of a pass, it holds until its first visit in the next."""
    since, held, first = views.since, views.held, views.first
    for view in range(passes * ENTRIES * _VIEWS):
        if since[view] >= 0:
            left = first[view] + cycles - since[view]
            entry, which = view // _VIEWS % ENTRIES, view % _VIEWS
            if which == WHOLE_ENTRY:
                _add_where(at_most, entry, held[view], left)
            else:
                _add_where(views.sums, entry * BLOCKS + which, held[view], left)


@inner
def _add_records(views: Any, at_most: Any) -> None:
    """A record powers all of its block: its other cells are on with what they held before."""
    record_cycles = views.record_cycles
    for entry in range(ENTRIES):
        if views.recorded[entry]:
            longest = 0
            for block in range(BLOCKS):
                longest = max(longest, record_cycles[entry * BLOCKS + block])
            for bit in range(BITS):
                if at_most[entry, bit] or at_most[entry, BITS + bit]:
                    at_most[entry, bit] += longest
                    at_most[entry, BITS + bit] += longest
