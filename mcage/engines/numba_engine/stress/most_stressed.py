"""The most stressed cell of an instance, found without looking at every cell.

For every bit of every entry a bound is known. Only where it exceeds what is already found are the
64 cells worked out, from all stretches; what comes out is kept, and is their bound from then on.
Within the latest stretch no cell exceeds the line between its bounds before and after.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import (
    AT_ONCE_BITS,
    clear,
    gathered_times,
    only_whole,
    visited_planes,
)
from mcage.engines.numba_engine.jit import compiled, inner
from mcage.engines.numba_engine.placement.redirect import ENTRIES
from mcage.engines.numba_engine.placement.residencies import BITS
from mcage.engines.numba_engine.simd import AT_ONCE, LANES
from mcage.engines.numba_engine.stress.abreast import forget, power, work_out_bit
from mcage.engines.numba_engine.stress.epoch_log import epoch_span_of

KEPT = 2048
"""Bits of entries of one instance whose cells are kept."""

_MANY = 48
"""Entries from which on a bit is worked out for all of them abreast."""

_ONE = np.uint32(1)

_ROUNDING = 1e-12
"""Share of a bound by which one within a stretch may fall short by rounding alone."""


class Cells(NamedTuple):
    """What is known of the cells of each instance.

    Attributes
    ----------
    bounds : float64[2, instances, 256, 32]
        Seconds at '0' and at '1' that no cell with this bit of this entry exceeds.
    before : float64[2, instances, 256, 32]
        Bounds before the latest stretch.
    kept : int32[instances, 256, 32]
        Where the bit's cells are kept, or -1.
    used : int64[instances]
        How many bits are kept.
    turn : int64[instances, KEPT + 32]
        Stretches that are in `seconds`. The last 32 places are for those that find none.
    seconds : float64[instances, KEPT + 32, 2, 64]
        Seconds at '0' and at '1'.
    """

    bounds: NDArray[np.float64]
    before: NDArray[np.float64]
    kept: NDArray[np.int32]
    used: NDArray[np.int64]
    turn: NDArray[np.int64]
    seconds: NDArray[np.float64]


class Past(NamedTuple):
    """What instances shared before they had times of their own.

    Attributes
    ----------
    seconds : float64[instances, kernels]
        Time spent on each kernel.
    zero, one : float64[kernels, 524288]
        Duty cycles.
    """

    seconds: NDArray[np.float64]
    zero: NDArray[np.float64]
    one: NDArray[np.float64]


def new_cells(instances: int) -> Cells:
    """Cells without a past."""
    # Pages that are never touched take no memory.
    return Cells(
        np.zeros((2, instances, ENTRIES, BITS)),
        np.zeros((2, instances, ENTRIES, BITS)),
        np.full((instances, ENTRIES, BITS), -1, dtype=np.int32),
        np.zeros(instances, dtype=np.int64),
        np.empty((instances, KEPT + BITS), dtype=np.int64),
        np.empty((instances, KEPT + BITS, 2, LANES)),
    )


@inner
def raise_bounds(cells: Any, instance: int, at_most: Any, scale: float) -> None:
    """A stretch has added so many cycles at most: T[256, 64], as `bounds` makes them."""
    bounds, before = cells.bounds, cells.before
    for entry in range(ENTRIES):
        for bit in range(BITS):
            before[0, instance, entry, bit] = bounds[0, instance, entry, bit]
            before[1, instance, entry, bit] = bounds[1, instance, entry, bit]
            bounds[1, instance, entry, bit] += np.int64(at_most[entry, bit]) * scale
            bounds[0, instance, entry, bit] += np.int64(at_most[entry, BITS + bit]) * scale


@compiled
def find_longest(
    residencies: Any, instance: int, epoch_log: Any, past: Any, cells: Any, room: Any, longest: Any
) -> None:
    """Raise the longest seconds at '0' and at '1' of any cell of an instance.

    Parameters
    ----------
    runs, stretches, past : Runs, Stretches, Past
        What happened.
    instance : int
        Instance.
    cells : Cells
        What is known, brought up to date.
    room : Room
        Room to work; what has been worked out `abreast` of the latest stretch.
    longest : float64[2, instances]
        Longest seconds so far.
    """
    for entry in range(ENTRIES):
        chosen = _exceeding(cells, instance, entry, longest)
        if chosen:
            _look(residencies, instance, epoch_log, past, cells, room, entry, chosen, longest)


@compiled
def guess_longest(
    residencies: Any, instance: int, epoch_log: Any, past: Any, cells: Any, room: Any, longest: Any
) -> None:
    """Look where the longest seconds are likely to be; parameters as for `find_longest`."""
    for which in range(2):
        before = np.argmax(cells.before[which, instance])
        now = np.argmax(cells.bounds[which, instance])
        for guess in (before, now):
            if cells.bounds[which, instance].flat[guess] > longest[which, instance]:
                only, entry = _ONE << np.uint32(guess % BITS), int(guess // BITS)
                _look(residencies, instance, epoch_log, past, cells, room, entry, only, longest)


@compiled
def narrow(
    residencies: Any,
    kernel: int,
    instance: int,
    homes: Any,
    turn: int,
    scale: float,
    cells: Any,
    room: Any,
    longest: Any,
) -> None:
    """Work out of the latest stretch, for all entries abreast, bits that many leave open."""
    abreast = room.abreast
    powered = False
    for bit in range(BITS):
        still_open = 0
        for entry in range(ENTRIES):
            for which in range(2):
                if cells.bounds[which, instance, entry, bit] > longest[which, instance]:
                    still_open += 1
        if still_open < _MANY:
            continue
        if not powered:
            power(residencies, kernel, homes, abreast)
            powered = True
        work_out_bit(residencies, kernel, homes, bit, abreast)
        for entry in range(ENTRIES):
            if abreast.whole[entry]:
                _take_over(abreast, entry, _ONE << np.uint32(bit), room.latest)
                _tighten(instance, turn, scale, cells, room.latest, entry, bit)


@compiled
def longest_earlier(
    residencies: Any,
    instance: int,
    back: float,
    epoch_log: Any,
    past: Any,
    cells: Any,
    room: Any,
    longest: Any,
    earlier: Any,
) -> None:
    """Longest seconds at '0' and at '1' of any cell at a moment within the latest stretch.

    Parameters
    ----------
    back : float
        Seconds to be taken back for each of the stretch's cycles, fewer than were added.
    earlier : float64[2]
        Result.
    runs, instance, stretches, past, cells, room, longest
        As for `find_longest`.
    """
    part = 1 - back / epoch_log.scale[instance, epoch_log.turns[instance] - 1]
    forget(room.abreast)
    earlier[:] = 0
    for which in range(2):
        guess, most = 0, -1.0
        for place in range(ENTRIES * BITS):
            bound = _bound_at(cells, which, instance, place // BITS, place % BITS, part)
            if bound > most:
                guess, most = place, bound
        only, entry = _ONE << np.uint32(guess % BITS), guess // BITS
        _look_back(
            residencies,
            instance,
            back,
            part,
            epoch_log,
            past,
            cells,
            room,
            entry,
            only,
            longest,
            earlier,
        )
    for entry in range(ENTRIES):
        chosen = _exceeding_at(cells, instance, entry, part, earlier)
        if chosen:
            _look_back(
                residencies,
                instance,
                back,
                part,
                epoch_log,
                past,
                cells,
                room,
                entry,
                chosen,
                longest,
                earlier,
            )


@inner
def _bound_at(cells: Any, which: int, instance: int, entry: int, bit: int, part: float) -> float:
    """Seconds that no cell exceeds when a part of the latest stretch has passed."""
    before: float = cells.before[which, instance, entry, bit]
    after: float = cells.bounds[which, instance, entry, bit]
    return before + (after - before) * part + after * _ROUNDING


@inner
def _exceeding_at(cells: Any, instance: int, entry: int, part: float, earlier: Any) -> np.uint32:
    """As `_exceeding`, when a part of the latest stretch has passed."""
    chosen = np.uint32(0)
    for bit in range(BITS):
        for which in range(2):
            if _bound_at(cells, which, instance, entry, bit, part) > earlier[which]:
                chosen |= _ONE << np.uint32(bit)
    return chosen


@compiled
def _look_back(
    residencies: Any,
    instance: int,
    back: float,
    part: float,
    epoch_log: Any,
    past: Any,
    cells: Any,
    room: Any,
    entry: int,
    chosen: np.uint32,
    longest: Any,
    earlier: Any,
) -> None:
    """Look into some bits of an entry at a moment within the latest stretch."""
    turn = epoch_log.turns[instance] - 1
    kernel, scale = epoch_log.kernel[instance, turn], epoch_log.scale[instance, turn]
    occupants = epoch_span_of(epoch_log, instance, turn)
    _plane_times(residencies, kernel, occupants, entry, chosen, room.events, room.latest)
    for bit in range(BITS):
        if chosen >> np.uint32(bit) & _ONE:
            _tighten(instance, turn, scale, cells, room.latest, entry, bit)
    chosen &= _exceeding_at(cells, instance, entry, part, earlier)
    if not chosen:
        return
    _work_out(residencies, instance, epoch_log, past, cells, room, entry, chosen, longest)
    for bit in range(BITS):
        if chosen >> np.uint32(bit) & _ONE:
            kept = cells.kept[instance, entry, bit]
            place = kept if kept >= 0 else KEPT + bit
            for lane in range(LANES):
                ones = np.int64(room.latest.ones[bit, lane])
                zeros = np.int64(room.latest.powered[bit, lane]) - ones
                seconds = cells.seconds[instance, place]
                earlier[0] = max(earlier[0], seconds[0, lane] - zeros * back)
                earlier[1] = max(earlier[1], seconds[1, lane] - ones * back)


@inner
def _exceeding(cells: Any, instance: int, entry: int, longest: Any) -> np.uint32:
    """Bits of an entry of which a cell may be the most stressed one."""
    chosen = np.uint32(0)
    for bit in range(BITS):
        for which in range(2):
            if cells.bounds[which, instance, entry, bit] > longest[which, instance]:
                chosen |= _ONE << np.uint32(bit)
    return chosen


@compiled
def _look(
    residencies: Any,
    instance: int,
    epoch_log: Any,
    past: Any,
    cells: Any,
    room: Any,
    entry: int,
    chosen: np.uint32,
    longest: Any,
) -> None:
    """Look into some bits of an entry: first the latest stretch, then, if need be, all."""
    turn = epoch_log.turns[instance] - 1
    kernel, scale = epoch_log.kernel[instance, turn], epoch_log.scale[instance, turn]
    occupants = epoch_span_of(epoch_log, instance, turn)
    known = _known(room.abreast, entry, chosen)
    _plane_times(residencies, kernel, occupants, entry, chosen & ~known, room.events, room.latest)
    _take_over(room.abreast, entry, known, room.latest)
    if turn:
        for bit in range(BITS):
            if (chosen & ~known) >> np.uint32(bit) & _ONE:
                _tighten(instance, turn, scale, cells, room.latest, entry, bit)
        chosen &= _exceeding(cells, instance, entry, longest)
    if chosen:
        _work_out(residencies, instance, epoch_log, past, cells, room, entry, chosen, longest)


@inner
def _known(abreast: Any, entry: int, chosen: np.uint32) -> np.uint32:
    """Which of some bits of an entry have been worked out with all entries."""
    known = np.uint32(0)
    for bit in range(BITS):
        if chosen >> np.uint32(bit) & _ONE and abreast.done[bit] and abreast.whole[entry]:
            known |= _ONE << np.uint32(bit)
    return known


@inner
def _take_over(abreast: Any, entry: int, known: np.uint32, latest: Any) -> None:
    """Take over the times of bits that have been worked out with all entries."""
    for bit in range(BITS):
        if known >> np.uint32(bit) & _ONE:
            for lane in range(LANES):
                latest.ones[bit, lane] = abreast.ones[bit, entry, lane]
                latest.powered[bit, lane] = abreast.powered[entry]


@inner
def _tighten(
    instance: int,
    turn: int,
    scale: float,
    cells: Any,
    latest: Any,
    entry: int,
    bit: int,
) -> None:
    """Bound a bit by what the latest stretch has really added, unless its past is worked out."""
    kept = cells.kept[instance, entry, bit]
    if kept >= 0 and cells.turn[instance, kept] >= turn:
        return
    most_zeros, most_ones = np.int64(0), np.int64(0)
    for lane in range(LANES):
        ones = np.int64(latest.ones[bit, lane])
        most_ones = max(most_ones, ones)
        most_zeros = max(most_zeros, np.int64(latest.powered[bit, lane]) - ones)
    before = cells.before
    cells.bounds[0, instance, entry, bit] = before[0, instance, entry, bit] + most_zeros * scale
    cells.bounds[1, instance, entry, bit] = before[1, instance, entry, bit] + most_ones * scale


@compiled
def _work_out(
    residencies: Any,
    instance: int,
    epoch_log: Any,
    past: Any,
    cells: Any,
    room: Any,
    entry: int,
    chosen: np.uint32,
    longest: Any,
) -> None:
    """Work out the cells of some bits of an entry."""
    begin = _find_places(past, cells, instance, entry, chosen)
    for turn in range(begin, epoch_log.turns[instance]):
        kernel, scale = epoch_log.kernel[instance, turn], epoch_log.scale[instance, turn]
        missing = _missing(cells, instance, turn, entry, chosen)
        if turn < epoch_log.turns[instance] - 1:
            occupants = epoch_span_of(epoch_log, instance, turn)
            _plane_times(residencies, kernel, occupants, entry, missing, room.events, room.times)
            _add_epoch_span(room.times, scale, instance, cells, entry, missing)
        else:
            _add_epoch_span(room.latest, scale, instance, cells, entry, missing)
    for bit in range(BITS):
        if chosen >> np.uint32(bit) & _ONE:
            kept = cells.kept[instance, entry, bit]
            cells.turn[instance, kept] = epoch_log.turns[instance]
            if kept >= KEPT:
                cells.kept[instance, entry, bit] = -1
            for which in range(2):
                most = 0.0
                for lane in range(LANES):
                    most = max(most, cells.seconds[instance, kept, which, lane])
                # No bound is better than the truth.
                cells.bounds[which, instance, entry, bit] = most
                longest[which, instance] = max(longest[which, instance], most)


@inner
def _find_places(past: Any, cells: Any, instance: int, entry: int, chosen: np.uint32) -> int:
    """Give every bit a place; the first stretch that is missing from any of them."""
    first = 1 << 62
    for bit in range(BITS):
        if chosen >> np.uint32(bit) & _ONE:
            kept = cells.kept[instance, entry, bit]
            if kept < 0:
                kept = KEPT + bit
                if cells.used[instance] < KEPT:
                    kept = cells.used[instance]
                    cells.used[instance] += 1
                cells.kept[instance, entry, bit] = kept
                cells.turn[instance, kept] = 0
                _remember(past, cells, instance, entry, bit, kept)
            first = min(first, cells.turn[instance, kept])
    return first


@inner
def _remember(past: Any, cells: Any, instance: int, entry: int, bit: int, kept: int) -> None:
    """Start from the time that the instance shared with others."""
    seconds = cells.seconds
    for lane in range(LANES):
        seconds[instance, kept, 0, lane] = 0.0
        seconds[instance, kept, 1, lane] = 0.0
    for kernel in range(past.seconds.shape[1]):
        spent = past.seconds[instance, kernel]
        if spent:
            for lane in range(LANES):
                cell = (entry * LANES + lane) * BITS + bit
                seconds[instance, kept, 0, lane] += spent * past.zero[kernel, cell]
                seconds[instance, kept, 1, lane] += spent * past.one[kernel, cell]


@inner
def _missing(cells: Any, instance: int, turn: int, entry: int, chosen: np.uint32) -> np.uint32:
    """Bits of which a stretch is missing in what is kept."""
    missing = np.uint32(0)
    for bit in range(BITS):
        kept = cells.kept[instance, entry, bit]
        if chosen >> np.uint32(bit) & _ONE and cells.turn[instance, kept] <= turn:
            missing |= _ONE << np.uint32(bit)
    return missing


@inner
def _add_epoch_span(
    times: Any, scale: float, instance: int, cells: Any, entry: int, missing: np.uint32
) -> None:
    """Add what a stretch did to some bits of an entry."""
    seconds = cells.seconds
    for bit in range(BITS):
        if missing >> np.uint32(bit) & _ONE:
            kept = cells.kept[instance, entry, bit]
            for lane in range(LANES):
                ones = np.int64(times.ones[bit, lane])
                zeros = np.int64(times.powered[bit, lane]) - ones
                seconds[instance, kept, 0, lane] += zeros * scale
                seconds[instance, kept, 1, lane] += ones * scale


@inner
def _plane_times(
    residencies: Any,
    kernel: int,
    occupants: Any,
    entry: int,
    chosen: np.uint32,
    events: Any,
    times: Any,
) -> None:
    """Times of the cells of some bits of an entry."""
    passes = len(residencies.selector_starts)
    first, last = occupants.first[entry * passes], occupants.first[(entry + 1) * passes]
    clear(times, chosen)
    if first == last:
        return
    if only_whole(residencies, occupants, entry):
        for bit in range(0, BITS, AT_ONCE):
            if chosen >> np.uint32(bit) & AT_ONCE_BITS:
                visited_planes(residencies, kernel, occupants, entry, bit, chosen, times)
    else:
        gathered_times(residencies, kernel, occupants, entry, chosen, events, times)
