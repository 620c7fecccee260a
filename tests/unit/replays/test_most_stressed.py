"""The longest stressed cell of a mixture of kernels: the skyline must never lack the winner."""

import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcage.geometry import GCN
from mcage.replays import most_stressed
from mcage.replays.most_stressed import (
    BLOCK,
    TOGETHER,
    Skyline,
    duty_cycles,
    longest_total,
    skyline_cells,
)

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


def cells_kept(duty):
    """Cells of the skyline of duty cycles, which are cycles of replays that take one."""
    return skyline_cells(duty, np.ones(len(duty), dtype=np.int64))


def skyline_of(duty):
    cells = cells_kept(duty)
    return Skyline.of(cells, duty[:, cells])


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
    cells=st.integers(1, 6 * BLOCK),
    instances=st.integers(0, 4),
)
def test_it_is_the_maximum_over_all_cells_to_the_last_bit(seed, kernels, cells, instances):
    rng = np.random.default_rng(seed)
    duty = random_duty(rng, kernels, cells)
    seconds = random_seconds(rng, instances, kernels)
    skyline = skyline_of(duty)
    assert np.array_equal(longest_total(seconds, skyline), brute_force(seconds, duty))


@pytest.mark.parametrize("kernels", [1, 10, 70])
def test_many_cells_and_many_kernels(kernels):
    """More cells than are compared without a look, and more kernels than a signature has bits."""
    rng = np.random.default_rng(4)
    duty = rng.beta(0.2, 0.8, (kernels, 1 << 13))
    seconds = random_seconds(rng, 20, kernels)
    skyline = skyline_of(duty)
    assert np.array_equal(longest_total(seconds, skyline), brute_force(seconds, duty))
    assert kernels > 1 or len(skyline.cell) == BLOCK


def test_nothing_has_run_yet():
    skyline = skyline_of(np.random.default_rng(1).random((3, 256)))
    assert longest_total(np.zeros((2, 3)), skyline).tolist() == [0, 0]


def test_what_is_left_are_the_cells_that_no_other_exceeds():
    duty = np.random.default_rng(2).choice([0, 0.25, 0.5, 0.75, 1], (3, 500))
    kept = cells_kept(duty)
    others = duty.T[:, None]
    exceeded = ((others >= duty.T) & (others != duty.T).any(axis=2, keepdims=True)).all(axis=2)
    unrivalled = {tuple(cell) for cell in duty.T[~exceeded.any(axis=0)]}
    assert len(kept) == len(unrivalled)
    assert {tuple(duty[:, cell]) for cell in kept} == unrivalled


def test_with_fewer_comparisons_more_cells_stay_and_the_maximum_is_the_same(monkeypatch):
    duty = np.random.default_rng(2).random((4, 3000))
    exact = cells_kept(duty)
    monkeypatch.setattr(most_stressed, "_filter", filter_comparing(TOGETHER))
    more = cells_kept(duty)
    assert set(exact) < set(more)
    seconds = random_seconds(np.random.default_rng(3), 20, 4)
    skyline = Skyline.of(more, duty[:, more])
    assert np.array_equal(longest_total(seconds, skyline), brute_force(seconds, duty))


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_same_whether_cells_are_first_compared_with_those_of_their_bit(monkeypatch, seed):
    """Many equal sums, of which the first of the first bit stays."""
    rng = np.random.default_rng(seed)
    duty = random_duty(rng, 3, 2000)
    at_once = cells_kept(duty)
    monkeypatch.setattr(most_stressed, "COMPARED", 0)
    monkeypatch.setattr(most_stressed, "_beside_the_largest", lambda *_: np.arange(2000))
    assert np.array_equal(at_once, cells_kept(duty))


def filter_comparing(most):
    """The filter as Python, which compares with fewer cells."""
    python = most_stressed._filter.py_func
    return types.FunctionType(python.__code__, python.__globals__ | {"COMPARED": most})


def test_a_skyline_is_whole_blocks_with_their_largest_duties():
    duty = random_duty(np.random.default_rng(5), 4, 1000)
    skyline = skyline_of(duty)
    assert len(skyline.cell) % BLOCK == 0
    assert np.array_equal(skyline.duty, duty[:, skyline.cell])
    assert np.array_equal(skyline.largest, skyline.duty.reshape(4, -1, BLOCK).max(axis=2))


def test_like_cells_stand_side_by_side():
    """Otherwise every bound is the largest of all, and every cell is looked at."""
    duty = np.random.default_rng(2).beta(0.2, 0.8, (3, 1 << 12))
    bits = skyline_of(duty).cell % 32
    assert np.all(np.diff(bits) >= 0)


def test_duty_cycles_are_quotients_of_cycles():
    rng, period = np.random.default_rng(7), np.array([97, 1 << 31])
    cycles = (rng.random((2, GCN.cells)) * period[:, None]).astype(np.uint32)
    duties, quotients = duty_cycles(cycles, period, 64), cycles / period[:, None]
    kernel, cell = rng.integers(0, 2, 50), rng.integers(0, GCN.cells, 50)
    assert np.array_equal(duties.at(kernel, cell), quotients[kernel, cell])
    assert np.array_equal(duties.of_kernel(1), quotients[1])
    assert np.array_equal(duties.most, quotients.reshape(2, 256, 64, 32).max(axis=2))
    assert np.array_equal(duties.skyline.duty, quotients[:, duties.skyline.cell])
