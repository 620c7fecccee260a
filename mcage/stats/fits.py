"""Distributions fitted to the lives of a case, with a verdict whether the lives allow them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from mcage.random import stream
from mcage.stats.estimates import CONFIDENCE, SAME_AGE_YEARS, Bools, Estimate, Floats, proportion

# Weibull and lognormal lives: likelihood of a sample that a horizon cuts, and its distance.
#
# Both are families of location and scale of the logarithm of life, log T = mu + sigma Z, so that
# one fit and one distance serve them. Arrays are ``[sample, instance]``: many samples are fitted
# at once.

Derivatives = tuple[Floats, Floats, Floats]
"""A function of z with its first and second derivative."""

_MOST_STEPS = 30
_DECREMENT = 1e-13
"""Decrement of the mean log-likelihood: a thousandth of a standard error in 10 million lives."""


@dataclass(frozen=True)
class LocationScale:
    """Distribution of Z for lives with log T = mu + sigma Z.

    Parameters
    ----------
    name : str
        Name of the distribution of T.
    parameters : tuple of str
        Names of the two values that ``natural`` returns.
    natural : callable
        The usual two parameters from mu and sigma; the first depends on sigma, the second on mu.
    log_density, log_survival : callable
        Concave functions of z.
    log_cdf : callable
        Logarithm of the distribution function of z.
    quantile : callable
        Inverse of the distribution function (not of its logarithm).
    """

    name: str
    parameters: tuple[str, str]
    natural: Callable[[float, float], tuple[float, float]]
    log_density: Callable[[Floats], Derivatives]
    log_survival: Callable[[Floats], Derivatives]
    log_cdf: Callable[[Floats], Floats]
    quantile: Callable[[Floats], Floats]


@dataclass(frozen=True)
class LogLives:
    """Logarithms of positive lives that are observed up to a horizon.

    Parameters
    ----------
    log_life : ndarray of float [sample, instance]
        Logarithms of lives in years; that of the horizon where the life is censored.
    died : ndarray of bool [sample, instance]
        False where the life is censored.
    log_horizon : float
        Logarithm of the horizon in years.
    """

    log_life: Floats
    died: Bools
    log_horizon: float


def weibull() -> LocationScale:
    """Weibull distribution, shape k and scale in years: Z is a smallest extreme value."""

    def log_density(z: Floats) -> Derivatives:
        hazard = np.exp(z)
        return z - hazard, 1.0 - hazard, -hazard

    def log_survival(z: Floats) -> Derivatives:
        hazard = np.exp(z)
        return -hazard, -hazard, -hazard

    return LocationScale(
        name="weibull",
        parameters=("shape", "scale_years"),
        natural=lambda mu, sigma: (1.0 / sigma, math.exp(mu)),
        log_density=log_density,
        log_survival=log_survival,
        log_cdf=lambda z: np.log(-np.expm1(-np.exp(z))),
        quantile=lambda share: np.log(-np.log1p(-share)),
    )


def lognormal() -> LocationScale:
    """Lognormal distribution, sigma of log T and median in years: Z is normal."""
    from scipy.special import log_ndtr, ndtri

    def log_density(z: Floats) -> Derivatives:
        return -0.5 * z * z - 0.5 * math.log(2.0 * math.pi), -z, np.full_like(z, -1.0)

    def log_survival(z: Floats) -> Derivatives:
        survival = log_ndtr(-z)
        hazard = np.exp(log_density(z)[0] - survival)
        return survival, -hazard, -hazard * (hazard - z)

    return LocationScale(
        name="lognormal",
        parameters=("sigma", "median_years"),
        natural=lambda mu, sigma: (sigma, math.exp(mu)),
        log_density=log_density,
        log_survival=log_survival,
        log_cdf=log_ndtr,
        quantile=ndtri,
    )


def maximum_likelihood(distribution: LocationScale, lives: LogLives) -> tuple[Floats, Floats]:
    """Location mu and scale sigma that make the lives most likely.

    Parameters
    ----------
    distribution : LocationScale
        The distribution.
    lives : LogLives
        Samples, each with deaths at two ages or more, or with deaths at one age and survivors.

    Returns
    -------
    tuple of ndarray of float [sample]
        mu and sigma.

    Notes
    -----
    In a = mu/sigma and b = 1/sigma the logarithm of the likelihood is concave if density and
    survival of Z are log-concave (Burridge), so that it has a single maximum. Newton's method
    reaches it from the mean and the spread of the lives in a few full steps.

    References
    ----------
    Burridge, J. R. Stat. Soc. B 43 (1981).
    """
    deaths = lives.died.sum(axis=-1)
    survivors = lives.died.shape[-1] - deaths
    centre = np.where(lives.died, lives.log_life, 0.0).sum(axis=-1) / deaths
    # Survivors count, so that a single age of death among them has a width.
    width = np.sqrt(((lives.log_life - centre[:, None]) ** 2).mean(axis=-1))
    # All survivors are one column, the last; weights make likelihoods those of the mean life.
    weight = np.concatenate([lives.died, survivors[:, None]], axis=-1) / lives.died.shape[-1]
    died = deaths / lives.died.shape[-1]
    end = np.where(survivors > 0, lives.log_horizon, centre)
    y = (np.concatenate([lives.log_life, end[:, None]], axis=-1) - centre[:, None]) / width[:, None]

    at = np.tile([0.0, 1.0], (len(y), 1))  # a and b
    for _ in range(_MOST_STEPS):
        a, b = at[:, :1], at[:, 1:]
        z = b * y - a
        (_, *dead), (_, *alive) = (
            distribution.log_density(z[:, :-1]),
            distribution.log_survival(z[:, -1:]),
        )
        slope, curve = (
            weight * np.concatenate(both, axis=-1) for both in zip(dead, alive, strict=True)
        )
        b = b[:, 0]
        gradient = np.stack([-slope.sum(axis=-1), (slope * y).sum(axis=-1) + died / b], axis=-1)
        cross = -(curve * y).sum(axis=-1)
        corner = (curve * y * y).sum(axis=-1) - died / b**2
        hessian = np.stack([curve.sum(axis=-1), cross, cross, corner], axis=-1)
        step = -np.linalg.solve(hessian.reshape(-1, 2, 2), gradient[..., None])[..., 0]
        at = at + step
        a, b = at.T
        if ((step * gradient).sum(axis=-1) < _DECREMENT).all() and (b > 0.0).all():
            return centre + width * a / b, width / b
    raise ArithmeticError(f"no maximum of the likelihood within {_MOST_STEPS} steps")


def anderson_darling(
    distribution: LocationScale, lives: LogLives, mu: Floats, sigma: Floats
) -> Floats:
    """Distance of lives from a distribution up to the horizon, weighted towards its tails.

    Parameters
    ----------
    distribution : LocationScale
        The distribution.
    lives : LogLives
        Samples of n lives each.
    mu, sigma : ndarray of float [sample]
        Location and scale of the distribution for each sample.

    Returns
    -------
    ndarray of float [sample]
        n times the integral of (F_n - F)**2 / (F (1 - F)) dF from 0 to F(horizon).

    References
    ----------
    Pettitt and Stephens, Biometrika 63 (1976), for samples that are censored at a time.
    """
    count = lives.died.shape[-1]
    deaths = lives.died.sum(axis=-1)
    ordered = np.sort(np.where(lives.died, lives.log_life, np.inf), axis=-1)
    dead = np.isfinite(ordered)
    z = (np.where(dead, ordered, lives.log_horizon) - mu[:, None]) / sigma[:, None]
    z_end = (lives.log_horizon - mu) / sigma
    with np.errstate(over="ignore"):
        log_cdf, log_survival = distribution.log_cdf(z), distribution.log_survival(z)[0]
        end_cdf, end_survival = distribution.log_cdf(z_end), distribution.log_survival(z_end)[0]
    rank = np.arange(1, count + 1)
    inner = (2 * rank - 1) * log_cdf + (2 * (count - rank) + 1) * log_survival
    survivors = count - deaths
    outer = np.where(survivors > 0, survivors, 1) ** 2 * np.where(survivors > 0, end_survival, 0.0)
    at_end = outer - deaths**2 * end_cdf + count**2 * np.exp(end_cdf)
    distance: Floats = -(np.where(dead, inner, 0.0).sum(axis=-1) + at_end) / count
    return distance


FEWEST_DEATHS = 10
"""With fewer deaths hardly any distribution is rejected, and readers take that for support."""

ATOM_SHARE = 0.01
"""Share of the deaths, and at least three of them, at the same age that make this age an atom.

Continuous lives never end at the same age, but pairs of lives that are solved to a finite step do.
"""

SIGNIFICANCE = 0.05
REPLICATES = 1999
"""Samples drawn from a fit: they give tails of intervals and significance to 0.35 %."""

_VALUES_AT_ONCE = 1 << 20


class Verdict(StrEnum):
    """Whether lives allow a distribution."""

    NOT_REJECTED = "not rejected"
    """The lives could be a sample of it, and of other distributions, too."""
    REJECTED = "rejected"
    """The lives are too far from it, at a significance of 5 %."""
    ATOMS = "atoms"
    """Many lives end at the same age, which no continuous distribution allows: none is fitted."""
    TOO_FEW_DEATHS = "too few deaths"
    """No distribution is fitted."""


@dataclass(frozen=True)
class Fit:
    """A distribution fitted to the lives of a case.

    Parameters
    ----------
    distribution : str
        ``weibull`` or ``lognormal``.
    dead_on_arrival : Estimate
        Share p0 of all slices with life zero. The distribution F is that of the other slices, so
        that a slice is dead by age t with probability p0 + (1 - p0) F(t).
    deaths, censored : int
        Number of slices that worked and died, and that worked up to the horizon.
    parameters : dict of str to Estimate
        ``shape`` and ``scale_years``, or ``sigma`` and ``median_years``; empty without a fit.
    anderson_darling, p_value : float
        Distance from the distribution, and the probability of a distance as large if the
        distribution were true; NaN without a fit.
    verdict, reason : Verdict, str
        Whether the lives allow the distribution, and the verdict in words.
    """

    distribution: str
    dead_on_arrival: Estimate
    deaths: int
    censored: int
    parameters: dict[str, Estimate]
    anderson_darling: float
    p_value: float
    verdict: Verdict
    reason: str


def fit_distributions(
    life_years: Floats,
    died: Bools,
    horizon_years: float,
    confidence: float = CONFIDENCE,
    replicates: int = REPLICATES,
) -> list[Fit]:
    """Fit Weibull and lognormal distributions to lives that a horizon cuts, with a verdict on each.

    Parameters
    ----------
    life_years : ndarray of float [instance]
        End of life, years; zero for the dead on arrival.
    died : ndarray of bool [instance]
        False where the life reaches the horizon.
    horizon_years : float
        End of observation.
    confidence : float
        Probability that each interval covers, 0 ... 1.
    replicates : int
        Number of samples drawn from the fitted distribution, for the test and the intervals. They
        use the same random numbers each time, so that the same lives get the same verdict.

    Notes
    -----
    Each sample drawn from the fitted distribution is fitted in turn. The distance of the lives is
    compared with the distances of the samples from their fits (Stute et al.). The intervals come
    from (mu* - mu) / sigma* and sigma* / sigma, whose distribution without censoring does not
    depend on mu and sigma (Lawless).

    References
    ----------
    Stute, Gonzalez Manteiga and Presedo Quindimil, Metrika 40 (1993); Lawless, Statistical Models
    and Methods for Lifetime Data, section 5.1.
    """
    lived = life_years > 0.0
    count, deaths = int(np.count_nonzero(lived)), int(np.count_nonzero(lived & died))
    arrival = proportion(life_years.size - count, life_years.size, confidence)
    refusal = _refusal(life_years[lived & died])
    fits = []
    for distribution in (weibull(), lognormal()):
        if refusal:
            verdict, reason = refusal
            parameters, distance, p_value = dict[str, Estimate](), math.nan, math.nan
        else:
            lives = LogLives(
                np.log(life_years[lived].astype(np.float64))[None],
                died[lived][None],
                math.log(horizon_years),
            )
            parameters, distance, p_value = _fit(distribution, lives, confidence, replicates)
            verdict = Verdict.REJECTED if p_value < SIGNIFICANCE else Verdict.NOT_REJECTED
            reason = f"{verdict} at {SIGNIFICANCE * 100:g} %"
        fits.append(
            Fit(
                distribution=distribution.name,
                dead_on_arrival=arrival,
                deaths=deaths,
                censored=count - deaths,
                parameters=parameters,
                anderson_darling=distance,
                p_value=p_value,
                verdict=verdict,
                reason=reason,
            )
        )
    return fits


def _refusal(death_years: Floats) -> tuple[Verdict, str] | None:
    """Why no distribution is fitted to deaths after age zero; None if they can be fitted."""
    count = death_years.size
    if count < FEWEST_DEATHS:
        return (
            Verdict.TOO_FEW_DEATHS,
            f"no fit: {count} deaths after age 0, {FEWEST_DEATHS} needed",
        )
    ages, deaths = np.unique(np.rint(death_years / SAME_AGE_YEARS), return_counts=True)
    atom = deaths >= max(3.0, ATOM_SHARE * count)
    if not atom.any():
        return None
    named = [f"{age:.4g}" for age in ages[atom][:4] * SAME_AGE_YEARS] + ["..."] * bool(
        atom.sum() > 4
    )
    return (
        Verdict.ATOMS,
        f"no continuous distribution: {deaths[atom].sum()} of {count} deaths "
        f"at {', '.join(named)} years",
    )


def _fit(
    distribution: LocationScale, lives: LogLives, confidence: float, replicates: int
) -> tuple[dict[str, Estimate], float, float]:
    """Fit a distribution: its parameters, the distance of the lives, and its p-value."""
    mu, sigma = (float(values[0]) for values in maximum_likelihood(distribution, lives))
    distance = float(anderson_darling(distribution, lives, np.array([mu]), np.array([sigma]))[0])
    mus, sigmas, distances = _replicated(distribution, lives, mu, sigma, replicates)
    p_value = (1 + np.count_nonzero(distances >= distance)) / (1 + distances.size)

    tails = ((1.0 + confidence) / 2.0, (1.0 - confidence) / 2.0)
    # The next value falls between ranks k and k + 1 of m others once in m + 1 times.
    mu_bounds = mu - sigma * np.quantile((mus - mu) / sigmas, tails, method="weibull")
    sigma_bounds = sigma / np.quantile(sigmas / sigma, tails, method="weibull")
    fits = [
        distribution.natural(*map(float, pair))
        for pair in ((mu, sigma), *zip(mu_bounds, sigma_bounds, strict=True))
    ]
    parameters = {
        name: Estimate(value, min(bounds), max(bounds))
        for name, (value, *bounds) in zip(
            distribution.parameters, zip(*fits, strict=True), strict=True
        )
    }
    return parameters, distance, float(p_value)


def _replicated(
    distribution: LocationScale, lives: LogLives, mu: float, sigma: float, replicates: int
) -> tuple[Floats, Floats, Floats]:
    """Location, scale and distance of samples of a distribution: each float [sample]."""
    count = lives.log_life.shape[-1]
    draw = stream(0, "report.fits", 0)
    parts = []
    size = max(1, _VALUES_AT_ONCE // count)
    for start in range(0, replicates, size):
        uniform = draw.random((min(size, replicates - start), count))
        log_life = mu + sigma * distribution.quantile(1.0 - uniform)  # never of zero
        sample = LogLives(
            np.minimum(log_life, lives.log_horizon),
            log_life < lives.log_horizon,
            lives.log_horizon,
        )
        # Ten deaths were seen where fewer than two come once in two thousand samples.
        enough = sample.died.sum(axis=-1) >= 2
        sample = LogLives(sample.log_life[enough], sample.died[enough], sample.log_horizon)
        located = maximum_likelihood(distribution, sample)
        parts.append((*located, anderson_darling(distribution, sample, *located)))
    mus, sigmas, distances = (np.concatenate(column) for column in zip(*parts, strict=True))
    return mus, sigmas, distances
