"""Lives of values: from a write to the last read before the register is written anew as a whole.

What follows from the trace alone and a compiler would mark in the instructions. A write under a
partial EXEC mask leaves the other lanes' values alive, so that it goes on with the life it finds.
Between its last read and its next write a register holds nothing that anybody needs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.traces.model import READ, WRITE, Trace


@dataclass(frozen=True)
class LiveRanges:
    """Which writes share a life, and when it is over; arrays int64[writes] in trace order.

    Attributes
    ----------
    first : int64[writes]
        First write of the life. A write that nobody reads is a life by itself, over at once.
    end_event : int64[writes]
        Event of the trace that replaces the value, or reads it for the last time; the write itself
        if nobody reads it.
    death_event : int64[writes]
        Event with which the whole life is over: its last read.
    """

    first: NDArray[np.int64]
    end_event: NDArray[np.int64]
    death_event: NDArray[np.int64]


def live_ranges(trace: Trace, window_of_event: NDArray[np.int64]) -> LiveRanges:
    """Follow every register from its writes to their last reads.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    window_of_event : int64[events]
        Window that each event belongs to: a register's life ends with its window.
    """
    accesses = np.flatnonzero((trace.kind == WRITE) | (trace.kind == READ))
    register = window_of_event[accesses] * trace.geometry.entries + trace.reg[accesses]
    order = np.argsort(register, kind="stable")
    event, register = accesses[order], register[order]
    is_write = trace.kind[event] == WRITE
    place = np.arange(len(event))

    # A range goes from a write of a whole register, or its first write, to the next such write.
    opens = is_write & (trace.exec_mask[event] == trace.geometry.all_lanes)
    opens |= _first_of_each(register, is_write)
    starts = opens | (np.diff(register, prepend=-1) != 0)  # or reads of what was never written
    begin = np.maximum.accumulate(np.where(starts, place, 0))
    last_read = _last_of_each(begin, ~is_write)
    next_write = _next_of_each(begin, is_write)

    read_later = last_read > place
    first = np.where(read_later, begin, place)
    death = np.where(read_later, last_read, place)
    end = np.minimum(death, next_write)
    number = np.cumsum(trace.kind == WRITE) - 1
    lives = LiveRanges(*(np.empty(trace.writes, dtype=np.int64) for _ in range(3)))
    write = number[event[is_write]]
    lives.first[write] = number[event[first[is_write]]]
    lives.end_event[write] = event[end[is_write]]
    lives.death_event[write] = event[death[is_write]]
    return lives


def _first_of_each(group: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The first chosen place of every group; groups are contiguous."""
    places = np.flatnonzero(chosen)
    first = np.zeros(len(group), dtype=bool)
    first[places[np.diff(group[places], prepend=-1) != 0]] = True
    return first


def _last_of_each(group: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Last chosen place of the group that each place belongs to, or -1."""
    last = np.full(len(group), -1)
    np.maximum.at(last, group[chosen], np.flatnonzero(chosen))
    return last[group]


def _next_of_each(group: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Next chosen place after each one in its group, or the number of places."""
    places = np.flatnonzero(chosen)
    following = np.append(places, len(group))
    after = following[np.searchsorted(places, np.arange(len(group)), side="right")]
    same = group[np.minimum(after, len(group) - 1)] == group
    return np.where(same & (after < len(group)), after, len(group))
