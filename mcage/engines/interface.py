"""What every engine offers: fault maps in, compact outcomes out, cell arrays only on request."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from mcage.engines.policies import Policies
from mcage.engines.stress import FaultFreeDuties, StressAccumulator, TrackedCells
from mcage.geometry import SLICE
from mcage.replays.outcome import CellTimes, Counters
from mcage.replays.prepare import PreparedReplay
from mcage.techniques import Technique


class Engine(ABC):
    """Replays traces for batches of instances.

    Fault maps are uint8[instances, 256]: bit b set = block b of that entry is unusable, 0 = the
    entry is reliable. Techniques that do not heed them have the same result for all instances,
    which is given once (instances = 1).

    Every method refuses a technique that asks for a policy which the engine does not implement.
    """

    name: str
    policies: Policies
    """What it implements."""
    batch: int
    """Instances that are worth computing together."""
    threads: int | None = None
    """Threads of the host that its memory has room for at once; None if it need not be asked."""

    def check(self, technique: Technique) -> None:
        """Refuse a technique that asks for a policy which this engine does not implement.

        Raises
        ------
        UserError
            One line that names technique, policy and engine.
        """
        self.policies.check(technique, self.name)

    @abstractmethod
    def redirect(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> Counters:
        """Event counts of a redirecting technique."""

    @abstractmethod
    def cell_times(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> CellTimes:
        """Integer cell times of a small batch, for inspection and for replays shared by all."""

    @abstractmethod
    def stress(
        self, duties: FaultFreeDuties, tracked: TrackedCells, instances: int
    ) -> StressAccumulator:
        """Times of the cells of a batch of new instances, all zero so far."""

    def count(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> Counters:
        """Event counts of any technique for every instance."""
        self.check(replay.technique)
        if replay.technique.redirects:
            return self.redirect(replay, fault_maps)
        schedule = replay.schedule
        waking = schedule.was_compressed & ~schedule.compressed
        wakes = int(waking.sum()) if replay.technique.gates_empty else 0

        runs = np.ones(len(fault_maps), dtype=bool)
        if replay.packing is not None:
            runs = replay.packing.fits(fault_maps)

        def every(count: int) -> NDArray[np.int64]:
            return np.where(runs, count, 0).astype(np.int64)

        return Counters(
            passes=1,
            regular=every(schedule.writes),
            to_reliable=every(0),
            to_faulty=every(0),
            lds=every(0),
            lds_reads=every(0),
            peak_spilled_rows=every(0),
            spilled_row_cycles=every(0),
            wakeups=every(wakes),
        )


def fault_free_maps(instances: int = 1) -> NDArray[np.uint8]:
    """Fault maps without a fault: uint8[instances, 256]."""
    return np.zeros((instances, SLICE.entries), dtype=np.uint8)
