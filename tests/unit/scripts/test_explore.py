"""What ``scripts/experiments/explore_differences.py`` tests, on traces made by hand."""

from dataclasses import replace

import numpy as np
import pytest
from explore_duty import DUTY_HYPOTHESES, Assumptions, cell_times, compresses, reductions
from explore_spills import dying, occupancy, reliable_entries, spills
from explore_traces import dispatched_by_wavefront, released_at_last_access
from trace_strategies import alloc, random_value, read, release, trace_of, write

from mcage.engines import select_engine
from mcage.engines.interface import fault_free_maps
from mcage.replays.prepare import prepare
from mcage.replays.schedule import make_schedule
from mcage.techniques import technique
from mcage.traces import classify, compressible, validate_trace
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


def test_groups_of_eight_are_the_rule_of_mcage():
    import random

    values = np.stack([random_value(random.Random(seed)) for seed in range(400)])
    for limit in (64, None):
        expected = compressible(classify(values), limit)
        assert 0 < expected.sum() < len(values)
        assert (compresses(values, 8, limit) == expected).all()


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


@pytest.mark.parametrize("name", DUTY_HYPOTHESES)
def test_every_hypothesis_gives_reductions(engine, name):
    percent = reductions(engine, [[work_groups()]], 64, DUTY_HYPOTHESES[name])
    assert percent.shape == (1, 8)
    assert (percent > -1e-9).all()
    assert (percent <= 100).all()


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


def test_occupancy_is_time_in_which_entries_hold_something():
    occupied = occupancy(schedule_of(work_groups()))
    slice_cycles = 256 * 80 / 100
    assert occupied.allocated == pytest.approx(4 * 2 * 30 / slice_cycles)
    assert occupied.written == pytest.approx(4 * (28 + 27) / slice_cycles)
    assert occupied.compressed == pytest.approx(4 * 27 / slice_cycles)
    assert occupied.live == pytest.approx(2 * (8 + 23) / slice_cycles)
    assert sum(occupied.figure_2(True)) == pytest.approx(occupied.allocated)
    assert sum(occupied.figure_2(False)) == pytest.approx(occupied.written)
