"""GR-Guard by hand: lives of values, entries that are borrowed, and what is left in them."""

import random

import numpy as np
from engine_cases import COUNTED, possible_techniques, seeded_fault_maps, with_full_masks
from oracle import last_uses
from tables import each
from trace_strategies import SPILLING, alloc, random_trace, read, release, trace_of, write

from mcage.engines.interface import fault_free_maps
from mcage.engines.numpy_engine.redirection import SPILLED, place_writes
from mcage.replays.prepare import prepare
from mcage.replays.schedule import DEATH, live_ranges
from mcage.techniques import TECHNIQUES
from mcage.traces.model import ALLOC, WRITE

GUARD = TECHNIQUES["gr-guard"]
SMALL = {"window_sizes": (3, 9), "slots": (1, 3)}


def only_reliable(*entries):
    fault_map = np.full(256, 0b0011, dtype=np.uint8)
    fault_map[list(entries)] = 0
    return fault_map[None]


def all_but(*entries):
    fault_map = np.zeros(256, dtype=np.uint8)
    fault_map[list(entries)] = 0b0011
    return fault_map[None]


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
    trace, fault_maps = borrowing(), all_but(0)
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


def test_without_faults_nothing_moves(engine):
    assert homes(borrowing(), fault_free_maps()) == [0, 1, 1]
    for seed in range(3):
        trace = random_trace(random.Random(seed), **(SPILLING if seed else SMALL))
        guard, baseline = (prepare(trace, TECHNIQUES[name]) for name in ("gr-guard", "baseline"))
        for name in COUNTED:
            same = (engine.count(replay, fault_free_maps()) for replay in (guard, baseline))
            assert np.array_equal(*(getattr(counters, name) for counters in same)), name
        actual, meant = (
            engine.cell_times(replay, fault_free_maps()) for replay in (guard, baseline)
        )
        assert actual.period == meant.period
        assert np.array_equal(actual.ones, meant.ones)
        assert np.array_equal(actual.powered, meant.powered)


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
    fault_maps = all_but(0)
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
    fault_maps = only_reliable(5)
    assert homes(trace, fault_maps) == [5, SPILLED, 5, SPILLED, SPILLED]
    assert kinds(engine, trace, fault_maps) == {
        "regular": 0,
        "to_reliable": 2,
        "to_faulty": 0,
        "lds": 3,
        "lds_reads": 2,
        "peak_spilled_rows": 1,
        "spilled_row_cycles": (5 - 2) + 0 + (9 - 7),
        "wakeups": 0,
    }


def test_a_value_that_nobody_reads_has_a_place_while_it_is_written(engine):
    trace = trace_of(
        [alloc(0, 0, 3), *(write(1, 0, reg, reg + 1) for reg in range(3)), release(2, 0)]
    )
    assert homes(trace, only_reliable(7)) == [7, 7, 7]
    assert kinds(engine, trace, only_reliable(7))["to_reliable"] == 3
    ones = engine.cell_times(prepare(trace, GUARD), only_reliable(7)).ones[0, 7].reshape(64, 32)
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


@each("seed", range(6))
def test_values_die_where_the_trace_read_backwards_says(seed):
    trace = random_trace(random.Random(seed), **(SPILLING if seed % 2 else SMALL))
    window_of_slot, window_of_event, written, meant = {}, [], set(), set()
    uses = last_uses(trace)
    columns = zip(trace.kind.tolist(), trace.slot.tolist(), trace.reg.tolist(), strict=True)
    for event, (kind, slot, reg) in enumerate(columns):
        if kind == ALLOC:
            window_of_slot[slot] = len(set(window_of_event))
        window = window_of_slot[slot]
        window_of_event.append(window)
        if kind == WRITE:
            written.add((window, reg))
        if event in uses and (window, reg) in written:
            meant.add(event)
    lives = live_ranges(trace, np.array(window_of_event))
    assert set(lives.death_event.tolist()) == meant
    schedule = prepare(trace, GUARD).schedule
    assert np.array_equal(schedule.residency_first, lives.first)
    assert (schedule.op_kind == DEATH).sum() == len(meant)


def test_as_many_entries_are_occupied_as_values_live(engine):
    """Where dead values are switched off, what is on is what lives and is not spilled."""
    technique = possible_techniques()["guard/plain/empty/False"]
    for seed in range(3):
        trace = with_full_masks(random_trace(random.Random(seed), **SPILLING))
        replay, fault_maps = prepare(trace, technique), seeded_fault_maps(seed)
        schedule = replay.schedule
        alive = (schedule.end_cycle - schedule.cycle).sum()
        spilled = engine.count(replay, fault_maps).spilled_row_cycles
        powered = engine.cell_times(replay, fault_maps).powered
        assert (powered.sum(axis=(1, 2)) == 2048 * (alive - spilled)).all()
        assert not powered[fault_maps != 0].any()
