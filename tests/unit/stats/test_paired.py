"""Do comparisons on the same dies say what they should, and how much the same dies help?"""

import math
from itertools import pairwise

import check_draws_coverage as script
import numpy as np
import pytest
from scipy import stats
from scipy.stats import f_oneway, t, ttest_ind
from tables import each

from mcage.stats.estimates import mean
from mcage.stats.nested import FEWEST_DRAWS, mean_by_draw, quantile_by_draw, share_of_constants
from mcage.stats.paired import (
    _of_intervals,
    compare_apart,
    compare_means,
    outliving,
    ratio_of_means,
)
from mcage.stats.survival import enclosing_ranks, life_quantile, mean_precision, quantile_precision

NAN = math.nan


RANGE = 0.0, 10.0


def lives_of(draw, count, dying, gain):
    """Lives under two techniques on the same dies: those that die live longer under the first."""
    dead, age, longer = draw.random((3, count))
    second = np.where(dead < dying, 10 * age, 10.0)
    return np.minimum(10.0, second + np.where(dead < dying, 10 * gain * longer, 0.0)), second


@each(
    ("count", "dying", "gain"), [(50, 0.02, 1), (200, 0.01, 0.3), (200, 0.03, 1), (200, 0.5, 0.3)]
)
def test_differences_of_mean_lives_cover_however_few_slices_die(count, dying, gain):
    """Student's of the differences covers 36 to 93 % of the samples here."""
    draw = np.random.default_rng(8)
    first, second = (of.mean() for of in lives_of(draw, 400_000, dying, gain))
    samples = [lives_of(draw, count, dying, gain) for _ in range(150)]
    paired = [compare_means(*lives, within=RANGE) for lives in samples]
    apart = [
        compare_apart(one, another, within=RANGE) for (one, _), (_, another) in pairwise(samples)
    ]
    for means in (paired, apart):
        for name, truth in (("difference", first - second), ("ratio", first / second)):
            assert covered([getattr(of, name) for of in means], truth) >= 0.9, name


def covered(bounds, truth):
    return np.mean([of.lower <= truth <= of.upper for of in bounds])


def test_of_symmetric_intervals_differences_are_student_s_and_ratios_fieller_s():
    draw = np.random.default_rng(9)
    second = draw.normal(6, 1, 40)
    first = second + draw.normal(1, 0.5, 40)
    means = compare_means(first, second)
    correlation = np.corrcoef(first, second)[0, 1]
    difference, ratio = _of_intervals(means.first, means.second, correlation)
    for of, expected in ((difference, means.difference), (ratio, means.ratio)):
        assert list(vars(of).values()) == pytest.approx(list(vars(expected).values()))


@each("compare", [compare_means, compare_apart])
def test_what_too_few_dies_leave_unknown_stays_unknown(compare):
    one, none, dead = np.array([3.0]), np.array([]), np.zeros(5)
    means = compare(one, one, within=RANGE)
    for of in (means.first, means.difference, means.ratio):
        assert math.isfinite(of.value)
        assert np.isnan([of.lower, of.upper]).all()
    means = compare(none, none, within=RANGE)
    assert np.isnan([*vars(means.difference).values(), *vars(means.ratio).values()]).all()
    assert math.isnan(compare(dead, dead, within=RANGE).ratio.value)


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
    # A ratio to what may be zero has no bounds, and to zero no value.
    ratio = ratio_of_means(np.array([1.0, 2.0]), np.array([-1.0, 3.0]))
    assert ratio.value == 1.5
    assert np.isnan([ratio.lower, ratio.upper]).all()
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
    # A loss before the other's death decides nothing.
    lost = outliving(np.array([3.0]), np.array([False]), np.array([5.0]), np.array([True]))
    assert lost.unknown.value == lost.p_value == 1.0
    assert math.isnan(lost.first_of_decided.value)


# Means of independent samples: do their intervals cover, and do they agree with SciPy?


def test_the_difference_is_welchs():
    generator = np.random.default_rng(3)
    first, second = generator.normal(3, 1, 40), generator.normal(2, 5, 15)
    means = compare_apart(np.append(first, np.nan), second)
    expected = ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (means.first_dies, means.second_dies) == (40, 15)
    difference = means.difference.lower, means.difference.upper
    assert difference == pytest.approx((expected.low, expected.high))


def test_equal_numbers_and_single_ones():
    same = compare_apart(np.full(5, 0.1 + 0.2), np.full(7, 0.3))
    assert tuple(vars(same.difference).values()) == (0.0, 0.0, 0.0)
    single = compare_apart(np.array([2.0]), np.array([1.0, 3.0]))
    assert single.difference.value == 0
    assert math.isnan(single.difference.lower)
    assert single.ratio.value == 1
    assert math.isnan(compare_apart(np.array([math.nan]), np.array([1.0])).difference.value)


# Instances within draws of constants: intervals of the lot, bands of the constants.

DRAWS = 60


def nested(between, within, slices=8, seed=3):
    """Values of slices of each draw, in any order, and the draws."""
    rng = np.random.default_rng(seed)
    row = rng.permutation(np.repeat(np.arange(DRAWS), slices))
    return between * rng.normal(size=DRAWS)[row] + within * rng.normal(size=row.size), row


def test_without_a_lot_the_band_is_of_the_draws_themselves():
    values, row = nested(1.0, 0.0)
    of_draws = values[np.unique(row, return_index=True)[1]]
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
    of_draws = [values[row == each] for each in range(DRAWS)]
    ratio = f_oneway(*of_draws).statistic
    share = share_of_constants(values, row)
    assert share.value == pytest.approx((ratio - 1) / (ratio - 1 + 8))
    assert 0.3 < share.lower < share.value < share.upper < 0.7
    parts = [f_oneway(*of_draws[:left], *of_draws[left + 1 :]).statistic for left in range(DRAWS)]
    pseudo = DRAWS * np.log(ratio) - (DRAWS - 1) * np.log(parts)
    half = t.ppf(0.975, DRAWS - 1) * pseudo.std(ddof=1) / DRAWS**0.5
    for end, bound in ((-half, share.lower), (half, share.upper)):
        excess = np.exp(pseudo.mean() + end) - 1
        assert bound == pytest.approx(excess / (excess + 8))


def test_values_that_are_missing_do_not_count():
    values, row = nested(1.0, 1.0)
    more = np.concatenate([values, np.full(9, np.nan)]), np.concatenate([row, np.arange(9)])
    assert mean_by_draw(*more) == mean_by_draw(values, row)
    nothing = mean_by_draw(np.full(4, np.nan), np.arange(4))
    assert math.isnan(nothing.lot.value)
    assert math.isnan(nothing.band.lower)


def test_what_cannot_be_told_is_not_told():
    values, row = nested(1.0, 1.0)
    lives, few = np.exp(values), row < FEWEST_DRAWS - 1
    of_few = lives[few], lives[few] < 9, row[few]
    for estimate in (mean_by_draw(values[few], row[few]), quantile_by_draw(*of_few)):
        assert math.isfinite(estimate.lot.lower)
        assert math.isnan(estimate.band.lower)
    first = np.unique(row, return_index=True)[1]
    single = lives[first], lives[first] < 9, row[first]
    assert math.isnan(quantile_by_draw(*single).lot.lower)
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


# Is a quantity known only if its interval would be narrow wherever in it the truth lies?

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


@each("share", [0.5, 0.1])
@each("count", [200, 501])
def test_quantiles_by_hand(share, count):
    draw = np.random.default_rng(count)
    with_atoms = np.round(10 * draw.random(count))  # some at zero
    for years in (2 + 9 * draw.random(count), with_atoms, 6 * draw.weibull(2.0, count)):
        years = np.minimum(years, HORIZON_YEARS)
        result = precision(years, share)
        assert result.relative == pytest.approx(by_hand(years, share), rel=1e-12)
        assert result.estimate == life_quantile(years, years < HORIZON_YEARS, share)


def test_an_estimate_in_the_wrong_atom_is_not_known():
    """Of 1,000 lives 535 end at 6, 460 at 4, few between: the interval is [6, 6] by luck."""
    years = np.repeat([4.0, 5.0, 6.0], [460, 5, 535])
    result = precision(years)
    assert (result.estimate.lower, result.estimate.upper) == (6.0, 6.0)
    assert result.relative >= 0.2
    assert precision(np.repeat([4.0, 5.0, 6.0], [400, 5, 595])).relative == 0.0


@each(
    ("years", "share", "relative"),
    [
        # Beyond the horizon, at zero, apart by rounding alone: this cannot become tighter.
        (np.repeat([4.0, 10.0], [400, 600]), 0.5, 0.0),
        (np.zeros(600), 0.5, 0.0),
        (3.0 + 1e-9 * np.random.default_rng(1).random(600), 0.5, 0.0),
        # Intervals that reach beyond, or to zero; too few lives for a lower bound.
        (np.repeat([4.0, 10.0], [490, 510]), 0.5, math.inf),
        (np.repeat([4.0, 10.0], [510, 490]), 0.5, math.inf),
        (np.repeat([0.0, 4.0], [510, 490]), 0.5, math.inf),
        (np.linspace(1, 2, 30), 0.1, math.inf),
        (np.linspace(1, 2, 100), 0.1, math.inf),  # ranks 5 ... 17: around 5, one would be below 1
    ],
)
def test_precisions_of_quantiles_at_their_limits(years, share, relative):
    assert precision(years, share).relative == relative


def test_precisions_of_means():
    values = np.append(5 + np.random.default_rng(2).random(600), np.nan)
    result = mean_precision(values)
    assert result.estimate == mean(values)
    assert result.relative == pytest.approx((result.estimate.upper / result.estimate.value) - 1)
    for values, relative in [
        (np.full(600, np.nan), 0.0),
        (np.full(600, 0.3), 0.0),
        (np.array([2.0, np.nan]), math.inf),
        (np.array([2.0, -2.0]), math.inf),
    ]:
        assert mean_precision(values).relative == relative
