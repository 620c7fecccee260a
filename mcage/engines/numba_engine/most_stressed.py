"""The most stressed cell of an instance by branch and bound, without a look at every cell.

For every bit of every entry a bound is known. Only where it exceeds what has been seen already are
its cells worked out, from all epochs; what comes out is kept, and is their bound from then on.
Within the latest epoch no cell exceeds the line between its bounds before and after. It may have
several turns, which are looked at together.
"""

from typing import Any, NamedTuple

import numpy as np

from mcage.engines.numba_engine.bounds import (
    BIT,
    IN_SHARED_PLACES,
    Cells,
    EpochLog,
    FaultFreeState,
    OpenBits,
    Turn,
    add_epoch,
    add_open,
    all_kept,
    find_places,
    missing,
    most_cycles,
    occupants_in,
    place_without,
    settle,
    take_over,
    tighten,
)
from mcage.engines.numba_engine.cell_times import (
    Events,
    Times,
    clear,
    gathered_times,
    only_whole,
    whole_times,
)
from mcage.engines.numba_engine.jit import COMPONENTS, compiled, inner, lowest_bit
from mcage.engines.numba_engine.residencies import BITS, Residencies
from mcage.engines.numba_engine.shared_placements import SharedTimes, shared_times
from mcage.geometry import Floats, Integers

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


class Search(NamedTuple):
    """What the search for the most stressed cell looks at, and where it puts what it finds.

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
    """Part of the latest turns that has passed: told by the turn that most is taken back from."""
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
    """Raise them by what is left when seconds of the latest turns are taken back."""
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
