"""The engines against the reference: equal integers, and floats equal to the last bit.

What the reference says is computed once, for all others. The kernels of the CUDA engine run on the
host device, whose threads and blocks go in an order drawn from a seed.
"""

import dataclasses
import functools
import math
import random
from itertools import cycle, islice, product

import numpy as np
import pytest
from engine_cases import (
    COUNTED,
    FEW_PLACES,
    LITTLE_ROOM,
    NUMBA,
    NUMPY,
    SMALL,
    assert_replays_as_the_oracle,
    assert_same,
    assert_same_lives,
    cuda_engine,
    daily,
    daily_policies,
    duties_of,
    fault_map_batch,
    possible_fault_heeding_techniques,
    possible_redirections,
    possible_techniques,
    random_replays,
    rotation_comes_back,
    seeded_fault_maps,
    with_first_slots,
)
from geometries import DRAWN, on, random_geometry
from host_gpu.compiler import host_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import consecutive_passes
from rrcd_program import programmed
from trace_strategies import (
    SPILLING,
    alloc,
    fault_maps,
    pattern,
    random_fault_map,
    random_trace,
    release,
    trace_of,
    traces,
    write,
)

from mcage.geometry import CDNA2, NVIDIA, RDNA3
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


@pytest.mark.slow
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
            replay = prepare(trace, technique, delta_limit, lds_rows=LITTLE_ROOM)
            assert_same(engines, replay, fault_map_batch(maps))

    check()


@pytest.mark.parametrize("name", daily(possible_techniques(), daily_policies()))
def test_every_combination_of_policies(name):
    technique = possible_techniques()[name]
    in_turn = technique.placement is Placement.ROUND_ROBIN
    trace = random_trace(random.Random(2), **(FEW_PLACES if in_turn else SMALL))
    assert_same(others(2), prepare(trace, technique), seeded_fault_maps(2))


@pytest.mark.parametrize("name", daily(possible_redirections(), daily_policies()))
def test_many_rows_alive(name):
    """Also with so few sound blocks in faulty entries that compressed rows fill reliable ones."""
    few_blocks = np.where(np.arange(256) % 100 == 7, 0b1011, 0).astype(np.uint8)
    maps = np.vstack([few_blocks, seeded_fault_maps(1)])
    trace = random_trace(random.Random(1), **SPILLING)
    replay = prepare(trace, possible_redirections()[name], lds_rows=LITTLE_ROOM)
    assert_same(others(4), replay, maps)


@pytest.mark.parametrize("offsets", [4, 8, 16])
def test_passes_side_by_side(offsets):
    """Passes that fill no vector, one and two; with room for all rows, and with too little."""
    trace = random_trace(random.Random(1), **SPILLING)
    technique = TECHNIQUES["rrcd+rc+rar"]
    replay = prepare(trace, technique, selector_offsets=offsets, lds_rows=LITTLE_ROOM)
    maps = np.stack([np.arange(256) % sound > 0 for sound in (1, 2, 3, 60)]).astype(np.uint8)
    spilled = NUMPY.count(replay, maps).lds
    assert not spilled[:3].any()
    assert spilled[3]
    assert_same([NUMBA], replay, maps)


def test_random_cases_reach_what_they_are_meant_to_reach():
    """Partial lanes, two kernels, every kind of write: parity of nothing proves nothing."""
    shapes = [random_trace(random.Random(seed), **SMALL) for seed in range(8)]
    assert any(len(trace.window_sizes) == 2 for trace in shapes)
    assert any(
        (prepare(t, TECHNIQUES["baseline"]).schedule.stored_values.mask > 0).any() for t in shapes
    )
    trace = random_trace(random.Random(1), **SPILLING)
    replay = prepare(trace, TECHNIQUES["rrcd+pg"], lds_rows=LITTLE_ROOM)
    counters = NUMPY.count(replay, seeded_fault_maps(1))
    assert all(getattr(counters, name).any() for name in COUNTED)


@pytest.mark.parametrize("most_cycles", [2**31 - 1, 2**35])
@pytest.mark.parametrize("name", daily(TECHNIQUES, ["rc+rar", "rrcd+pg"]))
def test_times_beyond_32_bits(name, most_cycles):
    """Within a pass, and only of all passes together."""
    trace = random_trace(random.Random(3), **(FEW_PLACES if name == "argo" else SMALL))
    longer = most_cycles // trace.cycles
    trace = dataclasses.replace(trace, cycle=trace.cycle * longer, cycles=trace.cycles * longer)
    assert_same(others(), prepare(trace, TECHNIQUES[name]), seeded_fault_maps(3))


@functools.cache
def excerpt(kernel, slots, generations=1):
    trace = with_first_slots(first_generations(bundled_trace(kernel), generations), slots)
    validate_trace(trace)
    return trace


@pytest.mark.slow
@pytest.mark.parametrize("name", TECHNIQUES)
@pytest.mark.parametrize(
    ("kernel", "slots", "generations"),
    [("ScanLargeArrays", 16, 1), ("RadixSort", 1, 1), ("BlackScholes", 4, 1), ("Reduction", 16, 2)],
)
def test_excerpts_of_real_traces(name, kernel, slots, generations):
    """Two kernels, of 3 and of 10 registers, with divergent writes; two kernels, few large windows,
    and sixteen slots, which are too much for kernels on the host.
    """
    engines = others() if kernel == "ScanLargeArrays" else [NUMBA]
    replay = prepare(excerpt(kernel, slots, generations), TECHNIQUES[name])
    assert_same(engines, replay, seeded_fault_maps(4)[:4])


@pytest.mark.parametrize(
    ("kernel", "slots"), [("scan.gcn", 1), ("rope.cdna2", 2), ("tree_reduction.rdna3", 2)]
)
def test_excerpts_of_kernels_of_today(kernel, slots):
    """Slices of 256 x 64, 512 x 64 and 1,536 x 32, recorded by the emulator; the oracle, too."""
    trace = excerpt(kernel, slots)
    with on(trace.geometry):
        for name in ("rc+rar", "rrcd", "rrcd+rc+rar"):
            assert_same([NUMBA], prepare(trace, TECHNIQUES[name]), seeded_fault_maps(5)[:4])
        fault_map = seeded_fault_maps(6)[1]
        assert_replays_as_the_oracle(trace, TECHNIQUES["rrcd"], 64, fault_map)


# ---- stress times ----------------------------------------------------------------------------


HEEDING = possible_fault_heeding_techniques()


@pytest.mark.parametrize("name", daily(HEEDING, daily_policies()))
def test_stress_agrees_to_the_last_bit(name):
    """Slices that go from a shared past to worse and worse faults, kernel after kernel."""
    duties = duties_of(random_replays(HEEDING[name]))
    assert_same_lives(others(), duties, 5)


# The engines against the oracle, which plays one slice event by event.
#
# A replay stands for endless repetition. The oracle plays it pass by pass from every starting
# offset of the rotating state, and the sums must be equal to the last cycle.

SMALL_WINDOWS = {"window_sizes": (1, 5), "slots": (1, 3), "accesses": (0, 10)}
LARGE_WINDOWS = {"window_sizes": (30, 70), "slots": (1, 3), "accesses": (0, 20)}
FOUR_PLACES = {
    "window_sizes": (64, 64),
    "slots": (2, 3),
    "accesses": (5, 20),
    "generations": (2, 5),
}
"""Windows in turn, in places in which each finds what another has left."""


@pytest.mark.parametrize("name", TECHNIQUES)
def test_the_oracle_agrees_on_random_traces(name):
    """Where windows go round, of a single kernel, or of two whose counters come back together."""
    technique = TECHNIQUES[name]
    shapes = traces(**SMALL_WINDOWS)
    if technique.placement is Placement.ROUND_ROBIN:
        shapes = traces(**LARGE_WINDOWS, phases=(1, 1))
    if technique.placement is Placement.ROTATE:
        shapes = st.one_of(traces(**SMALL_WINDOWS, phases=(n, n)) for n in (1, 2))
        shapes = shapes.filter(rotation_comes_back)

    @given(trace=shapes, fault_map=fault_maps(), delta_limit=st.sampled_from([64, None]))
    @settings(max_examples=6, deadline=None)
    def check(trace, fault_map, delta_limit):
        assert_replays_as_the_oracle(trace, technique, delta_limit, fault_map)

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


@pytest.mark.parametrize(("first", "second", "turns"), [(100, 40, 1), (60, 30, 3)])
def test_windows_in_turn_of_two_kernels(first, second, turns):
    """The second kernel goes on where the pointer is; lanes keep what the pass before left."""
    events = []
    for now, size in enumerate([first] * turns + [second]):
        events += [alloc(now, 0, size), write(now, 0, 0, 5 + now, lanes=1 << now), release(now, 0)]
    trace = trace_of(events)
    assert_replays_as_the_oracle(trace, TECHNIQUES["argo"], 64, np.zeros(256, np.uint8))


@pytest.mark.parametrize("name", ["rrcd", "rrcd+pg", "rrcd+rc+rar", "gr-guard"])
def test_the_oracle_agrees_where_many_rows_live(name):
    trace = random_trace(random.Random(0), **SPILLING)
    for fault_map in seeded_fault_maps(0)[2:4]:
        assert_replays_as_the_oracle(trace, TECHNIQUES[name], 64, fault_map)


@pytest.mark.parametrize("name", possible_techniques())
def test_the_oracle_agrees_on_every_combination_of_policies(name):
    technique = possible_techniques()[name]
    in_turn = technique.placement is Placement.ROUND_ROBIN
    shape = FOUR_PLACES if in_turn else SMALL_WINDOWS
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
    for engine in (NUMPY, NUMBA):
        limit = engine.cell_times(prepare(trace, TECHNIQUES[name]), np.zeros((1, 256), np.uint8))
        assert limit.period == offsets * trace.cycles
        assert np.array_equal(limit.ones[0], ones) == coprime
        if name != "rar":  # cells that hold a value are on all the time
            assert np.array_equal(limit.powered[0], powered) == coprime


# Slices of other geometry than that of the papers: the engines against the oracle, and alike.

ONE_PHASE = {"window_sizes": (1, 5), "slots": (1, 3), "accesses": (0, 10), "phases": (1, 1)}
RDNA3_OF_16 = dataclasses.replace(RDNA3, block_components=16)

ON_DEVICES = [
    ("redirect/block/unused/False", NVIDIA),
    ("redirect/table/empty/True", NVIDIA),
    ("redirect/plain/empty/True", DRAWN[2]),
    ("redirect/block/unused/True", DRAWN[3]),
    ("direct/inline/empty/False", NVIDIA),
    ("redirect/block/unused/True", RDNA3_OF_16),
    ("redirect/block/unused/False", CDNA2),
    ("redirect/block/unused/True", DRAWN[-1]),
    ("redirect/table/empty/True", RDNA3),
    ("guard/plain/unused/False", RDNA3_OF_16),
]
"""Techniques and slices of which each program has something else to do.

A lane of the selectors has two, six, two and three words of blocks in the last four.
"""

LARGE = {
    "window_sizes": (400, 512),
    "slots": (3, 3),
    "generations": (1, 1),
    "accesses": (550, 600),
    "phases": (1, 1),
    "events": 2000,
}
"""Shape of traces with registers that need more than a byte, in nearly all entries of any slice."""


def only_the_last(count, geometry):
    """A fault map of which only so many of the last entries are usable."""
    fault_map = np.full(geometry.entries, geometry.all_blocks, np.uint8)
    fault_map[-count:] = 0
    return fault_map


def shape_for(technique, geometry):
    """As small as can be. Where windows go round, each place is a pass: 16 to 32 of them."""
    if technique.placement is Placement.ROUND_ROBIN:
        return ONE_PHASE | {"window_sizes": (geometry.entries // 32, geometry.entries // 16)}
    return ONE_PHASE


ON_HOSTS = [*zip(HEEDING, cycle(DRAWN), strict=False)]


def id_of(value):
    return getattr(value, "name", value)


@pytest.mark.parametrize(
    ("name", "geometry"),
    daily(product(TECHNIQUES, DRAWN), [*zip(TECHNIQUES, DRAWN, strict=True)]),
    ids=id_of,
)
def test_the_oracle_agrees_in_other_geometries(name, geometry):
    with on(geometry):
        rng, technique = random.Random(f"{name} {geometry.name}"), TECHNIQUES[name]
        trace = random_trace(rng, **shape_for(technique, geometry))
        fault_map = random_fault_map(rng)
        assert_replays_as_the_oracle(trace, technique, 64, fault_map)


@pytest.mark.parametrize("name", daily(possible_techniques(), daily_policies()))
def test_engines_agree_on_drawn_geometries(name):
    rng = random.Random(name)
    with on(random_geometry(rng)):
        trace = random_trace(rng, **(ONE_PHASE if name not in HEEDING else SPILLING))
        replay = prepare(trace, possible_techniques()[name])
        assert_same([NUMBA], replay, seeded_fault_maps(rng.getrandbits(32)))


@pytest.mark.parametrize(("name", "geometry"), daily(ON_DEVICES, ON_DEVICES[-3:-2]), ids=id_of)
def test_kernels_agree_in_other_geometries(name, geometry):
    """The CUDA engine on the host's device: programs are compiled for each geometry."""
    rng = random.Random(name)
    with on(geometry):
        trace = random_trace(rng, **(SPILLING if name in HEEDING else ONE_PHASE))
        replay = prepare(trace, possible_techniques()[name], lds_rows=LITTLE_ROOM)
        assert_same([cuda_engine()], replay, seeded_fault_maps(rng.getrandbits(32)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "geometry"), [case for case in ON_DEVICES[:6] if case[0] in HEEDING], ids=id_of
)
def test_stress_of_kernels_agrees_in_other_geometries(name, geometry):
    with on(geometry):
        assert_same_lives([cuda_engine()], duties_of(random_replays(HEEDING[name], seed=7)), 3)


@pytest.mark.parametrize("name", ["baseline", "rc", "disable", "gr-guard", "rrcd"])
def test_windows_of_more_than_255_registers(name):
    """On the largest slice, with few usable entries far behind, where faults are heeded."""
    rng, technique = random.Random(name), TECHNIQUES[name]
    geometry = RDNA3 if technique.redirects else CDNA2
    with on(geometry):
        trace = random_trace(rng, **LARGE)
        assert trace.reg.max() > 255
        fault_map = only_the_last(200, geometry) if technique.redirects else random_fault_map(rng)
        assert_replays_as_the_oracle(trace, technique, 64, fault_map)
        if name == "rrcd":
            maps = np.stack([fault_map * 0, fault_map, random_fault_map(rng)])
            assert_same([cuda_engine()], prepare(trace, technique), maps)


@pytest.mark.parametrize(("name", "geometry"), daily(ON_HOSTS, ON_HOSTS[1:10:6]), ids=id_of)
def test_stress_in_other_geometries_agrees_to_the_last_bit(name, geometry):
    with on(geometry):
        duties = duties_of(random_replays(HEEDING[name], seed=7))
        assert_same_lives([NUMBA], duties, 3)


@pytest.mark.slow
@pytest.mark.parametrize("geometry", DRAWN[:3], ids=lambda geometry: geometry.name)
def test_a_program_takes_any_slice(geometry):
    """RRCD as a program is RRCD there, too, on both engines that run programs."""
    rng = random.Random(geometry.name)
    with on(geometry):
        trace, maps = random_trace(rng, **SPILLING), seeded_fault_maps(rng.getrandbits(32))
        built_in = NUMBA.cell_times(prepare(trace, TECHNIQUES["rrcd+pg"]), maps)
        for engine in (NUMPY, NUMBA):
            program = engine.cell_times(prepare(trace, programmed("rrcd+pg")), maps)
            assert np.array_equal(program.ones, built_in.ones)
            assert np.array_equal(program.powered, built_in.powered)
