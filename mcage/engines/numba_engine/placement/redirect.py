"""The selectors of redirection as an event machine: a home for every run of a pass.

Toca-Diaz et al. (RRCD), section IV. Sets of entries are kept as 256-bit maps, so that a priority
encoder is a search for the lowest set bit. The passes of a replay do the same operations, each in a
state of its own, and are taken side by side: a machine has work while it waits for one of them.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import compiled, inlined, inner
from mcage.engines.numba_engine.placement.residencies import (
    ACQUIRE_BLOCK,
    ADVANCE,
    FREE,
    KINDS,
    RECORD,
)
from mcage.engines.numba_engine.simd import lowest_bit
from mcage.geometry import SLICE

ENTRIES = SLICE.entries
WHOLE_ENTRY = SLICE.blocks
"""A home is entry x 8 + block, or entry x 8 + 4 for the whole entry."""

COUNTERS = 8
REGULAR, TO_RELIABLE, _TO_FAULTY, LDS, LDS_READS, _PEAK, _ROW_CYCLES, _WAKEUPS = range(COUNTERS)
SPILLED = -1
_SETS = 3
_SOUND_BLOCKS, _PART_FILLED, EMPTY_RELIABLE = range(_SETS)
"""Sets of entries: faulty ones with a sound block that is free; reliable ones of which some block
is free and some is not; reliable ones that are free."""
_WORDS = ENTRIES // 64
_ALL_64 = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ALL_BLOCKS = 0b1111
_RELIABLE = 0b10000
_EMPTY = _RELIABLE | _ALL_BLOCKS


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
    sets, free : uint64[passes * 3 * 4], uint8[passes * 256]
        Sets of entries; free sound blocks of entries, and whether they are reliable.
    spilled, since, peak : int64[passes]
        Rows spilled, since when, and at most.
    """

    home: NDArray[np.int16]
    found: NDArray[np.int64]
    entry: NDArray[np.uint8]
    founds: NDArray[np.int64]
    in_entry: NDArray[np.int64]
    sets: NDArray[np.uint64]
    free: NDArray[np.uint8]
    spilled: NDArray[np.int64]
    since: NDArray[np.int64]
    peak: NDArray[np.int64]
    events: NDArray[np.int64]


@compiled
def new_homes(passes: int, residencies: int) -> Any:
    """Room for the homes of up to so many runs."""
    return Homes(
        np.empty((residencies, passes), np.int16).T,  # passes side by side
        np.empty((passes, residencies), np.int64),
        np.empty((passes, residencies), np.uint8),
        np.empty(passes, np.int64),
        np.empty(ENTRIES * passes + 1, np.int64),
        np.empty(passes * _SETS * _WORDS, np.uint64),
        np.empty(passes * ENTRIES, np.uint8),
        np.empty(passes, np.int64),
        np.empty(passes, np.int64),
        np.empty(passes, np.int64),
        np.empty(COUNTERS, np.int64),
    )


@inner
def place(residencies: Any, kernel: int, fault_map: Any, homes: Any, counters: Any) -> None:
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
    start_passes(fault_map, homes)
    home, found, entry, founds = homes.home, homes.found, homes.entry, homes.founds
    in_entry, sets, free, starts = (
        homes.in_entry,
        homes.sets,
        homes.free,
        residencies.selector_starts,
    )
    spilled, since, peak, events = homes.spilled, homes.since, homes.peak, homes.events
    passes = len(founds)
    operations, residency_of_write = residencies.operations, residencies.residency_of
    cycle, residency_end, write_starts = (
        residencies.cycle,
        residencies.residency_end,
        residencies.write_starts,
    )
    reads_after, wakes, mask = residencies.reads_after, residencies.wakes, residencies.mask
    retry_starts, retries = residencies.retry_starts, residencies.retries
    in_blocks = residencies.in_blocks
    first_residency = residencies.residency_starts[kernel]
    turn, spilled_anywhere, wakeups = 0, 0, 0
    for i in range(residencies.operation_starts[kernel], residencies.operation_starts[kernel + 1]):
        kind, residency = operations[i] & (KINDS - 1), index(operations[i] // KINDS)
        mine = index(residency - first_residency)
        if kind == FREE:
            for one in range(passes):
                old = home[one, mine]
                if old >= 0:
                    _give_back(sets, free, one, old)
                else:
                    spill(spilled, since, peak, events, one, -1, residency_end[residency])
                    spilled_anywhere -= 1
        elif kind == ADVANCE:
            turn += 1
        else:
            write = index(write_starts[residency])
            for one in range(passes):
                start = (starts[one] + turn) & (ENTRIES - 1)
                new = _choose(sets, free, one, start, kind == ACQUIRE_BLOCK)
                home[one, mine] = new
                if new >= 0:
                    move_in(
                        found, entry, founds, in_entry, one, packed(residency, write, new & 7), new
                    )
                    wakeups += wakes[residency]
                else:
                    events[LDS] += 1
                    events[LDS_READS] += reads_after[write]
                    spill(spilled, since, peak, events, one, 1, cycle[write])
                    spilled_anywhere += 1
        if spilled_anywhere:
            for retry in range(retry_starts[i], retry_starts[i + 1]):
                write = index(retries[retry])
                residency = index(residency_of_write[write])
                mine = index(residency - first_residency)
                in_block = in_blocks and mask[write] == RECORD
                for one in range(passes):
                    if home[one, mine] >= 0:
                        continue
                    start = (starts[one] + turn) & (ENTRIES - 1)
                    new = _choose(sets, free, one, start, in_block)
                    if new >= 0:
                        home[one, mine] = new
                        move_in(
                            found,
                            entry,
                            founds,
                            in_entry,
                            one,
                            packed(residency, write, new & 7),
                            new,
                        )
                        spill(spilled, since, peak, events, one, -1, cycle[write])
                        spilled_anywhere -= 1
                    else:
                        events[LDS] += 1
                        events[LDS_READS] += reads_after[write]
    for number in range(ENTRIES):
        kind = _TO_FAULTY if fault_map[number] else TO_RELIABLE
        for one in range(passes):
            events[kind] += in_entry[number * passes + one]
    redirected = events[TO_RELIABLE] + events[_TO_FAULTY] + events[LDS]
    events[REGULAR] = passes * residencies.writes[kernel] - redirected
    events[_WAKEUPS] = wakeups
    hand_in(homes, counters)


@inner
def hand_in(homes: Any, counters: Any) -> None:
    """Add the events of a placement to the counters of its instance."""
    events, peak = homes.events, homes.peak
    at_most = counters[_PEAK]
    for one in range(len(peak)):
        at_most = max(at_most, peak[one])
    for which in range(COUNTERS):
        counters[which] += events[which]
    counters[_PEAK] = at_most


@inlined
def index(number: int) -> Any:
    """A number as an unsigned index: it is not tried for counting from the end."""
    return np.uint32(number)


@inner
def start_passes(fault_map: Any, homes: Any) -> None:
    """Every entry is empty."""
    homes.sets[:] = 0
    homes.in_entry[:] = 0
    homes.founds[:] = 0
    homes.spilled[:] = 0
    homes.since[:] = 0
    homes.peak[:] = 0
    homes.events[:] = 0
    for one in range(len(homes.founds)):
        for entry in range(ENTRIES):
            usable = ~fault_map[entry] & _ALL_BLOCKS
            if usable == _ALL_BLOCKS:
                usable |= _RELIABLE
            homes.free[one * ENTRIES + entry] = usable
            if usable:
                include(homes.sets, _set_of(one, usable), entry, True)


@inlined
def _set_of(one: int, free: int) -> int:
    """The set that an entry with these free blocks belongs to."""
    which = (_PART_FILLED + (free == _EMPTY)) if free & _RELIABLE else _SOUND_BLOCKS
    return one * _SETS + which


@inlined
def include(sets: Any, which: int, entry: int, member: bool) -> None:
    """Put an entry into a set if it is to be a member."""
    place = index(which * _WORDS + (entry >> 6))
    sets[place] |= np.uint64(member) << np.uint64(entry & 63)


@inlined
def exclude(sets: Any, which: int, entry: int, no_member: bool) -> None:
    """Take an entry out of a set if it is no member any more."""
    place = index(which * _WORDS + (entry >> 6))
    sets[place] &= ~(np.uint64(no_member) << np.uint64(entry & 63))


@inlined
def is_member(sets: Any, which: int, entry: int) -> bool:
    """Whether an entry is in a set."""
    word = sets[index(which * _WORDS + (entry >> 6))]
    return bool(word >> np.uint64(entry & 63) & np.uint64(1))


@inlined
def first_member(sets: Any, which: int, start: int) -> int:
    """First member of a set of entries at or after `start`, wrapping; -1 if it is empty."""
    word = start >> 6
    found = sets[index(which * _WORDS + word)] & (_ALL_64 << np.uint64(start & 63))
    if found:
        return (word << 6) + lowest_bit(found)
    for _ in range(_WORDS):
        word = (word + 1) & (_WORDS - 1)
        found = sets[index(which * _WORDS + word)]
        if found:
            return (word << 6) + lowest_bit(found)
    return -1


@inlined
def _choose(sets: Any, free: Any, one: int, start: int, in_block: bool) -> int:
    """Take a home."""
    sound, part, empty = one * _SETS, one * _SETS + _PART_FILLED, one * _SETS + EMPTY_RELIABLE
    if not in_block:
        entry = first_member(sets, empty, start)
        if entry < 0:
            return SPILLED
        free[index(one * ENTRIES + entry)] = _RELIABLE
        exclude(sets, empty, entry, True)
        return entry * 8 + WHOLE_ENTRY
    entry = first_member(sets, sound, start)
    if entry < 0:
        entry = first_member(sets, part, start)
    if entry < 0:
        entry = first_member(sets, empty, start)
    if entry < 0:
        return SPILLED
    blocks = free[index(one * ENTRIES + entry)]
    left = blocks & (blocks - 1)
    free[index(one * ENTRIES + entry)] = left
    if left & _RELIABLE:
        exclude(sets, empty, entry, True)
        exclude(sets, part, entry, left == _RELIABLE)
        include(sets, part, entry, left != _RELIABLE)
    else:
        exclude(sets, sound, entry, left == 0)
    return entry * 8 + lowest_bit(np.uint64(blocks))


@inlined
def _give_back(sets: Any, free: Any, one: int, home: int) -> None:
    """Give back a home."""
    entry, block = (home >> 3) & (ENTRIES - 1), home & 7
    place = index(one * ENTRIES + entry)
    if block == WHOLE_ENTRY:
        free[place] = _EMPTY
        include(sets, one * _SETS + EMPTY_RELIABLE, entry, True)
        return
    left = free[place] | (1 << block)
    free[place] = left
    include(sets, _set_of(one, left), entry, True)
    exclude(sets, one * _SETS + _PART_FILLED, entry, left == _EMPTY)


@inlined
def move_in(
    found: Any, entry_at: Any, founds: Any, in_entry: Any, one: int, occupant: int, home: int
) -> None:
    """A run takes its home."""
    entry, last = (home >> 3) & (ENTRIES - 1), index(founds[one])
    found[one, last] = occupant
    entry_at[one, last] = entry
    founds[one] = last + 1
    in_entry[index(entry * len(founds) + one)] += 1


@inlined
def packed(residency: int, begin: int, block: int) -> int:
    """A visit as one number: run, write from which on it lives there, block (4: whole entry)."""
    return begin << 32 | residency << 3 | block


@inlined
def residency_of(occupant: int) -> int:
    """Run of a visit."""
    return occupant >> 3 & 0x1FFF_FFFF


@inlined
def begin_of(occupant: int) -> int:
    """First write of a visit."""
    return occupant >> 32


@inlined
def block_of(occupant: int) -> int:
    """Block of a visit, or 4 for the whole entry."""
    return occupant & 7


@inlined
def spill(spilled: Any, since: Any, peak: Any, events: Any, one: int, more: int, now: int) -> None:
    """One row more, or one less, lives in the LDS."""
    events[_ROW_CYCLES] += spilled[one] * (now - since[one])
    since[one] = now
    spilled[one] += more
    peak[one] = max(peak[one], spilled[one])
