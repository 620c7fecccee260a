"""Slowdown and power of lives: against mcage.costs, against each other, and by hand."""

import random

import numpy as np
import pytest
from engine_cases import daily, daily_policies, possible_techniques, seeded_fault_maps
from life_cases import (
    NUMBA,
    YEAR,
    cell,
    lived,
    random_values,
    shared_replays,
    steady_trace,
    tail_of,
    whole_entries,
)
from power_cases import COSTS, NODE, conventional_power, map_of, power
from sweep_cases import SMALL_KERNELS, small_sweep
from trace_strategies import SPILLING, alloc, random_trace, read, release, trace_of, write

from mcage.aging.environment import environment
from mcage.costs.activity import CONVENTIONAL, KernelActivity, activity_of, conventional, of_all
from mcage.engines.numpy_engine import NumpyEngine
from mcage.files.disk_cache import arrays_of_record
from mcage.lifetime.outcomes import LifeMoments, Meter
from mcage.replays.outcome import EVENTS, Counters, Event, events_per_cycle
from mcage.replays.prepare import prepare
from mcage.spec.epochs import growth_weights
from mcage.techniques import TECHNIQUES
from mcage.traces import first_generations, open_trace
from mcage.traces.transforms import released


def consumed(traces, technique, tail=None, kernels=None, conditions=None, **changes):
    """What lives on some traces take, at 1.0 V by default."""
    changes["environment"] = conditions or environment("turbo", 0.419)
    life = lived(traces, technique, tail, kernels=kernels, engine=NUMBA, **changes)
    meter = Meter(
        fault_free=shared_replays(NUMBA, tuple(traces), technique),
        conventional=of_all([conventional(trace) for trace in traces]),
        environment=changes["environment"],
        technology=NODE,
        penalties=COSTS.penalties,
    )
    return meter.read(life.moments), life


# ---- counters to activity ----------------------------------------------------------------------


def random_counters(replay, rng):
    """Any counts up to the most that there can be, many of which no engine would find."""
    schedule = replay.schedule
    lasting = int((schedule.end_cycle - schedule.cycle).sum())
    most = [schedule.writes] * 4 + [schedule.reads, 256, lasting, schedule.writes]
    counts = [rng.integers(0, replay.passes * one + 1, 40) for one in most]
    # Those that go to memory are some of those that are spilled.
    in_memory = [rng.integers(0, counts[spilled] + 1) for spilled in (3, 4)]
    return Counters(replay.passes, *counts, *in_memory)


@pytest.mark.parametrize("name", daily(possible_techniques(), daily_policies()))
def test_activity_is_that_of_the_counters(name):
    """All of `Activity`, also where more is spilled than there are uncompressed values."""
    technique, rng = possible_techniques()[name], np.random.default_rng(0)
    for seed, shape in enumerate([{}, SPILLING]):
        replay = prepare(random_trace(random.Random(seed), **shape), technique)
        activity = KernelActivity.of(replay)
        counted = NumpyEngine().count(replay, seeded_fault_maps(seed))
        for counters in [counted] + [random_counters(replay, rng)] * technique.redirects:
            expected = activity_of(replay, counters)
            computed = activity.under(events_per_cycle(replay, counters))
            assert_same_activity(computed, expected, len(counters.lds))


def assert_same_activity(computed, expected, instances):
    numbers, references = (arrays_of_record(of, "did") for of in (computed, expected))
    assert numbers.keys() == references.keys()
    for name, value in numbers.items():
        assert value == pytest.approx(references[name], rel=1e-12, abs=1e-6), name
        assert value.shape in ((), (instances,)), name


# ---- power of a life ---------------------------------------------------------------------------


LIVED = ("baseline", "rc+rar", "wc", "rrcd", "rrcd+rc+rar", "gr-guard")


@pytest.fixture(scope="module")
def kernels():
    return [first_generations(released(open_trace(name)), 2) for name in SMALL_KERNELS]


@pytest.mark.parametrize("name", daily(LIVED, ["wc", "rrcd+rc+rar"]))
def test_power_is_that_of_the_replays(name, kernels):
    """Four, one and five of ten years on three kernels, on one map: means of their powers."""
    technique = TECHNIQUES[name]
    moves = technique.heeds_faults
    tail = tail_of(whole_entries(set(range(256)) - set(range(3, 256, 40))) if moves else {})
    years = [0] * 4 + [1] + [2] * 5
    found, life = consumed(kernels, technique, tail, np.array([years]), lds_rows=256)
    assert life.end.seconds == pytest.approx([10 * YEAR])
    alone = [power(trace, technique, map_of(tail), vdd_volts=1.0) for trace in kernels]
    mean = np.average([mw[0] for mw, _ in alone], weights=[4, 1, 5])
    assert found.power_mw == pytest.approx([mean], rel=1e-12)
    speed = np.array([1 / (1 + slower[0]) for _, slower in alone])
    work = speed * [0.4, 0.1, 0.5]
    assert 1 + found.slowdown == pytest.approx([1 / work.sum()], rel=1e-12)
    reference = np.array([conventional_power(trace, vdd_volts=1.0) for trace in kernels])
    assert 1 - found.energy_saving == pytest.approx([mean / (work @ reference)], rel=1e-12)
    nominal = np.array([conventional_power(trace) for trace in kernels])
    expected = work @ nominal / work.sum()
    assert found.conventional_power_mw == pytest.approx([expected], rel=1e-12)
    assert (life.writes.fractions[0, 3] > 0) == moves, "spills, where there can be any"


def test_only_the_slice_runs_at_the_operating_points(kernels):
    """Half of a life at 0.8 V, half at 0.419 V: the power is half-way between."""
    technique, (trace, *_) = TECHNIQUES["rrcd"], kernels
    found, _ = consumed([trace], technique, conditions=environment("dvfs", 0.419))
    clean = np.zeros((1, 256), dtype=np.uint8)
    high, low = (power(trace, technique, clean, vdd_volts=vdd)[0] for vdd in (0.8, 0.419))
    assert found.power_mw == pytest.approx((high + low) / 2, rel=1e-12)
    both = [conventional_power(trace, vdd_volts=vdd) for vdd in (0.8, 0.419)]
    slower = found.slowdown
    expected = 1 - found.power_mw * (1 + slower) / np.mean(both)
    assert found.energy_saving == pytest.approx(expected, rel=1e-12)
    assert found.conventional_power_mw == pytest.approx([both[0]], rel=1e-12), "0.8 V is nominal"


def test_power_follows_the_faults_as_they_grow():
    """200 registers, of which 30 are spilled once 86 entries have failed, after some years."""
    technique, trace = TECHNIQUES["rrcd"], steady_trace(random_values(200))
    from_start = whole_entries(range(8, 180, 2))
    growing = dict.fromkeys(from_start, 0.93)
    lives = tail_of({}, growing, from_start)
    found, life = consumed([trace], technique, lives, lds_rows=256)
    assert life.faulty_entries.at_start.tolist() == [0, 0, 86]
    assert life.faulty_entries.at_end.tolist() == [0, 86, 86]
    assert life.spills.peak_rows.tolist() == [0, 30, 30]
    edges = YEAR * np.arange(11.0)
    assert np.array_equal(life.moments.seconds[1], growth_weights(edges[:-1], edges[1:]).T)
    assert (np.diff(life.moments.events[1, ..., Event.LDS].ravel()) >= 0).all(), "in their order"
    assert found.slowdown[0] < found.slowdown[1] < found.slowdown[2]
    low, high = sorted(found.power_mw[[0, 2]])
    assert low < found.power_mw[1] < high


def test_waiting_by_hand():
    """Two windows of 40 entries, one after the other if but one fits: 9 of 100 cycles more."""
    events = []
    for slot in range(2):
        events += [alloc(0, slot, 40), write(1, slot, 0, 1), read(3, slot, 0), release(8, slot)]
    trace, disable = trace_of(events, 100), TECHNIQUES["disable"]
    one_window = whole_entries(set(range(256)) - set(range(100, 140)))
    found, life = consumed([trace], disable, tail_of({}, one_window))
    assert life.end.seconds == pytest.approx([10 * YEAR] * 2)
    assert found.slowdown == pytest.approx([0, 0.09])
    cells = NODE.slice_at(1.0)
    leakage = cells.leakage_mw * 80 / 256
    accesses = 2 * 4 * (cells.read_pj + cells.write_pj) / 100
    assert found.power_mw == pytest.approx([leakage + accesses, leakage + accesses / 1.09])
    reference = cells.leakage_mw + accesses
    expected = 1 - (1.09 * leakage + accesses) / reference
    assert found.energy_saving[1] == pytest.approx(expected)


def test_a_life_that_ends_without_a_window_does_not_wait_for_ever():
    trace, disable = steady_trace(random_values(40)), TECHNIQUES["disable"]
    but_one = whole_entries(set(range(256)) - set(range(40)))
    last = {cell(5, 512 * block): 0.98 for block in range(4)}
    found, life = consumed([trace], disable, tail_of(but_one | last))
    assert 0 < life.end.seconds[0] < 10 * YEAR
    assert found.slowdown == [0]
    assert np.isfinite(found.power_mw).all()


def test_dead_on_arrival(kernels):
    found, life = consumed(kernels, TECHNIQUES["baseline"], tail_of(whole_entries([0]), {}))
    assert life.end.seconds.tolist() == [0, 10 * YEAR]
    for name, array in arrays_of_record(found, "found").items():
        assert np.isnan(array[0]).all(), name
        assert not np.isnan(array[1]).any(), name


def test_events_of_lives_are_their_means_times_seconds():
    """To the last bit as the mean over turns, and the sum over moments, of arrays."""
    rng, shape = np.random.default_rng(0), (5, 12, 3)
    seconds, events = rng.random(shape), rng.random((*shape, 9, EVENTS))
    weight = rng.random((5, 12, 9))
    mean = sum(weight[:, :, None, turn, None] * events[:, :, :, turn] for turn in range(9))
    moments = LifeMoments(seconds, events, np.zeros(weight.shape, dtype=np.int64), weight)
    expected = (seconds[..., None] * mean).sum(axis=(1, 2))
    np.testing.assert_array_equal(moments.events_of_lives(), expected)


# ---- sweeps ------------------------------------------------------------------------------------


def test_power_of_a_sweep(kernels):
    """Of techniques that ignore faults: mcage.costs of each kernel, weighted by the workload."""
    names = ["mcage.costs:CONVENTIONAL", "rc+rar", "argo"]
    sweep = small_sweep(
        techniques=names,
        environments=["turbo"],
        costs={"technology": "32nm"},
        workload={"kernels": list(SMALL_KERNELS[:2]), "periods": 3, "generations": 2},
        life={"epochs": 3, "delay_guardband": 10.0},
    )
    arrays, node = sweep.compute(0, 6), COSTS.technology("32nm")
    assert (arrays["life_years"] == 10).all()
    clean = np.zeros((1, 256), dtype=np.uint8)
    for case, name in enumerate(names):
        technique = TECHNIQUES.get(name, CONVENTIONAL)
        of_kernel = np.array([power(trace, technique, clean, node, 1.0)[0][0] for trace in kernels])
        of_mixes = of_kernel[arrays["mix_kernel"]] * arrays["mix_share"]
        expected = of_mixes.sum(axis=2).mean(axis=1)
        assert arrays["power_mw"][case] == pytest.approx(expected, rel=1e-12)
    assert not arrays["slowdown"][0].any()
    assert not arrays["energy_saving"][0].any()
    at_nominal = arrays["conventional_power_mw"][0]  # 1.0 V at 32 nm
    assert arrays["power_mw"][0] == pytest.approx(at_nominal)


def test_the_saving_of_a_paper_follows_from_the_file(kernels):
    """An undervolted RRCD over a conventional slice at nominal Vdd, with slowdown 1 + s."""
    sweep = small_sweep(
        techniques=["rrcd", "mcage.costs:CONVENTIONAL"],
        environments=["undervolted"],
        vdd_volts=[0.419, 0.8],
        workload={"kernels": ["MatrixTranspose"], "periods": 1, "generations": 2},
        life={"epochs": 2, "horizon_years": 1.0, "delay_guardband": 10.0},
    )
    arrays, (trace, *_) = sweep.compute(0, 4), kernels
    labels = [(case["technique"], case["vdd_volts"]) for case in sweep.header.cases]
    low = labels.index(("rrcd", 0.419))
    nominal = labels.index(("mcage.costs:CONVENTIONAL", 0.8))
    assert (arrays["life_years"][[low, nominal]] == 1).all()
    spent = arrays["power_mw"][low] * (1 + arrays["slowdown"][low])
    assert arrays["conventional_power_mw"][low] == pytest.approx(arrays["power_mw"][nominal])
    saving = 1 - spent / arrays["conventional_power_mw"][low]
    assert np.array_equal(arrays["energy_saving_nominal"][low], saving)
    assert (saving > arrays["energy_saving"][low]).all()
    same = conventional_power(trace, vdd_volts=0.419)
    assert arrays["energy_saving"][low] == pytest.approx(1 - spent / same, rel=1e-12)
