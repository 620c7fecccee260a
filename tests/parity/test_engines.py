"""The engines against each other: equal integers, and floats equal to the last bit."""

import dataclasses
import functools
import random

import numpy as np
import pytest
from engine_cases import (
    COUNTED,
    fault_map_batch,
    possible_fault_heeding_techniques,
    possible_techniques,
    seeded_fault_maps,
    with_first_slots,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_strategies import SPILLING, random_trace, traces

from mcage.engines.numba_engine import NumbaEngine
from mcage.engines.numpy_engine.engine import NumpyEngine
from mcage.engines.stress import FaultFreeDuties, TrackedCells
from mcage.replays.most_stressed import group_by_duty
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES, Placement
from mcage.traces import first_generations, validate_trace
from mcage.traces.library import bundled_trace

NUMBA, NUMPY = NumbaEngine(), NumpyEngine()
SMALL = {"window_sizes": (1, 9), "slots": (1, 3)}
FEW_PLACES = {"window_sizes": (30, 60), "slots": (1, 3), "accesses": (0, 20)}


def assert_same_counters(replay, fault_maps):
    numba, numpy = NUMBA.count(replay, fault_maps), NUMPY.count(replay, fault_maps)
    assert numba.passes == numpy.passes
    for name in COUNTED:
        counts = getattr(numpy, name)
        assert counts.shape == (len(fault_maps),)
        assert np.array_equal(getattr(numba, name), counts), name


def assert_same_cell_times(replay, fault_maps):
    numba, numpy = NUMBA.cell_times(replay, fault_maps), NUMPY.cell_times(replay, fault_maps)
    slices = len(fault_maps) if replay.technique.heeds_faults else 1
    assert numpy.ones.shape == numpy.powered.shape == (slices, 256, 2048)
    assert np.array_equal(numba.period, numpy.period)
    assert np.array_equal(numba.ones, numpy.ones)
    assert np.array_equal(numba.powered, numpy.powered)


def assert_same(trace, technique, delta_limit, fault_maps):
    """Counters for all fault maps, cell times for two of them: they take longer."""
    replay = prepare(trace, technique, delta_limit)
    assert_same_counters(replay, fault_maps)
    assert_same_cell_times(replay, fault_maps[2:4])


def shapes_for(technique):
    """Shapes of random traces: few entries, many rows alive, or few places to go round."""
    if technique.heeds_faults:
        return st.one_of(traces(**SMALL), traces(**SPILLING))
    if technique.placement is Placement.ROUND_ROBIN:
        return traces(**FEW_PLACES)
    return st.one_of(traces(**SMALL), traces(**SMALL, phases=(2, 2)))


@pytest.mark.parametrize("name", TECHNIQUES)
def test_engines_agree_on_random_traces(name):
    @given(trace=shapes_for(TECHNIQUES[name]), maps=st.randoms(use_true_random=False))
    @settings(max_examples=6, deadline=None)
    def check(trace, maps):
        for delta_limit in (64, None):
            assert_same(trace, TECHNIQUES[name], delta_limit, fault_map_batch(maps))

    check()


@pytest.mark.parametrize("name", possible_techniques())
def test_engines_agree_on_every_combination_of_policies(name):
    technique = possible_techniques()[name]
    in_turn = technique.placement is Placement.ROUND_ROBIN
    trace = random_trace(random.Random(2), **(FEW_PLACES if in_turn else SMALL))
    assert_same(trace, technique, 64, seeded_fault_maps(2))


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


@pytest.mark.parametrize("name", TECHNIQUES)
def test_engines_agree_on_times_beyond_32_bits(name):
    """One pass just fits into 32 bits; all passes together do not."""
    trace = random_trace(random.Random(3), **(FEW_PLACES if name == "argo" else SMALL))
    longer = (2**31 - 1) // trace.cycles
    trace = dataclasses.replace(trace, cycle=trace.cycle * longer, cycles=trace.cycles * longer)
    assert_same(trace, TECHNIQUES[name], 64, seeded_fault_maps(3))


@functools.cache
def excerpt():
    return first_generations(bundled_trace("ScanLargeArrays"), 2)


@pytest.mark.parametrize("name", TECHNIQUES)
def test_engines_agree_on_an_excerpt_of_a_real_trace(name):
    """Two kernels, of 3 and of 10 registers, the one with divergent writes."""
    assert_same(excerpt(), TECHNIQUES[name], 64, seeded_fault_maps(3))


@pytest.mark.parametrize(
    ("kernel", "slots"), [("RadixSort", 2), ("BlackScholes", 16), ("Reduction", 16)]
)
def test_engines_agree_on_longer_excerpts(kernel, slots):
    """Two kernels, few large windows, and sixteen slots."""
    trace = with_first_slots(first_generations(bundled_trace(kernel), 2), slots)
    validate_trace(trace)
    for technique in TECHNIQUES.values():
        assert_same(trace, technique, 64, seeded_fault_maps(4)[:3])


def duties_of(replays):
    """The duty cycles on a clean slice, as both engines are given them."""
    duty = {"zeros": [], "ones": []}
    for replay in replays:
        times = NUMBA.cell_times(replay, np.zeros((1, 256), dtype=np.uint8))
        for kind, all_cells in duty.items():
            all_cells.append((getattr(times, kind)[0] / times.period).ravel())
    at_zero, at_one = (group_by_duty(np.stack(all_cells)) for all_cells in duty.values())
    return FaultFreeDuties(tuple(replays), at_zero, at_one)


@pytest.mark.parametrize("name", possible_fault_heeding_techniques())
def test_stress_agrees_to_the_last_bit(name):
    """Slices that go from a shared past to worse and worse faults, kernel after kernel."""
    technique = possible_fault_heeding_techniques()[name]
    shapes = (SPILLING, SMALL, SPILLING)
    traces = [random_trace(random.Random(5 + i), **shape) for i, shape in enumerate(shapes)]
    duties = duties_of([prepare(trace, technique) for trace in traces])
    rng = np.random.default_rng(5)
    instances = 7
    tracked = TrackedCells(rng.integers(instances, size=500), rng.integers(8 * 2048, size=500))
    stresses = [engine.stress(duties, tracked, instances) for engine in (NUMPY, NUMBA)]
    mild, heavy = (seeded_fault_maps(seed)[which] for seed, which in ((5, 1), (6, 2)))
    for fault_map in (np.zeros_like(mild), np.zeros_like(mild), mild, mild, heavy):
        running = rng.permutation(instances)[:5]  # in any order, not all
        kernel = rng.integers(len(traces), size=5)
        maps = np.where(running[:, None] % 3 == 0, 0, fault_map).astype(np.uint8)
        seconds = rng.uniform(1e6, 1e9)
        for stress in stresses:
            stress.add(running, kernel, maps, seconds)
        numpy, numba = stresses
        back = seconds * rng.uniform(size=5)
        earlier = [stress.longest_earlier(running, kernel, maps, back) for stress in stresses]
        assert np.array_equal(*earlier)
        assert (earlier[0] <= numpy.longest[:, running]).all()
        assert np.array_equal(numpy.longest, numba.longest)
        assert np.array_equal(numpy.tracked_seconds, numba.tracked_seconds)
    assert numpy.longest.all()
    assert numpy.tracked_seconds.any()


def test_longest_of_mixtures_agrees_to_the_last_bit():
    rng = np.random.default_rng(6)
    groups = group_by_duty(rng.beta(0.3, 3, (3, 64 * 64)))
    replay = prepare(random_trace(random.Random(6), **SMALL), TECHNIQUES["baseline"])
    duties = FaultFreeDuties((replay,) * 3, groups, groups)
    nobody = TrackedCells(*np.zeros((2, 0), dtype=np.int64))
    maps = np.zeros((20, 256), dtype=np.uint8)
    stresses = [engine.stress(duties, nobody, 20) for engine in (NUMPY, NUMBA)]
    seconds = np.zeros((3, 20))
    for _ in range(5):
        kernel, length = rng.integers(3, size=20), rng.uniform(0, 1e9)
        for stress in stresses:
            stress.add(np.arange(20), kernel, maps, length)
        seconds[kernel, np.arange(20)] += length
        of_cells = seconds[0][:, None] * groups.duty[0]
        for number in (1, 2):
            of_cells += seconds[number][:, None] * groups.duty[number]
        for stress in stresses:
            assert np.array_equal(stress.longest, np.stack([of_cells.max(axis=1)] * 2))
