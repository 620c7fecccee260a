"""Are survival curves and quantiles those of hand calculation, of SciPy, of their promise?"""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tables import each

from mcage.stats.survival import enclosing_ranks, kaplan_meier, life_quantile

LIVES = st.lists(st.tuples(st.integers(1, 8), st.booleans()), min_size=1, max_size=40)


def test_kaplan_meier_by_hand():
    # At risk 6, 4 (one death, one censored before), 3 (a tie with a censored life), 1.
    years = np.array([1.0, 2.0, 3.0, 4.0, 4.0, 5.0])
    died = np.array([True, False, True, True, False, True])
    curve = kaplan_meier(years, died)
    np.testing.assert_array_equal(curve.years, [1, 3, 4, 5])
    survival = [5 / 6, 5 / 6 * 3 / 4, 5 / 6 * 3 / 4 * 2 / 3, 0]
    np.testing.assert_allclose(curve.survival, survival)
    # Greenwood at 3 years: 1/(6*5) + 1/(4*3); log-log band.
    spread = 1.959964 * math.sqrt(1 / 30 + 1 / 12) / abs(math.log(0.625))
    assert curve.lower[1] == pytest.approx(0.625 ** math.exp(spread), rel=1e-6)
    assert curve.upper[1] == pytest.approx(0.625 ** math.exp(-spread), rel=1e-6)
    assert math.isnan(curve.lower[3])


@given(lives=LIVES)
def test_kaplan_meier_agrees_with_scipy(lives):
    years = np.array([life for life, _ in lives], dtype=float)
    died = np.array([dead for _, dead in lives])
    curve = kaplan_meier(years, died)
    scipy_curve = stats.ecdf(stats.CensoredData.right_censored(years, ~died)).sf
    np.testing.assert_allclose(curve.survival, scipy_curve.evaluate(curve.years), atol=1e-12)
    if died.any():
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            band = scipy_curve.confidence_interval(method="log-log")
        alive = curve.survival > 0
        for bound, expected in ((curve.lower, band.low), (curve.upper, band.high)):
            np.testing.assert_allclose(
                bound[alive], expected.evaluate(curve.years)[alive], atol=1e-9, rtol=1e-9
            )


def test_without_a_death_the_curve_has_no_step():
    curve = kaplan_meier(np.full(5, 10.0), np.zeros(5, bool))
    assert curve.years.size == curve.survival.size == 0


def test_median_and_its_ranks_by_hand():
    # Ten lives: P(2 <= B < 9) = 97.9 %, so ranks 2 and 9, as in every table.
    years = np.arange(10.0, 0.0, -1.0)
    median = life_quantile(years, np.ones(10, bool))
    assert (median.value, median.lower, median.upper) == (5.0, 2.0, 9.0)


@each("share", [0.1, 0.5, 0.9])
@each("count", [60, 100, 150, 1000])
def test_ranks_are_those_of_scipy_moved_inwards(count, share):
    """As long as the promise holds, and not a rank further: ranks are binomial."""
    lower, upper = enclosing_ranks(count, share)
    test = stats.quantile_test(np.arange(1.0, count + 1), p=share)
    interval = test.confidence_interval(0.95)
    assert interval.low <= lower < upper <= interval.high

    def enclosed(first, last):
        return stats.binom.pmf(np.arange(first, last), count, share).sum()

    assert enclosed(lower, upper) >= 0.95
    assert max(enclosed(lower + 1, upper), enclosed(lower, upper - 1)) < 0.95


@pytest.mark.parametrize(("share", "first_count"), [(0.5, 60), (0.1, 125)])
def test_ranks_promise_no_more_than_they_should(share, first_count):
    """95 to 96.5 %; equal tails alone give 97.2 % for the 10 % quantile of 150."""
    for count in range(first_count, 800):
        lower, upper = enclosing_ranks(count, share)
        below = stats.binom.cdf((lower - 1, upper - 1), count, share)
        assert 0.95 <= below[1] - below[0] <= 0.965, count


def test_lives_beyond_the_horizon_are_infinite_not_ten_years():
    years = np.array([1.0, 2, 3, 4, 5, 6, *[10.0] * 8])
    died = years < 10
    median = life_quantile(years, died)
    assert median.value == math.inf
    assert median.lower == 3.0
    assert median.upper == math.inf
    assert life_quantile(years, np.zeros(14, bool)).value == math.inf


def test_half_dead_at_the_horizon_has_a_median():
    years = np.array([1.0, 2, 3, 4, 10, 10, 10, 10])
    assert life_quantile(years, years < 10).value == 4.0


@pytest.mark.parametrize("count", [1, 5])
def test_too_few_lives_have_no_interval(count):
    median = life_quantile(np.arange(1.0, count + 1), np.ones(count, bool))
    assert median.value == (count + 1) // 2
    assert math.isnan(median.lower)
    assert math.isnan(median.upper)


def test_a_life_that_gets_lost_early_is_refused():
    with pytest.raises(ValueError, match="outlast"):
        life_quantile(np.array([1.0, 5.0]), np.array([False, True]))


@given(lives=st.lists(st.floats(0.1, 12.0), min_size=1, max_size=60), share=st.floats(0.05, 0.95))
def test_quantiles_invert_the_kaplan_meier_curve(lives, share):
    years = np.minimum(lives, 10.0)
    died = years < 10.0
    curve = kaplan_meier(years, died)
    reached = curve.years[curve.survival <= 1 - share + 1e-9]
    assert life_quantile(years, died, share).value == (reached[0] if reached.size else math.inf)


def test_the_median_is_covered_as_often_as_promised():
    draw = np.random.default_rng(20240607)
    horizon, trials = 1.0, 2000
    truth = math.log(2)
    covered = 0
    for years in np.minimum(draw.exponential(size=(trials, 101)), horizon):
        median = life_quantile(years, years < horizon)
        covered += median.lower <= truth <= median.upper
    # Lives below the truth are a binomial number. Four standard errors of the trials: one false
    # alarm in 15,000 seeds.
    lower, upper = enclosing_ranks(101, 0.5)
    exact = stats.binom.cdf(upper - 1, 101, 0.5) - stats.binom.cdf(lower - 1, 101, 0.5)
    assert 0.95 <= exact < 0.96
    assert abs(covered / trials - exact) < 4 * math.sqrt(exact * (1 - exact) / trials)
