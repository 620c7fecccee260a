"""Redirection in the reference engine: a home for every write, in many slices at once.

The event machines of RRCD (Toca-Diaz et al., section IV) and GR-Guard (section VI.B), one event
after the other. A lane is one slice with one starting entry of the selectors' scan; every array has
lanes first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SLICE
from mcage.replays.outcome import Counters
from mcage.replays.prepare import RedirectedReplay
from mcage.replays.schedule import DEATH
from mcage.traces.model import ALLOC, RELEASE

NOWHERE, SPILLED, IN_TABLE = -1, -2, -3
"""In place of an entry: not written yet, in the LDS partition, in the compression table."""

_NO_CANDIDATE = 3 * SLICE.entries


@dataclass(frozen=True)
class Homes:
    """Where each write of one pass lands.

    Attributes
    ----------
    entry : int16[lanes, writes]
        Physical entry, or `SPILLED`, or `IN_TABLE`.
    block : int8[lanes, writes]
        Block of the entry that a compressed value occupies; 0 for an uncompressed one.
    chosen : bool[lanes, writes]
        The home was chosen anew at this write, and is not the entry that the row has of its own.
    peak_spilled_rows : int64[lanes]
        Largest number of rows spilled at once.
    """

    entry: NDArray[np.int16]
    block: NDArray[np.int8]
    chosen: NDArray[np.bool_]
    peak_spilled_rows: NDArray[np.int64]


class _Slices:
    """Free blocks, homes of the rows and scan of the selectors, while the events go by.

    A home is an entry and a set of its blocks: one for a compressed value, else all four.
    """

    def __init__(self, fault_maps: NDArray[np.uint8], scan_start: NDArray[np.int64]) -> None:
        lanes = len(fault_maps)
        self.reliable = fault_maps == 0
        self.free = (fault_maps[:, :, None] >> np.arange(SLICE.blocks) & 1) == 0
        self.entry = np.full((lanes, SLICE.entries), NOWHERE, dtype=np.int16)
        self.blocks = np.zeros((lanes, SLICE.entries, SLICE.blocks), dtype=bool)
        self.scan_start = scan_start
        self._measure_distances()

    def advance_scan(self) -> None:
        """Start the next scans one entry further, wrapping."""
        self.scan_start = (self.scan_start + 1) % SLICE.entries
        self._measure_distances()

    def _measure_distances(self) -> None:
        entries = np.arange(SLICE.entries)
        self.distance = (entries - self.scan_start[:, None]) % SLICE.entries

    def spilled_rows(self) -> NDArray[np.int64]:
        """Rows in the LDS partition: int64[lanes]."""
        return np.asarray(np.count_nonzero(self.entry == SPILLED, axis=1))

    def vacate(self, lanes: NDArray[np.int64], row: int) -> None:
        """Free the home of a row and forget it."""
        entry = self.entry[lanes, row]
        inside = entry >= 0
        self.free[lanes[inside], entry[inside]] |= self.blocks[lanes[inside], row]
        self.entry[lanes, row] = NOWHERE

    def choose(self, lanes: NDArray[np.int64], row: int, compressed: bool) -> None:
        """Give a row without a home the best free place, or spill it."""
        free, reliable = self.free[lanes], self.reliable[lanes]
        empty_reliable = free.all(axis=2)  # a faulty entry has a block that is never free
        if compressed:
            candidate = free.any(axis=2)
            preference = np.where(reliable, np.where(empty_reliable, 2, 1), 0)
        else:
            candidate = empty_reliable
            preference = np.zeros_like(candidate, dtype=np.int64)
        order = preference * SLICE.entries + self.distance[lanes]
        order[~candidate] = _NO_CANDIDATE
        entry = order.argmin(axis=1)
        found = candidate.any(axis=1)
        self._settle(lanes, row, np.where(found, entry, SPILLED), compressed)

    def choose_own(self, lanes: NDArray[np.int64], row: int) -> None:
        """Give a row without a home its own entry, else the lowest free one, or spill it."""
        candidate = self.free[lanes].all(axis=2)
        entry = np.where(candidate[:, row], row, candidate.argmax(axis=1))
        self._settle(lanes, row, np.where(candidate.any(axis=1), entry, SPILLED), False)

    def _settle(
        self, lanes: NDArray[np.int64], row: int, entry: NDArray[np.int64], compressed: bool
    ) -> None:
        self.entry[lanes, row] = entry
        found = entry != SPILLED
        lanes, entry = lanes[found], entry[found]
        blocks = self.free[lanes, entry]
        if compressed:
            lowest = blocks.argmax(axis=1)
            blocks = np.arange(SLICE.blocks) == lowest[:, None]
        self.free[lanes, entry] &= ~blocks
        self.blocks[lanes, row] = blocks


def place_writes(replay: RedirectedReplay, fault_maps: NDArray[np.uint8]) -> Homes:
    """Find the home of every write of a redirecting technique.

    Parameters
    ----------
    replay : RedirectedReplay
        A redirecting technique on a trace.
    fault_maps : uint8[instances, 256]
        Bit b set = block b is unusable. Lane i * passes + p is instance i in pass p.
    """
    schedule = replay.schedule
    rotating, borrows = replay.technique.rotating_selectors, replay.technique.borrows
    to_table = schedule.in_table
    begins_stay = schedule.residency_first == np.arange(schedule.writes)
    slices = _Slices(
        np.repeat(fault_maps, replay.passes, axis=0),
        np.tile(replay.selector_starts, len(fault_maps)),
    )
    lanes = np.arange(len(fault_maps) * replay.passes)
    shape = (len(lanes), schedule.writes)
    homes = Homes(
        entry=np.empty(shape, dtype=np.int16),
        block=np.zeros(shape, dtype=np.int8),
        chosen=np.zeros(shape, dtype=bool),
        peak_spilled_rows=np.zeros(len(lanes), dtype=np.int64),
    )
    for kind, which in zip(schedule.op_kind.tolist(), schedule.op.tolist(), strict=True):
        if kind == ALLOC:
            if rotating:
                slices.advance_scan()
            continue
        if kind == RELEASE:
            base, size = schedule.windows.base[which], schedule.windows.size[which]
            for row in range(base, base + size):
                slices.vacate(lanes, row)
            continue
        row = schedule.row[which]
        if kind == DEATH:
            slices.vacate(lanes, row)
            continue
        if to_table[which]:
            slices.vacate(lanes, row)
            slices.entry[:, row] = IN_TABLE
        else:
            seeking = lanes
            if not begins_stay[which]:
                seeking = np.flatnonzero(slices.entry[:, row] == SPILLED)
            if len(seeking):
                slices.vacate(seeking, row)
                if borrows:
                    slices.choose_own(seeking, row)
                else:
                    slices.choose(seeking, row, bool(schedule.compressed[which]))
                own = borrows & (slices.entry[seeking, row] == row)
                homes.chosen[seeking, which] = ~own
                if (slices.entry[seeking, row] == SPILLED).any():
                    np.maximum(
                        homes.peak_spilled_rows,
                        slices.spilled_rows(),
                        out=homes.peak_spilled_rows,
                    )
            if schedule.compressed[which]:
                homes.block[:, which] = slices.blocks[:, row].argmax(axis=1)
        homes.entry[:, which] = slices.entry[:, row]
    return homes


def count_writes(replay: RedirectedReplay, fault_maps: NDArray[np.uint8], homes: Homes) -> Counters:
    """Event counts that follow from the homes of all writes, summed over the passes.

    Parameters
    ----------
    replay, fault_maps
        As for `place_writes`, which found `homes`.
    """
    schedule = replay.schedule
    lane = np.arange(len(homes.entry))[:, None]
    faulty = np.repeat(fault_maps != 0, replay.passes, axis=0)
    inside, spilled = homes.entry >= 0, homes.entry == SPILLED
    redirected = inside & homes.chosen
    to_faulty = redirected & faulty[lane, np.maximum(homes.entry, 0)]
    wakes = redirected & schedule.was_compressed & ~schedule.compressed
    if not replay.technique.gates_empty:
        wakes[:] = False

    def by_instance(of_lanes: NDArray[np.int64]) -> NDArray[np.int64]:
        return of_lanes.reshape(len(fault_maps), replay.passes)

    def total(events: NDArray[np.bool_], each: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(by_instance(events @ each).sum(axis=1))

    once = np.ones(schedule.writes, dtype=np.int64)
    return Counters(
        passes=replay.passes,
        regular=total(~redirected & ~spilled, once),
        to_reliable=total(redirected & ~to_faulty, once),
        to_faulty=total(to_faulty, once),
        lds=total(spilled, once),
        lds_reads=total(spilled, schedule.reads_after),
        peak_spilled_rows=by_instance(homes.peak_spilled_rows).max(axis=1),
        spilled_row_cycles=total(spilled, schedule.end_cycle - schedule.cycle),
        wakeups=total(wakes, once),
    )
