"""Disable by hand: windows between faulty entries, and what waiting for a place costs."""

import dataclasses

import numpy as np
import pytest
from engine_cases import COUNTED
from life_cases import YEAR, lived, random_values, steady_trace, tail_of, whole_entries
from tables import each
from trace_strategies import alloc, read, release, trace_of, write

from mcage.engines.numpy_engine.redirection import IN_LDS, place_writes
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.replays.layout import packed_bases
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES
from mcage.traces import first_generations
from mcage.traces.library import bundled_trace
from mcage.traces.model import ALLOC, WRITE, validate_trace

DISABLE = TECHNIQUES["disable"]
SMALL = {"window_sizes": (3, 9), "slots": (1, 3)}


def faulty(*entries):
    fault_map = np.zeros(256, dtype=np.uint8)
    fault_map[list(entries)] = 0b0011
    return fault_map


def reliable(*entries):
    return np.where(np.isin(np.arange(256), entries), 0, 15).astype(np.uint8)


def window(begin, slot, size, end, value=1):
    return [alloc(begin, slot, size), write(begin + 1, slot, 0, value), release(end, slot)]


@each(
    ("fault_map", "size", "bases"),
    [
        (faulty(), 100, [0, 100]),
        (faulty(0), 100, [1, 101]),
        (faulty(99), 100, [100]),
        (faulty(255), 128, [0]),
        (faulty(3, 4, 9), 2, [0, 5, 7, *range(10, 256, 2)]),
        (reliable(7, 8, 9, 255), 1, [7, 8, 9, 255]),
        (reliable(7, 8, 9, 255), 3, [7]),
        (reliable(7, 8, 9, 255), 4, []),
        (reliable(), 1, []),
    ],
)
def test_windows_lie_in_runs_of_reliable_entries(fault_map, size, bases):
    assert packed_bases(fault_map, size).tolist() == bases


def three_windows():
    """Two at first, then a third one in the slot of the second."""
    events = [*window(0, 0, 4, 20, 1), *window(5, 1, 4, 10, 2), *window(12, 1, 4, 18, 4)]
    return trace_of(events, cycles=25)


def test_windows_wait_in_line_for_a_place():
    packing = prepare(three_windows(), DISABLE).packing
    assert packing.slots == (2,)
    everywhere, single = packing.timing((2,)), packing.timing((1,))
    assert everywhere.start_cycle.tolist() == [0, 5, 12]
    assert everywhere.place.tolist() == [0, 1, 1]
    assert single.start_cycle.tolist() == [0, 21, 27]  # from the cycle after a release on
    assert single.place.tolist() == [0, 0, 0]
    assert (everywhere.cycles, single.cycles) == (25, 25 + 33 - 20)
    maps = np.stack([faulty(), faulty(5), reliable(*range(9, 13)), reliable(*range(9, 12))])
    assert packing.slowdown(maps).tolist() == [0, 0, 38 / 25 - 1, np.inf]
    assert packing.fits(maps).tolist() == [True, True, True, False]


def test_what_cells_hold_where_windows_lie(engine):
    replay = prepare(three_windows(), DISABLE)
    maps = np.stack([faulty(0, 6), reliable(*range(9, 13)), reliable()])
    times = engine.cell_times(replay, maps)
    ones, powered = (cells.reshape(3, 256, 64, 32) for cells in (times.ones, times.powered))
    assert times.period.tolist() == [25, 38, 25]
    # Two places, from entries 1 and 7 on: 2 from cycle 6 to 13, then 4.
    assert (ones[0, 1, :, :3] == [25, 0, 0]).all()
    assert (ones[0, 7, :, :3] == [0, 7, 18]).all()
    assert sorted(set(np.flatnonzero(powered[0].any(axis=(1, 2))))) == [1, 7]
    # One place: 1 from cycle 1, 2 from 22, 4 from 28 to 1 of the next pass.
    assert (ones[1, 9, :, :3] == [21, 6, 11]).all()
    assert not powered[2].any()
    assert times.longest_one_duty.tolist() == [1.0, 21 / 38, 0.0]
    counted = engine.count(replay, maps)
    assert counted.regular.tolist() == [3, 3, 0]
    assert not any(getattr(counted, name).any() for name in COUNTED if name != "regular")


def test_a_launch_waits_for_what_it_waited_for():
    """The second kernel needs what the first one wrote, whether or not there is a place for it."""
    events = [
        *window(0, 0, 3, 9),
        *window(0, 1, 3, 9),
        *window(12, 0, 2, 15),
        *window(12, 1, 2, 15),
    ]
    packing = prepare(trace_of(events), DISABLE).packing
    assert packing.sizes == (2, 3)
    assert packing.timing((2, 2)).start_cycle.tolist() == [0, 0, 12, 12]
    assert packing.timing((2, 1)).start_cycle.tolist() == [0, 10, 20, 20]
    assert packing.timing((1, 2)).start_cycle.tolist() == [0, 0, 12, 16]


def test_a_window_waits_for_those_of_other_sizes():
    """It is of the launch before: only its size keeps it from starting at once."""
    events = [*window(0, 0, 3, 9), *window(0, 1, 3, 9), *window(12, 0, 2, 15)]
    trace = trace_of(events)
    trace = dataclasses.replace(trace, alloc_launch=np.zeros_like(trace.alloc_launch))
    packing = prepare(trace, DISABLE).packing
    assert packing.timing((1, 2)).start_cycle.tolist() == [0, 0, 12]
    assert packing.timing((1, 1)).start_cycle.tolist() == [0, 10, 20]


def test_windows_of_two_kernels_lie_on_each_other_as_the_map_says(engine):
    """A window of 3 at entry 5, then two of 2 at entries 1 and 5: the latter finds the former."""
    events = [*window(0, 0, 3, 9, 1), *window(12, 0, 2, 15, 2), *window(12, 1, 2, 15, 4)]
    fault_maps = reliable(1, 2, 5, 6, 7)[None]
    times = engine.cell_times(prepare(trace_of(events, cycles=20), DISABLE), fault_maps)
    ones = times.ones.reshape(256, 64, 32)
    assert (ones[1, :, :3] == [0, 20, 0]).all()
    assert (ones[5, :, :3] == [12, 0, 8]).all()  # 1 from cycle 1, 4 from 13 to 1 of the next pass
    assert sorted(set(np.flatnonzero(times.powered[0].any(axis=1)))) == [1, 5]


def test_windows_of_different_size_at_once_are_refused():
    events = [*window(0, 0, 2, 9), *window(5, 1, 3, 12)]
    with pytest.raises(UserError, match="windows of different size are open at once"):
        prepare(trace_of(events, name="mixed"), DISABLE)
    prepare(trace_of(events), TECHNIQUES["baseline"])


@pytest.mark.parametrize("name", ["Reduction", "ScanLargeArrays"])
def test_retimed_traces_are_traces(name):
    """All events of a window in their order and at their distances, the fewer places the later."""
    trace = first_generations(bundled_trace(name), 2)
    packing = prepare(trace, DISABLE).packing
    cycles = []
    for count in (16, 9, 4, 1):
        places = tuple(min(count, slots) for slots in packing.slots)
        retimed = packing.retimed(places)
        validate_trace(retimed)
        assert retimed.windows == trace.windows
        assert np.array_equal(retimed.alloc_launch, trace.alloc_launch)
        again = prepare(retimed, DISABLE).packing
        assert (again.windows.slot < max(places)).all()
        for window_number in range(0, trace.windows, 7):
            recorded = packing.window_of_event == window_number
            moved = again.window_of_event == window_number
            for column in ("kind", "reg", "value", "exec_mask"):
                after, before = getattr(retimed, column)[moved], getattr(trace, column)[recorded]
                assert np.array_equal(after, before)
            assert np.array_equal(np.diff(retimed.cycle[moved]), np.diff(trace.cycle[recorded]))
        cycles.append(retimed.cycles)
    assert cycles[0] == trace.cycles
    assert cycles == sorted(cycles)
    assert cycles[-1] > 2 * cycles[0]


def test_a_life_ends_when_no_window_fits():
    trace = steady_trace(random_values(10))
    every_tenth = tail_of(whole_entries(range(9, 256, 10)), whole_entries(range(10, 256, 10)))
    life = lived([trace], "disable", every_tenth)
    assert life.end.cause.tolist() == [EndCause.NO_HOME, EndCause.CENSORED]
    assert life.end.seconds.tolist() == [0, 10 * YEAR]
    assert life.writes.fractions[1].tolist() == [1, 0, 0, 0]
    assert life.spills.peak_rows.tolist() == [0, 0]


def test_reads_and_writes_keep_their_order_in_a_cycle():
    events = [alloc(0, 0, 1), write(1, 0, 0, 1), read(1, 0, 0), release(1, 0)]
    packing = prepare(trace_of(events), DISABLE).packing
    kinds = packing.retimed((1,)).kind.tolist()
    assert kinds[:2] == [ALLOC, WRITE]


# GR-Guard by hand: lives of values, entries that are borrowed, and what is left in them.

GUARD = TECHNIQUES["gr-guard"]


def homes(trace, fault_maps):
    return place_writes(prepare(trace, GUARD), fault_maps).entry[0].tolist()


def kinds(engine, trace, fault_maps):
    counters = engine.count(prepare(trace, GUARD), fault_maps)
    return {name: int(getattr(counters, name)[0]) for name in COUNTED}


def borrowing():
    """Register 0 has no entry of its own that works; what it borrows is that of register 1."""
    return trace_of(
        [
            alloc(0, 0, 2),
            write(1, 0, 0, 1),
            write(2, 0, 1, 2),
            read(3, 0, 1),
            read(4, 0, 0),
            write(5, 0, 1, 3),
            read(6, 0, 1),
            release(7, 0),
        ],
        cycles=10,
    )


def test_the_lowest_entry_without_a_live_value_is_borrowed(engine):
    trace, fault_maps = borrowing(), faulty(0)[None]
    assert homes(trace, fault_maps) == [1, 2, 1]
    counted = kinds(engine, trace, fault_maps)
    assert (counted["regular"], counted["to_reliable"], counted["lds"]) == (1, 2, 0)

    times = engine.cell_times(prepare(trace, GUARD), fault_maps)
    ones, powered = (cells[0].reshape(256, 64, 32) for cells in (times.ones, times.powered))
    assert (powered[[1, 2]] == 10).all()
    assert not powered[[0, *range(3, 256)]].any()
    assert (ones[1, :, 0] == 10).all()  # of 1, then 3
    assert (ones[1, :, 1] == 6).all()  # of 3: from cycle 5 to cycle 1 of the next pass
    assert (ones[2, :, 1] == 10).all()
    assert not ones[2, :, 0].any()


def test_a_partial_write_goes_on_with_a_life_that_is_read_later(engine):
    trace = trace_of(
        [
            alloc(0, 0, 1),
            write(1, 0, 0, 1),
            write(2, 0, 0, 2, lanes=1),  # the other lanes are read
            read(3, 0, 0),
            write(4, 0, 0, 3, lanes=1),  # nobody reads any lane
            write(5, 0, 0, 4),
            read(6, 0, 0),
            release(7, 0),
        ]
    )
    fault_maps = faulty(0)[None]
    schedule = prepare(trace, GUARD).schedule
    assert schedule.residency_first.tolist() == [0, 0, 2, 3]
    assert schedule.end_cycle.tolist() == [2, 3, 4, 6]
    assert homes(trace, fault_maps) == [1, 1, 1, 1]
    counted = kinds(engine, trace, fault_maps)
    assert (counted["regular"], counted["to_reliable"]) == (1, 3)


def test_without_a_place_a_value_is_spilled_until_it_is_written_again_or_dead(engine):
    trace = trace_of(
        [
            alloc(0, 0, 4),
            write(1, 0, 0, 1),
            write(2, 0, 1, 2),  # no place
            read(3, 0, 0),
            read(3, 0, 1),  # from the LDS
            write(5, 0, 1, 3, lanes=1),  # finds the place that register 0 gave up
            write(6, 0, 2, 4),  # no place, and never read
            write(7, 0, 3, 5),  # no place
            read(8, 0, 1),
            read(9, 0, 3),
            release(10, 0),
        ]
    )
    fault_maps = reliable(5)[None]
    assert homes(trace, fault_maps) == [5, IN_LDS, 5, IN_LDS, IN_LDS]
    assert kinds(engine, trace, fault_maps) == {
        "regular": 0,
        "to_reliable": 2,
        "to_faulty": 0,
        "lds": 3,
        "lds_reads": 2,
        "peak_spilled_rows": 1,
        "spilled_row_cycles": (5 - 2) + 0 + (9 - 7),
        "wakeups": 0,
        "memory": 0,
        "memory_reads": 0,
    }


def test_a_value_that_nobody_reads_has_a_place_while_it_is_written(engine):
    trace = trace_of(
        [alloc(0, 0, 3), *(write(1, 0, reg, reg + 1) for reg in range(3)), release(2, 0)]
    )
    assert homes(trace, reliable(7)[None]) == [7, 7, 7]
    assert kinds(engine, trace, reliable(7)[None])["to_reliable"] == 3
    ones = engine.cell_times(prepare(trace, GUARD), reliable(7)[None]).ones[0, 7].reshape(64, 32)
    assert (ones[:, :3] == [3, 3, 0]).all()  # the last of them stays: 3


def test_reads_before_the_first_write_are_of_no_value():
    """Nor do they lengthen the life of the register before, in order of registers."""
    trace = trace_of(
        [
            alloc(0, 0, 2),
            write(1, 0, 0, 1),
            read(2, 0, 0),
            read(8, 0, 1),
            write(9, 0, 1, 2),
            release(9, 0),
        ]
    )
    assert prepare(trace, GUARD).schedule.end_cycle.tolist() == [2, 9]
