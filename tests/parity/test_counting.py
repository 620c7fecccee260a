"""Events from the number of free places: the same as from the fault map itself."""

import random

import numpy as np
import pytest
from engine_cases import possible_redirections
from trace_strategies import SPILLING, random_trace

from mcage.engines.numba_engine.placement.count import Counts
from mcage.engines.numba_engine.placement.homes import count
from mcage.engines.numba_engine.placement.redirect import COUNTERS
from mcage.engines.numba_engine.placement.residencies import residencies_of
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


@pytest.mark.parametrize("name", possible_redirections())
@pytest.mark.parametrize("seed", range(3))
def test_where_free_places_are_makes_no_difference(name, seed):
    rng = random.Random(seed)
    residencies = residencies_of(
        (prepare(random_trace(rng, **SPILLING), possible_redirections()[name]),)
    )
    maps = scattered_maps(rng)
    expected = np.zeros((len(maps), COUNTERS), dtype=np.int64)
    count(residencies, maps, expected)
    counts = Counts(residencies)
    assert np.array_equal(counts.of(maps), expected)
    assert np.array_equal(counts.of(maps[::-1]), expected[::-1])
    assert counts.of(maps[:0]).shape == (0, COUNTERS)


def test_nothing_in_entries_needs_no_places():
    """Few accesses: in some of these traces all writes go to the table, or there are none."""
    few = {"window_sizes": (1, 1), "slots": (1, 1), "accesses": (0, 1), "generations": (1, 1)}
    technique = TECHNIQUES["rrcd+rc+rar"]
    replays = [prepare(random_trace(random.Random(i), **few), technique) for i in range(30)]
    empty = [
        residencies
        for residencies in map(residencies_of, zip(replays, strict=True))
        if not len(residencies.end)
    ]
    assert empty
    for residencies in empty:
        no_use = np.full((1, 256), 15, dtype=np.uint8)
        regular, *others = Counts(residencies).of(no_use)[0]
        assert regular == len(residencies.selector_starts) * residencies.kernels.writes[0]
        assert not any(others)
