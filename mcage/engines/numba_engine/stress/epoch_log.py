"""What every instance of a batch has been through, stretch by stretch."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import FreeList
from mcage.engines.numba_engine.jit import compiled
from mcage.engines.numba_engine.placement.occupants import Occupants
from mcage.engines.numba_engine.placement.redirect import ENTRIES


class EpochLog(NamedTuple):
    """Stretches of the lives of instances; arrays [instances, stretches, ...].

    Attributes
    ----------
    turns : int64[instances]
        Stretches so far.
    kernel, scale : int64, float64
        Kernel that ran, and the seconds that a cycle of all its passes stands for.
    first : int32[..., 256 * passes + 1]
        As in `Visits`.
    begin : int64
        Where the stretch's visits begin in `visit`.
    visit : int64[...]
        Visits of all stretches, one stretch after the other.
    used : int64[1]
        How many there are.
    """

    turns: NDArray[np.int64]
    kernel: NDArray[np.int64]
    scale: NDArray[np.float64]
    first: NDArray[np.int32]
    begin: NDArray[np.int64]
    occupant: NDArray[np.int64]
    used: NDArray[np.int64]


class Pool:
    """Memory for visits that is used again. Threads may share it."""

    def __init__(self) -> None:
        self._spares: FreeList[NDArray[np.int64]] = FreeList(lambda: np.empty(0, np.int64))

    def take(self, occupants: int) -> NDArray[np.int64]:
        """Memory for at least so many visits."""
        spare = self._spares.take()
        return spare if len(spare) >= occupants else np.empty(occupants, np.int64)

    def give_back(self, occupant: NDArray[np.int64]) -> None:
        """Memory that is not needed any more."""
        self._spares.give_back(occupant)


def new_epoch_log(
    passes: int, instances: int, epoch_log: int, occupant: NDArray[np.int64]
) -> EpochLog:
    """Room for so many stretches of every instance; `visit` is room for their visits."""
    shape = (instances, epoch_log)
    # Pages that are never touched take no memory.
    return EpochLog(
        np.zeros(instances, np.int64),
        np.empty(shape, np.int64),
        np.empty(shape),
        np.empty((*shape, ENTRIES * passes + 1), np.int32),
        np.empty(shape, np.int64),
        occupant,
        np.zeros(1, np.int64),
    )


def with_room(before: EpochLog, epoch_log: int, occupants: int, pool: Pool) -> EpochLog:
    """The same with room for so many stretches of every instance, and so many visits more."""
    instances, at_most = before.kernel.shape
    used = int(before.used[0])
    if epoch_log <= at_most and used + occupants <= len(before.occupant):
        return before
    passes, occupant = before.first.shape[2] // ENTRIES, before.occupant
    if used + occupants > len(occupant):
        occupant = pool.take(2 * (used + occupants))
        occupant[:used] = before.occupant[:used]
        pool.give_back(before.occupant)
    more = new_epoch_log(passes, instances, max(2 * epoch_log, at_most), occupant)
    more.turns[:], more.used[:] = before.turns, before.used
    for name in ("kernel", "scale", "first", "begin"):
        getattr(more, name)[:, :at_most] = getattr(before, name)
    return more


@compiled
def epoch_span_of(epoch_log: Any, instance: int, turn: int) -> Any:
    """Visits of a stretch."""
    begin = epoch_log.begin[instance, turn]
    return Occupants(epoch_log.first[instance, turn], epoch_log.occupant[begin:])
