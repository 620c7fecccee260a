"""What the tests of the engines share: techniques, fault maps, traces, comparison of engines."""

import dataclasses
import functools
import itertools
import random

import numpy as np
import trace_strategies
from covering import Covering
from host_gpu.host_device import HostDevice
from oracle import Policies, replay_sum
from tables import slow
from trace_strategies import SPILLING, random_fault_map, random_trace

from mcage.aging.environment import environment
from mcage.aging.nbti import Rates, facelift
from mcage.aging.transistors import AdditiveShift
from mcage.aging.vmin import CellFailure
from mcage.engines.cuda_engine import CudaEngine
from mcage.engines.numba_engine import NumbaEngine
from mcage.engines.numpy_engine import NumpyEngine
from mcage.engines.stress import FaultFreeDuties, Moments, TrackedCells, Turns
from mcage.errors import UserError
from mcage.replays.most_stressed import duty_cycles
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES, Gating, Placement, Storage, Technique
from mcage.traces.model import ALLOC, ALLOC_COLUMNS, EVENT_COLUMNS, WRITE

COUNTED = (
    "regular",
    "to_reliable",
    "to_faulty",
    "lds",
    "lds_reads",
    "peak_spilled_rows",
    "spilled_row_cycles",
    "wakeups",
    "memory",
    "memory_reads",
)
LITTLE_ROOM = 3
"""Rows of the LDS with which some spilled rows of the traces of these tests live in memory."""
NUMPY, NUMBA = NumpyEngine(), NumbaEngine()
SMALL = {"window_sizes": (1, 9), "slots": (1, 3)}
FEW_PLACES = {"window_sizes": (30, 60), "slots": (1, 3), "accesses": (0, 20)}


def name_of(placement, storage, gating, rotating):
    """A combination of policies, in words."""
    return f"{placement.value}/{storage.value}/{gating.value}/{rotating}".replace(" ", "-")


@functools.cache
def possible_techniques():
    """Every combination of policies that is a technique, by a name of its policies."""
    techniques = {}
    for policies in itertools.product(Placement, Storage, Gating, (False, True)):
        placement, storage, gating, rotating = policies
        if gating is Gating.NONE and placement is not Placement.DIRECT:
            continue  # as under `UNUSED`: once for each storage is enough
        name = name_of(*policies)
        try:
            techniques[name] = Technique(name, placement, storage, gating, "", "", rotating)
        except UserError:
            continue
    return techniques


def possible_redirections():
    """The possible techniques that redirect."""
    return {name: each for name, each in possible_techniques().items() if each.redirects}


def possible_fault_heeding_techniques():
    """The possible techniques that do something else on another fault map."""
    return {name: each for name, each in possible_techniques().items() if each.heeds_faults}


@functools.cache
def daily_policies():
    """Combinations in which any two policies meet that can, and those of the techniques."""
    combinations = [dict(enumerate(name.split("/"))) for name in possible_techniques()]
    axes = {axis: sorted({row[axis] for row in combinations}) for axis in range(4)}
    covering = Covering(axes, lambda pair: any({*pair} <= row.items() for row in combinations))
    rows = {"/".join(row.values()) for row in covering.rows}
    return rows | {
        name_of(each.placement, each.storage, each.gating, each.rotating_selectors)
        for each in TECHNIQUES.values()
    }


def daily(cases, chosen):
    """Cases of a parametrized test, of which those that are not chosen are slow."""
    return [
        case if case in chosen else slow(*(case if isinstance(case, tuple) else (case,)))
        for case in cases
    ]


def oracle_policies(technique):
    """The policies of a technique as the oracle calls them."""
    gating = {Gating.IDLE_WINDOWS: "idle", Gating.EMPTY: "empty"}.get(technique.gating, "unused")
    rotating = "-rotating" if technique.rotating_selectors else ""
    return Policies(technique.placement.value + rotating, technique.storage.value, gating)


def fault_map_batch(rng):
    """Fault maps of five slices: no faults, mild, heavy, random, and without a usable block."""
    blocks = np.random.default_rng(rng.getrandbits(32))
    geometry = trace_strategies.GEOMETRY
    size, every = geometry.entries, geometry.all_blocks
    mild = np.where(blocks.random(size) < 0.1, 1 << blocks.integers(0, geometry.blocks, size), 0)
    heavy = np.where(blocks.random(size) < 0.95, blocks.integers(1, every + 1, size), 0)
    maps = [np.zeros(size), mild, heavy, random_fault_map(rng), np.full(size, every)]
    return np.stack(maps).astype(np.uint8)


def seeded_fault_maps(seed):
    return fault_map_batch(random.Random(seed))


def with_full_masks(trace):
    """The same trace, but every write writes all lanes."""
    masks = np.where(trace.kind == WRITE, trace.geometry.all_lanes, np.uint64(0))
    return dataclasses.replace(trace, exec_mask=masks)


def with_first_slots(trace, slots):
    """The same trace, but only the windows of its first slots, and the values that they write."""
    kept_event = trace.slot < slots
    kept_window = kept_event[trace.alloc_event]
    columns = {c.attribute: getattr(trace, c.attribute)[kept_event] for c in EVENT_COLUMNS}
    columns |= {c.attribute: getattr(trace, c.attribute)[kept_window] for c in ALLOC_COLUMNS}
    columns["alloc_event"] = np.flatnonzero(columns["kind"] == ALLOC).astype(np.uint32)
    (_, *used), places = np.unique(columns["value"], return_inverse=True)  # -1 but for writes
    columns["value"] = (places - 1).astype(trace.value.dtype)
    return dataclasses.replace(trace, values=trace.values[used], **columns)


def rotation_comes_back(trace):
    """Whether the counters of all slots that share an entry can be those of one offset.

    Slots that share an entry in kernels of different window size may be re-assigned differently
    often; if their sizes have a common factor, they drift apart and no offset has both counters.
    """
    slots = trace.slot[trace.alloc_event].astype(int)
    sizes = trace.reg[trace.alloc_event].astype(int)
    count = np.bincount(slots)
    windows = sorted(set(zip(slots.tolist(), sizes.tolist(), strict=True)))
    for (slot, size), (other, other_size) in itertools.combinations(windows, 2):
        overlap = range(
            max(slot * size, other * other_size),
            min((slot + 1) * size, (other + 1) * other_size),
        )
        if overlap and (count[slot] - count[other]) % np.gcd(size, other_size):
            return False
    return True


# ---- comparison --------------------------------------------------------------------------------


def cuda_engine(seed=0, memory_bytes=2**30, devices=1, threads=1):
    """The CUDA engine on devices of the host; seed: of the order of their threads and blocks."""
    return CudaEngine([HostDevice(seed + i, memory_bytes) for i in range(devices)], threads)


def assert_same(engines, replay, fault_maps):
    """Each engine gives what the reference gives, which is computed once.

    Counters for all fault maps, cell times for two of them: they take longer.
    """
    meant = NUMPY.count(replay, fault_maps)
    assert meant.regular.shape == (len(fault_maps),)
    for engine in engines:
        actual = engine.count(replay, fault_maps)
        assert actual.passes == meant.passes
        for name in COUNTED:
            assert np.array_equal(getattr(actual, name), getattr(meant, name)), (engine.name, name)
    fault_maps = fault_maps[2:4]
    meant = NUMPY.cell_times(replay, fault_maps)
    slices = len(fault_maps) if replay.technique.heeds_faults else 1
    geometry = replay.geometry
    shape = (slices, geometry.entries, geometry.entry_bits)
    assert meant.ones.shape == meant.powered.shape == shape
    for engine in engines:
        actual = engine.cell_times(replay, fault_maps)
        assert actual.ones.dtype == actual.powered.dtype == np.int64
        assert np.array_equal(actual.period, meant.period), engine.name
        assert np.array_equal(actual.ones, meant.ones), engine.name
        assert np.array_equal(actual.powered, meant.powered), engine.name


def assert_replays_as_the_oracle(trace, technique, delta_limit, fault_map):
    """The engines count what the oracle counts in all passes, for each cell."""
    total, passes = replay_sum(
        trace,
        oracle_policies(technique),
        fault_map=fault_map,
        delta_limit=delta_limit,
        lds_rows=LITTLE_ROOM,
    )
    replay = prepare(trace, technique, delta_limit, lds_rows=LITTLE_ROOM)
    for engine in (NUMPY, NUMBA):
        times = engine.cell_times(replay, fault_map[None])
        assert np.array_equal(np.ravel(times.period), [total.cycles])
        assert replay.passes == passes
        assert np.array_equal(times.ones[0], total.ones)
        assert np.array_equal(times.powered[0], total.powered)
        counters = engine.count(replay, fault_map[None])
        for name in COUNTED:
            expected = total.counters[name]
            if not technique.redirects:  # of one pass: all of them count the same
                expected //= passes
            assert getattr(counters, name).tolist() == [expected], name
    assert replay.schedule.mov_writes * passes == total.counters["mov_writes"]
    assert replay.schedule.mispredicted_writes * passes == total.counters["mispredicted_writes"]


def random_replays(technique, longer=1, seed=5):
    """Replays of three random traces, of which many rows are alive in the first."""
    for i, shape in enumerate((SPILLING, SMALL, SMALL)):
        trace = random_trace(random.Random(seed + i), **shape)
        trace = dataclasses.replace(trace, cycle=trace.cycle * longer, cycles=trace.cycles * longer)
        yield prepare(trace, technique)


def duties_of(replays, engine=NUMBA):
    """The duty cycles on a clean slice, as all engines are given them.

    `NUMBA` is the quickest to say them, but compiles seconds for cycles beyond 32 bits.
    """
    replays = tuple(replays)
    geometry = replays[0].geometry
    clean = np.zeros((1, geometry.entries), dtype=np.uint8)
    times = [engine.cell_times(replay, clean) for replay in replays]
    period = np.array([np.max(of_kernel.period) for of_kernel in times])
    zeros, ones = (
        np.stack([getattr(of_kernel, kind)[0].ravel() for of_kernel in times])
        for kind in ("zeros", "ones")
    )
    return FaultFreeDuties(
        replays, *(duty_cycles(of, period, geometry.components) for of in (zeros, ones))
    )


def live(engine, duties, seed):
    """Times of slices that go from a shared past to worse and worse faults, kernel by kernel.

    After each epoch: the longest of all cells, and a while before; those of tracked cells; cells
    that fail, with their times; how many sampled cells have shifted how far.
    """
    rng, of_cells = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    instances, sampled = 5, 20
    among = 8 * duties.replays[0].geometry.entry_bits
    tail, weak = np.sort(rng.integers(instances, size=300)), rng.integers(among, size=300)
    tracked = TrackedCells(
        np.concatenate([tail, np.repeat(np.arange(instances), sampled)]),
        np.concatenate([weak, of_cells.integers(among, size=instances * sampled)]),
        of_cells.uniform(0.9, 1.0, (2, 300)),
        sampled,
    )
    stress = engine.stress(duties, tracked, instances)
    growth = np.linspace(0.8, 1.2, instances)
    shift, failure, age = slow_shift(of_cells, instances), CellFailure(growth, 1.0), 0.0
    mild, heavy = (seeded_fault_maps(seed)[which] for seed, which in ((5, 1), (6, 2)))
    history, failed = [], []
    maps_of_epochs = np.zeros_like(mild), np.zeros_like(mild), mild, mild, heavy
    for epoch, fault_map in enumerate(maps_of_epochs):
        running = rng.permutation(instances)[:4]  # in any order, not all
        turns = Turns.single(rng.integers(len(duties.replays), size=4))
        if epoch % 2:  # some epochs with one kernel, some with several in turn
            turns = mixes(of_cells, len(duties.replays), 4)
        maps = np.where(running[:, None] % 3 == 0, 0, fault_map).astype(np.uint8)
        seconds = rng.uniform(1e6, 1e9)
        stress.add(running, turns, maps, seconds)
        back = seconds * rng.uniform(size=4)
        earlier = stress.longest_earlier(running, turns, maps, back)
        assert (earlier <= stress.longest[:, running]).all()
        history += [stress.longest.copy(), stress.tracked_seconds.now.copy(), earlier]
        age += seconds
        running.sort()
        cells, ages = stress.tracked_seconds, np.full(4, age)
        places, of_places = cells.failing(running, ages, shift, failure)
        cells.mark_faulty(places[::2])
        moments = Moments(of_cells.uniform(size=4), ages)
        history += [places, of_places.before, of_places.after]
        history += [cells.histogram(running, moments, shift, 60)]
        history += [cells.sampled_dvth(running, moments, shift)]
        failed.append(len(places))
    assert all(failed)
    return history


def mixes(rng, kernels, instances):
    """Up to three kernels in turn for each instance; the last of the first has no share of time."""
    number = min(3, kernels)
    kernel = np.stack([np.sort(rng.permutation(kernels)[:number]) for _ in range(instances)])
    share = rng.dirichlet(np.ones(number), instances)
    if number > 1:
        share[0] = [*share[0, :-2], share[0, -2:].sum(), 0.0]
    return Turns(kernel, share)


def slow_shift(rng, instances):
    """How transistors of slices shift that are busy for a part of the time, each another one.

    They recover differently, too.
    """
    stress = facelift().stress_rate(environment("turbo", 1.0))
    rates = Rates(stress * rng.uniform(0.5, 1, instances), np.ones(()))
    eta = np.linspace(0.2, 0.5, instances)
    return AdditiveShift(facelift(), rates, rng.uniform(0.2, 1, instances), {"eta": eta})


def assert_same_lives(engines, duties, seed):
    """Each engine gives the times of the reference, to the last bit."""
    meant = live(NUMPY, duties, seed)
    longest, seconds = meant[-8:-6]
    assert longest.all()
    assert seconds.any()
    for engine in engines:
        for expected, other in zip(meant, live(engine, duties, seed), strict=True):
            assert np.array_equal(expected, other), engine.name
