"""What a slice does in a steady pass of a trace: accesses, events, and how much of it is on.

Everything follows from the schedule of a replay and from its counters; cells are not looked at.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mcage.engines.interface import fault_free_maps
from mcage.engines.numpy_engine.engine import NumpyEngine
from mcage.geometry import SLICE
from mcage.replays.outcome import Counters
from mcage.replays.prepare import FixedReplay, PackedReplay, PreparedReplay, prepare
from mcage.replays.schedule import Schedule
from mcage.techniques import Gating, Placement, Storage, Technique, refuse_policy
from mcage.traces.model import ALLOC, READ, RELEASE, WRITE, Trace
from mcage.traces.patterns import classify, compressible, wc_bytes

BASE_BYTES = 4
"""Bytes of a register that Warped-Compression never switches off: its first component."""

CONVENTIONAL = Technique(
    name="conventional",
    placement=Placement.DIRECT,
    storage=Storage.PLAIN,
    gating=Gating.NONE,
    source="Valero et al., IEEE TC 2019, section 6.6; Toca-Diaz et al. (RRCD), section V.B",
    summary="all of the slice on all the time: what energy is compared with",
)
"""The design that both papers measure energy against: it switches nothing off, ever."""

_ENTRY_BYTES = SLICE.entry_bits // 8
_BLOCK_BYTES = SLICE.block_bits // 8


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
        Spilled registers, in the LDS.
    """

    uncompressed: NDArray[np.float64]
    compressed: NDArray[np.float64]
    compressed_blocks: NDArray[np.float64]
    lds: NDArray[np.float64]

    @property
    def registers(self) -> NDArray[np.float64]:
        """All accesses."""
        return self.uncompressed + self.compressed + self.lds

    @property
    def slice_blocks(self) -> NDArray[np.float64]:
        """Blocks of the slice that are accessed."""
        return SLICE.blocks * self.uncompressed + self.compressed_blocks


@dataclass(frozen=True, eq=False)
class Activity:
    """What a slice does in one steady pass: means over the passes of a replay.

    What the fault map can change is float64[instances]; the rest is the same for all.

    Attributes
    ----------
    cycles : int
        Length of the pass.
    instructions : int
        Vector instructions, estimated: see `activity_of`.
    reads, writes : Accesses
        Accesses of the trace itself. Decompressing MOVs are not among them.
    movs, mov_read_blocks : int
        Decompressing MOVs: each reads a compressed register, `mov_read_blocks` blocks of the slice
        in all, and writes a whole uncompressed one.
    mispredictions : int
        Writes whose first block compresses, but which do not as a whole.
    examined_blocks : int
        Blocks that the compression unit looks at: of each write under a full EXEC mask, up to the
        first one that does not fit.
    expansions : int
        Writes of an uncompressed value to a register that was compressed.
    redirections : float64[instances]
        Homes chosen, the LDS included.
    wakeups : float64[instances]
        Writes that wait until an entry that was off is on.
    opened_entries, expanded_entries : float
        Entries switched on since they receive a first value or their window opens; since an
        uncompressed value, or one that compresses less, follows a compressed one. Parts of an
        entry count as such, here and below.
    powered_entry_cycles : float64[instances]
        Sum over cycles of the entries that are on.
    compressed_entry_cycles : float
        Sum over cycles of the entries that compression alone keeps off.
    used_entries : int
        Entries that the workload uses when it uses most; all where rows may live anywhere.
    """

    cycles: int
    instructions: int
    reads: Accesses
    writes: Accesses
    movs: int
    mov_read_blocks: int
    mispredictions: int
    examined_blocks: int
    expansions: int
    redirections: NDArray[np.float64]
    wakeups: NDArray[np.float64]
    opened_entries: float
    expanded_entries: float
    powered_entry_cycles: NDArray[np.float64]
    compressed_entry_cycles: float
    used_entries: int

    @property
    def gated_entry_cycles(self) -> NDArray[np.float64]:
        """Sum over cycles of the entries that are off."""
        return float(SLICE.entries * self.cycles) - self.powered_entry_cycles

    def with_idle_entries_on(self) -> "Activity":
        """Return the same activity if an entry were off only while unused or compressed.

        Entries stay on before their first value and after the end of their window, as long as the
        workload uses them at some time. So the energy of Valero et al., IEEE TC 2019, section 6.6,
        is to be read; mcage's own gating switches off whatever holds nothing.
        """
        on = float(self.used_entries * self.cycles) - self.compressed_entry_cycles
        return replace(
            self, opened_entries=0.0, powered_entry_cycles=0 * self.powered_entry_cycles + on
        )

    @property
    def decompressed_blocks(self) -> NDArray[np.float64]:
        """Blocks that the decompression units unwind: four of each compressed register read."""
        return SLICE.blocks * (self.reads.compressed + self.movs)

    @property
    def table_reads(self) -> NDArray[np.float64]:
        """Look-ups in a table that tells for every source register whether it is compressed."""
        return self.reads.registers + self.movs

    @property
    def table_writes(self) -> NDArray[np.float64]:
        """Updates of such a table: compressed values, and those that cease to be."""
        return self.writes.compressed + self.expansions


def conventional(trace: Trace) -> Activity:
    """Count what the conventional slice does, all of which is on all the time.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    """
    replay = prepare(trace, CONVENTIONAL)
    return activity_of(replay, NumpyEngine().count(replay, fault_free_maps()))


def activity_of(replay: PreparedReplay, counters: Counters) -> Activity:
    """Count what a slice does in a steady pass.

    Spilled registers are counted as uncompressed, since a compressed one finds a home as long as a
    single sound block is free; only where more are spilled than there are uncompressed ones are the
    rest compressed.

    The number of vector instructions is not in a trace. The estimate is the cycles in which a
    wavefront reads registers, or those in which it writes some, whichever are more: nearly every
    instruction does the one or the other in one cycle.

    Where wavefronts wait for one another on a fault map, the pass is the one without faults: hand
    the time that they wait to `energy` as part of the slowdown.

    What is on is decided as follows.

    =============  ==============================================================================
    gating         on
    =============  ==============================================================================
    none           the whole slice
    unused         entries that some window of the trace covers, all the time; the whole slice
                   where rows may live anywhere
    idle windows   entries of the windows that are open, from their allocation on
    empty          what holds a value, from its first write on; under inline storage also the
                   first component of every register of an open window
    =============  ==============================================================================

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
    shares = _powered_shares(schedule)
    opened, expanded = _switched_on(schedule, shares)
    previous = _previous_write(schedule)
    moved = schedule.divergent & schedule.was_compressed
    read_blocks, write_blocks = _blocks_of_compressed(schedule)
    served = schedule.reads_after
    return Activity(
        cycles=schedule.cycles,
        instructions=_instructions(schedule.trace),
        reads=_accesses(
            schedule.reads,
            int(served[schedule.compressed].sum()),
            int((served * read_blocks)[schedule.compressed].sum()),
            counters.lds_reads / passes,
        ),
        writes=_accesses(
            schedule.writes,
            int(schedule.compressed.sum()),
            int(write_blocks[schedule.compressed].sum()),
            counters.lds / passes,
        ),
        movs=schedule.mov_writes,
        mov_read_blocks=int(read_blocks[previous[moved]].sum()),
        mispredictions=schedule.mispredicted_writes,
        examined_blocks=_examined_blocks(schedule),
        expansions=int((schedule.was_compressed & ~schedule.compressed).sum()),
        redirections=(counters.to_reliable + counters.to_faulty + counters.lds) / passes,
        wakeups=counters.wakeups / passes,
        opened_entries=opened,
        expanded_entries=expanded,
        powered_entry_cycles=_powered_entry_cycles(
            replay, shares, counters.spilled_row_cycles / passes
        ),
        compressed_entry_cycles=_compressed_entry_cycles(schedule, shares),
        used_entries=_used_entries(replay),
    )


def entries_that_hold(replay: PreparedReplay) -> int:
    """Entries that stay on while the slice is idle after a pass, when no window is open."""
    return 0 if replay.technique.gates_released else _used_entries(replay)


def _accesses(
    registers: int, compressed: int, compressed_blocks: int, spilled: NDArray[np.float64]
) -> Accesses:
    """Split accesses, of which so many are to compressed and so many to spilled registers."""
    spilled_compressed = np.maximum(spilled - (registers - compressed), 0.0)
    return Accesses(
        uncompressed=registers - compressed - (spilled - spilled_compressed),
        compressed=compressed - spilled_compressed,
        # Only block storage ever spills a compressed register, and there it is one block.
        compressed_blocks=compressed_blocks - spilled_compressed,
        lds=spilled,
    )


def _instructions(trace: Trace) -> int:
    slots = int(trace.slot.max()) + 1

    def cycles_with(kind: int) -> int:
        events = trace.kind == kind
        # As single numbers, pairs of cycle and slot are sorted many times faster.
        pairs = np.sort(trace.cycle[events].astype(np.int64) * slots + trace.slot[events])
        return min(len(pairs), 1) + int(np.count_nonzero(np.diff(pairs)))

    return max(cycles_with(READ), cycles_with(WRITE))


def _previous_write(schedule: Schedule) -> NDArray[np.int64]:
    """Write before in the same register of the same window; of a first one, any: int64[writes]."""
    order = np.lexsort((np.arange(schedule.writes), schedule.reg, schedule.window))
    previous = np.zeros(schedule.writes, dtype=np.int64)
    previous[order[1:]] = order[:-1]
    return previous


def _blocks_of_compressed(schedule: Schedule) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Blocks of the slice that reading and writing each value takes if it is compressed.

    With a table or inline, all blocks are written while the compression unit looks at them; a read
    stops at the first block, or at the last one that holds a byte. A row that a selection unit
    places has no block of its own while its value is in the table.
    """
    technique = schedule.technique
    one = np.ones(schedule.writes, dtype=np.int64)
    match technique.storage:
        case Storage.BLOCK:
            return one, one
        case Storage.INLINE:
            return -(-_inline_bytes(schedule) // _BLOCK_BYTES), SLICE.blocks * one
        case Storage.PLAIN | Storage.TABLE:
            if technique.redirects:
                return 0 * one, 0 * one
            return one, SLICE.blocks * one
        case unknown:
            refuse_policy(unknown, "the accesses to compressed registers")


def _inline_bytes(schedule: Schedule) -> NDArray[np.int64]:
    trace = schedule.trace
    sizes: NDArray[np.int64] = wc_bytes(trace.values)[trace.value[trace.kind == WRITE]]
    return sizes


def _examined_blocks(schedule: Schedule) -> int:
    technique, trace = schedule.technique, schedule.trace
    if not technique.compresses:
        return 0
    blocks = np.ones(len(trace.values), dtype=np.int64)
    fits_so_far = np.ones(len(trace.values), dtype=bool)
    for seen in range(1, SLICE.blocks):
        begin = trace.values[:, : seen * SLICE.block_components]
        if technique.stores_inline:
            fits_so_far &= wc_bytes(begin) < _ENTRY_BYTES
        else:
            fits_so_far &= compressible(classify(begin), schedule.delta_limit)
        blocks += fits_so_far
    value = trace.value[trace.kind == WRITE]
    return int(blocks[value[~schedule.divergent]].sum())


def _powered_shares(schedule: Schedule) -> NDArray[np.float64]:
    """Part of an entry that each value keeps on under `empty` gating: float64[writes]."""
    shares = np.ones(schedule.writes)
    compressed = schedule.compressed
    match schedule.technique.storage:
        case Storage.PLAIN:
            pass
        case Storage.TABLE:
            shares[compressed] = 0.0
        case Storage.BLOCK:
            shares[compressed] = 1 / SLICE.blocks
        case Storage.INLINE:
            shares[compressed] = _inline_bytes(schedule)[compressed] / _ENTRY_BYTES
        case unknown:
            refuse_policy(unknown, "the power of stored values")
    return shares


def _always_on(technique: Technique) -> float:
    """Part of an entry of an open window that is on without a value."""
    return BASE_BYTES / _ENTRY_BYTES if technique.stores_inline else 0.0


def _switched_on(schedule: Schedule, shares: NDArray[np.float64]) -> tuple[float, float]:
    """Entries switched on for first values, and for values after compressed ones.

    A row that finds a new home opens it; one that is spilled as long as it lives counts as well.
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
        begins = schedule.stay_first == np.arange(schedule.writes)
        return float(shares[begins].sum()), 0.0
    always_on, first = _always_on(technique), schedule.first
    previous = _previous_write(schedule)
    opened = always_on * float(windows.size.sum()) + float(
        (shares[first] - always_on).clip(0).sum()
    )
    expanded = (shares - shares[previous])[~first].clip(0).sum()
    return opened, float(expanded)


def _powered_entry_cycles(
    replay: PreparedReplay, shares: NDArray[np.float64], spilled_row_cycles: NDArray[np.float64]
) -> NDArray[np.float64]:
    schedule = replay.schedule
    technique, lasting = schedule.technique, schedule.end_cycle - schedule.cycle
    match technique.gating:
        case Gating.NONE | Gating.UNUSED:
            return float(_used_entries(replay) * schedule.cycles) + 0 * spilled_row_cycles
        case Gating.IDLE_WINDOWS:
            return _open_entry_cycles(schedule) + 0 * spilled_row_cycles
        case Gating.EMPTY:
            pass
        case unknown:
            refuse_policy(unknown, "the power of entries")
    always_on = _always_on(technique)
    whole = float(lasting[~schedule.compressed].sum())
    parts = float(lasting[schedule.compressed] @ shares[schedule.compressed])
    empty = _open_entry_cycles(schedule) - float(lasting.sum())
    # Spilled rows keep nothing on; beyond the uncompressed ones they are compressed, as above.
    beyond = np.maximum(spilled_row_cycles - whole, 0.0)
    spilled = (spilled_row_cycles - beyond) + beyond / SLICE.blocks
    return whole + parts + always_on * empty - spilled


def _compressed_entry_cycles(schedule: Schedule, shares: NDArray[np.float64]) -> float:
    """Of registers that hold a value and have an entry of their own, whatever is off of it."""
    if not schedule.technique.gates_empty or schedule.technique.redirects:
        return 0.0
    return float((schedule.end_cycle - schedule.cycle) @ (1 - shares))


def _open_entry_cycles(schedule: Schedule) -> float:
    """Sum over cycles of the entries of open windows."""
    windows = schedule.windows
    return float((windows.size * (windows.release_cycle - windows.alloc_cycle)).sum())


def _used_entries(replay: PreparedReplay) -> int:
    """Entries on under `unused` or no gating; else the most that are in windows at once."""
    technique, schedule = replay.technique, replay.schedule
    if not isinstance(replay, FixedReplay | PackedReplay):
        return SLICE.entries
    match technique.gating:
        case Gating.NONE:
            return SLICE.entries
        case Gating.IDLE_WINDOWS | Gating.EMPTY:
            return _most_open_entries(schedule)
        case Gating.UNUSED:
            pass
        case unknown:
            refuse_policy(unknown, "the entries in use")
    used = np.zeros(SLICE.entries, dtype=bool)
    for starts, size in zip(replay.layout.base.T, schedule.windows.size, strict=True):
        for start in np.unique(starts):
            used[start : start + size] = True
    return int(used.sum())


def _most_open_entries(schedule: Schedule) -> int:
    sign = np.select([schedule.op_kind == ALLOC, schedule.op_kind == RELEASE], [1, -1])
    window = np.where(sign, schedule.op, 0)
    return int(np.cumsum(sign * schedule.windows.size[window]).max())
