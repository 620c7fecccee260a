"""The registers that live in each entry, in order of time, under a fixed window layout.

For redirecting techniques `kernels/select.cu` and `kernels/occupants.cu` make the same tables.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.engines.cuda_engine.tables import Columns, columns
from mcage.replays.layout import WritesOfRegisters, writes_of_registers
from mcage.replays.prepare import FixedReplay
from mcage.replays.schedule import Schedule

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
    periods: NDArray[np.uint64]


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
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Occupants of an entry, orbit after orbit in order of time: orbit, and row of the table."""
    held = replay.layout.registers_in(entry, replay.schedule.windows.size)
    first, end = writes.first[held.register], writes.end[held.register]
    rows = np.stack([first, end, np.full(len(first), WHOLE_ENTRY), held.turn], axis=1)
    written = first < end
    return held.orbit[written], rows[written]
