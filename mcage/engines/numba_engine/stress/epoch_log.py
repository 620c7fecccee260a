"""What every instance of a batch has been through, stretch by stretch."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import compiled
from mcage.engines.numba_engine.placement.occupants import Visits
from mcage.engines.numba_engine.placement.redirect import ENTRIES
from mcage.engines.numba_engine.spares import Spares


class Stretches(NamedTuple):
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
    visit: NDArray[np.int64]
    used: NDArray[np.int64]


class Pool:
    """Memory for visits that is used again. Threads may share it."""

    def __init__(self) -> None:
        self._spares: Spares[NDArray[np.int64]] = Spares(lambda: np.empty(0, np.int64))

    def take(self, visits: int) -> NDArray[np.int64]:
        """Memory for at least so many visits."""
        spare = self._spares.take()
        return spare if len(spare) >= visits else np.empty(visits, np.int64)

    def give_back(self, visit: NDArray[np.int64]) -> None:
        """Memory that is not needed any more."""
        self._spares.give_back(visit)


def new_stretches(
    passes: int, instances: int, stretches: int, visit: NDArray[np.int64]
) -> Stretches:
    """Room for so many stretches of every instance; `visit` is room for their visits."""
    shape = (instances, stretches)
    # Pages that are never touched take no memory.
    return Stretches(
        np.zeros(instances, np.int64),
        np.empty(shape, np.int64),
        np.empty(shape),
        np.empty((*shape, ENTRIES * passes + 1), np.int32),
        np.empty(shape, np.int64),
        visit,
        np.zeros(1, np.int64),
    )


def with_room(before: Stretches, stretches: int, visits: int, pool: Pool) -> Stretches:
    """The same with room for so many stretches of every instance, and so many visits more."""
    instances, at_most = before.kernel.shape
    used = int(before.used[0])
    if stretches <= at_most and used + visits <= len(before.visit):
        return before
    passes, visit = before.first.shape[2] // ENTRIES, before.visit
    if used + visits > len(visit):
        visit = pool.take(2 * (used + visits))
        visit[:used] = before.visit[:used]
        pool.give_back(before.visit)
    more = new_stretches(passes, instances, max(2 * stretches, at_most), visit)
    more.turns[:], more.used[:] = before.turns, before.used
    for name in ("kernel", "scale", "first", "begin"):
        getattr(more, name)[:, :at_most] = getattr(before, name)
    return more


@compiled
def stretch_of(stretches: Any, instance: int, turn: int) -> Any:
    """Visits of a stretch."""
    begin = stretches.begin[instance, turn]
    return Visits(stretches.first[instance, turn], stretches.visit[begin:])
