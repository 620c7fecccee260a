"""Are estimates and their intervals those of hand calculation, of SciPy, and of their promise?"""

import math

import numpy as np
import pytest
from scipy import stats

from mcage.stats.estimates import mean, proportion


def test_wilson_by_hand_and_by_scipy():
    estimate = proportion(0, 10)
    assert estimate.value == 0.0
    assert estimate.lower == 0.0
    assert estimate.upper == pytest.approx(0.2775, abs=5e-5)
    for successes, count in ((0, 1), (1, 1), (3, 10), (999, 10_000)):
        interval = stats.binomtest(successes, count).proportion_ci(method="wilson")
        estimate = proportion(successes, count)
        assert estimate.lower == pytest.approx(interval.low, abs=1e-12)
        assert estimate.upper == pytest.approx(interval.high, abs=1e-12)


def test_none_and_all_are_exact():
    for count in range(1, 500):
        assert proportion(0, count).lower == 0.0
        assert proportion(count, count).upper == 1.0


def test_mean_by_hand():
    # Mean 2, standard deviation 1, t(2 degrees, 97.5 %) = 4.3027.
    estimate = mean(np.array([1.0, 2.0, 3.0]))
    assert estimate.value == 2.0
    assert estimate.upper - estimate.value == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert estimate.value - estimate.lower == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)


def test_mean_of_single_precision_does_not_lose_its_interval():
    values = np.full(1_000_000, 60.0, np.float32)
    values[::2] += np.float32(1e-3)
    estimate = mean(values)
    assert estimate.value == pytest.approx(60.0005, abs=1e-6)
    assert estimate.upper - estimate.lower == pytest.approx(2 * 1.96 * 5e-4 / 1e3, rel=1e-2)


def test_mean_of_one_and_of_none():
    assert mean(np.array([3.0, np.nan])).value == 3.0
    assert math.isnan(mean(np.array([3.0])).lower)
    assert math.isnan(mean(np.array([np.nan])).value)
