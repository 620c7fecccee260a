"""Stress times of tracked cells, and with them of the bits that bounds leave open."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.bounds import (
    AT_ONE,
    BIT,
    IN_ROW,
    MORE,
    MORE_END,
    OPEN,
    PLACE,
    POWERED,
    ROW,
    EpochLog,
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
    TOGETHER,
    add_row,
    add_where,
    compiled,
    inlined,
    inner,
    lowest_bit,
    members,
    prefetch,
    sum_cells,
    sum_plane,
    sum_planes_anew,
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
    """Tracked cells entry by entry, four in a row; every entry has at least one row.

    Few entries have more tracked cells than four, so that nearly all have the same number of rows:
    a processor would guess wrong how many cells there are.

    Attributes
    ----------
    first : int64[entries * instances + 1]
        First row of each entry of each instance.
    place : uint32[rows, 4]
        64 times the bit, plus the component: narrower, hence faster to look sums up by.
    tracked : int64[rows, 4]
        Number of the cell among those tracked, or -1 for a place that is not taken.
    """

    first: Integers
    place: NDArray[np.uint32]
    tracked: Integers


class EpochProgress(NamedTuple):
    """How far cells, groups and instances have come in an epoch.

    Attributes
    ----------
    cycles_at_one : T[rows, 4]
        Cycles at '1' of the cells of the list, but for the first row of an entry.
    ones : int64[groups, 8]
        Cycles at '1' of the cells.
    powered : int64[groups]
        Cycles powered.
    since, first : int64[groups, passes]
        End of the latest occupant, -1 before; start of the first occupant.
    write, shift : int64[groups, passes], uint64[groups, passes]
        What the cells hold since then, and how many components further on than in its plane.
    upcoming : int64[instances, entries * passes]
        Occupant that comes next.
    depends : bool[instances, entries]
        Entries of whose cells it matters what they held before an occupant.
    mixed : bool[instances, entries]
        Entries of which blocks hold records.
    """

    cycles_at_one: NDArray[np.unsignedinteger]
    ones: Integers
    powered: Integers
    since: Integers
    first: Integers
    write: Integers
    shift: Words
    upcoming: Integers
    depends: Booleans
    mixed: Booleans


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
    group = np.cumsum(rank % TOGETHER == 0) - 1
    count = int(group[-1]) + 1 if len(group) else 0
    opens = order[rank % TOGETHER == 0]
    shape = (count, TOGETHER)
    groups = TrackedGroups(
        first=np.searchsorted(place[opens], np.arange(geometry.entries * instances + 1)),
        block=block[opens],
        column=np.zeros(shape, dtype=np.int64),
        component=np.zeros(shape, dtype=np.uint64),
        tracked=np.full(shape, -1, dtype=np.int64),
    )
    where = (group, rank % TOGETHER)
    groups.column[where], groups.component[where] = column[order], component[order]
    groups.tracked[where] = order
    return groups


def cells_of(tracked: TrackedCells, geometry: SliceGeometry, instances: int) -> CellList:
    """List tracked cells entry by entry, those of a bit side by side."""
    entry, bits = np.divmod(tracked.cell, geometry.entry_bits)
    component, column = np.divmod(bits, BITS)
    where, place = tracked.instance * geometry.entries + entry, column * COMPONENTS + component
    order = np.lexsort((place, where))
    count = np.bincount(where, minlength=geometry.entries * instances)
    first = np.append(0, np.cumsum(np.maximum(1, -(-count // IN_ROW))))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    at = first[where[order]] + rank // IN_ROW, rank % IN_ROW
    cells = CellList(
        first=first,
        place=np.zeros((first[-1], IN_ROW), dtype=np.uint32),
        tracked=np.full((first[-1], IN_ROW), -1, dtype=np.int64),
    )
    cells.place[at], cells.tracked[at] = place[order], order
    return cells


def new_progress(
    rows: int, groups: int, entries: int, instances: int, passes: int, cycles: Any
) -> Any:
    """Make space for progress; `cycles` is an array of the type of sums of cycles."""
    return EpochProgress(
        np.empty((rows, IN_ROW), cycles.dtype),
        np.empty((groups, TOGETHER), np.int64),
        np.empty(groups, np.int64),
        np.empty((groups, passes), np.int64),
        np.empty((groups, passes), np.int64),
        np.empty((groups, passes), np.int64),
        np.empty((groups, passes), np.uint64),
        np.empty((instances, entries * passes), np.int64),
        np.empty((instances, entries), np.bool_),
        np.empty((instances, entries), np.bool_),
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
        for cell in range(TOGETHER):
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
                    sum_cells(
                        contents.planes,
                        writes.image,
                        writes.duration,
                        write,
                        writes_end,
                        shift,
                        groups.column,
                        groups.component,
                        progress.ones,
                        group,
                    )
                    progress.powered[group] += leaves - now
                    if not gated:
                        progress.since[group, pass_] = leaves
                        progress.write[group, pass_] = writes_end - 1
                        progress.shift[group, pass_] = shift
                i += 1
            progress.upcoming[instance, place] = i


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
            for cell in range(TOGETHER):
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
        for cell in range(TOGETHER):
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
    for number in range(first * IN_ROW, last * IN_ROW):
        place: Any = np.int64(cells.place[number // IN_ROW, number % IN_ROW])
        tracked = cells.tracked[number // IN_ROW, number % IN_ROW]
        if tracked < 0:
            continue
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

_FIRST_BITS = np.uint64(FIRST_BITS)

_AHEAD = 2
"""Residencies between that which is summed up and that whose planes are asked for."""

_LINE = 8
"""Planes in a cache line."""

_LINE_BITS = np.uint64((1 << _LINE) - 1)


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


@compiled
def run_together(
    residencies: Residencies,
    epoch_log: EpochLog,
    kernel: int,
    turns: TurnsOfEpoch,
    homes: NDArray[np.int16],
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
    homes : int16[16, residencies, passes]
        Workspace.
    tracking : Tracking
        Tracked cells, whose seconds are raised.
    search : Search
        Open bits, and memory to work in.
    count : int
        Turns of the epoch.
    """
    cells, instances = search.workspace, turns.instances
    sums, open_bits = cells.times.ones, cells.open_bits
    special = 0
    for place in range(len(instances)):
        occupants = _occupants_of(epoch_log, turns, place)
        special |= _find_homes(residencies, occupants, homes[place]) << place
        _start_list(turns, place, tracking, open_bits)
    _advance_list(residencies, kernel, instances, homes, tracking, open_bits, sums)
    for place in range(len(instances)):
        occupants = _occupants_of(epoch_log, turns, place)
        if special >> place & 1:
            instance = instances[place]
            _advance_special(residencies, occupants, instance, place, tracking, open_bits, sums)
        scale = epoch_log.scale[instances[place], turns.epoch[place]]
        _finish_list(residencies, occupants, scale, turns, place, tracking, open_bits, cells.events)
        close(search, instances[place], turns.number[place], turns.turn[place], count)


@inner
def _occupants_of(epoch_log: Any, turns: Any, place: int) -> Any:
    """Occupants of an instance in its turn."""
    return occupants_in(epoch_log, turns.instances[place], turns.epoch[place])


@inner
def _find_homes(residencies: Any, occupants: Any, home: Any) -> int:
    """Tell where residencies live from their first write on: int16[residencies, passes].

    Nowhere if they leave components as they were.

    Returns
    -------
    int
        1 if some residency does, or began in the LDS, else 0.
    """
    passes = len(residencies.selector_starts)
    first = residencies.kernels.first_residency[occupants.kernel]
    last = residencies.kernels.first_residency[occupants.kernel + 1]
    for in_kernel in range(last - first):
        for pass_ in range(passes):
            home[in_kernel, pass_] = -1
    special = 0
    whole = residencies.kernels.whole[occupants.kernel]
    for entry in range(residencies.slice_.entries):
        for pass_ in range(passes):
            of_pass = entry * passes + pass_
            for i in range(occupants.first[of_pass], occupants.first[of_pass + 1]):
                occupant = occupants.occupant[i]
                residency = residency_of(residencies, occupant)
                if is_late(occupant) or not (whole or residencies.facts[residency, PARTIAL] == 0):
                    special = 1
                else:
                    home[residency - first, pass_] = entry
    return special


@inner
def _start_list(turns: Any, place: int, tracking: Any, open_bits: Any) -> None:
    """Bring the tracked cells of an instance, whose open bits are known, to the start of a turn.

    Parameters as for `_finish_list`.
    """
    cells, progress, lines = tracking.cells, tracking.progress, open_bits.lines
    entries = open_bits.bits.shape[2]
    instance, number = turns.instances[place], turns.number[place]
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
        chosen = open_bits.bits[turns.turn[place], number, entry]
        lines[line, OPEN] = chosen
        lines[line, ROW] = row = row_of(open_bits, number, entry, turns.turn[place])
        for open_row in range(row, row + members(chosen)):
            for component in range(COMPONENTS):
                open_bits.ones[open_row, component] = 0
        lines[line, MORE], lines[line, MORE_END] = first + 1, last


@inner
def _advance_list(
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
        Instances that run it.
    homes : int16[n, residencies, passes]
        Entry of each residency in each pass; negative if it comes later.
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
                entry = np.int64(homes[place, residency - first, pass_])
                if entry >= 0:
                    _add(lasts, place, entry, tracking, open_bits, sums)


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
def _advance_special(
    residencies: Any,
    occupants: Any,
    instance: int,
    place: int,
    tracking: Any,
    open_bits: Any,
    sums: Any,
) -> None:
    """Add the occupants of an instance that began in the LDS, or leave components as they were.

    Parameters as above.
    """
    facts, passes = residencies.facts, len(residencies.selector_starts)
    for of_pass in range(residencies.slice_.entries * passes):
        first, last, entry = (
            occupants.first[of_pass],
            occupants.first[of_pass + 1],
            of_pass // passes,
        )
        for i in range(first, last):
            occupant = occupants.occupant[i]
            residency = residency_of(residencies, occupant)
            if not (is_late(occupant) or facts[residency, PARTIAL]):
                continue
            begin = begin_of(residencies, occupant)
            lasts = np.int64(facts[residency, END]) - residencies.writes.cycle[begin]
            if not facts[residency, PARTIAL]:
                lives = Late(residency, begin, lasts)
                _add_late(residencies, lives, place, instance, entry, tracking, open_bits, sums)
                continue
            if not _sum_partial(residencies, occupants, i, first, last, sums):
                tracking.progress.depends[instance, entry] = True
            _add(lasts, place, entry, tracking, open_bits, sums)


class Late(NamedTuple):
    """A residency that began in the LDS, in an entry from a write on, for so many cycles."""

    residency: Any
    begin: Any
    lasts: Any


@inner
def _add_late(
    residencies: Any,
    lives: Any,
    place: int,
    instance: int,
    entry: int,
    tracking: Any,
    open_bits: Any,
    sums: Any,
) -> None:
    """Let a residency that began in the LDS live in an entry; only what is asked for is summed."""
    cells, ones, lines = tracking.cells, tracking.progress.cycles_at_one, open_bits.lines
    line, of_entry = (
        place * residencies.slice_.entries + entry,
        instance * residencies.slice_.entries + entry,
    )
    lines[line, POWERED] += lives.lasts
    first = cells.first[of_entry]
    for row in range(first, cells.first[of_entry + 1]):
        for cell in range(IN_ROW):
            if cells.tracked[row, cell] >= 0:
                cycles = _cycles_at_one(residencies, lives, np.int64(cells.place[row, cell]))
                if row == first:
                    lines[line, AT_ONE + cell] += cycles
                else:
                    ones[row, cell] += cycles
    left, open_row = np.uint64(lines[line, OPEN]), np.int64(lines[line, ROW])
    planes, writes = residencies.contents.planes, residencies.writes
    end = np.int64(residencies.facts[lives.residency, WRITES_END])
    while left:
        bit = lowest_bit(left)
        for component in range(COMPONENTS):
            sums[bit, component] = 0
        sum_plane(planes, writes.image, writes.duration, lives.begin, end, bit, sums)
        add_row(open_bits.ones, open_row, sums, bit)
        left &= left - BIT
        open_row += 1


@inlined
def _cycles_at_one(residencies: Any, lives: Any, place: Any) -> Any:
    """Cycles at '1' of a cell, at a place as in `CellList`, while a residency lives there."""
    bit, component = place // COMPONENTS, np.uint64(place % COMPONENTS)
    ever = residencies.facts[lives.residency, EVER]
    if not ever >> np.uint64(bit) & BIT:
        return np.int64(0)
    if not ever >> np.uint64(BITS + bit) & BIT:
        return np.int64(lives.lasts)
    planes, writes, total = residencies.contents.planes, residencies.writes, np.int64(0)
    for write in range(lives.begin, np.int64(residencies.facts[lives.residency, WRITES_END])):
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
def _add(lasts: int, place: int, entry: Any, tracking: Any, open_bits: Any, sums: Any) -> None:
    """Let a residency, which is summed up, live in an entry."""
    lines, line = open_bits.lines, index(place * open_bits.bits.shape[2] + entry)
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
def _finish_list(
    residencies: Any,
    occupants: Any,
    scale: float,
    turns: Any,
    place: int,
    tracking: Any,
    open_bits: Any,
    events: Any,
) -> None:
    """Add the turn that an instance has come through to the seconds of its tracked cells.

    Bits of entries whose cells depend on what was there before are open no more: they are not
    known.
    """
    cells, progress, seconds = tracking.cells, tracking.progress, tracking.seconds
    entries = residencies.slice_.entries
    instance, number = turns.instances[place], turns.number[place]
    for entry in range(entries):
        if progress.depends[instance, entry]:
            open_bits.bits[turns.turn[place], number, entry] = 0
            work_out_entry(residencies, occupants, scale, instance, entry, tracking, events)
            continue
        powered = np.int64(open_bits.lines[place * entries + entry, POWERED])
        if open_bits.bits[turns.turn[place], number, entry]:
            row = row_of(open_bits, number, entry, turns.turn[place])
            open_bits.powered[row] = powered
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
