"""Cell times of a slice from the arrivals of its values, entry by entry."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import ALL_BITS, clear, hand_over, plane_times
from mcage.engines.numba_engine.jit import compiled, inner
from mcage.engines.numba_engine.placement.contents import ALL_REGIONS, RECORD, WHOLE, Contents
from mcage.engines.numba_engine.placement.redirect import WHOLE_ENTRY


class Stored(NamedTuple):
    """What writes store.

    Attributes
    ----------
    contents : Contents
        Distinct contents.
    image, mask : int64[writes]
        Row of `Contents.planes` that each stores, and row of `Contents.masks` that it overwrites.
    gated : bool
        Whether a place is off while it holds no value.
    blocks : int
        Blocks of an entry.
    """

    contents: Contents
    image: NDArray[np.int64]
    mask: NDArray[np.int64]
    gated: bool
    blocks: int


@compiled
def times_of_slice(
    stored: Stored,
    arrivals: Any,
    first: NDArray[np.int64],
    orbit_cycles: np.int64,
    events: Any,
    times: Any,
    ones: NDArray[np.int64],
    powered: NDArray[np.int64],
) -> None:
    """Add the cycles of all cells at '1' and powered: int64[entries, components, 32].

    Parameters
    ----------
    stored : Stored
        What writes store.
    arrivals : Arrivals
        Values that come to the entries, entry after entry.
    first : int64[entries + 1]
        First arrival of each entry.
    orbit_cycles : int64
        Cycles after which all of it repeats.
    events, times : Events, Times
        Workspaces.
    ones, powered : int64[entries, components, 32]
        Added to.
    """
    for entry in range(len(first) - 1):
        begin, end = first[entry], first[entry + 1]
        if begin == end:
            continue
        clear(times, ALL_BITS)
        records = False
        for i in range(begin, end):
            records |= stored.mask[arrivals.write[i]] == RECORD
        for block in range(stored.blocks) if records else range(WHOLE_ENTRY, WHOLE_ENTRY + 1):
            whole = _gather(stored, arrivals, begin, end, orbit_cycles, block, events)
            plane_times(stored.contents, events, whole, ALL_BITS, block, times)
        hand_over(times, 1, ones[entry], powered[entry])


@inner
def _gather(
    stored: Any,
    arrivals: Any,
    begin: int,
    end: int,
    orbit_cycles: np.int64,
    block: int,
    events: Any,
) -> bool:
    """List what an entry, or a block of it, receives; whether all of it writes all components."""
    count, whole = 0, True
    previous = first_start = np.int64(0)
    for i in range(begin, end):
        write, when = arrivals.write[i], arrivals.cycle[i]
        mask = stored.mask[write]
        if mask == RECORD and arrivals.block[i] != block:
            continue
        whole &= mask == WHOLE
        events.image[count] = stored.image[write]
        events.mask[count] = mask
        events.regions[count] = ALL_REGIONS
        if stored.gated:
            events.held[count] = arrivals.until[i] - when
        elif count:
            events.held[count - 1] = when - previous
        else:
            first_start = when
        previous = when
        count += 1
    if count and not stored.gated:
        events.held[count - 1] = first_start + orbit_cycles - previous
    events.orbits[1] = count
    return whole
