"""What selectors do in the course of a pass, in order, whatever the fault map is."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.replays.schedule import DEATH, Schedule
from mcage.traces.model import ALLOC, RELEASE, WRITE

KINDS = 4
ADVANCE, ACQUIRE, ACQUIRE_BLOCK, FREE = range(KINDS)
"""Kinds of operation: the selectors rotate on; a residency needs an entry, or a block of an entry;
the home of a residency is given back."""


class Operations(NamedTuple):
    """Operations of the selectors in order, and what looks for a home between them.

    Attributes
    ----------
    code : uint32[operations]
        4 x residency + kind of operation.
    retry_starts : int64[operations + 1]
        Operation i is followed by the writes ``retries[retry_starts[i]:retry_starts[i + 1]]``.
    retries : int32[...]
        Later writes of residencies. A residency that lives in the LDS looks for a home at each.
    """

    code: NDArray[np.uint32]
    retry_starts: NDArray[np.int64]
    retries: NDArray[np.integer]


def operations_of(
    schedule: Schedule, held: NDArray[np.int64], residency: NDArray[np.int64]
) -> Operations:
    """Return the operations of a kernel; `retry_starts` without its last item.

    Parameters
    ----------
    schedule : Schedule
        Schedule of a technique that redirects; there are no operations under any other.
    held : int64[n]
        Writes that go to an entry, residency after residency.
    residency : int64[n]
        Residency of each of them.
    """
    technique = schedule.technique
    if not technique.redirects:
        nothing = np.zeros(0, dtype=np.int64)
        return Operations(nothing.astype(np.uint32), nothing, nothing)
    # When things happen: at event e homes are given back first (2 e), then looked for (2 e + 1).
    event_of_write = np.flatnonzero(schedule.op_kind == WRITE)
    rotations = np.flatnonzero((schedule.op_kind == ALLOC) & technique.rotating_selectors)
    position = np.empty(schedule.writes, dtype=np.int64)
    position[held] = np.arange(len(held))
    opens = held[np.flatnonzero(np.diff(residency, prepend=-1))]
    if technique.borrows:
        freed = _deaths(schedule)
    else:
        freed = _releases(schedule)[schedule.window[opens]]
        follower, before = _changes(schedule)
        in_entry = np.isin(before, opens)
        freed[residency[position[before[in_entry]]]] = event_of_write[follower[in_entry]]
    residencies = np.arange(len(opens))
    in_block = schedule.stored_values.is_record[opens]
    when = np.concatenate([2 * rotations + 1, 2 * event_of_write[opens] + 1, 2 * freed])
    kind = np.concatenate(
        [
            np.full(len(rotations), ADVANCE),
            np.where(in_block, ACQUIRE_BLOCK, ACQUIRE),
            np.full(len(residencies), FREE),
        ]
    )
    whose = np.concatenate([np.zeros(len(rotations), dtype=np.int64), residencies, residencies])
    order = np.argsort(when, kind="stable")
    later = np.setdiff1d(held, opens)
    return Operations(
        (KINDS * whose + kind)[order].astype(np.uint32),
        np.searchsorted(2 * event_of_write[later], when[order]),
        position[later],
    )


def _deaths(schedule: Schedule) -> NDArray[np.int64]:
    """Event with which each life of a value is over; lives are numbered as residencies."""
    events = np.flatnonzero(schedule.op_kind == DEATH)
    return events[np.argsort(schedule.op[events])]


def _releases(schedule: Schedule) -> NDArray[np.int64]:
    """Event with which each window is released."""
    events = np.flatnonzero(schedule.op_kind == RELEASE)
    event_of_window = np.empty(len(schedule.windows.size), dtype=np.int64)
    event_of_window[schedule.op[events]] = events
    return event_of_window


def _changes(schedule: Schedule) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Writes that begin a residency, and the first write of the register's residency before."""
    begins = np.flatnonzero(schedule.residency_first == np.arange(schedule.writes))
    key = (schedule.window * schedule.geometry.entries + schedule.reg)[begins]
    order = begins[np.argsort(key, kind="stable")]
    same = np.flatnonzero(~schedule.first[order])
    return order[same], order[same - 1]
