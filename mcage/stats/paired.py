"""Two techniques compared on the same dies: instance i has the same die under both.

Dies differ far more than techniques do on the same die, so that differences taken die by die are
known much better than the two means (common random numbers).
"""

import math
from dataclasses import dataclass

import numpy as np

from mcage.stats import estimates

ROUNDING = 1e-9
"""Difference of two means over the means that rounding of equal numbers can leave."""

UNKNOWN = estimates.Estimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class PairedMeans:
    """Means of a quantity under two techniques, over the dies that have it under both.

    Parameters
    ----------
    dies : int
        Number of dies.
    first, second : Estimate
        Means.
    difference : Estimate
        First minus second.
    ratio : Estimate
        First over second.
    variance_reduction : float
        Variance of the difference if each technique had other dies, over its variance on the same
        dies. The interval shrinks by the root of it. NaN where the quantity varies under neither
        technique, infinite where only the difference does not vary.
    """

    dies: int
    first: estimates.Estimate
    second: estimates.Estimate
    difference: estimates.Estimate
    ratio: estimates.Estimate
    variance_reduction: float


@dataclass(frozen=True)
class Outliving:
    """How often each of two techniques keeps a die alive for longer.

    Parameters
    ----------
    first, second : Estimate
        Share of the dies that live longer under the first and under the second technique, with
        Wilson's interval.
    together : Estimate
        Share of the dies that die at the same age under both.
    unknown : Estimate
        Share of the dies that are alive under both when observation ends.
    first_of_decided : Estimate
        Share of the first technique among the dies that live longer under the first or the second;
        NaN if there are none.
    p_value : float
        Significance of the sign test: probability of a split at least as uneven if both techniques
        were equally good.
    """

    first: estimates.Estimate
    second: estimates.Estimate
    together: estimates.Estimate
    unknown: estimates.Estimate
    first_of_decided: estimates.Estimate
    p_value: float


def compare_means(
    first: estimates.Floats,
    second: estimates.Floats,
    confidence: float = estimates.CONFIDENCE,
    within: estimates.Range | None = None,
) -> PairedMeans:
    """Means of a quantity under two techniques, and their difference and ratio die by die.

    Parameters
    ----------
    first, second : ndarray of float [instance]
        Values in the same unit. Dies on which either value is missing (NaN) do not count.
    confidence : float
        Probability that each interval covers, 0 ... 1.
    within : (float, float), optional
        Range of the values, such as 0 and the horizon of lives. Then the intervals of both means
        are those of `mcage.stats.estimates.bounds_within`. Those of difference and ratio are at
        each end the wider of two: Student's or Fieller's, which have no width before two values
        of a pair differ; and what follows from the intervals of both means and the correlation of
        the values (Newcombe's for differences of paired shares; Zou and Donner's, Donner and
        Zou's, for any means), which is too narrow where values hardly differ but in a shift.

    Notes
    -----
    For lives that a horizon cuts, the mean is the restricted mean survival time (RMST): years
    lived up to the horizon. Its differences can be estimated without assumptions; differences of
    whole mean lives cannot, once a life reaches the horizon.

    References
    ----------
    Restricted mean: Royston and Parmar, BMC Med. Res. Methodol. 13 (2013). Common random
    numbers: Law, Simulation Modeling and Analysis, section 11.2. Newcombe, Stat. Med. 17 (1998).
    Zou and Donner, Stat. Med. 27 (2008). Donner and Zou, Stat. Methods Med. Res. 21 (2012).
    """
    both = ~(np.isnan(first) | np.isnan(second))
    first, second = first[both].astype(np.float64), second[both].astype(np.float64)
    of_first, of_second = (estimates.mean(values, confidence, within) for values in (first, second))
    difference = estimates.mean(first - second, confidence)
    ratio = ratio_of_means(first, second, confidence)
    if within:
        others = _of_intervals(of_first, of_second, _correlation(first, second))
        difference, ratio = _wider(difference, others[0]), _wider(ratio, others[1])
    return PairedMeans(
        dies=first.size,
        first=of_first,
        second=of_second,
        difference=difference,
        ratio=ratio,
        variance_reduction=_variance_reduction(first, second),
    )


def _of_intervals(
    first: estimates.Estimate, second: estimates.Estimate, correlation: float
) -> tuple[estimates.Estimate, estimates.Estimate]:
    """Difference and ratio of two means, from the intervals of both and their correlation.

    Towards a bound, the first mean has the distance to its bound on that side, and the second the
    distance to its opposite one, in place of standard errors.
    """
    ends = (
        (first.value - first.lower, second.upper - second.value),
        (first.upper - first.value, second.value - second.lower),
    )
    errors = [(a * a, correlation * a * b, b * b) for a, b in ends]
    gap = first.value - second.value
    down, up = (float(np.sqrt(np.maximum(v11 - 2.0 * v12 + v22, 0.0))) for v11, v12, v22 in errors)
    ratios = [_fieller((first.value, second.value), error) for error in errors]
    ratio = estimates.Estimate(ratios[0].value, ratios[0].lower, ratios[1].upper)
    return estimates.Estimate(gap, gap - down, gap + up), ratio


def _wider(of: estimates.Estimate, other: estimates.Estimate) -> estimates.Estimate:
    """An estimate with the farther bounds of two intervals; NaN where either is unknown."""
    lower, upper = np.minimum(of.lower, other.lower), np.maximum(of.upper, other.upper)
    return estimates.Estimate(of.value, float(lower), float(upper))


def _correlation(first: estimates.Floats, second: estimates.Floats) -> float:
    """Correlation of pairs; 0 where either does not vary."""
    if first.size < 2 or not (np.ptp(first) > 0.0 and np.ptp(second) > 0.0):
        return 0.0
    return float(np.clip(np.corrcoef(first, second)[0, 1], -1.0, 1.0))


@dataclass(frozen=True)
class ApartMeans:
    """Means of a quantity over two samples of dies that have nothing to do with each other.

    Parameters
    ----------
    first_dies, second_dies : int
        Number of dies of each sample.
    first, second : Estimate
        Means.
    difference : Estimate
        First minus second.
    ratio : Estimate
        First over second.
    """

    first_dies: int
    second_dies: int
    first: estimates.Estimate
    second: estimates.Estimate
    difference: estimates.Estimate
    ratio: estimates.Estimate


def compare_apart(
    first: estimates.Floats,
    second: estimates.Floats,
    confidence: float = estimates.CONFIDENCE,
    within: estimates.Range | None = None,
) -> ApartMeans:
    """Means of a quantity over two independent samples, their difference and ratio.

    Parameters
    ----------
    first, second : ndarray of float [instance]
        Values in the same unit, of samples that may differ in size. Missing values (NaN) do not
        count.
    confidence : float
        Probability that each interval covers, 0 ... 1.
    within : (float, float), optional
        Range of the values; then intervals are as of `compare_means`, without correlation.

    Notes
    -----
    Otherwise the difference has Welch's interval, and the ratio Fieller's with the same degrees of
    freedom.

    References
    ----------
    Welch, Biometrika 34 (1947). Fieller, J. R. Stat. Soc. B 16 (1954).
    """
    from scipy.special import stdtrit

    first, second = (of[~np.isnan(of)].astype(np.float64) for of in (first, second))
    sizes = first.size, second.size
    means = (
        estimates.mean(first, confidence, within),
        estimates.mean(second, confidence, within),
    )
    if within:
        return ApartMeans(*sizes, *means, *_of_intervals(*means, 0.0))
    values = means[0].value, means[1].value
    difference = estimates.Estimate(values[0] - values[1], math.nan, math.nan)
    ratio = estimates.Estimate(values[0] / values[1] if values[1] else math.nan, math.nan, math.nan)
    if min(sizes) > 1:
        errors = estimates.variance(first) / first.size, estimates.variance(second) / second.size
        total = sum(errors)
        parts = (e * e / (of.size - 1) for e, of in zip(errors, (first, second), strict=True))
        freedom = total * total / sum(parts) if total > 0.0 else math.inf
        half = float(stdtrit(freedom, (1.0 + confidence) / 2.0)) * math.sqrt(total)
        if abs(difference.value) + half <= ROUNDING * max(map(abs, values)):
            difference, half = estimates.Estimate(0.0, 0.0, 0.0), 0.0
        difference = estimates.Estimate(
            difference.value, difference.value - half, difference.value + half
        )
        if values[1]:
            q = float(stdtrit(freedom, (1.0 + confidence) / 2.0)) ** 2
            ratio = _fieller(values, (q * errors[0], 0.0, q * errors[1]))
    return ApartMeans(*sizes, *means, difference, ratio)


def ratio_of_means(
    first: estimates.Floats, second: estimates.Floats, confidence: float = estimates.CONFIDENCE
) -> estimates.Estimate:
    """Mean of ``first`` over mean of ``second`` with Fieller's interval for paired samples.

    Parameters
    ----------
    first, second : ndarray of float [instance]
        Pairs without missing values.
    confidence : float
        Probability that the interval covers, 0 ... 1.

    Returns
    -------
    Estimate
        The bounds are NaN where the sample allows a mean of ``second`` of zero, and so any ratio.

    References
    ----------
    Fieller, J. R. Stat. Soc. B 16 (1954).
    """
    from scipy.special import stdtrit

    count = first.size
    if not count or not second.mean():
        return UNKNOWN
    means = float(first.mean()), float(second.mean())
    if count < 2:
        return estimates.Estimate(means[0] / means[1], math.nan, math.nan)
    q = float(stdtrit(count - 1, (1.0 + confidence) / 2.0)) ** 2
    (v11, v12), (_, v22) = np.cov(first, second) / count
    return _fieller(means, (q * v11, q * v12, q * v22))


def _fieller(means: tuple[float, float], errors: tuple[float, float, float]) -> estimates.Estimate:
    """Ratio of two means; errors are squares and product of the halves of their intervals."""
    (m1, m2), (v11, v12, v22) = means, errors
    if not m2:
        return UNKNOWN
    # The ratios r for which the mean of first - r * second does not differ from zero:
    # a * r**2 - 2 * b * r + c <= 0.
    a, b, c = m2 * m2 - v22, m1 * m2 - v12, m1 * m1 - v11
    if not a > 0.0:
        return estimates.Estimate(m1 / m2, math.nan, math.nan)
    root = float(np.sqrt(np.maximum(b * b - a * c, 0.0)))
    return estimates.Estimate(m1 / m2, (b - root) / a, (b + root) / a)


def outliving(
    first_years: estimates.Floats,
    first_died: estimates.Bools,
    second_years: estimates.Floats,
    second_died: estimates.Bools,
    confidence: float = estimates.CONFIDENCE,
) -> Outliving:
    """Compare lives under two techniques die by die.

    Parameters
    ----------
    first_years, second_years : ndarray of float [instance]
        End of life, or of observation, years.
    first_died, second_died : ndarray of bool [instance]
        False where the life is censored. A life censored at the age of the other's death
        outlives it.
    confidence : float
        Probability that each interval covers, 0 ... 1.

    References
    ----------
    Sign test: Dixon and Mood, J. Am. Stat. Assoc. 41 (1946).
    """
    count = first_years.size
    gain = first_years - second_years
    together = first_died & second_died & (np.abs(gain) <= estimates.SAME_AGE_YEARS)
    first_longer = second_died & (gain >= -estimates.SAME_AGE_YEARS) & ~together
    second_longer = first_died & (gain <= estimates.SAME_AGE_YEARS) & ~together
    wins, losses, ties = (
        int(np.count_nonzero(dies)) for dies in (first_longer, second_longer, together)
    )
    decided = wins + losses

    def share(dies: int) -> estimates.Estimate:
        return estimates.proportion(dies, count, confidence)

    return Outliving(
        first=share(wins),
        second=share(losses),
        together=share(ties),
        unknown=share(count - decided - ties),
        first_of_decided=estimates.proportion(wins, decided, confidence) if decided else UNKNOWN,
        p_value=_sign_test(wins, losses),
    )


def _sign_test(wins: int, losses: int) -> float:
    """Probability of a split at least as uneven if both sides were equally likely."""
    if wins == losses:
        return 1.0
    # Imported where it is needed, since that takes most of a second.
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses).pvalue)


def _variance_reduction(first: estimates.Floats, second: estimates.Floats) -> float:
    if first.size < 2:
        return math.nan
    apart, paired = (
        estimates.variance(first) + estimates.variance(second),
        estimates.variance(first - second),
    )
    if apart == 0.0:
        return math.nan
    return apart / paired if paired > 0.0 else math.inf
