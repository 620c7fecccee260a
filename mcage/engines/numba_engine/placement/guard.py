"""GR-Guard as an event machine: every row has an entry of its own, and borrows one out of need.

Toca-Diaz et al. (RRCD), section VI.B, after Tan et al. A run is a life: it gives its home back with
the last read of its value. The entries that are reliable and hold no live value are one 256-bit
set; a home is always a whole entry.
"""

from typing import Any

from mcage.engines.numba_engine.jit import inlined, inner
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
    packed,
    spill,
    start_passes,
)
from mcage.engines.numba_engine.placement.residencies import FREE, KINDS

_ONLY = 0
"""The pass: no selectors rotate."""


@inner
def borrow(residencies: Any, kernel: int, fault_map: Any, homes: Any, counters: Any) -> None:
    """Place the lives of a kernel: parameters as for `redirect.place`."""
    start_passes(fault_map, homes)
    home, found, entry, founds = homes.home, homes.found, homes.entry, homes.founds
    in_entry, sets, events, own = homes.in_entry, homes.sets, homes.events, residencies.own
    spilled, since, peak = homes.spilled, homes.since, homes.peak
    operations, residency_of_write = residencies.operations, residencies.residency_of
    cycle, residency_end, write_starts = (
        residencies.cycle,
        residencies.residency_end,
        residencies.write_starts,
    )
    reads_after, retry_starts, retries = (
        residencies.reads_after,
        residencies.retry_starts,
        residencies.retries,
    )
    first_residency = residencies.residency_starts[kernel]
    spilled_now, borrowed = 0, 0
    for i in range(residencies.operation_starts[kernel], residencies.operation_starts[kernel + 1]):
        kind, residency = operations[i] & (KINDS - 1), index(operations[i] // KINDS)
        mine = index(residency - first_residency)
        if kind == FREE:
            old = home[_ONLY, mine]
            if old >= 0:
                include(sets, EMPTY_RELIABLE, old >> 3, True)
            else:
                spill(spilled, since, peak, events, _ONLY, -1, residency_end[residency])
                spilled_now -= 1
        else:
            write = index(write_starts[residency])
            new = _take(sets, own[residency])
            home[_ONLY, mine] = new
            if new >= 0:
                occupant = packed(residency, write, WHOLE_ENTRY)
                move_in(found, entry, founds, in_entry, _ONLY, occupant, new)
                borrowed += new >> 3 != own[residency]
            else:
                events[LDS] += 1
                events[LDS_READS] += reads_after[write]
                spill(spilled, since, peak, events, _ONLY, 1, cycle[write])
                spilled_now += 1
        if spilled_now:
            for retry in range(retry_starts[i], retry_starts[i + 1]):
                write = index(retries[retry])
                residency = index(residency_of_write[write])
                mine = index(residency - first_residency)
                if home[_ONLY, mine] >= 0:
                    continue
                new = _take(sets, own[residency])
                home[_ONLY, mine] = new
                if new >= 0:
                    occupant = packed(residency, write, WHOLE_ENTRY)
                    move_in(found, entry, founds, in_entry, _ONLY, occupant, new)
                    borrowed += new >> 3 != own[residency]
                    spill(spilled, since, peak, events, _ONLY, -1, cycle[write])
                    spilled_now -= 1
                else:
                    events[LDS] += 1
                    events[LDS_READS] += reads_after[write]
    events[TO_RELIABLE] = borrowed
    events[REGULAR] = residencies.writes[kernel] - borrowed - events[LDS]
    hand_in(homes, counters)


@inlined
def _take(sets: Any, own: int) -> int:
    """Take a row's own entry if it holds no live value, else the lowest such entry, as its home."""
    entry = own
    if not is_member(sets, EMPTY_RELIABLE, own):
        entry = first_member(sets, EMPTY_RELIABLE, 0)
    if entry < 0:
        return SPILLED
    exclude(sets, EMPTY_RELIABLE, entry, True)
    return entry * 8 + WHOLE_ENTRY
