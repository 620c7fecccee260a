"""Where windows lie under the placements that do not look at faults, for every starting offset.

Long-run rotation is taken in the limit: a pass of the trace is replayed once from every starting
offset of the rotating state, and cell times are summed over these passes. A pass finds in the
entries what an earlier pass left there: the pass whose counters lead to this starting offset.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.geometry import SliceGeometry
from mcage.replays.schedule import Schedule
from mcage.replays.windows import Windows
from mcage.techniques import Placement, refuse_policy
from mcage.traces.model import ALLOC, WRITE


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

    base: NDArray[np.int64]
    rotation: NDArray[np.int64]
    step: NDArray[np.int64]

    @property
    def passes(self) -> int:
        """Starting offsets; each makes a pass."""
        return len(self.base)

    @property
    def orbits(self) -> NDArray[np.int64]:
        """Orbits of passes that each entry sees: int64[entries].

        From pass p the steps of an entry come back to p after passes / g turns, g the greatest
        common divisor of passes and step. Passes 0 ... g - 1 therefore start the g orbits: turn t
        of orbit o is pass (o + t x step) mod passes.
        """
        return np.gcd(self.passes, self.step)

    def registers_in(self, entry: int, size: NDArray[np.int64]) -> "RegistersInEntry":
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

    orbit: NDArray[np.int64]
    turn: NDArray[np.int64]
    register: NDArray[np.int64]


class WritesOfRegisters(NamedTuple):
    """Writes that go to an entry, register after register.

    Attributes
    ----------
    write : int64[n]
        Writes, those of a register in order of time.
    first, end : int64[entries * windows]
        Register entries x window + r has the writes ``write[first:end]``.
    """

    write: NDArray[np.int64]
    first: NDArray[np.int64]
    end: NDArray[np.int64]


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


def _rotation_steps(windows: Windows, passes: int, geometry: SliceGeometry) -> NDArray[np.int64]:
    """Pass that each entry sees after pass 0: int64[entries].

    A pass advances every slot's counter by the windows that the slot gets. An entry that belongs
    to several slots, one in each of several kernels, asks for a pass that has the counters of all
    of them, each modulo its window size. If slots drift apart so that there is none, the step
    suits as many windows as possible.
    """
    generations = np.bincount(windows.slot)[windows.slot]
    candidates = np.arange(passes)[:, None]
    step = np.zeros(geometry.entries, dtype=np.int64)
    before: NDArray[np.bool_] | None = None
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


def needed_entries(schedule: Schedule, layout: Layout) -> NDArray[np.bool_]:
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
