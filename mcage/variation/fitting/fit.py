"""The constants of Vmin that make counts most likely, and what follows for other voltages."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import ndtri

from mcage.errors import UserError
from mcage.random import stream
from mcage.stats.estimates import CONFIDENCE, Estimate
from mcage.variation.fitting.counts import FaultCounts
from mcage.variation.fitting.likelihood import AllTogether, EachArray, Observed, observed
from mcage.variation.fitting.two_levels import TwoLevels

SAMPLES = 200
"""Samples of the parametric bootstrap."""

DRAWS = 5
"""Counts that are drawn with the constants of each sample."""

STEPS = np.array([0.1, 0.05, 0.3])
"""First steps of the search: of the lowest voltage's distance, of log total and of log ratio."""

LEAST_RATIO, LARGEST_RATIO = 0.02, 20.0
"""Range of the deviation between arrays over that within."""

PRECISION = 1e-3


@dataclass(frozen=True)
class Prediction:
    """What the fitted constants make of a voltage.

    Attributes
    ----------
    volts : float
        The voltage.
    left_out : bool
        Whether the fit did not use the counts there.
    faulty, faultless : Estimate
        Faulty bits of as many arrays, and arrays without one, with 95 % intervals of a new count:
        they hold the uncertainty of the constants, too. Of ``faultless``, NaN if arrays are not
        told apart.
    """

    volts: float
    left_out: bool
    faulty: Estimate
    faultless: Estimate


@dataclass(frozen=True)
class FittedVmin:
    """Fitted constants with 95 % intervals, and predictions.

    Attributes
    ----------
    mu, total : Estimate
        Mean of Vmin and its standard deviation from cell to cell, in volts.
    between, within : Estimate or None
        Standard deviations between arrays and inside an array, in volts; None if the counts do not
        tell them apart.
    exact : bool
        Whether the likelihood is exact; if not, it is a composite one.
    predictions : tuple of Prediction
        For each voltage, in the order of the counts.
    """

    mu: Estimate
    total: Estimate
    between: Estimate | None
    within: Estimate | None
    exact: bool
    predictions: tuple[Prediction, ...]


def fit_vmin(
    counts: FaultCounts,
    left_out: tuple[float, ...] = (),
    *,
    seed: int = 1,
    samples: int = SAMPLES,
) -> FittedVmin:
    """Fit the distribution of Vmin to counts of faulty bits.

    Parameters
    ----------
    counts : FaultCounts
        The counts. With those of each array, or with a share of arrays without a fault, the
        deviation between arrays is told from that within; otherwise only both together are fitted.
    left_out : tuple of float
        Voltages that the fit does not use, but predicts.
    seed : int
        Seed of the bootstrap.
    samples : int
        Samples of the bootstrap.

    Returns
    -------
    FittedVmin
        Intervals are percentiles of a parametric bootstrap: counts are drawn with the fitted
        constants, array by array, and fitted again.

    Raises
    ------
    UserError
        A voltage that is left out has no counts, or too few counts are left.

    Notes
    -----
    Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 6 and 13. Composite
    likelihood: Varin, Reid and Firth, Statistica Sinica 21 (2011).
    """
    kept = _kept(counts, left_out)
    used = counts.at(kept)
    data = observed(used)
    start = _start(used)
    split = not isinstance(data, AllTogether)
    best = _most_likely(data, start if split else start[:2], used.volts[-1])
    bits = _bits_of_arrays(counts, split)
    refitted, faulty, faultless = [], [], []
    for number in range(samples):
        generator = stream(seed, "faults.fit", number)
        again = data.again(best.draw(bits, used.volts, generator))
        levels = _most_likely(again, _numbers(best, used.volts[-1], split), used.volts[-1])
        refitted.append(levels)
        for _ in range(DRAWS):
            drawn = levels.draw(bits, counts.volts, generator)
            faulty.append(drawn.sum(axis=0))
            faultless.append((drawn == 0).sum(axis=0))
    expected = _expected(best, counts.volts, bits)
    predictions = tuple(
        Prediction(
            float(counts.volts[place]),
            not kept[place],
            _interval(expected[0][place], np.array(faulty)[:, place]),
            _interval(expected[1][place], np.array(faultless)[:, place])
            if split
            else Estimate(np.nan, np.nan, np.nan),
        )
        for place in range(len(counts.volts))
    )

    def estimated(name: str) -> Estimate:
        of_samples = np.array([getattr(levels, name) for levels in refitted])
        return _interval(getattr(best, name), of_samples)

    return FittedVmin(
        estimated("mu_volts"),
        estimated("total_volts"),
        estimated("between_volts") if split else None,
        estimated("within_volts") if split else None,
        isinstance(data, EachArray | AllTogether),
        predictions,
    )


def _kept(counts: FaultCounts, left_out: tuple[float, ...]) -> NDArray[np.bool_]:
    """Voltages that the fit uses, bool[V]."""
    near = np.array([np.abs(counts.volts - volts) < 1e-9 for volts in left_out], bool)
    near = near.reshape(len(left_out), len(counts.volts))
    for volts, places in zip(left_out, near, strict=True):
        if not places.any():
            raise UserError(f"{counts.name}: no counts at {volts:g} V that could be left out")
    kept: NDArray[np.bool_] = np.logical_not(near.any(axis=0))
    if len(np.unique(counts.faulty[kept & (counts.faulty > 0)])) < 2:
        raise UserError(
            f"{counts.name}: faulty bits are needed at two voltages or more, with different counts"
        )
    return kept


def _start(counts: FaultCounts) -> NDArray[np.float64]:
    """Numbers from which a search begins: a line through the shares of faulty bits."""
    between = (counts.faulty > 0) & (counts.faulty < counts.bits)
    distance = -ndtri(counts.faulty[between] / counts.bits)
    volts = counts.volts[between]
    slope = np.polyfit(volts, distance, 1)[0] if len(volts) > 1 else 0.0
    total = 1.0 / slope if slope > 1.0 else 0.05
    lowest = distance[-1] + (counts.volts[-1] - volts[-1]) / total if len(volts) else 0.0
    return np.array([lowest, np.log(total), np.log(0.6)])


def _levels(numbers: NDArray[np.float64], lowest_volts: float) -> TwoLevels:
    """Constants of the numbers of a search.

    They are the distance of the lowest voltage from mu in standard deviations, the logarithm of
    the total deviation and that of the ratio of its parts: these hardly depend on each other.
    """
    total = float(np.exp(np.clip(numbers[1], -9.0, 0.0)))
    mu_volts = lowest_volts - float(numbers[0]) * total
    if len(numbers) == 2:
        return TwoLevels(mu_volts, 0.0, total)
    ratio = float(np.clip(np.exp(numbers[2]), LEAST_RATIO, LARGEST_RATIO))
    within = total / np.hypot(1.0, ratio)
    return TwoLevels(mu_volts, float(ratio * within), float(within))


def _numbers(levels: TwoLevels, lowest_volts: float, split: bool) -> NDArray[np.float64]:
    """The inverse of `_levels`."""
    total = levels.total_volts
    numbers = [(lowest_volts - levels.mu_volts) / total, np.log(total)]
    ratio = [np.log(levels.between_volts / levels.within_volts)] if split else []
    return np.array([*numbers, *ratio])


def _most_likely(data: Observed, start: NDArray[np.float64], lowest_volts: float) -> TwoLevels:
    """Search for the maximum by the method of Nelder and Mead."""
    corners = np.vstack([start, start + np.diag(STEPS[: len(start)])])

    def unlikely(numbers: NDArray[np.float64]) -> float:
        return -data.log_likelihood(_levels(numbers, lowest_volts))

    options: Any = {"initial_simplex": corners, "xatol": PRECISION, "fatol": PRECISION}
    result: Any = minimize(unlikely, start, method="Nelder-Mead", options=options)
    return _levels(result.x, lowest_volts)


def _bits_of_arrays(counts: FaultCounts, split: bool) -> NDArray[np.int64]:
    """Bits of each array, as even as can be where only their sum is known: int64[A]."""
    if split and counts.array_bits is not None:
        return counts.array_bits
    number = counts.arrays if split else 1
    each, rest = divmod(counts.bits, number)
    return np.full(number, each, np.int64) + (np.arange(number) < rest)


def _expected(
    levels: TwoLevels, volts: NDArray[np.float64], bits: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Expected faulty bits of all arrays, and arrays without a fault: float64[V] each."""
    points, weights = levels.rule(0.02)
    share = levels.faulty(points, volts)
    sizes, times = np.unique(bits, return_counts=True)
    sound = np.exp(sizes[:, None, None] * np.log1p(-np.minimum(share, 1 - 1e-12)))
    return bits.sum() * (weights @ share), times @ np.einsum("n,snv->sv", weights, sound)


def _interval(value: float, of_samples: NDArray[np.float64] | NDArray[np.int64]) -> Estimate:
    tail = 50 * (1 - CONFIDENCE)
    lower, upper = np.percentile(of_samples, [tail, 100 - tail])
    return Estimate(float(value), float(lower), float(upper))
