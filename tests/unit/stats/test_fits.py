"""Is a distribution fitted only where lives follow one, and do verdicts keep their word?"""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from tables import each

from mcage.stats.fits import (
    FEWEST_DEATHS,
    LogLives,
    Verdict,
    anderson_darling,
    fit_distributions,
    lognormal,
    maximum_likelihood,
    weibull,
)

HORIZON = 10.0


def cut(years):
    return np.minimum(years, HORIZON), years < HORIZON


def drawn(count, seed, shape=1.7, scale=9.0):
    return cut(scale * np.random.default_rng(seed).weibull(shape, count))


def log_lives(years, died):
    return LogLives(np.log(years)[None], died[None], math.log(HORIZON))


@each("distribution", [weibull(), lognormal()])
def test_functions_of_a_law_belong_together(distribution):
    z, h = np.linspace(-4.0, 2.0, 13), 1e-5

    def slope_of(function):
        return (function(z + h) - function(z - h)) / (2 * h)

    for function in (distribution.log_density, distribution.log_survival):
        for order in (0, 1):
            expected = slope_of(lambda x, of=function, order=order: of(x)[order])
            np.testing.assert_allclose(function(z)[order + 1], expected, atol=1e-8)
    cdf = np.exp(distribution.log_cdf(z))
    np.testing.assert_allclose(cdf, 1 - np.exp(distribution.log_survival(z)[0]), atol=1e-12)
    np.testing.assert_allclose(distribution.quantile(cdf), z, rtol=1e-6, atol=1e-12)
    density = slope_of(lambda x: np.exp(distribution.log_cdf(x)))
    np.testing.assert_allclose(np.exp(distribution.log_density(z)[0]), density, atol=1e-9)


@each(("law", "theirs"), [(weibull(), stats.weibull_min), (lognormal(), stats.lognorm)])
@each("scale", [9.0, 0.001, 20.0])
def test_most_likely_parameters_are_those_of_scipy(law, theirs, scale):
    """Of a sample beside another one."""
    years, died = map(
        np.array, zip(*(drawn(60, seed, scale=scale) for seed in (1, 2)), strict=True)
    )
    lives = LogLives(np.log(years), died, math.log(HORIZON))
    for of, over, mu, sigma in zip(years, died, *maximum_likelihood(law, lives), strict=True):
        shape, _, size = theirs.fit(stats.CensoredData.right_censored(of, ~over), floc=0)
        assert law.natural(mu, sigma) == pytest.approx((shape, size), rel=1e-3)

        def likelihood(shape, size, of=of, over=over):
            known = theirs.logpdf(of[over], shape, scale=size).sum()
            return known + theirs.logsf(of[~over], shape, scale=size).sum()

        assert likelihood(*law.natural(mu, sigma)) >= likelihood(shape, size) - 1e-9


@given(
    microyears=st.lists(st.integers(1, 9_999_999), min_size=2, max_size=30, unique=True),
    survivors=st.integers(0, 30),
    unit=st.floats(1e-3, 1e3),
)
def test_the_fit_finds_the_top_whatever_the_lives(microyears, survivors, unit):
    """And a change of the unit of time changes the scale alone."""
    years = np.array([*(1e-6 * age for age in microyears), *[10.0] * survivors])
    lives = log_lives(years, np.arange(len(years)) < len(microyears))
    shift = math.log(unit)
    moved = LogLives(lives.log_life + shift, lives.died, lives.log_horizon + shift)
    for distribution in (weibull(), lognormal()):
        mu, sigma = maximum_likelihood(distribution, lives)
        other_mu, other_sigma = maximum_likelihood(distribution, moved)
        assert other_sigma == pytest.approx(sigma, rel=1e-5)
        assert other_mu == pytest.approx(mu + shift, abs=1e-5 * (1 + sigma[0] + abs(mu[0])))

        def likelihood(m, s, distribution=distribution):
            z = (lives.log_life - m) / s
            dead = distribution.log_density(z)[0] - np.log(s)
            return np.where(lives.died, dead, distribution.log_survival(z)[0]).sum()

        top, step = likelihood(mu, sigma), 1e-2 * sigma
        for up, wider in ((step, 0), (-step, 0), (0, step), (0, -step)):
            assert likelihood(mu + up, sigma + wider) <= top + 1e-9


@each("distribution", [weibull(), lognormal()])
@each("scale", [9.0, 3.0, 1.0])
def test_the_distance_is_the_integral_that_defines_it(distribution, scale):
    """Also without survivors, up to the horizon."""
    years, died = drawn(12, 2, scale=scale)
    lives = log_lives(years, died)
    mu, sigma = np.array([1.5]), np.array([0.7])
    (distance,) = anderson_darling(distribution, lives, mu, sigma)

    def cdf(age):
        return float(np.exp(distribution.log_cdf((np.log(age) - mu[0]) / sigma[0])))

    steps = [0.0, *sorted(cdf(age) for age in years[died]), cdf(HORIZON)]
    parts = [
        integrate.quad(lambda u, k=k: (k / 12 - u) ** 2 / (u * (1 - u)), low, high)[0]
        for k, (low, high) in enumerate(pairwise(steps))
    ]
    assert distance == pytest.approx(12 * sum(parts), rel=1e-6)


@each("distribution", [weibull(), lognormal()])
@each("spread", [1e-10, 1e-5, 100.0])
def test_the_fit_finds_the_top_of_narrow_and_of_broad_lives(distribution, spread):
    """Survivors far away, and none: mu and sigma follow the spread."""
    offset = np.array([-1.0, -0.3, 0.1, 0.4, 0.6])
    for survivors in (0, 1000):
        log_life = np.append(spread * offset, np.full(survivors, spread))
        died = np.array([True] * 5 + [False] * survivors)
        mu, sigma = maximum_likelihood(distribution, LogLives(log_life[None], died[None], spread))
        unit = LogLives(log_life[None] / spread, died[None], 1.0)
        mu_1, sigma_1 = maximum_likelihood(distribution, unit)
        assert sigma / spread == pytest.approx(sigma_1, rel=1e-4)
        assert mu / spread == pytest.approx(mu_1, rel=1e-4)


@each("law", ["weibull", "lognormal"])
def test_the_true_law_is_kept_and_another_rejected(law):
    rng = np.random.default_rng(3)
    if law == "weibull":
        years, names, truth = 6.0 * rng.weibull(1.7, 400), ("shape", "scale_years"), (1.7, 6.0)
    else:
        years, names = np.exp(rng.normal(1.2, 0.6, 400)), ("sigma", "median_years")
        truth = 0.6, math.exp(1.2)
    fits = {fit.distribution: fit for fit in fit_distributions(*cut(years), HORIZON)}
    assert list(fits) == ["weibull", "lognormal"]
    fit = fits.pop(law)
    (other,) = fits.values()
    assert (fit.verdict, other.verdict) == (Verdict.NOT_REJECTED, Verdict.REJECTED)
    assert other.p_value < 0.01 < 0.05 < fit.p_value
    for name, value in zip(names, truth, strict=True):
        assert fit.parameters[name].lower < value < fit.parameters[name].upper


def test_the_dead_on_arrival_are_a_mass_apart():
    years, died = drawn(150, 6)
    with_dead = fit_distributions(
        np.append(years, np.zeros(50)), np.append(died, [True] * 50), HORIZON
    )
    for fit, alone in zip(with_dead, fit_distributions(years, died, HORIZON), strict=True):
        assert fit.dead_on_arrival.value == 0.25
        assert alone.dead_on_arrival.value == 0.0
        assert fit.parameters == alone.parameters
        assert fit.deaths + fit.censored == 150


def test_lives_that_end_together_have_no_law():
    """But an odd pair is no atom."""
    years, died = drawn(100, 7)
    years[np.flatnonzero(died)[:2]] = 2.0
    assert fit_distributions(years, died, HORIZON)[0].verdict is Verdict.NOT_REJECTED
    years[np.flatnonzero(died)[:3]] = 2.0 + 1e-9 * np.arange(3)  # the noise of a solver
    fit = fit_distributions(years, died, HORIZON)[0]
    assert fit.verdict is Verdict.ATOMS
    assert fit.reason == f"no continuous distribution: 3 of {died.sum()} deaths at 2 years"
    assert fit.parameters == {}
    assert math.isnan(fit.p_value)


@each("deaths", [0, FEWEST_DEATHS - 1, FEWEST_DEATHS])
def test_too_few_deaths_have_no_law(deaths):
    years = np.append(np.linspace(1, 9, deaths), [10.0] * 50)
    for fit in fit_distributions(years, years < 10, HORIZON, replicates=99):
        if deaths < FEWEST_DEATHS:
            assert (fit.verdict, fit.parameters) == (Verdict.TOO_FEW_DEATHS, {})
            assert str(deaths) in fit.reason
        else:
            assert fit.verdict is Verdict.NOT_REJECTED
            assert all(p.lower < p.value < p.upper for p in fit.parameters.values())


@pytest.mark.slow
def test_a_true_law_is_rejected_as_often_as_said():
    """Of 300 samples 5 % are rejected; within four standard errors, one false alarm in 15,000."""
    samples = (drawn(60, 1000 + seed, scale=9.0) for seed in range(300))
    fits = [fit_distributions(*sample, HORIZON, replicates=99)[0] for sample in samples]
    rejected = np.mean([fit.verdict is Verdict.REJECTED for fit in fits])
    assert abs(rejected - 0.05) < 4 * math.sqrt(0.05 * 0.95 / 300)
