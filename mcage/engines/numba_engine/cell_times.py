"""Cycles that the cells of an entry hold '1' and are powered, a bit of all components at a time."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.aligned import aligned_zeros
from mcage.engines.numba_engine.events import gather_events, lit_components
from mcage.engines.numba_engine.jit import inner
from mcage.engines.numba_engine.placement.contents import ALL_COMPONENTS, BITS
from mcage.engines.numba_engine.placement.occupants import has_records
from mcage.engines.numba_engine.placement.packing import begin_of, block_of, residency_of
from mcage.engines.numba_engine.placement.redirect import WHOLE_ENTRY
from mcage.engines.numba_engine.placement.residencies import END, EVER, PARTIAL, WRITES_END
from mcage.engines.numba_engine.simd import (
    AT_ONCE,
    FIRST_BITS,
    add_where,
    lowest_bit,
    prefetch,
    sum_components,
    sum_plane,
    sum_planes,
)
from mcage.engines.numba_engine.vectors import COMPONENTS

AT_ONCE_BITS = np.uint64(FIRST_BITS)
ALL_BITS = np.uint64(0xFFFF_FFFF)
_NEAR, _FAR, _FARTHEST = 3, 8, 16
"""Occupants between the one at hand and those that are asked for."""

_LINE = 8
"""Planes in a cache line."""

_LINE_BITS = np.uint64((1 << _LINE) - 1)
_LOWEST = np.uint64(1)

_ALONE = 2
"""Bits of `AT_ONCE` up to which it is better to look at each for itself."""


class Times(NamedTuple):
    """Cycles of the cells of an entry at '1' and powered, by bit and component: T[32, 64]."""

    ones: NDArray[np.unsignedinteger]
    powered: NDArray[np.unsignedinteger]


def new_times(cycles: Any) -> Any:
    """Make times of an entry; `cycles` is an array of the type of sums of cycles."""
    return Times(
        aligned_zeros((BITS, COMPONENTS), cycles.dtype),
        aligned_zeros((BITS, COMPONENTS), cycles.dtype),
    )


@inner
def plane_times(
    contents: Any, events: Any, whole: bool, chosen: np.uint64, block: int, times: Any
) -> None:
    """Add the times of the chosen bits of a block's components; block 4 is the whole entry.

    Parameters
    ----------
    contents, events : Contents, Events
        What happens to the entry.
    whole : bool
        Whether every event writes all components that matter.
    chosen : uint64
        Set of bits.
    block : int
        Block, or 4.
    times : Times
        Added to.
    """
    count = events.orbits[len(events.orbits) - 1]
    if whole and block == WHOLE_ENTRY:
        total = 0
        for i in range(count):
            total += events.held[i]
        for first in range(0, BITS, AT_ONCE):
            if chosen >> np.uint64(first) & AT_ONCE_BITS:
                sum_planes(contents.planes, events.image, events.held, 0, count, first, times.ones)
                for bit in range(first, first + AT_ONCE):
                    add_everywhere(times.powered, bit, total)
    else:
        for bit in range(BITS):
            if chosen >> np.uint64(bit) & np.uint64(1):
                lit_components(contents, events, bit, block)
                sum_components(events.lit, events.held, count, times.ones, bit)
                sum_components(events.powered, events.held, count, times.powered, bit)


@inner
def gathered_times(
    residencies: Any, occupants: Any, entry: int, chosen: np.uint64, events: Any, times: Any
) -> None:
    """Add the times of the chosen bits of an entry, whatever is written to it."""
    passes = len(residencies.selector_starts)
    records = has_records(
        occupants, occupants.first[entry * passes], occupants.first[(entry + 1) * passes]
    )
    for block in (
        range(residencies.slice_.blocks) if records else range(WHOLE_ENTRY, WHOLE_ENTRY + 1)
    ):
        whole = gather_events(residencies, occupants, entry, block, events)
        plane_times(residencies.contents, events, whole, chosen, block, times)


@inner
def whole_times(
    residencies: Any, occupants: Any, entry: int, chosen: np.uint64, times: Any
) -> None:
    """Add the times of the chosen bits of an entry that is always written as a whole.

    Of `AT_ONCE` bits next to each other all are added up, unless few of them are chosen: then each
    is added for itself, and a residency of which all components, or none, show a '1' all the time
    need not be looked into.

    Parameters
    ----------
    residencies, occupants, entry : Residencies, Occupants, int
        Occupants of an entry.
    chosen : uint64
        Set of bits.
    times : Times
        Added to.
    """
    facts, cycle, gated = residencies.facts, residencies.writes.cycle, residencies.rules.gated
    cycles = residencies.kernels.cycles[occupants.kernel]
    passes, powered, together = len(residencies.selector_starts), np.int64(0), np.uint64(0)
    for first in range(0, BITS, AT_ONCE):
        if _members(chosen >> np.uint64(first) & AT_ONCE_BITS) > _ALONE:
            together |= AT_ONCE_BITS << np.uint64(first)
    last_occupant = occupants.first[(entry + 1) * passes] - 1
    for pass_ in range(passes):
        place = entry * passes + pass_
        begin, last = occupants.first[place], occupants.first[place + 1]
        if begin == last:
            continue
        previous = np.int64(-1)
        first_start, previous_end = np.int64(0), np.int64(0)
        for i in range(begin, last):
            _look_ahead(residencies, occupants, i, last_occupant, chosen)
            occupant = occupants.occupant[i]
            residency = residency_of(residencies, occupant)
            write = begin_of(residencies, occupant)
            start, end = np.int64(cycle[write]), np.int64(facts[residency, END])
            if previous < 0:
                first_start = start
            elif not gated:
                _add_left(residencies, previous, chosen, start - previous_end, times)
            _add_whole(residencies, residency, write, end - start, chosen, together, times)
            if gated:
                powered += end - start
            previous, previous_end = np.int64(residency), end
        if not gated:
            until = np.int64(first_start + cycles)
            _add_left(residencies, previous, chosen, until - previous_end, times)
            powered += np.int64(cycles)
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & _LOWEST:
            add_everywhere(times.powered, bit, powered)


@inner
def _add_whole(
    residencies: Any,
    residency: int,
    write: int,
    lasts: np.int64,
    chosen: np.uint64,
    together: np.uint64,
    times: Any,
) -> None:
    """Add what a residency shows from a write on; those of `together` are added up together."""
    planes, image = residencies.contents.planes, residencies.writes.image
    duration, ever = residencies.writes.duration, residencies.facts[residency, EVER]
    end = np.int64(residencies.facts[residency, WRITES_END])
    left = together
    while left:
        first = lowest_bit(left)
        sum_planes(planes, image, duration, write, end, first, times.ones)
        left &= ~(AT_ONCE_BITS << np.uint64(first))
    left = chosen & ~together & ever
    while left:
        bit = lowest_bit(left)
        if _meets_zero(ever, bit):
            sum_plane(planes, image, duration, write, end, bit, times.ones)
        else:
            add_everywhere(times.ones, bit, lasts)
        left &= left - _LOWEST


@inner
def _look_ahead(residencies: Any, occupants: Any, at: int, last: int, chosen: np.uint64) -> None:
    """Ask for what the occupants to come will need: their writes, then the planes of these."""
    writes, facts = residencies.writes, residencies.facts
    farthest = occupants.occupant[min(at + _FARTHEST, last)]
    prefetch(facts, residency_of(residencies, farthest), 0)
    far = begin_of(residencies, occupants.occupant[min(at + _FAR, last)])
    prefetch(writes.image, far, 0)
    prefetch(writes.duration, far, 0)
    prefetch(writes.cycle, far, 0)
    near = occupants.occupant[min(at + _NEAR, last)]
    begin = begin_of(residencies, near)
    end = np.int64(facts[residency_of(residencies, near), WRITES_END])
    for bit in range(0, BITS, _LINE):
        if chosen >> np.uint64(bit) & _LINE_BITS:
            for write in range(begin, end):
                prefetch(residencies.contents.planes, int(writes.image[write]), bit)


@inner
def _members(bits: np.uint64) -> int:
    """How many bits of a word are set."""
    count = 0
    while bits:
        bits &= bits - np.uint64(1)
        count += 1
    return count


@inner
def _meets_zero(ever: np.uint64, bit: int) -> np.uint64:
    """Whether some component has a bit at '0' at any time of a residency."""
    return ever >> np.uint64(BITS + bit) & np.uint64(1)


@inner
def _add_left(
    residencies: Any, residency: np.int64, chosen: np.uint64, cycles: np.int64, times: Any
) -> None:
    """Add the cycles for which what a residency has left stays in the entry."""
    last_write = np.int64(residencies.facts[residency, WRITES_END]) - 1
    row = residencies.writes.image[last_write]
    left = chosen
    while left:
        bit = lowest_bit(left)
        plane = residencies.contents.planes[row, bit]
        add_where(times.ones, bit, plane, times.ones.dtype.type(cycles))
        left &= left - _LOWEST


@inner
def only_whole(residencies: Any, occupants: Any, entry: int) -> bool:
    """Whether an entry is always written as a whole."""
    if residencies.kernels.whole[occupants.kernel]:
        return True
    passes = len(residencies.selector_starts)
    for i in range(occupants.first[entry * passes], occupants.first[(entry + 1) * passes]):
        occupant = occupants.occupant[i]
        residency = residency_of(residencies, occupant)
        if block_of(occupant) != WHOLE_ENTRY or residencies.facts[residency, PARTIAL]:
            return False
    return True


@inner
def add_everywhere(sums: Any, bit: int, cycles: Any) -> None:
    """Add cycles to all components."""
    add_where(sums, bit, ALL_COMPONENTS, sums.dtype.type(cycles))


@inner
def hand_over(times: Any, occupants: int, ones: Any, powered: Any) -> None:
    """Add the times of an entry that so many occupants alike have made to int64[components, 32]."""
    for component in range(len(ones)):
        for bit in range(BITS):
            ones[component, bit] += occupants * np.int64(times.ones[bit, component])
            powered[component, bit] += occupants * np.int64(times.powered[bit, component])


@inner
def clear(times: Any, chosen: np.uint64) -> None:
    """Forget the times of the chosen bits, and of those that are summed up together with them."""
    for bit in range(BITS):
        if chosen >> np.uint64(bit - bit % AT_ONCE) & AT_ONCE_BITS:
            for component in range(COMPONENTS):
                times.ones[bit, component] = 0
                times.powered[bit, component] = 0
