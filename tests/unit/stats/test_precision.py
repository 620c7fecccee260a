"""Is a quantity known only if its interval would be narrow wherever in it the truth lies?"""

import math

import numpy as np
import pytest

from mcage.stats.estimates import mean
from mcage.stats.precision import mean_precision, quantile_precision
from mcage.stats.survival import enclosing_ranks, life_quantile

HORIZON_YEARS = 10.0


def precision(years, share=0.5):
    years = np.asarray(years, float)
    return quantile_precision(years, years < HORIZON_YEARS, share)


def by_hand(years, share):
    """The definition in words: around every rank of the interval, the same ranks down and up."""
    ordered = sorted(life if life < HORIZON_YEARS else math.inf for life in years)
    middle = math.ceil(round(share * len(ordered), 6))
    lower, upper = enclosing_ranks(len(ordered), share)
    worst = 0.0
    for rank in range(lower, upper + 1):
        low, high = rank - (middle - lower), rank + (upper - middle)
        here, low, high = (ordered[place - 1] for place in (rank, low, high))
        if low != high:
            distance = max(high - here, here - low) if here < math.inf else math.inf
            worst = max(worst, distance / here if here and distance < math.inf else math.inf)
    return worst


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("count", [200, 501])
def test_quantiles_by_hand(share, count):
    draw = np.random.default_rng(count)
    for years in (
        2 + 9 * draw.random(count),
        np.round(10 * draw.random(count)),  # atoms, some at zero
        6 * draw.weibull(2.0, count),
    ):
        result = precision(np.minimum(years, HORIZON_YEARS), share)
        assert result.relative == pytest.approx(by_hand(years, share), rel=1e-12)
        assert result.estimate == life_quantile(years, years < HORIZON_YEARS, share)


def test_a_quantile_is_no_better_known_than_its_interval_says():
    years = 3 + 5 * np.random.default_rng(4).random(1000)
    result = precision(years)
    estimate = result.estimate
    distance = max(estimate.upper - estimate.value, estimate.value - estimate.lower)
    assert distance / estimate.value <= result.relative < 2 * distance / estimate.value


def test_an_estimate_in_the_wrong_atom_is_not_known():
    """Of 1,000 lives 535 end at 6, 460 at 4, few between: the interval is [6, 6] by luck."""
    years = np.repeat([4.0, 5.0, 6.0], [460, 5, 535])
    result = precision(years)
    assert (result.estimate.lower, result.estimate.upper) == (6.0, 6.0)
    assert result.relative >= 0.2
    assert precision(np.repeat([4.0, 5.0, 6.0], [400, 5, 595])).relative == 0.0


def test_what_cannot_become_tighter():
    beyond = precision(np.repeat([4.0, 10.0], [400, 600]))
    assert beyond.estimate.value == math.inf
    assert beyond.relative == 0.0
    assert precision(np.zeros(600)).relative == 0.0
    apart_by_rounding = 3.0 + 1e-9 * np.random.default_rng(1).random(600)
    assert precision(apart_by_rounding).relative == 0.0


def test_what_has_no_relative_precision():
    assert precision(np.repeat([4.0, 10.0], [490, 510])).relative == math.inf  # reaches beyond
    assert precision(np.repeat([4.0, 10.0], [510, 490])).relative == math.inf
    assert precision(np.repeat([0.0, 4.0], [510, 490])).relative == math.inf  # zero, and not
    assert precision(np.linspace(1, 2, 30), 0.1).relative == math.inf  # too few for a lower bound
    assert mean_precision(np.array([2.0, np.nan])).relative == math.inf
    assert mean_precision(np.array([2.0, -2.0])).relative == math.inf


def test_means():
    values = np.append(5 + np.random.default_rng(2).random(600), np.nan)
    result = mean_precision(values)
    assert result.estimate == mean(values)
    assert result.relative == pytest.approx((result.estimate.upper / result.estimate.value) - 1)
    assert mean_precision(np.full(600, np.nan)).relative == 0.0
    assert mean_precision(np.full(600, 0.3)).relative == 0.0
