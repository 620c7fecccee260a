"""The longest stressed cell of a mixture of kernels: a bound that must never skip the winner."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcage.replays.most_stressed import BLOCK, BRANCHES, GROUP, group_by_duty, longest_total

DUTIES = ("beta", "few values", "zero", "one cell", "all alike", "tiny differences", "close")


def random_duty(rng, kernels, cells):
    """Duty cycles [kernels, cells], each kernel of a kind of its own, or all of one kind."""
    duty = np.zeros((kernels, cells))
    kinds = rng.choice(DUTIES, kernels)
    if rng.random() < 0.5:
        kinds[:] = kinds[0]
    for row, kind in zip(duty, kinds, strict=True):
        match kind:
            case "beta":
                row[:] = rng.beta(0.2, 0.8, cells)
            case "few values":
                row[:] = rng.choice([0, 0.25, 1 / 3, 1], cells)
            case "one cell":
                row[rng.integers(cells)] = rng.random()
            case "all alike":
                row[:] = rng.random()
            case "close":
                row[:] = 0.7 + 1e-3 * rng.random(cells)
            case "tiny differences":
                row[:] = 0.7 + rng.integers(0, 3, cells) * 2.0**-53
    return duty


def random_seconds(rng, instances, kernels):
    seconds = rng.uniform(0, 3e8, (instances, kernels))
    seconds[rng.random(seconds.shape) < 0.3] = 0
    return seconds


def totals(mixture, duty):
    """Sum over kernels of each cell, in the order of kernels."""
    total = np.zeros(duty.shape[1])
    for spent, of_kernel in zip(mixture, duty, strict=True):
        total += spent * of_kernel
    return total


def brute_force(seconds, duty):
    return np.array([totals(mixture, duty).max() for mixture in seconds])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kernels=st.integers(1, 5),
    halvings=st.integers(0, 5),
    instances=st.sampled_from([1, 4, BLOCK + 1]),
)
def test_it_is_the_maximum_over_all_cells_to_the_last_bit(seed, kernels, halvings, instances):
    rng = np.random.default_rng(seed)
    duty = random_duty(rng, kernels, GROUP << halvings)
    seconds = random_seconds(rng, instances, kernels)
    assert np.array_equal(longest_total(seconds, group_by_duty(duty)), brute_force(seconds, duty))


def test_nothing_has_run_yet():
    groups = group_by_duty(np.random.default_rng(1).random((3, 4 * GROUP)))
    assert longest_total(np.zeros((2, 3)), groups).tolist() == [0, 0]


def test_no_instances():
    groups = group_by_duty(np.random.default_rng(1).random((3, 4 * GROUP)))
    assert len(longest_total(np.zeros((0, 3)), groups)) == 0


@pytest.mark.parametrize(("halvings", "nodes"), [(1, [16]), (6, [64, 512]), (7, [128, 1024])])
def test_groups_are_all_cells_and_their_bounds_bound_them(halvings, nodes):
    rng = np.random.default_rng(2)
    cells = GROUP << halvings
    duty = random_duty(rng, 4, cells)
    groups = group_by_duty(duty)
    assert groups.cells.shape == (cells // GROUP, GROUP)
    assert sorted(groups.cells.ravel().tolist()) == list(range(cells))
    assert [level.shape[1] for level in groups.levels] == nodes
    assert nodes[-1] == cells // BRANCHES
    for level in groups.levels:
        of_nodes = groups.cells.reshape(level.shape[1], -1)
        assert np.array_equal(level, duty[:, of_nodes].max(axis=2))


def test_champions_win_under_each_kernel_alone():
    """So that a slice that has run one kernel only is done without a look into the groups."""
    duty = np.random.default_rng(2).random((5, 8 * GROUP))
    assert set(np.argmax(duty, axis=1)) <= set(group_by_duty(duty).champions)


def test_few_groups_are_looked_into():
    """Bounds and champions must keep nearly all of the cells out of sight."""
    duty = np.random.default_rng(2).beta(0.2, 0.8, (3, 4096 * GROUP))
    seconds = np.array([[1.0, 2.0, 0.5], [0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    groups = group_by_duty(duty)
    looked = 0
    longest = longest_total(seconds, groups)
    for level in groups.levels:
        bound = np.array([totals(mixture, level) for mixture in seconds])
        looked += BRANCHES * (bound > longest[:, None]).sum()
    assert looked < 0.01 * duty.shape[1]


def test_grouping_brings_like_cells_together():
    """Otherwise every bound is the largest of all, and every cell is looked at."""
    duty = np.repeat([0.1, 0.9, 0.5, 0.3], GROUP)
    np.random.default_rng(3).shuffle(duty)
    groups = group_by_duty(duty[None])
    bound = groups.duty[0, groups.cells].max(axis=1)
    assert sorted(bound.tolist()) == [0.1, 0.3, 0.5, 0.9]
