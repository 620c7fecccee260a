"""The first step of an epoch, and all that counting takes: where everything lives.

Counting asks for homes alone. It calls the same function, with no instances to log and bound: the
selectors of redirection are compiled once.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import compiled, inner
from mcage.engines.numba_engine.placement.homes import find_homes, leave_out_late
from mcage.engines.numba_engine.placement.occupants import sort_occupants
from mcage.engines.numba_engine.placement.redirect import LDS, Homes, with_home
from mcage.engines.numba_engine.placement.residencies import Residencies, owners_of
from mcage.engines.numba_engine.stress.bounds import Views, bound_homes, bound_occupants, new_views
from mcage.engines.numba_engine.stress.epoch_log import EpochLog, new_epoch_log, occupants_in
from mcage.engines.numba_engine.stress.kept_cells import Cells, new_cells, raise_bounds
from mcage.engines.numba_engine.stress.workspace import PlacementWorkspace


class Batch(NamedTuple):
    """What instances run in an epoch: all of them the same kernel.

    Attributes
    ----------
    kernel : int
        The kernel.
    scale : float
        Seconds that a cycle stands for.
    instances : int64[m]
        Instances.
    fault_maps : uint8[n, entries]
        Fault map of each; those beyond the instances are placed, and nothing else.
    """

    kernel: int
    scale: float
    instances: NDArray[np.int64]
    fault_maps: NDArray[np.uint8]


def count(
    residencies: Residencies,
    kernel: int,
    fault_maps: NDArray[np.uint8],
    homes: Homes,
    counters: NDArray[np.int64],
) -> None:
    """Count the events of every instance on a kernel: uint8[n, entries], int64[n, 8].

    `homes` are those of the last instance then.
    """
    entries, passes = residencies.slice_.entries, len(residencies.selector_starts)
    nobody, narrow = np.zeros(0, np.int64), _without_durations(residencies)
    place_and_bound(
        narrow,
        owners_of(residencies),
        Batch(kernel, 1.0, nobody, fault_maps),
        new_epoch_log(entries * passes, 0, 0, np.empty(0, np.uint32)),
        new_cells(entries, 0),
        PlacementWorkspace(homes, nobody, counters, homes.home[None, :0], np.zeros(0, np.bool_)),
        new_views(entries, passes, narrow.at_most),
        False,
    )


def _without_durations(residencies: Residencies) -> Residencies:
    """Residencies of long traces as those of short ones, for which the selectors are compiled.

    Where registers live depends on no duration, of which traces beyond 32 bits have wider ones.
    """
    writes, at_most = residencies.writes, residencies.at_most
    if at_most.dtype == np.uint32:
        return residencies
    return residencies._replace(
        writes=writes._replace(duration=_none_of(writes.duration)), at_most=_none_of(at_most)
    )


def _none_of(array: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    """An empty array of 32-bit numbers that is written to where the array is."""
    empty = array[:0].astype(np.uint32)
    empty.flags.writeable = array.flags.writeable
    return empty


@compiled
def place_and_bound(
    residencies: Residencies,
    owners: NDArray[np.int64] | None,
    batch: Batch,
    epoch_log: EpochLog,
    cells: Cells,
    placement: PlacementWorkspace,
    views: Views,
    by_itself: bool,
) -> None:
    """Place the residencies of instances that run the same kernel, and bound their cells.

    Writes into the log who lived where. `owners`: see `owners_of`. `by_itself`: whether each
    residency is the same wherever it lives; then homes are kept for each instance.
    """
    kernel = batch.kernel
    for place in range(len(batch.fault_maps)):
        homes = placement.homes
        if by_itself:
            homes = with_home(homes, placement.homes_of_several[place])
        counters = placement.counters[place]
        find_homes(residencies, owners, kernel, batch.fault_maps[place], homes, counters)
        if place >= len(batch.instances):
            continue
        instance = batch.instances[place]
        _log(batch, instance, homes.arrivals, epoch_log, placement.fill)
        if by_itself:
            leave_out_late(residencies, kernel, homes)
            placement.spilled[place] = homes.tally.events[LDS] > 0
            bound_homes(residencies, kernel, homes, views.at_most)
        else:
            bound_occupants(residencies, kernel, homes.arrivals, views)
        raise_bounds(cells, instance, views.at_most, batch.scale)


@inner
def _log(batch: Batch, instance: int, arrivals: Any, epoch_log: EpochLog, fill: Any) -> None:
    """Begin the next epoch of an instance, and write down who lives where."""
    epoch = epoch_log.epochs[instance]
    epoch_log.epochs[instance] = epoch + 1
    epoch_log.kernel[instance, epoch] = batch.kernel
    epoch_log.scale[instance, epoch] = batch.scale
    epoch_log.begin[instance, epoch] = epoch_log.used[0]
    for pass_ in range(len(arrivals.arrived)):
        epoch_log.used[0] += arrivals.arrived[pass_]
    sort_occupants(arrivals, fill, occupants_in(epoch_log, instance, epoch))
