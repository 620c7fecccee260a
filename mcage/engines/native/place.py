"""The selectors of redirection as an event machine: a home for every run of a pass.

Toca-Diaz et al. (RRCD), section IV. Sets of entries are kept as 256-bit maps, so that a priority
encoder is a search for the lowest set bit. The passes of a replay do the same operations, each in a
state of its own, and are taken side by side: a machine has work while it waits for one of them.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.native.compile import compiled, inner
from mcage.engines.native.runs import ACQUIRE_BLOCK, ADVANCE, FREE
from mcage.engines.native.vectors import lowest_bit
from mcage.geometry import SLICE

ENTRIES = SLICE.entries
WHOLE_ENTRY = SLICE.blocks
"""A home is entry x 8 + block, or entry x 8 + 4 for the whole entry."""

COUNTERS = 8
_REGULAR, _TO_RELIABLE, _TO_FAULTY, LDS, _LDS_READS, _PEAK, _ROW_CYCLES, _WAKEUPS = range(COUNTERS)
_SPILLED = -1
_SOUND_BLOCKS, _PART_FILLED, _EMPTY_RELIABLE = range(3)
"""Sets of entries: faulty ones with a sound block that is free; reliable ones of which some block
is free and some is not; reliable ones that are free."""
_WORDS = ENTRIES // 64
_ALL_64 = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ONE = np.uint64(1)
_ALL_BLOCKS = 0b1111


class Homes(NamedTuple):
    """Homes of the runs of one kernel, and room to work; arrays [passes, ...].

    Attributes
    ----------
    home : int16[passes, runs]
        Home of each run, negative if it never found one.
    found, entry : int64[passes, runs], uint8[passes, runs]
        Visits (`packed`) of the runs that found a home, in the order in which they did, and where.
    founds : int64[passes]
        How many they are.
    in_entry : int64[256 * passes + 1]
        How many of them lived in an entry, at ``[passes * entry + pass]``.
    sets, free : uint64[passes, 3, 4], uint8[passes, 256]
        Sets of entries, and free sound blocks of entries.
    position, spilled, since, peak : int64[passes]
        Entry at which the selectors start; rows spilled, since when, and at most.
    """

    home: NDArray[np.int16]
    found: NDArray[np.int64]
    entry: NDArray[np.uint8]
    founds: NDArray[np.int64]
    in_entry: NDArray[np.int64]
    sets: NDArray[np.uint64]
    free: NDArray[np.uint8]
    position: NDArray[np.int64]
    spilled: NDArray[np.int64]
    since: NDArray[np.int64]
    peak: NDArray[np.int64]
    events: NDArray[np.int64]


@compiled
def new_homes(passes: int, runs: int) -> Any:
    """Room for the homes of up to so many runs."""
    return Homes(
        np.empty((passes, runs), np.int16),
        np.empty((passes, runs), np.int64),
        np.empty((passes, runs), np.uint8),
        np.empty(passes, np.int64),
        np.empty(ENTRIES * passes + 1, np.int64),
        np.empty((passes, 3, _WORDS), np.uint64),
        np.empty((passes, ENTRIES), np.uint8),
        np.empty(passes, np.int64),
        np.empty(passes, np.int64),
        np.empty(passes, np.int64),
        np.empty(passes, np.int64),
        np.empty(COUNTERS, np.int64),
    )


@inner
def place(runs: Any, kernel: int, fault_map: Any, homes: Any, counters: Any) -> None:
    """Place the runs of a kernel in every pass, and add up what happens.

    Parameters
    ----------
    runs : Runs
        A redirecting technique.
    kernel : int
        Number of the kernel.
    fault_map : uint8[256]
        Fault map.
    homes : Homes
        Where the outcome goes.
    counters : int64[8]
        Counters of the instance, added to; of the peak the largest is kept.
    """
    _start(runs, fault_map, homes)
    home, found, entry, founds = homes.home, homes.found, homes.entry, homes.founds
    in_entry, sets, free, position = homes.in_entry, homes.sets, homes.free, homes.position
    spilled, since, peak = homes.spilled, homes.since, homes.peak
    passes = len(founds)
    first_run = runs.run_starts[kernel]
    kinds, run_of_operation, run_of_write = runs.kind, runs.run, runs.run_of
    cycle, run_end, write_starts = runs.cycle, runs.run_end, runs.write_starts
    reads_after, wakes, mask = runs.reads_after, runs.wakes, runs.mask
    retry_starts, retries = runs.retry_starts, runs.retries
    rotating, in_blocks = runs.rotating, runs.in_blocks
    spilled_anywhere = 0
    events = homes.events
    for i in range(runs.operation_starts[kernel], runs.operation_starts[kernel + 1]):
        kind, run = kinds[i], run_of_operation[i]
        mine = run - first_run
        if kind == ADVANCE:
            if rotating:
                for one in range(passes):
                    position[one] = (position[one] + 1) & (ENTRIES - 1)
        elif kind == FREE:
            for one in range(passes):
                old = home[one, mine]
                if old >= 0:
                    _release(sets, free, one, old, fault_map)
                else:
                    _spill(spilled, since, peak, events, one, -1, run_end[run])
                    spilled_anywhere -= 1
        else:
            write = write_starts[run]
            for one in range(passes):
                start = position[one]
                new = _choose(sets, free, one, start, kind == ACQUIRE_BLOCK, fault_map)
                home[one, mine] = new
                if new >= 0:
                    _move_in(
                        found, entry, founds, in_entry, events, one, run, write, new, fault_map
                    )
                    events[_WAKEUPS] += wakes[run]
                else:
                    events[LDS] += 1
                    events[_LDS_READS] += reads_after[write]
                    _spill(spilled, since, peak, events, one, 1, cycle[write])
                    spilled_anywhere += 1
        if spilled_anywhere:
            for retry in range(retry_starts[i], retry_starts[i + 1]):
                write = retries[retry]
                run = run_of_write[write]
                mine = run - first_run
                in_block = in_blocks and mask[write] == 1
                for one in range(passes):
                    if home[one, mine] >= 0:
                        continue
                    new = _choose(sets, free, one, position[one], in_block, fault_map)
                    if new >= 0:
                        home[one, mine] = new
                        _move_in(
                            found, entry, founds, in_entry, events, one, run, write, new, fault_map
                        )
                        _spill(spilled, since, peak, events, one, -1, cycle[write])
                        spilled_anywhere -= 1
                    else:
                        events[LDS] += 1
                        events[_LDS_READS] += reads_after[write]
    redirected = events[_TO_RELIABLE] + events[_TO_FAULTY] + events[LDS]
    events[_REGULAR] = passes * runs.writes[kernel] - redirected
    at_most = counters[_PEAK]
    for one in range(passes):
        at_most = max(at_most, peak[one])
    for which in range(COUNTERS):
        counters[which] += events[which]
    counters[_PEAK] = at_most


@inner
def _start(runs: Any, fault_map: Any, homes: Any) -> None:
    """Every entry is empty."""
    homes.sets[:] = 0
    homes.in_entry[:] = 0
    homes.founds[:] = 0
    homes.spilled[:] = 0
    homes.since[:] = 0
    homes.peak[:] = 0
    homes.events[:] = 0
    for one in range(len(homes.founds)):
        homes.position[one] = runs.selector_starts[one]
        for entry in range(ENTRIES):
            usable = ~fault_map[entry] & _ALL_BLOCKS
            homes.free[one, entry] = usable
            if fault_map[entry] == 0:
                _include(homes.sets, one, _EMPTY_RELIABLE, entry, True)
            elif usable:
                _include(homes.sets, one, _SOUND_BLOCKS, entry, True)


@inner
def _include(sets: Any, one: int, which: int, entry: int, member: bool) -> None:
    bit = _ONE << np.uint64(entry & 63)
    if member:
        sets[one, which, entry >> 6] |= bit
    else:
        sets[one, which, entry >> 6] &= ~bit


@inner
def _first(sets: Any, one: int, which: int, start: int) -> int:
    """First member of a set of entries at or after `start`, wrapping; -1 if it is empty."""
    word = start >> 6
    found = sets[one, which, word] & (_ALL_64 << np.uint64(start & 63))
    if found:
        return (word << 6) + lowest_bit(found)
    for _ in range(_WORDS):
        word = (word + 1) & (_WORDS - 1)
        found = sets[one, which, word]
        if found:
            return (word << 6) + lowest_bit(found)
    return -1


@inner
def _choose(sets: Any, free: Any, one: int, start: int, in_block: bool, fault_map: Any) -> int:
    """Take a home."""
    if not in_block:
        entry = _first(sets, one, _EMPTY_RELIABLE, start)
        if entry < 0:
            return _SPILLED
        free[one, entry] = 0
        _include(sets, one, _EMPTY_RELIABLE, entry, False)
        return entry * 8 + WHOLE_ENTRY
    entry = _first(sets, one, _SOUND_BLOCKS, start)
    if entry < 0:
        entry = _first(sets, one, _PART_FILLED, start)
    if entry < 0:
        entry = _first(sets, one, _EMPTY_RELIABLE, start)
    if entry < 0:
        return _SPILLED
    block = lowest_bit(np.uint64(free[one, entry]))
    left = free[one, entry] & ~(1 << block)
    free[one, entry] = left
    if fault_map[entry]:
        _include(sets, one, _SOUND_BLOCKS, entry, left != 0)
    else:
        _include(sets, one, _EMPTY_RELIABLE, entry, False)
        _include(sets, one, _PART_FILLED, entry, left != 0)
    return entry * 8 + block


@inner
def _release(sets: Any, free: Any, one: int, home: int, fault_map: Any) -> None:
    """Give back a home."""
    entry, block = home >> 3, home & 7
    if block == WHOLE_ENTRY:
        free[one, entry] = _ALL_BLOCKS
        _include(sets, one, _EMPTY_RELIABLE, entry, True)
        return
    left = free[one, entry] | (1 << block)
    free[one, entry] = left
    if fault_map[entry]:
        _include(sets, one, _SOUND_BLOCKS, entry, True)
    else:
        _include(sets, one, _EMPTY_RELIABLE, entry, left == _ALL_BLOCKS)
        _include(sets, one, _PART_FILLED, entry, left != _ALL_BLOCKS)


@inner
def _move_in(
    found: Any,
    entry_at: Any,
    founds: Any,
    in_entry: Any,
    events: Any,
    one: int,
    run: int,
    write: int,
    home: int,
    fault_map: Any,
) -> None:
    entry = home >> 3
    found[one, founds[one]] = packed(run, write, home & 7)
    entry_at[one, founds[one]] = entry
    founds[one] += 1
    in_entry[entry * len(founds) + one] += 1
    events[_TO_FAULTY if fault_map[entry] else _TO_RELIABLE] += 1


@inner
def packed(run: int, begin: int, block: int) -> int:
    """A visit as one number: run, write from which on it lives there, block (4: whole entry)."""
    return begin << 32 | run << 3 | block


@inner
def run_of(visit: int) -> int:
    """Run of a visit."""
    return visit >> 3 & 0x1FFF_FFFF


@inner
def begin_of(visit: int) -> int:
    """First write of a visit."""
    return visit >> 32


@inner
def block_of(visit: int) -> int:
    """Block of a visit, or 4 for the whole entry."""
    return visit & 7


@inner
def _spill(spilled: Any, since: Any, peak: Any, events: Any, one: int, more: int, now: int) -> None:
    """One row more, or one less, lives in the LDS."""
    events[_ROW_CYCLES] += spilled[one] * (now - since[one])
    since[one] = now
    spilled[one] += more
    peak[one] = max(peak[one], spilled[one])


@compiled
def count(runs: Any, fault_maps: Any, counters: Any) -> None:
    """Events of every instance on the first kernel: uint8[n, 256], int64[n, 8]."""
    homes = new_homes(len(runs.selector_starts), runs.run_starts[1])
    for instance in range(len(fault_maps)):
        place(runs, 0, fault_maps[instance], homes, counters[instance])
