"""A replay whose placement a program of the user decides: what the program is told, in order."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.replays.schedule import Schedule
from mcage.techniques.programs import PlacementProgram
from mcage.traces.model import READ, WRITE, Trace
from mcage.traces.patterns import classify, compressible

Integers = NDArray[np.int64]


class Told(NamedTuple):
    """What a program is told in a pass; arrays int64 but where another type is given.

    Attributes
    ----------
    kind, which : uint8[events], int64[events]
        Kinds of events (constants of `mcage.traces.model`) in the order of the trace, and the
        window that is allocated or released, or the write, or the write whose value is read.
    when : int64[events]
        Cycle of each event.
    alloc, release, slot, base, size : int64[windows]
        Cycles of each window, its slot, first row and registers.
    cycle, end, window, register, row, mask, value : int64[writes]
        Cycle of each write, cycle at which its value is gone, window, register, row, lanes, and
        row of `words`.
    compressible, compressed, wakes, in_table : bool[writes]
        As `mcage.techniques.programs.Value` has them; whether a new home has to wake up, for the
        register was stored compressed before; whether the value goes to the compression table.
    reads_after : int64[writes]
        Reads of the value.
    words : int64[values, components]
        Register contents.
    """

    kind: NDArray[np.uint8]
    which: Integers
    when: Integers
    alloc: Integers
    release: Integers
    slot: Integers
    base: Integers
    size: Integers
    cycle: Integers
    end: Integers
    window: Integers
    register: Integers
    row: Integers
    mask: Integers
    value: Integers
    compressible: NDArray[np.bool_]
    compressed: NDArray[np.bool_]
    wakes: NDArray[np.bool_]
    in_table: NDArray[np.bool_]
    reads_after: Integers
    words: Integers


def told_to(program: PlacementProgram, schedule: Schedule) -> Told:
    """What a program is told in each pass of a schedule.

    Raises
    ------
    UserError
        The program keeps numbers for windows, and some slot lies beyond them.
    """
    trace, windows = schedule.trace, schedule.windows
    most_windows = trace.geometry.max_windows
    if "window" in program.scopes.values() and windows.slot.max() >= most_windows:
        raise UserError(
            f"trace {trace.name!r}: slot {windows.slot.max()} lies beyond the "
            f"{most_windows} windows at once for which a program keeps numbers"
        )
    is_write = trace.kind == WRITE
    value = trace.value[is_write].astype(np.int64)
    fits = compressible(classify(trace.values), schedule.delta_limit)[value]
    kind, which, when = _events(trace, program.defines("read"))
    return Told(
        kind=kind,
        which=which,
        when=when,
        alloc=windows.alloc_cycle,
        release=windows.release_cycle,
        slot=windows.slot,
        base=windows.base,
        size=windows.size,
        cycle=schedule.cycle,
        end=schedule.end_cycle,
        window=schedule.window,
        register=schedule.reg,
        row=schedule.row,
        mask=_signed(trace.exec_mask[is_write]),
        value=value,
        compressible=fits & ~schedule.divergent,
        compressed=schedule.compressed,
        wakes=schedule.was_compressed & ~schedule.compressed & schedule.technique.gates_empty,
        in_table=schedule.in_table,
        reads_after=schedule.reads_after,
        words=trace.values.astype(np.int64),
    )


def _signed(lanes: NDArray[np.uint64]) -> Integers:
    """Lane masks as signed numbers, for whose highest bit is the sign."""
    return np.ascontiguousarray(lanes).view(np.int64)


def _events(trace: Trace, with_reads: bool) -> tuple[NDArray[np.uint8], Integers, Integers]:
    """Kind, window or write, and cycle of the events that a program is told of."""
    is_write, is_read = trace.kind == WRITE, trace.kind == READ
    window = trace.window_of_event()
    which = np.where(is_write, np.cumsum(is_write) - 1, window).astype(np.int64)
    told = ~is_read
    if with_reads:
        accesses = np.flatnonzero(is_write | is_read)
        register = window[accesses] * trace.geometry.entries + trace.reg[accesses]
        order = np.argsort(register, kind="stable")
        event, register = accesses[order], register[order]
        latest = np.maximum.accumulate(np.where(is_write[event], np.arange(len(event)), -1))
        serves = is_read[event] & (latest >= 0)
        serves[serves] = register[serves] == register[latest[serves]]
        which[event[serves]] = which[event[latest[serves]]]
        told[event[serves]] = True
    return trace.kind[told], which[told], trace.cycle[told].astype(np.int64)
