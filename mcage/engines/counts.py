"""Events of redirected replays from the number of free places alone, remembered by any engine.

Unless the selectors rotate over blocks or rows have entries of their own, entries of a kind are
interchangeable: they are asked in an order that does not change, and a sound block of a faulty
entry is as good as any other. So how many reliable entries and how many sound blocks of faulty ones
there are decides what happens, not where they are, and what is more than enough makes no
difference.
"""

import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.interface import Engine
from mcage.engines.stress import by_kernel
from mcage.geometry import SLICE
from mcage.replays.outcome import Counters
from mcage.replays.prepare import RedirectedReplay
from mcage.replays.schedule import DEATH, Schedule
from mcage.techniques import Technique
from mcage.traces.model import RELEASE, WRITE

COUNTERS = 8
"""Columns of counted events: the arrays of `Counters` in their order."""

_SOUND_IF_FAULTY = np.array(
    [0, *(SLICE.blocks - bin(faults).count("1") for faults in range(1, 1 << SLICE.blocks))],
    dtype=np.uint8,
)
_MANY = SLICE.entries * SLICE.blocks + 1

Count = Callable[
    [Sequence[RedirectedReplay], NDArray[np.int64], NDArray[np.uint8]], NDArray[np.int64]
]
"""Counts events int64[n, 8] of a technique on several kernels: which of them each instance runs,
int64[n], and on which fault map, uint8[n, 256]."""


class Counts:
    """Events of redirected replays, and what is known of them; for any number of threads.

    Parameters
    ----------
    count : callable
        Counts what is not known yet, in a single call for all kernels.
    """

    def __init__(self, count: Count) -> None:
        self._count = count
        self._known: Memo[RedirectedReplay, _Known] = Memo(_Known)

    def of(
        self,
        replays: Sequence[RedirectedReplay],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
    ) -> Counters:
        """Events of instances that run the kernels ``kernel`` int64[n] of a technique.

        Parameters
        ----------
        replays : sequence of RedirectedReplay
            The technique on each kernel.
        kernel, fault_maps : int64[n], uint8[n, 256]
            What each instance runs, and on which map.
        """
        if not only_numbers_matter(replays[0].technique):
            counted = self._count(replays, kernel, fault_maps)
        else:
            counted = self._remembered(replays, kernel, fault_maps)
        return Counters(replays[0].passes, *counted.T)

    def _remembered(
        self,
        replays: Sequence[RedirectedReplay],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
    ) -> NDArray[np.int64]:
        reliable = np.count_nonzero(fault_maps == 0, axis=1)
        sound = _SOUND_IF_FAULTY[fault_maps].sum(axis=1, dtype=np.int64)
        places = np.empty(len(kernel), dtype=np.int64)
        unknown = []
        for number, runs_it in by_kernel(kernel):
            known = self._known.of(replays[number])
            places[runs_it] = known.places(reliable[runs_it], sound[runs_it])
            unknown.append(np.flatnonzero(runs_it)[known.first_unknown(places[runs_it])])
        if any(map(len, unknown)):
            together = np.concatenate(unknown)
            counted = self._count(replays, kernel[together], fault_maps[together])
            for number, runs_it in by_kernel(kernel[together]):
                self._known.of(replays[number]).add(places[together[runs_it]], counted[runs_it])
        counters = np.empty((len(kernel), COUNTERS), dtype=np.int64)
        for number, runs_it in by_kernel(kernel):
            counters[runs_it] = self._known.of(replays[number]).counters(places[runs_it])
        return counters


class RememberingEngine(Engine):
    """An engine that counts events of redirected replays where they are not known yet."""

    def __init__(self) -> None:
        super().__init__()
        self._counts = Counts(self._count)

    @abstractmethod
    def _count(
        self,
        replays: Sequence[RedirectedReplay],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
    ) -> NDArray[np.int64]:
        """Count events, as `Counts` asks for them: a `Count`."""

    def redirect(self, replay: RedirectedReplay, fault_maps: NDArray[np.uint8]) -> Counters:
        """See `Engine.redirect`."""
        return self.redirect_each((replay,), np.zeros(len(fault_maps), np.int64), fault_maps)

    def redirect_each(
        self,
        replays: Sequence[RedirectedReplay],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
    ) -> Counters:
        """See `Engine.redirect_each`."""
        self.check(replays[0].technique)
        return self._counts.of(replays, kernel, fault_maps)


class _Known:
    """What is known of a kernel.

    A number of places is ``reliable * _MANY + sound``, each of them no more than there is use for.
    """

    def __init__(self, replay: RedirectedReplay) -> None:
        self._most_entries, self._most_blocks = most_in_use(replay.schedule)
        self._lock = threading.Lock()
        self._table = np.empty(0, np.int64), np.empty((0, COUNTERS), np.int64)

    def places(self, reliable: NDArray[np.int64], sound: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of places of fault maps with so many reliable entries and sound blocks."""
        entries = np.minimum(reliable, self._most_entries)
        return entries * _MANY + np.minimum(sound, self._most_blocks)

    def first_unknown(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions of numbers that are not known yet: each number once."""
        numbers, first = np.unique(places, return_index=True)
        return first[~np.isin(numbers, self._table[0], assume_unique=True)]

    def add(self, places: NDArray[np.int64], counters: NDArray[np.int64]) -> None:
        """Remember the counters int64[n, 8] of numbers of places."""
        with self._lock:
            numbers = np.concatenate([self._table[0], places])
            numbers, first = np.unique(numbers, return_index=True)
            self._table = numbers, np.concatenate([self._table[1], counters])[first]

    def counters(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counters int64[n, 8] of numbers that are known."""
        numbers, counters = self._table
        return counters[np.searchsorted(numbers, places)]


def only_numbers_matter(technique: Technique) -> bool:
    """Whether it makes no difference where the free places are."""
    rotates_over_blocks = technique.rotating_selectors and technique.stores_in_blocks
    return not (technique.borrows or rotates_over_blocks)


def most_in_use(schedule: Schedule) -> tuple[int, int]:
    """How many registers have a place at the same time, at most; and how many of them a block."""
    step = np.arange(len(schedule.op))
    is_write, is_release = schedule.op_kind == WRITE, schedule.op_kind == RELEASE
    is_death = schedule.op_kind == DEATH
    write = schedule.op[is_write]
    begins = schedule.residency_first[write] == write
    first, since = write[begins], step[is_write][begins]
    window = schedule.op[is_release]
    sizes = schedule.windows.size[window]
    offset = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # A register gives its place back where its row is written anew, dies or is released.
    row = np.concatenate(
        [
            schedule.row[first],
            schedule.row[schedule.op[is_death]],
            np.repeat(schedule.windows.base[window], sizes) + offset,
        ]
    )
    at = np.concatenate([since, step[is_death], np.repeat(step[is_release], sizes)])
    by_row = np.lexsort((at, row))
    until = np.full(len(at), len(step))
    same_row = row[by_row[:-1]] == row[by_row[1:]]
    until[by_row[:-1][same_row]] = at[by_row[1:][same_row]]
    until = until[: len(first)]

    def most(chosen: NDArray[np.bool_]) -> int:
        change = np.zeros(len(step) + 1, dtype=np.int64)
        np.add.at(change, since[chosen], 1)
        np.add.at(change, until[chosen], -1)
        return int(np.cumsum(change).max(initial=0))

    has_place = ~schedule.in_table[first]
    in_block = has_place & schedule.compressed[first] & schedule.technique.stores_in_blocks
    return most(has_place), most(in_block)
