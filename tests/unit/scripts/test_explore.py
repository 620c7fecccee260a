"""What scripts of experiments test and compare, on traces and values made by hand."""

import random
from dataclasses import replace

import numpy as np
import pytest
from compressors import ALGORITHMS, BEST, sizes_of
from explore_duty import DUTY_HYPOTHESES, Assumptions, cell_times, compresses, reductions
from explore_spills import dying, occupancy, reliable_entries, spills
from explore_traces import dispatched_by_wavefront, released_at_last_access
from kernel_suites import Subject, compression
from tables import each
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


# Compression algorithms and weights of the experiment about suites of kernels, by hand.

LANES = np.arange(64, dtype=np.uint32)
RANDOM = np.random.default_rng(5).integers(0, 1 << 32, 64, dtype=np.uint32)
HALVES = np.where(LANES < 32, 0x11223344, 0x11223355)

SIZES = {
    "nothing": (np.zeros(64), {"zero": 0, "uniform": 4, "affine": 8, "narrow": 64, "rc": 5}),
    "a constant": (
        np.full(64, 0xDEADBEEF),
        {"zero": 256, "uniform": 4, "affine": 8, "byte planes": 4, "warped": 4, "narrow": 256},
    ),
    "-1": (np.full(64, 0xFFFFFFFF), {"narrow": 64, "zero": 256}),
    "255": (np.full(64, 255), {"narrow": 64}),
    "-129": (np.full(64, 2**32 - 129), {"narrow": 128}),
    "65535": (np.full(64, 65535), {"narrow": 128}),
    "-32769": (np.full(64, 2**32 - 32769), {"narrow": 256}),
    "255 and -1": (np.where(LANES < 5, 255, 2**32 - 1), {"narrow": 128}),
    "lanes": (
        LANES,
        {"rc": 5, "rc, in a block": 64, "affine": 8, "uniform": 256, "warped": 67, "narrow": 64}
        | {"byte planes": 67},
    ),
    "steps of 3": (3 * LANES, {"rc": 256, "rc, any delta": 256, "affine": 8, "warped": 130}),
    "steps of 128": (128 * LANES, {"rc": 256, "rc, any delta": 6, "affine": 8, "warped": 130}),
    "steps of -1": (1000 - LANES, {"rc": 256, "affine": 8, "warped": 67}),
    "steps that wrap": (LANES * np.uint32(0x12345679), {"affine": 8, "warped": 256}),
    "rows of 8": (
        1000 * (LANES // 8 % 2) + LANES % 8,
        {"rc": 256, "affine": 256, "warped": 130},
    ),
    "tiles": (64 * (LANES // 8) + LANES % 8, {"rc": 5, "affine": 256, "byte planes": 130}),
    "halves": (HALVES, {"byte planes": 67, "uniform": 256, "warped": 67}),
    "one lane": (np.where(LANES == 63, 1, 0), {"uniform": 256, "zero": 256, "affine": 256}),
    "anything": (RANDOM, {each.name: 256 for each in ALGORITHMS if not each.is_bound}),
}


@each("name", SIZES)
def test_sizes(name):
    contents, expected = SIZES[name]
    sizes = sizes_of(np.array(contents).astype(np.uint32)[None])
    assert {key: sizes[key][0] for key in expected} == expected
    built = [sizes[each.name][0] for each in ALGORITHMS if not each.is_bound]
    assert sizes[BEST][0] == min(built)


def test_bounds():
    """Two equally frequent symbols take a bit a lane; tables count where they are said to."""
    contents = np.stack([HALVES, LANES, np.full(64, 7), RANDOM]).astype(np.uint32)
    sizes = sizes_of(contents)
    free, with_bytes = sizes["entropy of bytes"], sizes["coded bytes"]
    assert free[:3] == pytest.approx([64 / 8, 64 * 6 / 8, 0], abs=1e-9)
    assert with_bytes[:3] == pytest.approx([8 + 5, 48 + 67, 4])
    assert sizes["coded words"] == pytest.approx([8 + 8, 256, 4, 256])
    assert 150 < free[3] < 4 * 48
    assert with_bytes[3] == 256, "no more than the register itself"


SCATTERED = np.arange(64) ** 3 + 2**27 * np.arange(64) + 5
"""No pattern, and no byte in which all lanes agree."""


def small():
    """A constant for 10 cycles, the same under a partial mask for 20, anything for 30."""
    events = [
        alloc(0, 0, 2),
        write(10, 0, 0, 7),
        write(20, 0, 0, 7, lanes=1),
        write(10, 0, 1, SCATTERED),
        read(39, 0, 0),
        release(40, 0),
    ]
    return trace_of(events, 50)


def test_shares_by_writes_and_by_time():
    subject = Subject("suite", "kernel", small())
    lines = {line["algorithm"]: line for line in compression(subject)}
    residence = subject.played.cycle[-1] - np.array([10, 20])
    times = [10, *(residence[::-1])]  # until the next write; until the release, which is the last
    warped = lines["warped"]
    assert warped["compressed_by_writes"] == pytest.approx(1 / 3)
    assert warped["compressed_by_time"] == pytest.approx(10 / sum(times))
    assert warped["bytes_by_writes"] == pytest.approx((4 + 256 + 256) / 3 + 2 / 8)
    assert warped["bytes_by_time"] == pytest.approx(256 - 252 * 10 / sum(times) + 2 / 8)
    assert lines["zero"]["stored_by_writes"] == pytest.approx((256 + 1 / 8) / 256)
    assert lines[BEST]["bytes_by_writes"] == pytest.approx((4 + 256 + 256) / 3 + 1)
