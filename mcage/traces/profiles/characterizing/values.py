"""Lives of values: what a register of a window holds, from a write to the next."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.traces.model import READ, WRITE, Trace
from mcage.traces.transforms import last_accesses

_REGISTERS = 256


@dataclass(frozen=True, eq=False)
class Values:
    """Values of all registers of all windows, register by register, in the order of time.

    What a register holds before its first write counts as its value 0. [values] each.

    Attributes
    ----------
    window, register, number : int64
        Window, register in it, number of the value.
    writes : int64
        Writes of the register in the window.
    begin, end : int64
        Cycles of its write, or of the allocation, and of the next write, or of the window's last
        access.
    row : int64
        Row of the trace's values; -1 of value 0.
    mask : uint64
        Lanes of the write; 0 of value 0.
    reads, last_read : int64
        Reads, and the cycle of the last one, -1 without.
    read_value, read_cycle : int64[reads]
        Value and cycle of each read.
    """

    window: NDArray[np.int64]
    register: NDArray[np.int64]
    number: NDArray[np.int64]
    writes: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    row: NDArray[np.int64]
    mask: NDArray[np.uint64]
    reads: NDArray[np.int64]
    last_read: NDArray[np.int64]
    read_value: NDArray[np.int64]
    read_cycle: NDArray[np.int64]

    @property
    def again(self) -> NDArray[np.int64]:
        """Values that were written over others, not the first of a register in its window."""
        return np.flatnonzero(self.number > 1)


def values_of(trace: Trace) -> Values:
    """Follow the values of a valid trace."""
    sizes = trace.reg[trace.alloc_event].astype(np.int64)
    windows = np.repeat(np.arange(trace.windows), sizes)
    first = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    opening = windows * _REGISTERS + np.arange(len(windows)) - np.repeat(first, sizes)
    accesses = np.flatnonzero(trace.kind >= WRITE)
    of_accesses = trace.window_of_event()[accesses] * _REGISTERS + trace.reg[accesses]
    order = np.argsort(np.concatenate((opening, of_accesses)), kind="stable")
    place = np.concatenate((opening, of_accesses))[order]
    allocated = trace.cycle[trace.alloc_event].astype(np.int64)
    cycle = np.concatenate((allocated[windows], trace.cycle[accesses]))[order]
    event = np.concatenate((np.full(len(opening), -1), accesses))[order]
    is_read = (event >= 0) & (trace.kind[event] == READ)

    begins = np.flatnonzero(~is_read)
    value_of = np.cumsum(~is_read) - 1
    place, begin, event = place[begins], cycle[begins], event[begins]
    starts = np.flatnonzero(event < 0)
    of_register = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(event)))
    number = np.arange(len(event)) - starts[of_register]
    writes = np.diff(starts, append=len(event))[of_register] - 1
    window = place // _REGISTERS
    final = number == writes
    end = np.where(final, last_accesses(trace)[window], np.append(begin[1:], 0))
    last_read = np.full(len(event), -1)
    np.maximum.at(last_read, value_of[is_read], cycle[is_read])
    return Values(
        window=window,
        register=place % _REGISTERS,
        number=number,
        writes=writes,
        begin=begin,
        end=end,
        row=np.where(event < 0, -1, trace.value[event]).astype(np.int64),
        mask=np.where(event < 0, np.uint64(0), trace.exec_mask[event]),
        reads=np.bincount(value_of[is_read], minlength=len(event)),
        last_read=last_read,
        read_value=value_of[is_read],
        read_cycle=cycle[is_read],
    )
