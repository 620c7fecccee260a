"""The CUDA engine by itself: devices, memory, programs, barriers, its choice; and with a GPU.

Its kernels run on the host device. `test_engines` compares it with the reference.
"""

import contextlib
import dataclasses
import functools
import random
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from types import SimpleNamespace

import numpy as np
import pytest
from engine_cases import (
    COUNTED,
    FEW_PLACES,
    NUMPY,
    SMALL,
    assert_same,
    assert_same_lives,
    cuda_engine,
    daily,
    duties_of,
    live,
    random_replays,
    seeded_fault_maps,
)
from host_gpu.compiler import needs_host_compiler
from host_gpu.host_device import HostDevice
from sweep_cases import assert_same_arrays, undervolted_spec
from trace_strategies import SPILLING, random_trace

from mcage.engines import device_of, parse_devices, select_engine
from mcage.engines.cuda_engine import CudaEngine, walk
from mcage.engines.cuda_engine.programs import Runner, compilations, place_program, walk_program
from mcage.engines.cuda_engine.stress import CudaStress
from mcage.engines.parity import ask, compare, demanding_maps, excerpt
from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.replays.prepare import FixedReplay, prepare
from mcage.studies.sweep.study import Sweep
from mcage.techniques import TECHNIQUES
from mcage.traces import first_generations
from mcage.traces.library import bundled_trace

LITTLE_MEMORY = 40 * 2**20


@needs_host_compiler
@pytest.mark.parametrize(
    "engine",
    daily(
        [
            {"seed": 1, "memory_bytes": LITTLE_MEMORY * 5 // 2},
            {"seed": 11, "devices": 2, "threads": 4},
        ],
        [{"seed": 1, "memory_bytes": LITTLE_MEMORY * 5 // 2}],
    ),
    ids=["little memory", "two devices"],
)
def test_nothing_depends_on_memory_order_or_devices(engine):
    """Chunks of one instance or of all, threads in any order, devices in turn."""
    engine, whole = cuda_engine(**engine), cuda_engine()
    duties = duties_of(random_replays(TECHNIQUES["rrcd+pg"]))
    replay, maps = duties.replays[0], seeded_fault_maps(9)
    counters, meant = (each.redirect(replay, maps) for each in (engine, whole))
    for name in COUNTED:
        assert np.array_equal(getattr(counters, name), getattr(meant, name)), name
    meant, threads = live(whole, duties, 7), 2 * len(engine.devices)
    with ThreadPoolExecutor(threads) as pool:
        lives = [pool.submit(live, engine, duties, 7) for _ in range(threads - 1)]
        for life in lives:
            assert all(map(np.array_equal, meant, life.result()))
    assert all(device.launches for device in engine.devices)


@needs_host_compiler
def test_chunks_follow_from_free_memory():
    replay = prepare(random_trace(random.Random(1), **SPILLING), TECHNIQUES["rrcd"])
    maps = seeded_fault_maps(1)
    whole, parts = cuda_engine(), cuda_engine(memory_bytes=LITTLE_MEMORY)
    assert whole.batch > parts.batch == 7
    times = [engine.cell_times(replay, maps) for engine in (whole, parts)]
    assert np.array_equal(times[0].ones, times[1].ones)
    assert np.array_equal(times[0].powered, times[1].powered)
    assert [engine.devices[0].launches for engine in (whole, parts)] == [3, 15]


def test_more_cores_make_no_workspace_smaller(monkeypatch):
    """Batches at work share it: three of them, or more where more threads have one."""
    bytes_each = np.full(1000, 2**20)

    def chunks(cores):
        engine = cuda_engine(memory_bytes=3 * 2**32, threads=cores)
        (here,) = engine._on_devices
        return engine, [len(list(here.walk.runner.chunks(bytes_each)))], here.walk.runner

    assert [chunks(cores)[1] for cores in (2, 16, 64)] == [[1]] * 3  # 1 GiB each
    engine, count, runner = chunks(64)
    with contextlib.ExitStack() as at_work:
        for _ in range(4):
            at_work.enter_context(engine.working())
        assert len(list(runner.chunks(bytes_each))) == 2
    assert len(list(runner.chunks(bytes_each))) == 1
    monkeypatch.setattr("mcage.concurrency._device_sharers", 4)
    shared, count, _ = chunks(64)
    assert count == [4]
    assert engine.batch == 799
    assert shared.batch == 799 // 4


@needs_host_compiler
@pytest.mark.parametrize(("kernels", "cells"), [(3, 700), (1100, 5), (1600, 5)])
def test_longest_times_of_mixtures_of_any_number_of_kernels(kernels, cells):
    """Also of more cells than a block has threads, and than have room in its shared memory."""
    rng, (replay, *_) = np.random.default_rng(2), random_replays(TECHNIQUES["baseline"])
    cycles = rng.integers(100, size=(2, kernels, cells))
    skylines = [SimpleNamespace(duty=each / 100, cells=cells) for each in cycles]
    mixtures = rng.uniform(size=(6, kernels))
    meant = np.zeros((2, 6))
    for which, skyline in enumerate(skylines):
        total = np.zeros((6, cells))
        for kernel in range(kernels):
            total += mixtures[:, kernel, None] * skyline.duty[kernel]
        meant[which] = total.max(axis=1)
    runner = Runner(HostDevice(seed=3), 1)
    there = tuple(runner.shared(skyline.duty) for skyline in skylines)
    stress = CudaStress.__new__(CudaStress)
    stress._runner, stress._duties = runner, SimpleNamespace(replays=(replay,))
    stress._duties_there = SimpleNamespace(of=lambda _: SimpleNamespace(skylines=there))
    assert np.array_equal(stress._longest_of_mixtures(mixtures), meant)


@needs_host_compiler
def test_programs_of_a_plan_are_compiled_before_they_are_asked_for_and_no_other(monkeypatch):
    def in_background(tasks):
        """Done before the plan goes on, however few cores there are."""
        thread = threading.Thread(target=lambda: [task() for task in tasks], name="background")
        thread.start()
        thread.join()

    monkeypatch.setattr("mcage.engines.cuda_engine.in_background", in_background)
    asked, launched, lock = [], set(), threading.Lock()

    class Recording(HostDevice):
        def module(self, source, constants):
            key = source, tuple(constants.items())
            with lock:
                asked.append((key, threading.current_thread().name))
            module = super().module(source, constants)
            launch = module.launch

            def launching(*arguments, **given):
                launched.add(key)
                launch(*arguments, **given)

            module.launch = launching
            return module

    engine = CudaEngine([Recording()])
    sweep = Sweep(undervolted_spec(["baseline", "rrcd", "rrcd+pg"]), engine)
    sweep.compute(0, 3)
    (here,) = engine._on_devices
    wait(here.walk.runner._modules.values())
    ahead = {key for key, thread in asked if thread.startswith("background")}
    assert len({key for key, _ in asked}) == len(asked)
    assert ahead <= launched
    assert {source for (source, _) in launched - ahead} <= {"walk.cu", "place.cu"}
    assert len(ahead) > 8


@needs_host_compiler
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
            assert place_program(technique, GCN) in listed


@needs_host_compiler
@pytest.mark.parametrize(
    ("techniques", "races"),
    daily(
        [("rrcd+pg", False), ("baseline disable gr-guard rrcd", False), ("rrcd", True)],
        [("rrcd+pg", False)],
    ),
)
def test_a_sweep_is_the_same_whatever_computes_it(techniques, races):
    """Cells fail, and sampled cells are counted; nothing uses memory without order."""
    spec, cuda = undervolted_spec(techniques.split()), HostDevice(seed=8, races=races)
    actual, meant = (Sweep(spec, engine).compute(0, 3) for engine in (CudaEngine([cuda]), NUMPY))
    assert_same_arrays(actual, meant)
    assert meant["faulty_entries_start"].any()


# ---- placement: slices of a launch may run different kernels, on different fault maps ----------

KERNEL = np.array([2, 0, 1, 0, 2])


def test_a_batch_is_cut_where_its_slices_need_more_memory():
    """Kernels need workspace of different size; each chunk fits, unless it is a single slice."""
    runner = Runner(HostDevice(memory_bytes=2000), 1)
    cut = list(runner.chunks(np.array([100, 300, 200, 600, 50, 50])))
    assert cut == [slice(0, 2), slice(2, 3), slice(3, 4), slice(4, 6)]


def test_programs_are_compiled_side_by_side_and_each_once():
    """The first two programs wait for each other; a third thread waits for the first program."""
    together = threading.Barrier(2)
    compiled = []

    class Compiling(HostDevice):
        def module(self, source, constants):
            compiled.append(source)
            together.wait(timeout=20)
            return source

    runner = Runner(Compiling(), 1)
    with ThreadPoolExecutor(3) as pool:
        modules = pool.map(runner.module, [("a.cu", {}), ("b.cu", {}), ("a.cu", {})])
    assert list(modules) == ["a.cu", "b.cu", "a.cu"]
    assert sorted(compiled) == ["a.cu", "b.cu"]


def test_a_program_that_did_not_compile_is_tried_again():
    class Failing(HostDevice):
        def module(self, source, constants):
            raise MemoryError(source)

    runner = Runner(Failing(), 1)
    for _ in range(2):
        with pytest.raises(MemoryError, match=r"a\.cu"):
            runner.module(("a.cu", {}))


def assert_each_as_alone(cuda, replays, kernel, maps):
    each = cuda.cell_times_each(replays, kernel, maps)
    for times, number, fault_map in zip(each, kernel.tolist(), maps, strict=True):
        expected = NUMPY.cell_times(replays[number], fault_map[None])
        assert times.period == expected.period
        assert np.array_equal(times.ones, expected.ones)
        assert np.array_equal(times.powered, expected.powered)


@needs_host_compiler
@pytest.mark.parametrize("name", ["rrcd", "rrcd+pg", "rrcd+rc+rar", "gr-guard"])
def test_cell_times_of_slices_that_run_different_kernels(monkeypatch, name):
    """Several slices in a launch, and launches one after the other: each as it is alone."""
    monkeypatch.setattr(walk, "TOGETHER", 3)
    replays, maps = tuple(random_replays(TECHNIQUES[name])), seeded_fault_maps(4)
    cuda = cuda_engine(seed=6)
    assert_each_as_alone(cuda, replays, KERNEL, maps)
    (device,) = cuda.devices
    assert device.launches == 2 * 3  # homes, occupants and times, for three slices and for two


@needs_host_compiler
def test_a_kernel_with_more_cycles_than_32_bits_among_others():
    """All slices of the launch are then summed up in 64 bits."""
    replays = (
        *random_replays(TECHNIQUES["rrcd"]),
        *random_replays(TECHNIQUES["rrcd"], longer=1 << 26),
    )
    assert replays[0].period < 2**32 < replays[3].period
    assert_each_as_alone(cuda_engine(), replays, np.array([3, 0]), seeded_fault_maps(4)[1:3])


@needs_host_compiler
def test_tables_of_a_schedule_are_uploaded_once_wherever_its_windows_lie():
    replay = prepare(random_trace(random.Random(1), **SMALL), TECHNIQUES["baseline"])
    cuda = cuda_engine()
    (device,) = cuda.devices
    uploads = []
    upload_table = device.upload_table
    device.upload_table = lambda array: uploads.append(array) or upload_table(array)
    for shift in (0, 1, 2):
        layout = dataclasses.replace(replay.layout, base=replay.layout.base + shift)
        moved = FixedReplay.of(replay.schedule, layout)
        times, expected = (engine.fixed_times(moved) for engine in (cuda, NUMPY))
        assert np.array_equal(times.ones, expected.ones)
        assert len(uploads) == 4


# ---- races: every access to memory is looked at, whatever the order of threads -----------------


@needs_host_compiler
@pytest.mark.parametrize("name", daily(["argo", "gr-guard", "rrcd+rc+rar"], ["gr-guard"]))
def test_no_memory_is_used_without_order(name):
    """With the sweep above, techniques that ask for every kernel, and every kind of home."""
    replay, maps = prepare(excerpt(), TECHNIQUES[name]), demanding_maps(3)[1:]
    answers = ask(CudaEngine([HostDevice(seed=2, races=True)]), replay, maps)
    assert compare(answers, ask(NUMPY, replay, maps)).bit_equal


# ---- choice ----------------------------------------------------------------------------------


def test_an_engine_by_name():
    for name in ("numpy", "numba"):
        assert select_engine(name)[1] == "asked for"


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
