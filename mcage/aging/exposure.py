"""How long each cell of a batch of instances has held '0' and '1' so far.

While a slice has no fault that its technique reacts to, its times are a mixture of duty cycles
that all instances share, and only the mixture is kept. From the first fault on an instance has
times of its own for all its 524,288 cells.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.aging.shared import SharedReplays
from mcage.engines.interface import Engine
from mcage.geometry import SLICE


@dataclass(frozen=True)
class Watched:
    """Cells whose times are followed one by one; arrays [n], in any order.

    Attributes
    ----------
    instance : int64[n]
        Position of the cell's instance in the batch.
    cell : int64[n]
        Number of the cell in its slice, ``2048 * entry + bit``.
    """

    instance: NDArray[np.int64]
    cell: NDArray[np.int64]


class Exposure:
    """Seconds at '0' and at '1' of the cells of a batch of instances.

    Parameters
    ----------
    engine : Engine
        Replays that depend on a fault map.
    shared : SharedReplays
        The technique on every kernel.
    watched : Watched
        Cells to be followed.
    instances : int
        Size of the batch.
    """

    def __init__(
        self,
        engine: Engine,
        shared: SharedReplays,
        watched: Watched,
        instances: int,
    ) -> None:
        self._engine = engine
        self._shared = shared
        self._watched = watched
        self._mixture = np.zeros((instances, len(shared.replays)))
        self._has_own = np.zeros(instances, dtype=bool)
        # Pages that are never touched take no memory.
        self._own = np.zeros((2, instances, SLICE.cells))
        self.watched_seconds = np.zeros((2, len(watched.cell)))
        """Seconds at '0' and at '1' of the watched cells."""
        self.longest = np.zeros((2, instances))
        """Longest seconds at '0' and at '1' among all cells of each instance."""

    def add(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        seconds: float,
    ) -> None:
        """Let some instances run a kernel each for some seconds.

        Parameters
        ----------
        instances : int64[m]
            Positions in the batch.
        kernel : int64[m]
            Kernel that each runs.
        fault_maps : uint8[m, 256]
            Fault map of each meanwhile.
        seconds : float
            Length of the stretch.
        """
        redirects = self._shared.replays[0].technique.redirects
        alone = redirects & (fault_maps.any(axis=1) | self._has_own[instances])
        self._give_own_times(instances[alone])
        for one in np.unique(kernel[alone]):
            chosen = alone & (kernel == one)
            running = instances[chosen]
            longest = self._engine.expose(
                self._shared.replays[one],
                fault_maps[chosen],
                np.full(len(running), seconds),
                running,
                self._own[0],
                self._own[1],
            )
            self.longest[:, running] = np.maximum(self.longest[:, running], longest)
        sharing = instances[~alone]
        self._mixture[sharing, kernel[~alone]] += seconds
        self.longest[:, sharing] = [
            self._engine.longest_total(self._mixture[sharing], duty)
            for duty in (self._shared.zero, self._shared.one)
        ]
        self._follow(sharing, kernel[~alone], instances[alone], seconds)

    def _give_own_times(self, instances: NDArray[np.int64]) -> None:
        duties = (self._shared.zero.duty, self._shared.one.duty)
        for instance in instances[~self._has_own[instances]]:
            for own, duty in zip(self._own, duties, strict=True):
                for kernel in np.flatnonzero(self._mixture[instance]):
                    own[instance] += self._mixture[instance, kernel] * duty[kernel]
        self._has_own[instances] = True

    def _follow(
        self,
        sharing: NDArray[np.int64],
        kernel: NDArray[np.int64],
        alone: NDArray[np.int64],
        seconds: float,
    ) -> None:
        """Bring the times of the watched cells up to date."""
        instance, cell = self._watched.instance, self._watched.cell
        kernel_of = np.full(len(self._has_own), -1, dtype=np.int64)
        kernel_of[sharing] = kernel
        mine = np.flatnonzero(kernel_of[instance] >= 0)
        runs = kernel_of[instance[mine]]
        self.watched_seconds[0, mine] += seconds * self._shared.zero.duty[runs, cell[mine]]
        self.watched_seconds[1, mine] += seconds * self._shared.one.duty[runs, cell[mine]]
        is_alone = np.zeros(len(self._has_own), dtype=bool)
        is_alone[alone] = True
        mine = np.flatnonzero(is_alone[instance])
        self.watched_seconds[:, mine] = self._own[:, instance[mine], cell[mine]]
