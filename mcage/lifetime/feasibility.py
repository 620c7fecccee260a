"""Room: whether a kernel can run on a fault map, and what happens to its writes there."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.engines.interface import Engine
from mcage.geometry import SLICE
from mcage.lifetime.end_cause import EndCause
from mcage.lifetime.fault_free import FaultFreeReplays
from mcage.replays.outcome import COUNTED, EVENTS, Event, counted
from mcage.replays.prepare import PackedReplay


@dataclass(frozen=True, eq=False)
class Replayed:
    """Replays of a kernel on a fault map, one per instance; arrays [n, ...].

    Attributes
    ----------
    kernel : int64[n]
        Kernels; -1 where there is no replay.
    fault_maps : uint8[n, 256]
        Fault maps.
    end_cause : int8[n]
        `EndCause` of a life that comes to this; `EndCause.CENSORED` where it can go on.
    events : float64[n, EVENTS]
        Events per cycle.
    peak : int64[n]
        Spilled rows at most.
    """

    kernel: NDArray[np.int64]
    fault_maps: NDArray[np.uint8]
    end_cause: NDArray[np.int8]
    events: NDArray[np.float64]
    peak: NDArray[np.int64]

    @classmethod
    def none(cls, count: int) -> Self:
        """Room for replays to come."""
        return cls(
            np.full(count, -1),
            np.zeros((count, SLICE.entries), dtype=np.uint8),
            np.full(count, EndCause.CENSORED, dtype=np.int8),
            np.zeros((count, EVENTS)),
            np.zeros(count, dtype=np.int64),
        )

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether a life can go on: bool[n]."""
        going: NDArray[np.bool_] = self.end_cause == EndCause.CENSORED
        return going

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "Replayed":
        """Some of them."""
        return Replayed(
            self.kernel[which],
            self.fault_maps[which],
            self.end_cause[which],
            self.events[which],
            self.peak[which],
        )

    def keep(self, which: NDArray[np.int64] | NDArray[np.bool_], others: "Replayed") -> None:
        """Put others in the place of some."""
        self.kernel[which] = others.kernel
        self.fault_maps[which] = others.fault_maps
        self.end_cause[which] = others.end_cause
        self.events[which] = others.events
        self.peak[which] = others.peak


@dataclass(frozen=True)
class Room:
    """Looks for room.

    Parameters
    ----------
    engine : Engine
        Replays what depends on a fault map.
    shared : SharedReplays
        The technique on each kernel.
    lds_rows : int
        Spilled rows for which there is room.
    spill_limit : float
        Share of a kernel's writes that may go to the LDS.
    """

    engine: Engine
    shared: FaultFreeReplays
    lds_rows: int
    spill_limit: float

    def replay(
        self, kernel: NDArray[np.int64], fault_maps: NDArray[np.uint8], *known: Replayed
    ) -> Replayed:
        """Replay each kernel on its fault map.

        Parameters
        ----------
        kernel : int64[n]
            Kernels.
        fault_maps : uint8[n, 256]
            Fault maps.
        *known : Replayed
            Replays [n] made before: where kernel and map are the same, they are taken over.
        """
        shared = self.shared
        result = Replayed(
            kernel,
            fault_maps,
            np.full(len(kernel), EndCause.CENSORED, dtype=np.int8),
            shared.events[kernel],
            shared.peak_spilled_rows[kernel],
        )
        affected = np.flatnonzero(_words(fault_maps).any(axis=1))
        if len(affected) and shared.redirects:
            self._redirect(affected, result, known)
        elif len(affected) and shared.packs:
            self._pack(affected, result)
        elif len(affected):
            needed = shared.needed[kernel[affected]]
            harmed = (needed & (fault_maps[affected] != 0)).any(axis=1)
            result.end_cause[affected[harmed]] = EndCause.FAULTY_ENTRY
        result.end_cause[_spill_rate(result.events) > self.spill_limit] = EndCause.SPILL_LIMIT
        # Where there is no room at all, no limit matters.
        result.end_cause[result.peak > self.lds_rows] = EndCause.NO_HOME
        return result

    def _redirect(
        self, which: NDArray[np.int64], result: Replayed, known: tuple[Replayed, ...]
    ) -> None:
        """Take over or count events and spilled rows of some instances of a result."""
        for one in known:
            same = one.kernel[which] == result.kernel[which]
            same &= (_words(one.fault_maps[which]) == _words(result.fault_maps[which])).all(axis=1)
            result.events[which[same]] = one.events[which[same]]
            result.peak[which[same]] = one.peak[which[same]]
            which = which[~same]
            if not len(which):
                return
        kernel = result.kernel[which]
        for number in np.unique(kernel):
            chosen = which[kernel == number]
            replay = self.shared.replays[number]
            counters = self.engine.count(replay, result.fault_maps[chosen])
            events = counted(counters)
            cycles = counters.passes * replay.schedule.cycles
            result.events[chosen, :COUNTED] = events / cycles
            result.peak[chosen] = counters.peak_spilled_rows

    def _pack(self, which: NDArray[np.int64], result: Replayed) -> None:
        """See which instances of a result have windows left, and how long wavefronts wait."""
        for number in np.unique(result.kernel[which]):
            chosen = which[result.kernel[which] == number]
            replay = self.shared.replays[number]
            assert isinstance(replay, PackedReplay)
            packing = replay.packing
            waits = packing.slowdown(result.fault_maps[chosen])
            result.end_cause[chosen[np.isinf(waits)]] = EndCause.NO_HOME
            for one in np.flatnonzero(np.isinf(waits)):
                # A life ends with its last window, not with an endless wait for the next.
                places = packing.places(result.fault_maps[chosen[one]])
                last = packing.timing(tuple(max(1, count) for count in places))
                waits[one] = last.cycles / packing.trace.cycles - 1
            result.events[chosen, Event.WAIT] = waits


def _spill_rate(events: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the register writes that go to the LDS: float64[n]."""
    # Rounded, so that a rate that equals a limit does not exceed it by its last bit.
    rate: NDArray[np.float64] = events[:, Event.LDS] / events[:, : Event.LDS + 1].sum(axis=1)
    return rate.round(12)


def _words(fault_maps: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Fault maps in words of 8 entries, for comparisons."""
    return np.ascontiguousarray(fault_maps).view(np.uint64)
