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
class FixedVisits:
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
    visits: NDArray[np.int32]
    worlds: NDArray[np.int32]
    periods: NDArray[np.uint64]


def fixed_visits(replay: PreparedReplay, layout: Layout) -> FixedVisits:
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

    worlds = np.gcd(layout.passes, layout.step)
    found = [_visits_of(number, replay, layout, first, end) for number in range(SLICE.entries)]
    world = np.concatenate([one[0] for one in found])
    entry = np.repeat(np.arange(SLICE.entries), [len(one[0]) for one in found])
    visits = np.concatenate([one[1] for one in found])
    counts = np.zeros((int(worlds.max()), SLICE.entries + 1), dtype=np.int64)
    np.add.at(counts, (world, entry + 1), 1)
    starts = counts.cumsum(axis=1)
    sorted_visits = np.zeros((len(starts), max(1, int(starts[:, -1].max())), 4), dtype=np.int32)
    by_world = np.argsort(world, kind="stable")
    in_world = np.arange(len(world)) - np.searchsorted(world[by_world], world[by_world])
    sorted_visits[world[by_world], in_world] = visits[by_world]
    return FixedVisits(
        columns=columns(replay, order),
        starts=starts.astype(np.int32),
        visits=sorted_visits,
        worlds=worlds.astype(np.int32),
        periods=(layout.passes // worlds * schedule.cycles).astype(np.uint64),
    )


def _visits_of(
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
    world, turn_in_world = np.divmod(turn[written], turns)
    table = np.stack(
        [
            first[key[written]],
            end[key[written]],
            np.full(len(world), WHOLE_ENTRY),
            turn_in_world,
        ],
        axis=1,
    )
    return world, table
