"""What the cells of an entry go through: one bit of all 64 components at a time.

A bit of 64 components is a plane, one 64-bit word. The events of an entry are the writes that it
receives; each says what it puts into a plane, in which lanes, and for how long that counts.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import compiled, inner
from mcage.engines.numba_engine.placement.occupants import has_records
from mcage.engines.numba_engine.placement.redirect import (
    WHOLE_ENTRY,
    begin_of,
    block_of,
    residency_of,
)
from mcage.engines.numba_engine.placement.residencies import (
    ALL_REGIONS,
    BITS,
    END,
    EVER,
    PARTIAL,
    RECORD,
    WRITES_END,
)
from mcage.engines.numba_engine.simd import (
    AT_ONCE,
    FIRST_BITS,
    LANES,
    add_where,
    prefetch,
    sum_lanes,
    sum_plane,
    sum_planes,
)
from mcage.geometry import SLICE

BLOCKS = SLICE.blocks
BLOCK_LANES = SLICE.block_components
ALL_LANES = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_FIRST_BLOCK = np.uint64((1 << BLOCK_LANES) - 1)
_NOTHING = np.uint64(0)
AT_ONCE_BITS = np.uint32(FIRST_BITS)
ALL_BITS = np.uint32(0xFFFF_FFFF)
_NEAR, _FAR = 3, 8
"""Visits between the one at hand and those that are asked for."""

_ALONE = 2
"""Bits of `AT_ONCE` that are better looked at one by one."""


class Events(NamedTuple):
    """Writes that an entry, or a block of it, receives, world after world; arrays [events].

    A world is cyclic: its first event finds what its last one left.

    Attributes
    ----------
    image, mask, regions : uint32, int64, int64
        Row of `Residencies.planes`, row of `Residencies.masks`, set of regions.
    when, held : int64, uint32 or int64
        When the write happens; for how long what it leaves counts.
    worlds : int64[worlds + 1]
        First event of each world.
    lit, powered : uint64
        Room to work: lanes of a plane at '1', and powered, after each event.
    """

    image: NDArray[np.uint32]
    mask: NDArray[np.int64]
    regions: NDArray[np.int64]
    when: NDArray[np.int64]
    held: NDArray[np.unsignedinteger]
    orbits: NDArray[np.int64]
    lit: NDArray[np.uint64]
    powered: NDArray[np.uint64]


class Times(NamedTuple):
    """Cycles of the cells of an entry at '1' and powered, by bit and component: T[32, 64]."""

    ones: NDArray[np.unsignedinteger]
    powered: NDArray[np.unsignedinteger]


@compiled
def new_events(events: int, orbits: int, sums: Any) -> Any:
    """Room for so many events; `sums` is an array of the type of sums."""
    return Events(
        np.empty(events, np.uint32),
        np.empty(events, np.int64),
        np.empty(events, np.int64),
        np.empty(events, np.int64),
        np.empty(events, sums.dtype),
        np.zeros(orbits + 1, np.int64),
        np.empty(events, np.uint64),
        np.empty(events, np.uint64),
    )


@compiled
def new_times(sums: Any) -> Any:
    """Times of an entry; `sums` is an array of the type of sums."""
    return Times(np.zeros((BITS, LANES), sums.dtype), np.zeros((BITS, LANES), sums.dtype))


@inner
def gather_events(
    residencies: Any, kernel: int, occupants: Any, entry: int, block: int, events: Any
) -> bool:
    """List what an entry, or a block of it, receives in all passes.

    Parameters
    ----------
    runs, kernel, visits : Runs, int, Visits
        A redirected replay.
    entry : int
        Entry.
    block : int
        Block: its own records count, and visits to the whole entry. Or 4: no records.
    events : Events
        Where the list goes.

    Returns
    -------
    bool
        Whether every event writes all lanes that matter.
    """
    image, duration, cycle = residencies.image, residencies.duration, residencies.cycle
    facts, gated, cycles = residencies.facts, residencies.gated, residencies.cycles[kernel]
    image_at, held_at, orbits = events.image, events.held, events.orbits
    occupant_at, first_at = occupants.occupant, occupants.first
    passes = len(residencies.selector_starts)
    count = 0
    whole = True
    for one in range(passes):
        place = entry * passes + one
        start, first_start, previous_end = count, np.int64(0), np.int64(0)
        for i in range(first_at[place], first_at[place + 1]):
            occupant = occupant_at[i]
            if block_of(occupant) != WHOLE_ENTRY and block_of(occupant) != block:
                continue
            residency, begin = residency_of(occupant), begin_of(occupant)
            whole &= block_of(occupant) == WHOLE_ENTRY and facts[residency, PARTIAL] == 0
            if not gated:
                if count > start:
                    held_at[count - 1] += cycle[begin] - previous_end
                else:
                    first_start = cycle[begin]
                previous_end = np.int64(facts[residency, END])
            for write in range(begin, np.int64(facts[residency, WRITES_END])):
                image_at[count] = image[write]
                held_at[count] = duration[write]
                count += 1
        if not gated and count > start:
            held_at[count - 1] += first_start + cycles - previous_end
        orbits[one + 1] = count
    if not whole or block != WHOLE_ENTRY:
        _gather_masks(residencies, occupants, entry, block, events)
    return whole


@inner
def _gather_masks(residencies: Any, occupants: Any, entry: int, block: int, events: Any) -> None:
    """Which lanes each event writes."""
    passes = len(residencies.selector_starts)
    count = 0
    for i in range(occupants.first[entry * passes], occupants.first[(entry + 1) * passes]):
        occupant = occupants.occupant[i]
        if block_of(occupant) == WHOLE_ENTRY or block_of(occupant) == block:
            for write in range(
                begin_of(occupant), residencies.write_starts[residency_of(occupant) + 1]
            ):
                events.mask[count] = residencies.mask[write]
                events.regions[count] = ALL_REGIONS
                count += 1


@inner
def plane_times(
    residencies: Any, events: Any, whole: bool, chosen: np.uint32, block: int, times: Any
) -> None:
    """Add the times of some bits of the 64 components, or of those of a block that is not 4."""
    count = events.orbits[len(events.orbits) - 1]
    if whole and block == WHOLE_ENTRY:
        total = 0
        for i in range(count):
            total += events.held[i]
        for first in range(0, BITS, AT_ONCE):
            if chosen >> np.uint32(first) & AT_ONCE_BITS:
                sum_planes(
                    residencies.planes, events.image, events.held, 0, count, first, times.ones
                )
                for bit in range(first, first + AT_ONCE):
                    add_everywhere(times.powered, bit, total)
    else:
        for bit in range(BITS):
            if chosen >> np.uint32(bit) & np.uint32(1):
                lit_lanes(residencies, events, bit, block)
                sum_lanes(events.lit, events.held, count, times.ones, bit)
                sum_lanes(events.powered, events.held, count, times.powered, bit)


@inner
def gathered_times(
    residencies: Any,
    kernel: int,
    occupants: Any,
    entry: int,
    chosen: np.uint32,
    events: Any,
    times: Any,
) -> None:
    """Add the times of some bits of an entry, whatever is written to it."""
    passes = len(residencies.selector_starts)
    records = has_records(
        occupants, occupants.first[entry * passes], occupants.first[(entry + 1) * passes]
    )
    for block in range(BLOCKS) if records else range(WHOLE_ENTRY, WHOLE_ENTRY + 1):
        whole = gather_events(residencies, kernel, occupants, entry, block, events)
        plane_times(residencies, events, whole, chosen, block, times)


@inner
def visited_planes(
    residencies: Any,
    kernel: int,
    occupants: Any,
    entry: int,
    first: int,
    chosen: np.uint32,
    times: Any,
) -> None:
    """Add the times of `AT_ONCE` bits of an entry that is always written as a whole.

    Parameters
    ----------
    runs, kernel, visits, entry : Runs, int, Visits, int
        Visits to an entry.
    first : int
        First of the bits.
    chosen : uint32
        Bits that matter. Few of them are added one by one: then a run of which all components, or
        none, show a '1' all the time need not be looked into.
    times : Times
        Added to.
    """
    facts, cycle, gated = residencies.facts, residencies.cycle, residencies.gated
    passes, last_bit = len(residencies.selector_starts), first + AT_ONCE
    together = _members(chosen >> np.uint32(first) & AT_ONCE_BITS) > _ALONE
    powered = np.int64(0)
    last_occupant = occupants.first[(entry + 1) * passes] - 1
    for one in range(passes):
        place = entry * passes + one
        begin, last = occupants.first[place], occupants.first[place + 1]
        if begin == last:
            continue
        previous = np.int64(-1)
        first_start, previous_end = np.int64(0), np.int64(0)
        for i in range(begin, last):
            _look_ahead(residencies, occupants, i, last_occupant, first)
            occupant = occupants.occupant[i]
            residency, write = residency_of(occupant), begin_of(occupant)
            start, end = cycle[write], np.int64(facts[residency, END])
            if previous < 0:
                first_start = np.int64(start)
            elif not gated:
                _add_left(residencies, previous, first, start - previous_end, times)
            writes_end = np.int64(facts[residency, WRITES_END])
            if together:
                sum_planes(
                    residencies.planes,
                    residencies.image,
                    residencies.duration,
                    write,
                    writes_end,
                    first,
                    times.ones,
                )
            else:
                for bit in range(first, last_bit):
                    if chosen >> np.uint32(bit) & np.uint32(1):
                        _add_residency(
                            residencies,
                            facts[residency, EVER],
                            write,
                            writes_end,
                            bit,
                            end - start,
                            times,
                        )
            if gated:
                powered += end - start
            previous, previous_end = np.int64(residency), end
        if not gated:
            until = np.int64(first_start + residencies.cycles[kernel])
            _add_left(residencies, previous, first, until - previous_end, times)
            powered += np.int64(residencies.cycles[kernel])
    for bit in range(first, last_bit):
        add_everywhere(times.powered, bit, powered)


@inner
def _look_ahead(residencies: Any, occupants: Any, at: int, last: int, bit: int) -> None:
    """Ask for what the visits to come will need: their writes, then the planes of these."""
    far = occupants.occupant[min(at + _FAR, last)]
    prefetch(residencies.facts, residency_of(far), 0)
    prefetch(residencies.image, begin_of(far), 0)
    prefetch(residencies.duration, begin_of(far), 0)
    prefetch(residencies.cycle, begin_of(far), 0)
    near = occupants.occupant[min(at + _NEAR, last)]
    for write in range(begin_of(near), np.int64(residencies.facts[residency_of(near), WRITES_END])):
        prefetch(residencies.planes, int(residencies.image[write]), bit)


@inner
def _members(some: np.uint32) -> int:
    """How many bits of a word are set."""
    count = 0
    while some:
        some &= some - np.uint32(1)
        count += 1
    return count


@inner
def _add_residency(
    residencies: Any,
    ever: np.uint64,
    begin: int,
    end: np.int64,
    bit: int,
    own: np.int64,
    times: Any,
) -> None:
    """Add what a bit shows during a run."""
    member = np.uint64(1)
    if ever >> np.uint64(bit) & member:
        if ever >> np.uint64(BITS + bit) & member:
            sum_plane(
                residencies.planes,
                residencies.image,
                residencies.duration,
                begin,
                end,
                bit,
                times.ones,
            )
        else:
            add_everywhere(times.ones, bit, own)


@inner
def _add_left(
    residencies: Any, residency: np.int64, first: int, cycles: np.int64, times: Any
) -> None:
    """What a run has left stays for some cycles more."""
    row = residencies.image[np.int64(residencies.facts[residency, WRITES_END]) - 1]
    for bit in range(first, first + AT_ONCE):
        add_where(times.ones, bit, residencies.planes[row, bit], times.ones.dtype.type(cycles))


@inner
def only_whole(residencies: Any, occupants: Any, entry: int) -> bool:
    """Whether an entry is always written as a whole."""
    passes = len(residencies.selector_starts)
    for i in range(occupants.first[entry * passes], occupants.first[(entry + 1) * passes]):
        occupant = occupants.occupant[i]
        if block_of(occupant) != WHOLE_ENTRY or residencies.facts[residency_of(occupant), PARTIAL]:
            return False
    return True


@inner
def add_everywhere(sums: Any, bit: int, cycles: Any) -> None:
    """Add some cycles to all lanes."""
    add_where(sums, bit, ALL_LANES, sums.dtype.type(cycles))


@inner
def hand_over(times: Any, occupants: int, ones: Any, powered: Any) -> None:
    """Add the times of an entry that so many visits alike have made to int64[64, 32]."""
    for lane in range(LANES):
        for bit in range(BITS):
            ones[lane, bit] += occupants * np.int64(times.ones[bit, lane])
            powered[lane, bit] += occupants * np.int64(times.powered[bit, lane])


@inner
def clear(times: Any, chosen: np.uint32) -> None:
    """Forget the times of some bits, and of those that are summed up together with them."""
    for bit in range(BITS):
        if chosen >> np.uint32(bit - bit % AT_ONCE) & AT_ONCE_BITS:
            for lane in range(LANES):
                times.ones[bit, lane] = 0
                times.powered[bit, lane] = 0


@inner
def lit_lanes(residencies: Any, events: Any, bit: int, block: int) -> None:
    """What is lit and powered after each event, where some write only some lanes."""
    orbits, lit, powered = events.orbits, events.lit, events.powered
    image, mask, regions = events.image, events.mask, events.regions
    planes, masks, regions_on = residencies.planes, residencies.masks, residencies.regions_on
    lanes = ALL_LANES
    if block != WHOLE_ENTRY:
        lanes = _FIRST_BLOCK << np.uint64(block * BLOCK_LANES)
    for orbit in range(len(orbits) - 1):
        content, written = _NOTHING, _NOTHING
        for turn in range(2):  # the first one finds out what the last event leaves
            for i in range(orbits[orbit], orbits[orbit + 1]):
                shift = np.uint64(0)
                if mask[i] == RECORD:
                    shift = np.uint64(block * BLOCK_LANES)
                cells = masks[mask[i], bit] << shift
                content = (content & ~cells) | (planes[image[i], bit] << shift & cells)
                written |= cells
                if turn:
                    on = lanes & regions_on[regions[i], bit]
                    lit[i] = content & on
                    powered[i] = written & on
