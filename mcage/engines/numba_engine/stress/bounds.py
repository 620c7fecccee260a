"""How long the cells of an entry can hold '0' or '1' at most, for each bit of a component.

A bound looks at residencies, not at writes, and at 32 bits, not at 2,048 cells. The same bit of
all components of a register is often alike in all of them, so that the bounds are near the
truth. Residencies are taken in order of time, in which they follow each other in memory, too.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.aligned import aligned_zeros
from mcage.engines.numba_engine.jit import inlined, inner
from mcage.engines.numba_engine.placement.contents import ALL_COMPONENTS, BITS
from mcage.engines.numba_engine.placement.packing import begin_of, block_of, is_late, residency_of
from mcage.engines.numba_engine.placement.redirect import LDS, WHOLE_ENTRY
from mcage.engines.numba_engine.placement.residencies import END, LAST
from mcage.engines.numba_engine.simd import add_row, add_row_where, add_where, prefetch
from mcage.engines.numba_engine.vectors import COMPONENTS

BLOCKS = WHOLE_ENTRY
"""Blocks of an entry for which there is room; where it has fewer, the others hold no record."""

_VIEWS = BLOCKS + 1
"""What an entry looks like to the cells of a record in each block, and to all other cells."""
_SIDE_BY_SIDE = 64
"""Residencies that all passes take before any pass goes on: they stay in the caches."""

_LINE = 16
"""Sums of 32 bits in a cache line."""
_AHEAD = 16
"""Residencies between that which is added and that whose bounds are loaded."""


class Views(NamedTuple):
    """Bounds of an instance's epoch, and the workspace of `bound_occupants`.

    Attributes
    ----------
    at_most : T[entries, 64]
        Of each entry, cycles of bit b at '1' in ``[:, b]``, at '0' in ``[:, 32 + b]``.
    sums : T[4 * entries, 64]
        Bounds of the cells of records, at ``[4 * entry + block]``; those of the other cells go to
        `at_most` at once.
    recorded : bool[entries]
        Entries that hold records.
    record_cycles : int64[4 * entries]
        How long records are there.
    next : int64[passes]
        Occupant at which each pass is.
    since, first : int64[passes * entries * 5]
        Of each view, end of the latest occupant, -1 before; start of the first occupant.
    held : uint64[passes * entries * 5]
        What some component of it holds since then, numbered as `Residencies.facts`.
    """

    at_most: NDArray[np.unsignedinteger]
    sums: NDArray[np.unsignedinteger]
    recorded: NDArray[np.bool_]
    record_cycles: NDArray[np.int64]
    next: NDArray[np.int64]
    since: NDArray[np.int64]
    first: NDArray[np.int64]
    held: NDArray[np.uint64]


class Occupancy(NamedTuple):
    """A residency while it lives in an entry.

    Attributes
    ----------
    residency : int
        Residency.
    complete : bool
        Whether it has lived there from its first write on; otherwise it began in the LDS.
    start, end : int
        Cycles.
    """

    residency: Any
    complete: Any
    start: Any
    end: Any


def new_views(entries: int, passes: int, cycles: Any) -> Any:
    """Make views; `cycles` is an array of the type of sums of cycles."""
    return Views(
        aligned_zeros((entries, COMPONENTS), cycles.dtype),
        aligned_zeros((entries * BLOCKS, COMPONENTS), cycles.dtype),
        np.empty(entries, np.bool_),
        np.empty(entries * BLOCKS, np.int64),
        np.empty(passes, np.int64),
        np.empty(passes * entries * _VIEWS, np.int64),
        np.empty(passes * entries * _VIEWS, np.int64),
        np.empty(passes * entries * _VIEWS, np.uint64),
    )


@inner
def bound_homes(residencies: Any, kernel: int, homes: Any, at_most: Any) -> None:
    """Bound cells if released places are off and every residency has an entry to itself.

    Parameters
    ----------
    residencies, kernel : Residencies, int
        What runs.
    homes : Homes
        Homes of residencies, without those that began in the LDS, which stand in `arrivals` alone.
    at_most : T[entries, 64]
        Bounds, as in `Views`.
    """
    first, home = residencies.kernels.first_residency[kernel], homes.home
    at_most[:] = 0
    for in_kernel in range(residencies.kernels.first_residency[kernel + 1] - first):
        _load(residencies.facts, residencies.at_most, first + in_kernel + _AHEAD)
        for pass_ in range(home.shape[1]):
            if home[in_kernel, pass_] >= 0:
                entry = home[in_kernel, pass_] >> 3
                add_row(at_most, entry, residencies.at_most, first + in_kernel)
    if homes.tally.events[LDS]:
        _bound_late(residencies, homes.arrivals, at_most)


@inner
def _bound_late(residencies: Any, arrivals: Any, at_most: Any) -> None:
    """Bound cells of residencies that began in the LDS: nothing is known of what these show."""
    cycle = residencies.writes.cycle
    for pass_ in range(len(arrivals.arrived)):
        for i in range(arrivals.arrived[pass_]):
            occupant = arrivals.occupant[pass_, i]
            if is_late(occupant):
                residency = residency_of(residencies, occupant)
                start = cycle[begin_of(residencies, occupant)]
                lasts = np.int64(residencies.facts[residency, END]) - start
                _add_where(at_most, arrivals.entry[pass_, i], ALL_COMPONENTS, lasts)


@inner
def bound_occupants(residencies: Any, kernel: int, arrivals: Any, views: Any) -> None:
    """Bound cells under any placement.

    The cells of a block's record see the occupants of the whole entry and the records in their
    block, the others only the former: five views of an entry, each with a bound.
    """
    position, kernels = views.next, residencies.kernels
    passes = len(arrivals.arrived)
    _start(arrivals, views)
    last = kernels.first_residency[kernel + 1]
    for until in range(kernels.first_residency[kernel], last + _SIDE_BY_SIDE, _SIDE_BY_SIDE):
        for pass_ in range(passes):
            position[pass_] = _take(residencies, arrivals, pass_, position[pass_], until, views)
    if residencies.rules.gated:
        _add_records(views)
    else:
        _come_round(kernels.cycles[kernel], passes, views)
    at_most, sums, recorded = views.at_most, views.sums, views.recorded
    for entry in range(len(recorded)):
        if recorded[entry]:
            for block in range(BLOCKS):
                for which in range(COMPONENTS):
                    most = max(at_most[entry, which], sums[entry * BLOCKS + block, which])
                    at_most[entry, which] = most


@inner
def _start(arrivals: Any, views: Any) -> None:
    """Find out which entries hold records; nothing has happened yet."""
    sums, recorded = views.sums, views.recorded
    views.at_most[:] = 0
    recorded[:] = False
    views.record_cycles[:] = 0
    views.next[:] = 0
    views.since[:] = -1
    views.held[:] = 0
    for pass_ in range(len(arrivals.arrived)):
        for i in range(arrivals.arrived[pass_]):
            record = block_of(arrivals.occupant[pass_, i]) != WHOLE_ENTRY
            recorded[arrivals.entry[pass_, i]] |= record
    for entry in range(len(recorded)):
        if recorded[entry]:
            sums[entry * BLOCKS : (entry + 1) * BLOCKS] = 0


@inner
def _take(
    residencies: Any, arrivals: Any, pass_: int, position: int, until: int, views: Any
) -> int:
    """Add the occupants of a pass up to the residency `until`; return the next position."""
    end_of_pass, cycle = arrivals.arrived[pass_], residencies.writes.cycle
    facts, at_most, sums, recorded = residencies.facts, views.at_most, views.sums, views.recorded
    first_view = pass_ * len(recorded) * _VIEWS
    while position < end_of_pass:
        occupant, entry = arrivals.occupant[pass_, position], arrivals.entry[pass_, position]
        residency, block = residency_of(residencies, occupant), block_of(occupant)
        if residency >= until:
            break
        _load(facts, residencies.at_most, residency + _AHEAD)
        view = first_view + entry * _VIEWS
        start = cycle[begin_of(residencies, occupant)]
        end = np.int64(facts[residency, END])
        lives = Occupancy(residency, not is_late(occupant), start, end)
        if block != WHOLE_ENTRY:
            row = entry * BLOCKS + block
            _add(residencies, lives, sums, row, views, view + block)
            views.record_cycles[row] += end - start
        else:
            _add(residencies, lives, at_most, entry, views, view + WHOLE_ENTRY)
            if recorded[entry]:
                for other in range(BLOCKS):
                    _add(residencies, lives, sums, entry * BLOCKS + other, views, view + other)
        position += 1
    return position


@inlined
def _load(facts: Any, at_most: Any, residency: int) -> None:
    """Have what is known of a residency at hand soon."""
    prefetch(facts, residency, 0)
    for column in range(0, COMPONENTS, _LINE):
        prefetch(at_most, residency, column)


@inlined
def _add(residencies: Any, lives: Any, sums: Any, row: int, views: Any, view: int) -> None:
    """Add an occupancy to a view, and what the view held since the occupant before."""
    since, held, first = views.since, views.held, views.first
    residency, start, end = lives.residency, lives.start, lives.end
    if residencies.rules.gated:
        if lives.complete:
            add_row(sums, row, residencies.at_most, residency)
        else:
            _add_where(sums, row, ALL_COMPONENTS, end - start)
        return
    gap = sums.dtype.type(start - since[view])
    if lives.complete:
        add_row_where(sums, row, residencies.at_most, residency, held[view], gap)
    else:
        add_where(sums, row, held[view], gap)
        _add_where(sums, row, ALL_COMPONENTS, end - start)
    first[view] = start if since[view] < 0 else first[view]
    since[view] = end
    held[view] = residencies.facts[residency, LAST]


@inlined
def _add_where(sums: Any, row: int, bits: np.uint64, cycles: Any) -> None:
    add_where(sums, row, bits, sums.dtype.type(cycles))


@inner
def _come_round(cycles: int, passes: int, views: Any) -> None:
    """Let what a view holds at the end of a pass stay until its first occupant in the next."""
    since, held, first, entries = views.since, views.held, views.first, len(views.recorded)
    for view in range(passes * entries * _VIEWS):
        if since[view] >= 0:
            left = first[view] + cycles - since[view]
            entry, which = view // _VIEWS % entries, view % _VIEWS
            if which == WHOLE_ENTRY:
                _add_where(views.at_most, entry, held[view], left)
            else:
                _add_where(views.sums, entry * BLOCKS + which, held[view], left)


@inner
def _add_records(views: Any) -> None:
    """Let a record power all of its block: its other cells are on with what they held before."""
    at_most, record_cycles = views.at_most, views.record_cycles
    for entry in range(len(views.recorded)):
        if views.recorded[entry]:
            longest = 0
            for block in range(BLOCKS):
                longest = max(longest, record_cycles[entry * BLOCKS + block])
            for bit in range(BITS):
                if at_most[entry, bit] or at_most[entry, BITS + bit]:
                    at_most[entry, bit] += longest
                    at_most[entry, BITS + bit] += longest
