"""Idle time in which a slice holds: against the oracle, and by hand."""

from dataclasses import replace

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import each
from trace_strategies import ALL_LANES, alloc, pattern, release, trace_of, traces, write

from mcage.costs import CONVENTIONAL, activity_of, entries_that_hold
from mcage.engines.interface import fault_free_maps
from mcage.engines.numpy_engine.engine import NumpyEngine
from mcage.errors import UserError
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES
from mcage.traces import validate_trace
from mcage.traces.transforms import held_while_idle

ENGINE = NumpyEngine()
FULL = np.full(64, 2**32 - 1, dtype=np.uint32)
UNEVEN = np.arange(64, dtype=np.uint32) ** 3 + 5


def tiny_trace():
    """Two slots, one of them twice: plain, compressible and divergent values, and a row unused.

    After 100 cycles, register 0 of slot 0 has last held UNEVEN, and register 1 nothing.
    """
    return trace_of(
        [
            alloc(0, 0, 2),
            write(0, 0, 0, FULL),
            alloc(10, 1, 2),
            write(10, 1, 0, pattern(9)),
            write(30, 1, 0, 0, lanes=ALL_LANES >> 32),
            release(60, 0),
            alloc(70, 0, 2),
            write(75, 0, 0, UNEVEN),
            write(80, 1, 1, pattern(3, 1, 8)),
            release(90, 0),
            release(99, 1),
        ],
        100,
    )


def times(trace, technique):
    found = ENGINE.cell_times(prepare(trace, TECHNIQUES[technique]), fault_free_maps())
    return found.zeros[0], found.ones[0], found.period


@pytest.mark.parametrize("name", oracle.TECHNIQUES)
def test_a_share_of_the_time_cells_hold_what_the_pass_has_left(name):
    """Duty = activity * (duty of the pass) + (1 - activity) * (state at its end).

    The oracle plays the pass event by event; what its cells hold in one cycle more is the state.
    """
    trace = tiny_trace()
    busy, passes = oracle.replay_sum(trace, oracle.TECHNIQUES[name])
    longer, _ = oracle.replay_sum(replace(trace, cycles=101), oracle.TECHNIQUES[name])
    ones_at_end = longer.ones - busy.ones
    zeros_at_end = (longer.powered - longer.ones) - (busy.powered - busy.ones)
    zeros, ones, period = times(held_while_idle(trace, 0.25), name)
    assert period == 4 * passes * 100
    for found, while_busy, at_end in [
        (ones, busy.ones, ones_at_end),
        (zeros, busy.powered - busy.ones, zeros_at_end),
    ]:
        duty = while_busy / busy.cycles
        expected = 0.25 * duty + 0.75 * at_end / passes
        np.testing.assert_allclose(found / period, expected, rtol=0, atol=1e-12)
    powered_at_end = (ones_at_end + zeros_at_end).any()
    assert powered_at_end == (not TECHNIQUES[name].gates_released)


def test_duties_by_hand():
    """Busy half of the time; the three lowest bits of register 0, component 0, in all places.

    Slot 0 holds FULL from cycle 0, 5 from cycle 75 and while it is idle. ARGO has every window in
    another of its 128 places: FULL to cycle 60, 9 from 10 to 30 and 0 to 99, 5 from 75 to 90.
    """
    trace = held_while_idle(tiny_trace(), 0.5)
    zeros, ones, period = times(trace, "baseline")
    assert ones[0, :3] / period == pytest.approx([1, 0.375, 1])
    assert zeros[0, :3] / period == pytest.approx([0, 0.625, 0])
    zeros, ones, period = times(trace, "argo")
    first_registers = slice(0, 256, 2)
    assert ones[first_registers, :3].sum(axis=0) / period == pytest.approx(
        np.array([60 + 20 + 15, 60, 60 + 15]) / 200
    )
    assert zeros[first_registers, :3].sum(axis=0) / period == pytest.approx(
        np.array([69, 20 + 69 + 15, 20 + 69]) / 200
    )


@each("name", TECHNIQUES)
def test_entries_on_while_idle_are_those_that_leak_longer(name):
    trace = tiny_trace()
    busy, whole = (prepare(one, TECHNIQUES[name]) for one in (trace, held_while_idle(trace, 0.5)))
    powered = [
        activity_of(one, ENGINE.count(one, fault_free_maps())).gating.powered_entry_cycles
        for one in (busy, whole)
    ]
    assert entries_that_hold(busy) * 100 == pytest.approx(powered[1] - powered[0])
    assert entries_that_hold(prepare(trace, CONVENTIONAL)) == 256


@given(traces(), st.floats(0.001, 1))
def test_nothing_but_the_length_of_the_pass_changes(trace, activity):
    longer = held_while_idle(trace, activity)
    validate_trace(longer)
    assert abs(longer.cycles - trace.cycles / activity) <= 0.5
    assert longer.cycles >= trace.cycles
    for name in ("cycle", "kind", "slot", "reg", "exec_mask", "value"):
        assert getattr(longer, name) is getattr(trace, name)


def test_a_slice_that_is_always_busy_is_never_idle():
    assert held_while_idle(tiny_trace(), 1.0).cycles == 100


def test_a_pass_beyond_what_a_trace_may_last():
    long = replace(tiny_trace(), cycles=2**30)
    with pytest.raises(
        UserError, match=r"'by hand': its 1073741824 cycles at an activity of 0\.25"
    ):
        held_while_idle(long, 0.25)
