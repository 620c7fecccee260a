"""Placement on a device: slices of a launch may run different kernels, on different fault maps."""

import dataclasses
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from engine_cases import NUMPY, SMALL, cuda_engine, random_replays, seeded_fault_maps
from host_gpu.compiler import needs_host_compiler
from host_gpu.host_device import HostDevice
from trace_strategies import random_trace

from mcage.engines.cuda_engine import walk
from mcage.engines.cuda_engine.programs import Runner
from mcage.replays.prepare import FixedReplay, prepare
from mcage.techniques import TECHNIQUES

pytestmark = needs_host_compiler

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


@pytest.mark.parametrize("name", ["rrcd", "rrcd+pg", "rrcd+rc+rar", "gr-guard"])
def test_cell_times_of_slices_that_run_different_kernels(monkeypatch, name):
    """Several slices in a launch, and launches one after the other: each as it is alone."""
    monkeypatch.setattr(walk, "TOGETHER", 3)
    replays, maps = tuple(random_replays(TECHNIQUES[name])), seeded_fault_maps(4)
    cuda = cuda_engine(seed=6)
    each = list(cuda.cell_times_each(replays, KERNEL, maps))
    assert len(each) == len(KERNEL)
    for times, number, fault_map in zip(each, KERNEL.tolist(), maps, strict=True):
        expected = NUMPY.cell_times(replays[number], fault_map[None])
        assert times.period == expected.period
        assert np.array_equal(times.ones, expected.ones)
        assert np.array_equal(times.powered, expected.powered)
    (device,) = cuda.devices
    assert device.launches == 2 * 3  # homes, occupants and times, for three slices and for two


def test_a_kernel_with_more_cycles_than_32_bits_among_others():
    """All slices of the launch are then summed up in 64 bits."""
    replays = (
        *random_replays(TECHNIQUES["rrcd"]),
        *random_replays(TECHNIQUES["rrcd"], longer=1 << 26),
    )
    assert replays[0].period < 2**32 < replays[3].period
    kernel, maps = np.array([3, 0]), seeded_fault_maps(4)[1:3]
    for times, number, fault_map in zip(
        cuda_engine().cell_times_each(replays, kernel, maps), kernel.tolist(), maps, strict=True
    ):
        expected = NUMPY.cell_times(replays[number], fault_map[None])
        assert np.array_equal(times.ones, expected.ones)
        assert np.array_equal(times.powered, expected.powered)


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
