"""Weibull and lognormal lives: likelihood of a sample that a horizon cuts, and its distance.

Both are families of location and scale of the logarithm of life, log T = mu + sigma Z, so that one
fit and one distance serve them. Arrays are ``[sample, instance]``: many samples are fitted at once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mcage.stats.estimates import Bools, Floats

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
