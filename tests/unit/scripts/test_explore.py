"""What ``scripts/experiments/explore_differences.py`` tests, on traces made by hand."""

from dataclasses import replace

import numpy as np
import pytest
from explore_duty import DUTY_HYPOTHESES, Assumptions, cell_times, compresses, reductions, share_on
from explore_spills import dying, occupancy, reliable_entries, spills
from explore_traces import (
    dispatched_by_wavefront,
    few_registers,
    kernels_of_table_5,
    out_of_step,
    released_at_last_access,
    some_windows,
    sound_radix_sort,
)
from trace_strategies import alloc, pattern, random_value, read, release, trace_of, write

from mcage.engines import select_engine
from mcage.engines.interface import fault_free_maps
from mcage.replays.prepare import prepare
from mcage.replays.schedule import make_schedule
from mcage.techniques import technique
from mcage.traces import Kernel, classify, compressible, validate_trace
from mcage.traces.transforms import released_with_wavefronts

IRREGULAR = np.arange(64) ** 3 + 5
"""No pattern."""


@pytest.fixture(scope="module")
def engine():
    return select_engine("numba")[0]


def work_groups():
    """Two work-groups of two wavefronts, one after the other, in slots 0 and 1."""
    events = []
    for begin in (0, 40):
        for slot, busy in ((0, 10), (1, 25)):
            events += [
                alloc(begin, slot, 2),
                write(begin + 2, slot, 0, IRREGULAR),
                write(begin + 3, slot, 1, 7),
                read(begin + busy, slot, 0),
                release(begin + 30, slot),
            ]
    trace = trace_of(events, 80)
    return replace(trace, alloc_work_group=np.array([0, 0, 1, 1], dtype=np.uint32))


def schedule_of(trace, name="rrcd"):
    return make_schedule(trace, technique(name), 64)


def test_a_wavefront_that_does_not_drain_ends_with_its_last_access():
    changed = released_at_last_access(work_groups())
    validate_trace(changed)
    assert schedule_of(changed).windows.release_cycle.tolist() == [10, 25, 50, 65]


def test_the_next_wavefront_takes_the_first_slot_that_is_free():
    changed = dispatched_by_wavefront(work_groups())
    validate_trace(changed)
    windows = schedule_of(changed).windows
    assert windows.alloc_cycle.tolist() == [0, 0, 16, 31]
    assert windows.release_cycle.tolist() == [15, 30, 31, 61]
    assert windows.slot.tolist() == [0, 1, 0, 1]
    assert changed.writes == 8


def test_windows_of_one_slot_keep_their_events():
    trace = work_groups()
    changed = some_windows(trace, trace.slot[trace.alloc_event] == 1)
    validate_trace(changed)
    assert (changed.windows, changed.writes, changed.reads) == (2, 4, 2)
    assert schedule_of(changed).windows.alloc_cycle.tolist() == [0, 31]


def test_other_copies_are_traces():
    trace = work_groups()
    later = out_of_step(trace)
    validate_trace(later)
    assert schedule_of(later).windows.alloc_cycle.tolist() == [0, 15, 40, 55]
    narrow = few_registers(trace, 1)
    validate_trace(narrow)
    assert (narrow.windows, narrow.writes, narrow.reads) == (4, 4, 4)


def test_the_kernel_of_table_5_is_left():
    events = [alloc(0, 0, 10), write(1, 0, 9, 1), release(5, 0)]
    events += [alloc(105, 0, 3), write(106, 0, 2, 1), release(110, 0)]
    trace = trace_of(events)
    named = replace(trace, kernels=(Kernel("blockAddition", 3), Kernel("ScanLargeArrays", 10)))
    left = kernels_of_table_5(named)
    validate_trace(left)
    assert (left.windows, left.cycles, schedule_of(left).windows.size.tolist()) == (1, 6, [3])
    assert kernels_of_table_5(trace) is trace


def test_radix_sort_is_sound_in_the_first_launch_of_each_kernel():
    events = []
    for begin, size in ((0, 4), (20, 5), (40, 4), (60, 5)):
        events += [alloc(begin, 0, size), *(write(begin + i, 0, 0, i) for i in (1, 2, 3))]
        events += [release(begin + 9, 0)]
    trace = trace_of(events, name="RadixSort")
    assert trace.alloc_launch.tolist() == [0, 1, 2, 3]
    assert sound_radix_sort(trace).alloc_launch.tolist() == [0, 1]
    # A time without windows is one cycle, whatever events of others it held.
    outer = some_windows(trace, np.array([True, False, False, True]))
    assert schedule_of(outer).windows.alloc_cycle.tolist() == [0, 10]
    assert sound_radix_sort(replace(trace, name="Reduction")).windows == 4


def test_groups_of_eight_are_the_rule_of_mcage():
    import random

    values = np.stack([random_value(random.Random(seed)) for seed in range(400)])
    for limit in (64, None):
        expected = compressible(classify(values), limit)
        assert 0 < expected.sum() < len(values)
        assert (compresses(values, 8, limit) == expected).all()


def test_groups_of_other_sizes():
    tiles = pattern(0, 4, 64)[None].reshape(1, 8, 8)[:, ::2].reshape(1, 32)
    by_16 = np.tile(np.arange(16, dtype=np.uint32), 4)[None]
    assert compresses(by_16, 16, 64).all()
    assert not compresses(by_16, 8, 64).any()
    assert compresses(tiles, 8, 128).all()
    assert not compresses(tiles, 8, 64).any()


def test_the_defaults_are_what_mcage_does(engine):
    trace = work_groups()
    for name in ("baseline", "rc", "rc+rar", "argo"):
        explored = cell_times(engine, trace, name, 64, Assumptions())
        computed = engine.cell_times(prepare(trace, technique(name), 64), fault_free_maps())
        assert explored.period == computed.period
        assert (explored.ones == computed.ones).all()
        assert (explored.powered == computed.powered).all()


@pytest.mark.parametrize(
    ("assumed", "on"),
    [
        (Assumptions(), 28 + 28),
        (Assumptions(dead_off=True), 8 + 8),
        (Assumptions(held=True), 80),
        (Assumptions(changed=released_with_wavefronts), 13 + 13),
        (Assumptions(steady=True), 28 + 28),
    ],
)
def test_how_long_the_first_register_is_on_under_rc(engine, assumed, on):
    """Written in cycles 2 and 42, read in 10 and 50, released in 30 and 70 of 80."""
    times = cell_times(engine, work_groups(), "rc", 64, assumed)
    assert times.powered[0, 0].tolist() == [on] * 2048
    assert not times.powered[0, 1].any(), "compressed"


def test_rotation_followed_once_starts_at_offset_zero(engine):
    times = cell_times(engine, work_groups(), "rc+rar", 64, Assumptions(executions=1))
    assert times.period == 80
    assert times.powered[0, :4, 0].tolist() == [28, 28, 28, 28]


def test_slots_in_turn_move_windows(engine):
    events = [alloc(0, 0, 1), write(1, 0, 0, IRREGULAR), release(9, 0)]
    events += [alloc(0, 1, 1), write(1, 1, 0, IRREGULAR), release(19, 1)]
    events += [alloc(20, 0, 1), write(20, 0, 0, IRREGULAR), release(29, 0)]
    events += [alloc(30, 0, 1), write(30, 0, 0, IRREGULAR), release(39, 0)]
    trace = trace_of(events)
    recorded = cell_times(engine, trace, "rc", 64, Assumptions())
    in_turn = cell_times(engine, trace, "rc", 64, Assumptions(slots="in turn"))
    assert recorded.powered[0, :2, 0].tolist() == [8 + 9 + 9, 18]
    assert in_turn.powered[0, :2, 0].tolist() == [8 + 9, 18 + 9]


@pytest.mark.parametrize("name", DUTY_HYPOTHESES)
def test_every_hypothesis_gives_reductions(engine, name):
    percent = reductions(engine, [[work_groups()]], 64, DUTY_HYPOTHESES[name])
    assert percent.shape == (1, 8)
    assert (percent > -1e-9).all()
    assert (percent <= 100).all()


def test_register_shares():
    assert share_on(work_groups()) == pytest.approx([100 * 28 / 30, 0])


def test_a_dead_register_gives_up_its_home():
    events = [alloc(0, 0, 2), write(1, 0, 0, IRREGULAR), read(3, 0, 0), write(5, 0, 1, IRREGULAR)]
    events += [write(7, 0, 0, IRREGULAR), read(8, 0, 1), release(9, 0)]
    schedule = schedule_of(trace_of(events))
    one_entry = np.full((1, 256), 15, dtype=np.uint8)
    one_entry[0, 5] = 0
    kept, freed = spills(schedule, one_entry), spills(dying(schedule), one_entry)
    assert (kept.lds, kept.newly, kept.regular, kept.rows) == pytest.approx(
        (100 / 3, 100 / 3, 100 / 3, 1)
    )
    # Register 1 has the home while register 0 is written a second time.
    assert (freed.lds, freed.regular) == pytest.approx((100 / 3, 0))
    assert spills(dying(schedule), reliable_entries(2)).lds == 0


def test_spilled_writes_are_counted_anew_and_again():
    events = [alloc(0, 0, 2), write(1, 0, 0, IRREGULAR)]
    events += [write(cycle, 0, 1, IRREGULAR) for cycle in (2, 3, 4)]
    events += [write(5, 0, 1, 1), release(9, 0)]
    spilled = spills(schedule_of(trace_of(events)), reliable_entries(1))
    assert (spilled.lds, spilled.newly) == pytest.approx((60, 20))
    assert spilled.lds_blocks == pytest.approx(100 * 12 / 17)


def test_occupancy_is_time_in_which_entries_hold_something():
    occupied = occupancy(schedule_of(work_groups()))
    slice_cycles = 256 * 80 / 100
    assert occupied.allocated == pytest.approx(4 * 2 * 30 / slice_cycles)
    assert occupied.written == pytest.approx(4 * (28 + 27) / slice_cycles)
    assert occupied.compressed == pytest.approx(4 * 27 / slice_cycles)
    assert occupied.live == pytest.approx(2 * (8 + 23) / slice_cycles)
    assert sum(occupied.figure_2(True)) == pytest.approx(occupied.allocated)
    assert sum(occupied.figure_2(False)) == pytest.approx(occupied.written)
