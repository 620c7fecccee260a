"""What a slice does: by hand on tiny traces, and against what the engines find in the cells."""

import random

import numpy as np
import pytest
from activity_cases import ENGINE, NOISE, activity, life_of_a_register
from engine_cases import possible_techniques, seeded_fault_maps, with_full_masks
from trace_strategies import (
    SPILLING,
    alloc,
    random_trace,
    read,
    release,
    trace_of,
    write,
)

from mcage.costs import conventional
from mcage.engines.interface import fault_free_maps
from mcage.geometry import GCN
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES, Gating, Placement, Storage, Technique
from mcage.traces.patterns import classify, compressible, first_block_fits

SHAPE = {"slots": (1, 3), "window_sizes": (3, 6), "events": 60}


# ---- by hand ---------------------------------------------------------------------------------


def test_conventional_by_hand():
    did = conventional(life_of_a_register())
    assert did.gating.powered_entry_cycles == [256 * 120]
    assert did.gated_entry_cycles == [0]
    assert (did.reads.uncompressed, did.writes.uncompressed) == ([3], [5])
    assert did.writes.slice_blocks(GCN) == [20]
    assert (
        did.compression.movs,
        did.compression.expansions,
        did.compression.examined_blocks,
        did.compression.mispredictions,
    ) == (0, 0, 0, 0)
    assert did.instructions == 5


@pytest.mark.parametrize("name", ["rc", "rc+rar"])
def test_table_by_hand(name):
    did = activity(life_of_a_register(), name)
    assert (did.reads.compressed, did.reads.uncompressed) == ([2], [1])
    assert did.reads.slice_blocks(GCN) == [2 * 1 + 4]  # the first block is read in vain
    assert (did.writes.compressed, did.writes.uncompressed) == ([2], [3])
    assert did.writes.slice_blocks(GCN) == [5 * 4]  # written while the unit looks at them
    assert (did.compression.movs, did.compression.mov_read_blocks) == (1, 1)
    assert did.compression.expansions == 2
    assert (
        did.compression.examined_blocks == 4 + 1 + 4 + 0 + 3
    )  # HALF: two blocks fit, the third does not
    assert did.decompressed_blocks == [4 * (2 + 1)]
    assert (did.table_reads, did.table_writes) == ([3 + 1], [2 + 2])
    assert did.gating.wakeups == [2]
    assert (did.gating.opened_entries, did.gating.expanded_entries) == (0, 2)
    assert did.gating.powered_entry_cycles == [10 + 10 + 30]
    assert did.gating.compressed_entry_cycles == 20 + 20
    assert did.gating.used_entries == 2
    assert did.compression.mispredictions == 0  # nothing is decided by the first block
    on = did.with_idle_entries_on()
    assert on.gating.powered_entry_cycles == [2 * 120 - 40]
    assert on.gated_entry_cycles == [256 * 120 - 200]


def test_inline_by_hand():
    did = activity(life_of_a_register(), "wc")
    assert (did.reads.compressed, did.reads.uncompressed) == ([2], [1])
    assert did.reads.slice_blocks(GCN) == [2 * 2 + 4]  # 67 bytes lie in two blocks
    assert (did.compression.movs, did.compression.mov_read_blocks) == (1, 1)  # of 4 bytes
    # NOISE does not fit in its first block, HALF in its third.
    assert did.compression.examined_blocks == 4 + 1 + 4 + 0 + 3
    # One component of both registers is on while the window is open.
    powered = (20 * 67 + 10 * 256 + 20 * 4 + 10 * 256 + 30 * 256) / 256 + (10 + 100) * 4 / 256
    assert did.gating.powered_entry_cycles == pytest.approx([powered])
    assert did.gating.opened_entries == pytest.approx((2 * 4 + 63) / 256)
    assert did.gating.expanded_entries == pytest.approx((256 - 67 + 256 - 4) / 256)
    assert did.gating.compressed_entry_cycles == pytest.approx((20 * 189 + 20 * 252) / 256)


def test_idle_windows_by_hand():
    did = activity(life_of_a_register(), "argo")
    assert did.gating.powered_entry_cycles == [2 * 100]  # not written is not idle
    assert did.gating.opened_entries == 2
    assert did.gating.wakeups == [0]
    assert did.with_idle_entries_on().gating.powered_entry_cycles == [2 * 120]


def test_entries_that_are_used_at_the_same_time():
    """Three windows one after the other in one slot, two of them beside one in another."""
    events = [write(1, 0, 0, 5)]
    for begin, slot in [(0, 0), (20, 0), (25, 1), (40, 0)]:
        events += [alloc(begin, slot, 4), release(begin + 10, slot)]
    did = activity(trace_of(events), "argo")
    assert (did.gating.used_entries, did.gating.opened_entries) == (8, 16)
    idle_on = did.with_idle_entries_on()
    assert (idle_on.gating.used_entries, idle_on.gating.opened_entries) == (8, 0)
    assert idle_on.gating.powered_entry_cycles == [8 * did.cycles]


def test_unused_by_hand():
    did = activity(life_of_a_register(), "baseline")
    assert did.gating.powered_entry_cycles == [2 * 120]
    assert did.with_idle_entries_on().gating.powered_entry_cycles == [2 * 120]


def test_blocks_by_hand():
    did = activity(life_of_a_register(), "rrcd")
    assert did.gating.powered_entry_cycles == [256 * 120]  # it gates nothing
    assert (did.reads.slice_blocks(GCN), did.writes.slice_blocks(GCN)) == ([2 + 4], [2 + 3 * 4])
    assert did.compression.mispredictions == 1
    assert did.redirections == [4]  # first write, and three changes of state
    gated = activity(life_of_a_register(), "rrcd+pg")
    assert gated.gating.powered_entry_cycles == [40 / 4 + 50]
    assert gated.gating.opened_entries == 2 / 4 + 2
    assert gated.gating.used_entries == 256


def test_rows_in_a_table_have_no_block():
    did = activity(life_of_a_register(), "rrcd+rc+rar")
    assert (did.reads.slice_blocks(GCN), did.writes.slice_blocks(GCN)) == ([4], [3 * 4])
    assert did.redirections == [2]  # out of the table, twice
    assert did.gating.wakeups == [2]
    assert did.gating.powered_entry_cycles == [50]


def test_spilled_registers_by_hand():
    """Without a sound block everything is spilled, first of all what is uncompressed."""
    dead = np.full((1, GCN.entries), 0b1111, dtype=np.uint8)
    did = activity(life_of_a_register(), "rrcd+pg", dead)
    assert (did.reads.lds, did.reads.registers, did.reads.slice_blocks(GCN)) == ([3], [3], [0])
    assert (did.writes.lds, did.writes.registers, did.writes.slice_blocks(GCN)) == ([5], [5], [0])
    assert did.gating.powered_entry_cycles == [0]
    faulty = np.full((1, GCN.entries), 0b0111, dtype=np.uint8)
    did = activity(life_of_a_register(), "rrcd+pg", faulty)
    assert (did.reads.lds, did.reads.compressed, did.reads.uncompressed) == ([1], [2], [0])
    assert (did.writes.lds, did.writes.slice_blocks(GCN)) == ([3], [2])
    assert did.gating.powered_entry_cycles == [40 / 4]


def test_a_read_before_any_write_is_one_of_an_entry():
    trace = trace_of([alloc(0, 0, 1), read(1, 0, 0), write(2, 0, 0, 5), release(9, 0)])
    did = activity(trace, "rc")
    assert (did.reads.uncompressed, did.reads.compressed) == ([1], [0])


# ---- what always holds ----------------------------------------------------------------------


def random_cases(redirecting=False):
    """Traces, and the fault maps of three slices; with one that spills where that may happen."""
    for seed in range(3):
        shape = SPILLING | {"accesses": (20, 40)} if redirecting and seed == 2 else SHAPE
        yield random_trace(random.Random(seed), **shape), seeded_fault_maps(seed)[[0, 2, 4]]


@pytest.mark.parametrize("name", possible_techniques())
def test_every_access_and_every_moment_is_accounted_for(name):
    technique = possible_techniques()[name]
    for trace, fault_maps in random_cases(technique.redirects):
        did = activity(trace, technique, fault_maps)
        for accesses, expected in ((did.reads, trace.reads), (did.writes, trace.writes)):
            assert accesses.registers == pytest.approx(np.full(3, expected))
            for part in (accesses.uncompressed, accesses.compressed, accesses.lds):
                assert part.min() >= 0
            assert accesses.compressed_blocks.min() >= 0
        everything = np.full(3, 256.0 * trace.cycles)
        assert did.gating.powered_entry_cycles + did.gated_entry_cycles == pytest.approx(everything)
        assert did.gating.powered_entry_cycles.min() >= 0
        # Off because compressed, or empty; neither is less than nothing.
        assert (did.gated_entry_cycles - did.gating.compressed_entry_cycles).min() >= -1e-6
        more = did.with_idle_entries_on().gating.powered_entry_cycles
        assert (more - did.gating.powered_entry_cycles).min() >= -1e-6
        assert did.compression.examined_blocks <= 4 * trace.writes


def powered_at(times, replay, bits):
    """Mean cycles of a pass that some bits of all entries are powered, [instances, bits]."""
    return times.powered[:, :, bits].sum(axis=1) / replay.passes


@pytest.mark.parametrize(
    "name", [name for name, one in possible_techniques().items() if one.gating is Gating.EMPTY]
)
def test_powered_time_is_that_of_the_cells(name):
    """Under `empty` gating: with whole writes, the powered time of the engine's cells."""
    technique = possible_techniques()[name]
    for trace, fault_maps in random_cases(technique.redirects):
        trace = with_full_masks(trace)
        if technique.placement.value == "pack":  # its windows wait for one another on faults
            fault_maps = fault_free_maps(3)
        replay = prepare(trace, technique)
        did = activity(trace, technique, fault_maps)
        times = ENGINE.cell_times(replay, fault_maps)
        if technique.storage is Storage.INLINE:
            # First bit of each range of bytes; unwritten registers have their first component on.
            powered = powered_at(times, replay, [0, 32, 536, 1040]) @ [4, 63, 63, 126] / 256
            schedule = replay.schedule
            windows = schedule.windows
            opened = (windows.size * (windows.release_cycle - windows.alloc_cycle)).sum()
            powered += 4 / 256 * (opened - (schedule.end_cycle - schedule.cycle).sum())
        else:
            # A record overwrites five bytes of its block; the others are off if nothing ever did.
            powered = powered_at(times, replay, [0, 512, 1024, 1536]).sum(axis=1) / 4
        assert did.gating.powered_entry_cycles == pytest.approx(np.broadcast_to(powered, 3))


@pytest.mark.parametrize("name", ["baseline", "rar", "argo"])
def test_windows_are_on_as_a_whole(name):
    """Where windows are gated, not values, cells are on at least as long as the engine has them."""
    for trace, _ in random_cases():
        replay = prepare(trace, TECHNIQUES[name])
        cells = ENGINE.cell_times(replay, fault_free_maps()).powered.sum() / replay.passes / 2048
        assert activity(trace, name).gating.powered_entry_cycles[0] >= cells


@pytest.mark.parametrize("name", ["baseline", "rar", "argo"])
def test_windows_that_are_written_at_once_are_on_like_their_cells(name):
    events = []
    for begin, slot, size in [(0, 0, 3), (0, 1, 3), (50, 0, 3), (60, 1, 3)]:
        events += [alloc(begin, slot, size), release(begin + 30, slot)]
        events += [write(begin, slot, reg, NOISE) for reg in range(size)]
    trace = trace_of(events)
    replay = prepare(trace, TECHNIQUES[name])
    cells = ENGINE.cell_times(replay, fault_free_maps()).powered.sum() / replay.passes / 2048
    assert activity(trace, name).gating.powered_entry_cycles[0] == cells


def test_wakeups_of_a_table_are_its_expansions():
    for trace, _ in random_cases():
        did = activity(trace, "rc")
        assert did.gating.wakeups[0] == did.compression.expansions == did.gating.expanded_entries


def test_examined_blocks_of_every_distinct_value():
    """Against the rule for a whole value: all four blocks if it fits, one if the first does not."""
    for trace, _ in random_cases():
        values = trace.values
        for row in range(min(len(values), 12)):
            one = trace_of([alloc(0, 0, 1), write(1, 0, 0, values[row]), release(2, 0)])
            blocks = activity(one, "rrcd").compression.examined_blocks
            if compressible(classify(values[row : row + 1]), 64)[0]:
                assert blocks == 4
            elif not first_block_fits(values[row : row + 1], GCN, 64)[0]:
                assert blocks == 1
            else:
                assert 2 <= blocks <= 4


def test_a_user_technique_needs_no_name():
    """What is counted follows from the policies."""
    renamed = Technique("mine", Placement.DIRECT, Storage.TABLE, Gating.EMPTY, "", "")
    trace = life_of_a_register()
    assert (
        activity(trace, renamed).gating.powered_entry_cycles
        == activity(trace, "rc").gating.powered_entry_cycles
    )
