"""The reference engine: NumPy alone, written to be read.

Two steps, each in a file of its own: where every write lands (for redirecting techniques
`reference_selectors`, for the others below), then what the cells hold (`reference_cells`).
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mcage.engines.interface import Engine
from mcage.engines.numpy_engine.cell_times import Imprints, Occupants, cell_times, make_imprints
from mcage.engines.numpy_engine.redirection import count_writes, place_writes
from mcage.engines.packed import Packed, PackedStress
from mcage.engines.policies import Policies
from mcage.engines.stress import (
    DenseStress,
    FaultFreeDuties,
    SliceTimes,
    StressAccumulator,
    TrackedCells,
)
from mcage.geometry import SLICE
from mcage.replays.layout import Layout
from mcage.replays.outcome import CellTimes, Counters
from mcage.replays.prepare import PreparedReplay
from mcage.techniques import Gating, Placement, Storage

_EntryVisits = Iterator[tuple[int, Occupants]]
_CellTimes = tuple[NDArray[np.int64], NDArray[np.int64]]


class NumpyEngine(Engine):
    """NumPy engine. Slow next to the others, which must return the same integers."""

    name = "numpy"
    policies = Policies(
        placements={
            Placement.DIRECT,
            Placement.ROTATE,
            Placement.ROUND_ROBIN,
            Placement.REDIRECT,
            Placement.GUARD,
            Placement.PACK,
        },
        storages={Storage.PLAIN, Storage.TABLE, Storage.INLINE, Storage.BLOCK},
        gatings={Gating.NONE, Gating.UNUSED, Gating.IDLE_WINDOWS, Gating.EMPTY},
    )
    batch = 16

    def __init__(self) -> None:
        self._packed = Packed(self)

    def redirect(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> Counters:
        """See `Engine.redirect`."""
        self.check(replay.technique)
        return count_writes(replay, fault_maps, place_writes(replay, fault_maps))

    def cell_times(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> CellTimes:
        """See `Engine.cell_times`."""
        self.check(replay.technique)
        if replay.packing is not None:
            return self._packed.cell_times(replay, fault_maps)
        if replay.layout is None:
            slices = list(_redirected(replay, fault_maps))
        else:
            imprints = make_imprints(replay.schedule.stored_values, replay.technique.gates_released)
            slices = [_slice_times(replay, imprints, _fixed_occupants(replay, replay.layout))]
        ones, powered = (np.stack(times) for times in zip(*slices, strict=True))
        return CellTimes(ones, powered, replay.period)

    def stress(
        self, duties: FaultFreeDuties, tracked: TrackedCells, instances: int
    ) -> StressAccumulator:
        """See `Engine.exposure`."""
        self.check(duties.replays[0].technique)
        if duties.replays[0].technique.packs:
            return PackedStress(self._packed, duties, tracked, instances)
        return _NumpyStress(duties, tracked, instances)


class _NumpyStress(DenseStress):
    def _times(self, replay: PreparedReplay, fault_map: NDArray[np.uint8]) -> SliceTimes:
        return *next(_redirected(replay, fault_map[None])), replay.period


def _redirected(replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> Iterator[_CellTimes]:
    """Cell times of one slice after the other, each with its own fault map."""
    homes = place_writes(replay, fault_maps)
    imprints = make_imprints(replay.schedule.stored_values, replay.technique.gates_released)
    for instance in range(len(fault_maps)):
        lanes = slice(instance * replay.passes, (instance + 1) * replay.passes)
        occupants = _redirected_occupants(replay, homes.entry[lanes], homes.block[lanes])
        yield _slice_times(replay, imprints, occupants)


def _slice_times(
    replay: PreparedReplay, imprints: Imprints, occupants_of_entries: _EntryVisits
) -> _CellTimes:
    """Cycles at '1' and powered of a slice: two times int64[256, 2048]."""
    ones = np.zeros((SLICE.entries, SLICE.entry_bits), dtype=np.int64)
    powered = np.zeros_like(ones)
    for entry, occupants in occupants_of_entries:
        ones[entry], powered[entry] = cell_times(imprints, occupants)
    return ones, powered


def _redirected_occupants(
    replay: PreparedReplay, entry: NDArray[np.int16], block: NDArray[np.int8]
) -> _EntryVisits:
    """Visits of redirected writes, int[passes, writes] each; every pass is a world of its own."""
    for number in np.unique(entry[entry >= 0]):
        orbit, write = np.nonzero(entry == number)
        when = replay.schedule.cycle[write]
        cycles = _hold_cycles(replay, write, when, orbit, replay.schedule.cycles)
        yield int(number), Occupants(write, block[orbit, write].astype(np.int64), cycles, orbit)


def _fixed_occupants(replay: PreparedReplay, layout: Layout) -> _EntryVisits:
    """Visits under a window layout; every orbit of passes is a world of its own.

    Pass p is followed by pass (p + step) mod passes. This comes back to p after passes / g turns,
    g the greatest common divisor of passes and step, so that 0 ... g - 1 start the g orbits.
    """
    schedule = replay.schedule
    register = schedule.window * SLICE.entries + schedule.reg
    in_entry = np.flatnonzero(~schedule.in_table)
    ordered = in_entry[np.argsort(register[in_entry], kind="stable")]
    registers = np.arange(len(schedule.windows.size) * SLICE.entries)
    starts = np.searchsorted(register[ordered], registers, side="left")
    counts = np.searchsorted(register[ordered], registers, side="right") - starts

    for number in range(SLICE.entries):
        step = int(layout.step[number])
        orbits = math.gcd(layout.passes, step)
        turns = layout.passes // orbits
        in_turn = (np.arange(orbits)[:, None] + step * np.arange(turns)) % layout.passes
        base, rotation = layout.base[in_turn.ravel()], layout.rotation[in_turn.ravel()]
        covers = (base <= number) & (number < base + schedule.windows.size)
        turn, window = np.nonzero(covers)
        shifted = number - base[turn, window] - rotation[turn, window]
        key = window * SLICE.entries + shifted % schedule.windows.size[window]
        write = ordered[_ranges(starts[key], counts[key])]
        if not len(write):
            continue
        orbit, turn_in_orbit = np.divmod(np.repeat(turn, counts[key]), turns)
        when = schedule.cycle[write] + turn_in_orbit * schedule.cycles
        cycles = _hold_cycles(replay, write, when, orbit, turns * schedule.cycles)
        yield number, Occupants(write, np.zeros_like(write), cycles, orbit)


def _hold_cycles(
    replay: PreparedReplay,
    write: NDArray[np.int64],
    when: NDArray[np.int64],
    orbit: NDArray[np.int64],
    orbit_cycles: int,
) -> NDArray[np.int64]:
    """For how long a visit holds: int64[visits].

    If released places are switched off, until its value is replaced or released; otherwise until
    the next visit, the last one's being the first of the next time round.
    """
    if replay.technique.gates_released:
        return replay.schedule.end_cycle[write] - replay.schedule.cycle[write]
    first, last = np.ones(len(orbit), dtype=bool), np.ones(len(orbit), dtype=bool)
    first[1:] = last[:-1] = orbit[1:] != orbit[:-1]
    until = np.empty_like(when)
    until[~last] = when[~first]
    until[last] = when[first] + orbit_cycles
    return until - when


def _ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Chain the ranges start ... start + count - 1."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())
