"""The selectors of redirection as an event machine: a home for every write of a pass.

Toca-Diaz et al. (RRCD), section IV. Sets of entries are kept as 256-bit maps, so that a priority
encoder is a search for the lowest set bit.
"""

from typing import Any

import numpy as np

from mcage.engines.native.columns import INDEX, KIND, ROW, STATE
from mcage.engines.native.compile import compiled
from mcage.geometry import SLICE
from mcage.traces.model import ALLOC, WRITE

ENTRIES = SLICE.entries
WHOLE = 4
"""A home is entry x 8 + block for a record, entry x 8 + 4 for a whole entry, negative for none."""

COUNTERS = 8
_REGULAR, _TO_RELIABLE, _TO_FAULTY, _LDS, _LDS_READS, _PEAK, _ROW_CYCLES, _WAKEUPS = range(COUNTERS)
_NOWHERE, _SPILLED, _IN_TABLE = -1, -2, -3
_ALL_64 = 0xFFFF_FFFF_FFFF_FFFF


@compiled
def _lowest(word: np.uint64) -> int:
    """Position of the lowest set bit of a non-zero word."""
    position = 0
    for shift in (32, 16, 8, 4, 2, 1):
        if not word & ((np.uint64(1) << np.uint64(shift)) - np.uint64(1)):
            word >>= np.uint64(shift)
            position += shift
    return position


@compiled
def _first_in(entries: Any, start: int) -> int:
    """First member of a set of entries at or after `start`, wrapping; -1 if it is empty."""
    word = start >> 6
    upper = entries[word] & (np.uint64(_ALL_64) << np.uint64(start & 63))
    if upper:
        return (word << 6) + _lowest(upper)
    for _ in range(4):
        word = (word + 1) & 3
        if entries[word]:
            return (word << 6) + _lowest(entries[word])
    return -1


@compiled
def _include(entries: Any, entry: int, member: bool) -> None:
    bit = np.uint64(1) << np.uint64(entry & 63)
    if member:
        entries[entry >> 6] |= bit
    else:
        entries[entry >> 6] &= ~bit


@compiled
def place(
    placing: Any,
    fault_map: Any,
    start: int,
    rotating: bool,
    table: bool,
    gated: bool,
    home: Any,
    counters: Any,
) -> None:
    """Event machine of the redirection selectors: a home for every write among its operations."""
    usable = np.empty(ENTRIES, np.uint8)
    free = np.empty(ENTRIES, np.uint8)
    sound_blocks = np.zeros(4, np.uint64)
    part_filled = np.zeros(4, np.uint64)
    empty_reliable = np.zeros(4, np.uint64)
    for entry in range(ENTRIES):
        usable[entry] = ~fault_map[entry] & 0xF
        free[entry] = usable[entry]
        if fault_map[entry] == 0:
            _include(empty_reliable, entry, True)
        elif usable[entry]:
            _include(sound_blocks, entry, True)
    home_of_row = np.full(ENTRIES, _NOWHERE, np.int64)
    spilled = 0
    peak = 0
    spilled_since = 0
    position = start
    operations, cycle = placing.operations, placing.cycle
    reads_after, release_cycle = placing.reads_after, placing.release_cycle

    for i in range(len(operations)):
        kind, row = operations[i, KIND], operations[i, ROW]
        if kind == ALLOC:
            if rotating:
                position = (position + 1) % ENTRIES
            continue
        if kind != WRITE:
            for one in range(row, row + operations[i, STATE]):
                old = home_of_row[one]
                if old >= 0:
                    _release(old, fault_map, free, sound_blocks, part_filled, empty_reliable)
                elif old == _SPILLED:
                    now = release_cycle[operations[i, INDEX]]
                    counters[_ROW_CYCLES] += spilled * (now - spilled_since)
                    spilled_since = now
                    spilled -= 1
                home_of_row[one] = _NOWHERE
            continue

        write, state = operations[i, INDEX], operations[i, STATE]
        old = home_of_row[row]
        compressed = state & 1 != 0
        was_compressed = state & 2 != 0
        if old != _NOWHERE and old != _SPILLED and compressed == was_compressed:
            home[write] = old
            continue
        if old >= 0:
            _release(old, fault_map, free, sound_blocks, part_filled, empty_reliable)
        new = _SPILLED
        if compressed and table:
            new = _IN_TABLE
        elif compressed:
            entry = _first_in(sound_blocks, position)
            if entry < 0:
                entry = _first_in(part_filled, position)
            if entry < 0:
                entry = _first_in(empty_reliable, position)
            if entry >= 0:
                block = _lowest(np.uint64(free[entry]))
                free[entry] &= ~np.uint8(1 << block)
                if fault_map[entry]:
                    _include(sound_blocks, entry, free[entry] != 0)
                else:
                    _include(empty_reliable, entry, False)
                    _include(part_filled, entry, free[entry] != 0)
                new = entry * 8 + block
        else:
            entry = _first_in(empty_reliable, position)
            if entry >= 0:
                free[entry] = 0
                _include(empty_reliable, entry, False)
                new = entry * 8 + WHOLE
        if new == _SPILLED:
            counters[_LDS] += 1
            counters[_LDS_READS] += reads_after[write]
        elif new >= 0 and fault_map[new >> 3]:
            counters[_TO_FAULTY] += 1
        elif new >= 0:
            counters[_TO_RELIABLE] += 1
        if (old == _SPILLED) != (new == _SPILLED):
            now = cycle[write]
            counters[_ROW_CYCLES] += spilled * (now - spilled_since)
            spilled_since = now
            spilled += 1 if new == _SPILLED else -1
            peak = max(peak, spilled)
        if gated and new >= 0 and was_compressed and not compressed:
            counters[_WAKEUPS] += 1
        home_of_row[row] = new
        home[write] = new
    counters[_PEAK] = peak


@compiled
def _release(
    old: int, fault_map: Any, free: Any, sound_blocks: Any, part_filled: Any, empty_reliable: Any
) -> None:
    """Give back a home."""
    entry, block = old >> 3, old & 7
    if block == WHOLE:
        free[entry] = 0xF
    else:
        free[entry] |= np.uint8(1 << block)
    if fault_map[entry]:
        _include(sound_blocks, entry, True)
    else:
        whole = free[entry] == 0xF
        _include(empty_reliable, entry, whole)
        _include(part_filled, entry, not whole)


@compiled
def place_pass(
    stays: Any,
    writes: Any,
    fault_map: Any,
    start: int,
    rotating: bool,
    table: bool,
    gated: bool,
    home: Any,
    counters: Any,
) -> bool:
    """Place one pass, looking at every write only if something is spilled; returns whether so.

    `stays` and `writes` are the operations with the first writes of stays only, and with all.
    Without a spill `home` holds the homes of those first writes only.
    """
    events = np.zeros(COUNTERS, np.int64)
    place(stays, fault_map, start, rotating, table, gated, home, events)
    spills: bool = events[_LDS] > 0
    if spills:
        events[:] = 0
        place(writes, fault_map, start, rotating, table, gated, home, events)
    events[_REGULAR] = len(home) - events[_TO_RELIABLE] - events[_TO_FAULTY] - events[_LDS]
    peak = max(counters[_PEAK], events[_PEAK])
    counters += events
    counters[_PEAK] = peak
    return spills


@compiled
def place_all(
    stays: Any,
    writes: Any,
    fault_maps: Any,
    starts: Any,
    rotating: bool,
    table: bool,
    gated: bool,
    counters: Any,
) -> None:
    """Count the events of every instance over one pass from each starting entry."""
    home = np.empty(len(writes.cycle), np.int64)
    for instance in range(len(fault_maps)):
        for start in starts:
            place_pass(
                stays,
                writes,
                fault_maps[instance],
                start,
                rotating,
                table,
                gated,
                home,
                counters[instance],
            )
