"""The most stressed cell under a mixture of kernels, by branch and bound.

Cells with similar duty cycles stand together in a tree. The largest duty cycles of a group bound
all its cells under any mixture, so that only groups whose bound exceeds the longest time seen so
far are looked into. The search begins with the cells that win under other mixtures.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GROUP = 64
"""Cells of a group."""

BRANCHES = 8
"""Groups of a level for each group of the level above."""

COARSEST = 128
"""Nodes of the coarsest level at most, if they come in eights."""

TRIALS = 64
"""Mixtures whose most stressed cells are looked at first."""

TRIAL_KERNELS = 5
"""Kernels of such a mixture at most."""

ROUNDED = np.float32(1 - 1e-5)
"""What rounding may leave of a sum of single precision."""

BLOCK = 64
"""Instances that are searched for together: bounds the memory."""


@dataclass(frozen=True)
class DutyGroups:
    """Duty cycles of all cells under each kernel, with the cells grouped by likeness.

    Attributes
    ----------
    duty : float64[kernels, cells]
        Fraction of the time for which a cell is stressed.
    cells : int32[groups, 64]
        Cells of each group; inside it, like cells stand together again.
    levels : tuple of float64[kernels, nodes]
        Largest duty cycle under each kernel of the cells of a node, coarsest level first. The n
        nodes of a level cut the cells, in the order of `cells`, into n equal parts; those of the
        next level cut each part into 8, down to 8 cells.
    champions : int32[n]
        Cells that are the most stressed under a mixture drawn at random.
    """

    duty: NDArray[np.float64]
    cells: NDArray[np.int32]
    levels: tuple[NDArray[np.float64], ...]
    champions: NDArray[np.int32]


def group_by_duty(duty: NDArray[np.float64]) -> DutyGroups:
    """Group cells: halve again and again along the kernel in which a group differs most.

    Groups of cells that are all alike, as are those never written, are halved as they are.

    Parameters
    ----------
    duty : float64[kernels, cells]
        `cells` is 64 times a power of two.
    """
    rough = duty.astype(np.float32)  # likeness asks for no more
    cells = _alike(rough)
    largest = np.take(duty, cells, axis=1).reshape(len(duty), -1, BRANCHES).max(axis=2)
    levels = [largest]
    while levels[0].shape[1] > COARSEST and levels[0].shape[1] % BRANCHES == 0:
        levels.insert(0, levels[0].reshape(len(duty), -1, BRANCHES).max(axis=2))
    champions = _champions(rough, cells.reshape(-1, BRANCHES), largest)
    return DutyGroups(duty, cells.reshape(-1, GROUP), tuple(levels), champions)


def _alike(duty: NDArray[np.float32]) -> NDArray[np.int32]:
    """Cells in the order of their groups: int32[cells].

    Half of a group that is sorted along a kernel is sorted along it, too: as long as the group
    differs most in the same kernel, nothing needs to be done.
    """
    kernels, size = duty.shape
    cells = np.arange(size, dtype=np.int32)[None]
    mixed = np.zeros(1, dtype=np.int64)  # groups of cells that may differ
    sorted_along = np.full(1, -1)
    while size > BRANCHES:
        of_mixed = cells[mixed]
        duties = np.take(duty, of_mixed, axis=1)
        number = duties.view(np.int32)  # in the same order, of which the largest is told faster
        highest, lowest = number.max(axis=2), number.min(axis=2)
        spread = highest.view(np.float32) - lowest.view(np.float32)
        widest = spread.argmax(axis=0)
        differ = spread.any(axis=0)
        other = np.flatnonzero(differ & (widest != sorted_along))
        if len(other):
            order = _ascending(duties[widest[other], other])
            cells[mixed[other]] = np.take_along_axis(of_mixed[other], order, axis=1)
        if kernels == 1:
            break
        size //= 2
        cells = cells.reshape(-1, size)
        mixed = (2 * mixed[differ, None] + np.arange(2)).ravel()
        sorted_along = np.repeat(widest[differ], 2)
    return cells.ravel()


def _ascending(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Order in which the values of each row ascend, none of them negative: int64[rows, columns].

    Row, value and column as a single number are sorted many times faster than rows of few columns.
    """
    rows, columns = values.shape
    bits = np.uint64(columns.bit_length())
    number = np.arange(rows, dtype=np.uint64)[:, None] << np.uint64(32) | values.view(np.uint32)
    number = number << bits | np.arange(columns, dtype=np.uint64)
    column = np.sort(number, axis=None) & (np.uint64(1) << bits) - np.uint64(1)
    return column.astype(np.int64).reshape(rows, columns)


def _champions(
    duty: NDArray[np.float32], cells: NDArray[np.int32], largest: NDArray[np.float64]
) -> NDArray[np.int32]:
    """Cells that win under each kernel alone, and under mixtures of a few kernels.

    Parameters
    ----------
    duty : float32[kernels, cells]
        Duty cycles.
    cells : int32[groups, 8]
        Cells of the finest groups.
    largest : float64[kernels, groups]
        Their largest duty cycles: only groups whose bound exceeds a cell of the group with the
        largest bound are looked into.
    """
    kernels = len(duty)
    draws = np.random.default_rng(0).integers(kernels, size=(TRIALS, TRIAL_KERNELS))
    draws[:, 0] = np.arange(TRIALS) % kernels
    counts = np.arange(TRIAL_KERNELS) <= np.arange(TRIALS)[:, None] // kernels
    mixtures = np.zeros((TRIALS, kernels), dtype=np.float32)
    np.add.at(mixtures, (np.arange(TRIALS)[:, None], draws), counts)
    mixtures = np.unique(mixtures / mixtures.sum(axis=1, keepdims=True), axis=0)
    winners = set()
    for mixture, bounds in zip(mixtures, mixtures @ largest.astype(np.float32), strict=True):
        least = (mixture @ np.take(duty, cells[bounds.argmax()], axis=1)).max()
        open_ = np.sort(cells[bounds >= ROUNDED * least], axis=None)
        winners.add(int(open_[(mixture @ np.take(duty, open_, axis=1)).argmax()]))
    return np.array(sorted(winners), dtype=np.int32)


def longest_total(seconds: NDArray[np.float64], groups: DutyGroups) -> NDArray[np.float64]:
    """Longest stress time of any cell of each instance.

    Parameters
    ----------
    seconds : float64[instances, kernels]
        Time that each instance has run each kernel.
    groups : DutyGroups
        Duty cycles.

    Returns
    -------
    float64[instances]
        The same to the last bit as the maximum over all cells, terms added in order of kernels:
        rounding is monotonic, so that a bound computed in this order stays one. Kernels that have
        not run add nothing, and are left out.
    """
    longest = np.empty(len(seconds))
    for first in range(0, len(seconds), BLOCK):
        block = slice(first, first + BLOCK)
        longest[block] = _longest_of_block(seconds[block], groups)
    return longest


def _longest_of_block(seconds: NDArray[np.float64], groups: DutyGroups) -> NDArray[np.float64]:
    most = np.count_nonzero(seconds, axis=1).max()
    ran = np.argsort(seconds == 0, axis=1, kind="stable")[:, :most]
    spent = np.take_along_axis(seconds, ran, axis=1)

    def total(
        instance: NDArray[np.int64], duty: NDArray[np.float64], column: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        sums = np.zeros(np.broadcast_shapes(instance.shape, column.shape))
        for kernel, time in zip(ran.T, spent.T, strict=True):
            sums += time[instance] * duty[kernel[instance], column]
        return sums

    everyone = np.arange(len(seconds))
    longest: NDArray[np.float64] = total(
        everyone[:, None], groups.duty, groups.champions[None]
    ).max(axis=1)
    instance, node = map(np.ravel, np.indices((len(seconds), groups.levels[0].shape[1])))
    for level in groups.levels:
        open_ = total(instance, level, node) > longest[instance]
        instance = np.repeat(instance[open_], BRANCHES)
        node = (node[open_, None] * BRANCHES + np.arange(BRANCHES)).ravel()
    np.maximum.at(longest, instance, total(instance, groups.duty, groups.cells.ravel()[node]))
    return longest
