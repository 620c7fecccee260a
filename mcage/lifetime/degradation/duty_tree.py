"""Duty cycles of slices in each epoch, cell by cell and in groups whose largest bounds each cell.

Of fault-free slices only the skyline of `mcage.replays.most_stressed` can have the worst cell. A
slice whose registers are redirected has different duty cycles in each epoch; a group of it is a bit
of an entry in all components, since these are much alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS, SliceGeometry
from mcage.replays.most_stressed import BLOCK, DutyCycles
from mcage.replays.outcome import CellTimes

_Times = NDArray[Any]  # unsigned integers, or float64


class Slices(ABC):
    """Duty cycles at '0', or at '1', of the cells of n slices in each epoch, in a tree of groups.

    Attributes
    ----------
    roots : int
        Groups of the coarsest level.
    branches : tuple of int
        For each level, coarsest first: number of groups of the next level, in the end of cells, in
        a group of this level. Group g is made of g * branches ... (g + 1) * branches - 1 of the
        next level.
    """

    roots: int
    branches: tuple[int, ...]

    @abstractmethod
    def largest(
        self, level: int, epoch: int, index: NDArray[np.int64], group: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Largest duty of the cells of m groups; slice and group of each: int64[m], int64[m]."""

    @abstractmethod
    def duty(
        self, epoch: int, index: NDArray[np.int64], cell: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Duty of m cells; slice and number of each: int64[m], int64[m]."""

    @abstractmethod
    def cell(self, place: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers in the slice of the cells at the given places below the finest groups."""


class FaultFreeSlices(Slices):
    """Fault-free slices.

    Parameters
    ----------
    duties : DutyCycles
        Duty cycles under each kernel.
    kernel : int64[n, epochs]
        Kernel that each slice runs.
    """

    def __init__(self, duties: DutyCycles, kernel: NDArray[np.int64]) -> None:
        self._duties, self._kernel = duties, kernel
        self.roots = duties.skyline.largest.shape[1]
        self.branches = (BLOCK,)

    def largest(
        self, level: int, epoch: int, index: NDArray[np.int64], group: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """See `Slices.largest`."""
        largest: NDArray[np.float64] = self._duties.skyline.largest[
            self._kernel[index, epoch], group
        ]
        return largest

    def duty(
        self, epoch: int, index: NDArray[np.int64], cell: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """See `Slices.duty`."""
        return self._duties.at(self._kernel[index, epoch], cell)

    def cell(self, place: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Slices.cell`."""
        return self._duties.skyline.cell[place]


DUTY_BYTES = 256 << 20
"""Memory for the duty cycles of the redirected slices of a batch, slice by slice."""


def most_instances(epochs: int, cells: int) -> int:
    """Size of a batch whose slices of so many cells may all be redirected, in so many epochs."""
    of_slice = 2 * cells * np.dtype(np.uint32).itemsize
    return max(1, DUTY_BYTES // (epochs * of_slice))


@dataclass(frozen=True, eq=False)
class SliceDuty:
    """Duty cycles of a slice in one epoch.

    Attributes
    ----------
    geometry : SliceGeometry
        The slice.
    held : tuple of int or float[cells]
        Time that each cell holds '0', and '1', out of ``period``.
    period : float
        The time for which a duty cycle is 1.
    of_bits : float64[2, entries x 32]
        Largest duty cycle at '0' and at '1' of any component, for each bit of each entry.
    of_entries : float64[2, entries]
        Largest duty cycle in each entry.
    """

    geometry: SliceGeometry
    held: tuple[_Times, _Times]
    period: float
    of_bits: NDArray[np.float64]
    of_entries: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        geometry: SliceGeometry,
        zeros: NDArray[np.generic],
        ones: NDArray[np.generic],
        period: float,
    ) -> "SliceDuty":
        """Group the cells of a slice by their times: array[cells] each, in the unit of period."""
        by_bit = (geometry.entries, geometry.components, COMPONENT_BITS)
        longest = np.stack([held.reshape(by_bit).max(axis=1) for held in (zeros, ones)])
        of_bits = longest / period
        return cls(geometry, (zeros, ones), period, of_bits.reshape(2, -1), of_bits.max(axis=2))

    def duty(self, which: int, cell: NDArray[np.int64]) -> NDArray[np.float64]:
        """Duty of cells at '0' (0) or '1' (1): int64[m] to float64[m]."""
        duty: NDArray[np.float64] = self.held[which][cell] / self.period
        return duty


def slice_duty(geometry: SliceGeometry, times: CellTimes) -> SliceDuty:
    """Duty cycles of the only slice of a replay; times are kept in as few bytes as they need."""
    (period,) = np.broadcast_to(times.period, 1).tolist()
    narrow = np.min_scalar_type(period)
    ones, powered = times.ones.ravel().astype(narrow), times.powered.ravel().astype(narrow)
    return SliceDuty.of(geometry, powered - ones, ones, period)


class RedirectedSlice(Slices):
    """A slice whose registers are redirected.

    Parameters
    ----------
    which : int
        At '0' (0) or at '1' (1).
    epochs : sequence of SliceDuty
        Its duty cycles in each epoch.
    """

    def __init__(self, which: int, epochs: Sequence[SliceDuty]) -> None:
        self._which, self._epochs = which, epochs
        self._components = epochs[0].geometry.components
        self.roots = epochs[0].geometry.entries
        self.branches = (COMPONENT_BITS, self._components)

    def largest(
        self, level: int, epoch: int, index: NDArray[np.int64], group: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """See `Slices.largest`."""
        groups = self._epochs[epoch].of_bits if level else self._epochs[epoch].of_entries
        largest: NDArray[np.float64] = groups[self._which, group]
        return largest

    def duty(
        self, epoch: int, index: NDArray[np.int64], cell: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """See `Slices.duty`."""
        return self._epochs[epoch].duty(self._which, cell)

    def cell(self, place: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Slices.cell`."""
        bit, component = np.divmod(place, self._components)
        entry, bit = np.divmod(bit, COMPONENT_BITS)
        return (entry * self._components + component) * COMPONENT_BITS + bit
