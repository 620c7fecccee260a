"""What every instance of a batch has been through, epoch by epoch."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Pool
from mcage.engines.numba_engine.jit import inner
from mcage.engines.numba_engine.placement.occupants import Occupants


class EpochLog(NamedTuple):
    """Epochs of the lives of instances; arrays [instances, epochs, ...].

    Attributes
    ----------
    epochs : int64[instances]
        Epochs so far.
    kernel, scale : int64, float64
        Kernel that ran, and the seconds that a cycle of all its passes stands for.
    first : int32[..., entries * passes + 1]
        As in `Occupants`.
    begin : int64
        Where the occupants of the epoch begin in `occupant`.
    occupant : uint32[...]
        Occupants of all epochs, epoch after epoch.
    used : int64[1]
        How many there are.
    """

    epochs: NDArray[np.int64]
    kernel: NDArray[np.int64]
    scale: NDArray[np.float64]
    first: NDArray[np.int32]
    begin: NDArray[np.int64]
    occupant: NDArray[np.uint32]
    used: NDArray[np.int64]


def new_epoch_log(
    places: int, instances: int, epochs: int, occupant: NDArray[np.uint32]
) -> EpochLog:
    """Make space for so many epochs of every instance.

    Parameters
    ----------
    places : int
        Entries x passes.
    instances, epochs : int
        How many.
    occupant : uint32[...]
        Memory for occupants.
    """
    shape = (instances, epochs)
    # Pages that are never touched take no memory.
    return EpochLog(
        np.zeros(instances, np.int64),
        np.empty(shape, np.int64),
        np.empty(shape),
        np.empty((*shape, places + 1), np.int32),
        np.empty(shape, np.int64),
        occupant,
        np.zeros(1, np.int64),
    )


def enlarged(
    before: EpochLog, epochs: int, occupants: int, pool: Pool[NDArray[np.uint32]]
) -> EpochLog:
    """Return the log with space for so many epochs of every instance, and occupants more."""
    instances, at_most = before.kernel.shape
    used = int(before.used[0])
    if epochs <= at_most and used + occupants <= len(before.occupant):
        return before
    places, occupant = before.first.shape[2] - 1, before.occupant
    if used + occupants > len(occupant):
        occupant = pool.take(2 * (used + occupants))
        occupant[:used] = before.occupant[:used]
        pool.give_back(before.occupant)
    more = new_epoch_log(places, instances, max(2 * epochs, at_most), occupant)
    more.epochs[:], more.used[:] = before.epochs, before.used
    for name in ("kernel", "scale", "first", "begin"):
        getattr(more, name)[:, :at_most] = getattr(before, name)
    return more


@inner
def occupants_in(epoch_log: Any, instance: int, epoch: int) -> Any:
    """Return the occupants of an instance in an epoch."""
    begin = epoch_log.begin[instance, epoch]
    return Occupants(
        epoch_log.kernel[instance, epoch],
        epoch_log.first[instance, epoch],
        epoch_log.occupant[begin:],
    )
