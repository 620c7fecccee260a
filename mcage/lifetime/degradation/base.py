"""Wear: how far the transistors of a batch of instances have shifted, stretch after stretch.

There are two kinds. Where an NBTI model needs no more than total seconds under stress,
`AdditiveDegradation` keeps those; otherwise `StepwiseDegradation` keeps every stretch, and advances
transistors through them.
"""

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.lifetime.degradation.span import EpochSpan


class CellDegradation(ABC):
    """Shifts of n cells within the latest stretches of their instances."""

    @abstractmethod
    def dvth(self, moment: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shifts of T0 and T1 in volts at a moment of each cell: float64[n] to float64[2, n]."""

    @abstractmethod
    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> Self:
        """Those of some cells."""


class Degradation(ABC):
    """Wear of a batch of instances; moments lie within the latest stretch of each.

    Parameters
    ----------
    instances : int
        Size of the batch.

    Attributes
    ----------
    stretch : Stretch
        The latest stretch of each instance.
    """

    def __init__(self, instances: int) -> None:
        self.span = EpochSpan(np.zeros(instances), np.zeros(instances))

    @abstractmethod
    def add(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        start: float,
        end: float,
    ) -> None:
        """Let some instances run a kernel each for a stretch of their lives.

        Parameters
        ----------
        instances : int64[m]
            Positions in the batch.
        kernel : int64[m]
            Kernel that each runs.
        fault_maps : uint8[m, 256]
            Fault map of each meanwhile.
        start, end : float
            Age in seconds at both ends of the stretch; the first starts at 0, and each of the
            others where the one before has ended.
        """

    @abstractmethod
    def longest_duty(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Longest share of the life so far that a cell held '0', and '1': float64[2, n]."""

    @abstractmethod
    def cells(self, places: NDArray[np.int64]) -> CellDegradation:
        """Shifts of some of the watched cells: int64[n], their positions."""

    @abstractmethod
    def sampled_dvth(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Shifts of the sampled cells of some instances at a moment of each: float64[2, n, sample].

        They are the last of the watched cells, so many of each instance of the batch in turn.
        """

    @abstractmethod
    def worst_dvth(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Shift of the worst T0 and T1 of some instances at a moment of each: float64[2, n]."""

    def exceeds(
        self, instances: NDArray[np.int64], limit_volts: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Whether the worst transistors have reached a limit at the end of the stretch: bool[n].

        Parameters
        ----------
        instances : int64[n]
            Positions in the batch.
        limit_volts : float64[n] or one number
            Shift of each.
        """
        worst = self.worst_dvth(instances, self.span.end[instances])
        beyond: NDArray[np.bool_] = worst.max(axis=0) - limit_volts >= 0
        return beyond

    @abstractmethod
    def reaching(
        self, instances: NDArray[np.int64], limit_volts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Moments at which the worst transistors reach a limit, which they exceed at the end."""
