"""Lives of slices that hold while they are idle: ages, and what holding takes."""

import numpy as np
import pytest
from life_cases import (
    NUMBA,
    YEAR,
    alternating_trace,
    cell,
    dvth,
    random_values,
    rules,
    steady_trace,
    tail_of,
    whole_entries,
)
from nbti_cases import MODELS
from power_cases import COSTS, NODE, conventional_power, map_of, power
from sweep_cases import SMALL_KERNELS, small_sweep

from mcage.aging.environment import environment
from mcage.costs import conventional
from mcage.lifetime.costs import Meter
from mcage.lifetime.end_cause import EndCause
from mcage.lifetime.fault_free import fault_free_replays
from mcage.lifetime.simulator import SliceBatch, simulate_lifetimes
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES
from mcage.traces import first_generations, open_trace
from mcage.traces.transforms import held_while_idle
from mcage.variation.fault_maps import NewSlices

ZERO = np.zeros(64, dtype=np.uint32)


def held_life(trace, technique, activity, tail=None, sample=(), **changes):
    """A life of ten years on one trace, and what it takes at 1.0 V."""
    tail = tail or tail_of({})
    busy = prepare(trace, TECHNIQUES[technique])
    whole = prepare(held_while_idle(trace, activity), TECHNIQUES[technique])
    shared = fault_free_replays(NUMBA, (busy,), (whole,))
    given = rules(holds_while_idle=True, **changes)
    kernels = np.zeros((tail.instances, len(given.epoch_edges_years) - 1), dtype=np.int64)
    sampled = np.tile(np.array(sample, dtype=np.int64), (tail.instances, 1))
    new = NewSlices.at(given.environment.lowest_vdd_volts, tail)
    life = simulate_lifetimes(given, NUMBA, shared, SliceBatch(kernels, new, sampled))
    meter = Meter(
        shared, (conventional(trace),), environment("nominal", 0.419), NODE, COSTS.penalties
    )
    return life, meter.read(kernels, life.moments)


# ---- ages --------------------------------------------------------------------------------------


def test_what_a_pass_leaves_is_held():
    """At '0' for 50 of 100 cycles, then '1'; busy for 40 % of the time: duties 0.2 and 0.8."""
    trace = alternating_trace(ZERO, 50, ~ZERO)
    life, _ = held_life(trace, "baseline", 0.4, sample=[cell(0)])
    expected = [dvth(10 * YEAR, 0.2), dvth(10 * YEAR, 0.8)]
    assert life.degradation.max_dvth_volts[0] == pytest.approx(expected, rel=1e-9)
    assert life.degradation.sampled_dvth_volts[0, 0] == pytest.approx(expected, rel=1e-9)
    assert life.degradation.longest_duty[0] == pytest.approx([0.2, 0.8])


def test_what_a_pass_leaves_is_held_under_models_that_follow_every_epoch():
    model = MODELS["bhardwaj"]
    trace = alternating_trace(ZERO, 50, ~ZERO)
    life, _ = held_life(trace, "baseline", 0.4, nbti=model, sample=[cell(0)])
    conditions = environment("nominal", 0.419)
    expected = [model.dvth_at(conditions, duty, 10 * YEAR) for duty in (0.2, 0.8)]
    assert life.degradation.max_dvth_volts[0] == pytest.approx(expected, rel=1e-6)
    assert life.degradation.longest_duty[0] == pytest.approx([0.2, 0.8])


def test_what_is_switched_off_at_the_end_of_a_pass_recovers():
    """The same under ARGO, in 256 places; the release a cycle before the end ends the '1'."""
    trace = alternating_trace(ZERO, 50, ~ZERO)
    life, _ = held_life(trace, "argo", 0.4)
    assert life.degradation.longest_duty[0] == pytest.approx([0.2 / 256, 0.4 * 0.49 / 256])


def test_what_faults_have_moved_is_held_too():
    """The only row moves from entry 0 to entry 1, in every technique that moves rows."""
    tail = tail_of(whole_entries([0]))
    for technique in ("rrcd", "gr-guard", "disable"):
        trace = steady_trace(random_values(1))
        life, _ = held_life(trace, technique, 0.3, tail, sample=[cell(0, 5), cell(1, 5)])
        bit = int(random_values(1)[0, 0]) >> 5 & 1
        expected = [[0, 0], [0, 0]]
        expected[1][bit] = dvth(10 * YEAR)
        assert life.degradation.sampled_dvth_volts[0] == pytest.approx(
            np.array(expected), rel=1e-9
        ), technique


TECHNIQUE_NAMES = ["baseline", "argo", "rc+rar", "rrcd", "rrcd+rc+rar"]


@pytest.fixture(scope="module")
def sweeps():
    """Slices that are half of the time off, or on."""

    def arrays(**idle):
        options = {"techniques": TECHNIQUE_NAMES, "environments": ["nominal"]}
        sweep = small_sweep(**options, life={"epochs": 4, "delay_guardband": 100} | idle)
        return sweep.compute(0, 6)

    return arrays(activity=0.5), arrays(activity=0.5, idle="held")


def test_holding_ages_what_nothing_switches_off(sweeps):
    gated, held = (one["max_dvth_mv"] for one in sweeps)
    for index, name in enumerate(TECHNIQUE_NAMES):
        if TECHNIQUES[name].gates_released:
            assert held[index] == pytest.approx(gated[index], rel=1e-4), name
        else:
            assert (held[index] > 1.05 * gated[index]).all(), name


def test_events_and_slowdown_are_those_of_the_busy_time(sweeps):
    gated, held = sweeps
    for name in ("write_share", "slowdown", "movs_per_write", "mispredictions_per_write"):
        # Idle passes are rounded to whole cycles, so that kernels' shares differ a little.
        assert held[name] == pytest.approx(gated[name], rel=1e-4, abs=1e-12), name
    assert (held["activity"] == 0.5).all()


def test_leakage_while_holding_is_paid_for(sweeps):
    gated, held = sweeps
    gates = [TECHNIQUES[name].gates_released for name in TECHNIQUE_NAMES]
    more = held["power_mw"] - gated["power_mw"]
    assert more[gates] == pytest.approx(0, abs=2e-3)
    at_nominal = NODE.slice_at(1.0).leakage_mw  # of the whole slice, for as long as it is busy
    rrcd = TECHNIQUE_NAMES.index("rrcd")
    assert more[rrcd] == pytest.approx(at_nominal, rel=1e-3)
    conventional_more = held["conventional_power_mw"] - gated["conventional_power_mw"]
    assert conventional_more == pytest.approx(NODE.slice.leakage_mw, rel=1e-3)
    assert (held["energy_saving"][gates] > gated["energy_saving"][gates]).all()


# ---- what holding takes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "entries"), [("baseline", None), ("rrcd", 256), ("rc+rar", 0), ("argo", 0)]
)
def test_power_by_hand(name, entries):
    """Busy a quarter of the time: three times as long the entries that hold leak."""
    trace = first_generations(open_trace(SMALL_KERNELS[0]), 2)
    if entries is None:
        entries = int(prepare(trace, TECHNIQUES[name]).needed.sum())
    life, consumed = held_life(trace, name, 0.25)
    assert life.end.cause == [EndCause.CENSORED]
    busy_mw, slower = power(trace, TECHNIQUES[name], np.zeros((1, 256), np.uint8), vdd_volts=1.0)
    leakage_mw = NODE.slice_at(1.0).leakage_mw
    rest = held_while_idle(trace, 0.25).cycles / trace.cycles - 1
    assert rest == pytest.approx(3, rel=1e-4)
    expected = busy_mw + rest * leakage_mw * entries / 256
    assert consumed.power_mw == pytest.approx(expected)
    assert consumed.slowdown == pytest.approx(slower, abs=1e-12)
    other = conventional_power(trace, vdd_volts=1.0) + rest * leakage_mw
    assert consumed.energy_saving == pytest.approx(1 - expected * (1 + slower) / other)
    nominal = conventional_power(trace) + rest * NODE.slice.leakage_mw
    assert consumed.conventional_power_mw == pytest.approx(nominal)


def test_waits_lengthen_the_work_and_not_the_rest():
    """Two rows in two slots, and a slice on which one window fits: twice the time, less idle."""
    trace = first_generations(open_trace(SMALL_KERNELS[0]), 2)
    size = trace.kernels[0].window_size
    tail = tail_of(whole_entries(range(size, 256)))
    packing = prepare(trace, TECHNIQUES["disable"]).packing
    waits = packing.slowdown(map_of(tail))[0]
    assert waits > 0.2
    life, consumed = held_life(trace, "disable", 0.5, tail)
    assert consumed.slowdown == pytest.approx(waits)
    idle = prepare(held_while_idle(trace, 0.5), TECHNIQUES["disable"]).packing
    cycles = trace.cycles * (1 + waits)
    assert idle.timing(packing.places(map_of(tail)[0])).cycles == round(cycles + trace.cycles)
    assert life.end.seconds == [10 * YEAR]
