"""Estimates from weighted failures: what they say, and when they warn."""

import numpy as np
import pytest

from mcage.studies.rare_events.estimate import estimate


def test_equal_weights_give_a_share():
    failed = np.arange(1000) < 250
    found = estimate(np.ones(1000), failed, 1.0)
    assert found.probability == 0.25
    assert found.failures == found.effective_samples == 250
    assert found.relative_error == pytest.approx(np.sqrt(0.25 * 0.75 / 999) / 0.25)
    assert found.lower < 0.25 < found.upper
    assert found.lower * found.upper == pytest.approx(0.25**2)
    assert found.warnings == ()


def test_weights_count():
    weights = np.array([0.5, 2.0, 1.0, 0.5] * 100)
    failed = np.array([True, False, False, True] * 100)
    found = estimate(weights, failed, 0.5)
    assert found.probability == 0.25
    assert found.effective_samples == pytest.approx(200)
    assert found.mean_weight == 1.0


def test_no_failure_leaves_an_upper_bound():
    found = estimate(np.ones(400), np.zeros(400, bool), 0.1)
    assert (found.probability, found.lower) == (0.0, 0.0)
    # The largest rate that shows no failure in 400 samples with a chance of 2.5 %, over 0.1.
    assert (1 - 0.1 * found.upper) ** 400 == pytest.approx(0.025)
    assert "no sample failed" in found.warnings[0]


def test_few_failures_are_warned_of():
    found = estimate(np.ones(400), np.arange(400) < 5, 0.1)
    assert "5 effective samples" in found.warnings[0]
    assert "20%" in found.warnings[1]


def test_a_heavy_failure_is_warned_of():
    weights = np.ones(4000)
    weights[0] = 400.0
    found = estimate(weights, np.arange(4000) < 2000, 0.001)
    assert any("one sample makes up 17%" in warning for warning in found.warnings)


def test_missing_weight_is_warned_of():
    found = estimate(np.tile([0.4, 0.6], 500), np.arange(1000) < 500, 0.1)
    assert "mean weight is 0.5" in found.warnings[0]
