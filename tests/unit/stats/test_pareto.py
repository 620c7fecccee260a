"""Is the front what no design beats, and does its probability say what chance does?"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.stats import binom, t
from tables import each

from mcage.stats.estimates import mean, proportion
from mcage.stats.pareto import dominators, front, front_shares, group_means

NAN = math.nan


def dominates(first, second):
    return (first <= second).all() and (first < second).any()


def front_by_hand(points):
    known = ~np.isnan(points).any(axis=1)
    return [
        bool(known[i])
        and not any(dominates(other, point) for j, other in enumerate(points) if known[j])
        for i, point in enumerate(points)
    ]


# No two differ by so little that rounding may have left it: 1e-14 of the largest, 1e-5.
values = st.sampled_from([0.0, 1.0, 2.0, -1.5, 1e-4, 1e9, NAN])
continuous = st.floats(-1, 1, width=16)


@given(
    arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=30), elements=values)
    | arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 4)), elements=continuous)
)
def test_the_front_is_what_brute_force_finds(points):
    assert front(points).tolist() == front_by_hand(points)


@given(arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(2, 4)), elements=continuous))
def test_whoever_is_dominated_is_dominated_by_a_design_of_the_front(points):
    preference = np.arange(len(points))[::-1].astype(float)
    on_front, chosen = front(points), dominators(points, preference)
    assert (chosen < 0).tolist() == on_front.tolist()
    for place, member in enumerate(chosen):
        if member >= 0:
            others = [i for i in np.flatnonzero(on_front) if dominates(points[i], points[place])]
            assert member == min(others)


@each(
    ("points", "expected"),
    [
        ([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0]], [True, True, False]),
        ([[1.0, 2.0], [1.0 + 1e-12, 2.0]], [True, True]),
        ([[0.0, 2.0], [1e-16, 2.0], [5.0, 1.0]], [True, True, True]),
        ([[1.0, 2.0], [1.0 + 1e-6, 2.0]], [True, False]),
        ([[NAN, 0.0], [3.0, 3.0]], [False, True]),
        ([[NAN, 0.0], [NAN, 0.0]], [False, False]),
        ([[2.0]], [True]),
    ],
)
def test_a_front_by_hand(points, expected):
    """Equal designs are all on it, also where they differ by rounding; unknown ones are not."""
    assert front(np.array(points)).tolist() == expected


FALSE_ALARM = 1e-6


@each(("dies_of_chip", "chips", "worse", "beyond"), [(1, 40, 17, 19), (10, 4, 2, 1)])
def test_the_probability_of_two_designs_is_that_of_a_binomial_number(
    dies_of_chip, chips, worse, beyond
):
    """Design B is worse in one objective, and by +1 or -1 on each die better or worse in another.

    It is on the front of a resample unless more dies drawn have it worse or as many: of n draws,
    a binomial number; dies of a chip are drawn together. The share of 4,000 resamples is itself
    binomial; the test fails by chance once in a million times.
    """
    groups, resamples = np.repeat(np.arange(chips), dies_of_chip), 4000
    difference = np.where(groups < worse, 1.0, -1.0)
    die = np.random.default_rng(1).normal(0, 50, len(groups))  # shared, and so of no account
    samples = [np.stack([die, die + difference]), np.array([0.0, 1.0])]
    shares = front_shares(samples, groups, resamples, np.random.default_rng(2))
    expected = binom.cdf(beyond, chips, worse / chips)
    assert shares[0] == 1.0
    low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], resamples, expected)
    assert low <= shares[1] * resamples <= high


def test_many_designs_have_the_shares_of_resamples_by_hand():
    """Same weights, means and fronts one by one, with values that are missing."""
    draw = np.random.default_rng(4)
    dies, designs, resamples = 12, 25, 130
    first = draw.normal(0, 1, (designs, dies))
    first[draw.random(first.shape) < 0.5] = NAN
    first[3] = NAN
    samples = [
        first,
        draw.integers(0, 3, (designs, dies)) * 1.0,
        draw.integers(0, 2, designs) * 1.0,
    ]
    shares = front_shares(samples, np.arange(dies), resamples, np.random.default_rng(5))
    again, count = np.random.default_rng(5), np.zeros(designs)
    for block in (64, 64, 2):
        for weights in again.multinomial(dies, np.full(dies, 1 / dies), block):
            of = np.repeat(np.arange(dies), weights)
            with np.errstate(invalid="ignore"), pytest.warns(RuntimeWarning, match="empty slice"):
                points = [np.nanmean(sample[:, of], axis=1) for sample in samples[:2]]
            count += front_by_hand(np.round(np.stack([*points, samples[2]], axis=1), 9))
    assert shares.tolist() == (count / resamples).tolist()
    assert shares[3] == 0.0


def test_means_of_independent_dies_are_those_of_tables():
    draw = np.random.default_rng(6)
    lives = draw.exponential(5.0, (3, 30))
    lives[1, :7], lives[2] = NAN, 4.1
    alive = (draw.random((3, 30)) < 0.2) * 1.0
    alive[2] = 1.0
    for within in (None, (0.0, 80.0)):
        every = zip(*group_means(lives, np.arange(30), within), strict=True)
        for number, bounds in enumerate(every):
            expected = mean(lives[number], within=within)
            assert bounds == pytest.approx(list(vars(expected).values()), rel=1e-12)
    for number, bounds in enumerate(zip(*group_means(alive, np.arange(30), (0, 1)), strict=True)):
        expected = proportion(int(alive[number].sum()), 30)
        assert bounds == pytest.approx(list(vars(expected).values()), rel=1e-12)


def test_means_of_chips_have_the_interval_of_chips():
    chips = np.random.default_rng(7).normal(0, 1, 8)
    found = group_means(np.repeat(chips, 4)[None], np.repeat(np.arange(8), 4))
    half = t.ppf(0.975, 7) * chips.std(ddof=1) / math.sqrt(8)
    expected = chips.mean() + half * np.array([0, -1, 1])
    assert np.ravel(found) == pytest.approx(expected)
    of_one = group_means(np.array([[1.0, 2.0]]), np.array([3, 3]))
    assert np.ravel(of_one) == pytest.approx([1.5, NAN, NAN], nan_ok=True)
