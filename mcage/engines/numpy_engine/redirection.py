"""Redirection in the reference engine: a home for every write, in many slices at once.

The event machines of RRCD (Toca-Diaz et al., section IV) and GR-Guard (section VI.B), event after
event. A replica is an instance in a pass, that is with a starting entry of the selectors' scan;
every array has replicas first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import MOST_BLOCKS, Booleans, Bytes, Integers, SliceGeometry
from mcage.replays.outcome import Counters
from mcage.replays.prepare import RedirectedReplay
from mcage.replays.schedule import DEATH
from mcage.traces.model import ALLOC, RELEASE

NOWHERE, IN_LDS, IN_TABLE, IN_MEMORY = -1, -2, -3, -4
"""In place of an entry: not written yet, spilled to the LDS, in the compression table, spilled to
memory since the LDS is full."""

_LOWEST_BLOCK = np.array([0, *(((i & -i).bit_length() - 1) for i in range(1, 1 << MOST_BLOCKS))])
"""Number of the lowest block in a set; 0 for the empty set."""


@dataclass(frozen=True)
class Homes:
    """Where each write of one pass lands.

    Attributes
    ----------
    entry : int16[replicas, writes]
        Physical entry, or `IN_LDS`, `IN_MEMORY` or `IN_TABLE`.
    block : int8[replicas, writes]
        Block of the entry that a compressed value occupies; 0 for an uncompressed value.
    chosen : bool[replicas, writes]
        The home was chosen anew at this write, and is not the entry with the number of the row.
    peak_spilled_rows : int64[replicas]
        Largest number of rows spilled at once.
    """

    entry: NDArray[np.int16]
    block: NDArray[np.int8]
    chosen: Booleans
    peak_spilled_rows: Integers


class _Slices:
    """Free blocks, homes of the rows and scan of the selectors, while the events go by.

    A home is an entry and a set of its blocks, block b as bit b: a block for a compressed value,
    else all of them.
    """

    def __init__(
        self, geometry: SliceGeometry, fault_maps: Bytes, scan_start: Integers, lds_rows: int
    ) -> None:
        self.lds_rows = lds_rows
        self.entries, self.all_blocks = geometry.entries, np.uint8(geometry.all_blocks)
        self.reliable = fault_maps == 0
        self.free = self.all_blocks & ~fault_maps
        self.entry = np.full(fault_maps.shape, NOWHERE, dtype=np.int16)
        self.blocks = np.zeros(fault_maps.shape, dtype=np.uint8)
        self.scan_start = scan_start
        self._measure_distances()

    def advance_scan(self) -> None:
        """Start the next scans one entry further, wrapping."""
        self.scan_start = (self.scan_start + 1) % self.entries
        self._measure_distances()

    def _measure_distances(self) -> None:
        distance = (np.arange(self.entries) - self.scan_start[:, None]) % self.entries
        self.distance = distance.astype(np.int16)

    def spilled_rows(self) -> Integers:
        """Rows in the LDS and in memory: int64[replicas]."""
        return np.asarray(np.count_nonzero(_are_spilled(self.entry), axis=1))

    def vacate(self, replicas: Integers, row: int) -> None:
        """Free the home of a row and forget it."""
        entry = self.entry[replicas, row]
        inside = entry >= 0
        self.free[replicas[inside], entry[inside]] |= self.blocks[replicas[inside], row]
        self.entry[replicas, row] = NOWHERE

    def choose(self, replicas: Integers, row: int, compressed: bool) -> None:
        """Give a row without a home the best free place, or spill it."""
        free, reliable = self.free[replicas], self.reliable[replicas]
        empty_reliable = free == self.all_blocks  # a faulty entry has a block that is never free
        if compressed:
            candidate = free != 0
            preference = reliable.astype(np.int16) + empty_reliable
            order = preference * np.int16(self.entries) + self.distance[replicas]
        else:
            candidate = empty_reliable
            order = self.distance[replicas]
        order[~candidate] = 3 * self.entries
        entry = order.argmin(axis=1)
        settled = candidate.any(axis=1)
        self._settle(replicas, row, np.where(settled, entry, NOWHERE), compressed)

    def borrow(self, replicas: Integers, row: int) -> None:
        """Give a row without a home the entry of its number, else the lowest free, or spill it."""
        candidate = self.free[replicas] == self.all_blocks
        entry = np.where(candidate[:, row], row, candidate.argmax(axis=1))
        self._settle(replicas, row, np.where(candidate.any(axis=1), entry, NOWHERE), False)

    def _settle(self, replicas: Integers, row: int, entry: Integers, compressed: bool) -> None:
        settled = entry != NOWHERE
        in_lds = np.count_nonzero(self.entry[replicas] == IN_LDS, axis=1)
        spilled_to = np.where(in_lds < self.lds_rows, IN_LDS, IN_MEMORY)
        self.entry[replicas, row] = np.where(settled, entry, spilled_to)
        replicas, entry = replicas[settled], entry[settled]
        blocks = self.free[replicas, entry]
        if compressed:
            blocks &= -blocks  # the lowest alone
        self.free[replicas, entry] &= ~blocks
        self.blocks[replicas, row] = blocks


def _are_spilled(entry: NDArray[np.int16]) -> Booleans:
    spilled: Booleans = (entry == IN_LDS) | (entry == IN_MEMORY)
    return spilled


def place_writes(replay: RedirectedReplay, fault_maps: Bytes) -> Homes:
    """Find the home of every write of a redirecting technique.

    Parameters
    ----------
    replay : RedirectedReplay
        A redirecting technique on a trace.
    fault_maps : uint8[instances, entries]
        Bit b set = block b is unusable. Replica i * passes + p is instance i in pass p.
    """
    schedule = replay.schedule
    rotating, borrows = replay.technique.rotating_selectors, replay.technique.borrows
    to_table = schedule.in_table
    begins_residency = schedule.residency_first == np.arange(schedule.writes)
    slices = _Slices(
        replay.geometry,
        np.repeat(fault_maps, replay.passes, axis=0),
        np.tile(replay.selector_starts, len(fault_maps)),
        replay.lds_rows,
    )
    replicas = np.arange(len(fault_maps) * replay.passes)
    shape = (len(replicas), schedule.writes)
    homes = Homes(
        entry=np.empty(shape, dtype=np.int16),
        block=np.zeros(shape, dtype=np.int8),
        chosen=np.zeros(shape, dtype=bool),
        peak_spilled_rows=np.zeros(len(replicas), dtype=np.int64),
    )
    for kind, which in zip(schedule.op_kind.tolist(), schedule.op.tolist(), strict=True):
        if kind == ALLOC:
            if rotating:
                slices.advance_scan()
            continue
        if kind == RELEASE:
            base, size = schedule.windows.base[which], schedule.windows.size[which]
            for row in range(base, base + size):
                slices.vacate(replicas, row)
            continue
        row = schedule.row[which]
        if kind == DEATH:
            slices.vacate(replicas, row)
            continue
        if to_table[which]:
            slices.vacate(replicas, row)
            slices.entry[:, row] = IN_TABLE
        else:
            seeking = replicas
            if not begins_residency[which]:
                seeking = np.flatnonzero(_are_spilled(slices.entry[:, row]))
            if len(seeking):
                slices.vacate(seeking, row)
                if borrows:
                    slices.borrow(seeking, row)
                else:
                    slices.choose(seeking, row, bool(schedule.compressed[which]))
                in_own_entry = borrows & (slices.entry[seeking, row] == row)
                homes.chosen[seeking, which] = ~in_own_entry
                if _are_spilled(slices.entry[seeking, row]).any():
                    np.maximum(
                        homes.peak_spilled_rows, slices.spilled_rows(), out=homes.peak_spilled_rows
                    )
            if schedule.compressed[which]:
                homes.block[:, which] = _LOWEST_BLOCK[slices.blocks[:, row]]
        homes.entry[:, which] = slices.entry[:, row]
    return homes


def count_writes(replay: RedirectedReplay, fault_maps: Bytes, homes: Homes) -> Counters:
    """Event counts that follow from the homes of all writes, summed over the passes.

    Parameters
    ----------
    replay, fault_maps
        As for `place_writes`, which returned `homes`.
    """
    schedule = replay.schedule
    replica = np.arange(len(homes.entry))[:, None]
    faulty = np.repeat(fault_maps != 0, replay.passes, axis=0)
    inside, spilled = homes.entry >= 0, _are_spilled(homes.entry)
    in_memory = homes.entry == IN_MEMORY
    redirected = inside & homes.chosen
    to_faulty = redirected & faulty[replica, np.maximum(homes.entry, 0)]
    wakes = redirected & schedule.was_compressed & ~schedule.compressed
    if not replay.technique.gates_empty:
        wakes[:] = False

    def by_instance(of_replicas: Integers) -> Integers:
        return of_replicas.reshape(len(fault_maps), replay.passes)

    def total(events: Booleans, each: Integers) -> Integers:
        return np.asarray(by_instance(events @ each).sum(axis=1))

    write_once = np.ones(schedule.writes, dtype=np.int64)
    return Counters(
        passes=replay.passes,
        regular=total(~redirected & ~spilled, write_once),
        to_reliable=total(redirected & ~to_faulty, write_once),
        to_faulty=total(to_faulty, write_once),
        lds=total(spilled, write_once),
        lds_reads=total(spilled, schedule.reads_after),
        peak_spilled_rows=by_instance(homes.peak_spilled_rows).max(axis=1),
        spilled_row_cycles=total(spilled, schedule.end_cycle - schedule.cycle),
        wakeups=total(wakes, write_once),
        memory=total(in_memory, write_once),
        memory_reads=total(in_memory, schedule.reads_after),
    )
