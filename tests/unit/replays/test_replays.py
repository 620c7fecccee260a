"""Layouts of windows: arrays of one kind for all traces."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from small_traces import small_trace
from tables import each
from trace_strategies import ALL_LANES, alloc, release, trace_of, write

from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.lifetime.degradation import DutyTree, worst_cells
from mcage.replays.most_stressed import BLOCK, Skyline, duty_cycles, longest_total, skyline_cells
from mcage.replays.prepare import prepare
from mcage.replays.schedule import writes_of
from mcage.techniques import TECHNIQUES


@each("name", ["baseline", "rar", "argo"])
@each("size", [1, 3])
def test_arrays_are_writable_whatever_the_size_of_windows(name, size):
    """Numba takes those that are not for another type, and would compile the engine again."""
    trace = trace_of([alloc(0, 0, size), write(1, 0, 0, 5), release(9, 0)])
    layout = prepare(trace, TECHNIQUES[name]).layout
    for array in (layout.base, layout.rotation, layout.step, layout.orbits):
        assert array.flags.writeable
        assert array.flags.c_contiguous


# Writes of a trace: worked out once for all techniques, and only for as long as the trace is.


def test_of_a_few_events_by_hand():
    """Register 1 of the first window is written whole, then register 0 in its last lane."""
    writes = writes_of(small_trace())
    assert writes.cycle.tolist() == [1, 1]
    assert writes.end_cycle.tolist() == [3, 3]
    assert writes.reg.tolist() == [1, 0]
    assert writes.row.tolist() == [1, 0]
    assert writes.by_register.tolist() == [1, 0]
    assert writes.first.all()
    assert writes.divergent.tolist() == [False, True]
    assert np.array_equal(writes.lanes, np.array([ALL_LANES, 1 << 63], np.uint64))
    assert writes.reads_after.tolist() == [1, 0]


# The longest stressed cell of a mixture of kernels: the skyline must never lack the winner.


def random_duty(rng, kernels, cells):
    """Duty cycles [kernels, cells], each kernel of a kind of its own, or all of one kind."""
    of_kind = (
        lambda: rng.beta(0.2, 0.8, cells),
        lambda: rng.choice([0, 0.25, 1 / 3, 1], cells),
        lambda: np.zeros(cells),
        lambda: rng.random() * (np.arange(cells) == rng.integers(cells)),
        lambda: np.full(cells, rng.random()),
        lambda: 0.7 + rng.integers(0, 3, cells) * 2.0**-53,
        lambda: 0.7 + 1e-3 * rng.random(cells),
    )
    kinds = rng.integers(len(of_kind), size=kernels)
    if rng.random() < 0.5:
        kinds[:] = kinds[0]
    return np.stack([of_kind[kind]() for kind in kinds])


def random_seconds(rng, instances, kernels):
    seconds = rng.uniform(0, 3e8, (instances, kernels))
    seconds[rng.random(seconds.shape) < 0.3] = 0
    return seconds


def cells_kept(duty):
    """Cells of the skyline of duty cycles, which are cycles of replays that take one."""
    return skyline_cells(duty, np.ones(len(duty), dtype=np.int64))


def brute_force(seconds, duty):
    """Largest of the sums over kernels of each cell, in the order of kernels."""
    totals = np.zeros((len(seconds), duty.shape[1]))
    for spent, of_kernel in zip(seconds.T, duty, strict=True):
        totals += spent[:, None] * of_kernel
    return totals.max(axis=1)


@given(
    seed=st.integers(0, 2**32 - 1),
    kernels=st.integers(1, 5),
    cells=st.integers(1, 6 * BLOCK),
    instances=st.integers(0, 4),
)
@example(seed=4, kernels=1, cells=1 << 13, instances=20)
@example(seed=4, kernels=70, cells=1 << 13, instances=20)
def test_it_is_the_maximum_over_all_cells_to_the_last_bit(seed, kernels, cells, instances):
    """Also of more cells than are compared without a look, and of more kernels than 64."""
    rng = np.random.default_rng(seed)
    duty = random_duty(rng, kernels, cells)
    seconds = random_seconds(rng, instances, kernels)
    kept = cells_kept(duty)
    longest = longest_total(seconds, Skyline.of(kept, duty[:, kept]))
    assert np.array_equal(longest, brute_force(seconds, duty))


def test_what_is_left_are_the_cells_that_no_other_exceeds():
    duty = np.random.default_rng(2).choice([0, 0.25, 0.5, 0.75, 1], (3, 500))
    kept = cells_kept(duty)
    others = duty.T[:, None]
    exceeded = ((others >= duty.T) & (others != duty.T).any(axis=2, keepdims=True)).all(axis=2)
    unrivalled = {tuple(cell) for cell in duty.T[~exceeded.any(axis=0)]}
    assert len(kept) == len(unrivalled)
    assert {tuple(duty[:, cell]) for cell in kept} == unrivalled


@each("longest", [1 << 31, (1 << 33) - 1])
def test_duty_cycles_are_quotients_of_cycles(longest):
    """Of periods that fit into 32 bits, and that do not."""
    rng, period = np.random.default_rng(7), np.array([97, longest])
    cycles = (rng.random((2, GCN.cells)) * period[:, None]).astype(np.int64)
    duties, quotients = duty_cycles(cycles, period, 64), cycles / period[:, None]
    kernel, cell = rng.integers(0, 2, 50), rng.integers(0, GCN.cells, 50)
    assert np.array_equal(duties.at(kernel, cell), quotients[kernel, cell])
    assert np.array_equal(duties.of_kernel(1), quotients[1])
    assert np.array_equal(duties.most, quotients.reshape(2, 256, 64, 32).max(axis=2))
    assert np.array_equal(duties.skyline.duty, quotients[:, duties.skyline.cell])


# The search for the worst cell, on trees small enough to look at every cell.


class Listed(DutyTree):
    """Slices whose duties are given: float64[slices, epochs, cells], cells in reverse order."""

    def __init__(self, duties, roots, branches):
        self.roots, self.branches = roots, branches
        self.duties = np.asarray(duties, dtype=float)
        in_order = self.duties[..., ::-1]
        self.levels = []
        for level in range(len(branches)):
            below = int(np.prod(branches[level:]))
            self.levels.append(in_order.reshape(*in_order.shape[:2], -1, below).max(axis=3))

    def largest(self, level, epoch, index, group):
        return self.levels[level][index, epoch, group]

    def duty(self, epoch, index, cell):
        return self.duties[index, epoch, cell]

    def cell(self, place):
        return self.duties.shape[2] - 1 - place


def search(slices, measure):
    """Worst cells by a measure of the duties float64[epochs, m] and the slice of each."""
    count, epochs, _ = slices.duties.shape

    def shift_of(index, duty):
        return measure(np.stack([duty(one, slice(None)) for one in range(epochs)]), index)

    return worst_cells(slices, shift_of, np.zeros((count, 1), dtype=np.int64))


def weighted(duties, index):
    """Grows with every duty, the most with that of the epoch that has the slice's number."""
    weights = 1.0 + 5.0 * (np.arange(len(duties))[:, None] == index % len(duties))
    return (weights * np.sqrt(duties)).sum(axis=0)


@each("seed", range(20))
@each(("roots", "branches"), [(4, (8, 8)), (1, (64,)), (16, (2, 2, 4))])
def test_no_cell_is_worse(seed, roots, branches):
    """Each of five slices finds the maximum over its cells; ties and full duties included."""
    rng = np.random.default_rng(seed)
    cells = roots * int(np.prod(branches))
    duties = rng.choice([0.0, 0.2, 0.999, 1.0, *rng.random(20)], (5, 3, cells))
    slices = Listed(duties, roots, branches)
    worst, cell = search(slices, weighted)
    index = np.repeat(np.arange(5), cells)
    every = weighted(duties.transpose(1, 0, 2).reshape(3, -1), index).reshape(5, cells)
    assert np.array_equal(worst, every.max(axis=1))
    assert np.array_equal(every[np.arange(5), cell], worst)


@each(
    ("measure", "message"),
    [
        (lambda duties, _: 1 - duties.sum(axis=0), "stressed less in every epoch the larger"),
        (lambda duties, _: -duties.sum(axis=0), "negative or no numbers"),
        (lambda duties, _: np.full(duties.shape[1], np.nan), "negative or no numbers"),
    ],
)
def test_measures_that_break_their_word_are_found_out(measure, message):
    slices = Listed([[[0.9, 0.2, 0.9, 0.3]]], 2, (2,))
    with pytest.raises(UserError, match=message):
        search(slices, measure)
