"""Is a distribution fitted only where lives follow one, and do verdicts keep their word?"""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
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


@pytest.mark.parametrize(
    "distribution", [weibull(), lognormal()], ids=lambda distribution: distribution.name
)
def test_functions_of_a_law_belong_together(distribution):
    z, h = np.linspace(-4.0, 2.0, 13), 1e-5
    for function in (distribution.log_density, distribution.log_survival):
        _, slope, curve = function(z)
        np.testing.assert_allclose(
            slope, (function(z + h)[0] - function(z - h)[0]) / (2 * h), atol=1e-8
        )
        np.testing.assert_allclose(
            curve, (function(z + h)[1] - function(z - h)[1]) / (2 * h), atol=1e-8
        )
    cdf = np.exp(distribution.log_cdf(z))
    np.testing.assert_allclose(cdf, 1 - np.exp(distribution.log_survival(z)[0]), atol=1e-12)
    np.testing.assert_allclose(distribution.quantile(cdf), z, rtol=1e-6, atol=1e-12)
    density = (np.exp(distribution.log_cdf(z + h)) - np.exp(distribution.log_cdf(z - h))) / (2 * h)
    np.testing.assert_allclose(np.exp(distribution.log_density(z)[0]), density, atol=1e-9)


@pytest.mark.parametrize(
    ("distribution", "theirs"), [(weibull(), stats.weibull_min), (lognormal(), stats.lognorm)]
)
@pytest.mark.parametrize("scale", [9.0, 0.001, 20.0])
def test_most_likely_parameters_are_those_of_scipy(distribution, theirs, scale):
    years, died = drawn(60, 1, scale=scale)
    mu, sigma = (
        float(values[0]) for values in maximum_likelihood(distribution, log_lives(years, died))
    )
    data = stats.CensoredData.right_censored(years, ~died)
    shape, _, size = theirs.fit(data, floc=0)
    assert distribution.natural(mu, sigma) == pytest.approx((shape, size), rel=1e-3)

    def likelihood(shape, size):
        known = theirs.logpdf(years[died], shape, scale=size).sum()
        return known + theirs.logsf(years[~died], shape, scale=size).sum()

    assert likelihood(*distribution.natural(mu, sigma)) >= likelihood(shape, size) - 1e-9


@settings(deadline=None, max_examples=60)
@given(
    microyears=st.lists(st.integers(1, 9_999_999), min_size=2, max_size=30, unique=True),
    survivors=st.integers(0, 30),
    unit=st.floats(1e-3, 1e3),
)
def test_the_fit_finds_the_top_whatever_the_lives(microyears, survivors, unit):
    """And a change of the unit of time changes the scale alone."""
    years = np.array([*(1e-6 * age for age in microyears), *[10.0] * survivors])
    died = np.array([True] * len(microyears) + [False] * survivors)
    for distribution in (weibull(), lognormal()):
        lives = log_lives(years, died)
        mu, sigma = maximum_likelihood(distribution, lives)
        shift = math.log(unit)
        moved = LogLives(lives.log_life + shift, lives.died, lives.log_horizon + shift)
        other_mu, other_sigma = maximum_likelihood(distribution, moved)
        assert other_sigma == pytest.approx(sigma, rel=1e-5)
        assert other_mu == pytest.approx(mu + shift, abs=1e-5 * (1 + sigma[0] + abs(mu[0])))

        def likelihood(m, s, distribution=distribution, lives=lives):
            z = (lives.log_life - m) / s
            dead = distribution.log_density(z)[0] - np.log(s)
            return np.where(lives.died, dead, distribution.log_survival(z)[0]).sum()

        top = likelihood(mu, sigma)
        step = 1e-2 * sigma
        for m, s in (
            (mu + step, sigma),
            (mu - step, sigma),
            (mu, 1.01 * sigma),
            (mu, 0.99 * sigma),
        ):
            assert likelihood(m, s) <= top + 1e-9


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


def test_many_samples_at_once_are_each_alone():
    several = [drawn(20, seed) for seed in range(4)]
    together = LogLives(
        np.log([years for years, _ in several]),
        np.array([died for _, died in several]),
        math.log(HORIZON),
    )
    for distribution in (weibull(), lognormal()):
        mu, sigma = maximum_likelihood(distribution, together)
        distance = anderson_darling(distribution, together, mu, sigma)
        for place, (years, died) in enumerate(several):
            alone = log_lives(years, died)
            located = maximum_likelihood(distribution, alone)
            assert (mu[place], sigma[place]) == pytest.approx(
                [values[0] for values in located], rel=1e-7
            )
            assert distance[place] == pytest.approx(
                anderson_darling(distribution, alone, *located)[0]
            )


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


def test_the_true_law_is_kept_and_another_rejected():
    fit, other = fit_distributions(*drawn(800, 3, scale=6.0), HORIZON)
    assert (fit.distribution, other.distribution) == ("weibull", "lognormal")
    assert fit.verdict is Verdict.NOT_REJECTED
    assert fit.p_value > 0.05
    assert fit.parameters["shape"].lower < 1.7 < fit.parameters["shape"].upper
    assert fit.parameters["scale_years"].lower < 6.0 < fit.parameters["scale_years"].upper
    assert other.verdict is Verdict.REJECTED
    assert other.p_value < 0.01


def test_lognormal_lives_are_not_weibull():
    years = np.exp(np.random.default_rng(4).normal(1.2, 0.6, 800))
    other, fit = fit_distributions(*cut(years), HORIZON)
    assert (fit.verdict, other.verdict) == (Verdict.NOT_REJECTED, Verdict.REJECTED)
    assert fit.parameters["sigma"].lower < 0.6 < fit.parameters["sigma"].upper
    assert (
        fit.parameters["median_years"].lower < math.exp(1.2) < fit.parameters["median_years"].upper
    )


def test_the_same_lives_get_the_same_verdict():
    assert fit_distributions(*drawn(100, 5), HORIZON) == fit_distributions(*drawn(100, 5), HORIZON)


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
    years, died = drawn(100, 7)
    years[np.flatnonzero(died)[:5]] = 2.0 + 1e-9 * np.arange(5)  # the noise of a solver
    fit = fit_distributions(years, died, HORIZON)[0]
    assert fit.verdict is Verdict.ATOMS
    assert fit.reason == f"no continuous distribution: 5 of {died.sum()} deaths at 2 years"
    assert fit.parameters == {}
    assert math.isnan(fit.p_value)


def test_an_odd_pair_is_no_atom():
    years, died = drawn(100, 8)
    years[np.flatnonzero(died)[:2]] = 2.0
    assert fit_distributions(years, died, HORIZON)[0].verdict is Verdict.NOT_REJECTED


@pytest.mark.parametrize("deaths", [0, FEWEST_DEATHS - 1])
def test_too_few_deaths_have_no_law(deaths):
    years = np.append(np.linspace(1, 9, deaths), [10.0] * 50)
    for fit in fit_distributions(years, years < 10, HORIZON):
        assert fit.verdict is Verdict.TOO_FEW_DEATHS
        assert str(deaths) in fit.reason
        assert fit.parameters == {}


def test_the_fewest_deaths_have_one():
    years = np.append(np.linspace(1, 9, FEWEST_DEATHS), [10.0] * 500)
    for fit in fit_distributions(years, years < 10, HORIZON):
        assert fit.verdict is Verdict.NOT_REJECTED
        assert all(p.lower < p.value < p.upper for p in fit.parameters.values())


def test_a_true_law_is_rejected_as_often_as_said():
    """Of 300 samples 5 % are rejected; within four standard errors, one false alarm in 15,000."""
    samples = (drawn(60, 1000 + seed, scale=9.0) for seed in range(300))
    fits = [fit_distributions(*sample, HORIZON, replicates=99)[0] for sample in samples]
    rejected = np.mean([fit.verdict is Verdict.REJECTED for fit in fits])
    assert abs(rejected - 0.05) < 4 * math.sqrt(0.05 * 0.95 / 300)
