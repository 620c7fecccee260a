"""Everything that a replay of one trace under one technique needs besides fault maps.

A replay is of one of four kinds, by what a fault changes: where windows have fixed places, it
changes nothing; where registers are redirected, each register looks for a home; where windows are
packed, whole windows move and may have to wait; a program of the user does what it says.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mcage.concurrency import Lazy
from mcage.errors import UserError
from mcage.files.disk_cache import Arrays, kept_on_disk
from mcage.geometry import Booleans, Bytes, Integers, SliceGeometry, Words
from mcage.protection.codes import Code
from mcage.replays.layout import Layout, Packing, needed_entries, window_layout
from mcage.replays.schedule import Schedule, make_schedule, windows_of
from mcage.techniques import Technique
from mcage.techniques.programs import PlacementProgram
from mcage.traces.library import RecordedTrace
from mcage.traces.model import READ, WRITE, Trace
from mcage.traces.patterns import classify, compressible
from mcage.version import code_digest

# A replay whose placement a program of the user decides: the program's input, in order.


class Told(NamedTuple):
    """Input of a program in a pass; arrays are int64 unless another type is stated.

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

    kind: Bytes
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
    compressible: Booleans
    compressed: Booleans
    wakes: Booleans
    in_table: Booleans
    reads_after: Integers
    words: Integers


def told_to(program: PlacementProgram, schedule: Schedule) -> Told:
    """Input of a program in each pass of a schedule.

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


def _signed(lanes: Words) -> Integers:
    """Lane masks as signed numbers, for whose highest bit is the sign."""
    return np.ascontiguousarray(lanes).view(np.int64)


def _events(trace: Trace, with_reads: bool) -> tuple[Bytes, Integers, Integers]:
    """Kind, window or write, and cycle of the events that are the input of a program."""
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


SELECTOR_OFFSETS = 8
"""Evenly spaced starting entries over which rotating selectors are averaged."""


@dataclass(frozen=True, eq=False)
class PreparedReplay(ABC):
    """A trace made ready for replay under a technique; what its kinds have in common.

    Attributes
    ----------
    technique : Technique
        The technique.
    geometry : SliceGeometry
        The slice.
    cycles : int
        Length of one pass of the trace.
    scheduled : Lazy
        Gives `schedule`.
    digest : str
        All that decides the replay, as text; empty where nothing of it is kept on disk.
    """

    technique: Technique
    geometry: SliceGeometry
    cycles: int
    scheduled: Lazy[Schedule]
    digest: str = field(default="", kw_only=True)

    @property
    def schedule(self) -> Schedule:
        """The part of the replay that no fault map changes, made when it is first asked for."""
        return self.scheduled.get()

    @property
    @abstractmethod
    def passes(self) -> int:
        """Passes of the trace over which times and counters are summed."""

    @property
    def period(self) -> int:
        """Cycles of all passes together."""
        return self.passes * self.cycles

    @property
    def needed(self) -> Booleans:
        """Entries that must be reliable, bool[entries]: none if the technique heeds faults."""
        return np.zeros(self.geometry.entries, dtype=bool)


@dataclass(frozen=True, eq=False)
class FixedReplay(PreparedReplay):
    """A replay whose windows have the same places on every fault map.

    Attributes
    ----------
    laid_out : Lazy
        Gives `layout`.
    """

    laid_out: Lazy[Layout]

    @classmethod
    def of(cls, schedule: Schedule, layout: Layout) -> "FixedReplay":
        """Replay of a schedule with its windows in given places."""
        lazily = Lazy(lambda: schedule), Lazy(lambda: layout)
        return cls(schedule.technique, schedule.geometry, schedule.cycles, *lazily)

    @property
    def layout(self) -> Layout:
        """Places of the windows, pass by pass."""
        return self.laid_out.get()

    @property
    def passes(self) -> int:
        """Starting offsets of the layout."""
        return self.layout.passes

    @cached_property
    def needed(self) -> Booleans:
        """Entries in which windows lie, bool[entries]: a window cannot avoid a fault."""
        return needed_entries(self.schedule, self.layout)


@dataclass(frozen=True, eq=False)
class RedirectedReplay(PreparedReplay):
    """A replay in which every register looks for a home on the fault map.

    Attributes
    ----------
    selector_starts : int64[passes]
        Entry at which the scan of the selectors starts in each pass.
    lds_rows : int
        Spilled rows for which the LDS has room; those beyond live in memory.
    """

    selector_starts: Integers
    lds_rows: int

    @property
    def passes(self) -> int:
        """Starting entries of the selectors."""
        return len(self.selector_starts)


@dataclass(frozen=True, eq=False)
class ProgrammedReplay(PreparedReplay):
    """A replay in which a program of the user says where each value lives.

    Attributes
    ----------
    lds_rows : int
        Spilled rows for which the LDS has room; those beyond live in memory.
    """

    lds_rows: int

    @property
    def program(self) -> PlacementProgram:
        """The program."""
        program = self.technique.program
        assert program is not None
        return program

    @property
    def passes(self) -> int:
        """One; the duty cycles say how many passes they took to settle."""
        return 1

    @cached_property
    def told(self) -> Told:
        """Input of the program in each pass."""
        return told_to(self.program, self.schedule)

    @property
    def lengths(self) -> list[int]:
        """Lengths of the arrays that the program keeps."""
        return self.program.lengths(self.geometry.entries, self.geometry.max_windows)


@dataclass(frozen=True, eq=False)
class PackedReplay(PreparedReplay):
    """A replay in which whole windows lie between faulty entries, and may have to wait.

    Attributes
    ----------
    layout : Layout
        Places of the windows on a slice without faults, to which `schedule` belongs as well.
    packing : Packing
        Where the windows lie on a fault map, and how long they wait.
    code : Code, optional
        Whose check cells are replayed instead of cells of data.
    """

    layout: Layout
    packing: Packing
    code: Code | None = None

    @property
    def passes(self) -> int:
        """Passes of the replay without faults."""
        return self.layout.passes


def prepare(
    trace: Trace | RecordedTrace,
    technique: Technique,
    delta_limit: int | None = 64,
    selector_offsets: int = SELECTOR_OFFSETS,
    lds_rows: int | None = None,
    code: Code | None = None,
) -> PreparedReplay:
    """Make a trace ready for replay.

    Parameters
    ----------
    trace : Trace or RecordedTrace
        A valid trace. A recorded one is not looked at before its schedule is asked for, unless it
        may have no place for its windows.
    technique : Technique
        Any technique.
    delta_limit : int or None
        Largest delta of a compressible value: 64 as published, None for any power of two.
    selector_offsets : int
        Starting entries over which rotating selectors are averaged, a divisor of the entries.
    lds_rows : int, optional
        Spilled rows for which the LDS has room; those beyond live in memory. By default it has room
        for all.
    code : Code, optional
        Replay the check cells of words with this code instead of the cells of data: check bit c of
        a word lives in every cell of it, or its pair of components, whose number is c modulo 8.

    Raises
    ------
    UserError
        If there is no place for a window that takes the next free place in turn, or windows of
        different size cannot be packed.
    """

    def whole() -> Trace:
        return trace.whole if isinstance(trace, RecordedTrace) else trace

    schedule = Lazy(lambda: make_schedule(whole(), technique, delta_limit, code))
    given = technique, trace.geometry, int(trace.cycles), schedule
    room = trace.geometry.entries if lds_rows is None else lds_rows
    if technique.program is not None:
        return ProgrammedReplay(*given, room)
    if technique.redirects:
        starts = selector_offsets if technique.rotating_selectors else 1
        offsets = np.arange(starts, dtype=np.int64) * (trace.geometry.entries // starts)
        digest = ""
        if isinstance(trace, RecordedTrace):
            digest = f"{trace.digest()} {technique!r} {delta_limit} {starts}"
            digest += f" check cells of {code.name}" if code else ""
        return RedirectedReplay(*given, offsets, room, digest=digest)
    layout = Lazy(lambda: window_layout(schedule.get()))
    if technique.may_lack_room or isinstance(trace, Trace):
        layout.get()
    if technique.packs:
        packing = Packing(whole(), windows_of(whole()), whole().window_of_event())
        return PackedReplay(*given, layout.get(), packing, code)
    return FixedReplay(*given, layout)


def kept_of_replays(
    name: str, replays: Sequence[PreparedReplay], make: Callable[[], Arrays]
) -> Arrays:
    """Arrays that follow from replays alone, from disk if they are kept there.

    Parameters
    ----------
    name : str
        What the arrays are.
    replays : sequence of PreparedReplay
        The replays. Nothing is kept unless all of them have a digest.
    make : callable
        Makes the arrays.
    """
    digests = [replay.digest for replay in replays]
    if not all(digests):
        return make()
    return kept_on_disk(f"{name} {digests} {code_digest()} {np.__version__}", make)
