"""Tracked cells and open bits of instances that run the same kernel, in one pass through it.

What a residency shows is the same wherever it lives: it is summed up once, and added where it lives
in every pass of every instance. That holds if released places are off, and every residency has an
entry to itself. A residency that began in the LDS is summed up for itself, from its first write in
an entry on.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import compiled, inlined, inner
from mcage.engines.numba_engine.placement.contents import BITS
from mcage.engines.numba_engine.placement.packing import begin_of, is_late, residency_of
from mcage.engines.numba_engine.placement.redirect import index
from mcage.engines.numba_engine.placement.residencies import END, EVER, PARTIAL, Residencies
from mcage.engines.numba_engine.simd import (
    AT_ONCE,
    FIRST_BITS,
    add_row,
    lowest_bit,
    prefetch,
    sum_planes_anew,
)
from mcage.engines.numba_engine.stress.epoch_log import EpochLog, occupants_in
from mcage.engines.numba_engine.stress.most_stressed import CellWorkspace
from mcage.engines.numba_engine.stress.open_bits import (
    AT_ONE,
    BIT,
    IN_ROW,
    MORE,
    MORE_END,
    OPEN,
    PLACE,
    POWERED,
    ROW,
    powered_of,
)
from mcage.engines.numba_engine.stress.tracked_cells import work_out_entry
from mcage.engines.numba_engine.stress.tracked_groups import Tracking
from mcage.engines.numba_engine.vectors import COMPONENTS

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
    for place in range(len(instances)):
        _start(instances[place], place, tracking, open_bits)
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
def _start(instance: int, place: int, tracking: Any, open_bits: Any) -> None:
    """Bring the tracked cells of an instance, whose open bits are known, to the start of an epoch.

    Parameters as for `_finish`.
    """
    cells, progress, lines = tracking.cells, tracking.progress, open_bits.lines
    entries = open_bits.bits.shape[1]
    for entry in range(entries):
        progress.depends[instance, entry] = False
        progress.mixed[instance, entry] = False
        line = index(place * entries + entry)
        of_entry = instance * entries + entry
        first, last = cells.first[of_entry], cells.first[of_entry + 1]
        for cell in range(IN_ROW):
            lines[line, AT_ONE + cell] = 0
            lines[line, PLACE + cell] = cells.place[first, cell]
            for row in range(first + 1, last):
                progress.cycles_at_one[row, cell] = 0
        lines[line, POWERED] = 0
        lines[line, OPEN] = open_bits.bits[place, entry]
        lines[line, ROW] = open_bits.first[place, entry]
        lines[line, MORE], lines[line, MORE_END] = first + 1, last


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
        partial = facts[residency, PARTIAL] != 0
        for place in range(len(instances)):
            for pass_ in range(passes):
                home = homes[place, residency - first, pass_]
                if home >= 0:
                    entry = home >> 3
                    _add(lasts, place, entry, tracking, open_bits, sums)
                    if partial:
                        tracking.progress.depends[instances[place], entry] = True


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
    for entry in range(residencies.slice_.entries):
        for i in range(occupants.first[entry * passes], occupants.first[(entry + 1) * passes]):
            occupant = occupants.occupant[i]
            if not is_late(occupant):
                continue
            residency = residency_of(residencies, occupant)
            begin = begin_of(residencies, occupant)
            lasts = np.int64(facts[residency, END]) - residencies.writes.cycle[begin]
            _sum_residency(residencies, residency, begin, lasts, sums)
            _add(lasts, place, entry, tracking, open_bits, sums)
            if facts[residency, PARTIAL]:
                tracking.progress.depends[instance, entry] = True


@inner
def _sum_residency(residencies: Any, residency: int, begin: int, lasts: int, sums: Any) -> None:
    """Cycles at '1' of all cells of an entry while a residency lives there from a write on."""
    ever, end = residencies.facts[residency, EVER], residencies.write_starts[residency + 1]
    always, varies = ever & ~(ever >> np.uint64(BITS)), ever & (ever >> np.uint64(BITS))
    planes, writes = residencies.contents.planes, residencies.writes
    for first in range(0, BITS, AT_ONCE):
        if varies >> np.uint64(first) & _FIRST_BITS:
            sum_planes_anew(planes, writes.image, writes.duration, begin, end, first, sums)
        else:
            for bit in range(first, first + AT_ONCE):
                cycles = lasts * np.int64(always >> np.uint64(bit) & BIT)
                for component in range(COMPONENTS):
                    sums[bit, component] = cycles


@inlined
def _add(lasts: int, place: int, entry: int, tracking: Any, open_bits: Any, sums: Any) -> None:
    """Let a residency, which is summed up, live in an entry."""
    lines, line = open_bits.lines, index(place * open_bits.bits.shape[1] + entry)
    lines[line, POWERED] += lasts
    for cell in range(IN_ROW):
        lines[line, AT_ONE + cell] += _sum_at(sums, lines[line, PLACE + cell])
    cells, ones = tracking.cells, tracking.progress.cycles_at_one
    for row in range(lines[line, MORE], lines[line, MORE_END]):
        for cell in range(IN_ROW):
            ones[row, cell] += _sum_at(sums, cells.place[row, cell])
    left, open_row = np.uint64(lines[line, OPEN]), np.int64(lines[line, ROW])
    while left:
        add_row(open_bits.ones, open_row, sums, lowest_bit(left))
        left &= left - BIT
        open_row += 1


@inlined
def _sum_at(sums: Any, place: Any) -> Any:
    """Sum at a place as in `CellList`."""
    at = index(place)
    return sums[at // np.uint32(COMPONENTS), at % np.uint32(COMPONENTS)]


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
    entries = residencies.slice_.entries
    for entry in range(entries):
        if progress.depends[instance, entry]:
            open_bits.bits[place, entry] = 0
            work_out_entry(residencies, occupants, scale, instance, entry, tracking, events)
            continue
        powered = np.int64(powered_of(open_bits, place, entry))
        first, last = (
            cells.first[instance * entries + entry],
            cells.first[instance * entries + entry + 1],
        )
        for cell in range(IN_ROW):
            at_one = open_bits.lines[place * entries + entry, AT_ONE + cell]
            progress.cycles_at_one[first, cell] = at_one
        for row in range(first, last):
            for cell in range(IN_ROW):
                tracked = cells.tracked[row, cell]
                ones = np.int64(progress.cycles_at_one[row, cell])
                if tracked >= 0:
                    seconds[0, tracked] += (powered - ones) * scale
                    seconds[1, tracked] += ones * scale
