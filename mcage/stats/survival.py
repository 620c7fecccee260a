"""Lives that a horizon cuts: survival curves, and quantiles with distribution-free bounds."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mcage.stats.estimates import CONFIDENCE, Bools, Estimate, Floats, normal_quantile


@dataclass(frozen=True)
class CaseLives:
    """Lives of the instances of one case.

    Parameters
    ----------
    label : str
        The case.
    years : ndarray of float [instance]
        End of life; the horizon where the life is censored.
    died : ndarray of bool [instance]
        False where the life is censored.
    cause : ndarray of int [instance]
        Number of the cause of death; where the life is censored, any number.
    horizon_years : float
        End of the simulated time.
    """

    label: str
    years: Floats
    died: Bools
    cause: npt.NDArray[np.integer]
    horizon_years: float


@dataclass(frozen=True)
class Survival:
    """Kaplan-Meier curve: a step function that falls at every time of death.

    Parameters
    ----------
    years : ndarray of float [step]
        Times of death, rising, without repeats.
    survival : ndarray of float [step]
        Share alive after each of these times.
    lower, upper : ndarray of float [step]
        Pointwise confidence band.
    """

    years: Floats
    survival: Floats
    lower: Floats
    upper: Floats


def kaplan_meier(life_years: Floats, died: Bools, confidence: float = CONFIDENCE) -> Survival:
    """Survival curve of right-censored lives, with the log-log confidence band.

    Parameters
    ----------
    life_years : ndarray of float [instance]
        End of life, or of observation, years. A life censored at the time of a death counts as
        at risk then.
    died : ndarray of bool [instance]
        False where the life is censored.
    confidence : float
        Probability that the band covers at each time, 0 ... 1.

    References
    ----------
    Kaplan and Meier, J. Am. Stat. Assoc. 53 (1958); variance by Greenwood; band on the scale of
    log(-log S) by Kalbfleisch and Prentice, The Statistical Analysis of Failure Time Data.
    """
    lives = life_years.astype(np.float64)
    years, deaths = np.unique(lives[died], return_counts=True)
    at_risk = lives.size - np.searchsorted(np.sort(lives), years, side="left")
    survival = np.cumprod(1.0 - deaths / at_risk)
    # Where no slice is left the variance is undefined; the band is NaN there.
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.cumsum(deaths / (at_risk * (at_risk - deaths).astype(np.float64)))
        spread = normal_quantile(confidence) * np.sqrt(variance) / np.abs(np.log(survival))
        lower, upper = survival ** np.exp(spread), survival ** np.exp(-spread)
    undefined = survival == 0.0
    lower[undefined] = upper[undefined] = np.nan
    return Survival(years, survival, lower, upper)


def life_quantile(
    life_years: Floats, died: Bools, share: float = 0.5, confidence: float = CONFIDENCE
) -> Estimate:
    """Time at which ``share`` of the slices are dead, with bounds that assume no distribution.

    The value inverts the Kaplan-Meier curve; the bounds are order statistics whose ranks enclose
    the quantile with at least the given probability (binomial distribution), whatever the
    distribution of lives. Where many lives end at the same age they enclose it more often.

    Parameters
    ----------
    life_years : ndarray of float [instance]
        End of life, or of observation, years.
    died : ndarray of bool [instance]
        False where the life is censored.
    share : float
        Between 0 and 1, both excluded.
    confidence : float
        Probability that the interval covers, 0 ... 1.

    Returns
    -------
    Estimate
        In years; infinity stands for "after the end of observation", NaN for a bound that so few
        instances cannot give (for 95 %, the median needs six and the 10 % quantile 36).

    Raises
    ------
    ValueError
        A life is censored before another one ends: then ranks are not known.

    References
    ----------
    David and Nagaraja, Order Statistics, section 7.1.
    """
    if not died.all() and died.any() and life_years[~died].min() < life_years[died].max():
        raise ValueError("order statistics need every censored life to outlast every death")
    ordered = np.sort(np.where(died, life_years, np.inf))
    count = ordered.size

    def of_rank(rank: int) -> float:
        return float(ordered[rank - 1]) if 1 <= rank <= count else math.nan

    lower, upper = enclosing_ranks(count, share, confidence)
    return Estimate(of_rank(quantile_rank(count, share)), of_rank(lower), of_rank(upper))


def quantile_rank(count: int, share: float) -> int:
    """Rank, counted from 1, of the first order statistic at which ``share`` are reached."""
    # Rounding may lift share * count a hair above the integer that it is.
    return max(1, math.ceil(share * count - 1e-9))


@lru_cache
def enclosing_ranks(count: int, share: float, confidence: float = CONFIDENCE) -> tuple[int, int]:
    """Ranks of the order statistics that enclose the quantile of ``share``.

    The ranks start with equal tails. Then they move inwards, each time at the end that loses less,
    while they enclose the quantile with the given probability. Equal tails alone would cover the
    10 % quantile of 100 to 200 lives in up to 97 % of the samples instead of 95 %.

    Returns
    -------
    tuple of int
        Lower and upper rank, counted from 1. Rank 0 or ``count + 1`` means that no order
        statistic is low or high enough.

    References
    ----------
    David and Nagaraja, Order Statistics, section 7.1.
    """
    from scipy.special import bdtr

    tail = (1.0 - confidence) / 2.0
    lower = _binomial_quantile(tail, count, share)
    upper = _binomial_quantile(1.0 - tail, count, share) + 1
    if not 1 <= lower < upper <= count:
        return lower, upper
    # The number of lives below the quantile is binomial; the ranks enclose the quantile while that
    # number is at least the lower rank and less than the upper one.
    enclosed = float(bdtr(upper - 1, count, share) - bdtr(lower - 1, count, share))
    while True:
        lost_below = _binomial_probability(lower, count, share)
        lost_above = _binomial_probability(upper - 1, count, share)
        enclosed -= min(lost_below, lost_above)
        if enclosed < confidence:
            return lower, upper
        # Of the median, both ends often lose the same but for rounding: then the upper end moves.
        from_below = lost_below < lost_above * (1 - 1e-9)
        lower, upper = (lower + 1, upper) if from_below else (lower, upper - 1)


def _binomial_quantile(probability: float, count: int, share: float) -> int:
    """Smallest number of successes that is not exceeded with a probability.

    `scipy.stats` has it, too, but takes most of a second to import.
    """
    from scipy.special import bdtr, bdtrik

    successes = math.ceil(bdtrik(probability, count, share))
    fits_below = successes > 0 and bdtr(successes - 1, count, share) >= probability
    return successes - 1 if fits_below else successes


def _binomial_probability(successes: int, count: int, share: float) -> float:
    """Probability of a number of successes."""
    from scipy.special import gammaln, xlog1py, xlogy

    ways = gammaln(count + 1) - gammaln(successes + 1) - gammaln(count - successes + 1)
    return math.exp(ways + xlogy(successes, share) + xlog1py(count - successes, -share))
