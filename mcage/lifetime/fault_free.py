"""Replays of each kernel on a fault-free slice, made once for all instances.

Where a slice holds its values while it is idle, cells live through longer passes than those in
which events are counted: through the passes of the trace and the idle time after each.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcage.costs.kernel_activity import KernelActivity
from mcage.engines.interface import Engine, fault_free_maps
from mcage.engines.stress import FaultFreeDuties
from mcage.geometry import SLICE
from mcage.replays.most_stressed import duty_cycles
from mcage.replays.outcome import events_per_cycle
from mcage.replays.prepare import PreparedReplay, RedirectedReplay


@dataclass(frozen=True, eq=False)
class FaultFreeReplays:
    """A technique on each kernel of a sweep, and its results on a fault-free slice.

    Attributes
    ----------
    replays : tuple of PreparedReplay
        Busy passes, a replay for each kernel.
    duties : FaultFreeDuties
        Whole passes, a replay for each kernel, and the duty cycles of all cells.
    events : float64[kernels, EVENTS]
        Events per busy cycle.
    activities : tuple of KernelActivity
        What the slice does while they happen.
    peak_spilled_rows : int64[kernels]
        Largest number of spilled rows.
    """

    replays: tuple[PreparedReplay, ...]
    duties: FaultFreeDuties
    events: NDArray[np.float64]
    activities: tuple[KernelActivity, ...]
    peak_spilled_rows: NDArray[np.int64]

    @property
    def redirects(self) -> bool:
        """Whether the technique moves registers away from faults."""
        return self.replays[0].technique.redirects

    @property
    def packs(self) -> bool:
        """Whether the technique moves whole windows away from faults."""
        return self.replays[0].technique.packs

    @cached_property
    def redirected(self) -> tuple[RedirectedReplay, ...]:
        """The replays of a technique that redirects."""
        return tuple(replay for replay in self.replays if isinstance(replay, RedirectedReplay))

    @cached_property
    def cycles(self) -> NDArray[np.int64]:
        """Cycles of a busy pass of each kernel: int64[kernels]."""
        return np.array([replay.schedule.cycles for replay in self.replays], dtype=np.int64)

    @cached_property
    def needed(self) -> NDArray[np.bool_]:
        """Entries that must be reliable under each kernel: bool[kernels, 256]."""
        return np.stack([replay.needed for replay in self.replays])

    @cached_property
    def idle(self) -> NDArray[np.float64]:
        """Idle time after a pass in which the slice holds, over its busy time: float64[kernels]."""
        pairs = zip(self.duties.replays, self.replays, strict=True)
        return np.array([whole.schedule.cycles / busy.schedule.cycles - 1 for whole, busy in pairs])


def fault_free_replays(
    engine: Engine,
    replays: tuple[PreparedReplay, ...],
    with_idle: tuple[PreparedReplay, ...] | None = None,
) -> FaultFreeReplays:
    """Replay each kernel once without faults.

    Parameters
    ----------
    engine : Engine
        Engine that replays.
    replays : tuple of PreparedReplay
        A technique on each kernel.
    with_idle : tuple of PreparedReplay, optional
        The same with the idle time in which the slice holds its values; by default there is none.
    """
    aging = replays if with_idle is None else with_idle
    counters = [engine.count(replay, fault_free_maps()) for replay in replays]
    zeros = np.empty((len(aging), SLICE.cells))
    ones = np.empty_like(zeros)
    for kernel, replay in enumerate(aging):
        times = engine.cell_times(replay, fault_free_maps())
        zeros[kernel] = (times.zeros[0] / times.period).ravel()
        ones[kernel] = (times.ones[0] / times.period).ravel()
    return FaultFreeReplays(
        replays=replays,
        duties=FaultFreeDuties(aging, duty_cycles(zeros), duty_cycles(ones)),
        events=np.concatenate(
            [events_per_cycle(*both) for both in zip(replays, counters, strict=True)]
        ),
        activities=tuple(KernelActivity.of(replay) for replay in replays),
        peak_spilled_rows=np.concatenate([counts.peak_spilled_rows for counts in counters]),
    )
