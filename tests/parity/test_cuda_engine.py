"""The CUDA engine by itself: devices, memory, programs, the choice of it; and with a GPU.

Its kernels run on the host device. `test_engines` compares it with the reference.
"""

import functools
import importlib.util
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from engine_cases import (
    COUNTED,
    FEW_PLACES,
    NUMPY,
    assert_same,
    assert_same_lives,
    cuda_engine,
    duties_of,
    live,
    random_replays,
    seeded_fault_maps,
)
from host_gpu.compiler import host_compiler
from host_gpu.host_device import HostDevice
from trace_strategies import SPILLING, random_trace

from mcage.engines.cuda_engine.engine import CudaEngine
from mcage.engines.cuda_engine.programs import compilations, select_program, walk_program
from mcage.engines.select import device_of, parse_devices, select_engine
from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.replays.prepare import prepare
from mcage.spec import SweepSpec
from mcage.sweep.study import Sweep
from mcage.techniques import TECHNIQUES
from mcage.traces import first_generations
from mcage.traces.library import bundled_trace

LITTLE_MEMORY = 40 * 2**20

with_compiler = pytest.mark.skipif(
    host_compiler() is None, reason="no C++ compiler to run the kernels with"
)


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
    assert whole.batch > parts.batch == 16
    times = [engine.cell_times(replay, maps) for engine in (whole, parts)]
    assert np.array_equal(times[0].ones, times[1].ones)
    assert np.array_equal(times[0].powered, times[1].powered)
    assert [engine.devices[0].launches for engine in (whole, parts)] == [3, 15]


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
        assert walk_program((replay,)) in listed
        if technique.redirects:
            assert select_program(technique, GCN) in listed


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
        with pytest.raises(UserError, match=r"CuPy is not installed; pip install '\.\[cuda13\]'"):
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
    replay = prepare(first_generations(bundled_trace("ScanLargeArrays"), 1), TECHNIQUES[name])
    assert_same([cuda], replay, seeded_fault_maps(3))
    if TECHNIQUES[name].heeds_faults:
        assert_same_lives([cuda], duties_of([replay]), 5)
