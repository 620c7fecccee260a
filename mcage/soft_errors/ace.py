"""ACE time: for how long each stored bit is needed for an architecturally correct execution.

Mukherjee et al., "A Systematic Methodology to Compute the Architectural Vulnerability Factors for
a High-Performance Microprocessor", MICRO 2003: a bit is ACE while a change of it may change what
the program computes. Here it is ACE from the write of a value to the last read of it; the
architectural vulnerability factor (AVF) is the share of all bits, on the mean over time, that are.

A trace knows no masking by logic, no wrong address and no control flow, and of a read it does not
know the lanes: a read counts for all lanes that the wavefront has written. The AVF is therefore an
upper bound of what injected faults show, under the order in a cycle that the hardware has.

**Order in a cycle.** A trace does not say what a read sees that happens in the cycle of a write of
the same register. With *writes first*, the order of mcage's traces, it reads the new value; with
*reads first* the one before, whose ACE time then reaches to that cycle.

**What ends a value.** A divergent write replaces the values of its lanes alone; those of the other
lanes live on, and are ACE up to their last read after it. With ``by_lane=False`` each write ends
the values of all lanes, so that nothing is ACE between a last read and the next write, even if a
lane survives that write: the rule of published figures that follow registers, not lanes.

**Passes.** A trace repeats, but no value is read in the next pass: all windows are released with
their wavefronts, at the latest at the end of a pass, and reads before
the first write are not counted.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from mcage.engines.interface import fault_free_maps
from mcage.engines.numpy_engine.redirection import (
    IN_LDS,
    IN_MEMORY,
    IN_TABLE,
    NOWHERE,
    place_writes,
)
from mcage.errors import UserError
from mcage.geometry import COMPONENT_BITS, Booleans, Bytes, Floats, Integers, Words
from mcage.replays.layout import Layout, window_layout
from mcage.replays.prepare import (
    FixedReplay,
    PackedReplay,
    PreparedReplay,
    RedirectedReplay,
    prepare,
)
from mcage.replays.schedule import Schedule, writes_of
from mcage.techniques import Placement, Technique
from mcage.traces.model import READ, WRITE, Trace
from mcage.traces.patterns import wc_bytes, wc_sizes

COMPONENT_BYTES = COMPONENT_BITS // 8
RECORD_BYTES = COMPONENT_BYTES + 1
"""A record: the base, and a byte with both exponents."""


@dataclass(frozen=True, eq=False)
class Needs:
    """Bits of each written value that are still needed, and until when.

    A value is what a register holds between a write of it and the next. Its lanes are of two
    kinds: those of column 0 are read for the last time before the next write; those of column 1
    survive that write, which is of other lanes, and are read after it.

    Attributes
    ----------
    lanes : uint64[writes, 2]
        Lanes whose values are needed; no lane is in both columns.
    cycles : int64[writes, 2]
        For how long from the write on.
    reads : int64[writes]
        Reads of the register until its next write.
    dead : bool[writes]
        Nobody ever reads what the write has written.
    """

    lanes: Words
    cycles: Integers
    reads: Integers
    dead: Booleans

    @property
    def lane_cycles(self) -> Integers:
        """ACE time of each value, over its lanes: int64[writes], in cycles."""
        return np.asarray((_lane_counts(self.lanes) * self.cycles).sum(axis=1))


def needs_of(trace: Trace, *, reads_first: bool = False, by_lane: bool = True) -> Needs:
    """Find out until when the values of a trace are needed.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    reads_first : bool
        Whether a read in the cycle of a write sees the value before; otherwise the new one.
    by_lane : bool
        Whether a divergent write ends the values of its lanes alone; otherwise of all lanes. Then
        a write is dead if nobody reads the register before its next write, and that write, if
        there is one, is of all lanes.
    """
    writes = writes_of(trace)
    window = trace.window_of_event()
    accesses = np.flatnonzero((trace.kind == WRITE) | (trace.kind == READ))
    register = window[accesses] * trace.geometry.entries + trace.reg[accesses]
    is_write = trace.kind[accesses] == WRITE
    later = is_write if reads_first else ~is_write
    order = np.lexsort((later, trace.cycle[accesses], register))
    event, register, is_write = accesses[order], register[order], is_write[order]
    cycle = trace.cycle[event].astype(np.int64)

    begin = np.flatnonzero(is_write)  # places of the writes, register by register
    value = np.cumsum(is_write) - 1  # the latest write before each place, in that order
    served = ~is_write & (value >= 0)
    served[served] = register[begin[value[served]]] == register[served]
    number = (np.cumsum(trace.kind == WRITE) - 1)[event[begin]]
    reads = np.bincount(value[served], minlength=len(begin))
    last = cycle[begin]
    np.maximum.at(last, value[served], cycle[served])

    written = writes.lanes[number]
    executed = trace.exec_mask[event[begin]]
    followed = np.append(register[begin[1:]] == register[begin[:-1]], False)
    ends_all = ~followed | np.append(executed[1:] == trace.geometry.all_lanes, True)
    needed = np.where(reads > 0, written, np.uint64(0))
    surviving = np.zeros_like(needed)
    dead = (reads == 0) & ends_all
    if by_lane:
        # A lane is needed across a write of other lanes if it is needed after it.
        for place in np.flatnonzero(~ends_all)[::-1].tolist():
            surviving[place] = needed[place + 1] & ~executed[place + 1] & written[place]
            needed[place] |= surviving[place]
        dead = (needed & executed) == 0
    lasting = np.append(cycle[begin[1:]], 0) - cycle[begin]

    needs = Needs(
        lanes=np.empty((len(begin), 2), dtype=np.uint64),
        cycles=np.empty((len(begin), 2), dtype=np.int64),
        reads=np.empty(len(begin), dtype=np.int64),
        dead=np.empty(len(begin), dtype=bool),
    )
    needs.lanes[number] = np.stack([needed & ~surviving, surviving], axis=1)
    needs.cycles[number] = np.stack(
        [last - cycle[begin], np.where(surviving != 0, lasting, 0)], axis=1
    )
    needs.reads[number], needs.dead[number] = reads, dead
    return needs


def _lane_counts(lanes: Words) -> Integers:
    return np.asarray(np.bitwise_count(lanes), dtype=np.int64)


@dataclass(frozen=True)
class Vulnerability:
    """How vulnerable the register file is while a trace runs on it without a technique.

    Attributes
    ----------
    avf : float
        Share of all bits of the slice that are ACE, on the mean over the pass.
    avf_of_allocated : float
        The same, of the bits of allocated windows.
    allocated : float
        Share of the bits that belong to allocated windows, on the mean over the pass.
    resident : float
        Share of the bits that hold a value which was written and not replaced or released yet.
    writes : int
        Register writes of a pass.
    dead_writes : float
        Share of the writes whose values nobody reads.
    """

    avf: float
    avf_of_allocated: float
    allocated: float
    resident: float
    writes: int
    dead_writes: float


def vulnerability(trace: Trace, needs: Needs) -> Vulnerability:
    """Figures of a trace, of whose `needs_of` the ACE time is."""
    writes, geometry = writes_of(trace), trace.geometry
    windows = writes.windows
    lane_time = geometry.entries * geometry.components * trace.cycles
    open_cycles = windows.release_cycle - windows.alloc_cycle
    allocated = geometry.components * int((windows.size * open_cycles).sum())
    ace = int(needs.lane_cycles.sum())
    held = _lane_counts(writes.lanes) * (writes.end_cycle - writes.cycle)
    return Vulnerability(
        avf=ace / lane_time,
        avf_of_allocated=ace / allocated,
        allocated=allocated / lane_time,
        resident=int(held.sum()) / lane_time,
        writes=len(writes.cycle),
        dead_writes=float(needs.dead.mean()),
    )


# Where values lie under a technique, and in which form.


@dataclass(frozen=True, eq=False)
class PlacedWrites:
    """Where each write of a trace lands, in every pass of a steady replay.

    Attributes
    ----------
    schedule : Schedule
        Its trace is the one that runs: under pack placement it may be longer than the recorded.
    home : int64[writes]
        Which home each write has: writes that share one lie in the same place in every pass.
    entry : int64[passes, homes]
        Physical entry of each home, or one of `IN_TABLE`, `IN_LDS` and `IN_MEMORY`.
    block : int64[passes, homes]
        Block of a value that is stored compressed in a block; otherwise 0.
    """

    schedule: Schedule
    home: Integers
    entry: Integers
    block: Integers

    @property
    def cycles(self) -> int:
        """Cycles of all passes together."""
        return len(self.entry) * self.schedule.cycles


def placed(replay: PreparedReplay, fault_map: Bytes | None = None) -> PlacedWrites:
    """Find where each write lands under a technique.

    Parameters
    ----------
    replay : PreparedReplay
        The technique on a trace.
    fault_map : uint8[entries], optional
        Bit b set = block b is unusable. A technique that cannot move data ignores it, and its
        values lie in faulty entries as well. By default no entry is faulty.

    Raises
    ------
    UserError
        A program of the user places values, or no window fits on the fault map.
    """
    if fault_map is None:
        fault_map = fault_free_maps(geometry=replay.geometry)[0]
    match replay:
        case FixedReplay():
            return _in_windows(replay.schedule, replay.layout)
        case RedirectedReplay() if replay.technique.borrows and not fault_map.any():
            return _in_windows(replay.schedule, window_layout(replay.schedule))
        case RedirectedReplay():
            return placed_on_maps(replay, fault_map[None])[0]
        case PackedReplay():
            return _packed(replay, fault_map)
    raise UserError(
        f"technique {replay.technique.name!r}: ACE times are not computed where a program places "
        "values; choose a technique without one"
    )


def placed_on_maps(replay: RedirectedReplay, fault_maps: Bytes) -> list[PlacedWrites]:
    """Find where each write lands under a redirecting technique, on many fault maps at once.

    Parameters
    ----------
    replay : RedirectedReplay
        The technique on a trace.
    fault_maps : uint8[n, entries]
        As of `placed`.
    """
    homes = place_writes(replay, fault_maps)
    writes = np.arange(homes.entry.shape[1])
    entry = homes.entry.reshape(len(fault_maps), -1, len(writes)).astype(np.int64)
    block = homes.block.reshape(entry.shape).astype(np.int64)
    return [
        PlacedWrites(replay.schedule, writes, *of_map) for of_map in zip(entry, block, strict=True)
    ]


def _in_windows(schedule: Schedule, layout: Layout) -> PlacedWrites:
    registers = schedule.window * schedule.geometry.entries + schedule.reg
    registers[schedule.in_table] = -1
    register, of_write = np.unique(registers, return_inverse=True)
    window, reg = np.divmod(register, schedule.geometry.entries)
    entry = (
        layout.base[:, window] + (layout.rotation[:, window] + reg) % schedule.windows.size[window]
    )
    entry[:, register < 0] = IN_TABLE
    entry, home = np.unique(entry, axis=1, return_inverse=True)
    return PlacedWrites(schedule, home.reshape(-1)[of_write], entry, np.zeros_like(entry))


def _packed(replay: PackedReplay, fault_map: Bytes) -> PlacedWrites:
    packing = replay.packing
    places = packing.places(fault_map)
    if not all(places):
        raise UserError(
            f"technique {replay.technique.name!r}: no window of trace {packing.trace.name!r} fits "
            "on the fault map"
        )
    direct = dataclasses.replace(replay.technique, placement=Placement.DIRECT)
    schedule = prepare(packing.retimed(places), direct).schedule
    base = packing.bases(fault_map, places)[None]
    step = np.zeros(replay.geometry.entries, dtype=np.int64)
    return _in_windows(schedule, Layout(base, np.zeros_like(base), step))


class _Lanes(NamedTuple):
    """Values in entries: where each lies, and for how long each of its lanes is needed.

    Attributes
    ----------
    entry : int64[n]
        Entry of each value.
    lanes, cycles : uint64[n, 2], int64[n, 2]
        As of `Needs`.
    """

    entry: Integers
    lanes: Words
    cycles: Integers

    def time(self, entries: int, components: int) -> Integers:
        """Cycles for which each lane of each entry is needed: int64[entries, components]."""
        time = np.zeros((entries, components), dtype=np.int64)
        whole = np.uint64((1 << components) - 1)
        for lanes, cycles in zip(self.lanes.T, self.cycles.T, strict=True):
            counts = (lanes != 0) & (cycles > 0)
            full = counts & (lanes == whole)
            time += _total(self.entry[full], cycles[full], entries)[:, None]
            rest = np.flatnonzero(counts & ~full)
            for lane in range(components) if len(rest) else ():
                here = rest[lanes[rest] >> np.uint64(lane) & np.uint64(1) == 1]
                time[:, lane] += _total(self.entry[here], cycles[here], entries)
        return time

    def any_of(self, lanes: np.uint64) -> Integers:
        """Cycles for which at least one of the lanes is needed: int64[n]."""
        return np.asarray(np.where(self.lanes & lanes != 0, self.cycles, 0).max(axis=1))


def _total(places: Integers, cycles: Integers, count: int) -> Integers:
    """Sums of cycles by place; exact, for a replay lasts far less than 2**53 cycles."""
    return np.bincount(places, weights=cycles, minlength=count).astype(np.int64)


def byte_times(placed: PlacedWrites, needs: Needs) -> Integers:
    """ACE time of each byte of the register file under a technique.

    All eight bits of a byte are needed alike, with a single exception: of the fifth byte of a
    record, two bits mean nothing and are counted nevertheless.

    Parameters
    ----------
    placed : PlacedWrites
        Where values lie. What lies in the compression table, the LDS or memory is not in the file.
    needs : Needs
        Of ``placed.schedule.trace``.

    Returns
    -------
    int64[entries, bytes of an entry]
        Cycles, summed over the passes: ``placed.cycles`` at most. A plain value occupies its lanes.
        A compressed one occupies its base, which all lanes need, and under inline storage the
        bytes of each lane's delta, under block storage a byte that all lanes but the first need.
    """
    geometry = placed.schedule.geometry
    times = np.zeros((geometry.entries, geometry.entry_bytes), dtype=np.int64)
    if len(placed.home) == placed.entry.shape[1]:
        for entry, block in zip(placed.entry, placed.block, strict=True):
            times += _times_of_places(
                placed.schedule, needs, entry[placed.home], block[placed.home], len(times)
            )
        return times
    first_block = np.zeros_like(placed.home)
    homes = placed.entry.shape[1]
    of_homes = _times_of_places(placed.schedule, needs, placed.home, first_block, homes)
    for entry in placed.entry:
        inside = entry >= 0
        np.add.at(times, entry[inside], of_homes[inside])
    return times


def _times_of_places(
    schedule: Schedule, needs: Needs, place: Integers, block: Integers, places: int
) -> Integers:
    """ACE time of bytes by the place and block of each write: int64[places, bytes]."""
    geometry = schedule.geometry
    times = np.zeros((places, geometry.entry_bytes), dtype=np.int64)

    def those(chosen: Booleans) -> _Lanes:
        return _Lanes(place[chosen], needs.lanes[chosen], needs.cycles[chosen])

    inside = place >= 0
    plain = those(inside & ~schedule.compressed).time(places, geometry.components)
    times += np.repeat(plain, COMPONENT_BYTES, axis=1)
    is_short = inside & schedule.compressed
    if not is_short.any():
        return times
    short = those(is_short)
    begin = short.entry * geometry.entry_bytes + block[is_short] * (geometry.block_bits // 8)
    in_blocks = schedule.technique.stores_in_blocks
    for byte in range(RECORD_BYTES if in_blocks else COMPONENT_BYTES):
        lanes = geometry.all_lanes if byte < COMPONENT_BYTES else geometry.all_lanes - np.uint64(1)
        cycles = short.any_of(lanes)
        times += _total(begin + byte, cycles, times.size).reshape(times.shape)
    if schedule.technique.stores_inline:
        values = schedule.trace.value[schedule.trace.kind == WRITE]
        size = wc_bytes(schedule.trace.values)[values]
        for width, end in enumerate(wc_sizes(geometry.components)[1:3], start=1):
            deltas = those(is_short & (size == end)).time(places, geometry.components)
            times[:, COMPONENT_BYTES:end] += np.repeat(deltas[:, 1:], width, axis=1)
    return times


PLACES = {"file": NOWHERE + 1, "table": IN_TABLE, "lds": IN_LDS, "memory": IN_MEMORY}
"""Where values lie: an entry of the register file, the compression table, the LDS, memory."""


def shares_of_places(placed: PlacedWrites, needs: Needs) -> dict[str, float]:
    """Shares of the ACE time of all lanes by where values lie, as in `PLACES`; their sum is 1.

    NaN where nobody needs any value.
    """
    of_homes = _total(placed.home, needs.lane_cycles, placed.entry.shape[1])
    total = int(of_homes.sum()) * len(placed.entry) or math.nan
    where = np.minimum(placed.entry, 0)
    return {name: int(((where == code) @ of_homes).sum()) / total for name, code in PLACES.items()}


@dataclass(frozen=True, eq=False)
class TechniqueAce:
    """ACE time of the register file under a technique.

    Attributes
    ----------
    placed : PlacedWrites
        Where values lie.
    needs : Needs
        Until when they are needed.
    times : int64[entries, bytes of an entry]
        As of `byte_times`.
    """

    placed: PlacedWrites
    needs: Needs
    times: Integers

    @classmethod
    def of(cls, placed: PlacedWrites, *, reads_first: bool = False, by_lane: bool = True) -> Self:
        """ACE time of values that lie somewhere; keywords as of `needs_of`."""
        needs = needs_of(placed.schedule.trace, reads_first=reads_first, by_lane=by_lane)
        return cls(placed, needs, byte_times(placed, needs))

    @property
    def avf(self) -> float:
        """Share of all bits of the register file that are ACE, on the mean over time."""
        return float(self.times.sum() / self.times.size / self.placed.cycles)

    @property
    def by_entry(self) -> Floats:
        """AVF of each entry: float64[entries]."""
        by_entry: Floats = self.times.mean(axis=1) / self.placed.cycles
        return by_entry

    @property
    def by_bit(self) -> Floats:
        """AVF of the bit positions of an entry, over all entries: float64[bits of an entry]."""
        by_byte: Floats = self.times.mean(axis=0) / self.placed.cycles
        return np.repeat(by_byte, 8)


def ace_under(
    trace: Trace,
    technique: Technique,
    fault_map: Bytes | None = None,
    *,
    delta_limit: int | None = 64,
    reads_first: bool = False,
    by_lane: bool = True,
) -> TechniqueAce:
    """ACE time of the register file under a technique.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    technique : Technique
        Any without a placement program.
    fault_map : uint8[entries], optional
        As of `placed`.
    delta_limit : int or None
        Largest delta of a compressible value.
    reads_first, by_lane : bool
        As of `needs_of`.

    Raises
    ------
    UserError
        As of `placed` and of `mcage.replays.prepare.prepare`.
    """
    where = placed(prepare(trace, technique, delta_limit), fault_map)
    return TechniqueAce.of(where, reads_first=reads_first, by_lane=by_lane)
