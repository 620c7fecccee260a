"""Rates of a technique over busy and idle time, for all lives of a batch in one compiled loop.

:meth:`Slices.rates` is the reference: it weighs an activity by :func:`mcage.costs.energy` and
:func:`mcage.costs.slowdown`, which take tens of array operations for each kernel. On most fault
maps events differ from kernel to kernel and from life to life, so that a batch has 100,000 such
activities: :func:`add_up` does the same operations in the same order, number by number, and its
results are equal to the last bit.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.compiled import compiled
from mcage.costs.activity import KernelActivity
from mcage.costs.energy import energy, slowdown, units_of
from mcage.replays.outcome import EVENTS, Event
from mcage.spec.cost_constants import Component, Penalties, Technology
from mcage.techniques import Technique


class Constants(NamedTuple):
    """What `add_up` weighs the events of a kernel with.

    Attributes
    ----------
    cycles, nanoseconds, clock_ghz : float
        A busy pass, and the clock that it follows.
    blocks : float
        Blocks of an entry.
    powered, all_on : float
        Entries that are on, and all entries, summed over the cycles of a pass.
    uncompressed_cycles, switches_off : float
        As of `KernelActivity`: the latter 1 if spills switch entries off, or 0.
    reads, reads_compressed, read_blocks, writes, writes_compressed, write_blocks : float
        Accesses to uncompressed and to compressed registers if none is spilled, and blocks that the
        latter take.
    mov_reads, mov_writes, blocks_in_vain : float
        Blocks that MOVs read and write, and that wrong speculations write.
    movs, expansions, mispredictions : float
        As of `CompressionWork`.
    wakeup, lds, memory, refresh : float
        Unhidden cycles of an event; of a refresh those of all refreshes of a pass.
    mov_lost, pipeline_lost, misprediction_lost : float
        Slowdown that no fault map changes.
    leakage_mw, read_pj, write_pj : float
        The slice.
    compressing_mw, compressed_pj, decompress_pj : float
        The units: leakage of all, energy of all blocks that are examined, and of a block.
    table_mw, table_read_pj, table_write_pj, refresh_period : float
        The compression table, and the cycles from refresh to refresh.
    redirecting_mw, home_read_pj, home_write_pj, select_pj : float
        The redirection table, and the selection unit.
    buffer_mw, buffer_write_pj, buffer_reads_pj : float
        The destination buffer: its leakage, a write of a block, and all reads of a block number.
    lds_read_pj, lds_write_pj, memory_read_pj, memory_write_pj, wakeups_pj : float
        Accesses to a block of a spilled register, and all that is switched on.
    idle, held_idle_mw : float
        Idle time over busy time, and that times the power of what stays on meanwhile.
    """

    cycles: float
    nanoseconds: float
    clock_ghz: float
    blocks: float
    powered: float
    all_on: float
    uncompressed_cycles: float
    switches_off: float
    reads: float
    reads_compressed: float
    read_blocks: float
    writes: float
    writes_compressed: float
    write_blocks: float
    mov_reads: float
    mov_writes: float
    blocks_in_vain: float
    movs: float
    expansions: float
    mispredictions: float
    wakeup: float
    lds: float
    memory: float
    refresh: float
    mov_lost: float
    pipeline_lost: float
    misprediction_lost: float
    leakage_mw: float
    read_pj: float
    write_pj: float
    compressing_mw: float
    compressed_pj: float
    decompress_pj: float
    table_mw: float
    table_read_pj: float
    table_write_pj: float
    refresh_period: float
    redirecting_mw: float
    home_read_pj: float
    home_write_pj: float
    select_pj: float
    buffer_mw: float
    buffer_write_pj: float
    buffer_reads_pj: float
    lds_read_pj: float
    lds_write_pj: float
    memory_read_pj: float
    memory_write_pj: float
    wakeups_pj: float
    idle: float
    held_idle_mw: float


COLUMNS = np.dtype([(name, np.float64) for name in Constants._fields])
"""Constants of kernels in an array."""

NOTHING = Component(read_pj=0.0, write_pj=0.0, leakage_mw=0.0, area_mm2=0.0)
"""A unit that a technique has no use for takes no energy."""


@dataclass(frozen=True, eq=False)
class Slices:
    """Slices under a technique, on each kernel of a sweep.

    Attributes
    ----------
    technique : Technique
        The technique.
    activities : tuple of KernelActivity
        What a slice does in a busy pass of each kernel.
    idle : float64[kernels]
        Idle time after a pass in which the slice holds, over its busy time.
    holding : int64[kernels]
        Entries that stay on meanwhile.
    penalties : Penalties
        Cycles that events cost.
    """

    technique: Technique
    activities: tuple[KernelActivity, ...]
    idle: NDArray[np.float64]
    holding: NDArray[np.int64]
    penalties: Penalties

    def rates(
        self, kernel: int, events: NDArray[np.float64], technology: Technology
    ) -> NDArray[np.float64]:
        """Rates on fault maps, over busy and idle time: float64[3, n].

        The rows are the busy fraction of the time; the work, in busy time of the conventional
        slice; and the power in mW.

        Parameters
        ----------
        kernel : int
            Number of the kernel.
        events : float64[n, EVENTS]
            Events per cycle.
        technology : Technology
            Constants of the components, those of the slice at its Vdd.
        """
        activity, idle = self.activities[kernel].under(events), self.idle[kernel]
        lost = slowdown(activity, self.technique, technology, self.penalties)
        slower, waits = 1 + lost.total, 1 + events[:, Event.WAIT]
        longer = slower * waits
        spent = energy(activity, self.technique, technology, slowdown=longer - 1)
        whole = waits + idle
        held = self._held_mw(kernel, technology)
        nanoseconds = activity.cycles / technology.clock_ghz
        power = spent.total / (nanoseconds * (slower * whole)) + held * idle / whole
        return np.stack([waits / whole, 1 / (slower * whole), power])

    def _held_mw(self, kernel: int, technology: Technology) -> float:
        entries = self.activities[kernel].undisturbed.geometry.entries
        held_mw: float = self.holding[kernel] / entries * technology.slice.leakage_mw
        return held_mw

    def constants(self, technology: Technology) -> NDArray[np.void]:
        """What `add_up` weighs events with: `COLUMNS` [kernels].

        Units that the technique has no use for have constants of 0. Where the slice is another than
        that of the technology, its power is NaN.
        """
        kernels = range(len(self.activities))
        return np.array([self._constants(kernel, technology) for kernel in kernels], dtype=COLUMNS)

    def _constants(self, kernel: int, technology: Technology) -> Constants:
        units, penalties = units_of(self.technique, technology), self.penalties
        of_kernel, idle = self.activities[kernel], float(self.idle[kernel])
        activity = of_kernel.undisturbed
        geometry, gating, cycles = activity.geometry, activity.gating, activity.cycles
        reads, writes, work = activity.reads, activity.writes, activity.compression
        cells = technology.slice
        known = geometry.shape == technology.geometry.shape
        compression, decompression = units.compression or NOTHING, units.decompression or NOTHING
        table = technology.compression_table if units.table else NOTHING
        period = technology.refresh_period_cycles if units.table else 1
        refreshes = cycles // period if units.table else 0
        homes = technology.redirection_table if units.redirection else NOTHING
        selection = technology.selection_unit if units.redirection else NOTHING
        buffer = technology.destination_buffer if units.speculates else NOTHING
        instructions = activity.instructions if units.speculates else 0
        wrong = penalties.misprediction.unhidden_cycles * work.mispredictions
        return Constants(
            cycles=cycles,
            nanoseconds=cycles / technology.clock_ghz,
            clock_ghz=technology.clock_ghz,
            blocks=geometry.blocks,
            powered=float(gating.powered_entry_cycles[0]),
            all_on=geometry.entries * cycles,
            uncompressed_cycles=of_kernel.uncompressed_entry_cycles,
            switches_off=of_kernel.spills_switch_off,
            reads=float(reads.uncompressed[0]),
            reads_compressed=float(reads.compressed[0]),
            read_blocks=float(reads.compressed_blocks[0]),
            writes=float(writes.uncompressed[0]),
            writes_compressed=float(writes.compressed[0]),
            write_blocks=float(writes.compressed_blocks[0]),
            mov_reads=work.mov_read_blocks,
            mov_writes=geometry.blocks * work.movs,
            blocks_in_vain=work.mispredictions if self.technique.stores_in_blocks else 0,
            movs=work.movs,
            expansions=work.expansions,
            mispredictions=work.mispredictions,
            wakeup=penalties.wakeup.unhidden_cycles,
            lds=penalties.lds.unhidden_cycles,
            memory=penalties.memory.unhidden_cycles,
            refresh=penalties.refresh.unhidden_cycles * refreshes,
            mov_lost=penalties.mov.unhidden_cycles * work.movs / cycles,
            pipeline_lost=penalties.pipeline.unhidden_cycles * instructions / cycles,
            misprediction_lost=wrong / cycles,
            leakage_mw=cells.leakage_mw if known else np.nan,
            read_pj=cells.read_pj,
            write_pj=cells.write_pj,
            compressing_mw=compression.leakage_mw
            + technology.decompression_units * decompression.leakage_mw,
            compressed_pj=compression.write_pj * work.examined_blocks,
            decompress_pj=decompression.read_pj,
            table_mw=table.leakage_mw,
            table_read_pj=table.read_pj,
            table_write_pj=table.write_pj,
            refresh_period=period,
            redirecting_mw=homes.leakage_mw + selection.leakage_mw,
            home_read_pj=homes.read_pj,
            home_write_pj=homes.write_pj,
            select_pj=selection.write_pj,
            buffer_mw=buffer.leakage_mw,
            buffer_write_pj=buffer.write_pj,
            buffer_reads_pj=buffer.read_pj * work.mispredictions,
            lds_read_pj=technology.lds.read_pj,
            lds_write_pj=technology.lds.write_pj,
            memory_read_pj=technology.memory.read_pj,
            memory_write_pj=technology.memory.write_pj,
            wakeups_pj=technology.wakeup_pj * (gating.opened_entries + gating.expanded_entries),
            idle=idle,
            held_idle_mw=self._held_mw(kernel, technology) * idle,
        )


@compiled
def _rates(given: Constants, events: NDArray[np.float64]) -> tuple[float, float, float]:
    """Rates of a kernel under events, as `Slices.rates` has them.

    The three parts are `KernelActivity.under`, `slowdown` and `energy`.
    """
    cycles, blocks = given.cycles, given.blocks
    spilled = events[Event.SPILLED_ROW] * cycles * given.switches_off
    beyond = max(spilled - given.uncompressed_cycles, 0.0)
    powered = given.powered - (spilled - beyond) - beyond / blocks
    lds_reads, memory_reads = events[Event.LDS_READ] * cycles, events[Event.MEMORY_READ] * cycles
    beyond = max(lds_reads - given.reads, 0.0)
    plain_reads = given.reads - (lds_reads - beyond)
    compressed_reads, read_blocks = given.reads_compressed - beyond, given.read_blocks - beyond
    reads = plain_reads + compressed_reads + lds_reads
    lds_writes, memory_writes = events[Event.LDS] * cycles, events[Event.MEMORY] * cycles
    beyond = max(lds_writes - given.writes, 0.0)
    plain_writes = given.writes - (lds_writes - beyond)
    compressed_writes, write_blocks = given.writes_compressed - beyond, given.write_blocks - beyond
    writes = plain_writes + compressed_writes + lds_writes
    to_reliable, to_faulty = events[Event.TO_RELIABLE] * cycles, events[Event.TO_FAULTY] * cycles
    redirections = to_reliable + to_faulty + lds_writes
    table_reads, table_writes = reads + given.movs, compressed_writes + given.expansions

    busy = min((table_reads + table_writes) / cycles, 1.0)
    in_memory = memory_reads + memory_writes
    lost = (
        given.wakeup * (events[Event.WAKEUP] * cycles) / cycles
        + given.mov_lost
        + given.refresh * busy / cycles
        + given.pipeline_lost
        + given.misprediction_lost
        + given.lds * (lds_reads + lds_writes - in_memory) / cycles
        + given.memory * in_memory / cycles
    )
    slower, waits = 1 + lost, 1 + events[Event.WAIT]

    longer = cycles * (1.0 + (slower * waits - 1))
    nanoseconds = longer / given.clock_ghz
    refreshes = np.floor(longer / given.refresh_period)
    static = (
        nanoseconds * given.leakage_mw * (powered / given.all_on)
        + nanoseconds * given.compressing_mw
        + nanoseconds * given.table_mw
        + (nanoseconds * given.redirecting_mw + nanoseconds * given.buffer_mw)
    )
    of_table = (
        given.table_read_pj * (table_reads + refreshes)
        + given.table_write_pj * (table_writes + refreshes)
    )  # fmt: skip
    of_homes = (
        given.home_read_pj * (reads + writes + given.movs)
        + given.home_write_pj * redirections
        + given.select_pj * writes
    )
    held = compressed_writes + given.mispredictions
    of_lds = (
        given.lds_read_pj * (lds_reads - memory_reads)
        + given.lds_write_pj * (lds_writes - memory_writes)
    )  # fmt: skip
    of_memory = given.memory_read_pj * memory_reads + given.memory_write_pj * memory_writes
    written = blocks * plain_writes + write_blocks + given.mov_writes + given.blocks_in_vain
    dynamic = (
        given.read_pj * (blocks * plain_reads + read_blocks + given.mov_reads)
        + given.write_pj * written
        + (given.compressed_pj + given.decompress_pj * (blocks * (compressed_reads + given.movs)))
        + of_table
        + (of_homes + blocks * (given.buffer_write_pj * held + given.buffer_reads_pj))
        + blocks * of_lds
        + blocks * of_memory
        + given.wakeups_pj
    )
    whole = waits + given.idle
    power = (static + dynamic) / (given.nanoseconds * (slower * whole))
    return waits / whole, 1 / (slower * whole), power + given.held_idle_mw / whole


@compiled
def add_up(
    seconds: NDArray[np.float64],
    events: NDArray[np.float64],
    kernel: NDArray[np.int64],
    weight: NDArray[np.float64],
    fault_free: NDArray[np.float64],
    undisturbed: NDArray[np.float64],
    reference: NDArray[np.float64],
    constants: NDArray[np.void],
    products: NDArray[np.float64],
) -> None:
    """Rates of the mix at each moment of each life, times the seconds of the moment.

    Parameters
    ----------
    seconds : float64[I, epochs, moments]
        Weights of the moments. Where it is 0, so are the products.
    events : float64[I, epochs, moments, turns, EVENTS]
        Events per cycle of each kernel.
    kernel, weight : int64[I, epochs, turns], float64[I, epochs, turns]
        Kernels that take turns, and their shares.
    fault_free : float64[kernels, EVENTS]
        Events on a fault-free slice.
    undisturbed : float64[points, 3, kernels]
        Rates under these, by operating point.
    reference : float64[points + 1, kernels]
        Energy of a conventional slice per busy time by operating point, and at the nominal Vdd.
    constants : COLUMNS [points, kernels]
        Of `Slices.constants`.
    products : float64[3 + 2 x points, I, epochs, moments]
        Is filled in: busy time, work, and the energy that a conventional slice takes for the work
        at the nominal Vdd; then at each point the energy of the slice, and that of a conventional
        one.
    """
    points, (instances, epochs, moments, turns, _) = len(constants), events.shape
    for instance in range(instances):
        for epoch in range(epochs):
            for moment in range(moments):
                sums = products[:, instance, epoch, moment]
                sums[:] = 0
                if seconds[instance, epoch, moment] == 0:
                    continue
                for turn in range(turns):
                    number, share = kernel[instance, epoch, turn], weight[instance, epoch, turn]
                    happens, same = events[instance, epoch, moment, turn], True
                    for event in range(EVENTS):
                        same &= happens[event] == fault_free[number, event]
                    busy = work = 0.0
                    for point in range(points):
                        if same:
                            busy = undisturbed[point, 0, number]
                            work = undisturbed[point, 1, number]
                            power = undisturbed[point, 2, number]
                        else:
                            busy, work, power = _rates(constants[point, number], happens)
                        sums[3 + 2 * point] += share * power
                        sums[4 + 2 * point] += share * (work * reference[point, number])
                    sums[0] += share * busy
                    sums[1] += share * work
                    sums[2] += share * (work * reference[points, number])
                for quantity in range(len(sums)):
                    sums[quantity] *= seconds[instance, epoch, moment]
