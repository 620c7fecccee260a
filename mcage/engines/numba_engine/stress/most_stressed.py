"""The most stressed cell of an instance by branch and bound, without a look at every cell.

For every bit of every entry a bound is known. Only where it exceeds what has been seen already are
the 64 cells worked out, from all epochs; what comes out is kept, and is their bound from then on.
Within the latest epoch no cell exceeds the line between its bounds before and after.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import (
    Times,
    clear,
    gathered_times,
    only_whole,
    whole_times,
)
from mcage.engines.numba_engine.events import Events
from mcage.engines.numba_engine.jit import inner, nested
from mcage.engines.numba_engine.placement.contents import BITS
from mcage.engines.numba_engine.placement.redirect import ENTRIES
from mcage.engines.numba_engine.placement.residencies import Residencies
from mcage.engines.numba_engine.simd import COMPONENTS
from mcage.engines.numba_engine.stress.epoch_log import EpochLog, occupants_in
from mcage.engines.numba_engine.stress.kept_cells import (
    KEPT,
    Cells,
    Epoch,
    FaultFreeState,
    add_epoch,
    find_places,
    missing,
    settle,
    tighten,
)
from mcage.engines.numba_engine.stress.open_bits import BIT, OpenBits, add_open, take_over

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
    times, latest : Times
        Times of an entry in any epoch, and in the latest.
    open_bits : OpenBits
        Bits of the latest epoch that have been worked out for several instances at once.
    """

    events: Events
    times: Times
    latest: Times
    open_bits: OpenBits


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
    workspace : CellWorkspace
        Memory to work in.
    """

    residencies: Residencies
    epoch_log: EpochLog
    state: FaultFreeState
    cells: Cells
    longest: NDArray[np.float64]
    workspace: CellWorkspace


class Moment(NamedTuple):
    """A moment within the latest epoch of an instance, or its end.

    Attributes
    ----------
    place : int
        Number of the instance among those whose open bits have been worked out, or -1.
    epochs : int
        Epochs of the instance, the latest included.
    scale, back : float
        Seconds that a cycle of the epoch stands for; those of them to be taken back.
    part : float
        Part of the epoch that has passed; 1 at its end.
    most : float64[2]
        Longest seconds at '0' and at '1' of any cell seen so far.
    """

    place: int
    epochs: Any
    scale: Any
    back: float
    part: float
    most: NDArray[np.float64]


@nested
def guess_longest(search: Search, instance: int) -> None:
    """Look where a cell is likely to be the most stressed one after an epoch.

    Parameters
    ----------
    search : Search
        What happened; bounds include the latest epoch.
    instance : int
        Instance.
    """
    cells, now = search.cells, _end_of_epoch(search, instance, _NOT_AMONG)
    for which in range(2):
        before, after = cells.before[which, instance], cells.bounds[which, instance]
        middle = _argmax_of_middles(after, cells.bounds[1 - which, instance])
        for guess in (middle, np.argmax(before)):
            if after.flat[guess] > now.most[which]:
                _look(search, instance, int(guess // BITS), BIT << np.uint64(guess % BITS), now)
    _keep_longest(search, instance, now)


@inner
def _argmax_of_middles(bounds: Any, opposite: Any) -> np.int64:
    """Return the bit of an entry with the highest middle between its bound and the least time.

    An entry is powered for about as long as its bit with the least sum of both bounds says, and
    a cell that is not at one value is at the other. float64[256, 32] each.
    """
    best, highest = np.int64(0), -1.0
    for entry in range(ENTRIES):
        powered = bounds[entry, 0] + opposite[entry, 0]
        for bit in range(1, BITS):
            powered = min(powered, bounds[entry, bit] + opposite[entry, bit])
        for bit in range(BITS):
            twice = bounds[entry, bit] + powered - opposite[entry, bit]
            if twice > highest:
                best, highest = np.int64(entry * BITS + bit), twice
    return best


@nested
def open_up(search: Search, instance: int, place: int) -> None:
    """Add the bits that may be longer than the guess to those that are worked out together."""
    now = _end_of_epoch(search, instance, _NOT_AMONG)
    for entry in range(ENTRIES):
        chosen = _exceeding(search.cells, instance, entry, now)
        if chosen:
            add_open(search.workspace.open_bits, place, entry, chosen)


@nested
def find_longest(search: Search, instance: int, place: int) -> None:
    """Raise the longest seconds at '0' and at '1' of any cell of an instance after an epoch.

    Parameters
    ----------
    search, instance
        As for `guess_longest`, which has been called.
    place : int
        Number of the instance among those whose open bits have been worked out, or -1.
    """
    cells, epoch_log = search.cells, search.epoch_log
    open_bits, latest = search.workspace.open_bits, search.workspace.latest
    now = _end_of_epoch(search, instance, place)
    if place != _NOT_AMONG:
        number = epoch_log.epochs[instance] - 1
        epoch = Epoch(number, epoch_log.scale[instance, number])
        for entry in range(ENTRIES):
            chosen = open_bits.bits[place, entry]
            if chosen:
                take_over(open_bits, place, entry, chosen, latest)
                _tighten(cells, instance, epoch, latest, entry, chosen)
    _look_where_bounds_exceed(search, instance, now)
    _keep_longest(search, instance, now)


@nested
def _end_of_epoch(search: Search, instance: int, place: int) -> Moment:
    """Return the end of the latest epoch of an instance, with the longest seconds so far."""
    most = np.empty(2)
    most[0], most[1] = search.longest[0, instance], search.longest[1, instance]
    epochs, scale = _latest(search, instance)
    return Moment(place, epochs, scale, 0.0, 1.0, most)


@nested
def _latest(search: Search, instance: int) -> tuple[int, float]:
    """Epochs of an instance so far, and the seconds that a cycle of the latest stands for."""
    epochs = search.epoch_log.epochs[instance]
    return epochs, search.epoch_log.scale[instance, epochs - 1]


@nested
def _keep_longest(search: Search, instance: int, now: Moment) -> None:
    search.longest[0, instance], search.longest[1, instance] = now.most[0], now.most[1]


@nested
def longest_earlier(search: Search, instance: int, back: float, earlier: Any) -> None:
    """Find the longest seconds of any cell of an instance at a moment within the latest epoch.

    Parameters
    ----------
    search, instance
        As for `find_longest`.
    place : int
        Number of the instance among those whose open bits have been worked out, or -1.
    back : float
        Seconds to be taken back for each of the epoch's cycles, fewer than were added.
    earlier : float64[2]
        Longest seconds at '0' and at '1', filled in.
    """
    epochs, scale = _latest(search, instance)
    most = np.zeros(2)
    moment = Moment(_NOT_AMONG, epochs, scale, back, 1 - back / scale, most)
    for which in range(2):
        guess, highest = 0, -1.0
        for place in range(ENTRIES * BITS):
            bound = _bound_at(search.cells, which, instance, place // BITS, place % BITS, moment)
            if bound > highest:
                guess, highest = place, bound
        _look(search, instance, guess // BITS, BIT << np.uint64(guess % BITS), moment)
    _look_where_bounds_exceed(search, instance, moment)
    earlier[0], earlier[1] = most[0], most[1]


@nested
def _look_where_bounds_exceed(search: Search, instance: int, moment: Moment) -> None:
    """Look into all bits of entries of which a cell may be the most stressed one."""
    for entry in range(ENTRIES):
        chosen = _exceeding(search.cells, instance, entry, moment)
        if chosen:
            _look(search, instance, entry, chosen, moment)


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
    kept, scale, back = cells.kept[instance, entry, bit], moment.scale, moment.back
    is_truth = kept >= 0 and cells.epochs[instance, kept] == moment.epochs
    if not is_truth and cells.used[instance] < KEPT and scale - back > _OUTWEIGHS * after:
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


@nested
def _look(search: Search, instance: int, entry: int, chosen: np.uint64, moment: Moment) -> None:
    """Look into the chosen bits of an entry: first the latest epoch, then, if need be, all."""
    cells, epoch_log, workspace = search.cells, search.epoch_log, search.workspace
    number = epoch_log.epochs[instance] - 1
    epoch = Epoch(number, epoch_log.scale[instance, number])
    occupants = occupants_in(epoch_log, instance, number)
    latest, open_bits = workspace.latest, workspace.open_bits
    known = np.uint64(0)
    if moment.place != _NOT_AMONG:
        known = chosen & open_bits.bits[moment.place, entry]
    unknown = chosen & ~known
    _entry_times(search.residencies, occupants, entry, unknown, workspace.events, latest)
    if known:
        take_over(open_bits, moment.place, entry, known, latest)
    _tighten(cells, instance, epoch, latest, entry, unknown)
    chosen &= _exceeding(cells, instance, entry, moment)
    if chosen:
        _work_out(search, instance, entry, chosen)
        _raise_most(cells, instance, latest, entry, chosen, moment)


@inner
def _raise_most(
    cells: Any, instance: int, latest: Any, entry: int, chosen: np.uint64, moment: Any
) -> None:
    """Raise the longest seconds seen so far by the chosen bits, which are worked out."""
    most, back = moment.most, moment.back
    for bit in range(BITS):
        if not chosen >> np.uint64(bit) & BIT:
            continue
        if moment.part == 1.0:
            most[0] = max(most[0], cells.bounds[0, instance, entry, bit])
            most[1] = max(most[1], cells.bounds[1, instance, entry, bit])
            continue
        kept = cells.kept[instance, entry, bit]
        place = kept if kept >= 0 else KEPT + bit
        for component in range(COMPONENTS):
            ones = np.int64(latest.ones[bit, component])
            zeros = np.int64(latest.powered[bit, component]) - ones
            zero_seconds = cells.seconds[instance, place, 0, component]
            one_seconds = cells.seconds[instance, place, 1, component]
            most[0] = max(most[0], zero_seconds - zeros * back)
            most[1] = max(most[1], one_seconds - ones * back)


@inner
def _tighten(
    cells: Any, instance: int, epoch: Any, latest: Any, entry: int, chosen: np.uint64
) -> None:
    """Bound the chosen bits of an entry by what the latest epoch has really added."""
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & BIT:
            tighten(cells, instance, epoch, latest, entry, bit)


@nested
def _work_out(search: Search, instance: int, entry: int, chosen: np.uint64) -> None:
    """Work out the cells of the chosen bits of an entry, whose latest times are known."""
    cells, epoch_log, workspace = search.cells, search.epoch_log, search.workspace
    begin, epochs = find_places(search.state, cells, instance, entry, chosen), epoch_log.epochs
    for epoch in range(begin, epochs[instance]):
        scale = epoch_log.scale[instance, epoch]
        bits = missing(cells, instance, epoch, entry, chosen)
        if epoch < epochs[instance] - 1:
            occupants = occupants_in(epoch_log, instance, epoch)
            _entry_times(
                search.residencies, occupants, entry, bits, workspace.events, workspace.times
            )
            add_epoch(cells, instance, scale, workspace.times, entry, bits)
        else:
            add_epoch(cells, instance, scale, workspace.latest, entry, bits)
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & BIT:
            settle(cells, instance, epochs[instance], entry, bit)


@inner
def _entry_times(
    residencies: Any, occupants: Any, entry: int, chosen: np.uint64, events: Any, times: Any
) -> None:
    """Times of the cells of the chosen bits of an entry."""
    passes = len(residencies.selector_starts)
    first, last = occupants.first[entry * passes], occupants.first[(entry + 1) * passes]
    clear(times, chosen)
    if first == last:
        return
    if only_whole(residencies, occupants, entry):
        whole_times(residencies, occupants, entry, chosen, times)
    else:
        gathered_times(residencies, occupants, entry, chosen, events, times)
