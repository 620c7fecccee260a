"""Tracked cells and open bits of instances that run the same kernel, in one pass through it.

What a residency shows is the same wherever it lives: it is summed up once, and added where it lives
in every pass of every instance. That holds if released places are off, and every residency has an
entry to itself. A residency that began in the LDS is summed up for itself, from its first write in
an entry on.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import add_everywhere
from mcage.engines.numba_engine.jit import compiled, inlined, inner
from mcage.engines.numba_engine.placement.contents import BITS
from mcage.engines.numba_engine.placement.redirect import ENTRIES, begin_of, residency_of
from mcage.engines.numba_engine.placement.residencies import END, EVER, PARTIAL, Residencies
from mcage.engines.numba_engine.simd import (
    AT_ONCE,
    COMPONENTS,
    FIRST_BITS,
    add_row,
    lowest_bit,
    prefetch,
    sum_planes,
)
from mcage.engines.numba_engine.stress.epoch_log import EpochLog, occupants_in
from mcage.engines.numba_engine.stress.most_stressed import CellWorkspace
from mcage.engines.numba_engine.stress.open_bits import BIT
from mcage.engines.numba_engine.stress.tracked_cells import work_out_entry
from mcage.engines.numba_engine.stress.tracked_groups import IN_ROW, Tracking

_FIRST_BITS = np.uint64(FIRST_BITS)

_AHEAD = 2
"""Residencies between that which is summed up and that whose planes are asked for."""

_LINE = 8
"""Planes in a cache line."""

_LINE_BITS = np.uint64((1 << _LINE) - 1)


@compiled
def run_together(
    residencies: Residencies,
    epoch_log: EpochLog,
    kernel: int,
    instances: NDArray[np.int64],
    homes: NDArray[np.int16],
    spilled: NDArray[np.bool_],
    tracking: Tracking,
    cells: CellWorkspace,
) -> None:
    """Take instances through the latest epoch, in which all of them ran the same kernel.

    Parameters
    ----------
    residencies, epoch_log : Residencies, EpochLog
        What happened.
    kernel : int
        Kernel that they ran.
    instances : int64[n]
        Instances, in the order of the open bits.
    homes : int16[n, residencies, passes]
        Home of each residency in each pass; negative if it began in the LDS.
    spilled : bool[n]
        Whether any did.
    tracking : Tracking
        Tracked cells, whose seconds are raised.
    cells : CellWorkspace
        Open bits, and memory to work in.
    """
    sums, open_bits, epochs = cells.times.ones, cells.open_bits, epoch_log.epochs
    for instance in instances:
        _start(instance, tracking)
    _advance(residencies, kernel, instances, homes, tracking, open_bits, sums)
    for place in range(len(instances)):
        instance = instances[place]
        epoch = epochs[instance] - 1
        occupants, scale = (
            occupants_in(epoch_log, instance, epoch),
            epoch_log.scale[instance, epoch],
        )
        if spilled[place]:
            _advance_late(residencies, occupants, instance, place, tracking, open_bits, sums)
        _finish(residencies, occupants, scale, instance, place, tracking, open_bits, cells.events)


@inner
def _start(instance: int, tracking: Any) -> None:
    """Bring the tracked cells of an instance to the start of an epoch."""
    cells, progress = tracking.cells, tracking.progress
    for entry in range(ENTRIES):
        progress.depends[instance, entry] = False
        progress.mixed[instance, entry] = False
    for row in range(cells.first[instance * ENTRIES], cells.first[(instance + 1) * ENTRIES]):
        for cell in range(IN_ROW):
            progress.cycles_at_one[row, cell] = 0


@inner
def _advance(
    residencies: Any,
    kernel: int,
    instances: Any,
    homes: Any,
    tracking: Any,
    open_bits: Any,
    sums: Any,
) -> None:
    """Take instances through all passes.

    Parameters
    ----------
    residencies, kernel : Residencies, int
        What runs.
    instances : int64[n]
        Instances that run it, in the order of `open_bits`.
    homes : int16[n, residencies, passes]
        Home of each residency in each pass; negative if it began in the LDS.
    tracking : Tracking
        Tracked cells, and how far they have come.
    open_bits : OpenBits
        Open bits.
    sums : T[32, 64]
        Workspace.
    """
    facts, write_starts = residencies.facts, residencies.write_starts
    first, passes = residencies.kernels.first_residency[kernel], homes.shape[2]
    last = residencies.kernels.first_residency[kernel + 1] - 1
    for residency in range(first, last + 1):
        _look_ahead(residencies, min(residency + _AHEAD, last))
        begin = write_starts[residency]
        lasts = np.int64(facts[residency, END]) - residencies.writes.cycle[begin]
        _sum_residency(residencies, residency, begin, lasts, sums)
        for place in range(len(instances)):
            for pass_ in range(passes):
                home = homes[place, residency - first, pass_]
                if home >= 0:
                    _add(
                        facts,
                        residency,
                        lasts,
                        instances[place],
                        place,
                        home >> 3,
                        tracking,
                        open_bits,
                        sums,
                    )


@inner
def _look_ahead(residencies: Any, residency: int) -> None:
    """Ask for the planes that a residency to come will need."""
    ever, image = residencies.facts[residency, EVER], residencies.writes.image
    varies = ever & (ever >> np.uint64(BITS))
    for write in range(
        residencies.write_starts[residency], residencies.write_starts[residency + 1]
    ):
        for bit in range(0, BITS, _LINE):
            if varies >> np.uint64(bit) & _LINE_BITS:
                prefetch(residencies.contents.planes, int(image[write]), bit)


@inner
def _advance_late(
    residencies: Any,
    occupants: Any,
    instance: int,
    place: int,
    tracking: Any,
    open_bits: Any,
    sums: Any,
) -> None:
    """Add the occupants of an instance that began in the LDS; parameters as above."""
    facts, passes = residencies.facts, len(residencies.selector_starts)
    for entry in range(ENTRIES):
        for i in range(occupants.first[entry * passes], occupants.first[(entry + 1) * passes]):
            occupant = occupants.occupant[i]
            residency, begin = residency_of(occupant), begin_of(occupant)
            if begin == residencies.write_starts[residency]:
                continue
            lasts = np.int64(facts[residency, END]) - residencies.writes.cycle[begin]
            _sum_residency(residencies, residency, begin, lasts, sums)
            _add(facts, residency, lasts, instance, place, entry, tracking, open_bits, sums)


@inner
def _sum_residency(residencies: Any, residency: int, begin: int, lasts: int, sums: Any) -> None:
    """Cycles at '1' of all cells of an entry while a residency lives there from a write on."""
    ever, end = residencies.facts[residency, EVER], residencies.write_starts[residency + 1]
    always, varies = ever & ~(ever >> np.uint64(BITS)), ever & (ever >> np.uint64(BITS))
    planes, writes = residencies.contents.planes, residencies.writes
    for bit in range(BITS):
        for component in range(COMPONENTS):
            sums[bit, component] = 0
    for first in range(0, BITS, AT_ONCE):
        if varies >> np.uint64(first) & _FIRST_BITS:
            sum_planes(planes, writes.image, writes.duration, begin, end, first, sums)
        elif always >> np.uint64(first) & _FIRST_BITS:
            for bit in range(first, first + AT_ONCE):
                if always >> np.uint64(bit) & BIT:
                    add_everywhere(sums, bit, lasts)


@inlined
def _add(
    facts: Any,
    residency: int,
    lasts: int,
    instance: int,
    place: int,
    entry: int,
    tracking: Any,
    open_bits: Any,
    sums: Any,
) -> None:
    """Let a residency, which is summed up, live in an entry."""
    cells, ones = tracking.cells, tracking.progress.cycles_at_one
    open_bits.powered[place, entry] += lasts
    if facts[residency, PARTIAL]:
        tracking.progress.depends[instance, entry] = True
    of_entry = instance * ENTRIES + entry
    for of_cells in range(cells.first[of_entry], cells.first[of_entry + 1]):
        for cell in range(IN_ROW):
            at = np.uint32(cells.place[of_cells, cell])
            more = sums[at // np.uint32(COMPONENTS), at % np.uint32(COMPONENTS)]
            ones[of_cells, cell] += more
    left, row = open_bits.bits[place, entry], open_bits.first[place, entry]
    while left:
        add_row(open_bits.ones, row, sums, lowest_bit(left))
        left &= left - BIT
        row += 1


@inner
def _finish(
    residencies: Any,
    occupants: Any,
    scale: float,
    instance: int,
    place: int,
    tracking: Any,
    open_bits: Any,
    events: Any,
) -> None:
    """Add the epoch that an instance has come through to the seconds of its tracked cells.

    Bits of entries whose cells depend on what was there before are open no more: they are not
    known.
    """
    cells, progress, seconds = tracking.cells, tracking.progress, tracking.seconds
    for entry in range(ENTRIES):
        if progress.depends[instance, entry]:
            open_bits.bits[place, entry] = 0
            work_out_entry(residencies, occupants, scale, instance, entry, tracking, events)
            continue
        powered = np.int64(open_bits.powered[place, entry])
        of_entry = instance * ENTRIES + entry
        for row in range(cells.first[of_entry], cells.first[of_entry + 1]):
            for cell in range(IN_ROW):
                tracked, ones = (
                    cells.tracked[row, cell],
                    np.int64(progress.cycles_at_one[row, cell]),
                )
                if tracked >= 0:
                    seconds[0, tracked] += (powered - ones) * scale
                    seconds[1, tracked] += ones * scale
