"""The most stressed cell of an instance by branch and bound, without a look at every cell.

For every bit of every entry a bound is known. Only where it exceeds what has been seen already are
its cells worked out, from all epochs; what comes out is kept, and is their bound from then on.
Within the latest epoch no cell exceeds the line between its bounds before and after. It may have
several turns, which are looked at together.

A bound says how long any cell of a bit can have held '0' or '1'. It looks at residencies, not at
writes, and at 32 bits, not at 2,048 cells. The same bit of all components of a register is often
alike in all of them, so that the bounds are near the truth. Residencies are taken in order of time,
in which they follow each other in memory, too.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Pool
from mcage.engines.numba_engine.cell_times import (
    Events,
    Times,
    clear,
    gathered_times,
    only_whole,
    whole_times,
)
from mcage.engines.numba_engine.homes import (
    LDS,
    WHOLE_ENTRY,
    Occupants,
    begin_of,
    block_of,
    is_late,
    least_and_most,
    residency_of,
)
from mcage.engines.numba_engine.jit import (
    COMPONENTS,
    add_row,
    add_where,
    aligned_zeros,
    compiled,
    inlined,
    inner,
    lowest_bit,
    members,
    prefetch,
)
from mcage.engines.numba_engine.residencies import BITS, END, LAST, Residencies
from mcage.geometry import Booleans, Bytes, Floats, Integers, Words

BLOCKS = WHOLE_ENTRY
"""Blocks of an entry for which there is room; where it has fewer, the others hold no record."""

_VIEWS = BLOCKS + 1
"""Views of an entry: from the cells of a record in each block, and from all other cells."""

_LINE = 16
"""Sums of 32 bits in a cache line."""
_AHEAD = 16
"""Residencies between that which is added and that whose bounds are loaded."""


class Views(NamedTuple):
    """Bounds of an instance's epoch, and the workspace of `bound_occupants`.

    Attributes
    ----------
    at_most : T[entries, 64]
        Of each entry, cycles of bit b at '1' in ``[:, b]``, at '0' in ``[:, 32 + b]``.
    sums : T[4 * entries, 64]
        Bounds of the cells of records, at ``[4 * entry + block]``; those of the other cells go to
        `at_most` at once.
    recorded : bool[entries]
        Entries that hold records.
    record_cycles : int64[4 * entries]
        How long records are there.
    held : uint64[passes * entries * 5]
        What some component of each view holds since its latest occupant, numbered as
        `Residencies.facts`.
    since, first : int64[passes * entries * 5]
        End of the latest occupant, -1 before; start of the first occupant.
    """

    at_most: NDArray[np.unsignedinteger]
    sums: NDArray[np.unsignedinteger]
    recorded: Booleans
    record_cycles: Integers
    held: Words
    since: Integers
    first: Integers


class Occupancy(NamedTuple):
    """A residency while it lives in an entry.

    Attributes
    ----------
    residency : int
        Residency.
    complete : bool
        Whether it has lived there from its first write on; otherwise it began in the LDS.
    start, end : int
        Cycles.
    """

    residency: Any
    complete: Any
    start: Any
    end: Any


def new_views(entries: int, passes: int, cycles: Any) -> Any:
    """Make views; `cycles` is an array of the type of sums of cycles."""
    return Views(
        aligned_zeros((entries, COMPONENTS), cycles.dtype),
        aligned_zeros((entries * BLOCKS, COMPONENTS), cycles.dtype),
        np.empty(entries, np.bool_),
        np.empty(entries * BLOCKS, np.int64),
        np.empty(passes * entries * _VIEWS, np.uint64),
        *np.empty((2, passes * entries * _VIEWS), np.int64),
    )


@inner
def bound_homes(residencies: Any, kernel: int, homes: Any, at_most: Any) -> None:
    """Bound cells if released places are off and every residency has an entry to itself.

    Parameters
    ----------
    residencies, kernel : Residencies, int
        What runs.
    homes : Homes
        Homes of residencies, without those that began in the LDS, which stand in `arrivals` alone.
    at_most : T[entries, 64]
        Bounds, as in `Views`.
    """
    first, home = residencies.kernels.first_residency[kernel], homes.home
    at_most[:] = 0
    for in_kernel in range(residencies.kernels.first_residency[kernel + 1] - first):
        _load(residencies.facts, residencies.at_most, first + in_kernel + _AHEAD)
        for pass_ in range(home.shape[1]):
            if home[in_kernel, pass_] >= 0:
                entry = home[in_kernel, pass_] >> 3
                add_row(at_most, entry, residencies.at_most, first + in_kernel)
    if homes.tally.events[LDS]:
        _bound_late(residencies, homes.arrivals, at_most)


@inner
def _bound_late(residencies: Any, arrivals: Any, at_most: Any) -> None:
    """Bound cells of residencies that began in the LDS: see `_add_late`."""
    cycle = residencies.writes.cycle
    for pass_ in range(len(arrivals.arrived)):
        for i in range(arrivals.arrived[pass_]):
            occupant = arrivals.occupant[i, pass_]
            if is_late(occupant):
                residency = residency_of(residencies, occupant)
                start = cycle[begin_of(residencies, occupant)]
                lasts = np.int64(residencies.facts[residency, END]) - start
                _add_late(at_most, arrivals.entry[i, pass_], residencies.at_most, residency, lasts)


@inner
def bound_occupants(residencies: Any, kernel: int, arrivals: Any, views: Any) -> None:
    """Bound cells under any placement.

    The cells of a block's record see the occupants of the whole entry and the records in their
    block, the others only the former: five views of an entry, each with a bound.
    """
    _start(arrivals, views)
    for i in range(least_and_most(arrivals.arrived)[1]):
        for pass_ in range(len(arrivals.arrived)):
            if i < arrivals.arrived[pass_]:
                _take(residencies, arrivals, pass_, i, views)
    if residencies.rules.gated:
        _add_records(views)
    else:
        _come_round(residencies.kernels.cycles[kernel], len(arrivals.arrived), views)
    at_most, sums, recorded = views.at_most, views.sums, views.recorded
    for entry in range(len(recorded)):
        if recorded[entry]:
            for block in range(BLOCKS):
                for which in range(COMPONENTS):
                    most = max(at_most[entry, which], sums[entry * BLOCKS + block, which])
                    at_most[entry, which] = most


@inner
def _start(arrivals: Any, views: Any) -> None:
    """Find out which entries hold records; nothing has happened yet."""
    sums, recorded = views.sums, views.recorded
    views.at_most[:] = 0
    recorded[:] = False
    views.record_cycles[:] = 0
    views.since[:] = -1
    views.held[:] = 0
    for pass_ in range(len(arrivals.arrived)):
        for i in range(arrivals.arrived[pass_]):
            record = block_of(arrivals.occupant[i, pass_]) != WHOLE_ENTRY
            recorded[arrivals.entry[i, pass_]] |= record
    for entry in range(len(recorded)):
        if recorded[entry]:
            sums[entry * BLOCKS : (entry + 1) * BLOCKS] = 0


@inlined
def _take(residencies: Any, arrivals: Any, pass_: int, position: int, views: Any) -> None:
    """Add an occupant of a pass."""
    facts, at_most, sums, recorded = residencies.facts, views.at_most, views.sums, views.recorded
    occupant, entry = arrivals.occupant[position, pass_], arrivals.entry[position, pass_]
    residency, block = residency_of(residencies, occupant), block_of(occupant)
    _load(facts, residencies.at_most, residency + _AHEAD)
    view = (pass_ * len(recorded) + entry) * _VIEWS
    start = residencies.writes.cycle[begin_of(residencies, occupant)]
    end = np.int64(facts[residency, END])
    lives = Occupancy(residency, not is_late(occupant), start, end)
    if block != WHOLE_ENTRY:
        row = entry * BLOCKS + block
        _add(residencies, lives, sums, row, views, view + block)
        views.record_cycles[row] += end - start
    else:
        _add(residencies, lives, at_most, entry, views, view + WHOLE_ENTRY)
        if recorded[entry]:
            for other in range(BLOCKS):
                _add(residencies, lives, sums, entry * BLOCKS + other, views, view + other)


@inlined
def _load(facts: Any, at_most: Any, residency: int) -> None:
    """Have what is known of a residency at hand soon."""
    prefetch(facts, residency, 0)
    for column in range(0, COMPONENTS, _LINE):
        prefetch(at_most, residency, column)


@inlined
def _add(residencies: Any, lives: Any, sums: Any, row: int, views: Any, view: int) -> None:
    """Add an occupancy to a view, and what the view held since the occupant before."""
    since, held, first = views.since, views.held, views.first
    residency, start, end = lives.residency, lives.start, lives.end
    if lives.complete:
        add_row(sums, row, residencies.at_most, residency)
    else:
        _add_late(sums, row, residencies.at_most, residency, end - start)
    if residencies.rules.gated:
        return
    _add_where(sums, row, held[view], start - since[view])
    first[view] = start if since[view] < 0 else first[view]
    since[view] = end
    held[view] = residencies.facts[residency, LAST]


@inlined
def _add_late(sums: Any, row: int, at_most: Any, residency: int, lasts: Any) -> None:
    """Add a residency that began in the LDS: no cell can show a value for longer than `lasts`."""
    cycles = sums.dtype.type(lasts)
    for which in range(COMPONENTS):
        sums[row, which] += min(at_most[residency, which], cycles)


@inlined
def _add_where(sums: Any, row: int, bits: np.uint64, cycles: Any) -> None:
    add_where(sums, row, bits, sums.dtype.type(cycles))


@inner
def _come_round(cycles: int, passes: int, views: Any) -> None:
    """Let what a view holds at the end of a pass stay until its first occupant in the next."""
    since, held, first, entries = views.since, views.held, views.first, len(views.recorded)
    for view in range(passes * entries * _VIEWS):
        if since[view] >= 0:
            left = first[view] + cycles - since[view]
            entry, which = view // _VIEWS % entries, view % _VIEWS
            if which == WHOLE_ENTRY:
                _add_where(views.at_most, entry, held[view], left)
            else:
                _add_where(views.sums, entry * BLOCKS + which, held[view], left)


@inner
def _add_records(views: Any) -> None:
    """Let a record power all of its block: its other cells are on with what they held before."""
    at_most, record_cycles = views.at_most, views.record_cycles
    for entry in range(len(views.recorded)):
        if views.recorded[entry]:
            longest = 0
            for block in range(BLOCKS):
                longest = max(longest, record_cycles[entry * BLOCKS + block])
            for bit in range(BITS):
                if at_most[entry, bit] or at_most[entry, BITS + bit]:
                    at_most[entry, bit] += longest
                    at_most[entry, BITS + bit] += longest


# History of every instance of a batch, epoch by epoch.
#
# Here an epoch is one in which a kernel runs: each turn of those in which several do, which differ
# in nothing else, is one of its own.


IN_SHARED_PLACES = -1
"""In place of where occupants begin: the kernel ran in places that instances share."""


class EpochLog(NamedTuple):
    """Epochs of the lives of instances; arrays [instances, epochs, ...].

    Attributes
    ----------
    epochs : int64[instances]
        Epochs so far.
    kernel, scale : int64, float64
        Kernel that ran, and the seconds that a cycle of all its passes stands for.
    first : int32[..., entries * passes + 1]
        As in `Occupants`.
    begin : int64
        Where the occupants of the epoch begin in `occupant`; or `IN_SHARED_PLACES`.
    places : int16[..., places]
        In the latter case what each place is like: see `SharedPlacements`.
    occupant : uint32[...]
        Occupants of all epochs, epoch after epoch.
    used : int64[1]
        How many there are.
    """

    epochs: Integers
    kernel: Integers
    scale: Floats
    first: NDArray[np.int32]
    begin: Integers
    places: NDArray[np.int16]
    occupant: NDArray[np.uint32]
    used: Integers


def new_epoch_log(
    lists: int, places: int, instances: int, epochs: int, occupant: NDArray[np.uint32]
) -> EpochLog:
    """Make space for so many epochs of every instance.

    Parameters
    ----------
    lists : int
        Entries x passes.
    places : int
        Places that instances may share.
    instances, epochs : int
        How many.
    occupant : uint32[...]
        Memory for occupants.
    """
    shape = (instances, epochs)
    # Pages that are never touched take no memory.
    return EpochLog(
        np.zeros(instances, np.int64),
        np.empty(shape, np.int64),
        np.empty(shape),
        np.empty((*shape, lists + 1), np.int32),
        np.empty(shape, np.int64),
        np.empty((*shape, places), np.int16),
        occupant,
        np.zeros(1, np.int64),
    )


def enlarged(
    before: EpochLog, epochs: int, occupants: int, pool: Pool[NDArray[np.uint32]]
) -> EpochLog:
    """Return the log with space for so many epochs of every instance, and occupants more."""
    instances, at_most = before.kernel.shape
    used = int(before.used[0])
    if epochs <= at_most and used + occupants <= len(before.occupant):
        return before
    lists, occupant = before.first.shape[2] - 1, before.occupant
    if used + occupants > len(occupant):
        occupant = pool.take(2 * (used + occupants))
        occupant[:used] = before.occupant[:used]
        pool.give_back(before.occupant)
    places = before.places.shape[2]
    more = new_epoch_log(lists, places, instances, max(2 * epochs, at_most), occupant)
    more.epochs[:], more.used[:] = before.epochs, before.used
    for name in ("kernel", "scale", "first", "begin", "places"):
        getattr(more, name)[:, :at_most] = getattr(before, name)
    return more


@inner
def occupants_in(epoch_log: Any, instance: int, epoch: int) -> Any:
    """Return the occupants of an instance in an epoch."""
    begin = epoch_log.begin[instance, epoch]
    return Occupants(
        epoch_log.kernel[instance, epoch],
        epoch_log.first[instance, epoch],
        epoch_log.occupant[begin:],
    )


@inner
def begin_epoch(epoch_log: Any, instance: int, kernel: int, scale: float, begin: int) -> int:
    """Begin the next epoch of an instance; return its number."""
    epoch: int = epoch_log.epochs[instance]
    epoch_log.epochs[instance] = epoch + 1
    epoch_log.kernel[instance, epoch] = kernel
    epoch_log.scale[instance, epoch] = scale
    epoch_log.begin[instance, epoch] = begin
    return epoch


class Batch(NamedTuple):
    """The kernel that all instances run in a turn of an epoch.

    Attributes
    ----------
    kernel : int
        The kernel.
    scale : float64[m]
        Seconds that a cycle stands for in each instance.
    instances : int64[m]
        Instances.
    fault_maps : uint8[n, entries]
        Fault map of each; those beyond the instances are placed, and nothing else.
    turn : int64[m]
        How many turns the epoch of each has had before.
    number : int64[m]
        Number of each among the instances whose bits are open at the same time.
    in_shared_places : bool
        Whether all of them run it in the places that instances share (`SharedPlacements`).
    """

    kernel: int
    scale: Floats
    instances: Integers
    fault_maps: Bytes
    turn: Integers
    number: Integers
    in_shared_places: bool


# Bits of entries that bounds leave open when instances have run all turns of an epoch.
#
# Those of instances that run the same kernel are worked out in one pass through its residencies:
# what a residency shows is the same wherever it lives. That holds if released places are off, and
# every residency has an entry to itself.

OPENED_TOGETHER = 48
"""Instances whose bits are open at a time, and that go through a kernel at a time."""

OPEN_ROWS = 3 << 16
"""Turns of open bits of all these for which there is space. Others are looked at one by one."""

BIT = np.uint64(1)


class OpenBits(NamedTuple):
    """Open bits of instances in the turns of their latest epochs; they are numbered from 0.

    Attributes
    ----------
    bits : uint64[turns, 48, entries]
        Set of the open bits of each entry: from turn to turn there are fewer.
    first : int64[48, entries]
        Row of `ones` of the first of them in the first turn; the others follow. For each turn there
        are as many rows as for the first.
    used : int64[1]
        Rows in use.
    ones : T[rows, 64]
        Cycles at '1' of the cells of an open bit.
    powered : T[rows]
        Cycles for which an entry is powered in a turn, at the first row of that.
    at_most : T[turns, 48, entries, 64]
        Bounds in each turn, as in `Views`.
    """

    bits: Words
    first: Integers
    used: Integers
    ones: NDArray[np.unsignedinteger]
    powered: NDArray[np.unsignedinteger]
    at_most: NDArray[np.unsignedinteger]


def new_open_bits(entries: int, turns: int, cycles: Any) -> Any:
    """Make space for open bits of slices of so many entries, in epochs of so many turns.

    `cycles` is an array of the type of sums of cycles.
    """
    # Pages that are never touched take no memory.
    return OpenBits(
        np.zeros((turns, OPENED_TOGETHER, entries), np.uint64),
        np.zeros((OPENED_TOGETHER, entries), np.int64),
        np.zeros(1, np.int64),
        aligned_zeros((OPEN_ROWS, COMPONENTS), cycles.dtype),
        np.empty(OPEN_ROWS, cycles.dtype),
        aligned_zeros((turns, OPENED_TOGETHER, entries, COMPONENTS), cycles.dtype),
    )


def forget(open_bits: Any) -> None:
    """Forget all open bits."""
    open_bits.ones[: open_bits.used[0]] = 0
    open_bits.bits[:] = 0
    open_bits.used[0] = 0


@inner
def add_open(open_bits: Any, place: int, entry: int, chosen: np.uint64, turns: int) -> None:
    """Add the chosen bits of an entry of an instance, unless there is no space for them."""
    used, ones = open_bits.used[0], open_bits.ones
    more = turns * members(chosen)
    if used + more > len(ones):
        return
    open_bits.bits[0, place, entry] = chosen
    open_bits.first[place, entry] = used
    open_bits.used[0] = used + more


@inlined
def row_of(open_bits: Any, place: int, entry: int, turn: Any) -> Any:
    """First row of the open bits of an entry in a turn."""
    return open_bits.first[place, entry] + turn * members(open_bits.bits[0, place, entry])


@inlined
def take_over(
    open_bits: Any, place: int, entry: int, turn: int, chosen: np.uint64, times: Any
) -> None:
    """Copy the times of the chosen bits of an entry in a turn, which are among the open ones."""
    row = row_of(open_bits, place, entry, turn)
    powered = open_bits.powered[row]
    for bit in range(BITS):
        if open_bits.bits[turn, place, entry] >> np.uint64(bit) & BIT:
            if chosen >> np.uint64(bit) & BIT:
                for component in range(COMPONENTS):
                    times.ones[bit, component] = open_bits.ones[row, component]
                    times.powered[bit, component] = powered
            row += 1


# Stress times of each instance: bounds for all cells, sums for some bits.

_KEPT = 256
"""Bits of entries whose cells are kept, for each instance of a batch on average."""


class Cells(NamedTuple):
    """Bounds of all cells of each instance, and seconds of those that have been worked out.

    Attributes
    ----------
    bounds : float64[2, instances, entries, 32]
        Seconds at '0' and at '1' that no cell with this bit of this entry exceeds.
    before : float64[2, instances, entries, 32]
        Bounds before all turns of the latest epoch.
    kept : int32[instances, entries, 32]
        Place at which the cells of the bit are kept, or -1.
    used : int64[1]
        How many bits are kept, of all instances together: some have ten times as many as others.
    epochs : int64[places + 32]
        Epochs that are in `seconds`. The last 32 places are for bits that find no other.
    seconds : float64[places + 32, 2, 64]
        Seconds at '0' and at '1'.
    """

    bounds: Floats
    before: Floats
    kept: NDArray[np.int32]
    used: Integers
    epochs: Integers
    seconds: Floats


class FaultFreeState(NamedTuple):
    """History of instances before their first fault.

    Attributes
    ----------
    seconds : float64[instances, kernels]
        Time spent on each kernel.
    period : int64[kernels]
        Cycles of a whole replay.
    at_zero, at_one : uint32 or int64[kernels, cells]
        Cycles of it at '0' and at '1' on a slice without faults.
    components : int
        Components of an entry.
    """

    seconds: Floats
    period: Integers
    at_zero: NDArray[np.integer]
    at_one: NDArray[np.integer]
    components: int


class Turn(NamedTuple):
    """A turn of the latest epoch of an instance.

    Attributes
    ----------
    number, first : int
        Where it stands in the log, and the first turn of the epoch.
    scale : float
        Seconds that a cycle stands for.
    """

    number: Any
    first: Any
    scale: Any


def new_cells(entries: int, instances: int) -> Cells:
    """Make space for the cells of so many instances, slices of so many entries."""
    places = instances * _KEPT + BITS
    return Cells(
        np.empty((2, instances, entries, BITS)),
        np.empty((2, instances, entries, BITS)),
        np.empty((instances, entries, BITS), dtype=np.int32),
        np.zeros(1, dtype=np.int64),
        np.empty(places, dtype=np.int64),
        np.empty((places, 2, COMPONENTS)),
    )


@inner
def all_kept(cells: Any) -> bool:
    """Whether all bits that have been worked out so far found a place."""
    return bool(cells.used[0] < _places(cells))


@inlined
def place_without(cells: Any, bit: int) -> int:
    """Place of a bit that found no other, until the next is worked out."""
    return _places(cells) + bit


@inlined
def _places(cells: Any) -> int:
    return len(cells.epochs) - BITS


@inner
def keep_bounds(cells: Any, instance: int) -> None:
    """Keep the bounds with which an epoch begins."""
    bounds, before = cells.bounds, cells.before
    for which in range(2):
        for entry in range(bounds.shape[2]):
            for bit in range(BITS):
                before[which, instance, entry, bit] = bounds[which, instance, entry, bit]


@inner
def raise_bounds(cells: Any, instance: int, at_most: Any, scale: float) -> None:
    """Raise bounds by what a turn has added at most: cycles T[entries, 64], see `Views`."""
    bounds = cells.bounds
    for entry in range(bounds.shape[2]):
        for bit in range(BITS):
            bounds[1, instance, entry, bit] += np.int64(at_most[entry, bit]) * scale
            bounds[0, instance, entry, bit] += np.int64(at_most[entry, BITS + bit]) * scale


@inner
def tighten(cells: Any, instance: int, turn: Any, times: Any, entry: int, bit: int) -> None:
    """Bound a bit by what a turn of the latest epoch has really added; the turns come in order.

    Not so if its cells are worked out. `times` are those of the entry in the turn.
    """
    kept = cells.kept[instance, entry, bit]
    if kept >= 0 and cells.epochs[kept] >= turn.first:
        return
    most_zeros, most_ones = most_cycles(times, bit)
    bounds, before, scale = cells.bounds, cells.before, turn.scale
    if turn.number == turn.first:
        bounds[0, instance, entry, bit] = before[0, instance, entry, bit]
        bounds[1, instance, entry, bit] = before[1, instance, entry, bit]
    bounds[0, instance, entry, bit] += most_zeros * scale
    bounds[1, instance, entry, bit] += most_ones * scale


@inner
def most_cycles(times: Any, bit: int) -> Any:
    """Most cycles at '0' and at '1' of any component of a bit."""
    most_zeros, most_ones = np.int64(0), np.int64(0)
    for component in range(COMPONENTS):
        ones = np.int64(times.ones[bit, component])
        most_ones = max(most_ones, ones)
        most_zeros = max(most_zeros, np.int64(times.powered[bit, component]) - ones)
    return most_zeros, most_ones


@inner
def find_places(state: Any, cells: Any, instance: int, entry: int, chosen: np.uint64) -> int:
    """Give every chosen bit a place; return the first epoch that is missing from any of them."""
    first = 1 << 62
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & BIT:
            kept = cells.kept[instance, entry, bit]
            if kept < 0:
                kept = place_without(cells, bit)
                if all_kept(cells):
                    kept = cells.used[0]
                    cells.used[0] += 1
                cells.kept[instance, entry, bit] = kept
                cells.epochs[kept] = 0
                _start_cells(state, cells.seconds, instance, entry, bit, kept)
            first = min(first, cells.epochs[kept])
    return first


@inner
def _start_cells(state: Any, seconds: Any, instance: int, entry: int, bit: int, kept: int) -> None:
    """Start from the time that the instance spent without faults."""
    for component in range(COMPONENTS):
        seconds[kept, 0, component] = 0.0
        seconds[kept, 1, component] = 0.0
    of_entry = state.components
    for kernel in range(state.seconds.shape[1]):
        spent = state.seconds[instance, kernel]
        if spent:
            period = np.float64(state.period[kernel])
            for component in range(COMPONENTS):
                within = component if component < of_entry else component % of_entry
                cell = (entry * of_entry + within) * BITS + bit
                zeros, ones = state.at_zero[kernel, cell], state.at_one[kernel, cell]
                seconds[kept, 0, component] += spent * (np.float64(zeros) / period)
                seconds[kept, 1, component] += spent * (np.float64(ones) / period)


@inner
def missing(cells: Any, instance: int, epoch: int, entry: int, chosen: np.uint64) -> np.uint64:
    """Return the chosen bits of which an epoch is missing in what is kept."""
    bits = np.uint64(0)
    for bit in range(BITS):
        kept = cells.kept[instance, entry, bit]
        if chosen >> np.uint64(bit) & BIT and cells.epochs[kept] <= epoch:
            bits |= BIT << np.uint64(bit)
    return bits


@inner
def add_epoch(
    cells: Any, instance: int, scale: float, times: Any, entry: int, chosen: np.uint64
) -> None:
    """Add what an epoch did to the chosen bits of an entry: its times, scaled."""
    seconds = cells.seconds
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & BIT:
            kept = cells.kept[instance, entry, bit]
            for component in range(COMPONENTS):
                ones = np.int64(times.ones[bit, component])
                zeros = np.int64(times.powered[bit, component]) - ones
                seconds[kept, 0, component] += zeros * scale
                seconds[kept, 1, component] += ones * scale


@inner
def settle(cells: Any, instance: int, epochs: int, entry: int, bit: int) -> None:
    """Bound a bit whose cells are worked out up to an epoch: no bound is better than the truth."""
    kept = cells.kept[instance, entry, bit]
    cells.epochs[kept] = epochs
    if kept >= _places(cells):
        cells.kept[instance, entry, bit] = -1
    for which in range(2):
        most = 0.0
        for component in range(COMPONENTS):
            most = max(most, cells.seconds[kept, which, component])
        cells.bounds[which, instance, entry, bit] = most


# The search: which cells are worked out, and in which order.

ALONE, OPEN_UP, FINISH = range(3)
"""Steps of the search, see `look`."""

_NOT_AMONG = -1
"""Place of an instance of which no open bits have been worked out."""

_ROUNDING = 1e-12
"""Fraction of a bound by which it may fall short within an epoch by rounding alone."""

_OUTWEIGHS = 1e-14
"""Fraction of a bound that is more than the rounding errors of the few sums of a cell's time."""


class CellWorkspace(NamedTuple):
    """Memory in which cells of an instance are worked out.

    Attributes
    ----------
    events : Events
        Events of an entry.
    times : Times
        Times of an entry in any turn.
    latest : Times
        Times of an entry in the turns of the latest epoch: T[turns, 32, 64].
    open_bits : OpenBits
        Bits of the latest epoch that have been worked out for several instances at once.
    most : float64[2]
        Longest seconds at '0' and at '1' of any cell of an instance that has been seen so far.
    left : float64[32, 2, 64]
        Seconds of the cells of an entry that are left at a moment, by bit and component.
    """

    events: Events
    times: Times
    latest: Times
    open_bits: OpenBits
    most: Floats
    left: Floats


class SharedTimes(NamedTuple):
    """Cell times of each kernel on the map of its own; a place is entry x blocks + block.

    T is the type of sums of cycles.

    Attributes
    ----------
    ones, powered : T[kernels, places, 32, components of a block]
        Cycles at '1' and powered of the cells of a place.
    most : T[kernels, 2, places, 32]
        Most cycles at '0' and at '1' of any component of a place.
    faulty : int64[kernels]
        Faulty entries of the map: the first ones, each of which lacks its last block.
    """

    ones: NDArray[np.unsignedinteger]
    powered: NDArray[np.unsignedinteger]
    most: NDArray[np.unsignedinteger]
    faulty: Integers


class Search(NamedTuple):
    """Input and output arrays of the search for the most stressed cell.

    Attributes
    ----------
    residencies, epoch_log, state : Residencies, EpochLog, FaultFreeState
        What happened.
    cells : Cells
        What is known of cells, brought up to date.
    longest : float64[2, instances]
        Longest seconds at '0' and at '1' among all cells of each instance.
    shared : SharedTimes
        Cell times in places that instances share.
    workspace : CellWorkspace
        Memory to work in.
    """

    residencies: Residencies
    epoch_log: EpochLog
    state: FaultFreeState
    cells: Cells
    longest: Floats
    shared: SharedTimes
    workspace: CellWorkspace


class Moment(NamedTuple):
    """A moment within the latest epoch of an instance, or its end.

    Attributes
    ----------
    place : int
        Number of the instance among those whose open bits have been worked out, or -1.
    epochs : int
        Turns of the instance, those of the latest epoch included.
    scale : float
        Seconds that a cycle of the latest turn stands for.
    backs : float64[turns]
        Seconds to be taken back for each cycle of the turns of the latest epoch.
    part : float
        Part of the epoch that has passed; 1 at its end.
    most : float64[2]
        Longest seconds at '0' and at '1' of any cell seen so far.
    """

    place: int
    epochs: Any
    scale: Any
    backs: Floats
    part: float
    most: Floats


@compiled
def look(search: Search, instances: Integers, backs: Floats, step: int) -> None:
    """Raise the longest seconds at '0' and at '1' of any cell of each instance.

    Parameters
    ----------
    search : Search
        What happened; bounds include the latest epoch.
    instances : int64[m]
        Instances, in the order in which their open bits are worked out together.
    backs : float64[m, turns]
        Seconds to be taken back for each cycle of the turns of the latest epoch, fewer than were
        added.
    step : int
        `ALONE` looks wherever need be, instance by instance. `OPEN_UP` looks where a cell is likely
        to be the most stressed one, and adds the bits that may be longer than it to those that are
        worked out together; `FINISH`, after that, looks at these and wherever else need be.
    """
    cells, epoch_log, longest = search.cells, search.epoch_log, search.longest
    most = search.workspace.most
    for place in range(len(instances)):
        instance = instances[place]
        epochs = epoch_log.epochs[instance]
        scale, part = (
            epoch_log.scale[instance, epochs - 1],
            _part(epoch_log, instance, backs[place]),
        )
        among = place if step == FINISH else _NOT_AMONG
        moment = Moment(among, epochs, scale, backs[place], part, most)
        most[0], most[1] = longest[0, instance], longest[1, instance]
        if step == FINISH:
            _keep_up(search, instance, moment)
        else:
            _look_where_likely(search, instance, moment)
        for entry in range(cells.kept.shape[1]):
            chosen = _exceeding(cells, instance, entry, moment)
            if chosen and step == OPEN_UP:
                add_open(search.workspace.open_bits, place, entry, chosen, backs.shape[1])
            elif chosen:
                _look(search, instance, entry, chosen, moment)
        longest[0, instance], longest[1, instance] = most[0], most[1]


@inner
def _part(epoch_log: EpochLog, instance: int, backs: Floats) -> float:
    """Part of the latest turns that has passed, by the turn of which most is subtracted."""
    most, part = 0.0, 1.0
    first = epoch_log.epochs[instance] - len(backs)
    for turn in range(len(backs)):
        if backs[turn] > most:
            most, part = backs[turn], 1 - backs[turn] / epoch_log.scale[instance, first + turn]
    return part


@inner
def _look_where_likely(search: Search, instance: int, moment: Moment) -> None:
    """Look at the bits whose bounds promise most."""
    for number in range(4):
        which: int = number // 2
        guess: Any = np.int64(-1)
        if moment.part < 1.0:
            if number % 2 == 0:
                guess = _argmax_of_bounds(search.cells, which, instance, moment)
        elif number % 2 == 0:
            guess = _argmax_of_middles(search.cells.bounds, which, instance)
        else:
            guess = _argmax_before(search.cells.before, which, instance)
        if guess >= 0:
            entry, bit = guess // BITS, guess % BITS
            if _bound_at(search.cells, which, instance, entry, bit, moment) > moment.most[which]:
                _look(search, instance, entry, BIT << np.uint64(bit), moment)


@inner
def _argmax_of_middles(bounds: Any, which: int, instance: int) -> np.int64:
    """Return the bit of an entry with the highest middle between its bound and the least time.

    An entry is powered for about as long as its bit with the least sum of both bounds says, and
    a cell that is not at one value is at the other. Bounds as in `Cells`.
    """
    best, highest, other = np.int64(0), -1.0, 1 - which
    for entry in range(bounds.shape[2]):
        powered = bounds[which, instance, entry, 0] + bounds[other, instance, entry, 0]
        for bit in range(1, BITS):
            both = bounds[which, instance, entry, bit] + bounds[other, instance, entry, bit]
            powered = min(powered, both)
        for bit in range(BITS):
            twice = bounds[which, instance, entry, bit] + powered
            twice -= bounds[other, instance, entry, bit]
            if twice > highest:
                best, highest = np.int64(entry * BITS + bit), twice
    return best


@inner
def _argmax_before(before: Any, which: int, instance: int) -> np.int64:
    """Return the bit of an entry with the highest bound before the epoch."""
    best, highest = np.int64(0), -1.0
    for entry in range(before.shape[2]):
        for bit in range(BITS):
            if before[which, instance, entry, bit] > highest:
                best, highest = np.int64(entry * BITS + bit), before[which, instance, entry, bit]
    return best


@inner
def _argmax_of_bounds(cells: Any, which: int, instance: int, moment: Any) -> np.int64:
    """Return the bit of an entry with the highest bound at a moment within the epoch."""
    best, highest = np.int64(0), -1.0
    for entry in range(cells.kept.shape[1]):
        for bit in range(BITS):
            bound = _bound_at(cells, which, instance, entry, bit, moment)
            if bound > highest:
                best, highest = np.int64(entry * BITS + bit), bound
    return best


@inner
def _keep_up(search: Search, instance: int, moment: Moment) -> None:
    """Work out the open bits of which no turn before the epoch is missing: it costs little now."""
    cells, workspace, turns = search.cells, search.workspace, len(moment.backs)
    bits, first = workspace.open_bits.bits, moment.epochs - turns
    for entry in range(bits.shape[2]):
        chosen, left = np.uint64(0), bits[turns - 1, moment.place, entry]
        while left:
            bit = lowest_bit(left)
            left &= left - BIT
            kept = cells.kept[instance, entry, bit]
            if (cells.epochs[kept] if kept >= 0 else 0) == first:
                chosen |= BIT << np.uint64(bit)
        if chosen:
            for turn in range(turns):
                times = _latest(workspace, turn)
                take_over(workspace.open_bits, moment.place, entry, turn, chosen, times)
            _work_out(search, instance, entry, chosen, first)
            _raise_most(cells, instance, entry, chosen, moment.most)


@inner
def close(search: Search, instance: int, place: int, turn: Any, turns: int) -> None:
    """Bound the open bits of an instance by what a turn has really added; some are open no more."""
    open_bits, times = search.workspace.open_bits, search.workspace.times
    for entry in range(open_bits.bits.shape[2]):
        chosen = open_bits.bits[turn, place, entry]
        if turn < turns - 1:
            if chosen:
                take_over(open_bits, place, entry, turn, chosen, times)
                chosen = _still_open(search, instance, place, turn, turns, entry, chosen)
            open_bits.bits[turn + 1, place, entry] = chosen
        elif chosen:
            for passed in range(turns):
                take_over(open_bits, place, entry, passed, chosen, times)
                _tighten(search, instance, turns, passed, times, entry, chosen)


@inner
def _still_open(
    search: Search,
    instance: int,
    place: int,
    turn: int,
    turns: int,
    entry: int,
    chosen: np.uint64,
) -> np.uint64:
    """Bits whose bounds exceed what has been seen, though a turn, not the last, is known."""
    cells, times = search.cells, search.workspace.times
    at_most = search.workspace.open_bits.at_most
    first = search.epoch_log.epochs[instance] - turns
    scale = search.epoch_log.scale[instance, first + turn]
    left = chosen
    while left:
        bit = lowest_bit(left)
        left &= left - BIT
        kept = cells.kept[instance, entry, bit]
        if kept < 0 or cells.epochs[kept] <= first:
            exceeds = False
            most = most_cycles(times, bit)
            for which in range(2):
                bound = np.int64(at_most[turn, place, entry, BITS * (1 - which) + bit])
                after = cells.bounds[which, instance, entry, bit]
                less = after - (bound - most[which]) * scale + after * _ROUNDING
                less = min(less, after)
                cells.bounds[which, instance, entry, bit] = less
                exceeds |= less > search.longest[which, instance]
            if not exceeds:
                chosen &= ~(BIT << np.uint64(bit))
    return chosen


@inner
def _bound_at(cells: Any, which: int, instance: int, entry: int, bit: int, moment: Any) -> float:
    """Seconds that no cell exceeds at a moment within the latest epoch.

    A bound that is not the truth is the one before the epoch and the most cycles that any cell of
    the bit gains in it: so many of these as are taken back leave what no cell exceeds, since a
    cycle outweighs all rounding. Elsewhere there is the line between the bounds.
    """
    after: float = cells.bounds[which, instance, entry, bit]
    if moment.part == 1.0:
        return after
    before: float = cells.before[which, instance, entry, bit]
    kept, scale, back = cells.kept[instance, entry, bit], moment.scale, moment.backs[0]
    is_truth = kept >= 0 and cells.epochs[kept] == moment.epochs
    if (
        len(moment.backs) == 1
        and not is_truth
        and all_kept(cells)
        and scale - back > _OUTWEIGHS * after
    ):
        gained = np.rint((after - before) / scale)
        if before + gained * scale == after:
            left: float = after - gained * back
            return left
    line: float = before + (after - before) * moment.part + after * _ROUNDING
    return line


@inner
def _exceeding(cells: Any, instance: int, entry: int, moment: Any) -> np.uint64:
    """Bits of an entry of which a cell may be the most stressed one."""
    chosen = np.uint64(0)
    at_zero, at_one = moment.most[0], moment.most[1]
    for bit in range(BITS):
        if (
            _bound_at(cells, 0, instance, entry, bit, moment) > at_zero
            or _bound_at(cells, 1, instance, entry, bit, moment) > at_one
        ):
            chosen |= BIT << np.uint64(bit)
    return chosen


@inner
def _look(search: Search, instance: int, entry: int, chosen: np.uint64, moment: Moment) -> None:
    """Look into the chosen bits of an entry: first the latest epoch, then, if need be, all."""
    cells, workspace = search.cells, search.workspace
    open_bits, turns = workspace.open_bits, len(moment.backs)
    known = np.uint64(0)
    if moment.place != _NOT_AMONG:
        known = chosen & open_bits.bits[turns - 1, moment.place, entry]
    unknown = chosen & ~known
    for turn in range(turns):
        times, epoch = _latest(workspace, turn), moment.epochs - turns + turn
        _entry_times(search, instance, epoch, entry, unknown, times)
        if known:
            take_over(open_bits, moment.place, entry, turn, known, times)
        _tighten(search, instance, turns, turn, times, entry, unknown)
    chosen &= _exceeding(cells, instance, entry, moment)
    if chosen:
        _work_out(search, instance, entry, chosen, moment.epochs - turns)
        if moment.part < 1.0:
            _take_back(search, instance, entry, chosen, moment)
        else:
            _raise_most(cells, instance, entry, chosen, moment.most)


@inner
def _raise_most(cells: Any, instance: int, entry: int, chosen: np.uint64, most: Floats) -> None:
    """Raise the longest seconds seen so far by the chosen bits, which are worked out."""
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & BIT:
            most[0] = max(most[0], cells.bounds[0, instance, entry, bit])
            most[1] = max(most[1], cells.bounds[1, instance, entry, bit])


@inner
def _take_back(
    search: Search, instance: int, entry: int, chosen: np.uint64, moment: Moment
) -> None:
    """Subtract the latest turns' seconds; raise the bounds by the rest."""
    cells, workspace = search.cells, search.workspace
    left, most, backs = workspace.left, moment.most, moment.backs
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & BIT:
            kept = cells.kept[instance, entry, bit]
            place = kept if kept >= 0 else place_without(cells, bit)
            for component in range(COMPONENTS):
                left[bit, 0, component] = cells.seconds[place, 0, component]
                left[bit, 1, component] = cells.seconds[place, 1, component]
    for turn in range(len(backs)):
        times = _latest(workspace, turn)
        for bit in range(BITS):
            if chosen >> np.uint64(bit) & BIT:
                for component in range(COMPONENTS):
                    ones = np.int64(times.ones[bit, component])
                    zeros = np.int64(times.powered[bit, component]) - ones
                    left[bit, 0, component] -= zeros * backs[turn]
                    left[bit, 1, component] -= ones * backs[turn]
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & BIT:
            for component in range(COMPONENTS):
                most[0] = max(most[0], left[bit, 0, component])
                most[1] = max(most[1], left[bit, 1, component])


@inner
def _latest(workspace: CellWorkspace, turn: int) -> Times:
    """Times of an entry in a turn of the latest epoch."""
    return Times(workspace.latest.ones[turn], workspace.latest.powered[turn])


@inner
def _tighten(
    search: Search,
    instance: int,
    turns: int,
    turn: int,
    times: Any,
    entry: int,
    chosen: np.uint64,
) -> None:
    """Bound the chosen bits of an entry by what a turn of the latest epoch has really added."""
    first = search.epoch_log.epochs[instance] - turns
    of_epoch = Turn(first + turn, first, search.epoch_log.scale[instance, first + turn])
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & BIT:
            tighten(search.cells, instance, of_epoch, times, entry, bit)


@inner
def _work_out(search: Search, instance: int, entry: int, chosen: np.uint64, latest: int) -> None:
    """Work out the cells of the chosen bits of an entry; times are known from a turn on."""
    cells, epoch_log, workspace = search.cells, search.epoch_log, search.workspace
    begin, epochs = find_places(search.state, cells, instance, entry, chosen), epoch_log.epochs
    for epoch in range(begin, epochs[instance]):
        scale = epoch_log.scale[instance, epoch]
        bits = missing(cells, instance, epoch, entry, chosen)
        if epoch < latest:
            _entry_times(search, instance, epoch, entry, bits, workspace.times)
            add_epoch(cells, instance, scale, workspace.times, entry, bits)
        else:
            add_epoch(cells, instance, scale, _latest(workspace, epoch - latest), entry, bits)
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & BIT:
            settle(cells, instance, epochs[instance], entry, bit)


@inner
def _entry_times(
    search: Search, instance: int, epoch: int, entry: int, chosen: np.uint64, times: Any
) -> None:
    """Times of the cells of the chosen bits of an entry of an instance in an epoch."""
    residencies, epoch_log = search.residencies, search.epoch_log
    if epoch_log.begin[instance, epoch] == IN_SHARED_PLACES:
        blocks = residencies.slice_.blocks
        shared_times(search.shared, blocks, epoch_log, instance, epoch, entry, chosen, times)
        return
    occupants = occupants_in(epoch_log, instance, epoch)
    passes = len(residencies.selector_starts)
    first, last = occupants.first[entry * passes], occupants.first[(entry + 1) * passes]
    clear(times, chosen)
    if first == last:
        return
    if only_whole(residencies, occupants, entry):
        whole_times(residencies, occupants, entry, chosen, times)
    else:
        gathered_times(residencies, occupants, entry, chosen, search.workspace.events, times)


@inner
def shared_times(
    shared: Any,
    blocks: int,
    epoch_log: Any,
    instance: int,
    epoch: int,
    entry: int,
    chosen: Any,
    times: Any,
) -> None:
    """Times of the chosen bits of an entry in an epoch that an instance lived in shared places."""
    alike, kernel = epoch_log.places[instance, epoch], epoch_log.kernel[instance, epoch]
    of_block = shared.ones.shape[3]
    clear(times, chosen)
    for block in range(blocks):
        like = alike[entry * blocks + block]
        if like < 0:
            continue
        left = chosen
        while left:
            bit = lowest_bit(left)
            left &= left - BIT
            for component in range(of_block):
                at = block * of_block + component
                times.ones[bit, at] = shared.ones[kernel, like, bit, component]
                times.powered[bit, at] = shared.powered[kernel, like, bit, component]
