"""Placement programs in the Numba engine: passes of a slice, and the times of its cells."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import FreeList
from mcage.engines.numba_engine.cell_times import new_times
from mcage.engines.numba_engine.events import new_events
from mcage.engines.numba_engine.placement.contents import (
    BITS,
    FIRST_PARTIAL,
    RECORD,
    by_bit,
    contents_of,
    planes_of,
)
from mcage.engines.numba_engine.programs.compiling import answers_that_are_no_integers, in_words
from mcage.engines.numba_engine.programs.machine import SliceState, machine_of, new_slice
from mcage.engines.numba_engine.programs.times import (
    Stored,
    first_words,
    new_shown,
    sort_by_entry,
    times_of_entries,
)
from mcage.engines.numba_engine.simd import PARTS
from mcage.engines.numba_engine.vectors import COMPONENTS
from mcage.engines.programs.runner import (
    ARRIVAL,
    FINE,
    PLACE,
    WRITE_OF,
    Integers,
    PassRecord,
    ProgramRunner,
    breach,
)
from mcage.errors import UserError
from mcage.geometry import SliceGeometry
from mcage.replays.prepare import ProgrammedReplay
from mcage.techniques.programs import Entries
from mcage.techniques.programs.answers import PLACES

_TOGETHER = 1 << 18
"""Arrivals whose entries are worked out together: 4 MB of them."""


class _Memory(NamedTuple):
    """Memory for a pass of a slice.

    Attributes
    ----------
    slice_ : SliceState
        The slice.
    arrivals : int32[most arrivals, 4]
        Arrivals in the order of time.
    first : int64[entries + 1]
        First arrival of each entry.
    """

    slice_: SliceState
    arrivals: NDArray[np.int32]
    first: NDArray[np.int64]


class NumbaProgramRunner(ProgramRunner):
    """Runs programs as machine code."""

    def __init__(self, replay: ProgrammedReplay) -> None:
        super().__init__(replay)
        told = replay.told
        self._machine, self._functions = machine_of(replay.program)
        self._memory = FreeList(self._new_memory)
        self._told = told._replace(words=_read_only(told.words))
        swaps = replay.program.defines("allocate") + replay.program.defines("release")
        self._most = len(told.cycle) + swaps * len(told.base) * 2 * replay.geometry.blocks
        self._stored = _stored(replay)
        self._has_partial = bool((self._stored.mask >= FIRST_PARTIAL).any())

    def _new_memory(self) -> "_Memory":
        entries = self.replay.geometry.entries
        return _Memory(
            new_slice(entries),
            np.empty((self._most, len(ARRIVAL)), np.int32),
            np.empty(entries + 1, np.int64),
        )

    def run_pass(self, fault_map: NDArray[np.uint8], state: Integers) -> PassRecord:
        """See `ProgramRunner.run_pass`."""
        replay, memory = self.replay, self._memory.take()
        slice_, arrivals = memory.slice_, memory.arrivals
        seen = Entries(
            _read_only(slice_.unusable),
            _read_only(slice_.free),
            replay.geometry.all_blocks,
            _read_only(slice_.home),
        )
        kept = replay.program.state_in(state, replay.lengths)
        try:
            self._machine(self._told, slice_, kept, seen, fault_map, arrivals)
        except Exception as error:
            raise UserError(
                f"technique {replay.technique.name!r}: its program fails ({in_words(error)})"
            ) from error
        wrong = answers_that_are_no_integers(self._functions)
        if wrong:
            raise UserError(f"technique {replay.technique.name!r}: {wrong}")
        problem, cycle, row, entry, answer = slice_.breach.tolist()
        if problem != FINE:
            raise breach(replay, cycle, row, entry, problem, answer)
        arrivals = arrivals[: int(slice_.arrived[0])]
        record = PassRecord(slice_.counters.copy(), np.empty_like(arrivals))
        sort_by_entry(arrivals, memory.first, record.arrivals)
        self._memory.give_back(memory)
        return record

    def cell_times(self, passes: Sequence[PassRecord]) -> tuple[Integers, Integers]:
        """See `ProgramRunner.cell_times`. So many entries at a time that they stay in the cache."""
        geometry, orbit_cycles = self.replay.geometry, len(passes) * self.replay.cycles
        entries, components = geometry.entries, geometry.components
        ones = np.zeros((entries, components, BITS), dtype=np.int64)
        powered = np.zeros_like(ones)
        first = np.stack([_first_of_entries(record.arrivals, entries) for record in passes])
        in_entry, merged = np.diff(first).sum(axis=0), self._most_merged(passes)
        cycles = np.zeros(0, np.uint32 if orbit_cycles < 1 << 32 else np.int64)
        workspaces = (
            new_events(int(in_entry.max()), 1, cycles),
            new_shown(self._stored, int(in_entry.max()), merged, cycles),
            new_times(cycles),
        )
        for part in np.array_split(np.arange(entries), -(-int(in_entry.sum()) // _TOGETHER) or 1):
            begin, end = int(part[0]), int(part[-1]) + 1
            of_part = [
                record.arrivals[bounds[begin] : bounds[end]]
                for record, bounds in zip(passes, first, strict=True)
            ]
            starts = np.cumsum([0, *map(len, of_part)])[:-1]
            times_of_entries(
                self._stored,
                np.concatenate(of_part),
                first[:, begin : end + 1] - first[:, begin, None] + starts[:, None],
                self.replay.cycles,
                *workspaces,
                ones[begin:end],
                powered[begin:end],
            )
        return ones.reshape(entries, -1), powered.reshape(entries, -1)

    def _most_merged(self, passes: Sequence[PassRecord]) -> int:
        """Most writes of some lanes that come to an entry."""
        if not self._has_partial:
            return 0
        entries = self.replay.geometry.entries
        merged = np.zeros(entries, np.int64)
        for record in passes:
            partial = self._stored.mask[record.arrivals[:, WRITE_OF]] >= FIRST_PARTIAL
            merged += np.bincount(record.arrivals[partial, PLACE] // PLACES, minlength=entries)
        return int(merged.max())


def _first_of_entries(arrivals: NDArray[np.int32], entries: int) -> NDArray[np.int64]:
    """Where the arrivals of each entry begin, and the end of the last: int64[entries + 1]."""
    return np.searchsorted(arrivals[:, PLACE] // PLACES, np.arange(entries + 1))


def _stored(replay: ProgrammedReplay) -> Stored:
    """What the writes of a replay store."""
    schedule, stored_values = replay.schedule, replay.schedule.stored_values
    held = np.flatnonzero(~schedule.in_table)
    image, mask = np.zeros((2, schedule.writes), dtype=np.int64)
    planes, image[held] = planes_of(schedule, held)
    mask[:] = stored_values.mask
    mask[mask > 0] += FIRST_PARTIAL - 1
    mask[stored_values.is_record] = RECORD
    contents = contents_of(schedule, planes, [by_bit(stored_values.masks[1:])])
    geometry = replay.geometry
    words, mask_words = (
        _first_words(of_bits, geometry) for of_bits in (contents.planes, contents.masks)
    )
    return Stored(
        contents,
        image,
        mask,
        replay.technique.gates_released,
        geometry.blocks,
        words,
        mask_words,
        _block_of_part(geometry),
    )


def _first_words(planes: NDArray[np.uint64], geometry: SliceGeometry) -> NDArray[np.uint64]:
    """See `Stored.words`."""
    words = np.empty((len(planes), geometry.blocks), dtype=np.uint64)
    first_words(planes, geometry.block_components, words)
    return words


def _block_of_part(geometry: SliceGeometry) -> NDArray[np.int64]:
    """See `Stored.block_of_part`."""
    component = np.arange(PARTS) * (COMPONENTS // PARTS) % geometry.components
    whole = geometry.block_components >= COMPONENTS // PARTS
    return component // geometry.block_components if whole else np.full(PARTS, -1)


def _read_only(array: Integers) -> Integers:
    view = array.view()
    view.flags.writeable = False
    return view
