"""Events from the number of free places alone: the same as from the fault map itself."""

import random

import numpy as np
import pytest
from engine_cases import NUMBA, SMALL, cuda_engine, possible_redirections
from host_gpu.compiler import needs_host_compiler
from trace_strategies import SPILLING, random_trace

from mcage.engines.interface import (
    COUNTERS,
    Counts,
    free_places,
    maps_with,
    most_in_use,
    only_numbers_matter,
)
from mcage.engines.numba_engine import residencies
from mcage.engines.numba_engine.homes import homes_on
from mcage.engines.numba_engine.residencies import residencies_of
from mcage.engines.numba_engine.stress import count
from mcage.errors import UserError
from mcage.geometry import GCN, NVIDIA
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES


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
