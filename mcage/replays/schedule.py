"""What a replay needs of a trace and no instance changes: computed once per trace and technique.

A write's compression state, the time at which its register is written next, what it stores and in
which cells: none of that depends on where the register lives, hence not on the fault map.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SliceGeometry
from mcage.replays.live_ranges import live_ranges
from mcage.replays.stored_values import StoredValues, stored_values_of
from mcage.replays.windows import Windows
from mcage.replays.writes import writes_of
from mcage.techniques import Storage, Technique, refuse_policy
from mcage.traces.model import READ, Trace
from mcage.traces.patterns import classify, compressible, first_block_fits, wc_bytes

DEATH = 4
"""Kind of operation beside the events of a trace: a value has been read for the last time."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Instance-independent part of a replay. Arrays of writes are in trace order.

    Attributes
    ----------
    cycle : int64[writes]
        When the write happens.
    end_cycle : int64[writes]
        When its value is replaced by the next write of the register, or its window is released;
        under guard placement also when it is dead: with its last read.
    window, reg, row : int64[writes]
        Window, register index in it, and row (window base + index).
    residency_first : int64[writes]
        First write of the residency: the writes of a register in a row that keep its compression
        state and hence its home, unless it was spilled. Under guard placement it is a life
        (`mcage.replays.live_ranges`): nothing is left of its value when it is over.
    first, compressed, was_compressed, divergent, mispredicted : bool[writes]
        First write of its register in the window; stored compressed; found the register stored
        compressed; under a partial EXEC mask; fits in the first block but not as a whole.
    reads_after : int64[writes]
        Reads of the register until its next write or release.
    op_kind, op : uint8[ops], int32[ops]
        Allocations, writes and releases in trace order (constants of `mcage.traces.model`), with
        the index of the window or write. Under guard placement also each `DEATH`, right after the
        last read, with the first write of the life.
    stored_values : StoredValues
        What each write stores, and in which cells.
    compressible_writes : int
        Writes after which the register's content has a compressible pattern.
    """

    trace: Trace
    technique: Technique
    delta_limit: int | None
    cycles: int
    windows: Windows
    cycle: NDArray[np.int64]
    end_cycle: NDArray[np.int64]
    window: NDArray[np.int64]
    reg: NDArray[np.int64]
    row: NDArray[np.int64]
    residency_first: NDArray[np.int64]
    first: NDArray[np.bool_]
    compressed: NDArray[np.bool_]
    was_compressed: NDArray[np.bool_]
    divergent: NDArray[np.bool_]
    mispredicted: NDArray[np.bool_]
    reads_after: NDArray[np.int64]
    op_kind: NDArray[np.uint8]
    op: NDArray[np.int32]
    stored_values: StoredValues
    compressible_writes: int
    reads: int

    @property
    def geometry(self) -> SliceGeometry:
        """The slice."""
        return self.trace.geometry

    @property
    def writes(self) -> int:
        """Register writes of one pass."""
        return len(self.cycle)

    @property
    def in_table(self) -> NDArray[np.bool_]:
        """Writes whose values go to the compression table, and to no entry: bool[writes]."""
        return self.compressed & self.technique.stores_in_table

    @property
    def writes_whole(self) -> bool:
        """Whether every entry that is written is overwritten as a whole."""
        match self.technique.storage:
            case Storage.PLAIN | Storage.TABLE:
                return bool((self.stored_values.mask[~self.compressed] == 0).all())
            case Storage.INLINE | Storage.BLOCK:
                return False
            case unknown:
                refuse_policy(unknown, "Schedule.writes_whole")

    @property
    def mov_writes(self) -> int:
        """Divergent writes that find their register compressed: one extra MOV each."""
        return int((self.divergent & self.was_compressed).sum())

    @property
    def mispredicted_writes(self) -> int:
        """Wrong speculations of a technique that redirects by the first block; others have none."""
        return int(self.mispredicted.sum()) if self.technique.redirects else 0


def make_schedule(trace: Trace, technique: Technique, delta_limit: int | None) -> Schedule:
    """Work out everything about a replay of ``trace`` that holds for every instance.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    technique : Technique
        Its storage policy decides what is compressed and what a write stores.
    delta_limit : int or None
        Largest delta of a compressible value: 64 as published, or None (models' section F).
    """
    writes = writes_of(trace)
    value, divergent, order = writes.value, writes.divergent, writes.by_register
    pattern_fits = compressible(classify(trace.values), delta_limit)[value]
    match technique.storage:
        case Storage.PLAIN:
            compressed = np.zeros(len(value), dtype=bool)
        case Storage.INLINE:
            compressed = ~divergent & (wc_bytes(trace.values)[value] < trace.geometry.entry_bytes)
        case Storage.TABLE | Storage.BLOCK:
            compressed = ~divergent & pattern_fits
        case unknown:
            refuse_policy(unknown, "make_schedule")
    was_compressed = compressed[writes.previous] & ~writes.first

    begins = (writes.first | (compressed != was_compressed))[order]
    residency_first = np.empty(len(value), dtype=np.int64)
    residency_first[order] = order[begins][np.cumsum(begins) - 1]

    mispredicted = np.zeros(len(value), dtype=bool)
    if technique.compresses:
        guessed = first_block_fits(trace.values, trace.geometry, delta_limit)[value]
        mispredicted = guessed & ~pattern_fits & ~divergent
    end_cycle, op_kind, op = writes.end_cycle, writes.op_kind, writes.op
    if technique.borrows:
        lives = live_ranges(trace, trace.window_of_event())
        residency_first, end_cycle = lives.first, trace.cycle[lives.end_event].astype(np.int64)
        begun = np.flatnonzero(residency_first == np.arange(len(value)))
        op_kind, op = _with_deaths(trace, op_kind, op, lives.death_event[begun], begun)
    stored_values = stored_values_of(
        trace.values, trace.geometry, value, writes.lanes, compressed, technique.storage
    )
    return Schedule(
        trace=trace,
        technique=technique,
        delta_limit=delta_limit,
        cycles=int(trace.cycles),
        windows=writes.windows,
        cycle=writes.cycle,
        end_cycle=end_cycle,
        window=writes.window,
        reg=writes.reg,
        row=writes.row,
        residency_first=residency_first,
        first=writes.first,
        compressed=compressed,
        was_compressed=was_compressed,
        divergent=divergent,
        mispredicted=mispredicted,
        reads_after=writes.reads_after,
        op_kind=op_kind,
        op=op,
        stored_values=stored_values,
        compressible_writes=int(pattern_fits.sum()),
        reads=trace.reads,
    )


def _with_deaths(
    trace: Trace,
    op_kind: NDArray[np.uint8],
    op: NDArray[np.int32],
    death_event: NDArray[np.int64],
    life: NDArray[np.int64],
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Operations, and the death of each life right after the event that it ends with."""
    event = np.concatenate([np.flatnonzero(trace.kind != READ), death_event])
    order = np.argsort(event, kind="stable")  # a write comes before its own death
    kind = np.concatenate([op_kind, np.full(len(life), DEATH, dtype=np.uint8)])
    return kind[order], np.concatenate([op, life.astype(np.int32)])[order]
