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
def borrow(runs: Any, kernel: int, fault_map: Any, homes: Any, counters: Any) -> None:
    """Place the lives of a kernel: parameters as for `redirect.place`."""
    start_passes(fault_map, homes)
    home, found, entry, founds = homes.home, homes.found, homes.entry, homes.founds
    in_entry, sets, events, own = homes.in_entry, homes.sets, homes.events, runs.own
    spilled, since, peak = homes.spilled, homes.since, homes.peak
    operations, run_of_write = runs.operations, runs.run_of
    cycle, run_end, write_starts = runs.cycle, runs.run_end, runs.write_starts
    reads_after, retry_starts, retries = runs.reads_after, runs.retry_starts, runs.retries
    first_run = runs.run_starts[kernel]
    spilled_now, borrowed = 0, 0
    for i in range(runs.operation_starts[kernel], runs.operation_starts[kernel + 1]):
        kind, run = operations[i] & (KINDS - 1), index(operations[i] // KINDS)
        mine = index(run - first_run)
        if kind == FREE:
            old = home[_ONLY, mine]
            if old >= 0:
                include(sets, EMPTY_RELIABLE, old >> 3, True)
            else:
                spill(spilled, since, peak, events, _ONLY, -1, run_end[run])
                spilled_now -= 1
        else:
            write = index(write_starts[run])
            new = _take(sets, own[run])
            home[_ONLY, mine] = new
            if new >= 0:
                visit = packed(run, write, WHOLE_ENTRY)
                move_in(found, entry, founds, in_entry, _ONLY, visit, new)
                borrowed += new >> 3 != own[run]
            else:
                events[LDS] += 1
                events[LDS_READS] += reads_after[write]
                spill(spilled, since, peak, events, _ONLY, 1, cycle[write])
                spilled_now += 1
        if spilled_now:
            for retry in range(retry_starts[i], retry_starts[i + 1]):
                write = index(retries[retry])
                run = index(run_of_write[write])
                mine = index(run - first_run)
                if home[_ONLY, mine] >= 0:
                    continue
                new = _take(sets, own[run])
                home[_ONLY, mine] = new
                if new >= 0:
                    visit = packed(run, write, WHOLE_ENTRY)
                    move_in(found, entry, founds, in_entry, _ONLY, visit, new)
                    borrowed += new >> 3 != own[run]
                    spill(spilled, since, peak, events, _ONLY, -1, cycle[write])
                    spilled_now -= 1
                else:
                    events[LDS] += 1
                    events[LDS_READS] += reads_after[write]
    events[TO_RELIABLE] = borrowed
    events[REGULAR] = runs.writes[kernel] - borrowed - events[LDS]
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
