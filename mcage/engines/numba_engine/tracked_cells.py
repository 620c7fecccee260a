"""Stress times of tracked cells, and with them of the bits that bounds leave open."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.bounds import (
    BIT,
    OPEN_ROWS,
    OPENED_TOGETHER,
    EpochLog,
    OpenBits,
    Search,
    close,
    occupants_in,
    row_of,
)
from mcage.engines.numba_engine.cell_times import Events, gather_events, lit_components
from mcage.engines.numba_engine.homes import (
    WHOLE_ENTRY,
    begin_of,
    block_of,
    index,
    is_late,
    residency_of,
)
from mcage.engines.numba_engine.jit import (
    AT_ONCE,
    COMPONENTS,
    FIRST_BITS,
    LANES,
    add_row,
    add_rows,
    add_where,
    aligned_zeros,
    compiled,
    in_all,
    inlined,
    inner,
    lanes_at,
    lanes_from,
    lowest_bit,
    members,
    prefetch,
    put_lanes,
    sum_plane,
    sum_planes_anew,
    where_zero,
)
from mcage.engines.numba_engine.residencies import (
    ALL_COMPONENTS,
    BITS,
    CODE_BITS,
    END,
    EVER,
    PARTIAL,
    WRITES_END,
    Residencies,
)
from mcage.engines.stress import TrackedCells
from mcage.geometry import Booleans, Floats, Integers, SliceGeometry, Words

# Tracked cells in groups of up to eight, which are summed together.


class TrackedGroups(NamedTuple):
    """Groups of up to eight tracked cells of an entry that are always written together.

    Attributes
    ----------
    first : int64[entries * instances + 1]
        First group of each entry of each instance.
    block : int64[groups]
        Block whose records overwrite the cells, or 4 if no record does.
    column, component : int64[groups, 8], uint64[groups, 8]
        Bit and component of each cell.
    tracked : int64[groups, 8]
        Number of the cell among those tracked, or -1 for a place that is not taken.
    """

    first: Integers
    block: Integers
    column: Integers
    component: Words
    tracked: Integers


class CellList(NamedTuple):
    """Tracked cells entry by entry.

    Attributes
    ----------
    first : int64[entries * instances + 1]
        First cell of each entry of each instance.
    place : int64[cells]
        64 times the bit, plus the component.
    tracked : int64[cells]
        Number of the cell among those tracked.
    first_in_slab : int64[4 * instances + 1]
        Where the cells of each slab of bits of each instance begin in `in_slab`.
    in_slab : int64[cells, 2]
        Cells slab by slab: the number of each in this list, and its entry.
    """

    first: Integers
    place: Integers
    tracked: Integers
    first_in_slab: Integers
    in_slab: Integers


class EpochProgress(NamedTuple):
    """How far cells, groups and instances have come in an epoch.

    Attributes
    ----------
    cycles_at_one : T[cells]
        Cycles at '1' of the cells of the list.
    ones : int64[groups, 8]
        Cycles at '1' of the cells.
    powered : int64[groups]
        Cycles powered.
    shift : uint64[groups, passes]
        How many components further on than in its plane a cell of the latest occupant lies.
    upcoming : int64[instances, entries * passes]
        Occupant that comes next.
    depends : bool[instances, entries]
        Entries of whose cells it matters what they held before an occupant.
    mixed : bool[instances, entries]
        Entries of which blocks hold records.
    since, first : int64[groups, passes]
        End of the latest occupant, -1 before; start of the first occupant.
    write : int64[groups, passes]
        What the cells hold since then.
    """

    cycles_at_one: NDArray[np.unsignedinteger]
    ones: Integers
    powered: Integers
    shift: Words
    upcoming: Integers
    depends: Booleans
    mixed: Booleans
    since: Integers
    first: Integers
    write: Integers


class Tracking(NamedTuple):
    """Tracked cells of a batch of instances, and their stress times.

    Attributes
    ----------
    groups, cells, progress : TrackedGroups, CellList, Progress
        Cells, and how far they have come.
    seconds : float64[2, tracked]
        Seconds at '0' and '1'.
    """

    groups: TrackedGroups
    cells: CellList
    progress: EpochProgress
    seconds: Floats


def groups_of(
    tracked: TrackedCells, geometry: SliceGeometry, instances: int, in_blocks: bool
) -> TrackedGroups:
    """Put tracked cells into groups; if values go to blocks, by what overwrites them."""
    entry, bits = np.divmod(tracked.cell, geometry.entry_bits)
    component, column = np.divmod(bits, BITS)
    block, within = np.divmod(component, geometry.block_components)
    in_record = (within == 0) | ((within == 1) & (column < CODE_BITS))
    block = np.where(in_record & in_blocks, block, WHOLE_ENTRY)
    place = tracked.instance * geometry.entries + entry
    order = np.lexsort((bits, block, place))
    kind = (place * (WHOLE_ENTRY + 1) + block)[order]
    begins = np.flatnonzero(np.diff(kind, prepend=-1))
    rank = np.arange(len(kind)) - np.repeat(begins, np.diff(np.append(begins, len(kind))))
    group = np.cumsum(rank % LANES == 0) - 1
    count = int(group[-1]) + 1 if len(group) else 0
    opens = order[rank % LANES == 0]
    shape = (count, LANES)
    groups = TrackedGroups(
        first=np.searchsorted(place[opens], np.arange(geometry.entries * instances + 1)),
        block=block[opens],
        column=np.zeros(shape, dtype=np.int64),
        component=np.zeros(shape, dtype=np.uint64),
        tracked=np.full(shape, -1, dtype=np.int64),
    )
    where = (group, rank % LANES)
    groups.column[where], groups.component[where] = column[order], component[order]
    groups.tracked[where] = order
    return groups


def cells_of(tracked: TrackedCells, geometry: SliceGeometry, instances: int) -> CellList:
    """List tracked cells entry by entry, those of a bit side by side."""
    entry, bits = np.divmod(tracked.cell, geometry.entry_bits)
    component, column = np.divmod(bits, BITS)
    where, place = tracked.instance * geometry.entries + entry, column * COMPONENTS + component
    order = np.lexsort((place, where))
    slab = (tracked.instance * _SLABS + column // _SLAB)[order]
    by_slab = np.argsort(slab, kind="stable")
    return CellList(
        first=_starts(where, geometry.entries * instances),
        place=place[order],
        tracked=order,
        first_in_slab=_starts(slab, _SLABS * instances),
        in_slab=np.stack([by_slab, entry[order][by_slab]], axis=1),
    )


def _starts(numbers: Integers, count: int) -> Integers:
    """Where each of so many numbers begins among numbers in rising order."""
    return np.append(0, np.cumsum(np.bincount(numbers, minlength=count)))


def new_progress(
    cells: int, groups: int, entries: int, instances: int, passes: int, cycles: Any
) -> Any:
    """Make space for progress; `cycles` is an array of the type of sums of cycles."""
    return EpochProgress(
        np.empty(cells, cycles.dtype),
        np.empty((groups, LANES), np.int64),
        np.empty(groups, np.int64),
        np.empty((groups, passes), np.uint64),
        np.empty((instances, entries * passes), np.int64),
        np.empty((instances, entries), np.bool_),
        np.empty((instances, entries), np.bool_),
        *np.empty((3, groups, passes), np.int64),
    )


_TOGETHER = 1024
"""Residencies that instances go through side by side: what they write fits the second-level
cache."""


@compiled
def run_side_by_side(
    residencies: Residencies,
    epoch_log: EpochLog,
    kernel: int,
    instances: Integers,
    tracking: Tracking,
    events: Events,
) -> None:
    """Take the cells of instances through their latest turn, in which they ran the same kernel.

    Parameters
    ----------
    residencies, epoch_log : Residencies, EpochLog
        What happened.
    kernel : int
        Kernel that they ran.
    instances : int64[n]
        Instances.
    tracking : Tracking
        Tracked cells, whose seconds are raised.
    events : Events
        Workspace.
    """
    groups, progress, epochs = tracking.groups, tracking.progress, epoch_log.epochs
    first_residency = residencies.kernels.first_residency
    for instance in instances:
        _start(instance, occupants_in(epoch_log, instance, epochs[instance] - 1), groups, progress)
    last = first_residency[kernel + 1]
    for residency in range(first_residency[kernel], last, _TOGETHER):
        until = min(residency + _TOGETHER, last)
        for instance in instances:
            occupants = occupants_in(epoch_log, instance, epochs[instance] - 1)
            _advance(residencies, occupants, instance, until, groups, progress)
    for instance in instances:
        epoch = epochs[instance] - 1
        occupants, scale = (
            occupants_in(epoch_log, instance, epoch),
            epoch_log.scale[instance, epoch],
        )
        _finish(residencies, occupants, scale, instance, tracking, events)


@inner
def _start(instance: int, occupants: Any, groups: Any, progress: Any) -> None:
    """Bring the cells of an instance to the start of an epoch."""
    for place in range(progress.upcoming.shape[1]):
        progress.upcoming[instance, place] = occupants.first[place]
    entries = progress.depends.shape[1]
    for entry in range(entries):
        progress.depends[instance, entry] = False
        progress.mixed[instance, entry] = False
    begin, end = instance * entries, (instance + 1) * entries
    for group in range(groups.first[begin], groups.first[end]):
        progress.powered[group] = 0
        for cell in range(LANES):
            progress.ones[group, cell] = 0
        for pass_ in range(progress.since.shape[1]):
            progress.since[group, pass_] = -1


@inner
def _advance(
    residencies: Any, occupants: Any, instance: int, until: int, groups: Any, progress: Any
) -> None:
    """Take the cells of an instance through its occupants before the residency `until`."""
    facts, cycle, occupant_at = residencies.facts, residencies.writes.cycle, occupants.occupant
    gated, passes = residencies.rules.gated, len(residencies.selector_starts)
    block_at, contents, writes = groups.block, residencies.contents, residencies.writes
    entries = residencies.slice_.entries
    for entry in range(entries):
        begin = groups.first[instance * entries + entry]
        end = groups.first[instance * entries + entry + 1]
        if begin == end:
            continue
        for pass_ in range(passes):
            place = entry * passes + pass_
            i = progress.upcoming[instance, place]
            while i < occupants.first[place + 1]:
                occupant = occupant_at[i]
                residency = residency_of(residencies, occupant)
                if residency >= until:
                    break
                write = begin_of(residencies, occupant)
                block, shift = block_of(occupant), np.uint64(0)
                now, leaves = cycle[write], np.int64(facts[residency, END])
                writes_end = np.int64(facts[residency, WRITES_END])
                if block != WHOLE_ENTRY:
                    shift = np.uint64(block * contents.block_components)
                    progress.mixed[instance, entry] = True
                    # A record powers all of its block, with what its other cells hold.
                    progress.depends[instance, entry] |= gated
                progress.depends[instance, entry] |= facts[residency, PARTIAL] != 0
                for group in range(begin, end):
                    if block != WHOLE_ENTRY and block != block_at[group]:
                        continue
                    if not gated:
                        _hold(contents.planes, writes.image, now, groups, progress, group, pass_)
                    _sum_cells(residencies, write, writes_end, shift, groups, progress, group)
                    progress.powered[group] += leaves - now
                    if not gated:
                        progress.since[group, pass_] = leaves
                        progress.write[group, pass_] = writes_end - 1
                        progress.shift[group, pass_] = shift
                i += 1
            progress.upcoming[instance, place] = i


@inlined
def _sum_cells(
    residencies: Any, begin: Any, end: Any, shift: Any, groups: Any, progress: Any, group: int
) -> None:
    """Sum up a group of cells over so many writes, of records `shift` components further on."""
    planes, writes, at = residencies.contents.planes, residencies.writes, group * LANES
    column, component = lanes_at(groups.column, at), lanes_at(groups.component, at)
    total, nothing = lanes_at(progress.ones, at), in_all(0)
    for write in range(begin, end):
        words = lanes_from(planes, column + np.int64(writes.image[write]) * BITS)
        lit = ((words << np.int64(shift)) >> component) & 1
        total = total + where_zero(lit, nothing, in_all(np.int64(writes.duration[write])))
    put_lanes(progress.ones, at, total)


@inner
def _finish(
    residencies: Any, occupants: Any, scale: float, instance: int, tracking: Any, events: Any
) -> None:
    """Add the epoch that the cells of an instance have come through to their seconds.

    Parameters
    ----------
    residencies, occupants : Residencies, Occupants
        A redirected replay.
    scale : float
        Seconds that a cycle stands for.
    instance : int
        Instance.
    tracking : Tracking
        Cells, how far they have come, and their seconds.
    events : Events
        Workspace.
    """
    groups, progress, seconds = tracking.groups, tracking.progress, tracking.seconds
    cycles, gated = residencies.kernels.cycles[occupants.kernel], residencies.rules.gated
    entries = residencies.slice_.entries
    for entry in range(entries):
        if progress.depends[instance, entry]:
            work_out_entry(residencies, occupants, scale, instance, entry, tracking, events)
            continue
        begin = groups.first[instance * entries + entry]
        end = groups.first[instance * entries + entry + 1]
        for group in range(begin, end):
            if not gated:
                _come_round(residencies, cycles, groups, progress, group)
            for cell in range(LANES):
                tracked, ones = groups.tracked[group, cell], progress.ones[group, cell]
                if tracked >= 0:
                    zeros = progress.powered[group] - ones
                    seconds[0, tracked] += zeros * scale
                    seconds[1, tracked] += ones * scale


@inner
def _hold(
    planes: Any, image: Any, now: int, groups: Any, progress: Any, group: int, pass_: int
) -> None:
    """Let what the latest occupant has left stay until now.

    Before the first occupant nothing is known of the cells; only its start is kept.
    """
    if progress.since[group, pass_] < 0:
        progress.first[group, pass_] = now
        return
    cycles = now - progress.since[group, pass_]
    if cycles:
        progress.powered[group] += cycles
        row, shift = image[progress.write[group, pass_]], progress.shift[group, pass_]
        for cell in range(LANES):
            word = planes[row, groups.column[group, cell]] << shift
            lit = word >> groups.component[group, cell] & np.uint64(1)
            progress.ones[group, cell] += cycles * np.int64(lit)


@inner
def _come_round(residencies: Any, cycles: int, groups: Any, progress: Any, group: int) -> None:
    """Let what a cell holds at the end of a pass stay until its first occupant in the next."""
    planes, image = residencies.contents.planes, residencies.writes.image
    for pass_ in range(len(residencies.selector_starts)):
        if progress.since[group, pass_] >= 0:
            until = progress.first[group, pass_] + cycles
            _hold(planes, image, until, groups, progress, group, pass_)


@inner
def work_out_entry(
    residencies: Any,
    occupants: Any,
    scale: float,
    instance: int,
    entry: int,
    tracking: Any,
    events: Any,
) -> None:
    """Add the times of an entry's cells if it matters what was there before an occupant."""
    cells, seconds = tracking.cells, tracking.seconds
    mixed, contents = tracking.progress.mixed[instance, entry], residencies.contents
    of_entry = instance * residencies.slice_.entries + entry
    first, last = cells.first[of_entry], cells.first[of_entry + 1]
    gathered = -1
    for cell in range(first, last):
        place, tracked = cells.place[cell], cells.tracked[cell]
        bit, component = place // COMPONENTS, place % COMPONENTS
        block = component // contents.block_components if mixed else WHOLE_ENTRY
        if block != gathered:
            gather_events(residencies, occupants, entry, block, events)
            gathered = block
        lit_components(contents, events, bit, block)
        count = events.orbits[len(residencies.selector_starts)]
        ones = _sum_component(events.lit, events.held, count, component)
        powered = _sum_component(events.powered, events.held, count, component)
        seconds[0, tracked] += (powered - ones) * scale
        seconds[1, tracked] += ones * scale


@inner
def _sum_component(words: Any, held: Any, count: int, component: int) -> np.int64:
    """Cycles for which a component is in the words."""
    shift = np.uint64(component)
    total = np.int64(0)
    for i in range(count):
        total += np.int64(held[i]) * np.int64(words[i] >> shift & np.uint64(1))
    return total


# Tracked cells and open bits of instances that run the same kernel, in one pass through it.
#
# Content of a residency is the same wherever it lives: it is summed up once, and added where it
# lives in every pass of every instance. That holds if released places are off, and every residency
# has an entry to itself. A residency that began in the LDS is summed up for itself, from its first
# write in an entry on.
#
# It is a product of matrices: who lives in an entry, times the sums of residencies. As such it is
# taken in blocks: the sums of a tile of residencies on a slab of bits stay in the second-level
# cache while everything is added that they belong to, and what they are added to stays in registers
# for all residencies of the tile that live in the same entry.

_SLAB = 8
"""Bits that are summed up at a time: their planes fill a cache line."""

_SLABS = BITS // _SLAB

_SLAB_BITS = np.uint64((1 << _SLAB) - 1)

_TILE = 128
"""Residencies whose sums are at hand at a time: 256 KB of a slab."""

_AHEAD = 2
"""Residencies between that which is summed up and that whose planes are asked for."""


class Together(NamedTuple):
    """Memory for instances that go through a kernel together.

    Attributes
    ----------
    first : int32[48, tiles * entries + 2]
        Where the residencies of each tile that live in each entry of an instance, in any pass,
        begin in `within`: for tile s and entry e at ``[:, s * entries + e]``.
    within : uint8[48, passes * residencies]
        Number of each in its tile.
    lasts : T[residencies]
        Cycles for which each residency of the kernel lives.
    powered : T[48, entries]
        Cycles for which the entries are powered of which anything is asked.
    rows : int32[open rows, 4]
        Open bits slab by slab: instance, entry, bit in the slab, and row of `OpenBits.ones`.
    first_row : int64[5]
        Where each slab begins in `rows`.
    sums : T[128 * 8, 64]
        Cycles at '1' of the residencies of a tile: of residency r in it and bit b of the slab at
        ``[8 * r + b]``.
    """

    first: NDArray[np.int32]
    within: NDArray[np.uint8]
    lasts: NDArray[np.unsignedinteger]
    powered: NDArray[np.unsignedinteger]
    rows: NDArray[np.int32]
    first_row: Integers
    sums: NDArray[np.unsignedinteger]


def new_together(entries: int, passes: int, residencies: int, cycles: Any) -> Any:
    """Make memory for up to so many residencies; `cycles` has the type of sums of cycles."""
    # Pages that are never touched take no memory.
    return Together(
        np.empty((OPENED_TOGETHER, -(-residencies // _TILE) * entries + 2), np.int32),
        np.empty((OPENED_TOGETHER, passes * residencies), np.uint8),
        np.empty(residencies, cycles.dtype),
        np.empty((OPENED_TOGETHER, entries), cycles.dtype),
        np.empty((OPEN_ROWS, 4), np.int32),
        np.zeros(_SLABS + 1, np.int64),
        aligned_zeros((_TILE * _SLAB, COMPONENTS), cycles.dtype),
    )


class TurnsOfEpoch(NamedTuple):
    """A turn of the latest epoch of each of some instances.

    Attributes
    ----------
    instances : int64[n]
        Instances.
    epoch : int64[n]
        Where the turn stands in the log.
    turn : int64[n]
        Which turn it is.
    number : int64[n]
        Number of the instance among those whose bits are open.
    """

    instances: Integers
    epoch: Integers
    turn: Integers
    number: Integers


class Run(NamedTuple):
    """Instances that go through a kernel together: the arguments of `run_together`."""

    residencies: Residencies
    kernel: int
    turns: TurnsOfEpoch
    together: Together
    tracking: Tracking
    open_bits: OpenBits


@compiled
def run_together(
    residencies: Residencies,
    epoch_log: EpochLog,
    kernel: int,
    turns: TurnsOfEpoch,
    together: Together,
    tracking: Tracking,
    search: Search,
    count: int,
) -> None:
    """Take instances through a turn of the latest epoch, in which all of them ran the same kernel.

    Parameters
    ----------
    residencies, epoch_log : Residencies, EpochLog
        What happened.
    kernel : int
        Kernel that they ran.
    turns : TurnsOfEpoch
        Instances, and their turns.
    together : Together
        Workspace.
    tracking : Tracking
        Tracked cells, whose seconds are raised.
    search : Search
        Open bits, and memory to work in.
    count : int
        Turns of the epoch.
    """
    cells, instances, special = search.workspace, turns.instances, np.uint64(0)
    run = Run(residencies, kernel, turns, together, tracking, cells.open_bits)
    first, cycle = residencies.kernels.first_residency[kernel], residencies.writes.cycle
    for residency in range(first, residencies.kernels.first_residency[kernel + 1]):
        begin = cycle[residencies.write_starts[residency]]
        together.lasts[residency - first] = residencies.end[residency] - begin
    for place in range(len(instances)):
        occupants = occupants_in(epoch_log, instances[place], turns.epoch[place])
        if _list_homes(run, occupants, place):
            special |= BIT << np.uint64(place)
    _list_rows(run)
    _add_tiles(run)
    for place in range(len(instances)):
        epoch = turns.epoch[place]
        occupants = occupants_in(epoch_log, instances[place], epoch)
        if special >> np.uint64(place) & BIT:
            _add_special(run, occupants, place, cells.times.ones)
        _finish_list(run, occupants, epoch_log.scale[instances[place], epoch], place, cells.events)
        close(search, instances[place], turns.number[place], turns.turn[place], count)


@inner
def _list_homes(run: Any, occupants: Any, place: int) -> bool:
    """List who lives in the entries of an instance of which anything is asked.

    Returns
    -------
    bool
        Whether anybody there leaves components as they were, or began in the LDS, and is left out.
    """
    residencies, cells, progress = run.residencies, run.tracking.cells, run.tracking.progress
    passes, entries = len(residencies.selector_starts), residencies.slice_.entries
    first, within, lasts = run.together.first[place], run.together.within[place], run.together.lasts
    first_residency = residencies.kernels.first_residency[run.kernel]
    last_residency = residencies.kernels.first_residency[run.kernel + 1]
    lists = -(-(last_residency - first_residency) // _TILE) * entries
    whole, special = residencies.kernels.whole[run.kernel], False
    bits = run.open_bits.bits[run.turns.turn[place], run.turns.number[place]]
    instance = run.turns.instances[place]
    progress.depends[instance], progress.mixed[instance] = False, False
    of_instance = cells.first[instance * entries], cells.first[(instance + 1) * entries]
    progress.cycles_at_one[of_instance[0] : of_instance[1]] = 0
    for number in range(lists + 2):
        first[number] = 0
    for fill in range(2):
        for entry in range(entries):
            of_entry, total = instance * entries + entry, np.int64(0)
            if not bits[entry] and cells.first[of_entry] == cells.first[of_entry + 1]:
                continue
            for i in range(occupants.first[entry * passes], occupants.first[(entry + 1) * passes]):
                occupant = occupants.occupant[i]
                residency = residency_of(residencies, occupant)
                if is_late(occupant) or not (whole or residencies.facts[residency, PARTIAL] == 0):
                    special = True
                    continue
                in_kernel = index(residency - first_residency)
                number = index(in_kernel // _TILE * entries + entry)
                if fill:
                    within[index(first[number + 1])] = in_kernel % _TILE
                    total += np.int64(lasts[in_kernel])
                first[number + 2 - fill] += 1
            run.together.powered[place, entry] = total
        if not fill:
            for number in range(lists):
                first[number + 2] += first[number + 1]
    return special


@inner
def _list_rows(run: Any) -> None:
    """List the open bits of instances in their turns slab by slab."""
    rows, used, turns = run.together.rows, np.int64(0), run.turns
    for slab in range(_SLABS):
        run.together.first_row[slab] = used
        for place in range(len(turns.instances)):
            number, turn = turns.number[place], turns.turn[place]
            for entry in range(run.open_bits.bits.shape[2]):
                chosen = run.open_bits.bits[turn, number, entry]
                left = chosen >> np.uint64(slab * _SLAB)
                row = row_of(run.open_bits, number, entry, turn) + members(chosen) - members(left)
                left &= _SLAB_BITS
                while left:
                    rows[used, 0], rows[used, 1] = place, entry
                    rows[used, 2], rows[used, 3] = lowest_bit(left), row
                    left, row, used = left & (left - BIT), row + 1, used + 1
    run.together.first_row[_SLABS] = used


@inner
def _add_tiles(run: Any) -> None:
    """Take instances through all passes, tile by tile."""
    residencies, instances = run.residencies, run.turns.instances
    first, within, rows = run.together.first, run.together.within, run.together.rows
    entries, sums, first_row = residencies.slice_.entries, run.together.sums, run.together.first_row
    cells, at_one, ones = (
        run.tracking.cells,
        run.tracking.progress.cycles_at_one,
        run.open_bits.ones,
    )
    begin = residencies.kernels.first_residency[run.kernel]
    last = residencies.kernels.first_residency[run.kernel + 1]
    for tile in range(-(-(last - begin) // _TILE)):
        here = begin + tile * _TILE
        for slab in range(_SLABS):
            _sum_tile(residencies, here, min(here + _TILE, last), slab * _SLAB, sums)
            for row in range(first_row[slab], first_row[slab + 1]):
                place, bit, to = index(rows[row, 0]), rows[row, 2], rows[row, 3]
                number = index(tile * entries + rows[row, 1])
                since, until = first[place, number], first[place, number + 1]
                add_rows(ones, to, sums, _SLAB, bit, within[place], since, until)
            for place in range(len(instances)):
                of_slab = instances[place] * _SLABS + slab
                for i in range(cells.first_in_slab[of_slab], cells.first_in_slab[of_slab + 1]):
                    cell, number = cells.in_slab[i, 0], tile * entries + cells.in_slab[i, 1]
                    bit = index(cells.place[cell] // COMPONENTS - slab * _SLAB)
                    component, total = index(cells.place[cell] % COMPONENTS), np.int64(0)
                    for k in range(first[place, number], first[place, number + 1]):
                        total += np.int64(sums[index(within[place, k] * _SLAB + bit), component])
                    at_one[cell] += total


@inner
def _sum_tile(residencies: Any, begin: int, end: int, slab: int, sums: Any) -> None:
    """Cycles at '1' of residencies while they live, from the bit `slab` on; as in `Together`."""
    facts, starts, writes = residencies.facts, residencies.write_starts, residencies.writes
    planes = residencies.contents.planes
    for residency in range(begin, end):
        ahead = min(residency + _AHEAD, end - 1)
        if facts[ahead, EVER] >> np.uint64(slab) & _SLAB_BITS:
            for write in range(starts[ahead], starts[ahead + 1]):
                prefetch(planes, int(writes.image[write]), slab)
        ever, row = facts[residency, EVER], (residency - begin) * _SLAB
        varies = ever & (ever >> np.uint64(BITS))
        first, last = starts[residency], starts[residency + 1]
        lasts = np.int64(residencies.end[residency] - writes.cycle[first])
        for bit in range(slab, slab + _SLAB, AT_ONCE):
            at = row + bit - slab
            if varies >> np.uint64(bit) & FIRST_BITS:
                sum_planes_anew(planes, writes.image, writes.duration, first, last, bit, sums, at)
            else:
                for more in range(AT_ONCE):
                    sums[at + more] = lasts * np.int64(ever >> np.uint64(bit + more) & BIT)


@inner
def _add_special(run: Any, occupants: Any, place: int, sums: Any) -> None:
    """Add the occupants of an instance that began in the LDS, or leave components as they were.

    `sums` is a workspace, T[32, 64].
    """
    residencies, passes = run.residencies, len(run.residencies.selector_starts)
    for of_pass in range(residencies.slice_.entries * passes):
        first, last = occupants.first[of_pass], occupants.first[of_pass + 1]
        entry = of_pass // passes
        for i in range(first, last):
            occupant = occupants.occupant[i]
            residency = residency_of(residencies, occupant)
            partial = residencies.facts[residency, PARTIAL]
            if not (is_late(occupant) or partial):
                continue
            begin = begin_of(residencies, occupant)
            lasts = np.int64(residencies.facts[residency, END]) - residencies.writes.cycle[begin]
            run.together.powered[place, entry] += lasts
            if partial and not _sum_partial(residencies, occupants, i, first, last, sums):
                run.tracking.progress.depends[run.turns.instances[place], entry] = True
            _add(run, residency, begin, lasts, place, entry, sums)


@inner
def _add(
    run: Any, residency: Any, begin: Any, lasts: Any, place: int, entry: int, sums: Any
) -> None:
    """Let a residency live in an entry from a write on, for so many cycles.

    One that leaves components as they were is summed up in `sums`, T[32, 64]; of any other only
    what is asked for is summed.
    """
    residencies, cells, turns = run.residencies, run.tracking.cells, run.turns
    partial = residencies.facts[residency, PARTIAL] != 0
    of_entry = turns.instances[place] * residencies.slice_.entries + entry
    for cell in range(cells.first[of_entry], cells.first[of_entry + 1]):
        at = cells.place[cell]
        if partial:
            cycles = np.int64(sums[at // COMPONENTS, at % COMPONENTS])
        else:
            cycles = _cycles_at_one(residencies, residency, begin, lasts, at)
        run.tracking.progress.cycles_at_one[cell] += cycles
    left = run.open_bits.bits[turns.turn[place], turns.number[place], entry]
    row = row_of(run.open_bits, turns.number[place], entry, turns.turn[place])
    planes, writes = residencies.contents.planes, residencies.writes
    image, duration, ones = writes.image, writes.duration, run.open_bits.ones
    end = np.int64(residencies.facts[residency, WRITES_END])
    while left:
        if partial:
            add_row(ones, row, sums, lowest_bit(left))
        else:
            sum_plane(planes, image, duration, begin, end, lowest_bit(left), ones, row)
        left &= left - BIT
        row += 1


@inlined
def _cycles_at_one(residencies: Any, residency: Any, begin: Any, lasts: Any, place: Any) -> Any:
    """Cycles at '1' of a cell, at a place as in `CellList`, while a residency lives there."""
    bit, component = place // COMPONENTS, np.uint64(place % COMPONENTS)
    ever = residencies.facts[residency, EVER]
    if not ever >> np.uint64(bit) & BIT:
        return np.int64(0)
    if not ever >> np.uint64(BITS + bit) & BIT:
        return np.int64(lasts)
    planes, writes, total = residencies.contents.planes, residencies.writes, np.int64(0)
    for write in range(begin, np.int64(residencies.facts[residency, WRITES_END])):
        lit = planes[writes.image[write], bit] >> component & BIT
        total += np.int64(writes.duration[write]) * np.int64(lit)
    return total


@inner
def _sum_partial(
    residencies: Any, occupants: Any, which: int, first: int, last: int, sums: Any
) -> bool:
    """Cycles at '1' of all cells while an occupant that leaves components as they were is there.

    Parameters
    ----------
    residencies, occupants, which : Residencies, Occupants, int
        The occupant.
    first, last : int
        All occupants of the entry in the same pass.
    sums : T[32, 64]
        Outcome.

    Returns
    -------
    bool
        Whether all components have been written; otherwise they are not powered.
    """
    masks, planes = residencies.contents.masks, residencies.contents.planes
    writes, facts = residencies.writes, residencies.facts
    begin = begin_of(residencies, occupants.occupant[which])
    end = np.int64(facts[residency_of(residencies, occupants.occupant[which]), WRITES_END])
    known = True
    for bit in range(BITS):
        for component in range(COMPONENTS):
            sums[bit, component] = 0
        # What it finds there: from the latest write backwards, its own from the pass before last.
        content, left, i = np.uint64(0), ALL_COMPONENTS, which
        for _ in range(first, last):
            i = i - 1 if i > first else last - 1
            occupant = occupants.occupant[i]
            write: Any = np.int64(facts[residency_of(residencies, occupant), WRITES_END])
            while left and write > begin_of(residencies, occupant):
                write -= 1
                cells = masks[writes.mask[write], bit] & left
                content |= planes[writes.image[write], bit] & cells
                left &= ~cells
            if not left:
                break
        known &= left == 0
        for write in range(begin, end):
            cells = masks[writes.mask[write], bit]
            content = (content & ~cells) | (planes[writes.image[write], bit] & cells)
            add_where(sums, bit, content, sums.dtype.type(writes.duration[write]))
    return known


@inner
def _finish_list(run: Any, occupants: Any, scale: float, place: int, events: Any) -> None:
    """Add the turn that an instance has come through to the seconds of its tracked cells.

    Bits of entries whose cells depend on what was there before are open no more: they are not
    known.
    """
    residencies, tracking, turns = run.residencies, run.tracking, run.turns
    cells, progress, seconds = tracking.cells, tracking.progress, tracking.seconds
    instance, number, turn = turns.instances[place], turns.number[place], turns.turn[place]
    for entry in range(residencies.slice_.entries):
        if progress.depends[instance, entry]:
            run.open_bits.bits[turn, number, entry] = 0
            work_out_entry(residencies, occupants, scale, instance, entry, tracking, events)
            continue
        powered = run.together.powered[place, entry]
        if run.open_bits.bits[turn, number, entry]:
            run.open_bits.powered[row_of(run.open_bits, number, entry, turn)] = powered
        of_entry = instance * residencies.slice_.entries + entry
        for cell in range(cells.first[of_entry], cells.first[of_entry + 1]):
            tracked, ones = cells.tracked[cell], np.int64(progress.cycles_at_one[cell])
            seconds[0, tracked] += (np.int64(powered) - ones) * scale
            seconds[1, tracked] += ones * scale
