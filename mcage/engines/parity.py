"""Do engines agree? The same small work for each, and a comparison of what they say."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from mcage.engines.interface import Engine, fault_free_maps
from mcage.engines.stress import FaultFreeDuties, TrackedCells, Turns
from mcage.geometry import GCN, Bytes, Floats, Integers, SliceGeometry
from mcage.replays.most_stressed import duty_cycles
from mcage.replays.outcome import Counters
from mcage.replays.prepare import PreparedReplay, ProgrammedReplay
from mcage.traces import Trace, first_generations
from mcage.traces.library import bundled_trace
from mcage.traces.model import ALLOC, ALLOC_COLUMNS, EVENT_COLUMNS

FLOAT_TOLERANCE = 1e-5
"""Largest relative difference between floats of engines that agree."""

_COUNTED = [field.name for field in dataclasses.fields(Counters) if field.name != "passes"]
_TRACKED_CELLS = 256
_PASSES = 3
_EXCERPT, _EXCERPT_SLOTS = "ScanLargeArrays", 4
_SECONDS = (3.0e7, 1.7e7)
"""Lengths of the epochs that instances live through, without and with faults."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Results of an engine for a replay.

    Attributes
    ----------
    integers, floats : dict of str to ndarray
        Arrays, each under its name in words.
    """

    integers: dict[str, Integers]
    floats: dict[str, Floats]


@dataclass(frozen=True)
class Parity:
    """How far two engines agree.

    Attributes
    ----------
    unequal_integers : tuple of str
        Names of the integers that differ.
    largest_difference : float
        Relative difference of floats at most; 0 if all bits are equal.
    """

    unequal_integers: tuple[str, ...]
    largest_difference: float

    @property
    def bit_equal(self) -> bool:
        """Whether nothing differs at all."""
        return not self.unequal_integers and self.largest_difference == 0

    @property
    def agrees(self) -> bool:
        """Whether integers are equal and floats within `FLOAT_TOLERANCE`."""
        return not self.unequal_integers and self.largest_difference <= FLOAT_TOLERANCE

    @property
    def in_words(self) -> str:
        """The verdict."""
        if self.bit_equal:
            return "equal to the last bit"
        if self.unequal_integers:
            return f"integers differ: {', '.join(self.unequal_integers)}"
        differ = "floats agree to" if self.agrees else "floats differ by"
        return f"integers equal, {differ} {self.largest_difference:.1g}"


def ask(engine: Engine, replay: PreparedReplay, fault_maps: Bytes) -> Answers:
    """Replay on each fault map: counters, times of all cells, stress times in two epochs.

    Parameters
    ----------
    engine : Engine
        The engine that is asked.
    replay : PreparedReplay
        A trace under a technique.
    fault_maps : uint8[instances, entries]
        Maps of the second epoch; in the first there are no faults.
    """
    engine.check(replay.technique)
    instances = len(fault_maps)
    fault_free = engine.cell_times(replay, fault_free_maps(geometry=replay.geometry))
    times = engine.cell_times(replay, fault_maps) if replay.technique.heeds_faults else fault_free
    counters = engine.count(replay, fault_maps)
    integers = {name: getattr(counters, name) for name in _COUNTED}
    integers |= {"passes": np.array([counters.passes]), "period": np.array([times.period])}
    integers |= {"cycles at '1'": times.ones, "cycles powered": times.powered}
    integers |= {
        "fault-free cycles at '1'": fault_free.ones,
        "fault-free cycles powered": fault_free.powered,
    }

    duties = (
        duty_cycles(at.reshape(1, -1), np.full(1, fault_free.period), replay.geometry.components)
        for at in (fault_free.zeros, fault_free.ones)
    )
    stress = engine.stress(
        FaultFreeDuties((replay,), *duties), _tracked(instances, replay.geometry), instances
    )
    everybody, kernel = np.arange(instances), np.zeros(instances, dtype=np.int64)
    floats = {}
    for span, maps in enumerate((fault_free_maps(instances, replay.geometry), fault_maps)):
        stress.add(everybody, Turns.single(kernel), maps, _SECONDS[span])
        floats[f"longest seconds {span}"] = stress.longest.copy()
        floats[f"seconds of cells {span}"] = stress.tracked_seconds.now.copy()
    return Answers(integers, floats)


def ask_passes(engine: Engine, replay: ProgrammedReplay, fault_maps: Bytes) -> Answers:
    """Run a placement program for a few passes on each fault map, whether it settles or not.

    Parameters
    ----------
    engine : Engine
        The engine that is asked.
    replay : ProgrammedReplay
        A technique with a program on a trace.
    fault_maps : uint8[instances, entries]
        Fault maps; what the program has learnt on a map, it knows on the next.
    """
    engine.check(replay.technique)
    runner, state = engine.program_runner(replay), np.zeros(sum(replay.lengths), dtype=np.int64)
    integers: dict[str, Integers] = {}
    for number, fault_map in enumerate(fault_maps):
        records = [runner.run_pass(fault_map, state) for _ in range(_PASSES)]
        ones, powered = runner.cell_times(records)
        told = {
            "events": np.stack([record.counters for record in records]),
            "places": np.concatenate([record.arrivals for record in records]),
            "what is learnt": state.copy(),
            "cycles at '1'": ones,
            "cycles powered": powered,
        }
        integers |= {f"{name} on map {number}": array for name, array in told.items()}
    return Answers(integers, {})


def _tracked(instances: int, geometry: SliceGeometry) -> TrackedCells:
    """Cells of every instance: half of them in entries that all kernels use."""
    draw = np.random.default_rng(1)
    anywhere = draw.integers(geometry.cells, size=(instances, _TRACKED_CELLS // 2))
    in_use = draw.integers(8 * geometry.entry_bits, size=anywhere.shape)
    cell = np.hstack([anywhere, in_use])
    return TrackedCells(np.repeat(np.arange(instances), _TRACKED_CELLS), cell.ravel())


def compare(answers: Answers, reference: Answers) -> Parity:
    """Compare an engine's answers with those of the reference."""
    unequal = [
        name
        for name, array in reference.integers.items()
        if not np.array_equal(answers.integers[name], array)
    ]
    pairs = ((answers.floats[name], array) for name, array in reference.floats.items())
    return Parity(tuple(unequal), max((largest_difference(*pair) for pair in pairs), default=0.0))


def largest_difference(answers: Floats, reference: Floats) -> float:
    """Largest relative difference; infinite where a number meets none, or shapes differ."""
    if np.array_equal(answers, reference, equal_nan=True):
        return 0.0
    if answers.shape != reference.shape or not np.array_equal(
        np.isfinite(answers), np.isfinite(reference)
    ):
        return np.inf
    differ = np.isfinite(reference) & (answers != reference)
    scale = np.maximum(np.abs(answers[differ]), np.abs(reference[differ]))
    return float((np.abs(answers[differ] - reference[differ]) / scale).max(initial=0.0))


def excerpt() -> Trace:
    """A bundled trace cut small: two kernels of 3 and 10 registers, some writes divergent."""
    trace = first_generations(bundled_trace(_EXCERPT), 1)
    event, window = trace.slot < _EXCERPT_SLOTS, trace.slot[trace.alloc_event] < _EXCERPT_SLOTS
    columns = {c.attribute: getattr(trace, c.attribute)[event] for c in EVENT_COLUMNS}
    columns |= {c.attribute: getattr(trace, c.attribute)[window] for c in ALLOC_COLUMNS}
    columns["alloc_event"] = np.flatnonzero(columns["kind"] == ALLOC).astype(np.uint32)
    return dataclasses.replace(trace, **columns)


def demanding_maps(instances: int, geometry: SliceGeometry = GCN) -> Bytes:
    """Fault maps uint8[instances, entries]: none, some faults, so many that registers spill, ..."""
    draw = np.random.default_rng(2)
    maps = fault_free_maps(instances, geometry)
    for number in range(1, instances):
        unusable = draw.integers(1, 1 << geometry.blocks, geometry.entries)
        faulty = draw.random(geometry.entries) < 0.15
        hopeless = draw.random(geometry.entries) < 0.95
        maps[number] = (
            np.where(hopeless, geometry.all_blocks, unusable)
            if number % 2 == 0
            else unusable * faulty
        )
    return maps
