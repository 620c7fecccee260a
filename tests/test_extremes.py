"""The longest stressed cell of a mixture of kernels: a bound that must never skip the winner."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcage.engines.extremes import GROUP, group_by_duty, longest_total
from mcage.engines.native import NativeEngine

ENGINES = {"numpy": longest_total, "numba": NativeEngine().longest_total}
DUTIES = ("beta", "few values", "zero", "one cell", "all alike", "tiny differences", "close")


def random_duty(rng, kernels, cells):
    """Duty cycles [kernels, cells], each kernel of a kind of its own, or all of one kind."""
    duty = np.zeros((kernels, cells))
    kinds = rng.choice(DUTIES, kernels)
    if rng.random() < 0.5:
        kinds[:] = kinds[0]
    for one, kind in zip(duty, kinds, strict=True):
        match kind:
            case "beta":
                one[:] = rng.beta(0.2, 0.8, cells)
            case "few values":
                one[:] = rng.choice([0, 0.25, 1 / 3, 1], cells)
            case "one cell":
                one[rng.integers(cells)] = rng.random()
            case "all alike":
                one[:] = rng.random()
            case "close":
                one[:] = 0.7 + 1e-3 * rng.random(cells)
            case "tiny differences":
                one[:] = 0.7 + rng.integers(0, 3, cells) * 2.0**-53
    return duty


def random_seconds(rng, instances, kernels):
    seconds = rng.uniform(0, 3e8, (instances, kernels))
    seconds[rng.random(seconds.shape) < 0.3] = 0
    return seconds


def brute_force(seconds, duty):
    """Maximum over all cells of the sum over kernels, in the order of kernels."""
    longest = np.empty(len(seconds))
    for instance, mixture in enumerate(seconds):
        total = np.zeros(duty.shape[1])
        for spent, one in zip(mixture, duty, strict=True):
            total += spent * one
        longest[instance] = total.max()
    return longest


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kernels=st.integers(1, 5),
    halvings=st.integers(0, 4),
    instances=st.integers(1, 4),
)
def test_it_is_the_maximum_over_all_cells_to_the_last_bit(seed, kernels, halvings, instances):
    rng = np.random.default_rng(seed)
    duty = random_duty(rng, kernels, GROUP << halvings)
    seconds = random_seconds(rng, instances, kernels)
    groups, expected = group_by_duty(duty), brute_force(seconds, duty)
    for name, longest in ENGINES.items():
        assert np.array_equal(longest(seconds, groups), expected), name


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_has_run_yet(engine):
    groups = group_by_duty(np.random.default_rng(1).random((3, 4 * GROUP)))
    assert ENGINES[engine](np.zeros((2, 3)), groups).tolist() == [0, 0]


def test_groups_are_all_cells_and_their_bounds_bound_them():
    rng = np.random.default_rng(2)
    duty = random_duty(rng, 4, 64 * GROUP)
    groups = group_by_duty(duty)
    assert groups.cells.shape == (64, GROUP)
    assert sorted(groups.cells.ravel().tolist()) == list(range(64 * GROUP))
    assert np.array_equal(groups.bound, duty[:, groups.cells].max(axis=2))


def test_grouping_brings_like_cells_together():
    """Otherwise every bound is the largest of all, and every cell is looked at."""
    duty = np.repeat([0.1, 0.9, 0.5, 0.3], GROUP)
    np.random.default_rng(3).shuffle(duty)
    groups = group_by_duty(duty[None])
    assert sorted(groups.bound[0].tolist()) == [0.1, 0.3, 0.5, 0.9]
