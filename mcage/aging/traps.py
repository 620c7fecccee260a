"""Traps: why transistors that are stressed alike shift differently (the defect-centric law of BTI).

A transistor has a Poisson number of charged traps, and each of them shifts the threshold by an
exponentially distributed voltage with mean eta (Kaczer et al., IEEE EDL 2015,
10.1109/LED.2015.2404293). If m is the mean shift, which an NBTI model gives, there are m / eta
charged traps on average, and the variance of the shift is 2 eta m.

**A transistor keeps its luck for life.** Its shift is the quantile of this law at a rank that the
transistor keeps; it rises with the mean, and never falls while the mean rises. So the moment at
which a transistor reaches a given shift has the same distribution as if each trap were drawn once
and charged when the mean reaches it: that moment is later than t if and only if the shift at t lies
below. Lives therefore follow the law of single traps exactly. Only the shifts of a transistor at
two ages are tied closer: by a correlation of 1 instead of the root of the ratio of the two means.

**The law in numbers.** With L = m / eta traps on average and a = shift / eta: a sum of n
exponential numbers exceeds a if a Poisson number with mean a is below n. So a transistor shifts
further with the probability ``P(N > N')``, for independent Poisson numbers N and N' with means L
and a. Where a is large, the normal score of that probability is ``w + ln(a / L) / (4 w)`` with
``w = sqrt(2 a) - sqrt(2 L)``: the saddle-point formula of Lugannani and Rice (1980) as
Barndorff-Nielsen (1986) writes it, which has a closed form for this law. Elsewhere the exact sums
are tabulated. Both together give the mean of a shift and a score within 0.002 eta, or within 0.07 %
of the mean where this is more: for very lucky transistors, whose shifts are a small part of the
mean (`tests/unit/aging/test_cells.py`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, ndtri, pdtr, pdtrc

from mcage.compiled import compiled

LARGEST_SCORE = 8.2
"""Scores end here: one transistor in 8e15 has a larger score."""

_TABLE_ROOT = 7.0
"""Largest tabulated root of a; the closed form begins there."""

_STEP = 0.05
"""Distance of the tabulated roots of a, and of the tabulated scores."""

_ROUNDS = 4
"""Rounds of fixed-point iterations, each of which leaves less than a hundredth of the error."""


def scores_of(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normal scores of transistors by their ranks.

    Parameters
    ----------
    ranks : float64[...]
        Share of the transistors that shift further when stressed alike, 0 ... 1: uniform numbers.

    Returns
    -------
    float64[...]
        Standard normal numbers up to `LARGEST_SCORE`: the larger, the unluckier.
    """
    scores: NDArray[np.float64] = np.clip(-ndtri(ranks), -LARGEST_SCORE, LARGEST_SCORE)
    return scores


@dataclass(frozen=True)
class TrapLaw:
    """The law of the shifts of transistors that are stressed alike.

    Parameters
    ----------
    eta_volts : float
        Mean shift by a charged trap, in volts, above 0.
    """

    eta_volts: float

    def of_mean(self, transistors: int) -> "TrapLaw":
        """Law of the mean shift of so many transistors: as of a transistor with as many traps."""
        return TrapLaw(self.eta_volts / transistors)

    def exceedance(self, shift_volts: float, mean_volts: float) -> float:
        """Probability that a transistor shifts further than so far, by the exact sum.

        Parameters
        ----------
        shift_volts, mean_volts : float
            The shift, and the mean shift; at least 0.
        """
        shift = shift_volts / self.eta_volts
        below = np.arange(int(shift + 40 * math.sqrt(shift)) + 100)
        return float(_poisson(below, np.array(shift)) @ pdtrc(below, mean_volts / self.eta_volts))

    def shift(self, mean_volts: ArrayLike, scores: ArrayLike) -> NDArray[np.float64]:
        """Shifts of transistors.

        Parameters
        ----------
        mean_volts, scores : array
            Mean shift of all transistors that are stressed like each, in volts, and the score of
            each; of shapes that broadcast against each other.

        Returns
        -------
        array
            Shifts in volts; 0 for a transistor without a charged trap.
        """
        return self._each(_shifts, mean_volts, scores)

    def mean_at(self, shift_volts: ArrayLike, scores: ArrayLike) -> NDArray[np.float64]:
        """Mean shifts at which transistors reach given shifts: the inverse of `shift`.

        Parameters
        ----------
        shift_volts, scores : array
            The shifts in volts, and the score of each transistor; of shapes that broadcast against
            each other.

        Returns
        -------
        array
            Means in volts; 0 where the shift is 0 or less, infinite where it is infinite.
        """
        return self._each(_means, shift_volts, scores)

    def _each(
        self, fill_in: Callable[..., None], volts: ArrayLike, scores: ArrayLike
    ) -> NDArray[np.float64]:
        given, score = np.broadcast_arrays(
            np.asarray(volts, dtype=np.float64), np.asarray(scores, dtype=np.float64)
        )
        results = np.empty(given.size)
        arrays = given.flatten(), score.flatten()
        fill_in(*arrays, self.eta_volts, _roots_of_means(), results)
        return results.reshape(given.shape)


def _poisson(counts: NDArray[np.int64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of counts for Poisson numbers with such means."""
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = np.where(counts == 0, 0.0, counts * np.log(means))
    probability: NDArray[np.float64] = np.exp(powers - means - gammaln(counts + 1.0))
    return probability


@cache
def _roots_of_means() -> NDArray[np.float64]:
    """Roots of the mean number of traps, by root of a (rows) and score (columns); read-only."""
    rows = np.arange(0, _TABLE_ROOT + _STEP / 2, _STEP)
    columns = np.arange(-LARGEST_SCORE, LARGEST_SCORE + _STEP / 2, _STEP)
    tried = np.concatenate([np.geomspace(1e-9, 0.02, 200), np.arange(0.03, 16, 0.01)])
    count = np.arange(400)
    below = _poisson(count, rows[:, None] ** 2)
    above = below @ pdtrc(count, tried[:, None] ** 2).T
    under = below @ pdtr(count, tried[:, None] ** 2).T
    # Whichever probability is small is exact in all its digits.
    with np.errstate(divide="ignore"):
        scores = np.where(above < 0.5, -ndtri(above), ndtri(under))
    table = np.stack([np.interp(-columns, -of_row, tried) for of_row in scores])
    table.setflags(write=False)
    return table


@compiled
def _slope(first: float, second: float) -> float:
    """``ln(second / first) / (second - first)`` of positive numbers, also where they are equal."""
    distance = second - first
    if abs(distance) < 1e-5 * first:
        nearby: float = 1.0 / (first + 0.5 * distance)
        return nearby
    slope: float = np.log(second / first) / distance
    return slope


@compiled
def _closed(root: float, score: float) -> float:
    """Root of the mean by that of a, in the closed form."""
    result = root - score / np.sqrt(2.0)
    for _ in range(_ROUNDS):
        result = root - (score - _slope(max(result, 0.1), root) / np.sqrt(8.0)) / np.sqrt(2.0)
    return float(result)


@compiled
def _in_table(table: NDArray[np.float64], row: int, score: float) -> float:
    """Root of the mean in a row of the table."""
    place = (score + LARGEST_SCORE) / _STEP
    column = min(max(int(place), 0), table.shape[1] - 2)
    part = place - column
    root: float = table[row, column] * (1.0 - part) + table[row, column + 1] * part
    return root


@compiled
def _missing(table: NDArray[np.float64], score: float) -> float:
    """What the closed form lacks at the border of the table; it fades as the root of a grows."""
    return _in_table(table, table.shape[0] - 1, score) - _closed(_TABLE_ROOT, score)


@compiled
def _faded(root: float) -> float:
    fading = _TABLE_ROOT / root
    return fading * fading * fading


@compiled
def _means(
    shifts: NDArray[np.float64],
    scores: NDArray[np.float64],
    eta: float,
    table: NDArray[np.float64],
    means: NDArray[np.float64],
) -> None:
    for each in range(len(shifts)):
        if shifts[each] <= 0.0:
            means[each] = 0.0
            continue
        if shifts[each] == np.inf:
            means[each] = np.inf
            continue
        root, score = np.sqrt(shifts[each] / eta), scores[each]
        if root < _TABLE_ROOT:
            place = root / _STEP
            row = min(int(place), table.shape[0] - 2)
            part = place - row
            lower, upper = _in_table(table, row, score), _in_table(table, row + 1, score)
            result = lower * (1.0 - part) + upper * part
        else:
            result = _closed(root, score) + _missing(table, score) * _faded(root)
        means[each] = eta * result * result


@compiled
def _shifts(
    means: NDArray[np.float64],
    scores: NDArray[np.float64],
    eta: float,
    table: NDArray[np.float64],
    shifts: NDArray[np.float64],
) -> None:
    last = table.shape[0] - 1
    for each in range(len(means)):
        root, score = np.sqrt(means[each] / eta), scores[each]
        if root < _in_table(table, 0, score):
            result = 0.0
        elif root < _in_table(table, last, score):
            low, high = 0, last
            while high - low > 1:
                middle = (low + high) // 2
                if _in_table(table, middle, score) <= root:
                    low = middle
                else:
                    high = middle
            lower, upper = _in_table(table, low, score), _in_table(table, high, score)
            result = _STEP * (low + (root - lower) / (upper - lower))
        else:
            missing = _missing(table, score)
            result = max(root + score / np.sqrt(2.0), _TABLE_ROOT)
            for _ in range(_ROUNDS):
                closed = root - missing * _faded(result)
                bent = score - _slope(closed, result) / np.sqrt(8.0)
                result = max(closed + bent / np.sqrt(2.0), _TABLE_ROOT)
        shifts[each] = eta * result * result
