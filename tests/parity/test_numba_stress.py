"""The shortcuts of the Numba engine's stress times against sums over all cells, on real traces.

Short random traces leave few bits open; these reach every way in which the engine looks for the
most stressed cell, that of all open bits together included.
"""

from itertools import chain

import numpy as np
import pytest
from engine_cases import daily, duties_of, mixes

from mcage.engines.numba_engine import NumbaEngine
from mcage.engines.stress import DenseStress, FaultFreeDuties, TrackedCells, Turns
from mcage.geometry import GCN
from mcage.replays.most_stressed import duty_cycles
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES
from mcage.traces.library import bundled_trace

NUMBA = NumbaEngine()
KERNELS = ("Reduction", "DCT", "ScanLargeArrays", "Histogram")
INSTANCES = 3
TRACKED = 400
SEVERAL_BLOCKS = 2
"""Seed of the lives in which an entry may lose several of its blocks."""


class AllCells(DenseStress):
    """Every cell summed up, from the engine's own cell times."""

    def _times(self, replay, fault_map, instance, turn):
        asked = id(replay), fault_map.tobytes()
        if asked not in KNOWN:
            times = NUMBA.cell_times(replay, fault_map[None])
            KNOWN[asked] = times.ones[0], times.powered[0], times.period
        return KNOWN[asked]


KNOWN = {}
"""Cell times under the technique whose turn it is: tests live the same lives."""


@pytest.fixture(
    scope="module",
    params=daily(["gr-guard", "rrcd", "rrcd+pg", "rrcd+rc+rar"], ["rrcd", "rrcd+rc+rar"]),
)
def duties(request):
    replays = tuple(prepare(bundled_trace(kernel), TECHNIQUES[request.param]) for kernel in KERNELS)
    yield duties_of(replays)
    KNOWN.clear()


def lives(duties, seed, interleaved=False):
    """Both accumulators after each epoch of the same lives."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(GCN.cells, (INSTANCES, TRACKED), replace=False)
    tracked = TrackedCells(np.repeat(np.arange(INSTANCES), TRACKED), cells.ravel())
    both = AllCells(duties, tracked, INSTANCES), NUMBA.stress(duties, tracked, INSTANCES)
    faulty = np.where(rng.random((INSTANCES, GCN.entries)) < 0.3, 1, 0)
    blocks = 1 << rng.integers(0, 4, (INSTANCES, GCN.entries))
    if seed == SEVERAL_BLOCKS:
        blocks = rng.integers(1, 16, (INSTANCES, GCN.entries))
    fault_maps = np.zeros((INSTANCES, GCN.entries), dtype=np.uint8)
    for span in range(4):
        running = rng.permutation(INSTANCES)[: INSTANCES - span % 2]
        if not interleaved:
            turns = Turns.single(rng.integers(len(KERNELS), size=len(running)))
        else:
            turns = mixes(rng, len(KERNELS), len(running))
        seconds = rng.uniform(1e6, 1e8)
        for stress in both:
            stress.add(running, turns, fault_maps[running], seconds)
        yield both, (running, turns, fault_maps[running], seconds)
        fault_maps = (faulty * blocks).astype(np.uint8)  # from the second epoch on
        faulty |= rng.random(faulty.shape) < 0.02


@pytest.mark.parametrize(
    ("seed", "interleaved"), daily([(1, False), (2, False), (3, True)], [(3, True)])
)
def test_longest_and_tracked_times_are_those_of_all_cells(duties, seed, interleaved):
    for span, ((dense, native), _) in enumerate(lives(duties, seed, interleaved)):
        assert np.array_equal(dense.longest, native.longest), span
        assert np.array_equal(dense.tracked_seconds.now, native.tracked_seconds.now), span
    assert dense.longest.all()
    assert dense.tracked_seconds.now.any()


@pytest.mark.parametrize("places", [0, 7])
def test_times_are_the_same_where_few_cells_can_be_kept(duties, places, monkeypatch):
    """Bits that find no place are worked out again and again, and bounds count them in."""
    monkeypatch.setattr("mcage.engines.numba_engine.bounds._KEPT", places)
    monkeypatch.setattr(NUMBA, "_memory", {})
    for (dense, native), (running, turns, fault_maps, seconds) in lives(duties, 1):
        back = np.full(len(running), 0.3 * seconds)
        assert np.array_equal(dense.longest, native.longest)
        exact, actual = (
            stress.longest_earlier(running, turns, fault_maps, back) for stress in (dense, native)
        )
        assert np.array_equal(exact, actual)


def test_longest_times_within_a_span_are_those_of_all_cells(duties):
    """Also after looking within, which must leave what is known of the cells as it was."""
    below = 0
    for (dense, native), (running, turns, fault_maps, seconds) in chain(
        lives(duties, 1), lives(duties, 2), lives(duties, 3, True)
    ):
        before = dense.longest_earlier(running, turns, fault_maps, np.full(len(running), seconds))
        for part in (0.9, 0.5, 0.002):
            back = np.full(len(running), seconds * (1 - part))
            exact, actual = (
                stress.longest_earlier(running, turns, fault_maps, back)
                for stress in (dense, native)
            )
            assert np.array_equal(exact, actual)
            line = (1 - part) * before + part * dense.longest[:, running]
            assert (exact <= line * (1 + 1e-9)).all()
            below += (exact < line * (1 - 1e-6)).sum()
    assert below, "the same cells are the longest throughout: a line would do"


def test_open_bits_are_worked_out_together(duties):
    """Otherwise the test above would not see that way of looking."""
    technique = duties.replays[0].technique
    if not (technique.gates_released and technique.rotating_selectors):
        pytest.skip("only for tables and released places that are off")
    *_, ((_, native), _) = lives(duties, 1)
    open_bits = [used.cells.open_bits.used[0] for used in native.workspaces._free]
    assert max(open_bits) > 100


@pytest.mark.parametrize("kernel", ["Reduction", "DCT"])
def test_longest_times_of_many_fault_maps(kernel):
    """Some bits of an entry looked at alone, others next to them together."""
    replay = prepare(bundled_trace(kernel), TECHNIQUES["rrcd+rc+rar"])
    groups = duty_cycles(np.zeros((1, GCN.cells), np.uint32), np.ones(1, np.int64), GCN.components)
    duties = FaultFreeDuties((replay,), groups, groups)
    nobody = TrackedCells(*np.zeros((2, 0), dtype=np.int64))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        fault_map = rng.random((1, GCN.entries)) < rng.uniform(0.25, 0.36)
        fault_map = fault_map.astype(np.uint8)
        stress = NUMBA.stress(duties, nobody, 1)
        stress.add(np.array([0]), Turns.single(np.array([0])), fault_map, float(replay.period))
        times = NUMBA.cell_times(replay, fault_map)
        assert stress.longest[:, 0].tolist() == [times.zeros.max(), times.ones.max()], seed
