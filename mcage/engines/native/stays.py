"""Stays: what a register does to the cells of its home while it stays there.

From the first to the last write of a stay every value is held for a time that no instance changes,
so that the sum of these times over the stay is worked out once per trace.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.native.columns import DURATION, IMAGE, MASK, Columns
from mcage.engines.native.compile import compiled
from mcage.engines.native.walk import BITS, COMPONENTS, RECORD_COMPONENTS, hold, hold_record
from mcage.engines.prepare import PreparedReplay
from mcage.techniques import Storage

SUMMED_WRITES = 6
"""Shortest stay whose sum is worked out: adding a sum costs as much as walking five writes or so,
for it is 32 times as large as what a write stores (scripts/bench_engines.py)."""


class Stays(NamedTuple):
    """Stays of a redirected replay, by their first write; arrays [writes] unless said.

    `first` is the write that begins a write's stay. `last` is the one that ends it, for the first
    write of a stay whose sum is known; any other write stands for itself alone, and so does every
    write of a short stay or of one with partial writes. `row` is the sum's row in `whole` or in
    `records` (cycles at '1' of each cell), or -1. `units` are the writes that a walk visits when
    nothing is spilled, in order.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    row: NDArray[np.int64]
    units: NDArray[np.int64]
    whole: NDArray[np.uint32]
    records: NDArray[np.uint32]


def stays(replay: PreparedReplay, schedule: Columns) -> Stays:
    """Sum up the stays of a replay."""
    first = replay.schedule.stay_first
    count = len(first)
    mask = schedule.facts[:, MASK]
    begins = first == np.arange(count)
    in_table = replay.schedule.compressed & (replay.technique.storage is Storage.TABLE)
    summable = begins & ~in_table
    summable[first[mask > 0]] = False
    summable &= (np.bincount(first, minlength=count) >= SUMMED_WRITES) | (mask < 0)
    last = np.arange(count)
    np.maximum.at(last, first, np.arange(count))
    last[~summable] = np.flatnonzero(~summable)
    several = summable & (last > np.arange(count))
    row = np.full(count, -1, dtype=np.int64)
    for chosen in (several & (mask == 0), several & (mask < 0)):
        row[chosen] = np.arange(chosen.sum())
    whole = np.zeros((int((several & (mask == 0)).sum()), COMPONENTS, BITS), dtype=np.uint32)
    records = np.zeros(
        (int((several & (mask < 0)).sum()), RECORD_COMPONENTS, BITS), dtype=np.uint32
    )
    inner = np.flatnonzero((row[first] >= 0) & (last[first] != np.arange(count)))
    _sum(schedule, inner, row[first[inner]], whole, records)
    return Stays(
        first=first,
        last=last,
        row=row,
        units=np.flatnonzero((begins | ~summable[first]) & ~in_table),
        whole=whole,
        records=records,
    )


def single_writes() -> Stays:
    """No stays: for walks in which every write stands for itself."""
    nothing = np.zeros(0, dtype=np.int64)
    return Stays(
        first=nothing,
        last=nothing,
        row=nothing,
        units=nothing,
        whole=np.zeros((0, COMPONENTS, BITS), dtype=np.uint32),
        records=np.zeros((0, RECORD_COMPONENTS, BITS), dtype=np.uint32),
    )


@compiled
def _sum(
    schedule: Columns,
    inner: NDArray[np.int64],
    row: NDArray[np.int64],
    whole: NDArray[np.uint32],
    records: NDArray[np.uint32],
) -> None:
    contents, facts = schedule.contents, schedule.facts
    for i in range(len(inner)):
        image, mask, cycles = (
            facts[inner[i], IMAGE],
            facts[inner[i], MASK],
            facts[inner[i], DURATION],
        )
        if mask == 0:
            hold(whole[row[i]], contents, image, cycles)
        else:
            hold_record(records[row[i]], contents[image, 0], ~mask, cycles)
