"""What a slice does in a steady pass of a trace: accesses and events.

Everything follows from the schedule of a replay and from its counters; cells are not looked at. How
much of the slice is on meanwhile is told by :mod:`mcage.costs.powered_entries`.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mcage.costs.powered_entries import (
    compressed_entry_cycles,
    inline_bytes,
    powered_entry_cycles,
    powered_fractions,
    switched_on,
    used_entries,
)
from mcage.geometry import SliceGeometry
from mcage.replays.outcome import Counters
from mcage.replays.prepare import PreparedReplay, prepare
from mcage.replays.schedule import Schedule, writes_of
from mcage.techniques import Gating, Placement, Storage, Technique, refuse_policy
from mcage.traces.model import READ, WRITE, Trace
from mcage.traces.patterns import classify, compressible, wc_bytes

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

    def slice_blocks(self, geometry: SliceGeometry) -> NDArray[np.float64]:
        """Blocks of the slice that are accessed."""
        return geometry.blocks * self.uncompressed + self.compressed_blocks


@dataclass(frozen=True, eq=False)
class CompressionWork:
    """What a technique that compresses values does for it in a pass; all 0 where none does.

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
    compressed_entry_cycles : float
        Sum over cycles of the entries that compression alone keeps off.
    used_entries : int
        Entries that the workload uses when it uses most; all entries where rows may live anywhere.
    """

    wakeups: NDArray[np.float64]
    opened_entries: float
    expanded_entries: float
    powered_entry_cycles: NDArray[np.float64]
    compressed_entry_cycles: float
    used_entries: int


@dataclass(frozen=True, eq=False)
class Activity:
    """What a slice does in one steady pass: means over the passes of a replay.

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
    def gated_entry_cycles(self) -> NDArray[np.float64]:
        """Sum over cycles of the entries that are off."""
        return float(self.geometry.entries * self.cycles) - self.gating.powered_entry_cycles

    def with_idle_entries_on(self) -> "Activity":
        """Return the same activity if an entry were off only while unused or compressed.

        Entries that the workload uses at any time then stay on before their first value and after
        the end of their window. The energy of Valero et al., IEEE TC 2019, section 6.6, is to be
        read so; the gating policies of mcage switch off all that holds nothing.
        """
        gating = self.gating
        on = float(gating.used_entries * self.cycles) - gating.compressed_entry_cycles
        return replace(
            self,
            gating=replace(
                gating,
                opened_entries=0.0,
                powered_entry_cycles=0 * gating.powered_entry_cycles + on,
            ),
        )

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
    from mcage.engines.numpy_engine.engine import NumpyEngine

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
        ),
        writes=_accesses(
            schedule.writes,
            int(schedule.compressed.sum()),
            int(write_blocks[schedule.compressed].sum()),
            counters.lds / passes,
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
            compressed_entry_cycles=compressed_entry_cycles(schedule, fractions),
            used_entries=used_entries(replay),
        ),
    )


def _accesses(
    registers: int, compressed: int, compressed_blocks: int, spilled: NDArray[np.float64]
) -> Accesses:
    """Split accesses, given the numbers of those to compressed and to spilled registers."""
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
