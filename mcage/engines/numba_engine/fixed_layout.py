"""Cell times where windows have places that no fault changes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import (
    ALL_BITS,
    clear,
    hand_over,
    new_events,
    new_times,
    plane_times,
)
from mcage.engines.numba_engine.jit import compiled, inner
from mcage.engines.numba_engine.placement.redirect import ENTRIES, WHOLE_ENTRY
from mcage.engines.numba_engine.placement.residencies import (
    ALL_REGIONS,
    WHOLE,
    Residencies,
    residencies_of,
)
from mcage.replays.prepare import FixedReplay


def fixed_layout_times(
    replay: FixedReplay, ones: NDArray[np.int64], powered: NDArray[np.int64]
) -> None:
    """Add cell times under a window layout to int64[256, 64, 32]."""
    schedule, layout, residencies = replay.schedule, replay.layout, residencies_of((replay,))
    windows = schedule.windows
    register = residencies.register
    if replay.technique.rotates and replay.technique.gates_released and schedule.writes_whole:
        first = np.searchsorted(register, np.arange(len(windows.size) + 1) * ENTRIES)
        _rotated(residencies, first, windows.base, windows.size, layout.passes, ones, powered)
        return
    residency_of_register = np.full(len(windows.size) * ENTRIES, -1, dtype=np.int64)
    residency_of_register[register] = np.arange(len(register))
    _laid_out(
        residencies,
        residency_of_register,
        windows.size,
        layout.base,
        layout.rotation,
        layout.step,
        ones,
        powered,
    )


@compiled
def _rotated(
    residencies: Residencies,
    first: NDArray[np.int64],
    base: NDArray[np.int64],
    size: NDArray[np.int64],
    passes: int,
    ones: NDArray[np.int64],
    powered: NDArray[np.int64],
) -> None:
    """Cell times of a rotating layout whose released places are off and whose writes are whole.

    Over all offsets every register of a window visits every entry of it equally often, and no
    value outlives its write: the total of a window, shared out, is exact. `first` is the first run
    of each window.
    """
    events = new_events(len(residencies.image), 1, residencies.longest)
    times = new_times(residencies.longest)
    for window in range(len(base)):
        begin, end = (
            residencies.write_starts[first[window]],
            residencies.write_starts[first[window + 1]],
        )
        for write in range(begin, end):
            events.image[write - begin] = residencies.image[write]
            events.held[write - begin] = residencies.duration[write]
        events.orbits[1] = end - begin
        occupants = passes // size[window]
        clear(times, ALL_BITS)
        plane_times(residencies, events, True, ALL_BITS, WHOLE_ENTRY, times)
        for entry in range(base[window], base[window] + size[window]):
            hand_over(times, occupants, ones[entry], powered[entry])


@compiled
def _laid_out(
    residencies: Residencies,
    residency_of_register: NDArray[np.int64],
    size: NDArray[np.int64],
    base: NDArray[np.int64],
    rotation: NDArray[np.int64],
    step: NDArray[np.int64],
    ones: NDArray[np.int64],
    powered: NDArray[np.int64],
) -> None:
    """Cell times of every entry; each orbit of passes is a world of its own."""
    events = new_events(1024, len(base), residencies.longest)
    times = new_times(residencies.longest)
    done = np.empty(len(base), np.bool_)
    for entry in range(ENTRIES):
        done[:] = False
        count, orbit = 0, 0
        whole = True
        for origin in range(len(base)):
            start, current, turn = count, origin, 0
            while not done[current]:
                done[current] = True
                for window in range(len(size)):
                    offset = entry - base[current, window]
                    if offset < 0 or offset >= size[window]:
                        continue
                    reg = (offset - rotation[current, window]) % size[window]
                    residency = residency_of_register[window * ENTRIES + reg]
                    if residency < 0:
                        continue
                    begin, end = (
                        residencies.write_starts[residency],
                        residencies.write_starts[residency + 1],
                    )
                    if count + end - begin > len(events.image):
                        events = _more_room(events, count + end - begin, residencies.longest)
                    whole &= _append(
                        residencies, events, count, begin, end, turn * residencies.cycles[0]
                    )
                    count += end - begin
                turn += 1
                current = (current + step[entry]) % len(base)
            if turn:
                orbit += 1
                events.orbits[orbit] = count
                if not residencies.gated and count > start:
                    _hold_until_next(events, start, count, turn * residencies.cycles[0])
        events.orbits[orbit + 1 :] = count
        if count:
            clear(times, ALL_BITS)
            plane_times(residencies, events, whole, ALL_BITS, WHOLE_ENTRY, times)
            hand_over(times, 1, ones[entry], powered[entry])


@inner
def _append(residencies: Any, events: Any, count: int, begin: int, end: int, shift: int) -> bool:
    """Add the writes of a run, some passes later; whether all of them are whole."""
    whole = True
    for write in range(begin, end):
        at = count + write - begin
        events.image[at] = residencies.image[write]
        events.mask[at] = residencies.mask[write]
        events.regions[at] = residencies.regions[write]
        events.held[at] = residencies.duration[write]
        events.when[at] = residencies.cycle[write] + shift
        whole &= residencies.mask[write] == WHOLE and residencies.regions[write] == ALL_REGIONS
    return whole


@inner
def _hold_until_next(events: Any, start: int, end: int, period: int) -> None:
    """What a world's events leave counts until the next of them; nothing is ever switched off."""
    when, held, regions = events.when, events.held, events.regions
    for i in range(start, end - 1):
        held[i] = when[i + 1] - when[i]
    held[end - 1] = when[start] + period - when[end - 1]
    for i in range(start, end):
        regions[i] = ALL_REGIONS


@compiled
def _more_room(events: Any, least: int, sums: Any) -> Any:
    """The same events with room for more."""
    more = new_events(2 * least, len(events.orbits) - 1, sums)
    count = len(events.image)
    more.image[:count] = events.image
    more.mask[:count] = events.mask
    more.regions[:count] = events.regions
    more.when[:count] = events.when
    more.held[:count] = events.held
    more.orbits[:] = events.orbits
    return more
