"""Homes of residencies on a fault map, by RRCD or GR-Guard; who has lived in which entry."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import (
    LANES,
    in_all,
    inlined,
    inner,
    lanes_at,
    lowest_bit,
    lowest_bits,
    put_lanes,
    where_zero,
    zero_in,
)
from mcage.engines.numba_engine.residencies import BEGIN, RECORD, Residencies
from mcage.geometry import ENTRIES_OF_WORD, MOST_BLOCKS, MOST_ENTRIES, Bytes, Integers, Words
from mcage.replays.schedule import ACQUIRE_BLOCK, ADVANCE, FREE, KINDS

# An occupant of an entry as a number of 32 bits: who lives there, from which write on, and where.
#
# Nearly every residency moves in with its first write; then the number holds the residency. One
# that began in the LDS moves in with a later write; then the number holds that write, which knows
# its residency. A batch keeps the occupants of all its epochs, so that their size decides on its
# memory.

_LATE = 0b1000
_NUMBER = 4
"""Bits before the number, which has 28: `residencies.MOST_WRITES`."""


@inlined
def packed(residency: int, block: int) -> int:
    """Pack a residency that moves in with its first write; block 4 is the whole entry."""
    return residency << _NUMBER | block


@inlined
def packed_late(write: int, block: int) -> int:
    """Pack a residency that moves in with a later write of its own."""
    return write << _NUMBER | _LATE | block


@inlined
def is_late(occupant: int) -> bool:
    """Whether an occupant began in the LDS."""
    return occupant & _LATE != 0


@inlined
def block_of(occupant: int) -> int:
    """Block of an occupant, or 4 for the whole entry."""
    return occupant & 0b111


@inlined
def residency_of(residencies: Any, occupant: Any) -> Any:
    """Residency of an occupant."""
    number = occupant >> _NUMBER
    if is_late(occupant):
        return np.int64(residencies.writes.residency[number])
    return np.int64(number)


@inlined
def begin_of(residencies: Any, occupant: Any) -> Any:
    """First write of an occupant."""
    number = occupant >> _NUMBER
    if is_late(occupant):
        return np.int64(number)
    return np.int64(residencies.facts[number, BEGIN])


# The selectors of redirection as an event machine: a home for every residency of a pass.
#
# Toca-Diaz et al. (RRCD), section IV. Sets of entries are kept as maps of bits, so that a priority
# encoder is a search for the lowest set bit. The passes of a replay do the same operations, each in
# a state of its own, and are taken side by side: the processor has work while it waits for one of
# them.

WHOLE_ENTRY = MOST_BLOCKS
"""A home is entry x 8 + block, or entry x 8 + 4 for the whole entry."""

COUNTERS = 10
(
    REGULAR,
    TO_RELIABLE,
    _TO_FAULTY,
    LDS,
    LDS_READS,
    _PEAK,
    _ROW_CYCLES,
    _WAKEUPS,
    _MEMORY,
    _MEMORY_READS,
) = range(COUNTERS)
SPILLED, _IN_MEMORY = -1, -2
"""In place of a home: spilled, to the LDS where that has room; spilled to memory."""
_SETS = 3
_SOUND_BLOCKS, _PART_FILLED, EMPTY_RELIABLE = range(_SETS)
"""Sets of entries: faulty ones with a sound block that is free; reliable ones of which some block
is free and some is not; reliable ones that are free."""
_WORDS = MOST_ENTRIES // ENTRIES_OF_WORD
"""Words for a set of entries, of which a slice may need fewer."""
_ALL_64 = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_RELIABLE = 0b10000


class Arrivals(NamedTuple):
    """Residencies that found a home, in the order in which they did; arrays [..., passes].

    Attributes
    ----------
    occupant : uint32[residencies, passes]
        The residency as an occupant of its entry.
    entry : uint16[residencies, passes]
        The entry.
    arrived : int64[passes]
        How many they are.
    """

    occupant: NDArray[np.uint32]
    entry: NDArray[np.uint16]
    arrived: Integers


class Tally(NamedTuple):
    """Events of a placement.

    Attributes
    ----------
    events : int64[10]
        Counters of all passes but that of the peak.
    spilled, since, peak : int64[passes]
        Rows that are spilled, since when, and the largest number of them so far.
    in_lds : int64[passes]
        Those of the rows that are spilled now that live in the LDS.
    """

    events: Integers
    in_lds: Integers
    spilled: Integers
    since: Integers
    peak: Integers


class Homes(NamedTuple):
    """Homes of the residencies of a kernel, and what leads to them.

    Attributes
    ----------
    home : int16[residencies, passes]
        Home of each residency in each pass; negative if it never found one.
    arrivals, tally : Arrivals, Tally
        Who found a home, and what happened.
    sets : uint64[passes * 3 * 24]
        Sets of entries.
    free : uint8[passes * entries]
        Free sound blocks of each entry, and whether the entry is reliable.
    entries, all_blocks : int
        Entries of the slice, and the set of all blocks of an entry.
    """

    home: NDArray[np.int16]
    arrivals: Arrivals
    tally: Tally
    sets: Words
    free: Bytes
    entries: int
    all_blocks: int


def new_homes(slice_: Any, passes: int, residencies: int) -> Any:
    """Make space for the homes of up to so many residencies of a slice."""
    return Homes(
        np.empty((residencies, passes), np.int16),
        Arrivals(
            np.empty((residencies, passes), np.uint32),
            np.empty((residencies, passes), np.uint16),
            np.empty(passes, np.int64),
        ),
        Tally(np.empty(COUNTERS, np.int64), *np.empty((4, passes), np.int64)),
        np.empty(passes * _SETS * _WORDS, np.uint64),
        np.empty(passes * slice_.entries, np.uint8),
        slice_.entries,
        slice_.all_blocks,
    )


@inner
def find_homes(residencies: Any, kernel: int, fault_map: Any, homes: Any, counters: Any) -> None:
    """Place the residencies of a kernel in every pass, and add up what happens.

    Parameters
    ----------
    residencies : Residencies
        A technique that redirects.
    kernel : int
        Number of the kernel.
    fault_map : uint8[entries]
        Fault map.
    homes : Homes
        Where the outcome goes.
    counters : int64[10]
        Counters of the instance, added to; of the peak the largest is kept.
    """
    arrivals, tally, events = homes.arrivals, homes.tally, homes.tally.events
    rules = residencies.rules
    tally.in_lds[:] = tally.spilled[:] = tally.since[:] = tally.peak[:] = events[:] = 0
    if not _place_in_lanes(residencies, kernel, fault_map, homes):
        _place(residencies, kernel, fault_map, homes)
    passes = len(arrivals.arrived)
    for pass_ in range(passes):
        events[TO_RELIABLE] += arrivals.arrived[pass_]
        if rules.borrows or rules.in_blocks:
            for i in range(arrivals.arrived[pass_]):
                entry = arrivals.entry[i, pass_]
                to_faulty = fault_map[entry] != 0
                residency = residency_of(residencies, arrivals.occupant[i, pass_])
                at_home = rules.borrows and entry == residencies.row[residency]
                events[_TO_FAULTY] += to_faulty
                events[TO_RELIABLE] -= to_faulty or at_home
    redirected = events[TO_RELIABLE] + events[_TO_FAULTY] + events[LDS]
    events[REGULAR] = passes * residencies.kernels.writes[kernel] - redirected
    highest = counters[_PEAK]
    for pass_ in range(passes):
        highest = max(highest, tally.peak[pass_])
    for counter in range(COUNTERS):
        counters[counter] += events[counter]
    counters[_PEAK] = highest


@inner
def _place(residencies: Any, kernel: int, fault_map: Any, homes: Any) -> None:
    """Place the residencies of a kernel pass by pass; parameters as for `find_homes`."""
    _start_passes(fault_map, homes)
    home, arrivals, tally, entries = homes.home, homes.arrivals, homes.tally, homes.entries
    passes = len(arrivals.arrived)
    kernels, writes, operations = residencies.kernels, residencies.writes, residencies.operations
    cycle, reads_after, mask = writes.cycle, writes.reads_after, writes.mask
    write_starts, ends, wakes = residencies.write_starts, residencies.end, residencies.wakes
    room, first_residency = residencies.lds_rows[kernel], kernels.first_residency[kernel]
    in_blocks, rotations, spilled_anywhere, wakeups = residencies.rules.in_blocks, 0, 0, 0
    for i in range(kernels.first_operation[kernel], kernels.first_operation[kernel + 1]):
        kind = operations.code[i] & (KINDS - 1)
        residency = index(operations.code[i] // KINDS)
        in_kernel = index(residency - first_residency)
        if kind == FREE:
            for pass_ in range(passes):
                old = home[in_kernel, pass_]
                if old >= 0:
                    _give_back(homes, pass_, old)
                else:
                    _leave(tally, pass_, old, ends[residency])
                    spilled_anywhere -= 1
        elif kind == ADVANCE:
            rotations = _next_place(rotations, entries)
        else:
            write = index(write_starts[residency])
            for pass_ in range(passes):
                in_block = kind == ACQUIRE_BLOCK
                new = _find(residencies, homes, residency, pass_, rotations, in_block)
                if new >= 0:
                    _move_in(arrivals, pass_, packed(residency, new & 7), new)
                    wakeups += wakes[residency]
                else:
                    _spill(tally, pass_, 1, cycle[write])
                    new = _spilled_to(tally, pass_, _IN_MEMORY, room, reads_after[write])
                    spilled_anywhere += 1
                home[in_kernel, pass_] = new
        if spilled_anywhere:
            for retry in range(operations.retry_starts[i], operations.retry_starts[i + 1]):
                write = index(operations.retries[retry])
                residency = index(writes.residency[write])
                in_kernel = index(residency - first_residency)
                for pass_ in range(passes):
                    old = home[in_kernel, pass_]
                    if old >= 0:
                        continue
                    in_block = in_blocks and mask[write] == RECORD
                    new = _find(residencies, homes, residency, pass_, rotations, in_block)
                    if new >= 0:
                        _move_in(arrivals, pass_, packed_late(write, new & 7), new)
                        _leave(tally, pass_, old, cycle[write])
                        spilled_anywhere -= 1
                    else:
                        new = _spilled_to(tally, pass_, old, room, reads_after[write])
                    home[in_kernel, pass_] = new
    tally.events[_WAKEUPS] = wakeups


@inlined
def _next_place(place: int, places: int) -> Any:
    """The next of so many places in a circle."""
    return place + 1 if place + 1 < places else 0


@inlined
def _on_from(place: int, steps: int, places: int) -> Any:
    """The place so many steps on from another; both are less than the places in the circle."""
    further = place + steps
    return further if further < places else further - places


@inlined
def index(number: int) -> Any:
    """Make a number an unsigned index, which needs no test for counting from the end."""
    return np.uint32(number)


@inner
def _start_passes(fault_map: Any, homes: Any) -> None:
    """Begin with every entry empty."""
    entries, all_blocks = homes.entries, homes.all_blocks
    homes.sets[:] = 0
    homes.arrivals.arrived[:] = 0
    for pass_ in range(len(homes.arrivals.arrived)):
        for entry in range(entries):
            usable = ~fault_map[entry] & all_blocks
            if usable == all_blocks:
                usable |= _RELIABLE
            homes.free[pass_ * entries + entry] = usable
            if usable:
                _include(homes.sets, _set_of(homes, pass_, usable), entry, True)


@inlined
def _set_of(homes: Any, pass_: int, free: int) -> int:
    """The set that an entry with these free blocks belongs to."""
    which = (_PART_FILLED + (free == _empty(homes))) if free & _RELIABLE else _SOUND_BLOCKS
    return pass_ * _SETS + which


@inlined
def _empty(homes: Any) -> Any:
    """Free blocks of a reliable entry that is empty."""
    return _RELIABLE | homes.all_blocks


@inlined
def _include(sets: Any, which: int, entry: int, member: bool) -> None:
    """Put an entry into a set if it is to be a member."""
    place = index(which * _WORDS + (entry >> 6))
    sets[place] |= np.uint64(member) << np.uint64(entry & 63)


@inlined
def _exclude(sets: Any, which: int, entry: int, no_member: bool) -> None:
    """Take an entry out of a set if it is no member any more."""
    place = index(which * _WORDS + (entry >> 6))
    sets[place] &= ~(np.uint64(no_member) << np.uint64(entry & 63))


@inlined
def _is_member(sets: Any, which: int, entry: int) -> bool:
    """Whether an entry is in a set."""
    word = sets[index(which * _WORDS + (entry >> 6))]
    return bool(word >> np.uint64(entry & 63) & np.uint64(1))


@inlined
def _first_member(homes: Any, which: int, start: int) -> Any:
    """First member of a set of entries at or after `start`, wrapping; -1 if the set is empty."""
    sets, words, word = homes.sets, homes.entries >> 6, start >> 6
    members = sets[index(which * _WORDS + word)] & (_ALL_64 << np.uint64(start & 63))
    if members:
        return (word << 6) + lowest_bit(members)
    for _ in range(words):
        word = _next_place(word, words)
        members = sets[index(which * _WORDS + word)]
        if members:
            return (word << 6) + lowest_bit(members)
    return -1


@inlined
def _find(
    residencies: Any, homes: Any, residency: int, pass_: int, rotations: int, in_block: bool
) -> Any:
    """Take the best free place for a residency as its home, or `SPILLED` if there is none."""
    if residencies.rules.borrows:
        return _take(homes, residencies.row[residency])
    start = _on_from(residencies.selector_starts[pass_], rotations, homes.entries)
    return _choose(homes, pass_, start, in_block)


@inlined
def _choose(homes: Any, pass_: int, start: int, in_block: bool) -> Any:
    """Take the best free place from `start` on as a home, or `SPILLED` if there is none."""
    sets, free, entries = homes.sets, homes.free, homes.entries
    sound = pass_ * _SETS
    part, empty = sound + _PART_FILLED, sound + EMPTY_RELIABLE
    if not in_block:
        entry = _first_member(homes, empty, start)
        if entry < 0:
            return SPILLED
        free[index(pass_ * entries + entry)] = _RELIABLE
        _exclude(sets, empty, entry, True)
        return entry * 8 + WHOLE_ENTRY
    entry = _first_member(homes, sound, start)
    if entry < 0:
        entry = _first_member(homes, part, start)
    if entry < 0:
        entry = _first_member(homes, empty, start)
    if entry < 0:
        return SPILLED
    blocks = free[index(pass_ * entries + entry)]
    left = blocks & (blocks - 1)
    free[index(pass_ * entries + entry)] = left
    if left & _RELIABLE:
        _exclude(sets, empty, entry, True)
        _exclude(sets, part, entry, left == _RELIABLE)
        _include(sets, part, entry, left != _RELIABLE)
    else:
        _exclude(sets, sound, entry, left == 0)
    return entry * 8 + lowest_bit(np.uint64(blocks))


@inlined
def _give_back(homes: Any, pass_: int, home: int) -> None:
    """Give back a home."""
    sets, free, empty = homes.sets, homes.free, _empty(homes)
    entry, block = home >> 3, home & 7
    place = index(pass_ * homes.entries + entry)
    if block == WHOLE_ENTRY:
        free[place] = empty
        _include(sets, pass_ * _SETS + EMPTY_RELIABLE, entry, True)
        return
    left = free[place] | (1 << block)
    free[place] = left
    _include(sets, _set_of(homes, pass_, left), entry, True)
    _exclude(sets, pass_ * _SETS + _PART_FILLED, entry, left == empty)


@inlined
def _move_in(arrivals: Any, pass_: int, occupant: int, home: int) -> None:
    """Let a residency become the occupant of its home."""
    entry, last = home >> 3, index(arrivals.arrived[pass_])
    arrivals.occupant[last, pass_] = occupant
    arrivals.entry[last, pass_] = entry
    arrivals.arrived[pass_] = last + 1


@inlined
def _spill(tally: Any, pass_: int, more: int, now: int) -> None:
    """Add a row to those that are spilled, or take a row from them."""
    tally.events[_ROW_CYCLES] += tally.spilled[pass_] * (now - tally.since[pass_])
    tally.since[pass_] = now
    tally.spilled[pass_] += more
    tally.peak[pass_] = max(tally.peak[pass_], tally.spilled[pass_])


@inlined
def _spilled_to(tally: Any, pass_: int, home: int, room: int, reads: int) -> int:
    """Count a write of a spilled row; to the LDS from memory, if there is room for the row."""
    events = tally.events
    events[LDS] += 1
    events[LDS_READS] += reads
    if home == _IN_MEMORY:
        if tally.in_lds[pass_] < room:
            tally.in_lds[pass_] += 1
            return SPILLED
        events[_MEMORY] += 1
        events[_MEMORY_READS] += reads
    return home


@inlined
def _leave(tally: Any, pass_: int, home: int, now: int) -> None:
    """Take a row from those that are spilled."""
    _spill(tally, pass_, -1, now)
    tally.in_lds[pass_] -= home == SPILLED


# GR-Guard as an event machine: every row has an entry of its own, and borrows another out of need.
#
# Toca-Diaz et al. (RRCD), section VI.B, after Tan et al. A residency is the life of a value: it
# gives its home back with the last read. The entries that are reliable and hold no live value are
# one set of bits; a home is always a whole entry. No selectors rotate: there is one pass.


@inlined
def _take(homes: Any, row: int) -> int:
    """Take the entry of a row if it holds no live value, else the lowest that holds none."""
    sets, entry = homes.sets, row
    if not _is_member(sets, EMPTY_RELIABLE, row):
        entry = _first_member(homes, EMPTY_RELIABLE, 0)
    if entry < 0:
        return SPILLED
    _exclude(sets, EMPTY_RELIABLE, entry, True)
    return entry * 8 + WHOLE_ENTRY


# Passes side by side: where they fill vectors, a register takes one of 256 entries to itself and no
# row is spilled, the free entries are four words of all passes, which stay in registers.
#
# The entries of a pass are counted from the start of its scan on, so that the first free one is the
# lowest bit; when the selectors rotate on, all bits move down by one.

_IN_LANES = 4 * ENTRIES_OF_WORD


@inner
def _place_in_lanes(residencies: Any, kernel: int, fault_map: Any, homes: Any) -> bool:
    """Place the residencies of a kernel in every pass; return whether all of them found homes."""
    home, arrivals, passes = homes.home, homes.arrivals, homes.home.shape[1]
    if homes.entries != _IN_LANES or passes % LANES or residencies.rules.in_blocks:
        return False
    kernels, operations, sets = residencies.kernels, residencies.operations, homes.sets
    starts, nothing, woken = residencies.selector_starts, in_all(0), np.int64(0)
    _free_from_start(fault_map, starts, sets)
    for first in range(0, passes, LANES):
        a, b = lanes_at(sets, first), lanes_at(sets, passes + first)
        c, d = lanes_at(sets, 2 * passes + first), lanes_at(sets, 3 * passes + first)
        start, arrived = lanes_at(starts, first), np.int64(first)
        for i in range(kernels.first_operation[kernel], kernels.first_operation[kernel + 1]):
            kind = operations.code[i] & (KINDS - 1)
            residency = np.int64(operations.code[i] // KINDS)
            at = (residency - kernels.first_residency[kernel]) * passes + first
            if kind == ADVANCE:
                start, around = start + 1, a << 63
                a, b = (a >> 1) | (b << 63), (b >> 1) | (c << 63)
                c, d = (c >> 1) | (d << 63), (d >> 1) | around
                continue
            if kind == FREE:
                entry = ((lanes_at(home, at) >> 3) - start) & (_IN_LANES - 1)
                word, bit = entry >> 6, in_all(1) << (entry & 63)
            else:
                chosen = where_zero(a, where_zero(b, where_zero(c, d, c), b), a)
                word = where_zero(b, where_zero(c, in_all(3), in_all(2)), in_all(1))
                word, bit = where_zero(a, word, nothing), chosen & (nothing - chosen)
                if zero_in(chosen):
                    return False
                entry = ((word << 6) + lowest_bits(chosen) + start) & (_IN_LANES - 1)
                put_lanes(home, at, (entry << 3) | WHOLE_ENTRY)
                put_lanes(arrivals.occupant, arrived, in_all(packed(int(residency), WHOLE_ENTRY)))
                put_lanes(arrivals.entry, arrived, entry)
                arrived += passes
                woken += LANES * residencies.wakes[residency]
            a, b = where_zero(word, a ^ bit, a), where_zero(word - 1, b ^ bit, b)
            c, d = where_zero(word - 2, c ^ bit, c), where_zero(word - 3, d ^ bit, d)
        arrivals.arrived[first : first + LANES] = arrived // passes
    homes.tally.events[_WAKEUPS] = woken
    return True


@inner
def _free_from_start(fault_map: Any, starts: Any, sets: Any) -> None:
    """Set the bits of the reliable entries, in each pass counted from the start of its scan on."""
    passes = len(starts)
    sets[:] = 0
    for entry in range(_IN_LANES):
        for pass_ in range(0 if fault_map[entry] else passes):
            ahead = (entry - starts[pass_]) & (_IN_LANES - 1)
            sets[(ahead >> 6) * passes + pass_] |= np.uint64(1) << np.uint64(ahead & 63)


# Who lived in an entry: residencies sorted by entry and pass.


class Occupants(NamedTuple):
    """Residencies of a kernel as occupants of the entries of a slice.

    Attributes
    ----------
    kernel : int
        Number of the kernel.
    first : int32[entries * passes + 1]
        ``first[passes * e + p]`` is the first occupant of entry e in pass p; the others follow in
        order of time.
    occupant : uint32[occupants]
        Occupants as `mcage.engines.numba_engine.homes` packs them.
    """

    kernel: int
    first: NDArray[np.int32]
    occupant: NDArray[np.uint32]


def new_occupants(kernel: int, entries: int, passes: int, residencies: int) -> Any:
    """Make space for up to so many residencies of a kernel in every pass."""
    return Occupants(
        kernel, np.empty(entries * passes + 1, np.int32), np.empty(passes * residencies, np.uint32)
    )


@inner
def least_and_most(numbers: Any) -> Any:
    """The least and the largest of some numbers."""
    least = most = numbers[0]
    for number in numbers:
        least, most = min(least, number), max(most, number)
    return least, most


@inner
def sort_occupants(arrivals: Any, fill: Any, occupants: Any) -> None:
    """Sort the residencies that found a home. `fill` is a workspace, int64[entries * passes]."""
    first, occupant_at, entry = occupants.first, occupants.occupant, arrivals.entry
    passes, total = len(arrivals.arrived), np.int64(0)
    least, most = least_and_most(arrivals.arrived)
    fill[:] = 0
    for i in range(most):
        for pass_ in range(passes):
            if i < least or i < arrivals.arrived[pass_]:
                fill[index(entry[i, pass_] * passes + pass_)] += 1
    for place in range(len(fill)):
        first[place], total, fill[place] = total, total + fill[place], total
    first[len(fill)] = total
    for i in range(most):
        for pass_ in range(passes):
            if i < least or i < arrivals.arrived[pass_]:
                place = index(entry[i, pass_] * passes + pass_)
                occupant_at[index(fill[place])] = arrivals.occupant[i, pass_]
                fill[place] += 1


@inner
def has_records(occupants: Any, first: int, last: int) -> bool:
    """Whether any of the occupants from the first to the last takes a block."""
    occupant_at = occupants.occupant
    for i in range(first, last):  # noqa: SIM110
        if block_of(occupant_at[i]) != WHOLE_ENTRY:
            return True
    return False


@inner
def leave_out_late(residencies: Any, kernel: int, homes: Any) -> None:
    """Give no home to residencies that began in the LDS; they are still among the arrivals."""
    arrivals, first = homes.arrivals, residencies.kernels.first_residency[kernel]
    if homes.tally.events[LDS] == 0:
        return
    for pass_ in range(len(arrivals.arrived)):
        for i in range(arrivals.arrived[pass_]):
            occupant = arrivals.occupant[i, pass_]
            if is_late(occupant):
                homes.home[residency_of(residencies, occupant) - first, pass_] = SPILLED


def homes_on(residencies: Residencies, kernel: int) -> Homes:
    """Make memory for the homes of an instance on a kernel."""
    first, end = residencies.kernels.first_residency[kernel : kernel + 2].tolist()
    homes: Homes = new_homes(residencies.slice_, len(residencies.selector_starts), end - first)
    return homes
