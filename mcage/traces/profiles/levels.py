"""Distributions as levels: the means of equal parts of the ascending samples.

Levels keep the mean exactly, need no family of distributions, and a draw is a look-up. Draws are
spread: of n of them, each n-th part of the distribution gives exactly one.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FEW, MANY = 16, 64
"""Parts of a distribution of a register, and of one of a kernel's windows."""


def levels_of(samples: NDArray[Any], parts: int = FEW) -> list[float]:
    """Means of equal parts of the ascending samples: at most ``parts`` numbers, one if all agree.

    Parameters
    ----------
    samples : array[n]
        The samples; of none, the only level is 0.
    parts : int
        Number of parts.
    """
    if not len(samples):
        return [0.0]
    ordered = np.sort(samples.astype(np.float64))
    if ordered[0] == ordered[-1]:
        return [rounded(ordered[0])]
    return trend_of(ordered, parts)


def trend_of(samples: NDArray[Any], parts: int = FEW) -> list[float]:
    """Means of equal parts of the samples in their order, at most ``parts`` numbers."""
    # Sums up to each edge; an edge inside a sample takes its share of it.
    sums = np.concatenate(([0.0], np.cumsum(samples)))
    edges = np.linspace(0, len(samples), min(parts, len(samples)) + 1)
    means = np.diff(np.interp(edges, np.arange(len(sums)), sums)) / edges[1]
    return [rounded(mean) for mean in means]


def along(trend: Sequence[float], count: int) -> NDArray[np.float64]:
    """A trend at so many places in order."""
    return np.asarray(trend)[np.arange(count) * len(trend) // max(count, 1)]


def drawn(levels: Sequence[float], spread_: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draw from levels by numbers between 0 and 1, one each."""
    return np.asarray(levels)[(spread_ * len(levels)).astype(np.int64)]


def spread(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Numbers between 0 and 1 in random order, one in each of ``count`` equal parts."""
    return (random.permutation(count) + random.random(count)) / max(count, 1)


def rounded(number: "float | np.floating[Any]") -> float:
    """The number with six significant digits: more than samples tell."""
    return float(f"{number:.6g}")


def chosen(shares: Sequence[float], spread_: NDArray[np.float64]) -> NDArray[np.int64]:
    """Choose among as many as there are shares, by numbers between 0 and 1."""
    upper = np.cumsum(shares)
    return np.minimum(
        np.searchsorted(upper / upper[-1], spread_, side="right"), len(shares) - 1
    ).astype(np.int64)
