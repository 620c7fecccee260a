"""Estimates from weighted failures: what they say, and when they warn."""

import numpy as np
import pytest

from mcage.studies.rare_events.estimate import estimate


def test_equal_weights_give_a_share():
    failed = np.arange(1000) < 250
    result = estimate(np.ones(1000), failed, 1.0)
    assert result.probability == 0.25
    assert result.failures == result.effective_samples == 250
    assert result.relative_error == pytest.approx(np.sqrt(0.25 * 0.75 / 999) / 0.25)
    assert result.lower < 0.25 < result.upper
    assert result.lower * result.upper == pytest.approx(0.25**2)
    assert result.warnings == ()


def test_weights_count():
    weights = np.array([0.5, 2.0, 1.0, 0.5] * 100)
    failed = np.array([True, False, False, True] * 100)
    result = estimate(weights, failed, 0.5)
    assert result.probability == 0.25
    assert result.effective_samples == pytest.approx(200)
    assert result.mean_weight == 1.0


def test_no_failure_leaves_an_upper_bound():
    result = estimate(np.ones(400), np.zeros(400, bool), 0.1)
    assert (result.probability, result.lower) == (0.0, 0.0)
    # The largest rate that shows no failure in 400 samples with a chance of 2.5 %, over 0.1.
    assert (1 - 0.1 * result.upper) ** 400 == pytest.approx(0.025)
    assert "no sample failed" in result.warnings[0]


def test_few_failures_are_warned_of():
    result = estimate(np.ones(400), np.arange(400) < 5, 0.1)
    assert "5 effective samples" in result.warnings[0]
    assert "20%" in result.warnings[1]


def test_a_heavy_failure_is_warned_of():
    weights = np.ones(4000)
    weights[0] = 400.0
    result = estimate(weights, np.arange(4000) < 2000, 0.001)
    assert any("one sample makes up 17%" in warning for warning in result.warnings)


def test_missing_weight_is_warned_of():
    result = estimate(np.tile([0.4, 0.6], 500), np.arange(1000) < 500, 0.1)
    assert "mean weight is 0.5" in result.warnings[0]
