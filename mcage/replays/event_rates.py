"""Events of a replay, per cycle, and what a slice does while they happen."""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.costs import Accesses, Activity, activity_of
from mcage.engines.interface import Counters
from mcage.geometry import SLICE
from mcage.replays.prepare import PreparedReplay


class Event(IntEnum):
    """What is counted per cycle of a steady replay: columns of the arrays called ``events``."""

    REGULAR = 0
    TO_RELIABLE = 1
    TO_FAULTY = 2
    LDS = 3
    WAKEUP = 4
    LDS_READ = 5
    SPILLED_ROW = 6
    """A cycle of a row in the LDS; per cycle, the rows spilled on the mean."""
    WAIT = 7
    """A cycle that wavefronts lose to waiting for one another."""
    MOV = 8
    MISPREDICTION = 9


EVENTS = len(Event)
COUNTED = Event.SPILLED_ROW + 1
"""The first so many are those that an engine counts for each fault map."""


def events_per_cycle(replay: PreparedReplay, counters: Counters) -> NDArray[np.float64]:
    """Events per cycle of steady replay, without waits: float64[instances, EVENTS]."""
    schedule = replay.schedule
    counts = counted(counters)
    events = np.zeros((len(counts), EVENTS))
    events[:, :COUNTED] = counts / (counters.passes * schedule.cycles)
    events[:, Event.MOV] = schedule.mov_writes / schedule.cycles
    events[:, Event.MISPREDICTION] = schedule.mispredicted_writes / schedule.cycles
    return events


def counted(counters: Counters) -> NDArray[np.int64]:
    """Those events that a fault map may change: int64[instances, COUNTED]."""
    return np.stack(
        [
            counters.regular,
            counters.to_reliable,
            counters.to_faulty,
            counters.lds,
            counters.wakeups,
            counters.lds_reads,
            counters.spilled_row_cycles,
        ],
        axis=1,
    )


@dataclass(frozen=True, eq=False)
class KernelActivity:
    """Activity of a technique on a kernel, on any fault map.

    `mcage.costs.activity_of` looks through the whole schedule of a replay. Here that is done once,
    for a slice on which nothing is ever redirected, spilled or woken up; the events of an instance
    are then put in.

    Attributes
    ----------
    undisturbed : Activity
        Of that slice.
    uncompressed_entry_cycles : float
        Sum over cycles of the entries that hold an uncompressed value.
    spills_switch_off : bool
        Whether the entry of a value is off while the value is spilled.
    """

    undisturbed: Activity
    uncompressed_entry_cycles: float
    spills_switch_off: bool

    @classmethod
    def of(cls, replay: PreparedReplay) -> Self:
        """Look through the schedule of a replay."""
        schedule = replay.schedule
        lasting = (schedule.end_cycle - schedule.cycle)[~schedule.compressed]
        none = np.zeros(1, dtype=np.int64)
        return cls(
            undisturbed=activity_of(replay, Counters(1, *(none for _ in range(8)))),
            uncompressed_entry_cycles=float(lasting.sum()),
            spills_switch_off=replay.technique.gates_empty,
        )

    def under(self, events: NDArray[np.float64]) -> Activity:
        """Activity with events per cycle float64[n, EVENTS]: what `activity_of` finds for them."""
        base = self.undisturbed
        counts = events.T * base.cycles
        powered = base.powered_entry_cycles + 0 * counts[Event.SPILLED_ROW]
        if self.spills_switch_off:
            whole, parts = _spilled(counts[Event.SPILLED_ROW], self.uncompressed_entry_cycles)
            powered = powered - whole - parts / SLICE.blocks
        return replace(
            base,
            reads=_with_spills(base.reads, counts[Event.LDS_READ]),
            writes=_with_spills(base.writes, counts[Event.LDS]),
            redirections=counts[Event.TO_RELIABLE] + counts[Event.TO_FAULTY] + counts[Event.LDS],
            wakeups=counts[Event.WAKEUP],
            powered_entry_cycles=powered,
        )


def _with_spills(accesses: Accesses, spilled: NDArray[np.float64]) -> Accesses:
    uncompressed, compressed = _spilled(spilled, accesses.uncompressed)
    return Accesses(
        uncompressed=accesses.uncompressed - uncompressed,
        compressed=accesses.compressed - compressed,
        compressed_blocks=accesses.compressed_blocks - compressed,
        lds=spilled,
    )


def _spilled(
    spilled: NDArray[np.float64], uncompressed: float | NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Uncompressed and compressed ones of what is spilled: the latter only when all else is."""
    beyond = np.maximum(spilled - uncompressed, 0.0)
    return spilled - beyond, beyond
