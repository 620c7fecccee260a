"""Laws that hold for every replay, whatever the trace: what is conserved, what cannot happen.

They are asked of one engine: `test_engines` holds that the others give the same.
"""

import random
from collections import Counter

import numpy as np
import pytest
from engine_cases import (
    COUNTED,
    NUMBA,
    SMALL,
    cuda_engine,
    fault_map_batch,
    possible_redirections,
    seeded_fault_maps,
    with_full_masks,
)
from host_gpu.compiler import needs_host_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_strategies import SPILLING, random_trace, traces

from mcage.engines.interface import (
    COUNTERS,
    Counts,
    fault_free_maps,
    free_places,
    maps_with,
    most_in_use,
    only_numbers_matter,
)
from mcage.engines.numba_engine import residencies
from mcage.engines.numba_engine.homes import homes_on
from mcage.engines.numba_engine.residencies import residencies_of
from mcage.engines.numba_engine.stress import count
from mcage.engines.numpy_engine.redirection import (
    IN_LDS,
    IN_MEMORY,
    IN_TABLE,
    NOWHERE,
    place_writes,
)
from mcage.errors import UserError
from mcage.geometry import GCN, NVIDIA
from mcage.replays.prepare import prepare
from mcage.replays.schedule import DEATH
from mcage.techniques import TECHNIQUES, Storage
from mcage.traces.model import ALLOC, RELEASE

REDIRECTING = [name for name, technique in TECHNIQUES.items() if technique.redirects]
SHAPE = {"window_sizes": (3, 9), "slots": (1, 3)}


def spilling_replays(name):
    """Replays of a redirecting technique with many rows alive, and fault maps of all sorts."""
    for seed in range(2):
        trace = random_trace(random.Random(seed), **SPILLING)
        yield prepare(trace, TECHNIQUES[name]), seeded_fault_maps(seed)


@pytest.mark.parametrize("name", TECHNIQUES)
def test_duty_cycles_make_one(name):
    """d0 + d1 + off = 1 with none of them below 0; in a clean slice every value finds a home."""
    for seed in range(2):
        replay = prepare(random_trace(random.Random(seed), **SHAPE), TECHNIQUES[name])
        times = NUMBA.cell_times(replay, fault_free_maps())
        off = times.period - times.powered
        for share in (times.zeros, times.ones, off):
            assert share.min() >= 0
        assert (times.zeros + times.ones + off == replay.passes * replay.schedule.cycles).all()
        if not replay.technique.gates_released:  # a cell is on for whole passes or not at all
            assert (times.powered % replay.schedule.cycles == 0).all()


@pytest.mark.parametrize("name", REDIRECTING)
def test_every_write_is_of_one_kind(name):
    for replay, fault_maps in spilling_replays(name):
        counters = NUMBA.count(replay, fault_maps)
        kinds = sum(getattr(counters, kind) for kind in COUNTED[:4])
        assert (kinds == replay.passes * replay.schedule.writes).all()
        assert (counters.lds_reads <= replay.passes * replay.schedule.reads).all()
        assert (counters.spilled_row_cycles <= counters.peak_spilled_rows * replay.period).all()
        clean, hopeless = 0, -1
        assert counters.to_faulty[clean] == 0
        assert counters.lds[clean] == 0
        assert counters.to_reliable[hopeless] == counters.to_faulty[hopeless] == 0
        in_table = replay.schedule.compressed & (replay.technique.storage is Storage.TABLE)
        assert counters.regular[hopeless] == replay.passes * in_table.sum()


def test_techniques_that_cannot_move_data_count_all_alike():
    trace, fault_maps = random_trace(random.Random(0), **SHAPE), seeded_fault_maps(0)
    for technique in TECHNIQUES.values():
        if technique.heeds_faults:
            continue
        counters = NUMBA.count(prepare(trace, technique), fault_maps)
        assert counters.regular.tolist() == [trace.writes] * len(fault_maps)
        nothing = set(COUNTED) - {"regular", "wakeups"}
        assert not any(getattr(counters, name).any() for name in nothing)


@pytest.mark.parametrize("name", REDIRECTING)
def test_homes_are_possible(name):
    """No uncompressed value in a faulty entry, none in a bad block, no block held twice."""
    for replay, fault_maps in spilling_replays(name):
        homes = place_writes(replay, fault_maps)
        assert not (homes.entry == NOWHERE).any()
        maps_of_lanes = np.repeat(fault_maps, replay.passes, axis=0)
        for fault_map, entry, block in zip(maps_of_lanes, homes.entry, homes.block, strict=True):
            assert_homes_of_a_pass_are_possible(replay.schedule, fault_map, entry, block)


def assert_homes_of_a_pass_are_possible(schedule, fault_map, entry, block):
    live: dict[int, dict[int, list[tuple[int, int]]]] = {}  # window, register, its blocks
    for kind, which in zip(schedule.op_kind.tolist(), schedule.op.tolist(), strict=True):
        if kind == ALLOC:
            live[which] = {}
        elif kind == RELEASE:
            del live[which]
        elif kind == DEATH:
            del live[int(schedule.window[which])][int(schedule.reg[which])]
        else:
            blocks = [int(block[which])] if schedule.compressed[which] else range(4)
            if entry[which] in (IN_LDS, IN_MEMORY):
                blocks = []
            elif entry[which] == IN_TABLE:
                assert schedule.compressed[which]
                blocks = []
            home = [(int(entry[which]), block) for block in blocks]
            assert not any(fault_map[number] >> block & 1 for number, block in home)
            live[int(schedule.window[which])][int(schedule.reg[which])] = home
        held = Counter(place for rows in live.values() for home in rows.values() for place in home)
        assert not held or max(held.values()) == 1


def test_powered_entries_are_the_live_rows():
    """With whole writes and gated entries, as many entries are on as rows live in the slice."""
    techniques = [TECHNIQUES[name] for name in ("rc", "rc+rar", "rrcd+rc+rar")]
    for seed, shape in enumerate([SHAPE, SPILLING]):
        trace = with_full_masks(random_trace(random.Random(seed), **shape))
        for technique in techniques:
            replay, fault_maps = prepare(trace, technique), seeded_fault_maps(seed)[2:3]
            schedule = replay.schedule
            alive = (schedule.end_cycle - schedule.cycle)[~schedule.compressed].sum()
            spilled = NUMBA.count(replay, fault_maps).spilled_row_cycles
            powered = NUMBA.cell_times(replay, fault_maps).powered.sum(axis=(1, 2))
            # Only uncompressed rows are counted, and only they may be spilled: others have a table.
            assert (powered == 2048 * (replay.passes * alive - spilled)).all()


def test_rotation_conserves_stress():
    """It moves stress to other entries, cell by cell, and makes none and loses none."""

    @given(trace=traces(**SHAPE), delta_limit=st.sampled_from([64, None]))
    @settings(max_examples=6, deadline=None)
    def check(trace, delta_limit):
        trace = with_full_masks(trace)
        direct = prepare(trace, TECHNIQUES["rc"], delta_limit)
        rotating = prepare(trace, TECHNIQUES["rc+rar"], delta_limit)
        still, moved = (NUMBA.cell_times(each, fault_free_maps()) for each in (direct, rotating))
        for before, after in [(still.ones, moved.ones), (still.powered, moved.powered)]:
            assert (after.sum(axis=1) == rotating.passes * before.sum(axis=1)).all()

    check()


def test_rotation_wears_entries_of_a_window_alike():
    """All windows of one size: no entry of a slot is any different from another."""
    shape = {"window_sizes": (5, 5), "slots": (2, 3), "phases": (1, 1)}
    trace = random_trace(random.Random(1), **shape)
    for name in ("rar", "rc+rar"):
        times = NUMBA.cell_times(prepare(trace, TECHNIQUES[name]), fault_free_maps())
        for slot in np.unique(trace.slot):
            entries = times.ones[0, 5 * slot : 5 * slot + 5]
            assert entries.any()
            assert (entries == entries[0]).all()


@pytest.mark.parametrize("name", REDIRECTING)
def test_an_instance_does_not_depend_on_its_batch(engine, name):
    @given(trace=traces(**SHAPE), maps=st.randoms(use_true_random=False))
    @settings(max_examples=2, deadline=None)
    def check(trace, maps):
        replay, fault_maps = prepare(trace, TECHNIQUES[name]), fault_map_batch(maps)[1:4]
        together, counted = engine.cell_times(replay, fault_maps), engine.count(replay, fault_maps)
        for instance in (2, 0):
            fault_map = fault_maps[instance : instance + 1]
            alone = engine.cell_times(replay, fault_map)
            assert np.array_equal(alone.ones[0], together.ones[instance])
            assert np.array_equal(alone.powered[0], together.powered[instance])
            counters = engine.count(replay, fault_map)
            for counter in COUNTED:
                assert getattr(counters, counter)[0] == getattr(counted, counter)[instance]

    check()


# Events from the number of free places alone: the same as from the fault map itself.


def scattered_maps(rng):
    """Fault maps from almost clean to almost useless, each of them at several places."""
    maps = []
    for entries, blocks in ((2, 1), (20, 1), (90, 1), (90, 3), (180, 2), (250, 3), (250, 4)):
        fault_map = np.zeros(256, dtype=np.uint8)
        for entry in range(entries):
            fault_map[entry] = sum(1 << block for block in rng.sample(range(4), blocks))
        maps += [rng.sample(fault_map.tolist(), 256) for _ in range(3)]
    return np.array(maps, dtype=np.uint8)


def counted(replay, maps):
    """What the event machine counts on every fault map: int64[n, 8]."""
    counters = np.zeros((len(maps), COUNTERS), dtype=np.int64)
    residencies = residencies_of((replay,))
    count(residencies, 0, maps, homes_on(residencies, 0), counters)
    return counters


def columns(counters):
    """Arrays of counters, side by side: int64[n, 8]."""
    return np.stack([*vars(counters).values()][1:], axis=1)


def counting(asked):
    """What counts what is not known, each call of which adds for how many it is asked."""

    def count_unknown(replays, kernel, fault_maps):
        asked.append(len(kernel))
        each = [counted(replays[number], fault_maps) for number in range(len(replays))]
        return np.stack(each)[kernel, np.arange(len(kernel))]

    return count_unknown


@pytest.mark.parametrize("name", possible_redirections())
@pytest.mark.parametrize(("seed", "ahead"), [(0, False), (2, True)])
def test_where_free_places_are_makes_no_difference(name, seed, ahead):
    """Several kernels in any order, what is known and what is not, or has been counted ahead."""
    rng, technique = random.Random(seed), possible_redirections()[name]
    replays = [prepare(random_trace(rng, **shape), technique) for shape in (SPILLING, SMALL)]
    maps = scattered_maps(rng)
    expected = np.stack([counted(replay, maps) for replay in replays])
    asked = []
    counts = Counts(counting(asked), ahead)
    kernel = np.array([rng.randrange(2) for _ in maps])
    for first, last in ((0, 9), (5, len(maps)), (0, len(maps))):
        of_maps = counts.of(replays, kernel[first:last], maps[first:last])
        assert of_maps.passes == replays[0].passes
        assert np.array_equal(columns(of_maps), expected[kernel, np.arange(len(maps))][first:last])
    if only_numbers_matter(technique):
        assert len(asked) <= 2  # nothing is unknown in the end, and all kernels are asked together
        assert ahead or len(asked) == 2
        assert ahead or sum(asked) < len(maps)
    empty = counts.of(replays, kernel[:0], maps[:0])
    assert columns(empty).shape == (0, COUNTERS)


@pytest.mark.parametrize("name", ["rrcd", "rrcd+rc+rar"])
def test_what_is_counted_ahead_is_what_is_asked_for_next(name):
    """Of slices that gain blocks or an entry, one after the other: in fewer calls."""
    technique, rng, asked_plainly, asked_ahead = TECHNIQUES[name], random.Random(1), [], []
    replays = [prepare(random_trace(rng, **shape), technique) for shape in (SPILLING, SMALL)]
    plain, ahead = Counts(counting(asked_plainly), False), Counts(counting(asked_ahead), True)
    fault_map, places = np.full((1, 256), 15, dtype=np.uint8), list(range(256))
    rng.shuffle(places)
    for place in places[:40]:
        fault_map[0, place] = rng.choice((0, 1, 3, 14))
        for kernel in range(2):
            asked = replays, np.array([kernel]), fault_map
            assert np.array_equal(columns(ahead.of(*asked)), columns(plain.of(*asked)))
    assert len(asked_ahead) <= len(asked_plainly) / 2


@pytest.mark.parametrize("geometry", [GCN, NVIDIA])
def test_maps_are_made_for_so_many_free_places(geometry):
    entries, blocks = np.divmod(np.arange(geometry.entries * 7), 7)
    possible = blocks <= (geometry.blocks - 1) * (geometry.entries - entries)
    entries, blocks = entries[possible], blocks[possible]
    free = free_places(maps_with(entries, blocks, geometry), geometry.blocks)
    assert np.array_equal(free, [entries, blocks])


@needs_host_compiler
def test_a_device_places_for_what_is_not_known_only():
    rng, technique = random.Random(5), TECHNIQUES["rrcd"]
    replays = tuple(prepare(random_trace(rng, **shape), technique) for shape in (SPILLING, SMALL))
    maps, cuda = scattered_maps(rng), cuda_engine()
    kernel = np.arange(len(maps)) % 2
    expected = columns(NUMBA.redirect_each(replays, kernel, maps))
    assert np.array_equal(columns(cuda.redirect_each(replays, kernel, maps)), expected)
    (device,) = cuda.devices
    assert device.launches == 1
    elsewhere = maps[:, ::-1].copy()  # other entries, as many of them
    assert np.array_equal(columns(cuda.redirect_each(replays, kernel, elsewhere)), expected)
    assert device.launches == 1


def test_nothing_in_entries_needs_no_places():
    """Few accesses: in some of these traces all writes go to the table, or there are none."""
    few = {"window_sizes": (1, 1), "slots": (1, 1), "accesses": (0, 1), "generations": (1, 1)}
    technique = TECHNIQUES["rrcd+rc+rar"]
    replays = [prepare(random_trace(random.Random(i), **few), technique) for i in range(30)]
    empty = [replay for replay in replays if not len(residencies_of((replay,)).end)]
    assert empty
    for replay in empty:
        assert most_in_use(replay.schedule) == (0, 0)
        no_use = np.full((1, 256), 15, dtype=np.uint8)
        regular, *others = columns(NUMBA.redirect(replay, no_use))[0]
        assert regular == replay.passes * replay.schedule.writes
        assert not any(others)


def test_traces_with_more_writes_than_an_occupant_can_name(monkeypatch):
    replay = prepare(random_trace(random.Random(0), **SPILLING), TECHNIQUES["rrcd"])
    writes = len(residencies_of((replay,)).writes.image)
    monkeypatch.setattr(residencies, "MOST_WRITES", writes)
    residencies_of((replay,))
    with pytest.raises(UserError, match=f"have {2 * writes:,} register writes together"):
        residencies_of((replay, replay))
