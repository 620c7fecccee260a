"""Who lived in an entry: the visits of runs to the entries of a slice, sorted by entry and pass."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import compiled, inner
from mcage.engines.numba_engine.placement.redirect import ENTRIES, WHOLE_ENTRY, block_of


class Occupants(NamedTuple):
    """Visits of the runs of one kernel.

    Attributes
    ----------
    first : int32[256 * passes + 1]
        ``first[passes * e + p]`` is the first visit to entry e in pass p; they follow in order of
        time.
    visit : int64[visits]
        What `mcage.engines.numba_engine.placement.redirect.packed` has made of it.
    """

    first: NDArray[np.int32]
    occupant: NDArray[np.int64]


@compiled
def new_occupants(passes: int, residencies: int) -> Any:
    """Room for the visits of up to so many runs in every pass."""
    return Occupants(
        np.empty(ENTRIES * passes + 1, np.int32), np.empty(passes * residencies, np.int64)
    )


@inner
def sort_occupants(homes: Any, fill: Any, occupants: Any) -> None:
    """Sort the homes that were found. `fill` is room to work, int64[256 * passes]."""
    first, occupant_at = occupants.first, occupants.occupant
    found, entry, founds, in_entry = homes.found, homes.entry, homes.founds, homes.in_entry
    passes = len(founds)
    total = np.int64(0)
    for place in range(ENTRIES * passes):
        first[place] = total
        fill[place] = total
        total += in_entry[place]
    first[ENTRIES * passes] = total
    for one in range(passes):
        for i in range(founds[one]):
            bucket = np.int64(entry[one, i]) * passes + one
            occupant_at[fill[bucket]] = found[one, i]
            fill[bucket] += 1


@inner
def has_records(occupants: Any, first: int, last: int) -> bool:
    """Whether some of these visits take a block."""
    occupant_at = occupants.occupant
    for i in range(first, last):  # noqa: SIM110
        if block_of(occupant_at[i]) != WHOLE_ENTRY:
            return True
    return False
