"""The engines against the oracle, which plays one slice event by event.

A replay stands for endless repetition. The oracle plays it pass by pass from every starting offset
of the rotating state, and the sums must be equal to the last cycle.
"""

import math
import random
from itertools import islice

import numpy as np
import pytest
from engine_cases import (
    assert_replays_as_the_oracle,
    possible_techniques,
    rotation_comes_back,
    seeded_fault_maps,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import consecutive_passes
from trace_strategies import (
    SPILLING,
    alloc,
    fault_maps,
    pattern,
    random_trace,
    release,
    trace_of,
    traces,
    write,
)

from mcage.engines.numba_engine import NumbaEngine
from mcage.engines.numpy_engine.engine import NumpyEngine
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES, Placement

ENGINES = (NumpyEngine(), NumbaEngine())
LIMITS = st.sampled_from([64, None])
SMALL = {"window_sizes": (1, 5), "slots": (1, 3), "accesses": (0, 10)}
FEW_PLACES = {"window_sizes": (30, 70), "slots": (1, 3), "accesses": (0, 20)}


@pytest.mark.parametrize("name", ["baseline", "rc", "wc"])
def test_fixed_windows(name):
    @given(trace=traces(**SMALL), fault_map=fault_maps(), delta_limit=LIMITS)
    @settings(max_examples=8, deadline=None)
    def check(trace, fault_map, delta_limit):
        assert_replays_as_the_oracle(trace, TECHNIQUES[name], delta_limit, fault_map)

    check()


@pytest.mark.parametrize("phases", [(1, 1), (2, 2)])
@pytest.mark.parametrize("name", ["rar", "rc+rar"])
def test_rotating_windows(name, phases):
    @given(trace=traces(**SMALL, phases=phases), fault_map=fault_maps())
    @settings(max_examples=6, deadline=None)
    def check(trace, fault_map):
        assume(rotation_comes_back(trace))
        assert_replays_as_the_oracle(trace, TECHNIQUES[name], 64, fault_map)

    check()


@pytest.mark.parametrize("name", ["rar", "rc+rar"])
def test_rotating_windows_of_two_kernels_that_share_entries(name):
    """Entries 3 and 4 are slot 1 of one kernel and slot 0 of the other, re-assigned less often."""
    events = [alloc(0, 0, 3), release(40, 0), alloc(50, 0, 5)]
    events += [write(50, 0, 0, 1), write(53, 0, 1, 6, lanes=3), release(55, 0)]
    for window in range(4):
        begin = 10 * window
        events += [alloc(begin, 1, 3), write(begin, 1, window % 3, 1 << window, lanes=2 + window)]
        events += [release(begin + 7, 1)]
    trace = trace_of(events, cycles=64)
    assert rotation_comes_back(trace)
    assert_replays_as_the_oracle(trace, TECHNIQUES[name], 64, np.zeros(256, np.uint8))


@given(trace=traces(**FEW_PLACES, phases=(1, 1)), fault_map=fault_maps())
@settings(max_examples=6, deadline=None)
def test_windows_in_turn(trace, fault_map):
    assert_replays_as_the_oracle(trace, TECHNIQUES["argo"], 64, fault_map)


@pytest.mark.parametrize(("first", "second", "turns"), [(100, 40, 1), (60, 30, 3)])
def test_windows_in_turn_of_two_kernels(first, second, turns):
    """The second kernel goes on where the pointer is; lanes keep what the pass before left."""
    events = []
    for now, size in enumerate([first] * turns + [second]):
        events += [alloc(now, 0, size), write(now, 0, 0, 5 + now, lanes=1 << now), release(now, 0)]
    trace = trace_of(events)
    assert_replays_as_the_oracle(trace, TECHNIQUES["argo"], 64, np.zeros(256, np.uint8))


@pytest.mark.parametrize("name", ["rrcd", "rrcd+pg", "rrcd+rc+rar", "gr-guard"])
def test_redirection(name):
    @given(trace=traces(**SMALL), fault_map=fault_maps(), delta_limit=LIMITS)
    @settings(max_examples=6, deadline=None)
    def check(trace, fault_map, delta_limit):
        assert_replays_as_the_oracle(trace, TECHNIQUES[name], delta_limit, fault_map)

    check()


@pytest.mark.parametrize("name", ["rrcd", "rrcd+pg", "rrcd+rc+rar", "gr-guard"])
@pytest.mark.parametrize("seed", range(2))
def test_redirection_of_many_rows(name, seed):
    trace = random_trace(random.Random(seed), **SPILLING)
    for fault_map in seeded_fault_maps(seed)[2:4]:
        assert_replays_as_the_oracle(trace, TECHNIQUES[name], 64, fault_map)


@pytest.mark.parametrize("name", possible_techniques())
def test_every_combination_of_policies(name):
    technique = possible_techniques()[name]
    in_turn = technique.placement is Placement.ROUND_ROBIN
    shape = FEW_PLACES if in_turn else SMALL
    trace = random_trace(random.Random(7), **shape, phases=(1, 1))
    assert_replays_as_the_oracle(trace, technique, 64, seeded_fault_maps(7)[3])


# ---- brute force -----------------------------------------------------------------------------


def rotating_trace(generations, size):
    """One slot, windows one after the other: register 0 of each holds another number."""
    events = []
    for generation in range(generations):
        now = 8 * generation
        number = pattern(2**generation) + np.uint32(256) * (np.arange(64, dtype=np.uint32) ** 2)
        events += [alloc(now, 0, size), write(now, 0, 0, number), release(now + 1 + generation, 0)]
    return trace_of(events, cycles=8 * generations)


def brute_force(trace, technique, passes):
    """Sum of consecutive passes, after as many to forget power-on."""
    outcomes = list(islice(consecutive_passes(trace, technique), 2 * passes))[passes:]
    return sum(times.ones for times in outcomes), sum(times.powered for times in outcomes)


@pytest.mark.parametrize("name", ["rar", "rc+rar", "argo"])
@pytest.mark.parametrize(("generations", "offsets"), [(1, 4), (3, 4), (2, 5), (2, 4), (4, 4)])
def test_consecutive_passes_reach_the_limit(name, generations, offsets):
    """They do if and only if the windows of a pass and the offsets have no common factor."""
    size = 256 // offsets if name == "argo" else offsets
    trace = rotating_trace(generations, size)
    ones, powered = brute_force(trace, name, offsets)
    coprime = math.gcd(generations, offsets) == 1
    for engine in ENGINES:
        limit = engine.cell_times(prepare(trace, TECHNIQUES[name]), np.zeros((1, 256), np.uint8))
        assert limit.period == offsets * trace.cycles
        assert np.array_equal(limit.ones[0], ones) == coprime
        if name != "rar":  # cells that hold a value are on all the time
            assert np.array_equal(limit.powered[0], powered) == coprime


@pytest.mark.parametrize("seed", range(3))
def test_consecutive_passes_of_several_slots_reach_the_limit(seed):
    """Five registers and one to four windows a slot: all counters go through all offsets."""
    shape = {"window_sizes": (5, 5), "generations": (1, 4), "slots": (2, 3), "phases": (1, 1)}
    trace = random_trace(random.Random(seed), **shape)
    ones, powered = brute_force(trace, "rar", 5)
    for engine in ENGINES:
        limit = engine.cell_times(prepare(trace, TECHNIQUES["rar"]), np.zeros((1, 256), np.uint8))
        assert np.array_equal(limit.ones[0], ones)
        assert np.array_equal(limit.powered[0], powered)
