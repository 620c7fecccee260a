"""Writes of a trace and the operations around them, as they are under every technique.

They are worked out once per trace, and the schedules of all techniques share the arrays.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SliceGeometry
from mcage.replays.windows import Windows, windows_of
from mcage.traces.model import READ, WRITE, Trace


@dataclass(frozen=True, eq=False)
class Writes:
    """What the writes of a trace are; arrays of writes are in trace order, and nobody changes them.

    Attributes
    ----------
    windows : Windows
        The windows of the trace.
    cycle, end_cycle : int64[writes]
        When the write happens, and when the next write of the register replaces its value or its
        window is released.
    window, reg, row : int64[writes]
        Window, register index in it, and row (window base + index).
    value : int64[writes]
        Row of the trace's values that the register holds after the write.
    first, divergent : bool[writes]
        First write of its register in the window; under a partial EXEC mask.
    lanes : uint64[writes]
        Lanes that the wavefront has written in the register so far, this write included.
    reads_after : int64[writes]
        Reads of the register until its next write or release.
    by_register : int64[writes]
        The writes window by window, register by register, each in the order of time.
    op_kind, op : uint8[ops], int32[ops]
        Allocations, writes and releases in trace order (constants of `mcage.traces.model`), with
        the index of the window or write.
    """

    windows: Windows
    cycle: NDArray[np.int64]
    end_cycle: NDArray[np.int64]
    window: NDArray[np.int64]
    reg: NDArray[np.int64]
    row: NDArray[np.int64]
    value: NDArray[np.int64]
    first: NDArray[np.bool_]
    divergent: NDArray[np.bool_]
    lanes: NDArray[np.uint64]
    reads_after: NDArray[np.int64]
    by_register: NDArray[np.int64]
    op_kind: NDArray[np.uint8]
    op: NDArray[np.int32]

    @property
    def previous(self) -> NDArray[np.int64]:
        """The write before each write of the same register: int64[writes].

        For the first write of a register the value has no meaning.
        """
        previous = np.zeros(len(self.cycle), dtype=np.int64)
        previous[self.by_register[1:]] = self.by_register[:-1]
        return previous


_KEPT: WeakKeyDictionary[Trace, Writes] = WeakKeyDictionary()


def writes_of(trace: Trace) -> Writes:
    """Return the writes of a valid trace; they are kept for as long as the trace is."""
    writes = _KEPT.get(trace)
    if writes is None:
        writes = _KEPT[trace] = _writes_of(trace)
    return writes


def _writes_of(trace: Trace) -> Writes:
    windows, window_of_event = windows_of(trace), trace.window_of_event()
    events = np.flatnonzero(trace.kind == WRITE)
    window = window_of_event[events]
    reg = trace.reg[events].astype(np.int64)
    cycle = trace.cycle[events].astype(np.int64)
    exec_mask = trace.exec_mask[events]

    key = window * trace.geometry.entries + reg
    order = np.argsort(key, kind="stable")
    first_sorted = np.ones(len(order), dtype=bool)
    first_sorted[1:] = key[order][1:] != key[order][:-1]
    first = np.empty_like(first_sorted)
    first[order] = first_sorted

    end_cycle = windows.release_cycle[window]
    followed = order[:-1][~first_sorted[1:]]
    end_cycle[followed] = cycle[order[1:][~first_sorted[1:]]]
    op_kind, op = _operations(trace, window_of_event)
    return Writes(
        windows=windows,
        cycle=cycle,
        end_cycle=end_cycle,
        window=window,
        reg=reg,
        row=windows.base[window] + reg,
        value=trace.value[events].astype(np.int64),
        first=first,
        divergent=exec_mask != trace.geometry.all_lanes,
        lanes=_lanes(exec_mask, order, first_sorted, trace.geometry),
        reads_after=_reads_after(trace, window_of_event, events),
        by_register=order,
        op_kind=op_kind,
        op=op,
    )


def _operations(
    trace: Trace, window_of_event: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    kept = trace.kind != READ
    kind = trace.kind[kept]
    write_index = np.cumsum(kind == WRITE) - 1
    return kind.astype(np.uint8), np.where(
        kind == WRITE, write_index, window_of_event[kept]
    ).astype(np.int32)


def _reads_after(
    trace: Trace, window_of_event: NDArray[np.int64], writes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Reads that each write's value serves."""
    accesses = np.flatnonzero((trace.kind == WRITE) | (trace.kind == READ))
    key = window_of_event[accesses] * trace.geometry.entries + trace.reg[accesses]
    order = np.argsort(key, kind="stable")
    is_write = trace.kind[accesses[order]] == WRITE
    latest = np.maximum.accumulate(np.where(is_write, np.arange(len(order)), -1))
    served = ~is_write & (latest >= 0)
    served[served] = key[order][latest[served]] == key[order][served]
    count = np.bincount(accesses[order][latest[served]], minlength=len(trace.kind))
    return count[writes].astype(np.int64)


def _lanes(
    exec_mask: NDArray[np.uint64],
    order: NDArray[np.int64],
    first_sorted: NDArray[np.bool_],
    geometry: SliceGeometry,
) -> NDArray[np.uint64]:
    """Lanes that the wavefront has written in the register so far, this write included."""
    lanes = exec_mask[order]
    starts = np.flatnonzero(first_sorted)
    ends = np.append(starts[1:], len(lanes))
    partial = lanes[starts] != geometry.all_lanes
    for start, end in zip(starts[partial], ends[partial], strict=True):
        np.bitwise_or.accumulate(lanes[start:end], out=lanes[start:end])
    lanes[np.repeat(~partial, ends - starts)] = geometry.all_lanes
    result = np.empty_like(lanes)
    result[order] = lanes
    return result
