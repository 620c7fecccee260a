"""Instances within draws of constants: intervals of the lot, bands of the constants."""

import math

import check_draws_coverage as script
import numpy as np
import pytest
from scipy.stats import f_oneway, t

from mcage.stats.nested import FEWEST_DRAWS, mean_by_draw, quantile_by_draw, share_of_constants

DRAWS = 60


def nested(between, within, slices=8, seed=3):
    """Values of slices of each draw, in any order, and the draws."""
    rng = np.random.default_rng(seed)
    row = rng.permutation(np.repeat(np.arange(DRAWS), slices))
    return between * rng.normal(size=DRAWS)[row] + within * rng.normal(size=row.size), row


def test_without_a_lot_the_band_is_of_the_draws_themselves():
    values, row = nested(1.0, 0.0)
    of_draws = np.array([values[row == each][0] for each in range(DRAWS)])
    mean = mean_by_draw(values, row)
    assert mean.lot.lower == pytest.approx(mean.lot.upper, abs=1e-12)
    ends = np.quantile(of_draws, [0.025, 0.5, 0.975], method="weibull")
    assert [mean.band.lower, mean.band.value, mean.band.upper] == pytest.approx(ends)
    lives = np.exp(values)
    median = quantile_by_draw(lives, lives < 3.0, row)
    assert median.lot.lower == median.lot.value == median.lot.upper
    first, last = np.sort(np.exp(of_draws))[[1, -2]]
    assert median.band.lower <= first
    assert median.band.upper == (last if last < 3.0 else math.inf)
    assert share_of_constants(values, row).value == 1


def test_a_lot_alone_has_the_interval_within_draws_and_a_narrow_band():
    values, row = nested(0.0, 1.0)
    mean, count = mean_by_draw(values, row), values.size
    within = sum(values[row == each].var() * 8 for each in range(DRAWS)) / (count - DRAWS)
    half = t.ppf(0.975, count - DRAWS) * math.sqrt(within / count)
    assert mean.lot.value == pytest.approx(values.mean())
    assert mean.lot.upper - mean.lot.value == pytest.approx(half)
    of_draws = [values[row == each].mean() for each in range(DRAWS)]
    assert mean.band.upper - mean.band.lower < 0.7 * np.ptp(of_draws)
    share = share_of_constants(values, row)
    assert share.lower == 0
    assert share.value < share.upper < 0.15


def test_the_share_is_that_of_the_ratio_of_mean_squares():
    values, row = nested(1.0, 1.0)
    ratio = f_oneway(*(values[row == each] for each in range(DRAWS))).statistic
    share = share_of_constants(values, row)
    assert share.value == pytest.approx((ratio - 1) / (ratio - 1 + 8))
    assert 0.3 < share.lower < share.value < share.upper < 0.7
    without = np.array(
        [
            f_oneway(*(values[row == e] for e in range(DRAWS) if e != left)).statistic
            for left in range(DRAWS)
        ]
    )
    pseudo = DRAWS * np.log(ratio) - (DRAWS - 1) * np.log(without)
    bound = np.exp(pseudo.mean() + t.ppf(0.975, DRAWS - 1) * pseudo.std(ddof=1) / DRAWS**0.5) - 1
    assert share.upper == pytest.approx(bound / (bound + 8))


def test_values_that_are_missing_do_not_count():
    values, row = nested(1.0, 1.0)
    more = np.concatenate([values, np.full(9, np.nan)]), np.concatenate([row, np.arange(9)])
    assert mean_by_draw(*more) == mean_by_draw(values, row)
    nothing = mean_by_draw(np.full(4, np.nan), np.arange(4))
    assert math.isnan(nothing.lot.value)
    assert math.isnan(nothing.band.lower)


def test_what_cannot_be_told_is_not_told():
    values, row = nested(1.0, 1.0)
    few = row < FEWEST_DRAWS - 1
    lives = np.exp(values)
    for mean in (
        mean_by_draw(values[few], row[few]),
        quantile_by_draw(lives[few], lives[few] < 9, row[few]),
    ):
        assert math.isfinite(mean.lot.lower)
        assert math.isnan(mean.band.lower)
    first = np.unique(row, return_index=True)[1]
    single = quantile_by_draw(lives[first], lives[first] < 9, row[first])
    assert math.isnan(single.lot.lower)
    assert math.isnan(mean_by_draw(values[first], row[first]).band.upper)
    assert math.isnan(share_of_constants(values[first], row[first]).value)
    beyond = quantile_by_draw(np.full(row.size, 10.0), np.zeros(row.size, bool), row)
    assert beyond.lot.value == beyond.lot.upper == beyond.band.lower == math.inf


def test_intervals_and_bands_hold_about_as_often_as_promised(monkeypatch):
    """And an interval that is too narrow is seen."""
    toy = script.Toy(60, 8, 0.3, 0.5)
    for name, share in script.covered(toy, 60, np.random.default_rng(1)).items():
        assert 0.85 < share <= 1, name
    monkeypatch.setattr(script, "mean_by_draw", lambda *given: mean_by_draw(*given, 0.5))
    narrow = script.covered(toy, 60, np.random.default_rng(1))
    assert max(narrow[f"life to horizon, {of}"] for of in ("lot", "constants")) < 0.75
    assert not script.is_right(toy, "life to horizon, lot", narrow["life to horizon, lot"])
