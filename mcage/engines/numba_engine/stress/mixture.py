"""The most stressed cell of a mixture of kernels: `mcage.replays.most_stressed`, compiled."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import compiled, inner
from mcage.replays.most_stressed import BRANCHES, DutyGroups


class Tree(NamedTuple):
    """`DutyGroups` with all levels in one table.

    Attributes
    ----------
    duty : float64[kernels, cells]
        Fraction of the time for which a cell is stressed.
    bounds : float64[kernels, nodes]
        Largest duty cycle of the cells of each node, one level after the other.
    starts : int64[levels + 1]
        First node of each level.
    cells : int32[cells]
        Cells, in the order of the nodes of the finest level.
    champions : int32[n]
        Cells to look at first.
    """

    duty: NDArray[np.float64]
    bounds: NDArray[np.float64]
    starts: NDArray[np.int64]
    cells: NDArray[np.int32]
    champions: NDArray[np.int32]


def tree_of(groups: DutyGroups) -> Tree:
    """Put all levels of the groups into one table."""
    return Tree(
        groups.duty,
        np.concatenate(groups.levels, axis=1),
        np.cumsum([0, *(level.shape[1] for level in groups.levels)]),
        groups.cells.ravel(),
        groups.champions,
    )


class Mixture(NamedTuple):
    """Kernels that an instance has run: the first `length` items of arrays [kernels].

    Attributes
    ----------
    kernel : int64[kernels]
        Kernels.
    seconds : float64[kernels]
        Time that the instance has run each.
    length : int
        How many they are.
    """

    kernel: NDArray[np.int64]
    seconds: NDArray[np.float64]
    length: int


@compiled
def longest_total(seconds: NDArray[np.float64], tree: Tree, longest: NDArray[np.float64]) -> None:
    """As `mcage.replays.most_stressed.longest_total`: the same sums, terms in the same order.

    Parameters
    ----------
    seconds : float64[instances, kernels]
        Time that each instance has run each kernel.
    tree : Tree
        Duty cycles.
    longest : float64[instances]
        Longest stress times, filled in.
    """
    levels = len(tree.starts) - 1
    ran = np.empty(seconds.shape[1], np.int64)
    spent = np.empty(seconds.shape[1])
    totals = np.empty(BRANCHES)
    waiting = np.empty((BRANCHES * (levels + 1), 2), np.int64)
    for instance in range(len(seconds)):
        count = 0
        for kernel in range(seconds.shape[1]):
            if seconds[instance, kernel] != 0:
                ran[count], spent[count] = kernel, seconds[instance, kernel]
                count += 1
        mixture = Mixture(ran, spent, count)
        best = _best(tree.duty, mixture, tree.champions, 0, len(tree.champions), 0.0)
        for root in range(0, tree.starts[1], BRANCHES):
            waiting[0, 0], waiting[0, 1] = 0, root
            depth = 1
            while depth:
                depth -= 1
                level, first = waiting[depth, 0], waiting[depth, 1]
                if level == levels:
                    best = _best(tree.duty, mixture, tree.cells, first, first + BRANCHES, best)
                    continue
                _sum_siblings(tree.bounds, mixture, tree.starts[level] + first, totals)
                for child in range(BRANCHES):
                    if totals[child] > best:
                        waiting[depth, 0], waiting[depth, 1] = level + 1, (first + child) * BRANCHES
                        depth += 1
        longest[instance] = best


@inner
def _best(
    duty: NDArray[np.float64],
    mixture: Mixture,
    cells: NDArray[np.int32],
    first: int,
    last: int,
    best: float,
) -> float:
    """Longest stress time among the cells from `first` to `last`, or `best` if none exceeds it."""
    for i in range(first, last):
        total = 0.0
        for place in range(mixture.length):
            total += mixture.seconds[place] * duty[mixture.kernel[place], cells[i]]
        best = max(best, total)
    return best


@inner
def _sum_siblings(
    bounds: NDArray[np.float64], mixture: Mixture, first: int, totals: NDArray[np.float64]
) -> None:
    """Bounds of the eight nodes from the first on."""
    totals[:] = 0.0
    for place in range(mixture.length):
        for child in range(BRANCHES):
            totals[child] += mixture.seconds[place] * bounds[mixture.kernel[place], first + child]
