"""Failures by an age, and the mean failure rate until then, from lives that a horizon cuts."""

import math
from dataclasses import dataclass

import numpy as np

from mcage.stats.estimates import CONFIDENCE, SAME_AGE_YEARS, Estimate, proportion
from mcage.stats.survival import CaseLives

HOURS_PER_YEAR = 8760.0
"""Hours of a year of 365 days, as all years of a life have."""

PER_MILLION = 1e6
FIT_HOURS = 1e9
"""Device hours of which a FIT is one failure."""


@dataclass(frozen=True)
class FailureRate:
    """Failures by an age, and how fast they come on average.

    Parameters
    ----------
    age_years : float
        The age.
    failed_ppm : Estimate
        Slices that are dead by that age, in a million: those that are dead on arrival, too.
    dead_on_arrival_ppm : Estimate
        Slices that never work, in a million.
    mean_rate_fit : Estimate
        Mean of the hazard from age 0 to that age, of slices that worked at all, in failures in
        1e9 device hours; NaN if all of them are dead by then, or none ever worked.
    """

    age_years: float
    failed_ppm: Estimate
    dead_on_arrival_ppm: Estimate
    mean_rate_fit: Estimate


def failure_rate(lives: CaseLives, age_years: float, confidence: float = CONFIDENCE) -> FailureRate:
    """Estimate the failures by an age that no life is censored before.

    Parameters
    ----------
    lives : CaseLives
        Lives that are censored at the horizon alone.
    age_years : float
        Age above 0 and at most the horizon, years.
    confidence : float
        Probability that each interval covers, 0 ... 1.

    Raises
    ------
    ValueError
        The age lies outside.

    Notes
    -----
    Shares have Wilson's interval. The mean rate is that of the share that fails of those that
    worked, see `fit_of_share`, and so are its bounds.
    """
    if not 0.0 < age_years <= lives.horizon_years:
        raise ValueError(f"an age of {age_years:g} years is not within the simulated time")
    dead = lives.died & (lives.years <= age_years + SAME_AGE_YEARS)
    worked = lives.years > 0.0
    count, alive_at_first = lives.years.size, int(np.count_nonzero(worked))
    failed = int(np.count_nonzero(dead & worked))
    nothing = Estimate(math.nan, math.nan, math.nan)
    share = proportion(failed, alive_at_first, confidence) if alive_at_first else nothing
    return FailureRate(
        age_years=age_years,
        failed_ppm=in_ppm(proportion(int(np.count_nonzero(dead)), count, confidence)),
        dead_on_arrival_ppm=in_ppm(proportion(count - alive_at_first, count, confidence)),
        mean_rate_fit=fit_of_share(share, age_years),
    )


def in_ppm(share: Estimate) -> Estimate:
    """Share in parts per million."""
    return Estimate(*(PER_MILLION * bound for bound in vars(share).values()))


def fit_of_share(failed: Estimate, age_years: float) -> Estimate:
    """Mean failure rate from age 0 to an age, in failures in 1e9 device hours.

    Parameters
    ----------
    failed : Estimate
        Share of the devices that fail by then, 0 ... 1.
    age_years : float
        The age, above 0.

    Returns
    -------
    Estimate
        -ln(1 - F(t)) / t: the constant rate that would leave as many devices alive; NaN where no
        rate would, since none is left.

    References
    ----------
    Average failure rate: NIST/SEMATECH e-Handbook of Statistical Methods, section 8.1.2.3.
    """

    def rate(share: float) -> float:
        if share >= 1.0:
            return math.nan
        return -math.log1p(-share) * FIT_HOURS / (age_years * HOURS_PER_YEAR)

    return Estimate(*(rate(bound) for bound in vars(failed).values()))
