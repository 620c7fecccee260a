"""Means of independent samples: do their intervals cover, and do they agree with SciPy?"""

import math

import numpy as np
import pytest
from scipy.stats import ttest_ind

from mcage.stats.paired import compare_apart


def test_the_difference_is_welchs():
    generator = np.random.default_rng(3)
    first, second = generator.normal(3, 1, 40), generator.normal(2, 5, 15)
    means = compare_apart(np.append(first, np.nan), second)
    expected = ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (means.first_dies, means.second_dies) == (40, 15)
    assert means.difference.lower == pytest.approx(expected.low)
    assert means.difference.upper == pytest.approx(expected.high)


def test_ratios_are_covered_as_promised():
    generator = np.random.default_rng(4)
    covered = 0
    for _ in range(400):
        means = compare_apart(generator.normal(6, 2, 30), generator.normal(3, 1, 60))
        covered += means.ratio.lower <= 2 <= means.ratio.upper
    assert 0.92 < covered / 400 < 0.98


def test_equal_numbers_and_single_ones():
    same = compare_apart(np.full(5, 0.1 + 0.2), np.full(7, 0.3))
    assert tuple(vars(same.difference).values()) == (0.0, 0.0, 0.0)
    single = compare_apart(np.array([2.0]), np.array([1.0, 3.0]))
    assert single.difference.value == 0
    assert math.isnan(single.difference.lower)
    assert single.ratio.value == 1
    assert math.isnan(compare_apart(np.array([math.nan]), np.array([1.0])).difference.value)
