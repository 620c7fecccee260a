"""Idle time in which a slice holds: against the oracle, and by hand."""

import warnings
from dataclasses import replace
from typing import get_args

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import each
from trace_strategies import ALL_LANES, alloc, pattern, read, release, trace_of, traces, write

from mcage.costs.activity import CONVENTIONAL, activity_of, entries_that_hold
from mcage.engines.interface import fault_free_maps
from mcage.engines.numpy_engine import NumpyEngine
from mcage.engines.parity import excerpt
from mcage.errors import UserError
from mcage.replays.prepare import prepare
from mcage.spec import SweepSpec
from mcage.spec.sections import Workload
from mcage.techniques import TECHNIQUES
from mcage.traces import ALLOC, KERNELS, RELEASE, Trace, open_trace, save_trace, validate_trace
from mcage.traces.library import PaddedTraceWarning, uses_lower_half_only
from mcage.traces.model import WRITE
from mcage.traces.transforms import (
    RELEASES,
    held_while_idle,
    release_cycles,
    released,
    released_with_wavefronts,
    wavefront_ends,
)

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


def test_a_pass_beyond_what_a_trace_may_last():
    long = replace(tiny_trace(), cycles=2**30)
    with pytest.raises(
        UserError, match=r"'by hand': its 1073741824 cycles at an activity of 0\.25"
    ):
        held_while_idle(long, 0.25)


# Windows released with their wavefronts instead of their work-groups.


def work_groups() -> Trace:
    """Two work-groups of two wavefronts, one after the other, in slots 0 and 1."""
    events = []
    for begin in (0, 40):
        for slot, busy in ((0, 10), (1, 25)):
            events += [
                alloc(begin, slot, 2),
                write(begin + 2, slot, 1, 7),
                read(begin + busy, slot, 1),
                release(begin + 30, slot),
            ]
    trace = trace_of(events, 80)
    return replace(trace, alloc_work_group=np.array([0, 0, 1, 1], dtype=np.uint32))


@each(
    ("changes", "ends"),
    [
        ({}, [15, 30, 55, 70]),
        ({"alloc_work_group": [0] * 4, "alloc_launch": [0, 0, 1, 1]}, [15, 30, 55, 70]),
        ({"alloc_work_group": [0, 1, 2, 3]}, [30, 30, 70, 70]),
    ],
)
def test_a_wavefront_ends_as_long_after_its_last_access_as_the_last_of_its_group(changes, ends):
    """Groups of two launches are different ones; alone in one, it ends when it was released."""
    columns = {name: np.array(column, np.uint32) for name, column in changes.items()}
    assert wavefront_ends(replace(work_groups(), **columns)).tolist() == ends


def test_windows_that_were_not_released_together_stay_as_recorded():
    """A recorder that frees a window with its wavefront has told when it ends."""
    trace = work_groups()
    earlier = trace.cycle.copy()
    earlier[(trace.kind == RELEASE) & (trace.slot == 0) & (trace.cycle == 30)] = 20
    by_wavefront = replace(trace, cycle=earlier)
    assert wavefront_ends(by_wavefront).tolist() == [20, 30, 55, 70]


def test_by_wavefront_unless_told_otherwise():
    trace = work_groups()
    assert release_cycles(released(trace)).tolist() == [15, 30, 55, 70]
    assert release_cycles(released(trace, "work-group")).tolist() == [30, 30, 70, 70]
    assert SweepSpec().workload.release == "wavefront"
    assert set(RELEASES) == set(get_args(Workload.model_fields["release"].annotation))


@given(traces())
def test_only_releases_move_and_only_forward(trace):
    """And twice is as good as once."""
    changed = released_with_wavefronts(trace)
    validate_trace(changed)
    assert changed.cycles == trace.cycles
    assert (release_cycles(changed) <= release_cycles(trace)).all()
    for name in ("cycle", "kind", "slot", "reg", "exec_mask", "value"):
        before = getattr(trace, name)[trace.kind != RELEASE]
        assert np.array_equal(getattr(changed, name)[changed.kind != RELEASE], before)
    assert (changed.kind[changed.alloc_event] == ALLOC).all()
    again = released_with_wavefronts(changed)
    assert release_cycles(again).tolist() == release_cycles(changed).tolist()


# Is a trace of narrower warps, padded to 64 lanes, accepted with a word, and no other?

LOWER = np.uint64(0xFFFF_FFFF)
EVERY = ~np.uint64(0)


def padded(trace, masks="lower"):
    """The same kernels as warps of 32 lanes; masks tell so, or are full."""
    lower = np.where((trace.exec_mask & LOWER) == 0, LOWER, trace.exec_mask & LOWER)
    mask = np.where(trace.kind == WRITE, lower if masks == "lower" else EVERY, 0).astype(np.uint64)
    values = trace.values.copy()
    values[:, 32:] = 0
    return replace(trace, name="padded", exec_mask=mask, values=values)


@pytest.mark.slow
def test_no_bundled_kernel_looks_padded():
    with warnings.catch_warnings():
        warnings.simplefilter("error", PaddedTraceWarning)
        assert not any(uses_lower_half_only(open_trace(name)) for name in KERNELS)


@pytest.mark.parametrize("masks", ["lower", "full"])
def test_a_padded_trace_is_opened_with_a_warning(masks, tmp_path):
    file = tmp_path / "padded.h5"
    save_trace(padded(excerpt(), masks), file)
    with pytest.warns(PaddedTraceWarning, match="'padded' writes the lower 32 of 64 lanes only"):
        trace = open_trace(file)
    share = prepare(trace, TECHNIQUES["rc"]).schedule.compressed.mean()
    assert share < 0.5 * prepare(excerpt(), TECHNIQUES["rc"]).schedule.compressed.mean()


def test_one_write_to_an_upper_lane_is_enough():
    trace = padded(excerpt())
    first = np.flatnonzero(trace.kind == WRITE)[0]
    trace.exec_mask[first] |= np.uint64(1 << 63)
    assert uses_lower_half_only(trace)  # still without a value there
    trace.values[trace.value[first], 63] = 1
    assert not uses_lower_half_only(trace)


def test_a_trace_of_zeros_is_no_padded_one():
    zeros = replace(excerpt(), values=np.zeros_like(excerpt().values))
    assert not uses_lower_half_only(zeros)
