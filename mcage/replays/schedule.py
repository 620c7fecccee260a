"""Properties of a trace that no instance changes: computed once per trace and technique.

A write's compression state, the time at which its register is written next, what it stores and in
which cells: none of that depends on where the register lives, hence not on the fault map.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.geometry import Booleans, Bytes, Integers, SliceGeometry, Words
from mcage.protection.codes import Code
from mcage.replays.stored_values import StoredValues, check_bits_of, stored_values_of
from mcage.techniques import Storage, Technique, refuse_policy
from mcage.traces.model import ALLOC, READ, RELEASE, WRITE, Trace
from mcage.traces.patterns import classify, compressible, first_block_fits, wc_bytes

# Register windows of a trace: where each begins, and when it is allocated and released.


@dataclass(frozen=True)
class Windows:
    """Register windows of a trace, in the order of their allocation; arrays int64[windows].

    `mcage.traces.Trace.window_of_event` gives the window that each event belongs to.

    Attributes
    ----------
    slot : int64[windows]
        Slot of the window.
    size : int64[windows]
        Registers N of the window.
    base : int64[windows]
        Row of its first register: slot x N.
    generation : int64[windows]
        Number of earlier windows of the same slot.
    alloc_cycle, release_cycle : int64[windows]
        Cycles in which the window is allocated and released.
    """

    slot: Integers
    size: Integers
    base: Integers
    generation: Integers
    alloc_cycle: Integers
    release_cycle: Integers


def windows_of(trace: Trace) -> Windows:
    """Return the windows of a valid trace in allocation order."""
    events = trace.alloc_event.astype(np.int64)
    slot = trace.slot[events].astype(np.int64)
    sizes = np.array([kernel.window_size for kernel in trace.kernels], dtype=np.int64)
    size = sizes[trace.alloc_kernel.astype(np.int64)]
    order = np.argsort(slot, kind="stable")
    generation = np.empty(len(events), dtype=np.int64)
    generation[order] = np.arange(len(order)) - np.searchsorted(slot[order], slot[order])
    releases = np.flatnonzero(trace.kind == RELEASE)
    release_cycle = np.empty(len(events), dtype=np.int64)
    release_cycle[trace.window_of_event()[releases]] = trace.cycle[releases]
    return Windows(
        slot=slot,
        size=size,
        base=slot * size,
        generation=generation,
        alloc_cycle=trace.cycle[events].astype(np.int64),
        release_cycle=release_cycle,
    )


# Lives of values: from a write to the last read before the register is written anew as a whole.
#
# What follows from the trace alone and a compiler would mark in the instructions. A write under a
# partial EXEC mask leaves the other lanes' values alive, so that it goes on with the life it finds.
# Between its last read and its next write a register holds nothing that anybody needs.


@dataclass(frozen=True)
class LiveRanges:
    """Which writes share a life, and when it is over; arrays int64[writes] in trace order.

    Attributes
    ----------
    first : int64[writes]
        First write of the life. A write that nobody reads is a life by itself, over at once.
    end_event : int64[writes]
        Event of the trace that replaces the value, or reads it for the last time; the write itself
        if nobody reads it.
    death_event : int64[writes]
        Event with which the whole life is over: its last read.
    """

    first: Integers
    end_event: Integers
    death_event: Integers


def live_ranges(trace: Trace, window_of_event: Integers) -> LiveRanges:
    """Follow every register from its writes to their last reads.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    window_of_event : int64[events]
        Window that each event belongs to: a register's life ends with its window.
    """
    accesses = np.flatnonzero((trace.kind == WRITE) | (trace.kind == READ))
    register = window_of_event[accesses] * trace.geometry.entries + trace.reg[accesses]
    order = np.argsort(register, kind="stable")
    event, register = accesses[order], register[order]
    is_write = trace.kind[event] == WRITE
    place = np.arange(len(event))

    # A range goes from a write of a whole register, or its first write, to the next such write.
    opens = is_write & (trace.exec_mask[event] == trace.geometry.all_lanes)
    opens |= _first_of_each(register, is_write)
    starts = opens | (np.diff(register, prepend=-1) != 0)  # or reads of what was never written
    begin = np.maximum.accumulate(np.where(starts, place, 0))
    last_read = _last_of_each(begin, ~is_write)
    next_write = _next_of_each(begin, is_write)

    read_later = last_read > place
    first = np.where(read_later, begin, place)
    death = np.where(read_later, last_read, place)
    end = np.minimum(death, next_write)
    number = np.cumsum(trace.kind == WRITE) - 1
    lives = LiveRanges(*(np.empty(trace.writes, dtype=np.int64) for _ in range(3)))
    write = number[event[is_write]]
    lives.first[write] = number[event[first[is_write]]]
    lives.end_event[write] = event[end[is_write]]
    lives.death_event[write] = event[death[is_write]]
    return lives


def _first_of_each(group: Integers, chosen: Booleans) -> Booleans:
    """The first chosen place of every group; groups are contiguous."""
    places = np.flatnonzero(chosen)
    first = np.zeros(len(group), dtype=bool)
    first[places[np.diff(group[places], prepend=-1) != 0]] = True
    return first


def _last_of_each(group: Integers, chosen: Booleans) -> Integers:
    """Last chosen place of the group that each place belongs to, or -1."""
    last = np.full(len(group), -1)
    np.maximum.at(last, group[chosen], np.flatnonzero(chosen))
    return last[group]


def _next_of_each(group: Integers, chosen: Booleans) -> Integers:
    """Next chosen place after each one in its group, or the number of places."""
    places = np.flatnonzero(chosen)
    following = np.append(places, len(group))
    after = following[np.searchsorted(places, np.arange(len(group)), side="right")]
    same = group[np.minimum(after, len(group) - 1)] == group
    return np.where(same & (after < len(group)), after, len(group))


# Writes of a trace and the operations around them, as they are under every technique.
#
# They are worked out once per trace, and the schedules of all techniques share the arrays.


@dataclass(frozen=True, eq=False)
class Writes:
    """Writes of a trace; arrays are in the order of the trace, and nobody changes them.

    Attributes
    ----------
    windows : Windows
        The windows of the trace.
    cycle, end_cycle : int64[writes]
        When the write happens, and when the next write of the register replaces its value or its
        window is released.
    window, reg, row : int64[writes]
        Window, register index in it, and row (window base + index).
    value : int64[writes]
        Row of the trace's values that the register holds after the write.
    first, divergent : bool[writes]
        First write of its register in the window; under a partial EXEC mask.
    lanes : uint64[writes]
        Lanes that the wavefront has written in the register so far, this write included.
    reads_after : int64[writes]
        Reads of the register until its next write or release.
    by_register : int64[writes]
        The writes window by window, register by register, each in the order of time.
    op_kind, op : uint8[ops], int32[ops]
        Allocations, writes and releases in trace order (constants of `mcage.traces.model`), with
        the index of the window or write.
    """

    windows: Windows
    cycle: Integers
    end_cycle: Integers
    window: Integers
    reg: Integers
    row: Integers
    value: Integers
    first: Booleans
    divergent: Booleans
    lanes: Words
    reads_after: Integers
    by_register: Integers
    op_kind: Bytes
    op: NDArray[np.int32]

    @property
    def previous(self) -> Integers:
        """The write before each write of the same register: int64[writes].

        For the first write of a register the value has no meaning.
        """
        previous = np.zeros(len(self.cycle), dtype=np.int64)
        previous[self.by_register[1:]] = self.by_register[:-1]
        return previous


def writes_of(trace: Trace) -> Writes:
    """Return the writes of a valid trace; they are kept for as long as the trace is."""
    return _KEPT.of(trace)


def _writes_of(trace: Trace) -> Writes:
    windows, window_of_event = windows_of(trace), trace.window_of_event()
    events = np.flatnonzero(trace.kind == WRITE)
    window = window_of_event[events]
    reg = trace.reg[events].astype(np.int64)
    cycle = trace.cycle[events].astype(np.int64)
    exec_mask = trace.exec_mask[events]

    key = window * trace.geometry.entries + reg
    order = np.argsort(key, kind="stable")
    first_sorted = np.ones(len(order), dtype=bool)
    first_sorted[1:] = key[order][1:] != key[order][:-1]
    first = np.empty_like(first_sorted)
    first[order] = first_sorted

    end_cycle = windows.release_cycle[window]
    followed = order[:-1][~first_sorted[1:]]
    end_cycle[followed] = cycle[order[1:][~first_sorted[1:]]]
    op_kind, op = _operations(trace, window_of_event)
    return Writes(
        windows=windows,
        cycle=cycle,
        end_cycle=end_cycle,
        window=window,
        reg=reg,
        row=windows.base[window] + reg,
        value=trace.value[events].astype(np.int64),
        first=first,
        divergent=exec_mask != trace.geometry.all_lanes,
        lanes=_lanes(exec_mask, order, first_sorted, trace.geometry),
        reads_after=_reads_after(trace, window_of_event, events),
        by_register=order,
        op_kind=op_kind,
        op=op,
    )


_KEPT: Memo[Trace, Writes] = Memo(_writes_of)


def _operations(trace: Trace, window_of_event: Integers) -> tuple[Bytes, NDArray[np.int32]]:
    kept = trace.kind != READ
    kind = trace.kind[kept]
    write_index = np.cumsum(kind == WRITE) - 1
    return kind.astype(np.uint8), np.where(
        kind == WRITE, write_index, window_of_event[kept]
    ).astype(np.int32)


def _reads_after(trace: Trace, window_of_event: Integers, writes: Integers) -> Integers:
    """Reads that each write's value serves."""
    accesses = np.flatnonzero((trace.kind == WRITE) | (trace.kind == READ))
    key = window_of_event[accesses] * trace.geometry.entries + trace.reg[accesses]
    order = np.argsort(key, kind="stable")
    is_write = trace.kind[accesses[order]] == WRITE
    latest = np.maximum.accumulate(np.where(is_write, np.arange(len(order)), -1))
    served = ~is_write & (latest >= 0)
    served[served] = key[order][latest[served]] == key[order][served]
    count = np.bincount(accesses[order][latest[served]], minlength=len(trace.kind))
    return count[writes].astype(np.int64)


def _lanes(
    exec_mask: Words, order: Integers, first_sorted: Booleans, geometry: SliceGeometry
) -> Words:
    """Lanes that the wavefront has written in the register so far, this write included."""
    lanes = exec_mask[order]
    starts = np.flatnonzero(first_sorted)
    ends = np.append(starts[1:], len(lanes))
    partial = lanes[starts] != geometry.all_lanes
    for start, end in zip(starts[partial], ends[partial], strict=True):
        np.bitwise_or.accumulate(lanes[start:end], out=lanes[start:end])
    lanes[np.repeat(~partial, ends - starts)] = geometry.all_lanes
    result = np.empty_like(lanes)
    result[order] = lanes
    return result


DEATH = 4
"""Kind of operation beside the events of a trace: a value has been read for the last time."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Instance-independent part of a replay. Arrays of writes are in trace order.

    Attributes
    ----------
    cycle : int64[writes]
        When the write happens.
    end_cycle : int64[writes]
        When its value is replaced by the next write of the register, or its window is released;
        under guard placement also when it is dead: with its last read.
    window, reg, row : int64[writes]
        Window, register index in it, and row (window base + index).
    residency_first : int64[writes]
        First write of the residency: the writes of a register in a row that keep its compression
        state and hence its home, unless it was spilled. Under guard placement it is a life
        (`mcage.replays.schedule`): nothing is left of its value when it is over.
    first, compressed, was_compressed, divergent, mispredicted : bool[writes]
        First write of its register in the window; stored compressed; found the register stored
        compressed; under a partial EXEC mask; fits in the first block but not as a whole.
    reads_after : int64[writes]
        Reads of the register until its next write or release.
    op_kind, op : uint8[ops], int32[ops]
        Allocations, writes and releases in trace order (constants of `mcage.traces.model`), with
        the index of the window or write. Under guard placement also each `DEATH`, right after the
        last read, with the first write of the life.
    stored_values : StoredValues
        What each write stores, and in which cells.
    compressible_writes : int
        Writes after which the register's content has a compressible pattern.
    """

    trace: Trace
    technique: Technique
    delta_limit: int | None
    cycles: int
    windows: Windows
    cycle: Integers
    end_cycle: Integers
    window: Integers
    reg: Integers
    row: Integers
    residency_first: Integers
    first: Booleans
    compressed: Booleans
    was_compressed: Booleans
    divergent: Booleans
    mispredicted: Booleans
    reads_after: Integers
    op_kind: Bytes
    op: NDArray[np.int32]
    stored_values: StoredValues
    compressible_writes: int
    reads: int

    @property
    def geometry(self) -> SliceGeometry:
        """The slice."""
        return self.trace.geometry

    @property
    def writes(self) -> int:
        """Register writes of one pass."""
        return len(self.cycle)

    @property
    def in_table(self) -> Booleans:
        """Writes whose values go to the compression table, and to no entry: bool[writes]."""
        return self.compressed & self.technique.stores_in_table

    @property
    def writes_whole(self) -> bool:
        """Whether every entry that is written is overwritten as a whole."""
        match self.technique.storage:
            case Storage.PLAIN | Storage.TABLE:
                return bool((self.stored_values.mask[~self.compressed] == 0).all())
            case Storage.INLINE | Storage.BLOCK:
                return False
            case unknown:
                refuse_policy(unknown, "Schedule.writes_whole")

    @property
    def mov_writes(self) -> int:
        """Divergent writes that find their register compressed: one extra MOV each."""
        return int((self.divergent & self.was_compressed).sum())

    @property
    def mispredicted_writes(self) -> int:
        """Wrong speculations of a technique that redirects by the first block; others have none."""
        return int(self.mispredicted.sum()) if self.technique.redirects else 0


def make_schedule(
    trace: Trace, technique: Technique, delta_limit: int | None, code: Code | None = None
) -> Schedule:
    """Work out everything about a replay of ``trace`` that holds for every instance.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    technique : Technique
        Its storage policy decides what is compressed and what a write stores.
    delta_limit : int or None
        Largest delta of a compressible value: 64 as published, or None (models' section F).
    code : Code, optional
        What each write stores is what it stores in the check cells of this code.
    """
    writes = writes_of(trace)
    value, divergent, order = writes.value, writes.divergent, writes.by_register
    pattern_fits = compressible(classify(trace.values), delta_limit)[value]
    match technique.storage:
        case Storage.PLAIN:
            compressed = np.zeros(len(value), dtype=bool)
        case Storage.INLINE:
            compressed = ~divergent & (wc_bytes(trace.values)[value] < trace.geometry.entry_bytes)
        case Storage.TABLE | Storage.BLOCK:
            compressed = ~divergent & pattern_fits
        case unknown:
            refuse_policy(unknown, "make_schedule")
    was_compressed = compressed[writes.previous] & ~writes.first

    begins = (writes.first | (compressed != was_compressed))[order]
    residency_first = np.empty(len(value), dtype=np.int64)
    residency_first[order] = order[begins][np.cumsum(begins) - 1]

    mispredicted = np.zeros(len(value), dtype=bool)
    if technique.compresses:
        guessed = first_block_fits(trace.values, trace.geometry, delta_limit)[value]
        mispredicted = guessed & ~pattern_fits & ~divergent
    end_cycle, op_kind, op = writes.end_cycle, writes.op_kind, writes.op
    if technique.borrows:
        lives = live_ranges(trace, trace.window_of_event())
        residency_first, end_cycle = lives.first, trace.cycle[lives.end_event].astype(np.int64)
        begun = np.flatnonzero(residency_first == np.arange(len(value)))
        op_kind, op = _with_deaths(trace, op_kind, op, lives.death_event[begun], begun)
    stored_values = stored_values_of(
        trace.values, trace.geometry, value, writes.lanes, compressed, technique.storage
    )
    if code is not None:
        stored_values = check_bits_of(stored_values, code)
    return Schedule(
        trace=trace,
        technique=technique,
        delta_limit=delta_limit,
        cycles=int(trace.cycles),
        windows=writes.windows,
        cycle=writes.cycle,
        end_cycle=end_cycle,
        window=writes.window,
        reg=writes.reg,
        row=writes.row,
        residency_first=residency_first,
        first=writes.first,
        compressed=compressed,
        was_compressed=was_compressed,
        divergent=divergent,
        mispredicted=mispredicted,
        reads_after=writes.reads_after,
        op_kind=op_kind,
        op=op,
        stored_values=stored_values,
        compressible_writes=int(pattern_fits.sum()),
        reads=trace.reads,
    )


def _with_deaths(
    trace: Trace, op_kind: Bytes, op: NDArray[np.int32], death_event: Integers, life: Integers
) -> tuple[Bytes, NDArray[np.int32]]:
    """Operations, and the death of each life right after the event that it ends with."""
    event = np.concatenate([np.flatnonzero(trace.kind != READ), death_event])
    order = np.argsort(event, kind="stable")  # a write comes before its own death
    kind = np.concatenate([op_kind, np.full(len(life), DEATH, dtype=np.uint8)])
    return kind[order], np.concatenate([op, life.astype(np.int32)])[order]


# What redirection does in a pass, whatever the fault map is: for every engine that places.
#
# A residency is what one register writes into one home. No fault map changes which writes it has,
# nor when a home is looked for and given back.


def residencies_of_writes(
    schedule: Schedule, key: Integers | None = None
) -> tuple[Integers, Integers]:
    """Writes that go to an entry, residency after residency, and the residency of each.

    Parameters
    ----------
    schedule : Schedule
        The writes.
    key : int64[writes], optional
        What the writes of a residency share; by default its first write, as where registers move.
    """
    key = schedule.residency_first if key is None else key
    held = np.flatnonzero(~schedule.in_table)
    held = held[np.argsort(key[held], kind="stable")]
    return held, np.cumsum(np.diff(key[held], prepend=-1) != 0) - 1


KINDS = 4
ADVANCE, ACQUIRE, ACQUIRE_BLOCK, FREE = range(KINDS)
"""Kinds of operation: the selectors rotate on; a residency needs an entry, or a block of an entry;
the home of a residency is given back."""


class Operations(NamedTuple):
    """Operations of the selectors in order, and what looks for a home between them.

    Attributes
    ----------
    code : uint32[operations]
        4 x residency + kind of operation.
    retry_starts : int64[operations + 1]
        Operation i is followed by the writes ``retries[retry_starts[i]:retry_starts[i + 1]]``.
    retries : int32[...]
        Later writes of residencies. A residency that lives in the LDS looks for a home at each.
    """

    code: NDArray[np.uint32]
    retry_starts: Integers
    retries: NDArray[np.integer]


def operations_of(schedule: Schedule, held: Integers, residency: Integers) -> Operations:
    """Return the operations of a kernel; `retry_starts` without its last item.

    Parameters
    ----------
    schedule : Schedule
        Schedule of a technique that redirects; there are no operations under any other.
    held : int64[n]
        Writes that go to an entry, residency after residency.
    residency : int64[n]
        Residency of each of them.
    """
    technique = schedule.technique
    if not technique.redirects:
        nothing = np.zeros(0, dtype=np.int64)
        return Operations(nothing.astype(np.uint32), nothing, nothing)
    # When things happen: at event e homes are given back first (2 e), then looked for (2 e + 1).
    event_of_write = np.flatnonzero(schedule.op_kind == WRITE)
    rotations = np.flatnonzero((schedule.op_kind == ALLOC) & technique.rotating_selectors)
    position = np.empty(schedule.writes, dtype=np.int64)
    position[held] = np.arange(len(held))
    opens = held[np.flatnonzero(np.diff(residency, prepend=-1))]
    if technique.borrows:
        freed = _deaths(schedule)
    else:
        freed = _releases(schedule)[schedule.window[opens]]
        follower, before = _changes(schedule)
        in_entry = np.isin(before, opens)
        freed[residency[position[before[in_entry]]]] = event_of_write[follower[in_entry]]
    residencies = np.arange(len(opens))
    in_block = schedule.stored_values.is_record[opens]
    when = np.concatenate([2 * rotations + 1, 2 * event_of_write[opens] + 1, 2 * freed])
    kind = np.concatenate(
        [
            np.full(len(rotations), ADVANCE),
            np.where(in_block, ACQUIRE_BLOCK, ACQUIRE),
            np.full(len(residencies), FREE),
        ]
    )
    whose = np.concatenate([np.zeros(len(rotations), dtype=np.int64), residencies, residencies])
    order = np.argsort(when, kind="stable")
    later = np.setdiff1d(held, opens)
    return Operations(
        (KINDS * whose + kind)[order].astype(np.uint32),
        np.searchsorted(2 * event_of_write[later], when[order]),
        position[later],
    )


def _deaths(schedule: Schedule) -> Integers:
    """Event with which each life of a value is over; lives are numbered as residencies."""
    events = np.flatnonzero(schedule.op_kind == DEATH)
    return events[np.argsort(schedule.op[events])]


def _releases(schedule: Schedule) -> Integers:
    """Event with which each window is released."""
    events = np.flatnonzero(schedule.op_kind == RELEASE)
    event_of_window = np.empty(len(schedule.windows.size), dtype=np.int64)
    event_of_window[schedule.op[events]] = events
    return event_of_window


def _changes(schedule: Schedule) -> tuple[Integers, Integers]:
    """Writes that begin a residency, and the first write of the register's residency before."""
    begins = np.flatnonzero(schedule.residency_first == np.arange(schedule.writes))
    key = (schedule.window * schedule.geometry.entries + schedule.reg)[begins]
    order = begins[np.argsort(key, kind="stable")]
    same = np.flatnonzero(~schedule.first[order])
    return order[same], order[same - 1]
