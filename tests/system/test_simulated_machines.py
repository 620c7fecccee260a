"""The whole tool on machines whose graphics cards are missing, too old, too new, full or faulty."""

import re
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import h5py
import numpy as np
import pytest
from host_gpu.compiler import needs_host_compiler
from host_gpu.host_device import LaunchError
from simulated_cupy import Card, SimulatedCupy
from sweep_cases import assert_same_arrays, joined

from mcage.engines import select_engine
from mcage.engines.cuda_engine.devices import DeviceError, NoDeviceError
from mcage.engines.numpy_engine import NumpyEngine
from mcage.errors import UserError
from mcage.spec import SweepSpec
from mcage.studies.sweep import study
from mcage.studies.sweep.study import Sweep
from mcage.techniques import TECHNIQUES

pytestmark = needs_host_compiler

MISSING_FOLDER = PermissionError(13, "Permission denied", "/home/cupy")
UNUSABLE = {
    "no NVRTC": (
        {"cards": [Card()], "nvrtc": False},
        "device 0: CuPy finds no NVRTC, which compiles kernels",
        "pip install '.[cuda13]'",
    ),
    "no headers": (
        {"cards": [Card()], "headers": False},
        "device 0: CuPy finds no CUDA headers, without which it compiles nothing",
        "pip install '.[cuda13]' in a clone of mcage, or name CUDA's folder in CUDA_PATH",
    ),
    "old CuPy": (
        {"cards": [Card()], "version": "14.0.1"},
        "CuPy is 14.0.1, and 14.1 is needed",
        "pip install '.[cuda13]' or '.[cuda12]'",
    ),
    "no driver": ({"cards": [], "driver": 0}, "CuPy finds no NVIDIA driver"),
    "no card": ({"cards": []}, "the driver shows no device"),
    "old driver": (
        {"cards": [Card(begins=35)], "driver": 12040},
        "device 0: the driver is for CUDA 12.4, CuPy for CUDA 13",
        "pip install '.[cuda12]'",
    ),
    "old cards": (
        {"cards": [Card((7, 0)), Card((7, 0))]},
        "device 0: Simulated 0 has compute capability 7.0, and 7.5 is needed; device 1: Simulated",
    ),
    "newer than NVRTC": (
        {"cards": [Card((10, 0))], "newest": (9, 0), "runtime": 12040},
        "device 0: CuPy's compiler does not know cards that new (CUDA_ERROR_NO_BINARY_FOR_GPU",
        "pip install '.[cuda13]'",
    ),
    "in exclusive use": (
        {"cards": [Card(begins=46)]},
        "device 0: another program uses it alone (cudaErrorDevicesUnavailable",
    ),
    "no memory at all": (
        {"cards": [Card(begins=2)]},
        "device 0: its memory is full (cudaErrorMemoryAllocation: out of memory)",
    ),
    "little memory": (
        {"cards": [Card(free_bytes=2**29)]},
        "device 0: 0.5 GiB of its memory are free, and 1.0 are needed",
    ),
    "no folder for kernels": (
        {"cards": [Card()], "cache_error": MISSING_FOLDER},
        "device 0: CuPy cannot keep compiled kernels ([Errno 13] Permission denied: '/home/cupy')",
        "CUPY_CACHE_DIR",
    ),
    "kernels go wrong": (
        {"cards": [Card(faults_in="probe")]},
        "device 0: it does not answer (cudaErrorIllegalAddress",
    ),
}
"""What the machine is like, what is said of it, and how it is mended, where that is known."""


@pytest.fixture
def machine(monkeypatch):
    """Simulate a machine with the given cards."""

    def put(*more, cards=(), **given):
        simulated = SimulatedCupy([*cards, *more], **given)
        monkeypatch.setitem(sys.modules, "cupy", simulated)
        return simulated

    return put


SMALL = SweepSpec(
    instances=4,
    techniques=("rrcd",),
    scenarios=("clustered",),
    environments=("undervolted",),
    workload={"kernels": ("MatrixTranspose",), "periods": 2, "generations": 1},
    life={"epochs": 2},
)


@pytest.fixture(scope="module")
def expected():
    """The small sweep by the reference."""
    return Sweep(SMALL, NumpyEngine()).compute(0, 4)


@pytest.fixture
def sweep(tmp_path, command):
    """Run a small sweep."""

    def run(*options):
        spec = tmp_path / "small.toml"
        spec.write_text(SMALL.to_toml())
        return command("sweep", str(spec), "--out", "r.h5", *options)

    return run


def one_line(error):
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert "defect" not in error
    return error


# ---- cards that cannot be used ---------------------------------------------------------------


@pytest.mark.parametrize("name", UNUSABLE)
def test_auto_computes_on_the_cpu_and_says_why_and_what_is_asked_for_is_not_replaced(machine, name):
    given, why, *remedies = UNUSABLE[name]
    machine(**given)
    engine, reason = select_engine("auto")
    assert engine.name == "numba"
    assert reason.startswith(f"the CPU engine; no GPU: {why}")
    assert "\n" not in reason
    with pytest.raises(NoDeviceError) as refused:
        select_engine("cuda")
    assert str(refused.value).startswith(f"engine 'cuda': {why}")
    assert all(remedy in str(refused.value) for remedy in remedies)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_sweep_on_a_machine_without_a_card(machine, sweep, tmp_path):
    given, why, _ = UNUSABLE["no NVRTC"]
    machine(**given)
    code, _, error = sweep("--engine", "cuda")
    assert code == 2
    assert why in one_line(error)
    assert not list(tmp_path.glob("r.h5*"))
    code, _, error = sweep()
    assert code == 0
    assert f"engine numba (the CPU engine; no GPU: {why}" in error
    with h5py.File(tmp_path / "r.h5") as file:
        assert why in file.attrs["engine_reason"]


@pytest.mark.slow
def test_doctor_tells_failure_from_disagreement(machine, command, monkeypatch):
    monkeypatch.setattr("mcage.cli.doctor.TECHNIQUES", {"rrcd": TECHNIQUES["rrcd"]})
    machine(Card((7, 0)), Card(faults_in="place"))
    code, output, _ = command("doctor")
    assert code == 1
    assert "FAIL  cuda   rrcd         device 1 (Simulated 1) failed by the time of" in output
    assert "ENGINES FAIL: cuda in 1 of 2 tests" in output
    assert "DISAGREE" not in output
    assert "left out: device 0: Simulated 0 has compute capability 7.0" in output


# ---- several cards ---------------------------------------------------------------------------


def test_auto_leaves_out_the_card_that_does_not_answer(machine):
    machine(Card(), Card(begins=46))
    engine, reason = select_engine("auto")
    assert engine.name == "cuda"
    assert len(engine.devices) == 1
    assert reason.startswith("a GPU answers; left out: device 1: another program uses it alone")


def test_a_card_that_is_asked_for_is_not_left_out(machine):
    machine(Card(), Card(begins=46))
    for arguments in (("cuda",), ("cuda", (0, 1)), ("auto", (1, 0))):
        with pytest.raises(NoDeviceError, match=r"device 1: another .*; --devices 0 does without"):
            select_engine(*arguments)
    assert select_engine("cuda", (0,))[1] == "asked for"


def test_a_card_that_is_not_asked_for_is_left_alone(machine, expected):
    simulated = machine(Card(begins=2), Card())
    engine, reason = select_engine("auto", (1,), threads=4)
    arrays = Sweep(SMALL, engine, reason).compute(0, 4)
    assert {number for _, number in simulated.set_devices} == {1}
    assert max(Counter(simulated.set_devices).values()) == 1  # once in each thread
    assert_same_arrays(arrays, expected)


def test_threads_are_as_many_as_memory_has_room_for(machine):
    machine(Card(free_bytes=5 * 2**29), Card(free_bytes=2**33))
    engine, _ = select_engine("auto", threads=16)
    assert engine.threads == 4
    assert engine.batch == 249
    assert select_engine("auto", threads=4)[0].threads is None


# ---- cards that fail at work -----------------------------------------------------------------


def test_out_of_memory_halves_the_batch(machine, monkeypatch, expected):
    monkeypatch.setattr(study, "SMALLEST_BATCH", 1)
    card = Card()
    machine(card)
    engine, reason = select_engine("auto")
    said = []
    sweep = Sweep(SMALL, engine, reason, say=said.append)
    sweep.prepare()
    sweep.compute(0, 1)  # what instances share is there
    card.host.memory_bytes += 40 * 2**18 - card.host.free_bytes()  # two instances
    arrays = sweep.compute(0, 4)
    assert [re.sub(r"\(.*\)", "", line) for line in said] == [
        "out of memory : on with batches of 2 instances"
    ]
    assert_same_arrays(arrays, expected)
    parts = [sweep.compute(0, 3), sweep.compute(3, 4)]
    assert_same_arrays(joined(parts), arrays)
    assert len(said) == 1


def test_out_of_memory_to_the_end(machine, sweep, tmp_path):
    machine(Card(memory_bytes=35 * 2**18))
    code, _, error = sweep("--engine", "cuda")
    last = one_line(error.splitlines(keepends=True)[-1])
    assert code == 2
    assert "out of memory" in last
    assert "run the same command again" in last
    assert not (tmp_path / "r.h5").exists()


@pytest.mark.parametrize(("sync", "doing"), [("0", ".*"), ("1", "kernel log_epoch of .*")])
def test_a_fault_is_named_and_its_kernel_if_each_is_waited_for(
    machine, sweep, monkeypatch, sync, doing
):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", sync)
    machine(Card(faults_in="log_epoch"))
    code, _, error = sweep("--engine", "cuda")
    last = one_line(error.splitlines(keepends=True)[-1])
    assert code == 2
    assert re.search(rf"device 0 \(Simulated 0\) failed by the time of: {doing} \(CUDA_LAUN", last)
    assert "cudaErrorIllegalAddress" in last
    assert "run the same command again" in last


@pytest.mark.parametrize(
    ("card", "words"),
    [
        (Card(faults_in="place", with_code=702), r"launch timed out .*: name another one in --dev"),
        (Card(refuses="log_epoch"), r"refuses: kernel log_epoch of epoch_log.cu, grid \(\d+, 4"),
    ],
    ids=["ended by a display", "refused"],
)
def test_a_launch_that_fails_is_that_of_its_kernel(machine, card, words):
    machine(card)
    with pytest.raises(DeviceError, match=words):
        Sweep(SMALL, select_engine("cuda")[0]).compute(0, 4)


def test_a_batch_does_not_begin_on_a_device_that_has_failed(machine):
    """Nor does it in a thread that is new, whose first call of CUDA is that of the batch."""
    simulated = machine(Card())
    engine, _ = select_engine("cuda")
    simulated.cards[0].fault = 700

    def batch():
        with engine.working():
            pass

    with pytest.raises(DeviceError, match="failed by the time of: beginning a batch"):
        batch()
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(DeviceError, match="failed by"),
    ):
        pool.submit(batch).result()
    simulated.cards[0].fault = 0
    simulated.cards[0].begins = 2  # no memory for another stream
    with ThreadPoolExecutor(1) as pool, pytest.raises(MemoryError, match="beginning a batch"):
        pool.submit(batch).result()


# ---- streams and memory of the host ----------------------------------------------------------


def test_batches_have_streams_of_their_own_which_later_batches_use_again(machine):
    """Two batches at a time, two rounds of threads: two streams, each used by one at a time."""
    simulated = machine(Card())
    engine, _ = select_engine("cuda", threads=2)
    begun = len(simulated.streams)
    for _ in range(2):
        together = threading.Barrier(2)

        def batch(together=together):
            device = engine.devices[0]
            with engine.working():
                together.wait(timeout=20)
                with device.current() as lane, engine.working(), device.current() as inner:
                    assert inner.stream is not lane.stream  # of a batch within the batch
                with device.current() as again:
                    assert again is lane
                together.wait(timeout=20)
                return lane.stream

        with ThreadPoolExecutor(2) as pool:
            streams = {pool.submit(batch) for _ in range(2)}
        assert len({id(stream.result()) for stream in streams}) == 2
    assert len(simulated.streams) - begun <= 4


def test_a_batch_that_ends_in_an_error_leaves_no_work_behind(machine):
    """Whoever takes its stream, or the memory of its tables, meets nothing of it."""
    machine(Card())
    engine, _ = select_engine("cuda")
    (device,) = engine.devices
    begun = []

    def batch():
        with engine.working(), device.current() as lane:
            begun.extend([lane.stream.work, device.zeros((3,), np.int32)])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch()
    work, unfinished = begun
    assert work.ended
    assert np.array_equal(device.download(unfinished), np.zeros(3))


def test_what_is_of_another_stream_is_not_used_before_that_is_waited_for(machine):
    """As the simulation has it: without waiting, a table would be there for its own stream only."""
    machine(Card())
    (device,) = select_engine("cuda")[0].devices
    with device.working():
        table, unfinished = device.upload_table(np.arange(3)), device.upload(np.arange(4))
        with ThreadPoolExecutor(1) as pool:
            assert np.array_equal(pool.submit(device.download, table).result(), np.arange(3))
            with pytest.raises(LaunchError, match="another batch"):
                pool.submit(device.download, unfinished).result()


def test_a_thread_beside_all_batches_gives_its_stream_back(machine):
    simulated = machine(Card())
    (device,) = select_engine("cuda")[0].devices
    for _ in range(5):
        thread = threading.Thread(target=lambda: device.download(device.zeros((3,), np.int32)))
        thread.start()
        thread.join()
    assert len(simulated.streams) <= 2  # of the thread that has opened the card, and theirs


def at_work(engine):
    return [on_device.walk.runner.at_work for on_device in engine._on_devices]


def test_batches_go_to_the_card_that_has_fewest(machine):
    machine(Card(), Card(), Card())
    engine, _ = select_engine("cuda", threads=6)
    with engine.working(), engine.working():
        assert sorted(at_work(engine)) == [0, 1, 1]
        with engine.working():
            assert at_work(engine) == [1, 1, 1]
    assert not any(at_work(engine))


def test_a_slow_card_gets_a_batch_when_the_fast_one_would_end_it_later(machine, monkeypatch):
    """The first card takes three times as long for a batch as the second."""
    machine(Card(), Card())
    engine, _ = select_engine("cuda", threads=6)
    now = [0.0]
    monkeypatch.setattr("mcage.engines.cuda_engine.time.monotonic", lambda: now[0])
    for seconds in (3.0, 1.0):  # the second batch begins while the first card is at work
        with ExitStack() as batches:
            if seconds == 1.0:
                engine._on_devices[0].walk.runner.at_work += 1
            batches.enter_context(engine.working())
            now[0] += seconds
    engine._on_devices[0].walk.runner.at_work -= 1
    with ExitStack() as batches:
        order = []
        for _ in range(4):
            before = at_work(engine)
            batches.enter_context(engine.working())
            order.append(int(np.argmax(np.subtract(at_work(engine), before))))
    assert order[:2] == [1, 1]
    assert sorted(order[2:]) == [0, 1]


@pytest.mark.parametrize("pinned", [True, False])
def test_what_is_downloaded_stays(machine, pinned):
    """Also when the next array comes through the same memory of the host."""
    machine(Card(pinned=pinned))
    (device,) = select_engine("cuda")[0].devices
    arrays = [np.arange(n, n + 6, dtype=np.int64).reshape(2, 3) for n in range(3)]
    arrays += [np.zeros((0, 4), np.int32), np.full((300, 700), 7.5)]
    copies = [device.download(on_device) for on_device in device.upload_together(*arrays)]
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(copy, array, strict=True)


@pytest.mark.parametrize("pinned", [True, False])
def test_arrays_on_their_way_down_are_waited_for_together(machine, pinned):
    simulated = machine(Card(pinned=pinned))
    (device,) = select_engine("cuda")[0].devices
    arrays = [np.arange(number, number + 5) for number in range(3)]
    coming = [device.begin_download(device.upload(array)) for array in arrays]
    waits = simulated.calls["wait"]
    for array, download in zip(arrays, coming, strict=True):
        assert np.array_equal(download.result(), array)
    assert simulated.calls["wait"] == waits + 1
    again = device.begin_download(device.upload(arrays[0]))
    with device.working():
        pass  # on another stream: nothing is known of this one
    assert np.array_equal(again.result(), arrays[0])


def test_memory_in_flight_is_not_written_to(machine, monkeypatch):
    """Uploads of any size, more than the ring has room for, before the device is waited for."""
    monkeypatch.setattr("mcage.engines.cuda_engine.devices._HALF_RING_BYTES", 4096)
    simulated = machine(Card())
    (device,) = select_engine("cuda")[0].devices
    rng = np.random.default_rng(1)
    with device.working():
        waits = simulated.calls["wait"]
        arrays = [rng.integers(1 << 40, size=size) for size in rng.integers(1, 700, size=60)]
        there = [device.upload(array) for array in arrays]
        assert simulated.calls["wait"] > waits + 10  # for halves of the ring
        for array, on_device in zip(arrays, there, strict=True):
            assert np.array_equal(device.download(on_device), array)


# ---- halving alone ---------------------------------------------------------------------------


def test_halves_until_it_fits_and_stays_there():
    tried, said = [], []

    def compute(instances):
        tried.append(len(instances))
        if len(instances) > 20:
            raise MemoryError("full")
        return instances

    halves = study.Halving(said.append)
    for first in (0, 100):
        parts = halves.run(compute, np.arange(first, first + 100))
        assert np.array_equal(np.concatenate(parts), np.arange(first, first + 100))
    assert tried == [100, 50, 25, 12, *[12] * 7, 4, *[12] * 8, 4]
    assert said[-1] == "out of memory (full): on with batches of 12 instances"


def test_no_smaller_than_stated():
    tried = []

    def compute(instances):
        tried.append(len(instances))
        raise MemoryError

    with pytest.raises(UserError, match=r"out of memory with 8 instances in a batch \(no memory\)"):
        study.Halving().run(compute, np.arange(20))
    assert tried == [20, 10, study.SMALLEST_BATCH]
