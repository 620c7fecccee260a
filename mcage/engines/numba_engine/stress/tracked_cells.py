"""Times of single cells: those that are watched, eight of an entry together.

Instances that run the same kernel go through its runs side by side, some runs at a time: what these
write is looked up once for all of them, and is at hand for the rest.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import (
    BLOCK_LANES,
    add_everywhere,
    gather_events,
    lit_lanes,
)
from mcage.engines.numba_engine.jit import compiled, inner
from mcage.engines.numba_engine.placement.redirect import (
    ENTRIES,
    WHOLE_ENTRY,
    begin_of,
    block_of,
    residency_of,
)
from mcage.engines.numba_engine.placement.residencies import (
    BITS,
    CODE_BITS,
    END,
    EVER,
    PARTIAL,
    WRITES_END,
)
from mcage.engines.numba_engine.simd import (
    AT_ONCE,
    FIRST_BITS,
    LANES,
    TOGETHER,
    sum_cells,
    sum_planes,
)
from mcage.engines.stress import TrackedCells
from mcage.geometry import SLICE

_FIRST_BITS = np.uint64(FIRST_BITS)


class Following(NamedTuple):
    """Cells to be followed: groups of up to eight that are always written together.

    Attributes
    ----------
    first : int64[256 * instances + 1]
        First group of each entry of each instance.
    block : int64[groups]
        Block whose records overwrite the cells, or 4 if none does.
    column, lane : int64[groups, 8], uint64[groups, 8]
        Bit and component of each cell.
    place : uint32[groups, 8]
        64 times the bit, plus the component: narrower, hence a tenth faster to look sums up by.
    watched : int64[groups, 8]
        Number of the cell among those watched, or -1 for a place that is not taken.
    """

    first: NDArray[np.int64]
    block: NDArray[np.int64]
    column: NDArray[np.int64]
    lane: NDArray[np.uint64]
    place: NDArray[np.uint32]
    tracked: NDArray[np.int64]


class Progress(NamedTuple):
    """How far groups and instances have come.

    Attributes
    ----------
    ones : int64[groups, 8]
        Cycles at '1' of the cells.
    powered : int64[groups]
        Cycles powered.
    since, first : int64[groups, passes]
        End of the latest visit, -1 before; start of the first one.
    write, shift : int64[groups, passes], uint64[groups, passes]
        What the cells hold since then, and how many lanes further on than in its plane.
    following : int64[instances, 256 * passes]
        Visit that comes next.
    by_itself, mixed : bool[instances, 256]
        Entries of whose cells it matters what they held before a visit; of which blocks hold
        records.
    """

    ones: NDArray[np.int64]
    powered: NDArray[np.int64]
    since: NDArray[np.int64]
    first: NDArray[np.int64]
    write: NDArray[np.int64]
    shift: NDArray[np.uint64]
    following: NDArray[np.int64]
    by_itself: NDArray[np.bool_]
    mixed: NDArray[np.bool_]


def following_of(tracked: TrackedCells, instances: int, in_blocks: bool) -> Following:
    """Put watched cells into groups; if values go to blocks, by what overwrites them."""
    entry, bits = np.divmod(tracked.cell, SLICE.entry_bits)
    lane, column = np.divmod(bits, BITS)
    block, within = np.divmod(lane, BLOCK_LANES)
    in_record = (within == 0) | ((within == 1) & (column < CODE_BITS))
    block = np.where(in_record & in_blocks, block, WHOLE_ENTRY)
    place = tracked.instance * ENTRIES + entry
    order = np.lexsort((bits, block, place))
    kind = (place * (WHOLE_ENTRY + 1) + block)[order]
    begins = np.flatnonzero(np.diff(kind, prepend=-1))
    rank = np.arange(len(kind)) - np.repeat(begins, np.diff(np.append(begins, len(kind))))
    group = np.cumsum(rank % TOGETHER == 0) - 1
    groups = int(group[-1]) + 1 if len(group) else 0
    opens = order[rank % TOGETHER == 0]
    shape = (groups, TOGETHER)
    of_group = Following(
        first=np.searchsorted(place[opens], np.arange(ENTRIES * instances + 1)),
        block=block[opens],
        column=np.zeros(shape, dtype=np.int64),
        lane=np.zeros(shape, dtype=np.uint64),
        place=np.zeros(shape, dtype=np.uint32),
        tracked=np.full(shape, -1, dtype=np.int64),
    )
    where = (group, rank % TOGETHER)
    of_group.column[where], of_group.lane[where] = column[order], lane[order]
    of_group.place[where] = (column * LANES + lane)[order]
    of_group.tracked[where] = order
    return of_group


@compiled
def new_progress(groups: int, instances: int, passes: int) -> Any:
    """Room for so many groups."""
    return Progress(
        np.empty((groups, TOGETHER), np.int64),
        np.empty(groups, np.int64),
        np.empty((groups, passes), np.int64),
        np.empty((groups, passes), np.int64),
        np.empty((groups, passes), np.int64),
        np.empty((groups, passes), np.uint64),
        np.empty((instances, ENTRIES * passes), np.int64),
        np.empty((instances, ENTRIES), np.bool_),
        np.empty((instances, ENTRIES), np.bool_),
    )


@inner
def start(instance: int, occupants: Any, following: Any, progress: Any) -> None:
    """Bring the cells of an instance to the start of a stretch."""
    for place in range(progress.following.shape[1]):
        progress.following[instance, place] = occupants.first[place]
    for entry in range(ENTRIES):
        progress.by_itself[instance, entry] = False
        progress.mixed[instance, entry] = False
    begin, end = instance * ENTRIES, (instance + 1) * ENTRIES
    for group in range(following.first[begin], following.first[end]):
        progress.powered[group] = 0
        for cell in range(TOGETHER):
            progress.ones[group, cell] = 0
        for one in range(progress.since.shape[1]):
            progress.since[group, one] = -1


@inner
def advance(
    residencies: Any,
    occupants: Any,
    instance: int,
    residency_end: int,
    following: Any,
    progress: Any,
) -> None:
    """Take the cells of an instance through its visits of the runs before `run_end`."""
    facts, cycle, occupant_at = residencies.facts, residencies.cycle, occupants.occupant
    block_at, gated, passes = following.block, residencies.gated, len(residencies.selector_starts)
    for entry in range(ENTRIES):
        begin = following.first[instance * ENTRIES + entry]
        end = following.first[instance * ENTRIES + entry + 1]
        if begin == end:
            continue
        for one in range(passes):
            place = entry * passes + one
            i = progress.following[instance, place]
            while i < occupants.first[place + 1] and residency_of(occupant_at[i]) < residency_end:
                residency, write, block = (
                    residency_of(occupant_at[i]),
                    begin_of(occupant_at[i]),
                    block_of(occupant_at[i]),
                )
                now, until = cycle[write], np.int64(facts[residency, END])
                writes_end, shift = np.int64(facts[residency, WRITES_END]), np.uint64(0)
                if block != WHOLE_ENTRY:
                    shift = np.uint64(block * BLOCK_LANES)
                    progress.mixed[instance, entry] = True
                    # A record powers all of its block, with what its other cells hold.
                    progress.by_itself[instance, entry] |= gated
                progress.by_itself[instance, entry] |= facts[residency, PARTIAL] != 0
                for group in range(begin, end):
                    if block != WHOLE_ENTRY and block != block_at[group]:
                        continue
                    if not gated:
                        _hold(residencies, now, following, progress, group, one)
                    _add_writes(residencies, write, writes_end, shift, following, progress, group)
                    progress.powered[group] += until - now
                    if not gated:
                        progress.since[group, one] = until
                        progress.write[group, one] = writes_end - 1
                        progress.shift[group, one] = shift
                i += 1
            progress.following[instance, place] = i


@inner
def advance_abreast(
    residencies: Any,
    kernel: int,
    instances: Any,
    homes: Any,
    following: Any,
    progress: Any,
    sums: Any,
) -> None:
    """Take the cells of instances through all passes: a run does the same wherever it lives.

    That is for released places that are off, and runs with an entry to themselves.

    Parameters
    ----------
    runs, kernel : Runs, int
        What runs.
    instances : int64[n]
        Instances that run it.
    homes : int16[n, runs, passes]
        Home of each run in each pass.
    following, progress : Following, Progress
        Cells, and how far they have come.
    sums : T[32, 64]
        Room to work.
    """
    facts, write_starts, powered = residencies.facts, residencies.write_starts, progress.powered
    first, passes = residencies.residency_starts[kernel], homes.shape[2]
    for residency in range(first, residencies.residency_starts[kernel + 1]):
        begin, end = write_starts[residency], write_starts[residency + 1]
        own = np.int64(facts[residency, END]) - residencies.cycle[begin]
        _sum_residency(residencies, residency, begin, end, own, sums)
        partial = facts[residency, PARTIAL] != 0
        for i in range(len(instances)):
            start_place = instances[i] * ENTRIES
            for one in range(passes):
                entry = homes[i, residency - first, one] >> 3
                if partial:
                    progress.by_itself[instances[i], entry] = True
                place = start_place + entry
                for group in range(following.first[place], following.first[place + 1]):
                    powered[group] += own
                    _add_sums(sums, following, progress, group)


@inner
def _sum_residency(
    residencies: Any, residency: int, begin: int, end: int, own: int, sums: Any
) -> None:
    """Cycles at '1' of all cells of an entry while a run lives there."""
    always = residencies.facts[residency, EVER] & ~(
        residencies.facts[residency, EVER] >> np.uint64(BITS)
    )
    varies = residencies.facts[residency, EVER] & (
        residencies.facts[residency, EVER] >> np.uint64(BITS)
    )
    sums[:] = 0
    for first in range(0, BITS, AT_ONCE):
        if varies >> np.uint64(first) & _FIRST_BITS:
            sum_planes(
                residencies.planes, residencies.image, residencies.duration, begin, end, first, sums
            )
        elif always >> np.uint64(first) & _FIRST_BITS:
            for bit in range(first, first + AT_ONCE):
                if always >> np.uint64(bit) & np.uint64(1):
                    add_everywhere(sums, bit, own)


@inner
def _add_sums(sums: Any, following: Any, progress: Any, group: int) -> None:
    places, ones, row = following.place, progress.ones, np.uint32(group)
    for cell in range(TOGETHER):
        at = places[row, np.uint32(cell)]
        ones[row, np.uint32(cell)] += np.int64(sums[at // np.uint32(LANES), at % np.uint32(LANES)])


@inner
def finish(
    residencies: Any,
    kernel: int,
    occupants: Any,
    scale: float,
    instance: int,
    following: Any,
    progress: Any,
    events: Any,
    tracked_seconds: Any,
) -> None:
    """Add the stretch that the cells of an instance have come through.

    Parameters
    ----------
    runs, kernel, visits : Runs, int, Visits
        A redirected replay.
    scale : float
        Seconds that a cycle stands for.
    instance, following : int, Following
        The instance, and cells.
    progress, events : Progress, Events
        Times of cells; room to work.
    watched_seconds : float64[2, watched]
        Seconds at '0' and '1', added to.
    """
    for entry in range(ENTRIES):
        begin = following.first[instance * ENTRIES + entry]
        end = following.first[instance * ENTRIES + entry + 1]
        if progress.by_itself[instance, entry]:
            mixed = progress.mixed[instance, entry]
            _work_out(
                residencies,
                kernel,
                occupants,
                scale,
                entry,
                mixed,
                begin,
                end,
                following,
                events,
                tracked_seconds,
            )
            continue
        for group in range(begin, end):
            if not residencies.gated:
                _come_round(residencies, kernel, following, progress, group)
            for cell in range(TOGETHER):
                tracked, ones = following.tracked[group, cell], progress.ones[group, cell]
                if tracked >= 0:
                    zeros = progress.powered[group] - ones
                    tracked_seconds[0, tracked] += zeros * scale
                    tracked_seconds[1, tracked] += ones * scale


@inner
def _add_writes(
    residencies: Any,
    begin: Any,
    end: Any,
    shift: np.uint64,
    following: Any,
    progress: Any,
    group: int,
) -> None:
    """Add what some writes hold for as long as their values count."""
    sum_cells(
        residencies.planes,
        residencies.image,
        residencies.duration,
        begin,
        end,
        shift,
        following.column,
        following.lane,
        progress.ones,
        group,
    )


@inner
def _hold(residencies: Any, now: int, following: Any, progress: Any, group: int, one: int) -> None:
    """What the latest visit has left stays until now; before the first visit, nothing is known."""
    if progress.since[group, one] < 0:
        progress.first[group, one] = now
        return
    cycles = now - progress.since[group, one]
    if cycles:
        progress.powered[group] += cycles
        row, shift = residencies.image[progress.write[group, one]], progress.shift[group, one]
        for cell in range(TOGETHER):
            word = residencies.planes[row, following.column[group, cell]] << shift
            lit = word >> following.lane[group, cell] & np.uint64(1)
            progress.ones[group, cell] += cycles * np.int64(lit)


@inner
def _come_round(residencies: Any, kernel: int, following: Any, progress: Any, group: int) -> None:
    """What a cell holds at the end of a pass, it holds until its first visit in the next."""
    for one in range(len(residencies.selector_starts)):
        if progress.since[group, one] >= 0:
            until = progress.first[group, one] + residencies.cycles[kernel]
            _hold(residencies, until, following, progress, group, one)


@inner
def _work_out(
    residencies: Any,
    kernel: int,
    occupants: Any,
    scale: float,
    entry: int,
    mixed: bool,
    begin: int,
    end: int,
    following: Any,
    events: Any,
    tracked_seconds: Any,
) -> None:
    """Times of the cells of an entry of which it matters what was there before a visit."""
    gathered = -1
    for group in range(begin, end):
        for cell in range(TOGETHER):
            tracked = following.tracked[group, cell]
            if tracked < 0:
                continue
            bit, lane = following.column[group, cell], int(following.lane[group, cell])
            block = lane // BLOCK_LANES if mixed else WHOLE_ENTRY
            if block != gathered:
                gather_events(residencies, kernel, occupants, entry, block, events)
                gathered = block
            lit_lanes(residencies, events, bit, block)
            count = events.orbits[len(residencies.selector_starts)]
            ones = _sum_lane(events.lit, events.held, count, lane)
            powered = _sum_lane(events.powered, events.held, count, lane)
            tracked_seconds[0, tracked] += (powered - ones) * scale
            tracked_seconds[1, tracked] += ones * scale


@inner
def _sum_lane(words: Any, held: Any, count: int, lane: int) -> np.int64:
    """Cycles for which a lane is in the words."""
    shift, one = np.uint64(lane), np.uint64(1)
    total = np.int64(0)
    for i in range(count):
        total += np.int64(held[i]) * np.int64(words[i] >> shift & one)
    return total
