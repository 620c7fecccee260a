"""Two techniques on the same dies: instance i of one is instance i of the other.

Dies differ far more than techniques do on one die, so that differences taken die by die are known
much better than the two means that they are the difference of (common random numbers).
"""

import math
from dataclasses import dataclass

import numpy as np

from mcage.stats.estimates import (
    CONFIDENCE,
    SAME_AGE_YEARS,
    Bools,
    Estimate,
    Floats,
    mean,
    proportion,
    variance,
)


@dataclass(frozen=True)
class PairedMeans:
    """Means of a quantity under two techniques, on dies where both have one.

    Parameters
    ----------
    dies : int
        Pairs.
    first, second : Estimate
        Means.
    difference : Estimate
        First minus second.
    ratio : Estimate
        First over second.
    variance_reduction : float
        Variance that the difference would have with dies of their own for each technique, over
        the one that it has. Its root is by how much the interval shrinks. NaN where neither mean
        varies, infinite where only their difference does not.
    """

    dies: int
    first: Estimate
    second: Estimate
    difference: Estimate
    ratio: Estimate
    variance_reduction: float


@dataclass(frozen=True)
class Outliving:
    """Which of two techniques keeps a die alive for longer.

    Parameters
    ----------
    first, second : Estimate
        Share of the dies that live longer under that technique; Wilson's interval.
    together : Estimate
        Share that die at the same age under both.
    unknown : Estimate
        Share for which it cannot be said: both live on when observation ends.
    first_of_decided : Estimate
        Share of the first among the dies that live longer under one of them; NaN if none does.
    p_value : float
        Of the sign test: probability of a split at least as uneven if both were equally good.
    """

    first: Estimate
    second: Estimate
    together: Estimate
    unknown: Estimate
    first_of_decided: Estimate
    p_value: float


def compare_means(first: Floats, second: Floats, confidence: float = CONFIDENCE) -> PairedMeans:
    """Means of a quantity under two techniques, and their difference and ratio die by die.

    Parameters
    ----------
    first, second : ndarray of float [instance]
        In one unit. Dies on which one of them is missing (NaN) do not count.
    confidence : float
        Of each interval.

    Notes
    -----
    Of lives cut at a horizon, the mean is the restricted mean life: years lived up to the
    horizon. Differences of it can be estimated without assumptions; differences of whole mean
    lives cannot, once a life reaches the horizon.

    References
    ----------
    Restricted mean: Royston and Parmar, BMC Med. Res. Methodol. 13 (2013). Common random
    numbers: Law, Simulation Modeling and Analysis, section 11.2.
    """
    both = ~(np.isnan(first) | np.isnan(second))
    one, other = first[both].astype(np.float64), second[both].astype(np.float64)
    return PairedMeans(
        dies=one.size,
        first=mean(one, confidence),
        second=mean(other, confidence),
        difference=mean(one - other, confidence),
        ratio=ratio_of_means(one, other, confidence),
        variance_reduction=_variance_reduction(one, other),
    )


def ratio_of_means(first: Floats, second: Floats, confidence: float = CONFIDENCE) -> Estimate:
    """Mean of ``first`` over mean of ``second`` with Fieller's interval for paired samples.

    Parameters
    ----------
    first, second : ndarray of float [instance]
        Pairs without missing values.
    confidence : float
        Of the interval.

    Returns
    -------
    Estimate
        Without bounds (NaN) where the mean of ``second`` may be zero for all that the sample says:
        then every ratio may be.

    References
    ----------
    Fieller, J. R. Stat. Soc. B 16 (1954).
    """
    from scipy.stats import t

    count = first.size
    if not count or not second.mean():
        return Estimate(math.nan, math.nan, math.nan)
    m1, m2 = float(first.mean()), float(second.mean())
    if count < 2:
        return Estimate(m1 / m2, math.nan, math.nan)
    (v11, v12), (_, v22) = np.cov(first, second) / count
    q = float(t.ppf((1.0 + confidence) / 2.0, count - 1)) ** 2
    # The ratios r for which the mean of first - r * second does not differ from zero:
    # a * r**2 - 2 * b * r + c <= 0.
    a, b, c = m2 * m2 - q * v22, m1 * m2 - q * v12, m1 * m1 - q * v11
    if a <= 0.0:
        return Estimate(m1 / m2, math.nan, math.nan)
    root = math.sqrt(max(0.0, b * b - a * c))
    return Estimate(m1 / m2, (b - root) / a, (b + root) / a)


def outliving(
    first_years: Floats,
    first_died: Bools,
    second_years: Floats,
    second_died: Bools,
    confidence: float = CONFIDENCE,
) -> Outliving:
    """On how many dies one technique outlives the other.

    Parameters
    ----------
    first_years, second_years : ndarray of float [instance]
        End of life, or of observation, years.
    first_died, second_died : ndarray of bool [instance]
        False where the life is censored. A life censored at the age of the other's death
        outlives it.
    confidence : float
        Of each interval.

    References
    ----------
    Sign test: Dixon and Mood, J. Am. Stat. Assoc. 41 (1946).
    """
    from scipy.stats import binomtest

    count = first_years.size
    gain = first_years - second_years
    together = first_died & second_died & (np.abs(gain) <= SAME_AGE_YEARS)
    first_longer = second_died & (gain >= -SAME_AGE_YEARS) & ~together
    second_longer = first_died & (gain <= SAME_AGE_YEARS) & ~together
    wins, losses, ties = (
        int(np.count_nonzero(one)) for one in (first_longer, second_longer, together)
    )
    decided = wins + losses

    def share(dies: int) -> Estimate:
        return proportion(dies, count, confidence)

    nothing = Estimate(math.nan, math.nan, math.nan)
    return Outliving(
        first=share(wins),
        second=share(losses),
        together=share(ties),
        unknown=share(count - decided - ties),
        first_of_decided=proportion(wins, decided, confidence) if decided else nothing,
        p_value=float(binomtest(wins, decided).pvalue) if decided else 1.0,
    )


def _variance_reduction(first: Floats, second: Floats) -> float:
    if first.size < 2:
        return math.nan
    apart, paired = variance(first) + variance(second), variance(first - second)
    if apart == 0.0:
        return math.nan
    return apart / paired if paired > 0.0 else math.inf
