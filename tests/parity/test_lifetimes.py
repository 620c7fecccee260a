"""Lives from either engine, alone or in a batch, are the same, and so are the times of cells."""

import random

import numpy as np
import pytest
from engine_cases import cuda_engine, daily, seeded_fault_maps
from life_cases import MODEL, NUMBA, NUMPY, YEAR, arrays_of, lived, shared_replays, tail_of
from trace_strategies import SPILLING, random_trace

from mcage.aging.transistors import DelayPath, NbtiSpread, Pbti, TrapLaw
from mcage.aging.vmin import margins
from mcage.engines.interface import fault_free_maps
from mcage.engines.stress import TrackedCells, Turns
from mcage.geometry import GCN
from mcage.lifetime import EndCause
from mcage.techniques import TECHNIQUES


def spread_of(path):
    return NbtiSpread(TrapLaw(2e-3), DelayPath.of(path, GCN.cells))


BY_MARGINS = {"margins": margins("margins"), "pbti": Pbti.of(0.3, MODEL)}
REDIRECTING = [name for name, technique in TECHNIQUES.items() if technique.redirects]
TRACES = tuple(random_trace(random.Random(seed), **SPILLING) for seed in (11, 12))
LENGTHS = (0.7 * YEAR, 2.1 * YEAR, 0.4 * YEAR, 1.3 * YEAR, 0.2 * YEAR)
KERNELS = (0, 1, 0, 1, 0)
FAULT_FREE, MILD, HEAVY = fault_free_maps(), seeded_fault_maps(3)[1:2], seeded_fault_maps(3)[2:3]


def dense(engine, shared, maps):
    """Seconds of every cell, each stretch exposed as if the slice were faulty: float64[2, n]."""
    seconds = np.zeros((2, GCN.cells))
    for kernel, length, one in zip(KERNELS, LENGTHS, maps, strict=True):
        times = engine.cell_times(shared.replays[kernel], one)
        seconds[0] += times.zeros[0].ravel() * (length / times.period)
        seconds[1] += times.ones[0].ravel() * (length / times.period)
    return seconds


CLEAN, FAULTS_COME = [FAULT_FREE] * 5, [FAULT_FREE, FAULT_FREE, MILD, HEAVY, FAULT_FREE]


@pytest.mark.parametrize("maps", [CLEAN, FAULTS_COME], ids=["clean", "faults come"])
@pytest.mark.parametrize(
    ("engine", "technique"), [(NUMPY, "rrcd"), *((NUMBA, name) for name in REDIRECTING)]
)
def test_times_are_those_of_each_stretch(engine, technique, maps):
    """Two kernels on a clean slice, or also on a fault map, a worse one, and a clean one again.

    Up to rounding, of which each stretch may add its own.
    """
    tracked = np.random.default_rng(1).choice(GCN.cells, 5000, replace=False)
    shared = shared_replays(engine, TRACES, TECHNIQUES[technique])
    stress = engine.stress(shared.duties, TrackedCells(np.zeros_like(tracked), tracked), 1)
    for kernel, length, one in zip(KERNELS, LENGTHS, maps, strict=True):
        stress.add(np.array([0]), Turns.single(np.array([kernel])), one, length)
    times = dense(NUMBA, shared, maps)
    assert times[:, tracked].any(axis=1).all()
    tolerance = {"rtol": 1e-12, "atol": 1e-12 * sum(LENGTHS)}
    assert np.allclose(stress.tracked_seconds.now, times[:, tracked], **tolerance)
    assert np.allclose(stress.longest[:, 0], times.max(axis=1), **tolerance)


# ---- batches -----------------------------------------------------------------------------------


def random_tail(instance):
    """Weak cells of one instance, the more the higher its number; none of instance 0."""
    rng = np.random.default_rng(instance)
    count = 600 * instance
    cells = rng.choice(GCN.cells, count, replace=False)
    return dict(zip(cells.tolist(), rng.uniform(0.93, 1.002, count).tolist(), strict=True))


def random_kernels(instance):
    return np.random.default_rng(100 + instance).integers(2, size=10)


@pytest.mark.parametrize(
    "technique",
    daily(["baseline", "disable", "gr-guard", "rrcd", "rrcd+rc+rar"], ["disable", "rrcd+rc+rar"]),
)
def test_an_instance_does_not_depend_on_its_batch(technique):
    instances = range(16)
    options = {"engine": NUMBA, "delay_guardband": 0.18, "lds_rows": 8}

    def lives(some):
        tail = tail_of(*(random_tail(one) for one in some))
        kernels = np.stack([random_kernels(one) for one in some])
        return lived(TRACES, technique, tail, range(0, 40000, 97), kernels, **options)

    together = lives(instances)
    assert len(set(together.end.cause.tolist())) > 1, "all lives end alike"
    alone = [lives([one]) for one in instances]
    backwards = lives(list(reversed(instances)))
    for name, batch in arrays_of(together).items():
        single = np.concatenate([arrays_of(life)[name] for life in alone])
        assert np.array_equal(batch, single, equal_nan=True), name
        assert np.array_equal(batch, arrays_of(backwards)[name][::-1], equal_nan=True)


@pytest.mark.parametrize(
    ("technique", "changes"),
    [
        ("disable", {}),
        ("rrcd+rc+rar", {"spread": spread_of("word"), "delay_guardband": 0.03, **BY_MARGINS}),
        *daily(
            [
                ("rrcd+pg", {}),
                ("rrcd", {"spread": spread_of("worst"), "delay_guardband": 0.13, **BY_MARGINS}),
            ],
            [],
        ),
    ],
)
def test_engines_live_the_same_lives(technique, changes):
    """Also where transistors differ that are stressed alike, and cells fail by a margin."""
    kernels = np.stack([random_kernels(one) for one in (1, 7, 12)])
    tail = tail_of(*(random_tail(one) for one in (1, 7, 12)))
    engines = [NUMPY, NUMBA, *([cuda_engine()] if technique == "rrcd" else [])]
    meant, *others = (
        lived(TRACES, technique, tail, range(100), kernels, engine=engine, lds_rows=8, **changes)
        for engine in engines
    )
    assert not changes or EndCause.DELAY in meant.end.cause
    for name, values in arrays_of(meant).items():
        for lives in others:
            assert np.array_equal(values, arrays_of(lives)[name], equal_nan=True), name
