"""Writes that an entry receives, and what its cells hold after each, a bit at a time.

Bit b of the components of an entry is a plane, a 64-bit word. An event of the entry is a write
that it receives: what it puts into a plane, in which components, and for how long that counts.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import inner
from mcage.engines.numba_engine.placement.contents import ALL_COMPONENTS, ALL_REGIONS, RECORD
from mcage.engines.numba_engine.placement.packing import begin_of, block_of, residency_of
from mcage.engines.numba_engine.placement.redirect import WHOLE_ENTRY
from mcage.engines.numba_engine.placement.residencies import END, PARTIAL, WRITES_END

_NOTHING = np.uint64(0)


class Events(NamedTuple):
    """Writes that an entry, or a block of it, receives, orbit after orbit; arrays [events].

    An orbit of passes repeats for ever: its first event meets what its last one left.

    Attributes
    ----------
    image, mask, regions : uint32, int64, int64
        Row of `Contents.planes`, row of `Contents.masks`, set of regions.
    when, held : int64, uint32 or int64
        When the write happens; for how long what it leaves counts.
    orbits : int64[orbits + 1]
        First event of each orbit.
    lit, powered : uint64
        Workspace: components of a plane at '1', and powered, after each event.
    """

    image: NDArray[np.uint32]
    mask: NDArray[np.int64]
    regions: NDArray[np.int64]
    when: NDArray[np.int64]
    held: NDArray[np.unsignedinteger]
    orbits: NDArray[np.int64]
    lit: NDArray[np.uint64]
    powered: NDArray[np.uint64]


def new_events(events: int, orbits: int, cycles: Any) -> Any:
    """Make space for so many events; `cycles` is an array of the type of sums of cycles."""
    return Events(
        np.empty(events, np.uint32),
        np.empty(events, np.int64),
        np.empty(events, np.int64),
        np.empty(events, np.int64),
        np.empty(events, cycles.dtype),
        np.zeros(orbits + 1, np.int64),
        np.empty(events, np.uint64),
        np.empty(events, np.uint64),
    )


@inner
def gather_events(residencies: Any, occupants: Any, entry: int, block: int, events: Any) -> bool:
    """List what an entry, or a block of it, receives in all passes; every pass is an orbit.

    Parameters
    ----------
    residencies, occupants : Residencies, Occupants
        A redirected replay.
    entry : int
        Entry.
    block : int
        Block: its own records count, and occupants of the whole entry. Or 4: no records.
    events : Events
        Where the list goes.

    Returns
    -------
    bool
        Whether every event writes all components that matter.
    """
    writes, facts, gated = residencies.writes, residencies.facts, residencies.rules.gated
    image, duration, cycle = writes.image, writes.duration, writes.cycle
    cycles = residencies.kernels.cycles[occupants.kernel]
    image_at, held_at, orbits = events.image, events.held, events.orbits
    occupant_at, first_at = occupants.occupant, occupants.first
    passes = len(residencies.selector_starts)
    count = 0
    whole = True
    for pass_ in range(passes):
        place = entry * passes + pass_
        start, first_start, previous_end = count, np.int64(0), np.int64(0)
        for i in range(first_at[place], first_at[place + 1]):
            occupant = occupant_at[i]
            if block_of(occupant) != WHOLE_ENTRY and block_of(occupant) != block:
                continue
            residency = residency_of(residencies, occupant)
            begin = begin_of(residencies, occupant)
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
        orbits[pass_ + 1] = count
    if not whole or block != WHOLE_ENTRY:
        _gather_masks(residencies, occupants, entry, block, events)
    return whole


@inner
def _gather_masks(residencies: Any, occupants: Any, entry: int, block: int, events: Any) -> None:
    """Find out which components each event writes."""
    passes, write_starts = len(residencies.selector_starts), residencies.write_starts
    mask = residencies.writes.mask
    count = 0
    for i in range(occupants.first[entry * passes], occupants.first[(entry + 1) * passes]):
        occupant = occupants.occupant[i]
        if block_of(occupant) == WHOLE_ENTRY or block_of(occupant) == block:
            end = write_starts[residency_of(residencies, occupant) + 1]
            for write in range(begin_of(residencies, occupant), end):
                events.mask[count] = mask[write]
                events.regions[count] = ALL_REGIONS
                count += 1


@inner
def lit_components(contents: Any, events: Any, bit: int, block: int) -> None:
    """Find out which components are lit and powered after each event, whatever events write.

    `contents` are those of the residencies; `bit` is that of the plane. Block 4 is the whole entry.
    """
    orbits, lit, powered = events.orbits, events.lit, events.powered
    image, mask, regions = events.image, events.mask, events.regions
    planes, masks, regions_on = contents.planes, contents.masks, contents.regions_on
    components = ALL_COMPONENTS
    if block != WHOLE_ENTRY:
        components = contents.first_block[0] << np.uint64(block * contents.block_components)
    for orbit in range(len(orbits) - 1):
        content, written = _NOTHING, _NOTHING
        for turn in range(2):  # the first turn finds out what the last event leaves
            for i in range(orbits[orbit], orbits[orbit + 1]):
                shift = np.uint64(0)
                if mask[i] == RECORD:
                    shift = np.uint64(block * contents.block_components)
                cells = masks[mask[i], bit] << shift
                content = (content & ~cells) | (planes[image[i], bit] << shift & cells)
                written |= cells
                if turn:
                    on = components & regions_on[regions[i], bit]
                    lit[i] = content & on
                    powered[i] = written & on
