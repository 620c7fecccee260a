"""The engines against each other: equal integers, and floats equal to the last bit."""

import dataclasses
import functools
import random

import numpy as np
import pytest
from engine_cases import COUNTED, fault_map_batch, possible_techniques, seeded_fault_maps
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_strategies import SPILLING, random_trace, traces

from mcage.engines.extremes import group_by_duty
from mcage.engines.native import NativeEngine
from mcage.engines.prepare import prepare
from mcage.engines.reference import ReferenceEngine
from mcage.techniques import TECHNIQUES, Placement
from mcage.traces.library import bundled_trace

NUMBA, NUMPY = NativeEngine(), ReferenceEngine()
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
    slices = len(fault_maps) if replay.technique.redirects else 1
    assert numpy.ones.shape == numpy.powered.shape == (slices, 256, 2048)
    assert numba.period == numpy.period
    assert np.array_equal(numba.ones, numpy.ones)
    assert np.array_equal(numba.powered, numpy.powered)


def assert_same(trace, technique, delta_limit, fault_maps):
    """Counters for all fault maps, cell times for two of them: they take longer."""
    replay = prepare(trace, technique, delta_limit)
    assert_same_counters(replay, fault_maps)
    assert_same_cell_times(replay, fault_maps[2:4])


def shapes_for(technique):
    """Shapes of random traces: few entries, many rows alive, or few places to go round."""
    if technique.redirects:
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
    assert any((prepare(t, TECHNIQUES["baseline"]).schedule.images.mask > 0).any() for t in shapes)
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
    return bundled_trace("ScanLargeArrays").first_generations(2)


@pytest.mark.parametrize("name", TECHNIQUES)
def test_engines_agree_on_an_excerpt_of_a_real_trace(name):
    """Two kernels, of 3 and of 10 registers, the one with divergent writes."""
    assert_same(excerpt(), TECHNIQUES[name], 64, seeded_fault_maps(3))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["RadixSort", "BlackScholes", "Reduction"])
def test_engines_agree_on_longer_excerpts(kernel):
    """Two kernels, few large windows, and sixteen slots."""
    trace = bundled_trace(kernel).first_generations(2)
    for technique in TECHNIQUES.values():
        assert_same(trace, technique, 64, seeded_fault_maps(4)[:3])


@pytest.mark.parametrize("name", ["rrcd", "rrcd+pg", "rrcd+rc+rar"])
def test_exposure_agrees_to_the_last_bit(name):
    replay = prepare(random_trace(random.Random(5), **SPILLING), TECHNIQUES[name])
    fault_maps = seeded_fault_maps(5)
    rng = np.random.default_rng(5)
    seconds = rng.uniform(1e6, 1e9, len(fault_maps))
    rows = np.array([3, 0, 6, 5, 1])  # in any order, not all
    before = rng.uniform(0, 1e8, (2, 7, 256 * 2048))
    numba, numpy = before.copy(), before.copy()
    for engine, exposure in ((NUMBA, numba), (NUMPY, numpy)):
        longest = engine.expose(replay, fault_maps, seconds, rows, *exposure)
        raised = np.maximum(before[:, rows].max(axis=2), longest)
        assert np.array_equal(raised, exposure[:, rows].max(axis=2))
    assert np.array_equal(numba, numpy)
    assert np.array_equal(numpy[:, [2, 4]], before[:, [2, 4]])

    times = NUMPY.cell_times(replay, fault_maps)
    gained = numpy - before
    for instance, row in enumerate(rows):
        share = seconds[instance] / times.period
        assert np.allclose(gained[0, row], times.zeros[instance].ravel() * share)
        assert np.allclose(gained[1, row], times.ones[instance].ravel() * share)


def test_longest_total_agrees_to_the_last_bit():
    rng = np.random.default_rng(6)
    duty = rng.beta(0.3, 3, (3, 64 * 64))
    seconds = rng.uniform(0, 1e9, (20, 3))
    groups = group_by_duty(duty)
    of_cells = seconds[:, 0, None] * duty[0]
    for kernel in (1, 2):
        of_cells += seconds[:, kernel, None] * duty[kernel]
    for engine in (NUMBA, NUMPY):
        assert np.array_equal(engine.longest_total(seconds, groups), of_cells.max(axis=1))
