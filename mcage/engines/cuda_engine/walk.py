"""The walk through the writes that land in each entry, on a device: times of its cells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.cuda_engine.placement import (
    Columns,
    Occupants,
    Placement,
    columns,
    redirection,
    runs_of,
)
from mcage.engines.cuda_engine.programs import Program, Runner, walk_program
from mcage.geometry import COMPONENT_BITS, MOST_COMPONENTS, Bytes, Integers, SliceGeometry, Words
from mcage.replays.layout import WritesOfRegisters, writes_of_registers
from mcage.replays.prepare import FixedReplay, RedirectedReplay
from mcage.replays.schedule import Schedule

# The registers that live in each entry, in order of time, under a fixed window layout.
#
# For redirecting techniques `kernels/select.cu` and `kernels/occupants.cu` make the same tables.

WHOLE_ENTRY = -1
"""In place of a block."""


@dataclass(frozen=True, eq=False)
class FixedOccupants:
    """Occupants of all entries in all their orbits of passes.

    Attributes
    ----------
    starts : int32[orbits, entries + 1]
        First occupant of each entry.
    occupants : int32[orbits, capacity, 4]
        First and end of the writes of an occupant, its block, and its turn: the pass of the orbit
        in which it lives.
    orbits : int32[entries]
        Orbits of each entry.
    periods : uint64[entries]
        Cycles of an orbit of each entry.
    """

    starts: NDArray[np.int32]
    occupants: NDArray[np.int32]
    orbits: NDArray[np.int32]
    periods: Words


def fixed_occupants(replay: FixedReplay) -> FixedOccupants:
    """Occupants of all entries under a window layout."""
    schedule, layout = replay.schedule, replay.layout
    entries, writes = schedule.geometry.entries, writes_of_registers(schedule)
    of_entries = [_occupants_of(entry, replay, writes) for entry in range(entries)]
    orbit = np.concatenate([orbit for orbit, _ in of_entries])
    entry = np.repeat(np.arange(entries), [len(orbit) for orbit, _ in of_entries])
    occupants = np.concatenate([rows for _, rows in of_entries])
    orbits = layout.orbits
    counts = np.zeros((int(orbits.max()), entries + 1), dtype=np.int64)
    np.add.at(counts, (orbit, entry + 1), 1)
    starts = counts.cumsum(axis=1)
    sorted_occupants = np.zeros((len(starts), max(1, int(starts[:, -1].max())), 4), dtype=np.int32)
    by_orbit = np.argsort(orbit, kind="stable")
    in_orbit = np.arange(len(orbit)) - np.searchsorted(orbit[by_orbit], orbit[by_orbit])
    sorted_occupants[orbit[by_orbit], in_orbit] = occupants[by_orbit]
    return FixedOccupants(
        starts=starts.astype(np.int32),
        occupants=sorted_occupants,
        orbits=orbits.astype(np.int32),
        periods=(layout.passes // orbits * schedule.cycles).astype(np.uint64),
    )


def columns_of_registers(schedule: Schedule) -> Columns:
    """Writes, register after register, to which the occupants refer."""
    return columns(schedule, writes_of_registers(schedule).write)


def _occupants_of(
    entry: int, replay: FixedReplay, writes: WritesOfRegisters
) -> tuple[Integers, Integers]:
    """Occupants of an entry, orbit after orbit in order of time: orbit, and row of the table."""
    held = replay.layout.registers_in(entry, replay.schedule.windows.size)
    first, end = writes.first[held.register], writes.end[held.register]
    rows = np.stack([first, end, np.full(len(first), WHOLE_ENTRY), held.turn], axis=1)
    written = first < end
    return held.orbit[written], rows[written]


TOGETHER = 16
"""Slices whose cell times are computed together: 8 MB each."""

_CELLS = MOST_COMPONENTS * COMPONENT_BITS
"""Cells of an entry, with those that are repeated."""

Times = tuple[Integers, Integers]
"""Cycles at '1' and powered of slices: two times int64[m, entries, cells of an entry]."""


@dataclass(frozen=True, eq=False)
class _Tables:
    """What a walk needs besides occupants, on the device.

    Attributes
    ----------
    arrays : tuple of arrays of the device
        Those of `Columns`; orbits and periods of the entries.
    words : uint64[7]
        The same as `kernels/walk.cu` takes them: their addresses, and the cycles of a pass.
    """

    arrays: tuple[Any, ...]
    words: Words


class Walk:
    """Walks of replays on a device, for any number of threads of the host.

    Parameters
    ----------
    runner : Runner
        The device.

    Attributes
    ----------
    runner : Runner
        As given.
    placement : Placement
        Its selectors.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.placement = Placement(runner)
        self._redirected = Memo(self._upload_redirected)
        self._columns = Memo(self._upload_registers)

    def _upload_redirected(self, replay: RedirectedReplay) -> _Tables:
        arrays, entries = self._upload_columns(redirection(replay).columns), replay.geometry.entries
        orbits = np.full(entries, replay.passes, dtype=np.int32)
        periods = np.full(entries, replay.schedule.cycles, dtype=np.uint64)
        of_entries = self.runner.shared(orbits), self.runner.shared(periods)
        return self._tables((*arrays, *of_entries), replay.schedule)

    def _upload_registers(self, schedule: Schedule) -> tuple[Any, ...]:
        """Columns of a schedule, which are the same wherever its windows lie."""
        return self._upload_columns(columns_of_registers(schedule))

    def _upload_columns(self, columns: Columns) -> tuple[Any, ...]:
        tables = (columns.writes, columns.contents, columns.masks, columns.region_masks)
        return tuple(map(self.runner.shared, tables))

    def _tables(self, arrays: tuple[Any, ...], schedule: Schedule) -> _Tables:
        addresses = [self.runner.device.address(array) for array in arrays]
        return _Tables(arrays, np.array([*addresses, schedule.cycles], dtype=np.uint64))

    def fixed_times(self, replay: FixedReplay) -> Times:
        """Cell times of a slice under a window layout."""
        host = fixed_occupants(replay)
        columns = self._columns.of(replay.schedule)
        most_orbits, capacity, _ = host.occupants.shape
        zero = np.zeros(1, dtype=np.int64)
        runs, starts, rows, *of_entries = self.runner.device.upload_together(
            runs_of(zero, zero, np.array([capacity])),
            host.starts,
            host.occupants,
            host.orbits,
            host.periods,
        )
        tables = self._tables((*columns, *of_entries), replay.schedule)
        occupants = Occupants(most_orbits, runs, starts, rows)
        return self._cell_times(walk_program((replay,)), replay.geometry, [tables], occupants, 1)

    def redirected_times(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Iterator[Times]:
        """Cell times of slices on fault maps, some slices at a time, in their order.

        Parameters
        ----------
        replays : sequence of RedirectedReplay
            A technique on several kernels.
        kernel, fault_maps : int64[m], uint8[m, entries]
            What each slice runs, and on which map.
        """
        program, geometry = walk_program(replays), replays[0].geometry
        for start in range(0, len(kernel), TOGETHER):
            part = slice(start, start + TOGETHER)
            placed = self.placement.occupants(
                replays, kernel[part], fault_maps[part], 16 * _CELLS * geometry.entries
            )
            for chunk, occupants in placed:
                numbers = kernel[part][chunk]
                tables = [self._redirected.of(replays[number]) for number in np.unique(numbers)]
                yield self._cell_times(program, geometry, tables, occupants, len(numbers))

    def _cell_times(
        self,
        program: Program,
        geometry: SliceGeometry,
        tables: Sequence[_Tables],
        occupants: Occupants,
        slices: int,
    ) -> Times:
        device, shape = self.runner.device, (slices, geometry.entries, _CELLS)
        ones, powered = device.empty(shape, np.uint64), device.empty(shape, np.uint64)
        self.runner.launch(
            program,
            "cell_times",
            (slices, geometry.entries),
            MOST_COMPONENTS,
            device.upload(np.stack([of_kernel.words for of_kernel in tables])),
            occupants.runs,
            np.int32(occupants.most_orbits),
            occupants.starts,
            occupants.occupants,
            ones,
            powered,
        )
        of_entry = geometry.entry_bits  # without the components that are repeated
        return (
            device.download(ones)[:, :, :of_entry].view(np.int64),
            device.download(powered)[:, :, :of_entry].view(np.int64),
        )
