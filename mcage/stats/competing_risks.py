"""Competing risks: the share of slices that each cause has killed by each age."""

from dataclasses import dataclass

import numpy as np

from mcage.stats.estimates import CONFIDENCE, Bools, Floats, wilson

ROUNDING = 1e-12
"""What rounding can leave of a share that is 1; of so many lives, one is more."""


@dataclass(frozen=True)
class Incidence:
    """Share of all slices that have died of a cause up to and including each age.

    Parameters
    ----------
    years : ndarray of float [age]
        Ages.
    share, lower, upper : ndarray of float [age]
        Shares, 0 ... 1, with a pointwise confidence band.
    """

    years: Floats
    share: Floats
    lower: Floats
    upper: Floats


def cumulative_incidence(
    life_years: Floats,
    died: Bools,
    of_cause: Bools,
    years: Floats,
    confidence: float = CONFIDENCE,
) -> Incidence:
    """Share of the slices dead of a cause by each age, while other causes compete (Aalen-Johansen).

    The shares of all causes and that of the survivors add up to 1. With ``of_cause = died`` the
    result is 1 minus the Kaplan-Meier curve.

    Parameters
    ----------
    life_years : ndarray of float [instance]
        End of life, or of observation, years. A life censored at the time of a death counts as
        at risk then.
    died : ndarray of bool [instance]
        False where the life is censored.
    of_cause : ndarray of bool [instance]
        True where the life ended by the given cause; implies ``died``.
    years : ndarray of float [age]
        Ages at which the shares are computed.
    confidence : float
        Probability that the band covers at each age, 0 ... 1.

    Notes
    -----
    The band is Wilson's, for the number of slices that would give a binomial share the same
    variance. Where no life is censored before the age, as in a sweep, it is Wilson's interval.

    References
    ----------
    Aalen and Johansen, Scand. J. Stat. 5 (1978); variance by Marubini and Valsecchi, Analysing
    Survival Data from Clinical Trials and Observational Studies, section 10.4; band by Rothman,
    J. Chronic Dis. 31 (1978).
    """
    lives = life_years.astype(np.float64)
    times, place = np.unique(lives[died], return_inverse=True)
    deaths = np.bincount(place, minlength=times.size).astype(np.float64)
    of_this = np.bincount(place[of_cause[died]], minlength=times.size).astype(np.float64)
    at_risk = lives.size - np.searchsorted(np.sort(lives), times).astype(np.float64)
    alive_before = np.cumprod(np.concatenate([[1.0], 1.0 - deaths / at_risk]))[:-1]
    risen = np.concatenate([[0.0], np.cumsum(alive_before * of_this / at_risk)])

    step = np.searchsorted(times, years, side="right")
    share = risen[step]
    variance = np.array([_variance(k, risen, alive_before, deaths, of_this, at_risk) for k in step])
    # Where the cause has ended all lives, rounding must not leave a share and a variance.
    everything = share > 1.0 - ROUNDING
    share[everything], variance[everything] = 1.0, 0.0
    observed = lives.size - np.array(
        [np.count_nonzero(~died & (lives < age)) for age in years], dtype=np.float64
    )
    certain = variance <= 0.0
    size = np.where(certain, observed, share * (1.0 - share) / np.where(certain, 1.0, variance))
    lower, upper = wilson(share, size, confidence)
    return Incidence(np.asarray(years, np.float64), share, lower, upper)


def _variance(
    steps: int, risen: Floats, alive: Floats, deaths: Floats, of_this: Floats, at_risk: Floats
) -> float:
    """Variance of the share after the first ``steps`` times of death (delta method)."""
    n, d, c, s = at_risk[:steps], deaths[:steps], of_this[:steps], alive[:steps]
    to_come = risen[steps] - risen[1 : steps + 1]
    # If the last slices die together nothing is to come, and their first term is 0 / 0.
    hazard = np.divide(d, n * (n - d), out=np.zeros_like(d), where=n > d)
    terms = to_come**2 * hazard + s**2 * c * (n - c) / n**3 - 2 * to_come * s * c / n**2
    return float(terms.sum())
