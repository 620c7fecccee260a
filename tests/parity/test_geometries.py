"""Slices of other geometry than that of the papers: the engines against the oracle, and alike."""

import random
from itertools import cycle

import numpy as np
import pytest
from engine_cases import (
    NUMBA,
    NUMPY,
    assert_replays_as_the_oracle,
    assert_same,
    assert_same_lives,
    cuda_engine,
    duties_of,
    possible_fault_heeding_techniques,
    possible_techniques,
    random_replays,
    seeded_fault_maps,
)
from geometries import DRAWN, on, random_geometry
from rrcd_program import programmed
from trace_strategies import SPILLING, random_fault_map, random_trace

from mcage.geometry import NVIDIA
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES, Placement

SMALL = {"window_sizes": (1, 5), "slots": (1, 3), "accesses": (0, 10), "phases": (1, 1)}
SEED = 7
HEEDING = possible_fault_heeding_techniques()

ON_DEVICES = [
    ("redirect/block/unused/False", NVIDIA),
    ("redirect/table/empty/True", NVIDIA),
    ("redirect/plain/empty/True", DRAWN[2]),
    ("redirect/block/unused/True", DRAWN[3]),
    ("direct/inline/empty/False", NVIDIA),
]
"""Techniques and slices of which each program has something else to do."""


def shape_for(technique, geometry):
    """As small as can be. Where windows go round, each place is a pass: 16 to 32 of them."""
    if technique.placement is Placement.ROUND_ROBIN:
        return SMALL | {"window_sizes": (geometry.entries // 32, geometry.entries // 16)}
    return SMALL


@pytest.mark.parametrize("geometry", DRAWN, ids=lambda geometry: geometry.name)
@pytest.mark.parametrize("name", TECHNIQUES)
def test_the_oracle_agrees(name, geometry):
    with on(geometry):
        rng, technique = random.Random(f"{name} {geometry.name}"), TECHNIQUES[name]
        trace = random_trace(rng, **shape_for(technique, geometry))
        fault_map = random_fault_map(rng)
        assert_replays_as_the_oracle(trace, technique, 64, fault_map)


@pytest.mark.parametrize("name", possible_techniques())
def test_engines_agree_on_drawn_geometries(name):
    rng = random.Random(name)
    with on(random_geometry(rng)):
        trace = random_trace(rng, **(SMALL if name not in HEEDING else SPILLING))
        replay = prepare(trace, possible_techniques()[name])
        assert_same([NUMBA], replay, seeded_fault_maps(rng.getrandbits(32)))


@pytest.mark.parametrize(("name", "geometry"), ON_DEVICES)
def test_kernels_agree(name, geometry):
    """The CUDA engine on the host's device: programs are compiled for each geometry."""
    engine, rng = cuda_engine(), random.Random(name)
    with on(geometry):
        trace = random_trace(rng, **(SPILLING if name in HEEDING else SMALL))
        replay = prepare(trace, possible_techniques()[name])
        assert_same([engine], replay, seeded_fault_maps(rng.getrandbits(32)))
        if name in HEEDING:
            duties = duties_of(random_replays(HEEDING[name], seed=SEED))
            assert_same_lives([engine], duties, 3)


@pytest.mark.parametrize(("name", "geometry"), [*zip(HEEDING, cycle(DRAWN), strict=False)])
def test_stress_agrees_to_the_last_bit(name, geometry):
    with on(geometry):
        duties = duties_of(random_replays(HEEDING[name], seed=SEED))
        assert_same_lives([NUMBA], duties, 3)


@pytest.mark.parametrize("geometry", DRAWN[:3], ids=lambda geometry: geometry.name)
def test_a_program_takes_any_slice(geometry):
    """RRCD as a program is RRCD there, too, on both engines that run programs."""
    rng = random.Random(geometry.name)
    with on(geometry):
        trace, maps = random_trace(rng, **SPILLING), seeded_fault_maps(rng.getrandbits(32))
        built_in = NUMBA.cell_times(prepare(trace, TECHNIQUES["rrcd+pg"]), maps)
        for engine in (NUMPY, NUMBA):
            program = engine.cell_times(prepare(trace, programmed("rrcd+pg")), maps)
            assert np.array_equal(program.ones, built_in.ones)
            assert np.array_equal(program.powered, built_in.powered)
