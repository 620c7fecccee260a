"""The shortcuts of the CUDA engine's stress times against the reference, and on real traces.

Kernels run on the host device. What they tell is equal to the last bit, integers and floats: the
longest times, those of tracked cells, which cells fail, histograms. Nothing has a tolerance.
"""

import dataclasses
from itertools import product

import numpy as np
import pytest
from engine_cases import (
    NUMBA,
    NUMPY,
    assert_same_lives,
    cuda_engine,
    daily,
    duties_of,
    live,
    mixes,
    random_replays,
    seeded_fault_maps,
)
from host_gpu.compiler import needs_host_compiler
from trace_strategies import alloc, pattern, release, trace_of, write

from mcage.aging.environment import environment
from mcage.aging.nbti import Facelift, Rates, nbti_model
from mcage.aging.transistors import AdditiveShift
from mcage.aging.vmin import CellFailure
from mcage.engines.cuda_engine import stress as cuda_stress
from mcage.engines.cuda_engine.programs import Runner
from mcage.engines.parity import excerpt
from mcage.engines.stress import Moments, TrackedCells, Turns
from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES
from mcage.traces.library import bundled_trace
from mcage.version import kernel_text

pytestmark = needs_host_compiler
KERNELS = ("Reduction", "ScanLargeArrays")
INSTANCES, TRACKED = 2, 40


def duties_without_faults(name):
    replays = tuple(prepare(bundled_trace(kernel), TECHNIQUES[name]) for kernel in KERNELS)
    return duties_of(replays)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rrcd", "rrcd+rc+rar"])
def test_real_traces(name):
    """As on the Numba engine, which `test_numba_stress` compares with sums over all cells."""
    duties, rng = duties_without_faults(name), np.random.default_rng(4)
    cells = rng.choice(GCN.cells, (INSTANCES, TRACKED), replace=False)
    tracked = TrackedCells(np.repeat(np.arange(INSTANCES), TRACKED), cells.ravel())
    meant, actual = (
        engine.stress(duties, tracked, INSTANCES) for engine in (NUMBA, cuda_engine(seed=3))
    )
    blocks = 1 << rng.integers(0, 4, (INSTANCES, GCN.entries))
    everyone = np.arange(INSTANCES)
    for faulty in (0, 0.3, 0.32):
        maps = np.where(rng.random(blocks.shape) < faulty, blocks, 0).astype(np.uint8)
        turns, seconds = mixes(rng, len(KERNELS), INSTANCES), rng.uniform(1e6, 1e8)
        for stress in (meant, actual):
            stress.add(everyone, turns, maps, seconds)
        assert np.array_equal(meant.longest, actual.longest)
        assert np.array_equal(meant.tracked_seconds.now, actual.tracked_seconds.now)
        back = np.full(INSTANCES, 0.4 * seconds)
        earlier = [
            stress.longest_earlier(everyone, turns, maps, back) for stress in (meant, actual)
        ]
        assert np.array_equal(*earlier)
    assert meant.longest.all()
    assert meant.tracked_seconds.now.any()


@pytest.mark.parametrize(
    ("name", "most_cycles"), daily([("rrcd", 2**35), ("rrcd+rc+rar", 2**31 - 1)], [("rrcd", 2**35)])
)
def test_cycles_beyond_32_bits(name, most_cycles):
    """Within a pass, and only of all passes together."""
    longest = max(replay.schedule.cycles for replay in random_replays(TECHNIQUES[name]))
    replays = random_replays(TECHNIQUES[name], longer=most_cycles // longest)
    assert_same_lives((cuda_engine(seed=5),), duties_of(replays, NUMPY), 5)


@pytest.mark.parametrize(
    "name", daily(["gr-guard", "rrcd", "rrcd+pg", "rrcd+rc+rar"], ["rrcd+pg", "rrcd+rc+rar"])
)
def test_no_cell_exceeds_the_bound_of_its_bit(monkeypatch, name):
    """The search hides a bound that is too low, unless it is that of the most stressed cell.

    On the first maps compressed rows fill entries that hold whole registers at other times.
    """
    duties, rng = duties_of(random_replays(TECHNIQUES[name])), np.random.default_rng(2)
    few = np.where(np.arange(3 * 256).reshape(3, 256) % 100 == 7, 0b1011, 0)
    heavy = np.where(rng.random((3, 256)) < 0.95, rng.integers(1, 16, (3, 256)), 0)
    epochs = [
        (Turns.single(rng.integers(3, size=3)), maps, rng.uniform(1e6, 1e8))
        for maps in (few, few, heavy)
    ]
    bounds, most = bounds_and_most(monkeypatch, duties, epochs)
    assert (bounds >= most).all()
    assert (bounds == most).any(axis=(1, 2, 3)).all()


def test_cells_beside_a_record_show_what_they_held_before(monkeypatch):
    """A record powers its block, in which a register stood that had the highest bits set."""
    whole = np.random.default_rng(3).integers(2**31, 2**32, 64).astype(np.uint32)
    events = [alloc(0, 0, 1), write(0, 0, 0, whole), write(1, 0, 0, pattern(5)), release(101, 0)]
    duties = duties_of([prepare(trace_of(events, 102), TECHNIQUES["rrcd+pg"])])
    maps = np.zeros((1, 256))
    maps[0, 255] = 0b1111
    turns = Turns.single(np.zeros(1, np.int64))
    bounds, most = bounds_and_most(monkeypatch, duties, [(turns, maps, 102.0)])
    assert most[1, 0, 0, 31] == pytest.approx(101)
    assert (bounds >= most).all()


def trace_of_windows(count):
    """Windows of four registers, one after the other, of which each is written four times."""
    words = np.random.default_rng(count).integers(2**32, size=(20 * count, 64), dtype=np.uint32)
    events = []
    for begin in range(0, 20 * count, 20):
        events.append(alloc(begin, 0, 4))
        events += [write(now, 0, now % 4, words[now]) for now in range(begin, begin + 16)]
        events.append(release(begin + 18, 0))
    return trace_of(events, 20 * count)


def test_open_bits_of_all_slices_are_closed_from_the_same_tiles(monkeypatch):
    """Without a search all are open; their bounds become true to the last bit.

    A block has room for fewer residencies, and for fewer open bits. The last slice has few entries:
    a residency has the same one in all passes, and a tile has more of them than lanes.
    """
    replays = [prepare(trace_of_windows(count), TECHNIQUES["rrcd+rc+rar"]) for count in (60, 30)]
    first = np.array([0.3, 0.2, 0.6, 0.5])
    turns = Turns(np.array([[0, 0], [1, 1], [0, 0], [1, 1]]), np.stack([first, 1 - first], axis=1))
    maps = np.where(np.arange(4 * 256).reshape(4, 256) % 100 == 7, 0b1111, 0)
    maps[3, 12:] = 0b1111
    left_out, epochs = ("guess", "work_out"), [(turns, maps, 1e6)]
    bounds, most = bounds_and_most(monkeypatch, duties_of(replays), epochs, left_out)
    assert np.array_equal(bounds, most)


SEARCH = "guess", "list_open", "close", "work_out"


def bounds_and_most(monkeypatch, duties, epochs, left_out=SEARCH):
    """Bounds of bits of entries without some kernels, and the longest seconds of their cells.

    Both are float64[2, instances, 256, 32]. An epoch is turns, fault maps, and seconds.
    """
    launch = Runner.launch

    def launch_others(runner, program, kernel, *given, **named):
        if kernel not in left_out:
            launch(runner, program, kernel, *given, **named)

    monkeypatch.setattr(Runner, "launch", launch_others)
    instances = len(epochs[0][1])
    nobody, engine = TrackedCells(*np.zeros((2, 0), dtype=np.int64)), cuda_engine(seed=1)
    meant, actual = (each.stress(duties, nobody, instances) for each in (NUMPY, engine))
    for turns, maps, seconds in epochs:
        for stress in (meant, actual):
            stress.add(np.arange(instances), turns, maps.astype(np.uint8), seconds)
    bounds = engine.devices[0].download(actual._log.bounds).reshape(instances, 2, 256, 32)
    return bounds.swapaxes(0, 1), meant._seconds.reshape(2, instances, 256, 64, 32).max(axis=3)


def test_more_writes_than_the_log_can_name_are_refused(monkeypatch):
    replay = prepare(excerpt(), TECHNIQUES["rrcd"])
    writes = replay.schedule.writes
    monkeypatch.setattr(cuda_stress, "MOST_WRITES", 2 * writes)
    assert cuda_stress.host_residencies((replay, replay), 0).first_write.tolist() == [0, writes]
    monkeypatch.setattr(cuda_stress, "MOST_WRITES", 2 * writes - 1)
    with pytest.raises(UserError, match=f"{2 * writes:,} register writes together; the cuda"):
        cuda_stress.host_residencies((replay, replay), 0)


def test_the_limit_of_writes_is_that_of_the_kernels():
    code = kernel_text("stress.cuh")
    assert f"NUMBER = 0x{cuda_stress.MOST_WRITES - 1:08X}u" in code


def test_without_memory_for_sums_residencies_are_walked_through(monkeypatch):
    duties = duties_of(random_replays(TECHNIQUES["rrcd+rc+rar"]))
    meant = live(cuda_engine(), duties, 3)
    for part in (2**30 // 2**17, 2**40):  # for a few of them, for none
        monkeypatch.setattr(cuda_stress, "_PART_OF_MEMORY", part)
        for expected, actual in zip(meant, live(cuda_engine(), duties, 3), strict=True):
            assert np.array_equal(expected, actual)


@pytest.mark.parametrize(
    ("name", "kept"),
    daily(
        product(["rrcd", "rrcd+pg", "rrcd+rc+rar"], [1, 7, cuda_stress._KEPT]),
        [("rrcd+rc+rar", 7)],
    ),
)
def test_times_are_the_same_however_few_sums_are_kept(monkeypatch, name, kept):
    """At ends of epochs, and within them before and after the end has been asked for."""
    monkeypatch.setattr(cuda_stress, "_KEPT", kept)
    duties, maps = duties_of(random_replays(TECHNIQUES[name])), seeded_fault_maps(6)[1:3]
    nobody, both = TrackedCells(*np.zeros((2, 0), dtype=np.int64)), np.arange(2)
    engines = NUMPY, cuda_engine(seed=2)
    meant, actual = (engine.stress(duties, nobody, 2) for engine in engines)
    for epoch in range(3):
        turns = Turns(np.array([[0, 2], [1, 0]]), np.array([[0.7, 0.3], [0.1, 0.9]]))
        for stress in (meant, actual):
            stress.add(both, turns, maps, 1e6 * (1 + epoch))
        for part in (0.0, 0.3, 0.9):
            exact, found = (
                stress.longest_earlier(both, turns, maps, np.full(2, part * 1e6 * (1 + epoch)))
                for stress in (meant, actual)
            )
            assert np.array_equal(exact, found)
        assert np.array_equal(meant.longest, actual.longest)


def test_more_epochs_than_there_is_space_for_at_first():
    duties, maps = duties_of(random_replays(TECHNIQUES["rrcd"])), seeded_fault_maps(4)[1:3]
    nobody, both = TrackedCells(*np.zeros((2, 0), dtype=np.int64)), np.arange(2)
    engines = NUMPY, cuda_engine(seed=2)
    meant, actual = (engine.stress(duties, nobody, 2) for engine in engines)
    for epoch in range(10):
        for stress in (meant, actual):
            stress.add(both, Turns.single(both + epoch % 2), maps, 1e6 * (1 + epoch))
    assert np.array_equal(meant.longest, actual.longest)
    assert meant.longest.all()


# ---- shifts ------------------------------------------------------------------------------------


def worn(engine, model, instances=4, sampled=70):
    """Tracked cells of slices without faults after two epochs, and how they shift."""
    duties, rng = duties_of(random_replays(TECHNIQUES["baseline"])), np.random.default_rng(6)
    tail = np.sort(rng.integers(instances, size=900))
    cells = rng.integers(9 * GCN.entry_bits, size=len(tail) + instances * sampled)
    owners = np.concatenate([tail, np.repeat(np.arange(instances), sampled)])
    stress = engine.stress(
        duties,
        TrackedCells(owners, cells, rng.uniform(0.44, 0.5, (2, len(tail))), sampled),
        instances,
    )
    nowhere = np.zeros((instances, GCN.entries), dtype=np.uint8)
    for seconds in (3e7, 5e7):
        kernel = rng.integers(3, size=instances)
        stress.add(np.arange(instances), Turns.single(kernel), nowhere, seconds)
    nbti = nbti_model(model)
    rates = nbti.rates(environment("turbo", 1.0))
    rates = dataclasses.replace(rates, stress=rates.stress * rng.uniform(0.5, 1, instances))
    busy = np.append(1.0, rng.uniform(0.5, 1, instances - 1))  # the first is never idle
    shift = AdditiveShift(nbti, rates, busy)
    return stress.tracked_seconds, shift, Moments(rng.uniform(size=instances), np.full(4, 8e7))


@pytest.mark.parametrize("at_first", [4, 1024])
@pytest.mark.parametrize("model", ["facelift", "finfet"])
def test_cells_that_fail_and_histograms(monkeypatch, model, at_first):
    """Also if more fail than come back at once, and under a model that the host works out."""
    monkeypatch.setattr(cuda_stress, "_AT_FIRST", at_first)
    (meant, shift, moments), (actual, _, _) = (
        worn(engine, model) for engine in (NUMPY, cuda_engine(seed=9))
    )
    failure = CellFailure(1.0, 0.48)
    chosen = np.array([0, 2, 3])
    age = np.array([7.9e7, 9e7, 8.5e7])  # the first is younger than its longest stress time
    for _ in range(2):
        expected, seconds = meant.failing(chosen, age, shift, failure)
        places, of_places = actual.failing(chosen, age, shift, failure)
        assert np.array_equal(places, expected)
        assert np.array_equal(of_places.before, seconds.before)
        assert np.array_equal(of_places.after, seconds.after)
        assert 4 < len(places) < 600
        for cells in (meant, actual):
            cells.mark_faulty(places[::2])
    of_chosen = Moments(moments.part[chosen], moments.age[chosen])
    for bins in (5, 60):
        counts = meant.histogram(chosen, of_chosen, shift, bins)
        assert np.array_equal(actual.histogram(chosen, of_chosen, shift, bins), counts)
        assert (counts > 0).sum() > 3


class Forgetless(Facelift):
    """Derived from the model that kernels know, with another formula."""

    def dvth(self, stress, stressed, recovered):
        return np.sqrt(np.sqrt(stress))


def test_a_model_derived_from_facelift_has_its_own_formula():
    failure = CellFailure(vmin_coefficient=0.7, lowest_vdd_volts=0.5)
    for model, known in ((nbti_model("facelift"), True), (nbti_model("finfet"), False)):
        shift = AdditiveShift(model, Rates(np.array(1e-11), np.array(1.0)), np.array(0.7))
        assert cuda_stress._is_plain(shift, failure) == known
    derived = Forgetless(**vars(nbti_model("facelift")))
    shift = AdditiveShift(derived, Rates(np.array(1e-11), np.array(1.0)), np.array(0.7))
    assert not cuda_stress._is_plain(shift, failure)
