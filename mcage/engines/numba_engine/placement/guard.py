"""GR-Guard as an event machine: every row has an entry of its own, and borrows another out of need.

Toca-Diaz et al. (RRCD), section VI.B, after Tan et al. A residency is the life of a value: it gives
its home back with the last read. The entries that are reliable and hold no live value are one
set of bits; a home is always a whole entry.
"""

from typing import Any

from mcage.engines.numba_engine.jit import inlined, inner
from mcage.engines.numba_engine.placement.operations import FREE, KINDS
from mcage.engines.numba_engine.placement.packing import packed, packed_late
from mcage.engines.numba_engine.placement.redirect import (
    EMPTY_RELIABLE,
    LDS,
    LDS_READS,
    REGULAR,
    SPILLED,
    TO_RELIABLE,
    WHOLE_ENTRY,
    exclude,
    first_member,
    hand_in,
    include,
    index,
    is_member,
    move_in,
    spill,
    start_passes,
)

_ONLY = 0
"""The pass: no selectors rotate."""


@inner
def borrow(
    residencies: Any, rows: Any, kernel: int, fault_map: Any, homes: Any, counters: Any
) -> None:
    """Place the lives of a kernel's values: parameters as for `redirect.place`.

    `rows` are those of the residencies: int64[residencies].
    """
    start_passes(fault_map, homes)
    home, arrivals, tally = homes.home, homes.arrivals, homes.tally
    sets, events = homes.sets, homes.tally.events
    kernels, writes, operations = residencies.kernels, residencies.writes, residencies.operations
    cycle, reads_after, write_starts = writes.cycle, writes.reads_after, residencies.write_starts
    first_residency = kernels.first_residency[kernel]
    spilled_now, borrowed = 0, 0
    for i in range(kernels.first_operation[kernel], kernels.first_operation[kernel + 1]):
        kind = operations.code[i] & (KINDS - 1)
        residency = index(operations.code[i] // KINDS)
        in_kernel = index(residency - first_residency)
        if kind == FREE:
            old = home[in_kernel, _ONLY]
            if old >= 0:
                include(sets, EMPTY_RELIABLE, old >> 3, True)
            else:
                spill(tally, _ONLY, -1, residencies.end[residency])
                spilled_now -= 1
        else:
            write = index(write_starts[residency])
            new = _take(homes, rows[residency])
            home[in_kernel, _ONLY] = new
            if new >= 0:
                move_in(arrivals, _ONLY, packed(residency, WHOLE_ENTRY), new)
                borrowed += new >> 3 != rows[residency]
            else:
                events[LDS] += 1
                events[LDS_READS] += reads_after[write]
                spill(tally, _ONLY, 1, cycle[write])
                spilled_now += 1
        if spilled_now:
            for retry in range(operations.retry_starts[i], operations.retry_starts[i + 1]):
                write = index(operations.retries[retry])
                residency = index(writes.residency[write])
                in_kernel = index(residency - first_residency)
                if home[in_kernel, _ONLY] >= 0:
                    continue
                new = _take(homes, rows[residency])
                home[in_kernel, _ONLY] = new
                if new >= 0:
                    move_in(arrivals, _ONLY, packed_late(write, WHOLE_ENTRY), new)
                    borrowed += new >> 3 != rows[residency]
                    spill(tally, _ONLY, -1, cycle[write])
                    spilled_now -= 1
                else:
                    events[LDS] += 1
                    events[LDS_READS] += reads_after[write]
    events[TO_RELIABLE] = borrowed
    events[REGULAR] = kernels.writes[kernel] - borrowed - events[LDS]
    hand_in(tally, counters)


@inlined
def _take(homes: Any, row: int) -> int:
    """Take the entry of a row if it holds no live value, else the lowest that holds none."""
    sets, entry = homes.sets, row
    if not is_member(sets, EMPTY_RELIABLE, row):
        entry = first_member(homes, EMPTY_RELIABLE, 0)
    if entry < 0:
        return SPILLED
    exclude(sets, EMPTY_RELIABLE, entry, True)
    return entry * 8 + WHOLE_ENTRY
