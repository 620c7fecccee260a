"""Memory in which the instances of a thread, and of a batch, are worked on."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Pool
from mcage.engines.numba_engine.cell_times import new_times
from mcage.engines.numba_engine.events import new_events
from mcage.engines.numba_engine.placement.redirect import COUNTERS, Homes, new_homes
from mcage.engines.numba_engine.placement.residencies import Residencies
from mcage.engines.numba_engine.stress.bounds import Views, new_views
from mcage.engines.numba_engine.stress.kept_cells import Cells, new_cells
from mcage.engines.numba_engine.stress.most_stressed import CellWorkspace
from mcage.engines.numba_engine.stress.open_bits import SIDE_BY_SIDE, new_open_bits


class PlacementWorkspace(NamedTuple):
    """Memory in which residencies are placed.

    Attributes
    ----------
    homes : Homes
        Homes of an instance.
    fill : int64[entries * passes]
        Where the next occupant of each entry goes.
    counters : int64[16, 8]
        Counters of instances that run the same kernel, which nobody asks for.
    homes_of_several : int16[16, residencies, passes]
        Homes of instances that run the same kernel.
    spilled : bool[16]
        Whether some residency of theirs had no home at first.
    """

    homes: Homes
    fill: NDArray[np.int64]
    counters: NDArray[np.int64]
    homes_of_several: NDArray[np.int16]
    spilled: NDArray[np.bool_]


class Workspace(NamedTuple):
    """Memory in which the instances of a thread are worked on.

    Attributes
    ----------
    placement : PlacementWorkspace
        For placing residencies.
    views : Views
        For bounding cells.
    cells : CellWorkspace
        For working cells out.
    """

    placement: PlacementWorkspace
    views: Views
    cells: CellWorkspace


class BatchMemory(NamedTuple):
    """Memory that a batch has until its last epoch, and leaves to the next.

    Attributes
    ----------
    occupants : Pool of uint32[...]
        For the occupants of an epoch log.
    cells : Pool of Cells
        For the cells of so many instances.
    """

    occupants: Pool[NDArray[np.uint32]]
    cells: Pool[Cells]


def new_batch_memory(entries: int) -> BatchMemory:
    """Make memory for batches of slices of so many entries; there is none at first."""
    return BatchMemory(
        Pool(lambda occupants: np.empty(occupants, np.uint32), len),
        Pool(partial(new_cells, entries), lambda cells: len(cells.kept)),
    )


def new_workspace(residencies: Residencies) -> Any:
    """Make memory that is enough for any kernel."""
    passes, kernels = len(residencies.selector_starts), residencies.kernels
    write_starts, cycles = residencies.write_starts, residencies.at_most
    entries = residencies.slice_.entries
    most_residencies, most_writes = 0, 0
    for kernel in range(len(kernels.cycles)):
        first, last = kernels.first_residency[kernel], kernels.first_residency[kernel + 1]
        most_residencies = max(most_residencies, last - first)
        most_writes = max(most_writes, write_starts[last] - write_starts[first])
    return Workspace(
        PlacementWorkspace(
            new_homes(residencies.slice_, passes, most_residencies),
            np.empty(entries * passes, np.int64),
            np.zeros((SIDE_BY_SIDE, COUNTERS), np.int64),
            np.empty((SIDE_BY_SIDE, most_residencies, passes), np.int16),
            np.empty(SIDE_BY_SIDE, np.bool_),
        ),
        new_views(entries, passes, cycles),
        CellWorkspace(
            new_events(passes * most_writes, passes, cycles),
            new_times(cycles),
            new_times(cycles),
            new_open_bits(entries, cycles),
            np.empty(2),
        ),
    )
