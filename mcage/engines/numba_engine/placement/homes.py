"""Homes of residencies on a fault map: by the event machine that the technique asks for."""

from typing import Any

from mcage.engines.numba_engine.jit import inner
from mcage.engines.numba_engine.placement.guard import borrow
from mcage.engines.numba_engine.placement.packing import is_late, residency_of
from mcage.engines.numba_engine.placement.redirect import (
    LDS,
    SPILLED,
    Homes,
    new_homes,
    place,
)
from mcage.engines.numba_engine.placement.residencies import Residencies


@inner
def find_homes(
    residencies: Any, owners: Any, kernel: int, fault_map: Any, homes: Any, counters: Any
) -> None:
    """Place the residencies of a kernel: parameters as for `redirect.place`.

    `owners` are those of `owners_of`; GR-Guard is compiled only where there are any.
    """
    if owners is None:
        place(residencies, kernel, fault_map, homes, counters)
    else:
        borrow(residencies, owners, kernel, fault_map, homes, counters)


@inner
def leave_out_late(residencies: Any, kernel: int, homes: Any) -> None:
    """Give no home to residencies that began in the LDS; they are still among the arrivals."""
    arrivals, first = homes.arrivals, residencies.kernels.first_residency[kernel]
    if homes.tally.events[LDS] == 0:
        return
    for pass_ in range(len(arrivals.arrived)):
        for i in range(arrivals.arrived[pass_]):
            occupant = arrivals.occupant[pass_, i]
            if is_late(occupant):
                homes.home[residency_of(residencies, occupant) - first, pass_] = SPILLED


def homes_on(residencies: Residencies, kernel: int) -> Homes:
    """Make memory for the homes of an instance on a kernel."""
    first, end = residencies.kernels.first_residency[kernel : kernel + 2].tolist()
    homes: Homes = new_homes(residencies.slice_, len(residencies.selector_starts), end - first)
    return homes
