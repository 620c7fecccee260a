"""Failures in a million and failure rates: what they are made of, and what they do not claim."""

import math

import numpy as np
import pytest

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.stats.estimates import Estimate, proportion
from mcage.stats.rates import HOURS_PER_YEAR, failure_rate, fit_of_share, in_ppm
from mcage.stats.survival import CaseLives


def lives(years, horizon=10.0):
    years = np.minimum(np.asarray(years, float), horizon)
    died = years < horizon
    return CaseLives("case", years, died, died.astype(np.int8), horizon)


def test_a_year_has_the_hours_of_all_years():
    assert HOURS_PER_YEAR * 3600 == SECONDS_PER_YEAR


def test_a_case_by_hand():
    rate = failure_rate(lives([0.0, 0.0, 1.0, 2.0, 2.5, 9.0, 20, 20, 20, 20]), 2.0)
    assert rate.failed_ppm.value == 400_000
    assert rate.dead_on_arrival_ppm.value == 200_000
    share = proportion(2, 8)
    assert rate.mean_rate_fit.value == pytest.approx(-math.log(6 / 8) * 1e9 / (2 * 8760))
    assert rate.mean_rate_fit.upper == pytest.approx(-math.log(1 - share.upper) * 1e9 / (2 * 8760))
    assert rate.failed_ppm.lower == pytest.approx(1e6 * proportion(4, 10).lower)


def test_the_rate_of_exponential_lives_is_theirs_at_any_age():
    drawn = np.random.default_rng(5).exponential(20.0, 40_000)
    for age in (0.5, 2.0, 10.0):
        rate = failure_rate(lives(drawn, 10.5), age, 0.9999).mean_rate_fit
        assert rate.lower < 1e9 / (20.0 * 8760) < rate.upper


def test_nobody_and_everybody():
    nobody = failure_rate(lives([20.0] * 50), 10.0)
    assert nobody.failed_ppm.value == nobody.mean_rate_fit.value == nobody.mean_rate_fit.lower == 0
    assert nobody.mean_rate_fit.upper > 0
    everybody = failure_rate(lives([1.0] * 50), 5.0).mean_rate_fit
    assert math.isnan(everybody.value)
    assert math.isnan(everybody.upper)
    assert everybody.lower > 0
    never = failure_rate(lives([0.0] * 50), 5.0)
    assert never.failed_ppm.value == 1e6
    assert math.isnan(never.mean_rate_fit.lower)


def test_ages_outside_are_refused():
    for age in (0.0, -1.0, 10.5, math.nan):
        with pytest.raises(ValueError, match="within the simulated time"):
            failure_rate(lives([1.0, 2.0]), age)


def test_small_shares_lose_no_digits():
    share = Estimate(1e-12, 1e-13, 1e-11)
    assert in_ppm(share) == Estimate(*(pytest.approx(v) for v in (1e-6, 1e-7, 1e-5)))
    assert fit_of_share(share, 1.0).value == pytest.approx(1e-3 / 8760, rel=1e-9)
