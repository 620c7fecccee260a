"""The reference engine: NumPy alone, written to be read.

It takes two steps. The first finds where every write lands: `redirection` for techniques that
redirect, the functions below for the others. The second, `cell_times`, sums up what cells hold.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mcage.engines import stress
from mcage.engines.interface import WITH_PROGRAMS, Engine
from mcage.engines.numpy_engine.cell_times import Imprints, Occupants, cell_times, make_imprints
from mcage.engines.numpy_engine.redirection import count_writes, place_writes
from mcage.engines.programs import ProgramRunner
from mcage.geometry import Bytes, Integers
from mcage.replays.layout import writes_of_registers
from mcage.replays.outcome import CellTimes, Counters
from mcage.replays.prepare import FixedReplay, PreparedReplay, ProgrammedReplay, RedirectedReplay

_EntryOccupants = Iterator[tuple[int, Occupants]]
_CellTimes = tuple[Integers, Integers]


class NumpyEngine(Engine):
    """NumPy engine. Slow next to the others, which must return the same integers."""

    name = "numpy"
    policies = WITH_PROGRAMS
    batch = 16

    @override
    def redirect(self, replay: RedirectedReplay, fault_maps: Bytes) -> Counters:
        self.check(replay.technique)
        return count_writes(replay, fault_maps, place_writes(replay, fault_maps))

    @override
    def fixed_times(self, replay: FixedReplay) -> CellTimes:
        ones, powered = _slice_times(replay, _imprints(replay), _fixed_occupants(replay))
        return CellTimes(ones[None], powered[None], replay.period)

    @override
    def redirected_times(self, replay: RedirectedReplay, fault_maps: Bytes) -> CellTimes:
        slices = list(_redirected(replay, fault_maps))
        ones, powered = (np.stack(times) for times in zip(*slices, strict=True))
        return CellTimes(ones, powered, replay.period)

    @override
    def program_runner(self, replay: ProgrammedReplay) -> ProgramRunner:
        """See `Engine.program_runner`: the text that the Numba engine compiles, as Python runs it.

        Cell times are those of the Numba engine.
        """
        from mcage.engines.numba_engine.programs import PythonProgramRunner

        return PythonProgramRunner(replay)

    @override
    def unpacked_stress(
        self, duties: stress.FaultFreeDuties, tracked: stress.TrackedCells, instances: int
    ) -> stress.StressAccumulator:
        return _NumpyStress(duties, tracked, instances)


class _NumpyStress(stress.DenseStress):
    def _times(
        self, replay: PreparedReplay, fault_map: Bytes, instance: int, turn: int
    ) -> stress.SliceTimes:
        assert isinstance(replay, RedirectedReplay)
        return *next(_redirected(replay, fault_map[None])), replay.period


def _redirected(replay: RedirectedReplay, fault_maps: Bytes) -> Iterator[_CellTimes]:
    """Cell times of slice after slice, each with the fault map of its row."""
    homes = place_writes(replay, fault_maps)
    imprints = _imprints(replay)
    for instance in range(len(fault_maps)):
        replicas = slice(instance * replay.passes, (instance + 1) * replay.passes)
        occupants = _redirected_occupants(replay, homes.entry[replicas], homes.block[replicas])
        yield _slice_times(replay, imprints, occupants)


def _imprints(replay: PreparedReplay) -> Imprints:
    stored_values = replay.schedule.stored_values
    return make_imprints(stored_values, replay.geometry, replay.technique.gates_released)


def _slice_times(
    replay: PreparedReplay, imprints: Imprints, occupants_of_entries: _EntryOccupants
) -> _CellTimes:
    """Cycles at '1' and powered of a slice: two times int64[entries, cells of an entry]."""
    geometry = replay.geometry
    ones = np.zeros((geometry.entries, geometry.entry_bits), dtype=np.int64)
    powered = np.zeros_like(ones)
    for entry, occupants in occupants_of_entries:
        ones[entry], powered[entry] = cell_times(imprints, occupants)
    return ones, powered


def _redirected_occupants(
    replay: RedirectedReplay, entry: NDArray[np.int16], block: NDArray[np.int8]
) -> _EntryOccupants:
    """Occupants by entry, from homes int[passes, writes]; every pass is an orbit of its own."""
    for number in np.unique(entry[entry >= 0]):
        orbit, write = np.nonzero(entry == number)
        when = replay.schedule.cycle[write]
        cycles = _hold_cycles(replay, write, when, orbit, replay.schedule.cycles)
        yield int(number), Occupants(write, block[orbit, write].astype(np.int64), cycles, orbit)


def _fixed_occupants(replay: FixedReplay) -> _EntryOccupants:
    """Occupants of entries under a window layout; an orbit of passes repeats for ever."""
    schedule, layout = replay.schedule, replay.layout
    writes = writes_of_registers(schedule)
    counts = writes.end - writes.first
    for entry in range(replay.geometry.entries):
        held = layout.registers_in(entry, schedule.windows.size)
        write = writes.write[_ranges(writes.first[held.register], counts[held.register])]
        if not len(write):
            continue
        orbit, turn = (np.repeat(of, counts[held.register]) for of in (held.orbit, held.turn))
        turns = layout.passes // int(layout.orbits[entry])
        when = schedule.cycle[write] + turn * schedule.cycles
        cycles = _hold_cycles(replay, write, when, orbit, turns * schedule.cycles)
        yield entry, Occupants(write, np.zeros_like(write), cycles, orbit)


def _hold_cycles(
    replay: PreparedReplay, write: Integers, when: Integers, orbit: Integers, orbit_cycles: int
) -> Integers:
    """For how long each write of an occupant holds: int64[writes].

    If released places are switched off, a write holds until its value is replaced or released.
    Otherwise it holds until the next write to the entry; the last write of an orbit holds until
    the first write of the orbit comes round again.
    """
    if replay.technique.gates_released:
        return replay.schedule.end_cycle[write] - replay.schedule.cycle[write]
    first, last = np.ones(len(orbit), dtype=bool), np.ones(len(orbit), dtype=bool)
    first[1:] = last[:-1] = orbit[1:] != orbit[:-1]
    until = np.empty_like(when)
    until[~last] = when[~first]
    until[last] = when[first] + orbit_cycles
    return until - when


def _ranges(starts: Integers, counts: Integers) -> Integers:
    """Chain the ranges start ... start + count - 1."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())
