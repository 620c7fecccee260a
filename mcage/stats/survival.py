"""Lives that a horizon cuts off: Kaplan-Meier, causes, failure rates, chips of several slices."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.stats import estimates


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
    years: estimates.Floats
    died: estimates.Bools
    cause: npt.NDArray[np.integer]
    horizon_years: float

    @property
    def within(self) -> estimates.Range:
        """Range of the lives, years."""
        return 0.0, self.horizon_years


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

    years: estimates.Floats
    survival: estimates.Floats
    lower: estimates.Floats
    upper: estimates.Floats


def kaplan_meier(
    life_years: estimates.Floats, died: estimates.Bools, confidence: float = estimates.CONFIDENCE
) -> Survival:
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
        spread = (
            estimates.normal_quantile(confidence) * np.sqrt(variance) / np.abs(np.log(survival))
        )
        lower, upper = survival ** np.exp(spread), survival ** np.exp(-spread)
    undefined = survival == 0.0
    lower[undefined] = upper[undefined] = np.nan
    return Survival(years, survival, lower, upper)


def life_quantile(
    life_years: estimates.Floats,
    died: estimates.Bools,
    share: float = 0.5,
    confidence: float = estimates.CONFIDENCE,
) -> estimates.Estimate:
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
    return estimates.Estimate(of_rank(quantile_rank(count, share)), of_rank(lower), of_rank(upper))


def quantile_rank(count: int, share: float) -> int:
    """Rank, counted from 1, of the first order statistic at which ``share`` are reached."""
    # Rounding may lift share * count a hair above the integer that it is.
    return max(1, math.ceil(share * count - 1e-9))


@lru_cache
def enclosing_ranks(
    count: int, share: float, confidence: float = estimates.CONFIDENCE
) -> tuple[int, int]:
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


# Competing risks: the share of slices that each cause has killed by each age.

ROUNDING = 1e-12
"""Largest error by rounding of a share that is 1; one of so many lives is more."""


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

    years: estimates.Floats
    share: estimates.Floats
    lower: estimates.Floats
    upper: estimates.Floats


def cumulative_incidence(
    life_years: estimates.Floats,
    died: estimates.Bools,
    of_cause: estimates.Bools,
    years: estimates.Floats,
    confidence: float = estimates.CONFIDENCE,
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
    lower, upper = estimates.wilson(share, size, confidence)
    return Incidence(np.asarray(years, np.float64), share, lower, upper)


def _variance(
    steps: int,
    risen: estimates.Floats,
    alive: estimates.Floats,
    deaths: estimates.Floats,
    of_this: estimates.Floats,
    at_risk: estimates.Floats,
) -> float:
    """Variance of the share after the first ``steps`` times of death (delta method)."""
    n, d, c, s = at_risk[:steps], deaths[:steps], of_this[:steps], alive[:steps]
    to_come = risen[steps] - risen[1 : steps + 1]
    # If the last slices die together nothing is to come, and their first term is 0 / 0.
    hazard = np.divide(d, n * (n - d), out=np.zeros_like(d), where=n > d)
    terms = to_come**2 * hazard + s**2 * c * (n - c) / n**3 - 2 * to_come * s * c / n**2
    return float(terms.sum())


# Failures by an age, and the mean failure rate until then, from lives that a horizon cuts.

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
    failed_ppm: estimates.Estimate
    dead_on_arrival_ppm: estimates.Estimate
    mean_rate_fit: estimates.Estimate


def failure_rate(
    lives: CaseLives, age_years: float, confidence: float = estimates.CONFIDENCE
) -> FailureRate:
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
    dead = lives.died & (lives.years <= age_years + estimates.SAME_AGE_YEARS)
    worked = lives.years > 0.0
    count, alive_at_first = lives.years.size, int(np.count_nonzero(worked))
    failed = int(np.count_nonzero(dead & worked))
    nothing = estimates.Estimate(math.nan, math.nan, math.nan)
    share = estimates.proportion(failed, alive_at_first, confidence) if alive_at_first else nothing
    return FailureRate(
        age_years=age_years,
        failed_ppm=in_ppm(estimates.proportion(int(np.count_nonzero(dead)), count, confidence)),
        dead_on_arrival_ppm=in_ppm(estimates.proportion(count - alive_at_first, count, confidence)),
        mean_rate_fit=fit_of_share(share, age_years),
    )


def in_ppm(share: estimates.Estimate) -> estimates.Estimate:
    """Share in parts per million."""
    return estimates.Estimate(*(PER_MILLION * bound for bound in vars(share).values()))


def fit_of_share(failed: estimates.Estimate, age_years: float) -> estimates.Estimate:
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

    return estimates.Estimate(*(rate(bound) for bound in vars(failed).values()))


# Lives of chips: a chip of several slices works while no more of them are dead than it can spare.
#
# Slices with successive ids make a chip: slice i belongs to chip ``i // slices_per_chip``, which
# is also the number of its die. Slices of a chip share the die part of Vmin, if the scenario has
# any. Their fields, cells and workloads are independent: each slice draws its kernels as if work
# were spread over the chip without regard to what other slices run. If a chip ran the same kernel
# on all of its slices at a time, the mean life of its slices would be the same, but they would die
# closer together: the first death would come later, and chips would differ more.


def chip_lives(lives: CaseLives, slices_per_chip: int, spare_slices: int = 0) -> CaseLives:
    """Lives of chips from those of their slices; all statistics of slices apply to them.

    Parameters
    ----------
    lives : CaseLives
        Lives of slices, in the order of their ids from 0 on.
    slices_per_chip : int
        Number of slices of a chip, 1 or more. Slices of an incomplete last chip are left out.
    spare_slices : int
        Number of dead slices that a chip can spare, 0 ... ``slices_per_chip - 1``.

    Returns
    -------
    CaseLives
        A chip dies with its (``spare_slices`` + 1)-th slice, of the same cause; of slices that die
        at the same age, the slice with the lower id counts first. A chip is censored if fewer
        slices die before the horizon.

    Raises
    ------
    UserError
        The numbers make no chip, or there are too few slices for a chip.
    ValueError
        A life is censored before another one ends: then the order of deaths is not known.
    """
    _check(lives.years.size, slices_per_chip, spare_slices)
    died = lives.died
    if not died.all() and died.any() and lives.years[~died].min() < lives.years[died].max():
        raise ValueError("order of deaths needs every censored life to outlast every death")
    chips = lives.years.size // slices_per_chip
    shape, whole = (chips, slices_per_chip), chips * slices_per_chip
    death_years = np.where(died, lives.years, np.inf)[:whole].reshape(shape)
    in_chip = np.argsort(death_years, axis=1, kind="stable")[:, spare_slices]
    last = np.arange(chips) * slices_per_chip + in_chip
    return replace(lives, years=lives.years[last], died=died[last], cause=lives.cause[last])


def _check(slices: int, slices_per_chip: int, spare_slices: int) -> None:
    if slices_per_chip < 1:
        raise UserError(f"slices_per_chip = {slices_per_chip}, expected 1 or more")
    if not 0 <= spare_slices < slices_per_chip:
        raise UserError(
            f"spare_slices = {spare_slices}, expected 0 ... {slices_per_chip - 1} of the "
            f"{slices_per_chip} slices of a chip"
        )
    if slices < slices_per_chip:
        raise UserError(
            f"{slices} slices make no chip of {slices_per_chip}: run a sweep of more instances"
        )


# Relative precision of an estimate, by which a campaign may stop.
#
# A campaign that stops as soon as an interval is narrow stops too often where the interval is
# narrow by chance, and then its intervals enclose the truth less often than they say. Intervals of
# quantiles are prone to this: their width depends on the density of lives at the estimate, and
# beside an atom (many lives that end at the same age) there are hardly any lives. So a quantile is
# known to +-R only if its interval would be as narrow wherever in that interval the true value
# lies. docs/statistics.md says how often intervals cover with this rule, and without it.


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

    estimate: estimates.Estimate
    relative: float

    @property
    def absolute(self) -> float:
        """Largest distance of a bound from the value; infinite of an interval without a bound."""
        if self.relative == 0.0:
            return 0.0
        of = self.estimate
        distance = max(of.upper - of.value, of.value - of.lower)
        return math.inf if math.isnan(distance) else distance


def quantile_precision(
    life_years: estimates.Floats,
    died: estimates.Bools,
    share: float,
    confidence: float = estimates.CONFIDENCE,
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
        same = (below == above) | (distance <= estimates.SAME_AGE_YEARS)
        relative = np.where(np.isinf(distance), np.inf, distance / here)
    return Precision(estimate, float(np.where(same, 0.0, relative).max()))


def mean_precision(
    values: estimates.Floats,
    confidence: float = estimates.CONFIDENCE,
    within: estimates.Range | None = None,
) -> Precision:
    """Precision of the mean of the instances that have a value (are not NaN).

    Parameters
    ----------
    values, confidence, within
        As of `mcage.stats.estimates.mean`.
    """
    estimate = estimates.mean(values, confidence, within)
    half = max(estimate.upper - estimate.value, estimate.value - estimate.lower)
    if np.isnan(estimate.value) or half == 0.0:
        return Precision(estimate, 0.0)
    if np.isnan(half) or estimate.value == 0.0:
        return Precision(estimate, np.inf)
    return Precision(estimate, half / abs(estimate.value))
