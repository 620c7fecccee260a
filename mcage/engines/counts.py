"""Events of redirected replays from the number of free places alone, remembered by any engine.

Unless the selectors rotate over blocks or rows have entries of their own, entries of a kind are
interchangeable: they are asked in an order that does not change, and a sound block of a faulty
entry is as good as any other. So how many reliable entries and how many sound blocks of faulty ones
there are decides what happens, not where they are, and what is more than enough makes no
difference.
"""

import itertools
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.compiled import compiled
from mcage.concurrency import Memo
from mcage.engines.interface import Engine
from mcage.geometry import MOST_BLOCKS_OF_SLICE, Booleans, Bytes, Integers, Words
from mcage.replays.outcome import Counters
from mcage.replays.prepare import RedirectedReplay, kept_of_replays
from mcage.replays.schedule import DEATH, Schedule
from mcage.techniques import Technique
from mcage.traces.model import RELEASE, WRITE

COUNTERS = 8
"""Columns of counted events: the arrays of `Counters` in their order."""

_MANY = MOST_BLOCKS_OF_SLICE + 1
_EACH, _EVEN, _PAIR = (np.uint64(byte * 0x0101010101010101) for byte in (1, 0b101, 0b11))
"""Bytes of a word, each an entry whose blocks, at most four, are bits."""
_ONE, _TWO, _LAST = np.uint64(1), np.uint64(2), np.uint64(56)

Count = Callable[[Sequence[RedirectedReplay], Integers, Bytes], Integers]
"""Counts events int64[n, 8] of a technique on several kernels: which of them each instance runs,
int64[n], and on which fault map, uint8[n, entries]."""


class Counts:
    """Events of redirected replays, and what is known of them; for any number of threads.

    Parameters
    ----------
    count : callable
        Counts what is not known yet, in a single call for all kernels.
    """

    def __init__(self, count: Count) -> None:
        self._count = count
        numbers = itertools.count()
        self._used: Memo[RedirectedReplay, tuple[int, int, int]] = Memo(
            lambda replay: (next(numbers) * _MANY * _MANY, *_kept_most_in_use(replay))
        )
        self._lock = threading.Lock()
        # Places in rising order, and the counters of each; replaced as a whole, never changed.
        self._known = np.empty(0, np.int64), np.empty((0, COUNTERS), np.int64)

    def of(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Counters:
        """Events of instances that run the kernels ``kernel`` int64[n] of a technique.

        Parameters
        ----------
        replays : sequence of RedirectedReplay
            The technique on each kernel.
        kernel, fault_maps : int64[n], uint8[n, entries]
            What each instance runs, and on which map.
        """
        if not only_numbers_matter(replays[0].technique):
            counted = self._count(replays, kernel, fault_maps)
        else:
            counted = self._remembered(replays, kernel, fault_maps)
        return Counters(replays[0].passes, *counted.T)

    def _remembered(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Integers:
        places = self._places(replays, kernel, fault_maps)
        known, counters = self._known
        at = np.searchsorted(known, places)
        unknown = known.take(at, mode="clip") != places if len(known) else np.ones(len(at), bool)
        if unknown.any():
            _, first = np.unique(places[unknown], return_index=True)
            first = np.flatnonzero(unknown)[first]
            self._add(places[first], self._count(replays, kernel[first], fault_maps[first]))
            known, counters = self._known
            at = np.searchsorted(known, places)
        return counters[at]

    def _places(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Integers:
        """Numbers of places, no more than there is use for, as a number of the kernel: int64[n]."""
        of_kernels = np.array([self._used.of(replay) for replay in replays])
        first, most_entries, most_blocks = of_kernels[kernel].T
        reliable, sound = free_places(fault_maps, replays[0].geometry.blocks)
        entries, blocks = np.minimum(reliable, most_entries), np.minimum(sound, most_blocks)
        places: Integers = first + entries * _MANY + blocks
        return places

    def _add(self, places: Integers, counters: Integers) -> None:
        """Remember the counters int64[n, 8] of places."""
        with self._lock:
            known = np.concatenate([self._known[0], places])
            known, first = np.unique(known, return_index=True)
            self._known = known, np.concatenate([self._known[1], counters])[first]


class RememberingEngine(Engine):
    """An engine that counts events of redirected replays where they are not known yet."""

    def __init__(self) -> None:
        super().__init__()
        self._counts = Counts(self._count)

    @abstractmethod
    def _count(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Integers:
        """Count events, as `Counts` asks for them: a `Count`."""

    def redirect(self, replay: RedirectedReplay, fault_maps: Bytes) -> Counters:
        """See `Engine.redirect`."""
        return self.redirect_each((replay,), np.zeros(len(fault_maps), np.int64), fault_maps)

    def redirect_each(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Counters:
        """See `Engine.redirect_each`."""
        self.check(replays[0].technique)
        return self._counts.of(replays, kernel, fault_maps)


def free_places(fault_maps: Bytes, blocks_of_entry: int) -> tuple[Integers, Integers]:
    """Reliable entries, and sound blocks of the others, on fault maps: int64[n], int64[n]."""
    free = np.empty((2, len(fault_maps)), np.int64)
    _count_free(np.ascontiguousarray(fault_maps).view(np.uint64), blocks_of_entry, free)
    return free[0], free[1]


@compiled
def _count_free(words: Words, blocks_of_entry: int, free: Integers) -> None:
    """As `free_places`, of words of eight entries: uint64[n, entries / 8] to int64[2, n]."""
    entries = 8 * words.shape[1]
    for place in range(len(words)):
        faulty, unusable = np.uint64(0), np.uint64(0)
        for word in range(words.shape[1]):
            blocks = words[place, word]
            pairs = (blocks & _EVEN) + (blocks >> _ONE & _EVEN)
            unusable += ((pairs & _PAIR) + (pairs >> _TWO & _PAIR)) * _EACH >> _LAST
            any_block = blocks | blocks >> _ONE
            faulty += ((any_block | any_block >> _TWO) & _EACH) * _EACH >> _LAST
        free[0, place] = entries - np.int64(faulty)
        free[1, place] = blocks_of_entry * np.int64(faulty) - np.int64(unusable)


def only_numbers_matter(technique: Technique) -> bool:
    """Whether it makes no difference where the free places are."""
    rotates_over_blocks = technique.rotating_selectors and technique.stores_in_blocks
    return not (technique.borrows or rotates_over_blocks)


def _kept_most_in_use(replay: RedirectedReplay) -> tuple[int, int]:
    """`most_in_use` of a replay, from disk if it is kept there."""

    def counted() -> dict[str, NDArray[Any]]:
        return {"most": np.array(most_in_use(replay.schedule), dtype=np.int64)}

    entries, blocks = kept_of_replays("most in use", (replay,), counted)["most"].tolist()
    return entries, blocks


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

    def most(chosen: Booleans) -> int:
        change = np.zeros(len(step) + 1, dtype=np.int64)
        np.add.at(change, since[chosen], 1)
        np.add.at(change, until[chosen], -1)
        return int(np.cumsum(change).max(initial=0))

    has_place = ~schedule.in_table[first]
    in_block = has_place & schedule.compressed[first] & schedule.technique.stores_in_blocks
    return most(has_place), most(in_block)
