"""Relative precision of an estimate, by which a campaign may stop.

A campaign that stops as soon as an interval is narrow stops too often where the interval is narrow
by chance, and then its intervals enclose the truth less often than they say. Intervals of quantiles
are prone to this: their width depends on the density of lives at the estimate, and beside an atom
(many lives that end at the same age) there are hardly any lives. So a quantile is known to +-R only
if its interval would be as narrow wherever in that interval the true value lies. docs/statistics.md
says how often intervals cover with this rule, and without it.
"""

from dataclasses import dataclass

import numpy as np

from mcage.stats.estimates import CONFIDENCE, SAME_AGE_YEARS, Bools, Estimate, Floats, mean
from mcage.stats.survival import enclosing_ranks, life_quantile, quantile_rank


@dataclass(frozen=True)
class Precision:
    """An estimate of a quantity, and its relative precision.

    Parameters
    ----------
    estimate : Estimate
        The quantity and its interval.
    relative : float
        Largest distance of a bound from the value, over the value. Zero where more instances
        would change nothing: the interval has no width, a quantile is certain to lie beyond the
        horizon, or no instance has a value. Infinite where the sample is too small for an
        interval, where the interval reaches beyond the horizon, or where the value is zero and a
        bound is not.
    """

    estimate: Estimate
    relative: float


def quantile_precision(
    life_years: Floats, died: Bools, share: float, confidence: float = CONFIDENCE
) -> Precision:
    """Precision of the age at which ``share`` of the slices are dead.

    The interval is that of `life_quantile`: a number of ranks below the estimate, and a number
    above. The precision is the worst that these numbers give around any rank in the interval.

    Parameters
    ----------
    life_years, died, share, confidence
        As in `mcage.stats.survival.life_quantile`.
    """
    estimate = life_quantile(life_years, died, share, confidence)
    ordered = np.sort(np.where(died, life_years, np.inf))
    middle = quantile_rank(ordered.size, share)
    lower, upper = enclosing_ranks(ordered.size, share, confidence)
    if 2 * lower - middle < 1 or 2 * upper - middle > ordered.size:
        return Precision(estimate, np.inf)
    ranks = np.arange(lower, upper + 1)
    here = ordered[ranks - 1]
    below, above = ordered[ranks - 1 - (middle - lower)], ordered[ranks - 1 + (upper - middle)]
    with np.errstate(invalid="ignore", divide="ignore"):
        distance = np.fmax(here - below, above - here)  # beyond the horizon, one of them is NaN
        same = (below == above) | (distance <= SAME_AGE_YEARS)
        relative = np.where(np.isinf(distance), np.inf, distance / here)
    return Precision(estimate, float(np.where(same, 0.0, relative).max()))


def mean_precision(values: Floats, confidence: float = CONFIDENCE) -> Precision:
    """Precision of the mean of the instances that have a value (are not NaN)."""
    estimate = mean(values, confidence)
    half = (estimate.upper - estimate.lower) / 2
    if np.isnan(estimate.value) or half == 0.0:
        return Precision(estimate, 0.0)
    if np.isnan(half) or estimate.value == 0.0:
        return Precision(estimate, np.inf)
    return Precision(estimate, half / abs(estimate.value))
