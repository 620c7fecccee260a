"""Where windows lie under the placements that do not look at faults, for every starting offset.

Long-run rotation is taken in the limit: a pass of the trace is replayed once from every starting
offset of the rotating state, and cell times are summed over these passes. A pass finds in the
entries what an earlier pass left there: the pass whose counters lead to this starting offset.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mcage.errors import UserError
from mcage.geometry import Booleans, Bytes, Floats, Integers, SliceGeometry
from mcage.replays.schedule import Schedule, Windows
from mcage.techniques import Placement, refuse_policy
from mcage.traces.model import ALLOC, EVENT_COLUMNS, READ, RELEASE, WRITE, Trace


@dataclass(frozen=True)
class Layout:
    """Physical place of every window in every pass.

    Register ``i`` of window ``w`` lies at entry ``base[pass, w] + (rotation[pass, w] + i) mod N``.

    Attributes
    ----------
    base, rotation : int64[passes, windows]
        One pass per starting offset.
    step : int64[entries]
        The pass after pass p is, for this entry, pass (p + step) mod passes; 0: every pass is
        followed by itself.
    """

    base: Integers
    rotation: Integers
    step: Integers

    @property
    def passes(self) -> int:
        """Starting offsets; each makes a pass."""
        return len(self.base)

    @property
    def orbits(self) -> Integers:
        """Orbits of passes that each entry sees: int64[entries].

        From pass p the steps of an entry come back to p after passes / g turns, g the greatest
        common divisor of passes and step. Passes 0 ... g - 1 therefore start the g orbits: turn t
        of orbit o is pass (o + t x step) mod passes.
        """
        return np.gcd(self.passes, self.step)

    def registers_in(self, entry: int, size: Integers) -> "RegistersInEntry":
        """Return the registers that live in an entry; `size` is that of the windows."""
        orbits, step = int(self.orbits[entry]), int(self.step[entry])
        turns = self.passes // orbits
        passes = ((np.arange(orbits)[:, None] + step * np.arange(turns)) % self.passes).ravel()
        base, rotation = self.base[passes], self.rotation[passes]
        place, window = np.nonzero((base <= entry) & (entry < base + size))
        shifted = entry - base[place, window] - rotation[place, window]
        register = window * len(self.step) + shifted % size[window]
        return RegistersInEntry(*np.divmod(place, turns), register)


class RegistersInEntry(NamedTuple):
    """Registers that live in an entry, orbit after orbit, each in order of time; int64[n].

    Attributes
    ----------
    orbit, turn : int64[n]
        Orbit of passes, and which of its passes.
    register : int64[n]
        entries x window + register.
    """

    orbit: Integers
    turn: Integers
    register: Integers


class WritesOfRegisters(NamedTuple):
    """Writes that go to an entry, register after register.

    Attributes
    ----------
    write : int64[n]
        Writes, those of a register in order of time.
    first, end : int64[entries * windows]
        Register entries x window + r has the writes ``write[first:end]``.
    """

    write: Integers
    first: Integers
    end: Integers


def writes_of_registers(schedule: Schedule) -> WritesOfRegisters:
    """Return the writes of a replay that go to an entry, sorted by register."""
    entries = schedule.geometry.entries
    register = schedule.window * entries + schedule.reg
    in_entry = np.flatnonzero(~schedule.in_table)
    write = in_entry[np.argsort(register[in_entry], kind="stable")]
    registers = np.arange(len(schedule.windows.size) * entries)
    return WritesOfRegisters(
        write,
        np.searchsorted(register[write], registers, side="left"),
        np.searchsorted(register[write], registers, side="right"),
    )


def window_layout(schedule: Schedule) -> Layout:
    """Layout of the windows under a placement that is fixed by the trace alone.

    Raises
    ------
    UserError
        If windows handed out in turn find no room (kernels of different N open at once), or the
        placement has no layout.
    """
    windows = schedule.windows
    match schedule.technique.placement:
        case Placement.ROTATE:
            return _rotate(windows, schedule.geometry)
        case Placement.ROUND_ROBIN:
            return _round_robin(schedule)
        case (
            Placement.DIRECT
            | Placement.PACK
            | Placement.REDIRECT
            | Placement.GUARD
            | Placement.PROGRAM
        ):
            base = windows.base[None]
            step = np.zeros(schedule.geometry.entries, dtype=np.int64)
            return Layout(base, np.zeros_like(base), step)
        case unknown:
            refuse_policy(unknown, "window_layout")


def _rotate(windows: Windows, geometry: SliceGeometry) -> Layout:
    """RAR: every slot's counter starts at the pass's offset and advances at each re-assignment."""
    passes = math.lcm(*(int(size) for size in np.unique(windows.size)))
    offset = np.arange(passes)[:, None]
    rotation = (offset + windows.generation) % windows.size
    base = np.tile(windows.base, (passes, 1))  # writable, or the engine would be compiled for it
    return Layout(base, rotation, _rotation_steps(windows, passes, geometry))


def _rotation_steps(windows: Windows, passes: int, geometry: SliceGeometry) -> Integers:
    """Pass that each entry sees after pass 0: int64[entries].

    A pass advances every slot's counter by the windows that the slot gets. An entry that belongs
    to several slots, one in each of several kernels, asks for a pass that has the counters of all
    of them, each modulo its window size. If slots drift apart so that there is none, the step
    suits as many windows as possible.
    """
    generations = np.bincount(windows.slot)[windows.slot]
    candidates = np.arange(passes)[:, None]
    step = np.zeros(geometry.entries, dtype=np.int64)
    before: Booleans | None = None
    for entry in range(geometry.entries):
        covers = (windows.base <= entry) & (entry < windows.base + windows.size)
        if before is not None and np.array_equal(covers, before):
            step[entry] = step[entry - 1]
            continue
        before = covers
        (advance, size), count = np.unique(
            np.stack([generations, windows.size])[:, covers], axis=1, return_counts=True
        )
        step[entry] = (((candidates - advance) % size == 0) @ count).argmax()
    return step


def _round_robin(schedule: Schedule) -> Layout:
    """ARGO: a new window takes the next free place in turn, of all floor(entries/N).

    The pass depends on the pointer to the next place modulo the places of its first window.
    """
    windows, entries = schedule.windows, schedule.geometry.entries
    places = entries // windows.size
    passes = int(places[0])
    base = np.empty((passes, len(places)), dtype=np.int64)
    moves = set()
    kept = np.flatnonzero(schedule.op_kind != WRITE)
    operations = list(zip(schedule.op_kind[kept].tolist(), schedule.op[kept].tolist(), strict=True))
    sizes, places_of = windows.size.tolist(), places.tolist()
    for offset in range(passes):
        busy = 0  # a bit for each entry
        pointer = offset
        taken: dict[int, int] = {}  # first entry of each open window
        for kind, window in operations:
            size = sizes[window]
            whole = (1 << size) - 1
            if kind == ALLOC:
                for turn in range(places_of[window]):
                    place = (pointer + turn) % places_of[window]
                    if not busy & whole << place * size:
                        break
                else:
                    raise UserError(
                        f"trace {schedule.trace.name!r}: no room for a window of {size} registers "
                        f"at cycle {windows.alloc_cycle[window]} under "
                        f"{schedule.technique.name!r}, whose windows do not keep their slots"
                    )
                base[offset, window] = taken[window] = place * size
                pointer = place + 1
                busy |= whole << place * size
            else:
                busy &= ~(whole << taken.pop(window))
        moves.add((pointer - offset) % passes)
    step = moves.pop() if len(moves) == 1 else 0
    return Layout(base, np.zeros_like(base), np.full(entries, step, dtype=np.int64))


def needed_entries(schedule: Schedule, layout: Layout) -> Booleans:
    """Entries that must be reliable, since the technique cannot move data: bool[entries].

    All entries of the windows in use; under table storage those only that ever hold a value,
    since a register whose values all sit in the table never touches its entry.
    """
    windows, entries = schedule.windows, schedule.geometry.entries
    needed = np.zeros(entries, dtype=bool)
    if schedule.technique.stores_in_table:
        held = ~schedule.compressed
        window, reg = schedule.window[held], schedule.reg[held]
        pairs = np.unique(window * entries + reg)
        window, reg = pairs // entries, pairs % entries
        entry = layout.base[:, window] + (layout.rotation[:, window] + reg) % windows.size[window]
        needed[entry.ravel()] = True
        return needed
    for starts, size in zip(layout.base.T, windows.size, strict=True):
        for start in np.unique(starts):
            needed[start : start + size] = True
    return needed


# Whole windows between faulty entries: how many fit, where they lie, and how long the others wait.
#
# The simplest technique, which needs no paper: a faulty entry is unusable, and a window needs N
# reliable entries in a row. Where fewer windows fit than a kernel had, wavefronts wait. They
# keep their order and what they do from their allocation on; only when they start changes.

_RANK_IN_CYCLE = np.argsort([ALLOC, WRITE, READ, RELEASE])
"""Place of each kind of event inside one cycle."""

Places = tuple[int, ...]
"""Windows that may be open at once, for each window size of a trace."""


def packed_bases(fault_map: Bytes, size: int) -> Integers:
    """First entries of the windows that fit: greedily from entry 0 on, which no packing beats.

    Parameters
    ----------
    fault_map : uint8[entries]
        0 where an entry is reliable.
    size : int
        Registers of a window.
    """
    faulty = np.flatnonzero(np.concatenate([[1], fault_map != 0, [1]])) - 1
    starts, lengths = faulty[:-1] + 1, np.diff(faulty) - 1
    counts = lengths // size
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    bases: Integers = np.repeat(starts, counts) + size * number
    return bases


@dataclass(frozen=True)
class WindowTiming:
    """When the windows of a trace start, and where; arrays int64[windows] in allocation order."""

    start_cycle: Integers
    place: Integers
    cycles: int


@dataclass(frozen=True, eq=False)
class Packing:
    """The windows of a trace, to be packed.

    Parameters
    ----------
    trace : Trace
        As recorded.
    windows : Windows
        Its windows.
    window_of_event : int64[events]
        Window that each event belongs to.

    Raises
    ------
    UserError
        If windows of different size are open at once: they have no places in common.
    """

    trace: Trace
    windows: Windows
    window_of_event: Integers

    def __post_init__(self) -> None:
        windows = self.windows
        for size in self.sizes:
            of_size = windows.size == size
            begins = windows.alloc_cycle[of_size, None] <= windows.release_cycle[~of_size]
            if (
                begins & (windows.alloc_cycle[~of_size] <= windows.release_cycle[of_size, None])
            ).any():
                raise UserError(
                    f"trace {self.trace.name!r}: windows of different size are open at once; "
                    "pack placement needs kernels one after the other"
                )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Window sizes, ascending."""
        return tuple(int(size) for size in np.unique(self.windows.size))

    @cached_property
    def slots(self) -> Places:
        """Windows of each size that the recorded trace has room for."""
        windows = self.windows
        return tuple(int(windows.slot[windows.size == size].max()) + 1 for size in self.sizes)

    @cached_property
    def _timings(self) -> dict[Places, WindowTiming]:
        return {}

    def places(self, fault_map: Bytes) -> Places:
        """Windows of each size that fit on a map uint8[entries], not more than recorded."""
        return tuple(
            min(slots, len(packed_bases(fault_map, size)))
            for size, slots in zip(self.sizes, self.slots, strict=True)
        )

    def fits(self, fault_maps: Bytes) -> Booleans:
        """Whether all kernels can run, if slowly, on fault maps uint8[n, entries]: bool[n]."""
        return np.array([all(self.places(fault_map)) for fault_map in fault_maps], dtype=bool)

    def slowdown(self, fault_maps: Bytes) -> Floats:
        """Cycles lost to waiting, per recorded cycle: float64[n], infinite where nothing runs."""
        cycles = []
        for fault_map in fault_maps:
            places = self.places(fault_map)
            cycles.append(self.timing(places).cycles if all(places) else np.inf)
        return np.array(cycles, dtype=np.float64) / self.trace.cycles - 1

    def timing(self, places: Places) -> WindowTiming:
        """When and where windows start if so many of each size, at least one, may be open."""
        if places not in self._timings:
            self._timings[places] = self._wait(places)
        return self._timings[places]

    def _wait(self, places: Places) -> WindowTiming:
        """Start window after window at its recorded cycle, or as soon as it can.

        It waits for a place, for the windows before it to start, for those of other sizes to be
        released, and for those that were released before its launch began.
        """
        windows = self.windows
        duration = windows.release_cycle - windows.alloc_cycle
        free = {
            size: np.zeros(count, dtype=np.int64)
            for size, count in zip(self.sizes, places, strict=True)
        }
        launch = self.trace.alloc_launch
        start, end = np.zeros_like(duration), np.zeros_like(duration)
        place = np.zeros_like(duration)
        earliest = 0
        for window, size in enumerate(windows.size.tolist()):
            before = slice(0, window)
            began = windows.alloc_cycle[launch == launch[window]].min()
            awaited = (windows.size[before] != size) | (windows.release_cycle[before] < began)
            over = int(end[before][awaited].max(initial=-1)) + 1
            earliest = max(earliest, int(windows.alloc_cycle[window]), over)
            earliest = max(earliest, int(free[size].min()))
            idle = np.flatnonzero(free[size] <= earliest)
            recorded = windows.slot[window]
            place[window] = recorded if recorded in idle else idle[0]
            start[window], end[window] = earliest, earliest + duration[window]
            free[size][place[window]] = end[window] + 1  # a cycle begins with allocations
        later = int(end.max() - windows.release_cycle.max())
        return WindowTiming(start, place, self.trace.cycles + later)

    def retimed(self, places: Places) -> Trace:
        """The trace as it runs with so many places: slots are numbers of places."""
        timing = self.timing(places)
        delay = timing.start_cycle - self.windows.alloc_cycle
        cycle = self.trace.cycle + delay[self.window_of_event]
        kind = self.trace.kind
        order = np.lexsort((np.arange(len(kind)), _RANK_IN_CYCLE[kind], cycle))
        columns = {c.attribute: getattr(self.trace, c.attribute)[order] for c in EVENT_COLUMNS}
        columns["cycle"] = cycle[order]
        columns["slot"] = timing.place[self.window_of_event][order].astype(np.uint16)
        return dataclasses.replace(
            self.trace,
            cycles=timing.cycles,
            alloc_event=np.flatnonzero(columns["kind"] == ALLOC).astype(np.uint32),
            **columns,
        )

    def bases(self, fault_map: Bytes, places: Places) -> Integers:
        """First entry of every window on a fault map with so many places: int64[windows]."""
        base = np.empty(len(self.windows.size), dtype=np.int64)
        for size in self.sizes:
            of_size = self.windows.size == size
            base[of_size] = packed_bases(fault_map, size)[self.timing(places).place[of_size]]
        return base

    def entries(self, fault_map: Bytes, places: Places) -> Integers:
        """Entries of the places, one after the other, for the only window size of a trace."""
        (size,), (count,) = self.sizes, places
        bases = packed_bases(fault_map, size)[:count]
        return (bases[:, None] + np.arange(size)).ravel()
