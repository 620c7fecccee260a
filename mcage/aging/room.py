"""Room: whether a kernel fits on a fault map, and what happens to its writes there."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.aging.events import COUNTED, EVENTS, Event, counted
from mcage.aging.shared import SharedReplays
from mcage.engines.interface import Engine
from mcage.geometry import SLICE


@dataclass(frozen=True, eq=False)
class Replayed:
    """Replays of a kernel on a fault map, one per instance; arrays [n, ...].

    Attributes
    ----------
    kernel : int64[n]
        Kernels; -1 where there is no replay.
    fault_maps : uint8[n, 256]
        Fault maps.
    fits : bool[n]
        Whether there is room.
    events : float64[n, EVENTS]
        Events per cycle.
    peak : int64[n]
        Spilled rows at most.
    """

    kernel: NDArray[np.int64]
    fault_maps: NDArray[np.uint8]
    fits: NDArray[np.bool_]
    events: NDArray[np.float64]
    peak: NDArray[np.int64]

    @classmethod
    def none(cls, count: int) -> Self:
        """Room for replays to come."""
        return cls(
            np.full(count, -1),
            np.zeros((count, SLICE.entries), dtype=np.uint8),
            np.zeros(count, dtype=bool),
            np.zeros((count, EVENTS)),
            np.zeros(count, dtype=np.int64),
        )

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "Replayed":
        """Some of them."""
        return Replayed(
            self.kernel[which],
            self.fault_maps[which],
            self.fits[which],
            self.events[which],
            self.peak[which],
        )

    def keep(self, which: NDArray[np.int64] | NDArray[np.bool_], others: "Replayed") -> None:
        """Put others in the place of some."""
        self.kernel[which] = others.kernel
        self.fault_maps[which] = others.fault_maps
        self.fits[which] = others.fits
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
    """

    engine: Engine
    shared: SharedReplays
    lds_rows: int

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
            np.ones(len(kernel), dtype=bool),
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
            result.fits[affected] = ~(needed & (fault_maps[affected] != 0)).any(axis=1)
        result.fits[result.peak > self.lds_rows] = False
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
            packing = self.shared.replays[number].packing
            assert packing is not None
            waits = packing.slowdown(result.fault_maps[chosen])
            result.fits[chosen] = np.isfinite(waits)
            for one in np.flatnonzero(np.isinf(waits)):
                # A life ends with its last window, not with an endless wait for the next.
                places = packing.places(result.fault_maps[chosen[one]])
                last = packing.timing(tuple(max(1, count) for count in places))
                waits[one] = last.cycles / packing.trace.cycles - 1
            result.events[chosen, Event.WAIT] = waits


def _words(fault_maps: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Fault maps in words of 8 entries, for comparisons."""
    return np.ascontiguousarray(fault_maps).view(np.uint64)
