"""Times of single cells: those that are watched, one visit after the other."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.native.compile import compiled, inner
from mcage.engines.native.place import ENTRIES, LDS, WHOLE_ENTRY, begin_of, block_of, run_of
from mcage.engines.native.prefetch import prefetch_row
from mcage.engines.native.runs import BITS, CODE_BITS, END, EVER, PARTIAL, WRITES_END
from mcage.engines.native.walk import BLOCK_LANES, gather_events, lit_lanes


class Following(NamedTuple):
    """Cells to be followed, by instance, entry and cell.

    Attributes
    ----------
    first : int64[256 * instances + 1]
        The first of each instance and entry.
    cell, watched : int64[n]
        Cell of the entry, 0 ... 2047, and its number among those watched.
    """

    first: NDArray[np.int64]
    cell: NDArray[np.int64]
    watched: NDArray[np.int64]


class Progress(NamedTuple):
    """How far the cells of an instance have come; arrays [cells], numbered from its first.

    Attributes
    ----------
    ones, powered : int64
        Cycles at '1' and powered.
    since, first : int64
        In the pass at hand: end of the latest visit, -1 before; start of the first one.
    bit : int64
        Bit that the cell holds since then.
    by_itself : bool[256]
        Entries that write some lanes only: their cells must be worked out from all events.
    mixed : bool[256]
        Entries of which some blocks hold records.
    of_entry : int64[256]
        Cycles for which each entry is powered.
    pending : int64
        Cells that a run's writes make a difference to.
    """

    ones: NDArray[np.int64]
    powered: NDArray[np.int64]
    since: NDArray[np.int64]
    first: NDArray[np.int64]
    bit: NDArray[np.int64]
    by_itself: NDArray[np.bool_]
    mixed: NDArray[np.bool_]
    of_entry: NDArray[np.int64]
    pending: NDArray[np.int64]


@compiled
def new_progress(cells: int) -> Any:
    """Room for so many cells."""
    return Progress(
        np.empty(cells, np.int64),
        np.empty(cells, np.int64),
        np.empty(cells, np.int64),
        np.empty(cells, np.int64),
        np.empty(cells, np.int64),
        np.empty(ENTRIES, np.bool_),
        np.empty(ENTRIES, np.bool_),
        np.empty(ENTRIES, np.int64),
        np.empty(cells + 1, np.int64),
    )


@inner
def follow(
    runs: Any,
    kernel: int,
    homes: Any,
    visits: Any,
    scale: float,
    following: Any,
    place: int,
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
    following, place : Following, int
        Cells, and 256 times their instance.
    progress, events : Progress, Events
        Room to work.
    watched_seconds : float64[2, watched]
        Seconds at '0' and '1', added to.
    """
    start, end = following.first[place], following.first[place + ENTRIES]
    progress.ones[: end - start] = 0
    progress.powered[: end - start] = 0
    if runs.gated and not runs.in_blocks and homes.events[LDS] == 0:
        _follow_runs(runs, kernel, homes, following, place, progress)
    else:
        _follow_visits(runs, kernel, homes, following, place, progress)
    _work_out_the_rest(runs, kernel, visits, following, place, progress, events)
    for i in range(start, end):
        ones, powered = progress.ones[i - start], progress.powered[i - start]
        watched_seconds[0, following.watched[i]] += (powered - ones) * scale
        watched_seconds[1, following.watched[i]] += ones * scale


@inner
def _follow_runs(
    runs: Any, kernel: int, homes: Any, following: Any, place: int, progress: Any
) -> None:
    """Take the cells through all passes, run by run: each does the same wherever it lives."""
    facts, cycle, write_starts = runs.facts, runs.cycle, runs.write_starts
    image, duration, planes = runs.image, runs.duration, runs.planes
    home, first_cell, cell_at = homes.home, following.first, following.cell
    ones, powered, pending = progress.ones, progress.of_entry, progress.pending
    base, first_run = first_cell[place], runs.run_starts[kernel]
    passes = len(homes.founds)
    member = np.uint64(1)
    powered[:] = 0
    progress.by_itself[:] = False
    progress.mixed[:] = False
    for run in range(first_run, runs.run_starts[kernel + 1]):
        begin, end = write_starts[run], write_starts[run + 1]
        own = np.int64(facts[run, END]) - cycle[begin]
        is_one = facts[run, EVER]
        is_zero = is_one >> np.uint64(BITS)
        for ahead in range(end, min(end + 8, len(image))):
            prefetch_row(planes, image[ahead])
        # No branch depends on a cell: half of them would go the other way than expected.
        varying = np.int64(0)
        for one in range(passes):
            entry = home[one, run - first_run] >> 3
            powered[entry] += own
            progress.by_itself[entry] |= facts[run, PARTIAL] != 0
            for i in range(first_cell[place + entry], first_cell[place + entry + 1]):
                bit = np.uint64(cell_at[i] % BITS)
                pending[varying] = i
                varying += np.int64((is_one & is_zero) >> bit & member)
                ones[i - base] += own * np.int64((is_one & ~is_zero) >> bit & member)
        for j in range(varying):
            i = pending[j]
            column, lane = cell_at[i] % BITS, np.uint64(cell_at[i] // BITS)
            total = np.int64(0)
            for write in range(begin, end):
                lit = planes[image[write], column] >> lane & member
                total += np.int64(duration[write]) * np.int64(lit)
            ones[i - base] += total
    for entry in range(ENTRIES):
        for i in range(first_cell[place + entry], first_cell[place + entry + 1]):
            progress.powered[i - base] = powered[entry]


@inner
def _follow_visits(
    runs: Any, kernel: int, homes: Any, following: Any, place: int, progress: Any
) -> None:
    """Take the cells through one pass after the other, visit by visit."""
    cells = following.first[place + ENTRIES] - following.first[place]
    _look_at_entries(runs, homes, progress)
    for one in range(len(homes.founds)):
        progress.since[:cells] = -1
        _visit(runs, homes, one, following, place, progress)
        if not runs.gated:
            _come_round(runs.cycles[kernel], cells, progress)


@inner
def _look_at_entries(runs: Any, homes: Any, progress: Any) -> None:
    """Find out which entries hold records, and which are written in part."""
    by_itself, mixed, facts = progress.by_itself, progress.mixed, runs.facts
    found, entry = homes.found, homes.entry
    by_itself[:] = False
    mixed[:] = False
    for one in range(len(homes.founds)):
        for i in range(homes.founds[one]):
            mixed[entry[one, i]] |= block_of(found[one, i]) != WHOLE_ENTRY
            by_itself[entry[one, i]] |= facts[run_of(found[one, i]), PARTIAL] != 0


@inner
def _visit(runs: Any, homes: Any, one: int, following: Any, place: int, progress: Any) -> None:
    """Take the cells through the visits of a pass."""
    found, entry_at = homes.found, homes.entry
    facts, cycle, duration, image = runs.facts, runs.cycle, runs.duration, runs.image
    planes, gated = runs.planes, runs.gated
    first_cell, cell_at = following.first, following.cell
    ones, powered, since, first = progress.ones, progress.powered, progress.since, progress.first
    bit_held, member = progress.bit, np.uint64(1)
    base = first_cell[place]
    for k in range(homes.founds[one]):
        visit, entry = found[one, k], entry_at[one, k]
        run, begin, block = run_of(visit), begin_of(visit), block_of(visit)
        ever = facts[run, EVER]
        start, end = cycle[begin], np.int64(facts[run, END])
        writes_end = np.int64(facts[run, WRITES_END])
        for i in range(first_cell[place + entry], first_cell[place + entry + 1]):
            bit, lane = cell_at[i] % BITS, cell_at[i] // BITS
            if block != WHOLE_ENTRY:
                lane -= block * BLOCK_LANES
                if not _in_record(bit, lane):
                    continue
            mine = i - base
            if not gated:
                if since[mine] < 0:
                    first[mine] = start
                else:
                    ones[mine] += bit_held[mine] * (start - since[mine])
            if gated:
                powered[mine] += end - start
            if ever >> np.uint64(bit) & member:
                if not ever >> np.uint64(BITS + bit) & member:
                    ones[mine] += end - start
                else:
                    total = np.int64(0)
                    for write in range(begin, writes_end):
                        word = planes[image[write], bit] >> np.uint64(lane) & member
                        total += np.int64(duration[write]) * np.int64(word)
                    ones[mine] += total
            if not gated:
                since[mine] = end
                held = planes[image[writes_end - 1], bit] >> np.uint64(lane) & member
                bit_held[mine] = np.int64(held)


@inner
def _in_record(bit: int, lane: int) -> bool:
    """Whether a record overwrites a cell, its lane counted from the start of the block."""
    return lane == 0 or (lane == 1 and bit < CODE_BITS)


@inner
def _come_round(cycles: int, cells: int, progress: Any) -> None:
    """What a cell holds at the end of a pass, it holds until its first visit in the next."""
    ones, powered, since, first = progress.ones, progress.powered, progress.since, progress.first
    for mine in range(cells):
        if since[mine] >= 0:
            ones[mine] += progress.bit[mine] * (first[mine] + cycles - since[mine])
            powered[mine] += cycles


@inner
def _work_out_the_rest(
    runs: Any, kernel: int, visits: Any, following: Any, place: int, progress: Any, events: Any
) -> None:
    """Cells for which it matters what was there before."""
    passes = len(runs.selector_starts)
    base = following.first[place]
    for entry in range(ENTRIES):
        mixed = progress.mixed[entry]
        if not progress.by_itself[entry] and not (mixed and runs.gated):
            continue
        gathered = -1
        for i in range(following.first[place + entry], following.first[place + entry + 1]):
            bit, lane = following.cell[i] % BITS, following.cell[i] // BITS
            block = lane // BLOCK_LANES if mixed else WHOLE_ENTRY
            if block != gathered:
                gather_events(runs, kernel, visits, entry, block, events)
                gathered = block
            lit_lanes(runs, events, bit, block)
            count = events.worlds[passes]
            progress.ones[i - base] = _sum_lane(events.lit, events.held, count, lane)
            progress.powered[i - base] = _sum_lane(events.powered, events.held, count, lane)


@inner
def _sum_lane(words: Any, held: Any, count: int, lane: int) -> np.int64:
    """Cycles for which a lane is in the words."""
    shift, one = np.uint64(lane), np.uint64(1)
    total = np.int64(0)
    for i in range(count):
        total += np.int64(held[i]) * np.int64(words[i] >> shift & one)
    return total
