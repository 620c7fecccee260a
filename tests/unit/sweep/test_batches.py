"""Are all threads busy, whatever the size of shards and batches, and are results the same?"""

import threading

import numpy as np
import pytest
from sweep_cases import small_sweep

from mcage.campaign.run import run_campaign
from mcage.engines.numpy_engine.engine import NumpyEngine
from mcage.results.reader import open_results
from mcage.sweep import plan as plan_module
from mcage.sweep import study as study_module
from mcage.sweep.batch import batches, compute_batch

SMALL = {
    "techniques": ["baseline"],
    "environments": ["nominal"],
    "instances": 60,
    "workload": {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1},
    "life": {"epochs": 2},
}


def sweep_on(monkeypatch, cores, largest=NumpyEngine.batch, **keys):
    """A sweep on a machine with so many cores, by an engine with batches of at most a size."""
    monkeypatch.setattr(plan_module, "usable_cores", lambda: cores)
    monkeypatch.setattr(NumpyEngine, "batch", largest)
    return small_sweep("numpy", **SMALL | keys)


@pytest.mark.parametrize(
    ("first", "last", "size"), [(0, 256, 48), (5, 6, 48), (0, 48, 48), (3, 100, 7)]
)
def test_batches_are_alike(first, last, size):
    parts = batches(first, last, size)
    assert np.array_equal(np.concatenate(parts), np.arange(first, last))
    sizes = {len(part) for part in parts}
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    assert len(parts) == -(-(last - first) // size)


@pytest.mark.parametrize(
    ("cores", "largest", "instances", "size"),
    [
        (2, 48, 10_000, 48),
        (16, 48, 10_000, 48),
        (16, 1024, 10_000, 209),
        (16, 1024, 1_000_000, 1024),
        (64, 1024, 10_000, 53),
        (16, 48, 100, 16),
    ],
)
def test_batches_are_chosen_by_work(monkeypatch, cores, largest, instances, size):
    sweep = sweep_on(monkeypatch, cores, largest, instances=instances)
    assert (sweep.study.batch, sweep.study.threads) == (size, cores)
    shard = min(256, instances)
    sizes = []
    monkeypatch.setattr(study_module, "compute_batch", lambda _, part: sizes.append(len(part)))
    monkeypatch.setattr(study_module, "joined", lambda variables, parts: list(parts))
    sweep.compute(0, shard)
    assert max(sizes) <= size
    assert len(sizes) == -(-shard // size)


@pytest.mark.parametrize(("cores", "threads", "size"), [(1, 1, 1024), (2, 2, 834), (16, 2, 834)])
def test_threads_that_cannot_be_busy_get_no_batches(monkeypatch, cores, threads, size):
    """Beside kernels on a device, threads wait for Python: more of them would take longer."""
    monkeypatch.setattr(NumpyEngine, "busy_threads", 2)
    sweep = sweep_on(monkeypatch, cores, 1024, instances=5_000)
    assert (sweep.plan.threads, sweep.study.threads, sweep.study.batch) == (cores, threads, size)


@pytest.mark.parametrize(
    "host_computes",
    [
        {"aging": {"model": "bhardwaj"}},
        {"aging": {"pbti": 0.5}},
        {"aging": {"vmin_model": "margins"}},
        {"aging": {"nbti_spread_mv": 1.0}},
        {"life": {"epochs": 2, "temperature_swing_kelvin": "uniform(0, 10)"}},
        {"techniques": ["disable"]},
    ],
    ids=["model", "pbti", "margins", "spread", "swings", "packing"],
)
def test_all_cores_get_batches_where_the_host_computes_for_long(monkeypatch, host_computes):
    """Its loops over all transistors do not hold Python's lock."""
    monkeypatch.setattr(NumpyEngine, "busy_threads", 2)
    assert sweep_on(monkeypatch, 16, **host_computes).study.threads == 16


@pytest.mark.parametrize("shard_size", [2, 16, 60])
def test_all_threads_are_busy_whatever_the_size_of_shards(monkeypatch, tmp_path, shard_size):
    """Batches of different shards are computed at the same time: each waits for three others."""
    threads = 4
    monkeypatch.setattr(study_module, "batch_by_work", lambda plan: 15)
    sweep = sweep_on(monkeypatch, threads)
    met = threading.Event()
    together = threading.Barrier(threads, action=met.set)  # before any of them goes on

    def meeting(plan, instances):
        if not met.is_set():  # of the last batches there may be fewer
            together.wait(timeout=20)
        return compute_batch(plan, instances)

    monkeypatch.setattr(study_module, "compute_batch", meeting)
    run_campaign(sweep.study, tmp_path / "by_work.h5", shard_size)
    alone = sweep_on(monkeypatch, 1)
    monkeypatch.setattr(study_module, "compute_batch", compute_batch)
    run_campaign(alone.study, tmp_path / "alone.h5")
    with (
        open_results(tmp_path / "by_work.h5") as left,
        open_results(tmp_path / "alone.h5") as right,
    ):
        assert left.equals(right)


def test_an_engine_with_memory_for_fewer_threads_is_used_by_fewer(monkeypatch):
    monkeypatch.setattr(NumpyEngine, "threads", 3)
    assert sweep_on(monkeypatch, 16).plan.threads == 3
