"""The most stressed cell under any mixture of kernels: only few cells can ever be.

The stress time of a cell is a sum over kernels of weights that are not negative, times duty cycles.
A cell whose duty cycle exceeds that of another under no kernel never has the larger sum; since
rounding is monotonic, that holds to the last bit where sums are added in the same order. What is
left without such cells is called the skyline: of the 524,288 cells of a slice under ten kernels,
25 to 19,000.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcage.compiled import compiled
from mcage.geometry import COMPONENT_BITS, Floats, Integers

BLOCK = 32
"""Neighbouring cells of a skyline that have a bound in common."""

COMPARED = 1 << 15
"""Cells with which others are compared at most, those with the largest sums. What only another
cell exceeds stays: a few cells more than a skyline are as good, and take a bounded time to find."""

TOGETHER = 64
"""Cells whose signatures are compared without a look at each."""

SAMPLE = 1 << 12
"""Cells that tell how duty cycles are distributed."""

_SIGNATURE_BITS = 63


@dataclass(frozen=True, eq=False)
class Skyline:
    """The cells of which, under any mixture of kernels, one is the most stressed.

    Like cells, those of the same bit, stand side by side.

    Attributes
    ----------
    cell : int64[n]
        Their numbers in the slice. n is a multiple of 32: the last cell may stand there repeatedly.
    duty : float64[kernels, n]
        Fraction of the time for which each is stressed.
    largest : float64[kernels, n / 32]
        Largest duty cycle of each 32 cells in turn.
    """

    cell: Integers
    duty: Floats
    largest: Floats

    @classmethod
    def of(cls, cell: Integers, duty: Floats) -> "Skyline":
        """Skyline of cells int64[m], at least one, with their duty cycles float64[kernels, m]."""
        lacking = (0, -len(cell) % BLOCK)
        cell, of_cells = np.pad(cell, lacking, "edge"), np.pad(duty, ((0, 0), lacking), "edge")
        return cls(cell, of_cells, of_cells.reshape(len(duty), -1, BLOCK).max(axis=2))


@dataclass(frozen=True, eq=False)
class DutyCycles:
    """Duty cycles of the cells of a slice under each kernel, from counted cycles.

    Cycles take half the memory of duty cycles, and are as they stand on disk.

    Attributes
    ----------
    cycles : uint32 or int64[kernels, cells]
        Cycles of a whole replay for which each cell is stressed.
    period : int64[kernels]
        Cycles of the whole replay.
    skyline : Skyline
        The cells of which one is the most stressed.
    components : int
        Components of an entry.
    """

    cycles: NDArray[np.integer]
    period: Integers
    skyline: Skyline
    components: int

    @classmethod
    def of(
        cls, cycles: NDArray[np.integer], period: Integers, cells: Integers, components: int
    ) -> "DutyCycles":
        """Duty cycles of which the skyline is one of given cells, int64[m]."""
        skyline = Skyline.of(cells, np.take(cycles, cells, axis=1) / period[:, None])
        return cls(cycles, period, skyline, components)

    def of_kernel(self, kernel: int) -> Floats:
        """Fraction of the time for which each cell is stressed under a kernel: float64[cells]."""
        fraction: Floats = self.cycles[kernel] / self.period[kernel]
        return fraction

    def at(self, kernel: Integers | int, cell: Integers) -> Floats:
        """Fraction of the time for which n cells are stressed: kernel and cell to float64[n]."""
        fraction: Floats = self.cycles[kernel, cell] / self.period[kernel]
        return fraction

    @cached_property
    def most(self) -> Floats:
        """Largest duty cycle of any component: float64[kernels, entries, bits of a component]."""
        shape = (len(self.cycles), -1, self.components, COMPONENT_BITS)
        cycles: NDArray[np.integer] = self.cycles.reshape(shape).max(axis=2)
        most: Floats = cycles / self.period[:, None, None]
        return most


def duty_cycles(cycles: NDArray[np.integer], period: Integers, components: int) -> DutyCycles:
    """Duty cycles with their skyline; cycles [kernels, cells], periods int64[kernels]."""
    cycles = cycles.astype(np.uint32 if period.max() < 1 << 32 else np.int64, copy=False)
    return DutyCycles.of(cycles, period, skyline_cells(cycles, period), components)


def skyline_cells(cycles: NDArray[np.integer], period: Integers) -> Integers:
    """Cells of which one is the most stressed under any mixture, like cells side by side: int64[n].

    Most cells are exceeded by that with the largest sum, and are left out at once. The same bit of
    all components and entries holds much the same: where many cells remain, they are compared with
    those of their own bit first, so that few are left to be compared with those of others.

    Parameters
    ----------
    cycles, period : uint32 or int64[kernels, cells], int64[kernels]
        Cycles for which each cell is stressed, none of them negative, and those of whole replays.
    """

    def unrivalled(cells: Integers) -> Integers:
        return cells[_unrivalled(np.take(cycles, cells, axis=1) / period[:, None])]

    left = _by_bit(_beside_the_largest(cycles, period))
    if sum(map(len, left)) > COMPARED:
        left = [unrivalled(bit) for bit in left]
    return np.concatenate(_by_bit(np.sort(unrivalled(np.concatenate(left)))))


def _beside_the_largest(cycles: NDArray[np.integer], period: Integers) -> Integers:
    """Cells that exceed the one with the largest sum under a kernel, and that one: int64[n].

    They come in the order of their numbers. Of several largest sums, that of the first bit counts.
    """
    total = _totals(of_kernel / whole for of_kernel, whole in zip(cycles, period, strict=True))
    largest = np.flatnonzero(total == total.max())
    best = largest[np.argmin(largest % COMPONENT_BITS)]
    left = np.zeros(len(total), dtype=np.bool_)
    left[best] = True
    for of_kernel in cycles:
        left |= of_kernel > of_kernel[best]
    return np.flatnonzero(left)


def _by_bit(cells: Integers) -> list[Integers]:
    """Cells of each bit of a component, in their order."""
    bit = (cells % COMPONENT_BITS).astype(np.uint8)
    starts = np.cumsum(np.bincount(bit, minlength=COMPONENT_BITS))[:-1]
    return np.split(cells[np.argsort(bit, kind="stable")], starts)


def _unrivalled(duty: Floats) -> Integers:
    """Places of the cells that no other cell equals or exceeds under all kernels: int64[n].

    Of cells that are all alike one is kept. A cell may stay for no reason if there are more than
    `COMPARED`, or if its sum over all kernels rounds to that of the cell which exceeds it.
    """
    order = np.argsort(-_totals(duty), kind="stable")
    duty = np.take(duty, order, axis=1)
    kept = np.empty(len(order), np.int64)
    lacking = np.full(min(len(order), COMPARED) + TOGETHER, -1)
    rows = np.ascontiguousarray(duty.T)
    return order[kept[: _filter(rows, _signatures(duty), lacking, kept)]]


def _totals(duty: Iterable[Floats]) -> Floats:
    """Sums over all kernels, float64[cells] each, added in their order: float64[cells]."""
    kernels = iter(duty)
    total = next(kernels).copy()
    for of_kernel in kernels:
        total += of_kernel
    return total


def _signatures(duty: Floats) -> Integers:
    """Bits that say which borders the duty cycles of each cell reach: int64[cells].

    A cell that equals or exceeds another under all kernels has all bits of the other. The cells,
    float64[kernels, cells], come in an order in which any part of them tells of all.
    """
    signatures = np.zeros(duty.shape[1], np.int64)
    duty = duty[:_SIGNATURE_BITS]
    borders = _SIGNATURE_BITS // len(duty)
    sample = np.sort(duty[:, :: duty.shape[1] // SAMPLE + 1], axis=1)
    if sample.size:
        places = np.arange(1, borders + 1) * sample.shape[1] // (borders + 1)
        for border in sample[:, places].T:
            for of_kernel, reached in zip(duty, border, strict=True):
                signatures <<= 1
                signatures |= of_kernel >= reached
    return signatures


@compiled
def _filter(rows: Floats, signatures: Integers, lacking: Integers, kept: Integers) -> int:
    """Keep the cells that no kept cell equals or exceeds under all kernels; return their number.

    Parameters
    ----------
    rows : float64[cells, kernels]
        Duty cycles; the largest sums come first.
    signatures : int64[cells]
        As of `_signatures`.
    lacking : int64[min(cells, COMPARED) + TOGETHER]
        Workspace, all bits set.
    kept : int64[cells]
        Places of the kept cells, filled in.
    """
    count = 0
    for cell in range(len(rows)):
        signature, exceeded = signatures[cell], False
        for first in range(0, min(count, COMPARED), TOGETHER):
            candidates = 0
            for place in range(first, first + TOGETHER):
                candidates += (signature & lacking[place]) == 0
            if not candidates:
                continue
            for place in range(first, min(first + TOGETHER, count)):
                if (signature & lacking[place]) == 0:
                    kernel, other = 0, kept[place]
                    while kernel < rows.shape[1] and rows[other, kernel] >= rows[cell, kernel]:
                        kernel += 1
                    exceeded = kernel == rows.shape[1]
                    if exceeded:
                        break
            if exceeded:
                break
        if not exceeded:
            kept[count] = cell
            if count < COMPARED:
                lacking[count] = ~signature
            count += 1
    return count


def longest_total(seconds: Floats, skyline: Skyline) -> Floats:
    """Longest stress time of any cell of each instance.

    Parameters
    ----------
    seconds : float64[instances, kernels]
        Time that each instance has run each kernel.
    skyline : Skyline
        Duty cycles.

    Returns
    -------
    float64[instances]
        The same to the last bit as the maximum over all cells, terms added in order of kernels.
        Kernels that have not run add nothing, and are left out.
    """
    longest, bounds = np.empty(len(seconds)), np.empty(skyline.largest.shape[1])
    _longest(seconds, skyline.duty, skyline.largest, bounds, np.empty(BLOCK), longest)
    return longest


@compiled
def _longest(
    seconds: Floats, duty: Floats, largest: Floats, bounds: Floats, totals: Floats, longest: Floats
) -> None:
    """`longest_total`: only 32 cells whose bound exceeds the longest time so far are looked at.

    `bounds` and `totals` are workspaces, float64[n / 32] and float64[32].

    Sums of bounds, added in the same order, are bounds of sums. The cells with the largest bound
    come first.
    """
    blocks = largest.shape[1]
    for instance in range(len(seconds)):
        bounds[:] = 0
        for kernel in range(seconds.shape[1]):
            spent = seconds[instance, kernel]
            if spent != 0:
                for block in range(blocks):
                    bounds[block] += spent * largest[kernel, block]
        most, best = 0, 0.0
        for block in range(1, blocks):
            if bounds[block] > bounds[most]:
                most = block
        for turn in range(-1, blocks):
            block = most if turn < 0 else turn
            if bounds[block] <= best:
                continue
            totals[:] = 0
            for kernel in range(seconds.shape[1]):
                spent = seconds[instance, kernel]
                if spent != 0:
                    for place in range(BLOCK):
                        totals[place] += spent * duty[kernel, block * BLOCK + place]
            for place in range(BLOCK):
                best = max(best, totals[place])
        longest[instance] = best
