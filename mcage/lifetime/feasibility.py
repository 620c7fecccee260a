"""Feasibility: whether a kernel can run on a fault map, and what happens to its writes there."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.engines.interface import Engine
from mcage.engines.programs import Learnt
from mcage.engines.stress import by_kernel
from mcage.lifetime.end_cause import EndCause
from mcage.lifetime.fault_free import FaultFreeReplays
from mcage.replays.outcome import COUNTED, EVENTS, Event, counted
from mcage.replays.prepare import PackedReplay


@dataclass(frozen=True, eq=False)
class FaultMapReplays:
    """A kernel replayed on a fault map for each of n instances; arrays [n, ...].

    Attributes
    ----------
    kernel : int64[n]
        Kernels; -1 where there is no replay yet.
    fault_maps : uint8[n, entries]
        Fault maps.
    end_cause : int8[n]
        `EndCause` of a life for which the replay is infeasible; `EndCause.CENSORED` where the life
        can go on.
    events : float64[n, EVENTS]
        Events per cycle.
    peak_spilled_rows : int64[n]
        Largest number of spilled rows.
    """

    kernel: NDArray[np.int64]
    fault_maps: NDArray[np.uint8]
    end_cause: NDArray[np.int8]
    events: NDArray[np.float64]
    peak_spilled_rows: NDArray[np.int64]

    @classmethod
    def none(cls, count: int, entries: int) -> Self:
        """Arrays for replays to come, of slices of so many entries."""
        return cls(
            np.full(count, -1),
            np.zeros((count, entries), dtype=np.uint8),
            np.full(count, EndCause.CENSORED, dtype=np.int8),
            np.zeros((count, EVENTS)),
            np.zeros(count, dtype=np.int64),
        )

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Whether a life can go on: bool[n]."""
        going: NDArray[np.bool_] = self.end_cause == EndCause.CENSORED
        return going

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "FaultMapReplays":
        """Replays of selected instances."""
        return FaultMapReplays(
            self.kernel[which],
            self.fault_maps[which],
            self.end_cause[which],
            self.events[which],
            self.peak_spilled_rows[which],
        )

    def keep(self, which: NDArray[np.int64], others: "FaultMapReplays") -> None:
        """Replace the replays of selected instances by those of others, one for each."""
        self.kernel[which] = others.kernel
        self.fault_maps[which] = others.fault_maps
        self.end_cause[which] = others.end_cause
        self.events[which] = others.events
        self.peak_spilled_rows[which] = others.peak_spilled_rows

    def replace(self, where: NDArray[np.bool_], others: "FaultMapReplays") -> None:
        """Replace replays, where bool[n] says so, by those of others, all n."""
        of_rows = where[:, None]
        np.copyto(self.kernel, others.kernel, where=where)
        np.copyto(self.fault_maps, others.fault_maps, where=of_rows)
        np.copyto(self.end_cause, others.end_cause, where=where)
        np.copyto(self.events, others.events, where=of_rows)
        np.copyto(self.peak_spilled_rows, others.peak_spilled_rows, where=where)

    def are_of(self, kernel: NDArray[np.int64], fault_maps: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Whether they are those of kernels int64[n] on fault maps uint8[n, entries]: bool[n]."""
        same: NDArray[np.bool_] = (_words(self.fault_maps) == _words(fault_maps)).all(axis=1)
        same &= self.kernel == kernel
        return same


@dataclass(frozen=True)
class Feasibility:
    """Tells whether kernels can run on fault maps, by replaying them there.

    Parameters
    ----------
    engine : Engine
        Replays what depends on a fault map.
    fault_free : FaultFreeReplays
        The technique on each kernel.
    lds_rows : int
        Rows of the LDS that spilled registers may take.
    spill_limit : float
        Fraction of a kernel's writes that may go to the LDS.
    learnt : Learnt, optional
        What the placement programs of a batch know.
    """

    engine: Engine
    fault_free: FaultFreeReplays
    lds_rows: int
    spill_limit: float
    learnt: Learnt | None = None

    def replay(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        *known: FaultMapReplays,
    ) -> FaultMapReplays:
        """Replay each kernel on its fault map.

        Parameters
        ----------
        instances : int64[n]
            Positions in the batch.
        kernel : int64[n]
            Kernels.
        fault_maps : uint8[n, entries]
            Fault maps.
        *known : FaultMapReplays
            Replays [n] made before; they are taken over where kernel and fault map are the same.
        """
        fault_free = self.fault_free
        result = FaultMapReplays(
            kernel,
            fault_maps,
            np.full(len(kernel), EndCause.CENSORED.value, dtype=np.int8),
            fault_free.events[kernel],
            fault_free.peak_spilled_rows[kernel],
        )
        differ = self.learnt is not None and self.learnt.differs
        if differ or fault_maps.any():
            is_affected: NDArray[np.bool_] = (_words(fault_maps) != 0).any(axis=1) | differ
            affected = np.flatnonzero(is_affected)
            if fault_free.redirects:
                self._redirect(instances, is_affected, result, known)
            elif fault_free.packs:
                self._pack(affected, result)
            else:
                needed = fault_free.needed[kernel[affected]]
                harmed = (needed & (fault_maps[affected] != 0)).any(axis=1)
                result.end_cause[affected[harmed]] = EndCause.FAULTY_ENTRY
        if self.spill_limit < 1:
            result.end_cause[_spill_rate(result.events) > self.spill_limit] = EndCause.SPILL_LIMIT
        # Where there is no room at all, the limit does not matter.
        result.end_cause[result.peak_spilled_rows > self.lds_rows] = EndCause.NO_HOME
        return result

    def _redirect(
        self,
        instances: NDArray[np.int64],
        unknown: NDArray[np.bool_],
        result: FaultMapReplays,
        known: tuple[FaultMapReplays, ...],
    ) -> None:
        """Take over or count events and spilled rows of a result, where bool[n] says so."""
        for earlier in known:
            same = unknown & earlier.are_of(result.kernel, result.fault_maps)
            np.copyto(result.events, earlier.events, where=same[:, None])
            np.copyto(result.peak_spilled_rows, earlier.peak_spilled_rows, where=same)
            unknown &= ~same
        which = np.flatnonzero(unknown)
        if not len(which):
            return
        kernel, fault_maps = result.kernel[which], result.fault_maps[which]
        replays = self.fault_free.replays
        if self.learnt:
            counters = self.learnt.count(replays, instances[which], kernel, fault_maps)
        elif self.fault_free.redirected:
            counters = self.engine.redirect_each(self.fault_free.redirected, kernel, fault_maps)
        else:
            counters = self.engine.programs.count(replays, kernel, fault_maps)
        cycles = counters.passes * self.fault_free.cycles[kernel]
        result.events[which, :COUNTED] = counted(counters) / cycles[:, None]
        result.peak_spilled_rows[which] = counters.peak_spilled_rows

    def _pack(self, which: NDArray[np.int64], result: FaultMapReplays) -> None:
        """See which instances of a result have windows left, and how long wavefronts wait."""
        for number, runs_it in by_kernel(result.kernel[which]):
            selected = which[runs_it]
            replay = self.fault_free.replays[number]
            assert isinstance(replay, PackedReplay)
            packing = replay.packing
            waits = packing.slowdown(result.fault_maps[selected])
            result.end_cause[selected[np.isinf(waits)]] = EndCause.NO_HOME
            for place in np.flatnonzero(np.isinf(waits)):
                # A life ends with its last window, not with an endless wait for the next.
                places = packing.places(result.fault_maps[selected[place]])
                last = packing.timing(tuple(max(1, count) for count in places))
                waits[place] = last.cycles / packing.trace.cycles - 1
            result.events[selected, Event.WAIT] = waits


def _spill_rate(events: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fraction of the register writes that go to the LDS: float64[n]."""
    # Rounded, so that a rate that equals a limit does not exceed it by its last bit.
    rate: NDArray[np.float64] = events[:, Event.LDS] / events[:, : Event.LDS + 1].sum(axis=1)
    return rate.round(12)


def _words(fault_maps: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Fault maps in words of 8 entries, for comparisons."""
    return np.ascontiguousarray(fault_maps).view(np.uint64)
