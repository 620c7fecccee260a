"""Degradation: how far the transistors of a batch of instances have shifted, epoch by epoch.

There are two kinds. Where an NBTI model needs no more than the total stress time,
`AdditiveDegradation` keeps that time; otherwise `StepwiseDegradation` keeps what happened in each
epoch, and advances transistors through all of them.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.aging.vmin import CellFailure
from mcage.engines.stress import dvth_histogram


@dataclass(frozen=True)
class EpochSpan:
    """An epoch of n instances, or a part of one: from ``start`` to ``end``, float64[n] seconds.

    Kernel, fault map and environment of an instance stay the same, so that its cells age evenly.
    """

    start: NDArray[np.float64]
    end: NDArray[np.float64]

    def part(self, moment: NDArray[np.float64]) -> NDArray[np.float64]:
        """Part of each span that has passed at a moment of each: float64[n]."""
        return (moment - self.start) / (self.end - self.start)

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "EpochSpan":
        """Spans of selected instances."""
        return EpochSpan(self.start[which], self.end[which])


class CellDegradation(ABC):
    """Shifts of n cells within the latest epochs of their instances."""

    @abstractmethod
    def dvth(self, moment: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shifts of T0 and T1 in volts at a moment of each cell: float64[n] to float64[2, n]."""

    @abstractmethod
    def of_cells(self, moment: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shifts of all transistors that age, N0 and N1 last: float64[2, n] or float64[4, n]."""

    def are_faulty(
        self,
        failure: CellFailure,
        vmin_volts: NDArray[np.float64],
        moment: NDArray[np.float64],
        scores: NDArray[np.float64] | None = None,
    ) -> NDArray[np.bool_]:
        """Whether the cells fail at a moment of each: float64[n] to bool[n].

        Parameters
        ----------
        failure : CellFailure
            When each of the cells fails.
        vmin_volts, scores
            As of `CellFailure.are_faulty`.
        moment : float64[n]
            The moments.
        """
        return failure.are_faulty(vmin_volts, self.of_cells(moment), scores)

    @abstractmethod
    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> Self:
        """Shifts of selected cells."""


class Degradation(ABC):
    """Degradation of a batch of instances; moments lie within the latest epoch of each.

    Parameters
    ----------
    instances : int
        Size of the batch.

    Attributes
    ----------
    span : EpochSpan
        The latest epoch of each instance.
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
        """Let selected instances live through an epoch, in which each runs a kernel.

        Parameters
        ----------
        instances : int64[m]
            Positions in the batch.
        kernel : int64[m]
            Kernel that each runs.
        fault_maps : uint8[m, 256]
            Fault map of each meanwhile.
        start, end : float
            Age in seconds at both ends of the epoch. The first epoch starts at 0, and each of the
            others where the epoch before has ended.
        """

    @abstractmethod
    def longest_duty(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Longest duty cycles of the life so far, at '0' and at '1': float64[2, n]."""

    @abstractmethod
    def failing(
        self, instances: NDArray[np.int64], failure: CellFailure
    ) -> tuple[NDArray[np.int64], CellDegradation]:
        """Sound cells of the tail that fail at the end of the latest epochs of instances.

        A cell that is fault-free at both ends of an epoch is so throughout (docs/aging.md).

        Parameters
        ----------
        instances : int64[n]
            Positions in the batch, in rising order.
        failure : CellFailure
            When cells of all instances of the batch fail.

        Returns
        -------
        int64[m], CellDegradation
            Places of the cells in the tail, in rising order, and their shifts.
        """

    @abstractmethod
    def mark_faulty(self, places: NDArray[np.int64]) -> None:
        """Mark cells of the tail that are faulty from now on."""

    @abstractmethod
    def sampled_dvth(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Shifts of the sampled cells of n instances at a moment of each: float64[2, n, sample]."""

    def histogram(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64], bins: int
    ) -> NDArray[np.int64]:
        """Sampled cells per shift, as `dvth_histogram` counts: int64[2, bins]."""
        return dvth_histogram(self.sampled_dvth(instances, moment), bins)

    @abstractmethod
    def worst_dvth(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Shifts of the worst T0 and T1 of n instances at a moment of each: float64[2, n]."""

    def exceeds(
        self, instances: NDArray[np.int64], limit_volts: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Whether the worst transistors have reached a limit at the end of the epoch: bool[n].

        Parameters
        ----------
        instances : int64[n]
            Positions in the batch.
        limit_volts : float64[n], or a number for all
            Shift at which each reaches its limit.
        """
        worst = self.worst_dvth(instances, self.span.end[instances])
        beyond: NDArray[np.bool_] = worst.max(axis=0) - limit_volts >= 0
        return beyond

    @abstractmethod
    def reaching(
        self, instances: NDArray[np.int64], limit_volts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Moments at which the worst transistors reach their limits: float64[n].

        At the end of the epoch, all of them exceed the limits.
        """
