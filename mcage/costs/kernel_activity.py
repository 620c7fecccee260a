"""Activity of a technique on a kernel, put together from the events of each instance."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.costs.activity import Accesses, Activity, activity_of
from mcage.replays.outcome import Counters, Event
from mcage.replays.prepare import PreparedReplay


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
        powered = base.gating.powered_entry_cycles + 0 * counts[Event.SPILLED_ROW]
        if self.spills_switch_off:
            whole, parts = _spilled(counts[Event.SPILLED_ROW], self.uncompressed_entry_cycles)
            powered = powered - whole - parts / base.geometry.blocks
        return replace(
            base,
            reads=_with_spills(base.reads, counts[Event.LDS_READ]),
            writes=_with_spills(base.writes, counts[Event.LDS]),
            redirections=counts[Event.TO_RELIABLE] + counts[Event.TO_FAULTY] + counts[Event.LDS],
            gating=replace(base.gating, wakeups=counts[Event.WAKEUP], powered_entry_cycles=powered),
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
