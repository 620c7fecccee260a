"""Activity of a slice in a steady pass of a trace: accesses and events.

Everything follows from the schedule of a replay and from its counters; cells are not looked at. How
much of the slice is on meanwhile, see :mod:`mcage.costs.activity`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SliceGeometry
from mcage.replays.outcome import Counters, Event
from mcage.replays.prepare import FixedReplay, PackedReplay, PreparedReplay, prepare
from mcage.replays.schedule import Schedule, writes_of
from mcage.techniques import Gating, Placement, Storage, Technique, refuse_policy
from mcage.traces.model import ALLOC, READ, RELEASE, WRITE, Trace
from mcage.traces.patterns import classify, compressible, wc_bytes

# How much of a slice is on in a steady pass of a trace: entries that are powered or switched on.
#
# Everything follows from the schedule of a replay; cells are not looked at.
#
# =============  ==============================================================================
# gating         on
# =============  ==============================================================================
# none           the whole slice
# unused         entries that any window of the trace covers, all the time; the whole slice
#                where rows may live anywhere
# idle windows   entries of the windows that are open, from their allocation on
# empty          what holds a value, from its first write on; under inline storage also the
#                first component of each register of an open window
# =============  ==============================================================================

BASE_BYTES = 4
"""Bytes of a register that Warped-Compression never switches off: its first component."""


def powered_fractions(schedule: Schedule) -> NDArray[np.float64]:
    """Fraction of an entry that each value keeps on under `empty` gating: float64[writes]."""
    fractions = np.ones(schedule.writes)
    compressed = schedule.compressed
    match schedule.technique.storage:
        case Storage.PLAIN:
            pass
        case Storage.TABLE:
            fractions[compressed] = 0.0
        case Storage.BLOCK:
            fractions[compressed] = 1 / schedule.geometry.blocks
        case Storage.INLINE:
            fractions[compressed] = (
                inline_bytes(schedule)[compressed] / schedule.geometry.entry_bytes
            )
        case unknown:
            refuse_policy(unknown, "the power of stored values")
    return fractions


def _always_on(schedule: Schedule) -> float:
    """Fraction of an entry of an open window that is on without a value."""
    return BASE_BYTES / schedule.geometry.entry_bytes if schedule.technique.stores_inline else 0.0


def switched_on(schedule: Schedule, fractions: NDArray[np.float64]) -> tuple[float, float]:
    """Entries switched on for first values, and for values that follow compressed values.

    A row that gets a new home switches it on; a row that stays in the LDS all its life counts, too.
    """
    technique, windows = schedule.technique, schedule.windows
    match technique.gating:
        case Gating.NONE | Gating.UNUSED:
            return 0.0, 0.0
        case Gating.IDLE_WINDOWS:
            return float(windows.size.sum()), 0.0
        case Gating.EMPTY:
            pass
        case unknown:
            refuse_policy(unknown, "the entries that are switched on")
    if technique.redirects:
        begins = schedule.residency_first == np.arange(schedule.writes)
        return float(fractions[begins].sum()), 0.0
    always_on, first = _always_on(schedule), schedule.first
    previous = writes_of(schedule.trace).previous
    opened = always_on * float(windows.size.sum()) + float(
        (fractions[first] - always_on).clip(0).sum()
    )
    expanded = (fractions - fractions[previous])[~first].clip(0).sum()
    return opened, float(expanded)


def powered_entry_cycles(
    replay: PreparedReplay, fractions: NDArray[np.float64], spilled_row_cycles: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Sum over cycles of the entries that are on: float64[instances].

    Parameters
    ----------
    replay : PreparedReplay
        A technique on a trace.
    fractions : float64[writes]
        From `powered_fractions`.
    spilled_row_cycles : float64[instances]
        Sum over cycles of the rows in the LDS.
    """
    schedule = replay.schedule
    technique, lasting = schedule.technique, schedule.end_cycle - schedule.cycle
    match technique.gating:
        case Gating.NONE | Gating.UNUSED:
            return float(used_entries(replay) * schedule.cycles) + 0 * spilled_row_cycles
        case Gating.IDLE_WINDOWS:
            return _open_entry_cycles(schedule) + 0 * spilled_row_cycles
        case Gating.EMPTY:
            pass
        case unknown:
            refuse_policy(unknown, "the power of entries")
    always_on = _always_on(schedule)
    whole = float(lasting[~schedule.compressed].sum())
    parts = float(lasting[schedule.compressed] @ fractions[schedule.compressed])
    empty = _open_entry_cycles(schedule) - float(lasting.sum())
    # Spilled rows keep nothing on; beyond the uncompressed ones they are compressed, as above.
    beyond = np.maximum(spilled_row_cycles - whole, 0.0)
    spilled = (spilled_row_cycles - beyond) + beyond / schedule.geometry.blocks
    return whole + parts + always_on * empty - spilled


def _open_entry_cycles(schedule: Schedule) -> float:
    """Sum over cycles of the entries of open windows."""
    windows = schedule.windows
    return float((windows.size * (windows.release_cycle - windows.alloc_cycle)).sum())


def used_entries(replay: PreparedReplay) -> int:
    """Entries on under `unused` or no gating; otherwise the most that are in windows at once."""
    technique, schedule = replay.technique, replay.schedule
    if not isinstance(replay, FixedReplay | PackedReplay):
        return replay.geometry.entries
    match technique.gating:
        case Gating.NONE:
            return replay.geometry.entries
        case Gating.IDLE_WINDOWS | Gating.EMPTY:
            return _most_open_entries(schedule)
        case Gating.UNUSED:
            pass
        case unknown:
            refuse_policy(unknown, "the entries in use")
    used = np.zeros(replay.geometry.entries, dtype=bool)
    for starts, size in zip(replay.layout.base.T, schedule.windows.size, strict=True):
        for start in np.unique(starts):
            used[start : start + size] = True
    return int(used.sum())


def _most_open_entries(schedule: Schedule) -> int:
    sign = np.select([schedule.op_kind == ALLOC, schedule.op_kind == RELEASE], [1, -1])
    window = np.where(sign, schedule.op, 0)
    return int(np.cumsum(sign * schedule.windows.size[window]).max())


def entries_that_hold(replay: PreparedReplay) -> int:
    """Entries that stay on while the slice is idle after a pass, when no window is open."""
    return 0 if replay.technique.gates_released else used_entries(replay)


def inline_bytes(schedule: Schedule) -> NDArray[np.int64]:
    """Bytes that each value takes under Warped-Compression: int64[writes]."""
    trace = schedule.trace
    sizes: NDArray[np.int64] = wc_bytes(trace.values)[trace.value[trace.kind == WRITE]]
    return sizes


CONVENTIONAL = Technique(
    name="conventional",
    placement=Placement.DIRECT,
    storage=Storage.PLAIN,
    gating=Gating.NONE,
    source="Valero et al., IEEE TC 2019, section 6.6; Toca-Diaz et al. (RRCD), section V.B",
    summary="all of the slice on all the time: what energy is compared with",
)
"""The design that both papers measure energy against: it switches nothing off, ever."""


@dataclass(frozen=True, eq=False)
class Accesses:
    """Reads or writes of registers by where the value lives; float64[instances], mean of a pass.

    Attributes
    ----------
    uncompressed : float64[instances]
        Registers in the slice, four blocks each.
    compressed : float64[instances]
        Registers in compressed form, wherever their storage puts them.
    compressed_blocks : float64[instances]
        Blocks of the slice that the accesses to compressed registers touch.
    lds : float64[instances]
        Spilled registers, in the LDS and in memory.
    memory : float64[instances]
        Those of them that are in memory.
    """

    uncompressed: NDArray[np.float64]
    compressed: NDArray[np.float64]
    compressed_blocks: NDArray[np.float64]
    lds: NDArray[np.float64]
    memory: NDArray[np.float64]

    @property
    def registers(self) -> NDArray[np.float64]:
        """All accesses."""
        return self.uncompressed + self.compressed + self.lds

    def slice_blocks(self, geometry: SliceGeometry) -> NDArray[np.float64]:
        """Blocks of the slice that are accessed."""
        return geometry.blocks * self.uncompressed + self.compressed_blocks


@dataclass(frozen=True, eq=False)
class CompressionWork:
    """Events of compression in a pass; all 0 under techniques that do not compress.

    Attributes
    ----------
    movs, mov_read_blocks : int
        Decompressing MOVs: each reads a compressed register, `mov_read_blocks` blocks of the slice
        in all, and writes a whole uncompressed one.
    mispredictions : int
        Writes whose first block is compressible, but which are not compressible as a whole.
    examined_blocks : int
        Blocks that the compression unit looks at: for each write under a full EXEC mask, those up
        to the first block that does not fit.
    expansions : int
        Writes of an uncompressed value to a register that was compressed.
    """

    movs: int
    mov_read_blocks: int
    mispredictions: int
    examined_blocks: int
    expansions: int


@dataclass(frozen=True, eq=False)
class PowerGating:
    """Which entries are on in a pass, and how often entries are switched on.

    Attributes
    ----------
    wakeups : float64[instances]
        Writes that wait until an entry that was off is on.
    opened_entries, expanded_entries : float
        Entries switched on because they receive a first value or their window opens; and because
        a value that takes more of the entry follows a compressed value. A part of an entry counts
        as that part, here and below.
    powered_entry_cycles : float64[instances]
        Sum over cycles of the entries that are on.
    """

    wakeups: NDArray[np.float64]
    opened_entries: float
    expanded_entries: float
    powered_entry_cycles: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Activity:
    """Activity of a slice in one steady pass: means over the passes of a replay.

    What the fault map can change is float64[instances]; the rest is the same for all fault maps.

    Attributes
    ----------
    geometry : SliceGeometry
        The slice.
    cycles : int
        Length of the pass.
    instructions : int
        Vector instructions, estimated: see `activity_of`.
    reads, writes : Accesses
        Accesses of the trace, without those of decompressing MOVs.
    compression : CompressionWork
        What compressing and decompressing takes.
    redirections : float64[instances]
        Homes chosen, the LDS included.
    gating : PowerGating
        Entries that are on, and entries switched on.
    """

    geometry: SliceGeometry
    cycles: int
    instructions: int
    reads: Accesses
    writes: Accesses
    compression: CompressionWork
    redirections: NDArray[np.float64]
    gating: PowerGating

    @property
    def decompressed_blocks(self) -> NDArray[np.float64]:
        """Blocks that the decompression units unwind: all of each compressed register read."""
        return self.geometry.blocks * (self.reads.compressed + self.compression.movs)

    @property
    def table_reads(self) -> NDArray[np.float64]:
        """Look-ups of source registers in a table that tells whether each is compressed."""
        return self.reads.registers + self.compression.movs

    @property
    def table_writes(self) -> NDArray[np.float64]:
        """Updates of such a table: compressed values, and those that cease to be."""
        return self.writes.compressed + self.compression.expansions


def conventional(trace: Trace) -> Activity:
    """Count what the conventional slice does, all of which is on all the time.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    """
    # Imported here, since constants are asked for by tables, too, which replay nothing.
    from mcage.engines.interface import fault_free_maps
    from mcage.engines.numpy_engine import NumpyEngine

    replay = prepare(trace, CONVENTIONAL)
    counters = NumpyEngine().count(replay, fault_free_maps(geometry=trace.geometry))
    return activity_of(replay, counters)


def activity_of(replay: PreparedReplay, counters: Counters) -> Activity:
    """Count what a slice does in a steady pass.

    Spilled registers are counted as uncompressed, since a compressed register gets a home as long
    as a single sound block is free. Only where more registers are spilled than are uncompressed,
    the rest are counted as compressed.

    The number of vector instructions is not in a trace. It is estimated as the number of cycles in
    which a wavefront reads registers, or of those in which it writes registers, whichever is
    larger: nearly every instruction reads, or writes, in a single cycle.

    Where wavefronts wait for one another on a fault map, the pass is that without faults: hand
    the time that they wait to `energy` as part of the slowdown.

    Parameters
    ----------
    replay : PreparedReplay
        A technique on a trace.
    counters : Counters
        What an engine counted for it.

    Notes
    -----
    Valero et al., IEEE TC 2019, sections 5.1.1, 5.1.3, 6.2 and 6.6; Toca-Diaz et al. (RRCD),
    sections IV and V.B.
    """
    schedule, passes = replay.schedule, counters.passes
    fractions = powered_fractions(schedule)
    opened, expanded = switched_on(schedule, fractions)
    previous = writes_of(schedule.trace).previous
    moved = schedule.divergent & schedule.was_compressed
    read_blocks, write_blocks = _blocks_of_compressed(schedule)
    served = schedule.reads_after
    return Activity(
        geometry=schedule.geometry,
        cycles=schedule.cycles,
        instructions=_instructions(schedule.trace),
        reads=_accesses(
            schedule.reads,
            int(served[schedule.compressed].sum()),
            int((served * read_blocks)[schedule.compressed].sum()),
            counters.lds_reads / passes,
            counters.memory_reads / passes,
        ),
        writes=_accesses(
            schedule.writes,
            int(schedule.compressed.sum()),
            int(write_blocks[schedule.compressed].sum()),
            counters.lds / passes,
            counters.memory / passes,
        ),
        compression=CompressionWork(
            movs=schedule.mov_writes,
            mov_read_blocks=int(read_blocks[previous[moved]].sum()),
            mispredictions=schedule.mispredicted_writes,
            examined_blocks=_examined_blocks(schedule),
            expansions=int((schedule.was_compressed & ~schedule.compressed).sum()),
        ),
        redirections=(counters.to_reliable + counters.to_faulty + counters.lds) / passes,
        gating=PowerGating(
            wakeups=counters.wakeups / passes,
            opened_entries=opened,
            expanded_entries=expanded,
            powered_entry_cycles=powered_entry_cycles(
                replay, fractions, counters.spilled_row_cycles / passes
            ),
        ),
    )


def _accesses(
    registers: int,
    compressed: int,
    compressed_blocks: int,
    spilled: NDArray[np.float64],
    in_memory: NDArray[np.float64],
) -> Accesses:
    """Split accesses, given the numbers of those to compressed and to spilled registers."""
    spilled_compressed = np.maximum(spilled - (registers - compressed), 0.0)
    return Accesses(
        uncompressed=registers - compressed - (spilled - spilled_compressed),
        compressed=compressed - spilled_compressed,
        # Only block storage ever spills a compressed register, and there it is one block.
        compressed_blocks=compressed_blocks - spilled_compressed,
        lds=spilled,
        memory=in_memory,
    )


def _instructions(trace: Trace) -> int:
    slots = int(trace.slot.max()) + 1

    def cycles_with(kind: int) -> int:
        events = trace.kind == kind
        # Pairs of cycle and slot are sorted many times faster as single numbers.
        pairs = np.sort(trace.cycle[events].astype(np.int64) * slots + trace.slot[events])
        return min(len(pairs), 1) + int(np.count_nonzero(np.diff(pairs)))

    return max(cycles_with(READ), cycles_with(WRITE))


def _blocks_of_compressed(schedule: Schedule) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Blocks of the slice that reading and writing each value takes if it is compressed.

    With table or inline storage, all blocks are written while the compression unit looks at them; a
    read stops at the first block, or at the last block that holds a byte. A row that a selection
    unit places has no block while its value is in the table.
    """
    technique, geometry = schedule.technique, schedule.geometry
    block = np.ones(schedule.writes, dtype=np.int64)
    match technique.storage:
        case Storage.BLOCK:
            return block, block
        case Storage.INLINE:
            return -(-inline_bytes(schedule) // (geometry.block_bits // 8)), geometry.blocks * block
        case Storage.PLAIN | Storage.TABLE:
            if technique.redirects:
                return 0 * block, 0 * block
            return block, geometry.blocks * block
        case unknown:
            refuse_policy(unknown, "the accesses to compressed registers")


def _examined_blocks(schedule: Schedule) -> int:
    technique, trace, geometry = schedule.technique, schedule.trace, schedule.geometry
    if not technique.compresses:
        return 0
    blocks = np.ones(len(trace.values), dtype=np.int64)
    fits_so_far = np.ones(len(trace.values), dtype=bool)
    for seen in range(1, geometry.blocks):
        begin = trace.values[:, : seen * geometry.block_components]
        if technique.stores_inline:
            fits_so_far &= wc_bytes(begin) < 4 * begin.shape[1]
        else:
            fits_so_far &= compressible(classify(begin), schedule.delta_limit)
        blocks += fits_so_far
    value = trace.value[trace.kind == WRITE]
    return int(blocks[value[~schedule.divergent]].sum())


# Activity of a technique on a kernel, put together from the events of each instance.


@dataclass(frozen=True, eq=False)
class KernelActivity:
    """Activity of a technique on a kernel, on any fault map.

    `mcage.costs.activity_of` looks through the whole schedule of a replay. Here that is done once,
    for a slice on which nothing is ever redirected, spilled or woken up; the events of an instance
    are then put in.

    Attributes
    ----------
    undisturbed : Activity
        Of that slice.
    uncompressed_entry_cycles : float
        Sum over cycles of the entries that hold an uncompressed value.
    spills_switch_off : bool
        Whether the entry of a value is off while the value is spilled.
    """

    undisturbed: Activity
    uncompressed_entry_cycles: float
    spills_switch_off: bool

    @classmethod
    def of(cls, replay: PreparedReplay) -> Self:
        """Look through the schedule of a replay."""
        schedule = replay.schedule
        lasting = (schedule.end_cycle - schedule.cycle)[~schedule.compressed]
        none = np.zeros(1, dtype=np.int64)
        return cls(
            undisturbed=activity_of(replay, Counters(1, *(none for _ in range(10)))),
            uncompressed_entry_cycles=float(lasting.sum()),
            spills_switch_off=replay.technique.gates_empty,
        )

    def at(self, kernel: NDArray[np.int64]) -> "KernelActivity":
        """Activities of some kernels, int64[n], of those that `of_all` has joined."""
        return _each(lambda values: values[0][kernel], [self])

    def under(self, events: NDArray[np.float64]) -> Activity:
        """Activity with events per cycle float64[n, EVENTS]: what `activity_of` finds for them.

        Of joined activities (`of_all`), each has its own events.
        """
        base = self.undisturbed
        counts = events.T * base.cycles
        powered = base.gating.powered_entry_cycles + 0 * counts[Event.SPILLED_ROW]
        if self.spills_switch_off:
            whole, parts = _spilled(counts[Event.SPILLED_ROW], self.uncompressed_entry_cycles)
            powered = powered - whole - parts / base.geometry.blocks
        return replace(
            base,
            reads=_with_spills(base.reads, counts[Event.LDS_READ], counts[Event.MEMORY_READ]),
            writes=_with_spills(base.writes, counts[Event.LDS], counts[Event.MEMORY]),
            redirections=counts[Event.TO_RELIABLE] + counts[Event.TO_FAULTY] + counts[Event.LDS],
            gating=replace(base.gating, wakeups=counts[Event.WAKEUP], powered_entry_cycles=powered),
        )


def _with_spills(
    accesses: Accesses, spilled: NDArray[np.float64], in_memory: NDArray[np.float64]
) -> Accesses:
    uncompressed, compressed = _spilled(spilled, accesses.uncompressed)
    return Accesses(
        uncompressed=accesses.uncompressed - uncompressed,
        compressed=accesses.compressed - compressed,
        compressed_blocks=accesses.compressed_blocks - compressed,
        lds=spilled,
        memory=in_memory,
    )


def _spilled(
    spilled: NDArray[np.float64], uncompressed: float | NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Uncompressed and compressed ones of what is spilled: the latter only when all else is."""
    beyond = np.maximum(spilled - uncompressed, 0.0)
    return spilled - beyond, beyond


Record = TypeVar("Record", Activity, KernelActivity)


def of_all(records: Sequence[Record]) -> Record:
    """Activities on several kernels as one, each of whose numbers is an array [kernels]."""
    return _each(lambda numbers: np.concatenate([np.reshape(n, -1) for n in numbers]), records)


def _each(function: Callable[[list[Any]], Any], records: Sequence[Record]) -> Record:
    """A record of what a function makes of the numbers of some, field by field."""

    def of_field(values: list[Any]) -> Any:
        if isinstance(values[0], SliceGeometry | bool):  # the same on all kernels
            return values[0]
        return _each(function, values) if is_dataclass(values[0]) else function(values)

    names = [field.name for field in fields(records[0])]
    made = {name: of_field([getattr(each, name) for each in records]) for name in names}
    return replace(records[0], **made)
