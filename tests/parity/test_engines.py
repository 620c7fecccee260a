"""The engines against the reference: equal integers, and floats equal to the last bit.

What the reference says is computed once, for all others. The kernels of the CUDA engine run on the
host device, whose threads and blocks go in an order drawn from a seed.
"""

import dataclasses
import functools
import random

import numpy as np
import pytest
from engine_cases import (
    COUNTED,
    FEW_PLACES,
    NUMBA,
    NUMPY,
    SMALL,
    assert_same,
    assert_same_lives,
    cuda_engine,
    duties_of,
    fault_map_batch,
    possible_fault_heeding_techniques,
    possible_redirections,
    possible_techniques,
    random_replays,
    seeded_fault_maps,
    with_first_slots,
)
from host_gpu.compiler import host_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_strategies import SPILLING, random_trace, traces

from mcage.engines.stress import FaultFreeDuties, TrackedCells
from mcage.geometry import GCN
from mcage.replays.most_stressed import duty_cycles
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES, Placement, Storage
from mcage.traces import first_generations, validate_trace
from mcage.traces.library import bundled_trace


def others(seed=0):
    """The engines that are compared with the reference."""
    return (NUMBA, cuda_engine(seed)) if host_compiler() else (NUMBA,)


def test_the_kernels_are_among_what_is_compared():
    if host_compiler() is None:
        pytest.skip("no C++ compiler to run the kernels with")
    assert [engine.name for engine in others()] == ["numba", "cuda"]


def shapes_for(technique):
    """Shapes of random traces: few entries, many rows alive, or few places to go round."""
    if technique.heeds_faults:
        return st.one_of(traces(**SMALL), traces(**SPILLING))
    if technique.placement is Placement.ROUND_ROBIN:
        return traces(**FEW_PLACES)
    return st.one_of(traces(**SMALL), traces(**SMALL, phases=(2, 2)))


@pytest.mark.parametrize("name", TECHNIQUES)
def test_random_traces(name):
    """Replays depend on the limit of deltas where values go to a table or into blocks."""
    technique = TECHNIQUES[name]
    limited = technique.storage in (Storage.TABLE, Storage.BLOCK)
    limits = (64, None) if limited else (64,)
    engines = others()

    @given(
        trace=shapes_for(technique),
        maps=st.randoms(use_true_random=False),
        seed=st.integers(0, 2**31),
    )
    @settings(max_examples=6, deadline=None)
    def check(trace, maps, seed):
        for engine in engines[1:]:
            engine.devices[0].seed = seed
        for delta_limit in limits:
            assert_same(engines, prepare(trace, technique, delta_limit), fault_map_batch(maps))

    check()


@pytest.mark.parametrize("name", possible_techniques())
def test_every_combination_of_policies(name):
    technique = possible_techniques()[name]
    in_turn = technique.placement is Placement.ROUND_ROBIN
    trace = random_trace(random.Random(2), **(FEW_PLACES if in_turn else SMALL))
    assert_same(others(2), prepare(trace, technique), seeded_fault_maps(2))


@pytest.mark.parametrize("name", possible_redirections())
def test_many_rows_alive(name):
    """Also with so few sound blocks in faulty entries that compressed rows fill reliable ones."""
    few_blocks = np.where(np.arange(256) % 100 == 7, 0b1011, 0).astype(np.uint8)
    maps = np.vstack([few_blocks, seeded_fault_maps(1)])
    trace = random_trace(random.Random(1), **SPILLING)
    assert_same(others(4), prepare(trace, possible_redirections()[name]), maps)


def test_random_cases_reach_what_they_are_meant_to_reach():
    """Partial lanes, two kernels, every kind of write: parity of nothing proves nothing."""
    shapes = [random_trace(random.Random(seed), **SMALL) for seed in range(8)]
    assert any(len(trace.window_sizes) == 2 for trace in shapes)
    assert any(
        (prepare(t, TECHNIQUES["baseline"]).schedule.stored_values.mask > 0).any() for t in shapes
    )
    replay = prepare(random_trace(random.Random(1), **SPILLING), TECHNIQUES["rrcd+pg"])
    counters = NUMPY.count(replay, seeded_fault_maps(1))
    assert all(getattr(counters, name).any() for name in COUNTED)


@pytest.mark.parametrize("most_cycles", [2**31 - 1, 2**35])
@pytest.mark.parametrize("name", TECHNIQUES)
def test_times_beyond_32_bits(name, most_cycles):
    """Within a pass, and only of all passes together."""
    trace = random_trace(random.Random(3), **(FEW_PLACES if name == "argo" else SMALL))
    longer = most_cycles // trace.cycles
    trace = dataclasses.replace(trace, cycle=trace.cycle * longer, cycles=trace.cycles * longer)
    assert_same(others(), prepare(trace, TECHNIQUES[name]), seeded_fault_maps(3))


@functools.cache
def excerpt():
    return first_generations(bundled_trace("ScanLargeArrays"), 1)


@pytest.mark.parametrize("name", TECHNIQUES)
def test_an_excerpt_of_a_real_trace(name):
    """Two kernels, of 3 and of 10 registers, the one with divergent writes."""
    assert_same(others(), prepare(excerpt(), TECHNIQUES[name]), seeded_fault_maps(3))


@pytest.mark.parametrize(
    ("kernel", "slots", "generations"),
    [("RadixSort", 1, 1), ("BlackScholes", 4, 1), ("Reduction", 16, 2)],
)
def test_longer_excerpts(kernel, slots, generations):
    """Two kernels, few large windows, and sixteen slots; too much for kernels on the host."""
    trace = with_first_slots(first_generations(bundled_trace(kernel), generations), slots)
    validate_trace(trace)
    for technique in TECHNIQUES.values():
        assert_same([NUMBA], prepare(trace, technique), seeded_fault_maps(4)[:3])


# ---- stress times ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", possible_fault_heeding_techniques())
def test_stress_agrees_to_the_last_bit(name):
    """Slices that go from a shared past to worse and worse faults, kernel after kernel."""
    duties = duties_of(random_replays(possible_fault_heeding_techniques()[name]))
    assert_same_lives(others(), duties, 5)


@pytest.mark.parametrize("name", ["rrcd", "rrcd+rc+rar"])
def test_stress_beyond_32_bits(name):
    """Of the kernels, which are compiled apart for it; Numba would take a minute to compile."""
    duties = duties_of(random_replays(TECHNIQUES[name], longer=2**27), NUMPY)
    assert_same_lives(others()[1:], duties, 6)


def test_longest_of_mixtures_agrees_to_the_last_bit():
    rng = np.random.default_rng(6)
    cycles, period = np.zeros((3, GCN.cells), dtype=np.uint32), np.full(3, 1 << 31)
    fractions = rng.dirichlet([0.5, 0.5, 0.5], 64 * 64).T  # none exceeds another
    cycles[:, : 64 * 64] = fractions * period[:, None]
    groups, duty = duty_cycles(cycles, period, 64), cycles / period[:, None]
    assert len(groups.skyline.cell) > 256
    replay = prepare(random_trace(random.Random(6), **SMALL), TECHNIQUES["baseline"])
    duties = FaultFreeDuties((replay,) * 3, groups, groups)
    nobody = TrackedCells(*np.zeros((2, 0), dtype=np.int64))
    maps = np.zeros((20, 256), dtype=np.uint8)
    stresses = [engine.stress(duties, nobody, 20) for engine in (NUMPY, *others())]
    seconds = np.zeros((3, 20))
    for _ in range(5):
        kernel, length = rng.integers(3, size=20), rng.uniform(0, 1e9)
        for stress in stresses:
            stress.add(np.arange(20), kernel, maps, length)
        seconds[kernel, np.arange(20)] += length
        of_cells = seconds[0][:, None] * duty[0, : 64 * 64]
        for number in (1, 2):
            of_cells += seconds[number][:, None] * duty[number, : 64 * 64]
        for stress in stresses:
            assert np.array_equal(stress.longest, np.stack([of_cells.max(axis=1)] * 2))
