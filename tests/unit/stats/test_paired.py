"""Do comparisons on the same dies say what they should, and how much the same dies help?"""

import math

import numpy as np
import pytest
from scipy import stats
from tables import each

from mcage.stats.paired import compare_means, outliving, ratio_of_means

NAN = math.nan


def test_means_by_hand():
    # Differences 1, 2, 3; t(2 degrees, 97.5 %) = 4.3027; variances 16 + 9 apart, 1 paired.
    means = compare_means(np.array([2.0, 6.0, 10.0, NAN]), np.array([1.0, 4.0, 7.0, 5.0]))
    assert means.dies == 3
    assert (means.first.value, means.second.value) == (6.0, 4.0)
    assert means.difference.value == 2.0
    assert means.difference.upper - 2.0 == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert means.ratio.value == 1.5
    assert means.variance_reduction == pytest.approx(25.0)


def test_the_ratio_is_where_the_difference_is_no_more():
    """Fieller's bounds are the ratios r at which a t test of A - r B is at its limit."""
    draw = np.random.default_rng(3)
    b = draw.gamma(3.0, 1.0, 40)
    a = 1.3 * b + draw.normal(0, 0.5, 40)
    ratio = ratio_of_means(a, b)
    assert ratio.lower < a.mean() / b.mean() < ratio.upper
    for bound in (ratio.lower, ratio.upper):
        assert stats.ttest_1samp(a - bound * b, 0.0).pvalue == pytest.approx(0.05, abs=1e-9)


def test_a_ratio_to_what_may_be_zero_has_no_bounds():
    ratio = ratio_of_means(np.array([1.0, 2.0]), np.array([-1.0, 3.0]))
    assert ratio.value == 1.5
    assert math.isnan(ratio.lower)
    assert math.isnan(ratio.upper)
    assert math.isnan(ratio_of_means(np.array([1.0, 2.0]), np.zeros(2)).value)


@each(
    ("first", "second", "factor"),
    [
        ([0.1, 0.1, 0.1], [0.3, 0.3, 0.3], NAN),
        ([1.0, 2.0, 3.0], [2.0, 3.0, 4.0], math.inf),
        ([0.1, 0.1, 0.1], [1.0, 2.0, 3.0], 1.0),
        ([1.0], [2.0], NAN),
        ([NAN], [2.0], NAN),
    ],
)
def test_variance_reduction_at_its_limits(first, second, factor):
    means = compare_means(np.array(first), np.array(second))
    assert means.variance_reduction == pytest.approx(factor, nan_ok=True)


def test_variance_reduction_is_by_how_much_intervals_shrink():
    draw = np.random.default_rng(4)
    die = draw.normal(0, 1.0, 4000)
    first, second = die + draw.normal(0, 0.2, 4000), die + draw.normal(0.1, 0.2, 4000)
    paired = compare_means(first, second)
    apart = compare_means(first, draw.permutation(second))
    widths = [m.difference.upper - m.difference.lower for m in (apart, paired)]
    assert (widths[0] / widths[1]) ** 2 == pytest.approx(paired.variance_reduction, rel=0.1)
    assert apart.variance_reduction == pytest.approx(1.0, abs=0.1)


def test_who_outlives_whom_by_hand():
    first = np.array([3.0, 10.0, 1.0, 2.0, 0.0, 10.0, 4.0, 5.0, 6.0, 7.0])
    a_died = np.array([True, False, True, True, True, False, True, True, False, True])
    second = np.array([2.0, 4.0, 8.0, 10.0, 0.0, 10.0, 4.0, 5.0 + 1e-12, 6.0, 8.0])
    b_died = np.array([True, True, True, False, True, False, False, True, True, True])
    comparison = outliving(first, a_died, second, b_died)
    assert comparison.first.value == 3 / 10  # one of them censored when the other dies
    assert comparison.second.value == 4 / 10  # likewise
    assert comparison.together.value == 2 / 10
    assert comparison.unknown.value == 1 / 10
    assert comparison.first_of_decided.value == 3 / 7
    assert comparison.p_value == pytest.approx(stats.binomtest(3, 7).pvalue)


def test_a_loss_before_the_other_death_decides_nothing():
    comparison = outliving(np.array([3.0]), np.array([False]), np.array([5.0]), np.array([True]))
    assert comparison.unknown.value == 1.0
    assert math.isnan(comparison.first_of_decided.value)
    assert comparison.p_value == 1.0
