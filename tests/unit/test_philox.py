"""Numbers by their places are those that NumPy draws one after the other."""

import numpy as np
import pytest

from mcage.philox import distinct_below, first_numbers_below, integers_below, numbers_at
from mcage.random import stream, stream_key, successive_streams, variation_keys, variation_stream

INSTANCES = np.array([0, 3, 7, 2**62])
KEYS = np.tile(stream_key(7, "test"), (len(INSTANCES), 1))


def drawn(count):
    return np.stack([stream(7, "test", int(instance)).random(count) for instance in INSTANCES])


def test_numbers_at_places():
    expected = drawn(50_000)
    rng = np.random.default_rng(1)
    rows, places = rng.integers(len(INSTANCES), size=999), rng.integers(50_000, size=999)
    assert (numbers_at(KEYS, INSTANCES, rows, places) == expected[rows, places]).all()


@pytest.mark.parametrize("largest", [0.02, 1.0])
def test_first_numbers_below_bounds(largest):
    """Each row of bounds stands for three rows of numbers; few and nearly all of them are kept."""
    expected = drawn(4 * 3 * 8).reshape(len(INSTANCES), 12, 8)
    bounds = np.random.default_rng(2).uniform(0, largest, (len(INSTANCES), 4, 8))
    bounds[0, 0, 0] = expected[0, 1, 0]  # a number that equals its bound is kept
    below = expected <= np.repeat(bounds, 3, axis=1)
    rows, places, numbers = first_numbers_below(KEYS, INSTANCES, bounds, 96)
    assert (np.stack([rows, places]) == np.nonzero(below.reshape(len(INSTANCES), -1))).all()
    assert (numbers == expected[below]).all()
    assert 0 < len(rows) < expected.size


def test_many_numbers_below_bounds():
    """All of them are kept: there is space for that."""
    instances = np.arange(40)
    keys = np.tile(stream_key(7, "test"), (40, 1))
    rows, _, _ = first_numbers_below(keys, instances, np.full((40, 1, 8), 1.0), 4096)
    assert (np.bincount(rows) == 4096).all()


MANY = np.append(np.arange(60), 2**40)
"""Instances of which, below some bounds, NumPy draws an integer of about half again."""


@pytest.mark.parametrize("bound", [1, 3, 10, 2**20, 2**31 + 5, 2**32 - 1])
@pytest.mark.parametrize("count", [1, 7, 8])
def test_integers_below_a_bound(bound, count):
    drawn = integers_below(bound, KEYS[0], MANY, count)
    for instance, numbers in zip(MANY.tolist(), drawn, strict=True):
        expected = stream(7, "test", instance).integers(bound, size=count)
        assert numbers.tolist() == expected.tolist()


@pytest.mark.parametrize(("bound", "count"), [(2**19, 128), (2600, 128), (9000, 128), (300, 128)])
def test_distinct_integers_below_a_bound(bound, count):
    """Of few, most instances draw one twice; of very few, NumPy does not begin in this way."""
    drawn = distinct_below(bound, KEYS[0], MANY, count)
    for instance, numbers in zip(MANY.tolist(), drawn, strict=True):
        of_instance = stream(7, "test", instance)
        expected = of_instance.choice(bound, count, replace=False, shuffle=False)
        assert numbers.tolist() == expected.tolist()


def test_nothing_is_drawn_for_nobody():
    assert integers_below(5, KEYS[0], MANY[:0], 3).shape == (0, 3)
    assert distinct_below(500, KEYS[0], MANY[:0], 3).shape == (0, 3)


def test_streams_in_turn_are_those_by_themselves():
    keys = variation_keys(5, "cells", np.array([0, 2, 0]))
    for generator, instance, attempt in zip(
        successive_streams(keys, [4, 5, 2**40]), [4, 5, 2**40], [0, 2, 0], strict=True
    ):
        alone = variation_stream(5, "cells", instance, attempt)
        assert (generator.random(5) == alone.random(5)).all()
        drawn = generator.integers(9, size=3, dtype=np.uint32), generator.standard_normal(7)
        assert (drawn[0] == alone.integers(9, size=3, dtype=np.uint32)).all()
        assert (drawn[1] == alone.standard_normal(7)).all()
