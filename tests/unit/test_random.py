"""Numbers by their places are those that NumPy draws one after the other."""

import math
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tables import each

from mcage import philox
from mcage.concurrency import Pool
from mcage.distributions import Distribution
from mcage.philox import (
    ExponentialGroups,
    distinct_below,
    fill_in_mixes,
    first_normals,
    first_numbers,
    integers_below,
    numbers_at,
)
from mcage.random import stream, stream_key, successive_streams

INSTANCES = np.array([0, 3, 7, 2**62])
KEYS = np.tile(stream_key(7, "test"), (len(INSTANCES), 1))


def drawn(count):
    return np.stack([stream(7, "test", int(instance)).random(count) for instance in INSTANCES])


def test_numbers_at_places():
    expected = drawn(50_000)
    rng = np.random.default_rng(1)
    rows, places = rng.integers(len(INSTANCES), size=999), rng.integers(50_000, size=999)
    assert (numbers_at(KEYS, INSTANCES, rows, places) == expected[rows, places]).all()


MANY = np.append(np.arange(60), 2**40)
"""Instances of which, below some bounds, NumPy draws an integer of about half again."""


@pytest.mark.parametrize("bound", [1, 3, 10, 2**20, 2**31 + 5, 2**32 - 1])
@each("count", [1, 7, 8])
def test_integers_below_a_bound(bound, count):
    expected = [stream(7, "test", one).integers(bound, size=count) for one in MANY.tolist()]
    assert np.array_equal(integers_below(bound, KEYS[0], MANY, count), expected)
    assert integers_below(bound, KEYS[0], MANY[:0], count).shape == (0, count)


@pytest.mark.parametrize(("bound", "count"), [(2**19, 128), (2600, 128), (9000, 128), (300, 128)])
def test_distinct_integers_below_a_bound(bound, count):
    """Of few, most instances draw one twice; of very few, NumPy does not begin in this way."""
    drawn = distinct_below(bound, KEYS[0], MANY, count)
    for instance, numbers in zip(MANY.tolist(), drawn, strict=True):
        of_instance = stream(7, "test", instance)
        expected = of_instance.choice(bound, count, replace=False, shuffle=False)
        assert numbers.tolist() == expected.tolist()


@each("count", [1, 4, 7])
def test_first_numbers(count):
    assert (first_numbers(KEYS[0], INSTANCES, count) == drawn(count)).all()


@each(
    ("ours", "theirs"),
    [
        ("_NORMAL_WIDTH", "wi_double"),
        ("_NORMAL_DENSITY", "fi_double"),
        ("_NORMAL_INSIDE", "ki_double"),
        ("_EXPONENTIAL_WIDTH", "we_double"),
        ("_EXPONENTIAL_DENSITY", "fe_double"),
        ("_EXPONENTIAL_INSIDE", "ke_double"),
        ("_NORMAL_TAIL", "ziggurat_nor_r"),
        ("_NORMAL_TAIL_INVERSE", "ziggurat_nor_inv_r"),
        ("_EXPONENTIAL_TAIL", "ziggurat_exp_r"),
    ],
)
def test_layers_of_ziggurats_are_those_of_numpy(ours, theirs):
    """Numba has a copy of its own, which is not public; draws alone would not meet each digit."""
    numba = pytest.importorskip("numba.np.random._constants")
    assert np.array_equal(getattr(philox, ours), getattr(numba, theirs))


def test_first_normals():
    """So many that hundreds lie in the wedges of layers, and dozens in the tail."""
    expected = [stream(7, "test", instance).standard_normal(4099) for instance in MANY.tolist()]
    keys = np.tile(KEYS[0], (len(MANY), 1))
    assert (first_normals(keys, MANY, 4099) == np.stack(expected)).all()
    assert np.count_nonzero(np.abs(expected) > 3.6542) > 30
    assert first_normals(keys[:0], MANY[:0], 3).shape == (0, 3)


def mixes(streams, size, turns, periods, differ):
    members = np.empty((len(streams), periods, turns), np.int64)
    shares = np.full(members.shape, 1 / turns)
    fill_in_mixes(KEYS[0], streams, size, differ, members, shares)
    return members, shares


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 3), st.booleans())
def test_mixes(size, turns, periods, differ):
    """Of a single kernel and of odd numbers of them; half a word is left over between periods."""
    turns = min(size, turns)
    members, shares = mixes(MANY[-9:], size, turns, periods, differ)
    for row, instance in enumerate(MANY[-9:].tolist()):
        drawing = stream(7, "test", instance)
        for period in range(periods):
            chosen = np.sort(drawing.permutation(size)[:turns])
            expected = drawing.dirichlet(np.ones(turns)) if differ else np.full(turns, 1 / turns)
            assert members[row, period].tolist() == chosen.tolist()
            assert shares[row, period].tolist() == expected.tolist()


def test_shares_of_many_mixes():
    """So many that dozens of the numbers behind them lie in the tail of the ziggurat."""
    _, shares = mixes(np.arange(300), 211, 211, 1, True)
    for instance, found in enumerate(shares[:, 0]):
        drawing = stream(7, "test", instance)
        drawing.permutation(211)
        assert np.array_equal(found, drawing.dirichlet(np.ones(211)))


def groups_in_full(instance, limits, groups, members):
    """Members of the groups up to their limits, and their numbers: all of them are drawn."""
    drawing = stream(7, "test", instance)
    numbers, places = np.zeros(groups), np.tile(np.arange(members), (groups, 1))
    listed, each = {}, np.arange(groups)
    for taken in range(members):
        numbers = numbers - np.log1p(-drawing.random(groups)) / (members - taken)
        chosen = taken + (drawing.random(groups) * (members - taken)).astype(int)
        place = places[each, chosen]
        places[each, chosen] = places[:, taken]
        for group in np.flatnonzero(numbers <= limits):
            listed[int(group * members + place[group])] = float(numbers[group])
    return dict(sorted(listed.items()))


@pytest.mark.parametrize("largest", [0.01, 0.4, 60.0])
@pytest.mark.parametrize("members", [1, 13])
def test_exponential_numbers_of_groups(largest, members):
    """Few of them, many and all. Each row of limits stands for three rows of groups.

    Workspaces are used again, and grow where groups have more numbers than there is space for.
    """
    drawing = ExponentialGroups(96, members, len(INSTANCES))
    for rows in (slice(0, 3), slice(None)):
        limits = np.random.default_rng(2).uniform(largest / 2, largest, (4, 4, 8))[rows]
        small = drawing.up_to(KEYS[rows], INSTANCES[rows], limits)
        for row, instance in enumerate(INSTANCES[rows].tolist()):
            of_groups = np.repeat(limits[row], 3, axis=0).ravel()
            listed = groups_in_full(instance, of_groups, 96, members)
            place = slice(*small.offsets[row : row + 2])
            assert small.member[place].tolist() == list(listed)
            assert small.number[place].tolist() == list(listed.values())
            limit_of = limits.ravel()[small.limit[place]]
            assert (limit_of == of_groups[small.member[place] // members]).all()
    assert largest < 60 or len(small.number) == 4 * 96 * members


def test_streams_in_turn_are_those_by_themselves():
    names, instances = ("cells", "field", "cells"), [4, 5, 2**40]
    of_all = successive_streams([stream_key(5, name) for name in names], instances)
    for generator, name, instance in zip(of_all, names, instances, strict=True):
        alone = stream(5, name, instance)
        for draw in (
            lambda of: of.random(5),
            lambda of: of.integers(9, size=3, dtype=np.uint32),
            lambda of: of.standard_normal(7),
        ):
            assert np.array_equal(draw(generator), draw(alone))


# Distributions: what each text stands for, what it draws, and texts that stand for none.

numbers = st.floats(-1e3, 1e3).map(lambda value: round(value, 6))
widths = st.floats(1e-3, 1e3).map(lambda value: round(value, 6))
uniforms = st.floats(0, 1, exclude_max=True)


@st.composite
def distributions(draw):
    """Texts of all forms."""
    low, width = draw(numbers), draw(widths)
    below, above = draw(widths), draw(widths)
    values = draw(st.lists(numbers, min_size=1, max_size=5, unique=True))
    weights = draw(st.lists(st.integers(1, 9), min_size=len(values), max_size=len(values)))
    pairs = zip(values, weights, strict=True)
    forms = (
        low,
        f"constant({low})",
        f"uniform({low}, {low + width})",
        f" normal( {low},{width} ) ",
        f"normal({low}, {width}, {low - below}, {low + above})",
        f"discrete({', '.join(f'{v}: {w / sum(weights)}' for v, w in pairs)})",
    )
    return draw(st.sampled_from(forms))


@given(distributions(), uniforms, uniforms)
def test_draws_rise_within_the_bounds(text, first, other):
    distribution = Distribution.of(text)
    low, high = distribution.bounds
    least, most = distribution.at(min(first, other)), distribution.at(max(first, other))
    assert low <= least <= most <= high
    assert distribution.at(0.0) >= low


@given(distributions(), st.lists(uniforms, max_size=9))
def test_draws_together_are_those_by_themselves(text, ranks):
    distribution = Distribution.of(text)
    together = distribution.at(np.array(ranks))
    assert together.tolist() == [float(distribution.at(rank)) for rank in ranks]
    if distribution.form == "discrete":
        sums = [*[*accumulate(distribution.shares)][:-1], 1.0]
        first = [next(k for k, x in enumerate(sums) if x > rank) for rank in ranks]
        assert together.tolist() == [distribution.numbers[k] for k in first]


@given(distributions(), uniforms)
def test_its_text_stands_for_it(text, uniform):
    distribution = Distribution.of(text)
    again = Distribution.of(str(distribution))
    assert again.at(uniform) == distribution.at(uniform)
    assert (again.bounds, str(again)) == (distribution.bounds, str(distribution))


RANKS = (np.arange(20_000) + 0.5) / 20_000


@each(
    ("text", "expected"),
    [
        *((of, np.full(20_000, 353.0)) for of in (353, 353.0, "constant(353)", "discrete(353: 1)")),
        ("uniform(340, 360)", 340 + 20 * RANKS),
        ("normal(353, 5)", stats.truncnorm(-4, 4, 353, 5).ppf(RANKS)),
        ("normal(353, 5, 348, 354)", stats.truncnorm(-1, 0.2, 353, 5).ppf(RANKS)),
    ],
)
def test_laws_are_those_of_scipy(text, expected):
    assert Distribution.of(text).at(RANKS) == pytest.approx(expected, abs=1e-9)
    assert Distribution.of(353).is_constant


def test_discrete_laws_have_their_shares():
    values = Distribution.of("discrete(360: 0.7, 340: 0.1, 350: 0.2)").at(RANKS)
    found = dict(zip(*np.unique(values, return_counts=True), strict=True))
    assert found == {340: 2_000, 350: 4_000, 360: 14_000}
    rounded = Distribution.of(f"discrete({', '.join(f'{n}: 0.1' for n in range(10))})")
    assert rounded.at(math.nextafter(1, 0)) == 9, "shares that sum to less than one"


@each(
    ("texts", "words"),
    [
        (("", "353", "353 K", "normal", "normal(353, 5", "Normal(353, 5)"), "must be a number"),
        (("normal(353, 5)x",), "must be a number"),
        (("weibull(1, 2)",), "'weibull' is no distribution"),
        (("normal()", "normal(353)", "normal(353, 5, 340)"), "2 or 4 numbers, not [013]"),
        (("normal(353, 0)", "normal(353, -5)"), "sigma > 0"),
        (("normal(353, 5, 360, 370)",), "the mean between them"),
        (("normal(353, 5, 353, 353)",), "lowest < highest"),
        (("normal(353, five)",), "'five' is no number"),
        (("normal(353, inf)", "uniform(nan, 340)", math.nan, math.inf), "no finite number"),
        (("uniform(340, 340)",), "a < b"),
        (("uniform(340; 350)",), "takes 2 numbers, not 1"),
        (("constant(1, 2)",), "takes 1 number, not 2"),
        (("discrete(340)",), "a share for every value"),
        (("discrete(340: 0.5, 340: 0.5)",), "one value twice"),
        (("discrete(340: 0.5, 350: 0.6)",), "sum to 1, not to 1.1"),
        (("discrete(340: -0.5, 350: 1.5)",), "shares above 0"),
    ],
)
def test_texts_that_stand_for_no_law(texts, words):
    for text in texts:
        with pytest.raises(ValueError, match=words):
            Distribution.of(text)


# Memory that threads use again.


def test_a_pool_gives_memory_again_that_is_large_enough():
    made = []

    def make(size):
        made.append(size)
        return [0] * size

    pool = Pool(make, len)
    small = pool.take(3)
    other = pool.take(3)
    assert small is not other, "both are in use"
    pool.give_back(small)
    assert pool.take(2) is small
    pool.give_back(small)
    assert len(pool.take(5)) == 5
    assert made == [3, 3, 5]
