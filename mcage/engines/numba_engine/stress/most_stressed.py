"""The most stressed cell of an instance by branch and bound, without a look at every cell.

For every bit of every entry a bound is known. Only where it exceeds what has been seen already are
the 64 cells worked out, from all epochs; what comes out is kept, and is their bound from then on.
Within the latest epoch no cell exceeds the line between its bounds before and after.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import (
    AT_ONCE_BITS,
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
from mcage.engines.numba_engine.simd import AT_ONCE, COMPONENTS
from mcage.engines.numba_engine.stress.all_entries import AllEntries, forget, power, work_out_bit
from mcage.engines.numba_engine.stress.epoch_log import EpochLog, occupants_in
from mcage.engines.numba_engine.stress.kept_cells import (
    BIT,
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

_MANY = 48
"""Entries from which on a bit is worked out for all of them at once."""

_ROUNDING = 1e-12
"""Fraction of a bound by which it may fall short within an epoch by rounding alone."""


class CellWorkspace(NamedTuple):
    """Memory in which cells of an instance are worked out.

    Attributes
    ----------
    events : Events
        Events of an entry.
    times, latest : Times
        Times of an entry in any epoch, and in the latest.
    all_entries : AllEntries
        Bits of the latest epoch that have been worked out for all entries.
    """

    events: Events
    times: Times
    latest: Times
    all_entries: AllEntries


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
    back : float
        Seconds to be taken back for each cycle of the epoch.
    part : float
        Part of the epoch that has passed; 1 at its end.
    most : float64[2]
        Longest seconds at '0' and at '1' of any cell seen so far.
    """

    back: float
    part: float
    most: NDArray[np.float64]


@nested
def find_longest(search: Search, instance: int, by_itself: bool, home: Any) -> None:
    """Raise the longest seconds at '0' and at '1' of any cell of an instance after an epoch.

    Parameters
    ----------
    search : Search
        What happened; bounds include the latest epoch.
    instance : int
        Instance.
    by_itself : bool
        Whether what a residency shows depends on nothing that was in its home before.
    home : int16[residencies, passes]
        Homes of residencies in the latest epoch.
    """
    cells, longest, most = search.cells, search.longest, np.empty(2)
    most[0], most[1] = longest[0, instance], longest[1, instance]
    now = Moment(0.0, 1.0, most)
    forget(search.workspace.all_entries)
    for which in range(2):
        before = np.argmax(cells.before[which, instance])
        after = np.argmax(cells.bounds[which, instance])
        for guess in (before, after):
            if cells.bounds[which, instance].flat[guess] > most[which]:
                _look(search, instance, int(guess // BITS), BIT << np.uint64(guess % BITS), now)
    if by_itself:
        _narrow(search, instance, home, most)
    _look_where_bounds_exceed(search, instance, now)
    longest[0, instance], longest[1, instance] = most[0], most[1]


@nested
def longest_earlier(search: Search, instance: int, back: float, earlier: Any) -> None:
    """Find the longest seconds of any cell of an instance at a moment within the latest epoch.

    Parameters
    ----------
    search, instance
        As for `find_longest`.
    back : float
        Seconds to be taken back for each of the epoch's cycles, fewer than were added.
    earlier : float64[2]
        Longest seconds at '0' and at '1', filled in.
    """
    epoch_log = search.epoch_log
    part = 1 - back / epoch_log.scale[instance, epoch_log.epochs[instance] - 1]
    most = np.zeros(2)
    moment = Moment(back, part, most)
    forget(search.workspace.all_entries)
    for which in range(2):
        guess, highest = 0, -1.0
        for place in range(ENTRIES * BITS):
            bound = _bound_at(search.cells, which, instance, place // BITS, place % BITS, part)
            if bound > highest:
                guess, highest = place, bound
        _look(search, instance, guess // BITS, BIT << np.uint64(guess % BITS), moment)
    _look_where_bounds_exceed(search, instance, moment)
    earlier[0], earlier[1] = most[0], most[1]


@nested
def _look_where_bounds_exceed(search: Search, instance: int, moment: Moment) -> None:
    """Look into all bits of entries of which a cell may be the most stressed one."""
    for entry in range(ENTRIES):
        chosen = _exceeding(search.cells, instance, entry, moment.part, moment.most)
        if chosen:
            _look(search, instance, entry, chosen, moment)


@inner
def _bound_at(cells: Any, which: int, instance: int, entry: int, bit: int, part: float) -> float:
    """Seconds that no cell exceeds when a part of the latest epoch has passed."""
    after: float = cells.bounds[which, instance, entry, bit]
    if part == 1.0:
        return after
    before: float = cells.before[which, instance, entry, bit]
    return before + (after - before) * part + after * _ROUNDING


@inner
def _exceeding(cells: Any, instance: int, entry: int, part: float, most: Any) -> np.uint64:
    """Bits of an entry of which a cell may be the most stressed one."""
    chosen = np.uint64(0)
    at_zero, at_one = most[0], most[1]
    for bit in range(BITS):
        if (
            _bound_at(cells, 0, instance, entry, bit, part) > at_zero
            or _bound_at(cells, 1, instance, entry, bit, part) > at_one
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
    latest, all_entries = workspace.latest, workspace.all_entries
    known = _known(all_entries, entry, chosen)
    _entry_times(search.residencies, occupants, entry, chosen & ~known, workspace.events, latest)
    _take_over(all_entries, entry, known, latest)
    for bit in range(BITS):
        if (chosen & ~known) >> np.uint64(bit) & BIT:
            tighten(cells, instance, epoch, latest, entry, bit)
    chosen &= _exceeding(cells, instance, entry, moment.part, moment.most)
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
def _known(all_entries: Any, entry: int, chosen: np.uint64) -> np.uint64:
    """Return the chosen bits of an entry that have been worked out with all entries."""
    known = np.uint64(0)
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & BIT and all_entries.done[bit] and all_entries.whole[entry]:
            known |= BIT << np.uint64(bit)
    return known


@inner
def _take_over(all_entries: Any, entry: int, known: np.uint64, latest: Any) -> None:
    """Take over the times of bits that have been worked out with all entries."""
    for bit in range(BITS):
        if known >> np.uint64(bit) & BIT:
            for component in range(COMPONENTS):
                latest.ones[bit, component] = all_entries.ones[bit, entry, component]
                latest.powered[bit, component] = all_entries.powered[entry]


@nested
def _narrow(search: Search, instance: int, home: Any, most: Any) -> None:
    """Work out, for all entries at once, those bits of the latest epoch that many leave open."""
    cells, residencies, epoch_log = search.cells, search.residencies, search.epoch_log
    all_entries, latest = search.workspace.all_entries, search.workspace.latest
    number = epoch_log.epochs[instance] - 1
    kernel = epoch_log.kernel[instance, number]
    epoch = Epoch(number, epoch_log.scale[instance, number])
    powered = False
    for bit in range(BITS):
        still_open = 0
        for entry in range(ENTRIES):
            for which in range(2):
                if cells.bounds[which, instance, entry, bit] > most[which]:
                    still_open += 1
        if still_open < _MANY:
            continue
        if not powered:
            power(residencies, kernel, home, all_entries)
            powered = True
        work_out_bit(residencies, kernel, home, bit, all_entries)
        for entry in range(ENTRIES):
            if all_entries.whole[entry]:
                _take_over(all_entries, entry, BIT << np.uint64(bit), latest)
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
        for bit in range(0, BITS, AT_ONCE):
            if chosen >> np.uint64(bit) & AT_ONCE_BITS:
                whole_times(residencies, occupants, entry, bit, chosen, times)
    else:
        gathered_times(residencies, occupants, entry, chosen, events, times)
