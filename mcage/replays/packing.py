"""Whole windows between faulty entries: how many fit, where they lie, and how long the others wait.

The simplest technique, which needs no paper: a faulty entry is unusable, and a window needs N
reliable entries in a row. Where fewer windows fit than a kernel had, wavefronts wait. They
keep their order and what they do from their allocation on; only when they start changes.
"""

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.replays.windows import Windows
from mcage.traces.model import ALLOC, EVENT_COLUMNS, READ, RELEASE, WRITE, Trace

_RANK_IN_CYCLE = np.argsort([ALLOC, WRITE, READ, RELEASE])
"""Place of each kind of event inside one cycle."""

Places = tuple[int, ...]
"""Windows that may be open at once, for each window size of a trace."""


def packed_bases(fault_map: NDArray[np.uint8], size: int) -> NDArray[np.int64]:
    """First entries of the windows that fit: greedily from entry 0 on, which no packing beats.

    Parameters
    ----------
    fault_map : uint8[entries]
        0 where an entry is reliable.
    size : int
        Registers of a window.
    """
    faulty = np.flatnonzero(np.concatenate([[1], fault_map != 0, [1]])) - 1
    starts, lengths = faulty[:-1] + 1, np.diff(faulty) - 1
    counts = lengths // size
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    bases: NDArray[np.int64] = np.repeat(starts, counts) + size * number
    return bases


@dataclass(frozen=True)
class Timing:
    """When the windows of a trace start, and where; arrays int64[windows] in allocation order."""

    start_cycle: NDArray[np.int64]
    place: NDArray[np.int64]
    cycles: int


@dataclass(frozen=True, eq=False)
class Packing:
    """The windows of a trace, to be packed.

    Parameters
    ----------
    trace : Trace
        As recorded.
    windows : Windows
        Its windows.
    window_of_event : int64[events]
        Window that each event belongs to.

    Raises
    ------
    UserError
        If windows of different size are open at once: they have no places in common.
    """

    trace: Trace
    windows: Windows
    window_of_event: NDArray[np.int64]

    def __post_init__(self) -> None:
        windows = self.windows
        for size in self.sizes:
            of_size = windows.size == size
            begins = windows.alloc_cycle[of_size, None] <= windows.release_cycle[~of_size]
            if (
                begins & (windows.alloc_cycle[~of_size] <= windows.release_cycle[of_size, None])
            ).any():
                raise UserError(
                    f"trace {self.trace.name!r}: windows of different size are open at once; "
                    "pack placement needs kernels one after the other"
                )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Window sizes, ascending."""
        return tuple(int(size) for size in np.unique(self.windows.size))

    @cached_property
    def slots(self) -> Places:
        """Windows of each size that the recorded trace has room for."""
        windows = self.windows
        return tuple(int(windows.slot[windows.size == size].max()) + 1 for size in self.sizes)

    @cached_property
    def _timings(self) -> dict[Places, Timing]:
        return {}

    def places(self, fault_map: NDArray[np.uint8]) -> Places:
        """Windows of each size that fit on a map uint8[entries], not more than recorded."""
        return tuple(
            min(slots, len(packed_bases(fault_map, size)))
            for size, slots in zip(self.sizes, self.slots, strict=True)
        )

    def fits(self, fault_maps: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Whether all kernels can run, if slowly, on fault maps uint8[n, entries]: bool[n]."""
        return np.array([all(self.places(fault_map)) for fault_map in fault_maps], dtype=bool)

    def slowdown(self, fault_maps: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Cycles lost to waiting, per recorded cycle: float64[n], infinite where nothing runs."""
        cycles = []
        for fault_map in fault_maps:
            places = self.places(fault_map)
            cycles.append(self.timing(places).cycles if all(places) else np.inf)
        return np.array(cycles, dtype=np.float64) / self.trace.cycles - 1

    def timing(self, places: Places) -> Timing:
        """When and where windows start if so many of each size, at least one, may be open."""
        if places not in self._timings:
            self._timings[places] = self._wait(places)
        return self._timings[places]

    def _wait(self, places: Places) -> Timing:
        """Start window after window at its recorded cycle, or as soon as it can.

        It waits for a place, for the windows before it to start, for those of other sizes to be
        released, and for those that were released before its launch began.
        """
        windows = self.windows
        duration = windows.release_cycle - windows.alloc_cycle
        free = {
            size: np.zeros(count, dtype=np.int64)
            for size, count in zip(self.sizes, places, strict=True)
        }
        launch = self.trace.alloc_launch
        start, end = np.zeros_like(duration), np.zeros_like(duration)
        place = np.zeros_like(duration)
        earliest = 0
        for window, size in enumerate(windows.size.tolist()):
            before = slice(0, window)
            began = windows.alloc_cycle[launch == launch[window]].min()
            awaited = (windows.size[before] != size) | (windows.release_cycle[before] < began)
            over = int(end[before][awaited].max(initial=-1)) + 1
            earliest = max(earliest, int(windows.alloc_cycle[window]), over)
            earliest = max(earliest, int(free[size].min()))
            idle = np.flatnonzero(free[size] <= earliest)
            recorded = windows.slot[window]
            place[window] = recorded if recorded in idle else idle[0]
            start[window], end[window] = earliest, earliest + duration[window]
            free[size][place[window]] = end[window] + 1  # a cycle begins with allocations
        later = int(end.max() - windows.release_cycle.max())
        return Timing(start, place, self.trace.cycles + later)

    def retimed(self, places: Places) -> Trace:
        """The trace as it runs with so many places: slots are numbers of places."""
        timing = self.timing(places)
        delay = timing.start_cycle - self.windows.alloc_cycle
        cycle = self.trace.cycle + delay[self.window_of_event]
        kind = self.trace.kind
        order = np.lexsort((np.arange(len(kind)), _RANK_IN_CYCLE[kind], cycle))
        columns = {c.attribute: getattr(self.trace, c.attribute)[order] for c in EVENT_COLUMNS}
        columns["cycle"] = cycle[order]
        columns["slot"] = timing.place[self.window_of_event][order].astype(np.uint16)
        return dataclasses.replace(
            self.trace,
            cycles=timing.cycles,
            alloc_event=np.flatnonzero(columns["kind"] == ALLOC).astype(np.uint32),
            **columns,
        )

    def bases(self, fault_map: NDArray[np.uint8], places: Places) -> NDArray[np.int64]:
        """First entry of every window on a fault map with so many places: int64[windows]."""
        base = np.empty(len(self.windows.size), dtype=np.int64)
        for size in self.sizes:
            of_size = self.windows.size == size
            base[of_size] = packed_bases(fault_map, size)[self.timing(places).place[of_size]]
        return base

    def entries(self, fault_map: NDArray[np.uint8], places: Places) -> NDArray[np.int64]:
        """Entries of the places, one after the other, for the only window size of a trace."""
        (size,), (count,) = self.sizes, places
        bases = packed_bases(fault_map, size)[:count]
        return (bases[:, None] + np.arange(size)).ravel()
