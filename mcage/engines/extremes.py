"""The most stressed cell under a mixture of kernels, without looking at every cell.

Cells with similar duty cycles are grouped. The largest duty cycles of a group bound all its cells
under any mixture, so that only groups whose bound exceeds what is already found are looked into.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GROUP = 64


@dataclass(frozen=True)
class DutyGroups:
    """Duty cycles of all cells under each kernel, with the cells grouped by likeness.

    Attributes
    ----------
    duty : float64[kernels, cells]
        Share of the time that a cell is stressed.
    cells : int32[groups, 64]
        Cells of each group.
    bound : float64[kernels, groups]
        Largest duty cycle of each group.
    """

    duty: NDArray[np.float64]
    cells: NDArray[np.int32]
    bound: NDArray[np.float64]


def group_by_duty(duty: NDArray[np.float64]) -> DutyGroups:
    """Group cells: halve again and again along the kernel in which a group differs most.

    Parameters
    ----------
    duty : float64[kernels, cells]
        `cells` is 64 times a power of two.
    """
    cells = np.arange(duty.shape[1], dtype=np.int32)[None]
    while cells.shape[1] > GROUP:
        spread = np.stack([np.ptp(one[cells], axis=1) for one in duty])
        key = duty[np.argmax(spread, axis=0)[:, None], cells]
        half = cells.shape[1] // 2
        order = np.argpartition(key, half, axis=1)
        cells = np.take_along_axis(cells, order, axis=1).reshape(-1, half)
    bound = np.stack([one[cells].max(axis=1) for one in duty])
    return DutyGroups(duty, cells, bound)


def longest_total(seconds: NDArray[np.float64], groups: DutyGroups) -> NDArray[np.float64]:
    """Longest stressed time of any cell of each instance.

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
        rounding is monotonic, so that a bound computed in this order stays one.
    """
    longest = np.zeros(len(seconds))
    for instance, mixture in enumerate(seconds):
        bound = _mixed(mixture, groups.bound)
        first = _mixed(mixture, groups.duty[:, groups.cells[np.argmax(bound)]]).max()
        candidates = groups.cells[bound > first].ravel()
        others = _mixed(mixture, groups.duty[:, candidates]).max(initial=0.0)
        longest[instance] = max(first, others)
    return longest


def _mixed(mixture: NDArray[np.float64], duty: NDArray[np.float64]) -> NDArray[np.float64]:
    total = np.zeros(duty.shape[1])
    for spent, one in zip(mixture, duty, strict=True):
        total += spent * one
    return total
