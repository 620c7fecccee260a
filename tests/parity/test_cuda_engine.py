"""The CUDA engine against the reference: equal integers, floats equal to the last bit.

Its kernels run on the host device, whose threads and blocks go in an order drawn from a seed.
"""

import dataclasses
import functools
import importlib.util
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from engine_cases import (
    COUNTED,
    fault_map_batch,
    possible_fault_heeding_techniques,
    possible_redirections,
    possible_techniques,
    seeded_fault_maps,
)
from host_gpu.compiler import host_compiler
from host_gpu.host_device import HostDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_strategies import SPILLING, random_trace, traces

from mcage.engines.cuda_engine.engine import CudaEngine
from mcage.engines.cuda_engine.programs import compilations, select_program, stress_program
from mcage.engines.numpy_engine.engine import NumpyEngine
from mcage.engines.select import device_of, parse_devices, select_engine
from mcage.engines.stress import FaultFreeDuties, TrackedCells
from mcage.errors import UserError
from mcage.replays.most_stressed import group_by_duty
from mcage.replays.prepare import prepare
from mcage.spec import SweepSpec
from mcage.sweep.study import Sweep
from mcage.techniques import TECHNIQUES, Placement
from mcage.traces import first_generations
from mcage.traces.library import bundled_trace

NUMPY = NumpyEngine()
SMALL = {"window_sizes": (1, 9), "slots": (1, 3)}
FEW_PLACES = {"window_sizes": (30, 60), "slots": (1, 2), "accesses": (0, 20)}
LITTLE_MEMORY = 40 * 2**20

with_compiler = pytest.mark.skipif(
    host_compiler() is None, reason="no C++ compiler to run the kernels with"
)


def cuda_engine(seed=0, memory_bytes=2**30, devices=1, threads=1):
    return CudaEngine([HostDevice(seed + i, memory_bytes) for i in range(devices)], threads)


def assert_same_counters(cuda, replay, fault_maps):
    actual, meant = cuda.count(replay, fault_maps), NUMPY.count(replay, fault_maps)
    assert actual.passes == meant.passes
    for name in COUNTED:
        assert np.array_equal(getattr(actual, name), getattr(meant, name)), name


def assert_same_cell_times(cuda, replay, fault_maps):
    actual, meant = cuda.cell_times(replay, fault_maps), NUMPY.cell_times(replay, fault_maps)
    assert np.array_equal(actual.period, meant.period)
    assert actual.ones.dtype == actual.powered.dtype == np.int64
    assert np.array_equal(actual.ones, meant.ones)
    assert np.array_equal(actual.powered, meant.powered)


def assert_same(cuda, trace, technique, fault_maps, delta_limit=64):
    """Counters for all fault maps, cell times for two of them: they take longer."""
    replay = prepare(trace, technique, delta_limit)
    assert_same_counters(cuda, replay, fault_maps)
    assert_same_cell_times(cuda, replay, fault_maps[2:4])


def shapes_for(technique):
    """Shapes of random traces: few entries, many rows alive, or few places to go round."""
    if technique.heeds_faults:
        return st.one_of(traces(**SMALL), traces(**SPILLING))
    if technique.placement is Placement.ROUND_ROBIN:
        return traces(**FEW_PLACES)
    return st.one_of(traces(**SMALL), traces(**SMALL, phases=(2, 2)))


@with_compiler
@pytest.mark.parametrize("name", TECHNIQUES)
def test_random_traces(name):
    cuda = cuda_engine()
    (device,) = cuda.devices

    @given(
        trace=shapes_for(TECHNIQUES[name]),
        maps=st.randoms(use_true_random=False),
        delta_limit=st.sampled_from([64, None]),
        seed=st.integers(0, 2**31),
    )
    @settings(max_examples=4, deadline=None)
    def check(trace, maps, delta_limit, seed):
        device.seed = seed
        assert_same(cuda, trace, TECHNIQUES[name], fault_map_batch(maps), delta_limit)

    check()


@with_compiler
@pytest.mark.parametrize("name", possible_techniques())
def test_every_combination_of_policies(name):
    technique = possible_techniques()[name]
    in_turn = technique.placement is Placement.ROUND_ROBIN
    trace = random_trace(random.Random(2), **(FEW_PLACES if in_turn else SMALL))
    assert_same(cuda_engine(seed=2), trace, technique, seeded_fault_maps(2))


@with_compiler
@pytest.mark.parametrize("name", possible_redirections())
def test_many_rows_alive(name):
    """Also with so few sound blocks in faulty entries that compressed rows fill reliable ones."""
    few_blocks = np.where(np.arange(256) % 100 == 7, 0b1011, 0).astype(np.uint8)
    maps = np.vstack([few_blocks, seeded_fault_maps(1)])
    trace = random_trace(random.Random(1), **SPILLING)
    assert_same(cuda_engine(seed=4), trace, possible_redirections()[name], maps)


def test_many_rows_alive_reach_every_counter():
    """Parity of nothing proves nothing."""
    replay = prepare(random_trace(random.Random(1), **SPILLING), TECHNIQUES["rrcd+pg"])
    counters = NUMPY.count(replay, seeded_fault_maps(1))
    assert all(getattr(counters, name).any() for name in COUNTED)


@with_compiler
@pytest.mark.parametrize("name", TECHNIQUES)
def test_times_beyond_32_bits(name):
    """Within a pass, and only of all passes together."""
    trace = random_trace(random.Random(3), **(FEW_PLACES if name == "argo" else SMALL))
    for most_cycles in (2**31 - 1, 2**35):
        longer = most_cycles // trace.cycles
        stretched = dataclasses.replace(
            trace, cycle=trace.cycle * longer, cycles=trace.cycles * longer
        )
        assert_same(cuda_engine(), stretched, TECHNIQUES[name], seeded_fault_maps(3))


@functools.cache
def excerpt():
    return first_generations(bundled_trace("ScanLargeArrays"), 1)


@with_compiler
@pytest.mark.parametrize("name", TECHNIQUES)
def test_excerpt_of_a_real_trace(name):
    """Two kernels, of 3 and of 10 registers, the one with divergent writes."""
    assert_same(cuda_engine(), excerpt(), TECHNIQUES[name], seeded_fault_maps(3))


# ---- exposure --------------------------------------------------------------------------------


def duties_of(replays):
    """The duty cycles on a clean slice."""
    replays = tuple(replays)
    duty = {"zeros": [], "ones": []}
    for replay in replays:
        times = NUMPY.cell_times(replay, np.zeros((1, 256), dtype=np.uint8))
        for kind, all_cells in duty.items():
            all_cells.append((getattr(times, kind)[0] / times.period).ravel())
    at_zero, at_one = (group_by_duty(np.stack(all_cells)) for all_cells in duty.values())
    return FaultFreeDuties(replays, at_zero, at_one)


def live(engine, duties, seed):
    """Slices that go from a shared past to worse and worse faults, kernel after kernel."""
    rng = np.random.default_rng(seed)
    instances = 5
    tracked = TrackedCells(rng.integers(instances, size=300), rng.integers(8 * 2048, size=300))
    stress = engine.stress(duties, tracked, instances)
    mild, heavy = (seeded_fault_maps(seed)[which] for seed, which in ((5, 1), (6, 2)))
    history = []
    for fault_map in (np.zeros_like(mild), mild, mild, heavy):
        running = rng.permutation(instances)[:4]  # in any order, not all
        kernel = rng.integers(len(duties.replays), size=4)
        maps = np.where(running[:, None] % 3 == 0, 0, fault_map).astype(np.uint8)
        seconds = rng.uniform(1e6, 1e9)
        stress.add(running, kernel, maps, seconds)
        back = seconds * rng.uniform(size=4)
        earlier = stress.longest_earlier(running, kernel, maps, back)
        history += [stress.longest.copy(), stress.tracked_seconds.copy(), earlier]
    return history


def random_replays(technique, longer=1):
    for i, shape in enumerate((SPILLING, SMALL)):
        trace = random_trace(random.Random(5 + i), **shape)
        trace = dataclasses.replace(trace, cycle=trace.cycle * longer, cycles=trace.cycles * longer)
        yield prepare(trace, technique)


@with_compiler
@pytest.mark.parametrize("name", possible_fault_heeding_techniques())
def test_stress(name):
    duties = duties_of(random_replays(possible_fault_heeding_techniques()[name]))
    meant, actual = live(NUMPY, duties, 5), live(cuda_engine(), duties, 5)
    assert all(expected.any() for expected in meant[-3:])
    for expected, other in zip(meant, actual, strict=True):
        assert np.array_equal(expected, other)


@with_compiler
@pytest.mark.parametrize("name", ["rrcd", "rrcd+rc+rar"])
def test_stress_beyond_32_bits(name):
    duties = duties_of(random_replays(TECHNIQUES[name], longer=2**27))
    for expected, other in zip(live(NUMPY, duties, 6), live(cuda_engine(), duties, 6), strict=True):
        assert np.array_equal(expected, other)


@with_compiler
def test_nothing_depends_on_memory_order_or_devices():
    """Chunks of one instance or of all, threads in any order, devices in turn."""
    duties = duties_of(random_replays(TECHNIQUES["rrcd+pg"]))
    replay, maps = duties.replays[0], seeded_fault_maps(9)
    meant = live(cuda_engine(), duties, 7), cuda_engine().redirect(replay, maps)
    little = cuda_engine(seed=1, memory_bytes=LITTLE_MEMORY * 5 // 2)
    spread = cuda_engine(seed=11, devices=2, threads=4)
    for engine in (little, spread):
        for expected, other in zip(meant[0], live(engine, duties, 7), strict=True):
            assert np.array_equal(expected, other)
        counters = engine.redirect(replay, maps)
        assert all(
            np.array_equal(getattr(counters, name), getattr(meant[1], name)) for name in COUNTED
        )
    with ThreadPoolExecutor(4) as pool:
        lives = [pool.submit(live, spread, duties, 7) for _ in range(4)]
        for life in lives:
            assert all(map(np.array_equal, meant[0], life.result()))
    assert all(device.launches for device in spread.devices)


@with_compiler
def test_chunks_follow_from_free_memory():
    replay = prepare(random_trace(random.Random(1), **SPILLING), TECHNIQUES["rrcd"])
    maps = seeded_fault_maps(1)
    whole, parts = cuda_engine(), cuda_engine(memory_bytes=LITTLE_MEMORY)
    assert whole.batch > parts.batch == 2
    times = [engine.cell_times(replay, maps) for engine in (whole, parts)]
    assert np.array_equal(times[0].ones, times[1].ones)
    assert np.array_equal(times[0].powered, times[1].powered)
    assert [engine.devices[0].launches for engine in (whole, parts)] == [3, 9]


@with_compiler
def test_tables_leave_the_device_with_their_replay():
    cuda = cuda_engine()
    (device,) = cuda.devices
    replay = prepare(random_trace(random.Random(1), **SPILLING), TECHNIQUES["rrcd"])
    cuda.redirect(replay, seeded_fault_maps(1))
    free = device.free_bytes()
    assert free < device.memory_bytes
    cuda.redirect(replay, seeded_fault_maps(1))
    assert device.free_bytes() == free
    del replay
    assert device.free_bytes() == device.memory_bytes


def test_compilations_are_those_that_replays_ask_for():
    listed = list(compilations())
    assert len(listed) == len({repr(program) for program in listed})
    trace = random_trace(random.Random(4), **FEW_PLACES)
    for technique in TECHNIQUES.values():
        replay = prepare(trace, technique)
        assert stress_program(replay) in listed
        if technique.redirects:
            assert select_program(technique) in listed


@with_compiler
def test_a_sweep_is_the_same_whatever_computes_it():
    spec = SweepSpec(
        instances=3,
        techniques=("baseline", "disable", "gr-guard", "rrcd", "rrcd+pg"),
        scenarios=("clustered",),
        environments=("undervolted",),
        workload={"kernels": ("MatrixTranspose",), "periods": 2, "generations": 1},
        life={"epochs": 2},
    )
    actual, meant = (Sweep(spec, engine).compute(0, 3) for engine in (cuda_engine(seed=8), NUMPY))
    assert actual.keys() == meant.keys()
    for name, values in meant.items():
        assert np.array_equal(values, actual[name], equal_nan=True), name
    assert meant["faulty_entries_start"].any()


# ---- choice ----------------------------------------------------------------------------------


def without_cupy(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "cupy" else find(name)
    )


def test_cuda_by_name_is_not_replaced(monkeypatch):
    without_cupy(monkeypatch)
    for arguments in (("cuda",), ("cuda", (0,)), ("auto", (0, 1))):
        with pytest.raises(UserError, match="CuPy is not installed; pip install 'mcage"):
            select_engine(*arguments)


def test_auto_says_why_there_is_no_gpu(monkeypatch):
    without_cupy(monkeypatch)
    engine, reason = select_engine("auto")
    assert engine.name == "numba"
    assert reason == "the CPU engine; no GPU: CuPy is not installed"


@pytest.mark.parametrize("name", ["numpy", "numba"])
def test_devices_are_for_cuda(name):
    assert select_engine(name)[1] == "asked for"
    with pytest.raises(UserError, match=f"--devices is for the engine 'cuda', not for '{name}'"):
        select_engine(name, (0,))


def test_devices_as_text():
    assert parse_devices(None) is None
    assert parse_devices("0") == (0,)
    assert parse_devices("3,1") == (3, 1)
    for text in ("", "a", "0,", "-1", "0 1", "²"):
        with pytest.raises(UserError, match="must be numbers separated by commas"):
            parse_devices(text)
    with pytest.raises(UserError, match="gives a device twice"):
        parse_devices("1,1")


def test_results_name_the_device():
    devices = [HostDevice(), HostDevice()]
    assert device_of(CudaEngine(devices[:1])) == devices[0].description
    assert device_of(CudaEngine(devices)) == "; ".join(device.description for device in devices)


# ---- with a GPU ------------------------------------------------------------------------------


@functools.cache
def gpu():
    """The engine on real devices, or why there is none."""
    try:
        return select_engine("cuda")[0]
    except UserError as error:
        return str(error)


@pytest.mark.parametrize("name", TECHNIQUES)
def test_on_a_gpu(name):
    cuda = gpu()
    if isinstance(cuda, str):
        pytest.skip(f"no GPU: {cuda}")
    assert_same(cuda, excerpt(), TECHNIQUES[name], seeded_fault_maps(3))
    if TECHNIQUES[name].heeds_faults:
        duties = duties_of([prepare(excerpt(), TECHNIQUES[name])])
        for expected, other in zip(live(NUMPY, duties, 5), live(cuda, duties, 5), strict=True):
            assert np.array_equal(expected, other)
