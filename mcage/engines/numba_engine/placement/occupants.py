"""Who lived in an entry: residencies sorted by entry and pass."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import inner
from mcage.engines.numba_engine.placement.packing import block_of
from mcage.engines.numba_engine.placement.redirect import WHOLE_ENTRY


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
        Occupants as `mcage.engines.numba_engine.placement.packing` packs them.
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
def sort_occupants(arrivals: Any, fill: Any, occupants: Any) -> None:
    """Sort the residencies that found a home. `fill` is a workspace, int64[entries * passes]."""
    first, occupant_at, in_entry = occupants.first, occupants.occupant, arrivals.in_entry
    passes, places = len(arrivals.arrived), len(in_entry) - 1
    total = np.int64(0)
    for place in range(places):
        first[place] = total
        fill[place] = total
        total += in_entry[place]
    first[places] = total
    for pass_ in range(passes):
        for i in range(arrivals.arrived[pass_]):
            bucket = np.int64(arrivals.entry[pass_, i]) * passes + pass_
            occupant_at[fill[bucket]] = arrivals.occupant[pass_, i]
            fill[bucket] += 1


@inner
def has_records(occupants: Any, first: int, last: int) -> bool:
    """Whether any of the occupants from the first to the last takes a block."""
    occupant_at = occupants.occupant
    for i in range(first, last):  # noqa: SIM110
        if block_of(occupant_at[i]) != WHOLE_ENTRY:
            return True
    return False
