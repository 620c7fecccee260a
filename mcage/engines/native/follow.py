"""Times of single cells: those that are watched, eight of an entry together."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.exposure import Watched
from mcage.engines.native.compile import compiled, inner
from mcage.engines.native.place import ENTRIES, LDS, WHOLE_ENTRY, begin_of, block_of, run_of
from mcage.engines.native.runs import BITS, CODE_BITS, END, PARTIAL, WRITES_END
from mcage.engines.native.vectors import TOGETHER, sum_cells
from mcage.engines.native.walk import BLOCK_LANES, gather_events, lit_lanes
from mcage.geometry import SLICE


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
    watched : int64[groups, 8]
        Number of the cell among those watched, or -1 for a place that is not taken.
    """

    first: NDArray[np.int64]
    block: NDArray[np.int64]
    column: NDArray[np.int64]
    lane: NDArray[np.uint64]
    watched: NDArray[np.int64]


class Progress(NamedTuple):
    """How far the groups of an instance have come; arrays [groups, ...], from its first.

    Attributes
    ----------
    ones : int64[groups, 8]
        Cycles at '1' of the cells.
    powered : int64
        Cycles powered.
    since, first : int64
        In the pass at hand: end of the latest visit, -1 before; start of the first one.
    write, shift : int64, uint64
        What the cells hold since then, and how many lanes further on than in its plane.
    by_itself, mixed : bool[256]
        Entries of whose cells it matters what they held before a visit; of which blocks hold
        records.
    """

    ones: NDArray[np.int64]
    powered: NDArray[np.int64]
    since: NDArray[np.int64]
    first: NDArray[np.int64]
    write: NDArray[np.int64]
    shift: NDArray[np.uint64]
    by_itself: NDArray[np.bool_]
    mixed: NDArray[np.bool_]


def following_of(watched: Watched, instances: int, in_blocks: bool) -> Following:
    """Put watched cells into groups; if values go to blocks, by what overwrites them."""
    entry, bits = np.divmod(watched.cell, SLICE.entry_bits)
    lane, column = np.divmod(bits, BITS)
    block, within = np.divmod(lane, BLOCK_LANES)
    in_record = (within == 0) | ((within == 1) & (column < CODE_BITS))
    block = np.where(in_record & in_blocks, block, WHOLE_ENTRY)
    place = watched.instance * ENTRIES + entry
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
        watched=np.full(shape, -1, dtype=np.int64),
    )
    where = (group, rank % TOGETHER)
    of_group.column[where], of_group.lane[where] = column[order], lane[order]
    of_group.watched[where] = order
    return of_group


@compiled
def new_progress(groups: int) -> Any:
    """Room for so many groups."""
    return Progress(
        np.empty((groups, TOGETHER), np.int64),
        np.empty(groups, np.int64),
        np.empty(groups, np.int64),
        np.empty(groups, np.int64),
        np.empty(groups, np.int64),
        np.empty(groups, np.uint64),
        np.empty(ENTRIES, np.bool_),
        np.empty(ENTRIES, np.bool_),
    )


@compiled
def follow(
    runs: Any,
    kernel: int,
    homes: Any,
    visits: Any,
    scale: float,
    following: Any,
    instance: int,
    progress: Any,
    events: Any,
    watched_seconds: Any,
) -> None:
    """Bring the watched cells of an instance up to date.

    Parameters
    ----------
    runs, kernel, homes, visits : Runs, int, Homes, Visits
        A redirected replay.
    scale : float
        Seconds that a cycle stands for.
    following, instance : Following, int
        Cells, and the instance.
    progress, events : Progress, Events
        Room to work.
    watched_seconds : float64[2, watched]
        Seconds at '0' and '1', added to.
    """
    start, end = following.first[instance * ENTRIES], following.first[(instance + 1) * ENTRIES]
    mine = Following(
        following.first[instance * ENTRIES : (instance + 1) * ENTRIES + 1],
        following.block[start:end],
        following.column[start:end],
        following.lane[start:end],
        following.watched[start:end],
    )
    progress.ones[: end - start] = 0
    progress.powered[: end - start] = 0
    progress.by_itself[:] = False
    progress.mixed[:] = False
    if runs.gated and not runs.in_blocks and homes.events[LDS] == 0:
        _follow_runs(runs, kernel, homes, mine, progress)
    else:
        _follow_visits(runs, kernel, homes, mine, progress)
    _add_seconds(mine, scale, progress, watched_seconds)
    _work_out_the_rest(runs, kernel, visits, scale, mine, progress, events, watched_seconds)


@inner
def _follow_runs(runs: Any, kernel: int, homes: Any, following: Any, progress: Any) -> None:
    """Take the groups through all passes, run by run: each does the same wherever it lives."""
    facts, cycle, write_starts = runs.facts, runs.cycle, runs.write_starts
    home, first, no_shift = homes.home, following.first, np.uint64(0)
    first_run = int(runs.run_starts[kernel])
    for run in range(first_run, runs.run_starts[kernel + 1]):
        begin, end = write_starts[run], write_starts[run + 1]
        own = np.int64(facts[run, END]) - cycle[begin]
        for one in range(len(homes.founds)):
            entry = home[one, run - first_run] >> 3
            progress.by_itself[entry] |= facts[run, PARTIAL] != 0
            for group in range(first[entry] - first[0], first[entry + 1] - first[0]):
                _add_writes(runs, begin, end, no_shift, following, progress, group)
                progress.powered[group] += own


@inner
def _add_writes(
    runs: Any, begin: Any, end: Any, shift: np.uint64, following: Any, progress: Any, group: int
) -> None:
    """Add what some writes hold for as long as their values count."""
    sum_cells(
        runs.planes,
        runs.image,
        runs.duration,
        begin,
        end,
        shift,
        following.column,
        following.lane,
        progress.ones,
        group,
    )


@inner
def _follow_visits(runs: Any, kernel: int, homes: Any, following: Any, progress: Any) -> None:
    """Take the groups through one pass after the other, visit by visit."""
    found, entry_at, facts, cycle = homes.found, homes.entry, runs.facts, runs.cycle
    first, block_at, gated = following.first, following.block, runs.gated
    for one in range(len(homes.founds)):
        progress.since[: len(block_at)] = -1
        for i in range(homes.founds[one]):
            visit, entry = found[one, i], entry_at[one, i]
            run, begin, block = run_of(visit), begin_of(visit), block_of(visit)
            start, end = cycle[begin], np.int64(facts[run, END])
            writes_end, shift = np.int64(facts[run, WRITES_END]), np.uint64(0)
            if block != WHOLE_ENTRY:
                shift = np.uint64(block * BLOCK_LANES)
                progress.mixed[entry] = True
                # A record powers all of its block, with what its other cells hold.
                progress.by_itself[entry] |= gated
            progress.by_itself[entry] |= facts[run, PARTIAL] != 0
            for group in range(first[entry] - first[0], first[entry + 1] - first[0]):
                if block != WHOLE_ENTRY and block != block_at[group]:
                    continue
                if not gated:
                    _hold(runs, start, following, progress, group)
                _add_writes(runs, begin, writes_end, shift, following, progress, group)
                progress.powered[group] += end - start
                progress.since[group] = end
                progress.write[group] = writes_end - 1
                progress.shift[group] = shift
        if not gated:
            _come_round(runs, kernel, following, progress)


@inner
def _hold(runs: Any, now: int, following: Any, progress: Any, group: int) -> None:
    """What the latest visit has left stays until now; before the first visit, nothing is known."""
    if progress.since[group] < 0:
        progress.first[group] = now
        return
    cycles = now - progress.since[group]
    if cycles:
        progress.powered[group] += cycles
        row = runs.image[progress.write[group]]
        shift = progress.shift[group]
        for cell in range(TOGETHER):
            word = runs.planes[row, following.column[group, cell]] << shift
            lit = word >> following.lane[group, cell] & np.uint64(1)
            progress.ones[group, cell] += cycles * np.int64(lit)


@inner
def _come_round(runs: Any, kernel: int, following: Any, progress: Any) -> None:
    """What a cell holds at the end of a pass, it holds until its first visit in the next."""
    for group in range(len(following.block)):
        if progress.since[group] >= 0:
            until = progress.first[group] + runs.cycles[kernel]
            _hold(runs, until, following, progress, group)


@inner
def _add_seconds(following: Any, scale: float, progress: Any, watched_seconds: Any) -> None:
    for entry in range(ENTRIES):
        if progress.by_itself[entry]:
            continue
        begin = following.first[entry] - following.first[0]
        for group in range(begin, begin + following.first[entry + 1] - following.first[entry]):
            for cell in range(TOGETHER):
                watched, ones = following.watched[group, cell], progress.ones[group, cell]
                if watched >= 0:
                    zeros = progress.powered[group] - ones
                    watched_seconds[0, watched] += zeros * scale
                    watched_seconds[1, watched] += ones * scale


@inner
def _work_out_the_rest(
    runs: Any,
    kernel: int,
    visits: Any,
    scale: float,
    following: Any,
    progress: Any,
    events: Any,
    watched_seconds: Any,
) -> None:
    """Cells for which it matters what was there before a visit."""
    count_at = len(runs.selector_starts)
    for entry in range(ENTRIES):
        if not progress.by_itself[entry]:
            continue
        gathered = -1
        begin = following.first[entry] - following.first[0]
        for group in range(begin, begin + following.first[entry + 1] - following.first[entry]):
            for cell in range(TOGETHER):
                watched = following.watched[group, cell]
                if watched < 0:
                    continue
                bit, lane = following.column[group, cell], int(following.lane[group, cell])
                block = lane // BLOCK_LANES if progress.mixed[entry] else WHOLE_ENTRY
                if block != gathered:
                    gather_events(runs, kernel, visits, entry, block, events)
                    gathered = block
                lit_lanes(runs, events, bit, block)
                count = events.worlds[count_at]
                ones = _sum_lane(events.lit, events.held, count, lane)
                powered = _sum_lane(events.powered, events.held, count, lane)
                watched_seconds[0, watched] += (powered - ones) * scale
                watched_seconds[1, watched] += ones * scale


@inner
def _sum_lane(words: Any, held: Any, count: int, lane: int) -> np.int64:
    """Cycles for which a lane is in the words."""
    shift, one = np.uint64(lane), np.uint64(1)
    total = np.int64(0)
    for i in range(count):
        total += np.int64(held[i]) * np.int64(words[i] >> shift & one)
    return total
