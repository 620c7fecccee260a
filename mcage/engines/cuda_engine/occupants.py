"""The registers that live in each entry, one after the other, under a fixed window layout.

For redirecting techniques `kernels/select.cu` and `kernels/visits.cu` make the same tables.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.engines.cuda_engine.tables import Columns, columns
from mcage.geometry import SLICE
from mcage.replays.layout import Layout
from mcage.replays.prepare import PreparedReplay

WHOLE_ENTRY = -1
"""In place of a block."""


@dataclass(frozen=True, eq=False)
class FixedOccupants:
    """Visits of all entries in all their worlds; a world is an orbit of passes.

    Attributes
    ----------
    columns : Columns
        Writes, register after register.
    starts : int32[worlds, 257]
        First visit of each entry.
    visits : int32[worlds, capacity, 4]
        First and end of the writes, block, and turn: the pass of the world that it is in.
    worlds : int32[256]
        Worlds of each entry.
    periods : uint64[256]
        Cycles of a world of each entry.
    """

    columns: Columns
    starts: NDArray[np.int32]
    occupants: NDArray[np.int32]
    orbits: NDArray[np.int32]
    periods: NDArray[np.uint64]


def fixed_occupants(replay: PreparedReplay, layout: Layout) -> FixedOccupants:
    """Visits under a window layout.

    Pass p is followed by pass (p + step) mod passes. This comes back to p after passes / g turns,
    g the greatest common divisor of passes and step, so that 0 ... g - 1 start the g orbits.
    """
    schedule = replay.schedule
    register = schedule.window * SLICE.entries + schedule.reg
    in_entry = np.flatnonzero(~schedule.in_table)
    order = in_entry[np.argsort(register[in_entry], kind="stable")]
    registers = np.arange(len(schedule.windows.size) * SLICE.entries)
    first = np.searchsorted(register[order], registers, side="left")
    end = np.searchsorted(register[order], registers, side="right")

    orbits = np.gcd(layout.passes, layout.step)
    found = [_occupants_of(number, replay, layout, first, end) for number in range(SLICE.entries)]
    orbit = np.concatenate([one[0] for one in found])
    entry = np.repeat(np.arange(SLICE.entries), [len(one[0]) for one in found])
    occupants = np.concatenate([one[1] for one in found])
    counts = np.zeros((int(orbits.max()), SLICE.entries + 1), dtype=np.int64)
    np.add.at(counts, (orbit, entry + 1), 1)
    starts = counts.cumsum(axis=1)
    sorted_occupants = np.zeros((len(starts), max(1, int(starts[:, -1].max())), 4), dtype=np.int32)
    by_orbit = np.argsort(orbit, kind="stable")
    in_orbit = np.arange(len(orbit)) - np.searchsorted(orbit[by_orbit], orbit[by_orbit])
    sorted_occupants[orbit[by_orbit], in_orbit] = occupants[by_orbit]
    return FixedOccupants(
        columns=columns(replay, order),
        starts=starts.astype(np.int32),
        occupants=sorted_occupants,
        orbits=orbits.astype(np.int32),
        periods=(layout.passes // orbits * schedule.cycles).astype(np.uint64),
    )


def _occupants_of(
    number: int,
    replay: PreparedReplay,
    layout: Layout,
    first: NDArray[np.int64],
    end: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Visits of an entry, world after world in order of time: world, and row of the table."""
    size = replay.schedule.windows.size
    step = int(layout.step[number])
    orbits = math.gcd(layout.passes, step)
    turns = layout.passes // orbits
    in_turn = (np.arange(orbits)[:, None] + step * np.arange(turns)) % layout.passes
    base, rotation = layout.base[in_turn.ravel()], layout.rotation[in_turn.ravel()]
    turn, window = np.nonzero((base <= number) & (number < base + size))
    shifted = number - base[turn, window] - rotation[turn, window]
    key = window * SLICE.entries + shifted % size[window]
    written = first[key] < end[key]
    orbit, turn_in_orbit = np.divmod(turn[written], turns)
    table = np.stack(
        [
            first[key[written]],
            end[key[written]],
            np.full(len(orbit), WHOLE_ENTRY),
            turn_in_orbit,
        ],
        axis=1,
    )
    return orbit, table
