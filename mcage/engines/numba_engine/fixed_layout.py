"""Cell times where windows have places that no fault changes."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import (
    ALL_BITS,
    Times,
    clear,
    hand_over,
    new_times,
    plane_times,
)
from mcage.engines.numba_engine.events import Events, new_events
from mcage.engines.numba_engine.jit import compiled, inner
from mcage.engines.numba_engine.placement.contents import ALL_REGIONS, BITS, WHOLE
from mcage.engines.numba_engine.placement.redirect import WHOLE_ENTRY
from mcage.engines.numba_engine.placement.residencies import (
    Residencies,
    Writes,
    residencies_of,
)
from mcage.engines.numba_engine.simd import AT_ONCE, sum_planes
from mcage.replays.prepare import FixedReplay

_EVENTS = 1 << 16
"""Events of an entry for which there is space at first."""


class Places(NamedTuple):
    """Places of windows, as the compiled functions take them.

    Attributes
    ----------
    residency : int64[entries * windows]
        Residency of register entries x window + r, or -1 if nothing is written to it.
    size : int64[windows]
        Registers of each window.
    base, rotation : int64[passes, windows]
        As in `mcage.replays.layout.Layout`.
    step, orbits : int64[entries]
        Likewise.
    """

    residency: NDArray[np.int64]
    size: NDArray[np.int64]
    base: NDArray[np.int64]
    rotation: NDArray[np.int64]
    step: NDArray[np.int64]
    orbits: NDArray[np.int64]


class _Workspace(NamedTuple):
    """Memory in which an entry is worked out."""

    events: Events
    times: Times


def fixed_layout_times(
    replay: FixedReplay, ones: NDArray[np.int64], powered: NDArray[np.int64]
) -> None:
    """Add cell times under a window layout to int64[entries, components, 32]."""
    schedule, layout, residencies = replay.schedule, replay.layout, residencies_of((replay,))
    windows, entries = schedule.windows, replay.geometry.entries
    register = residencies.register
    residency = np.full(len(windows.size) * entries, -1, dtype=np.int64)
    residency[register] = np.arange(len(register))
    places = Places(
        residency, windows.size, layout.base, layout.rotation, layout.step, layout.orbits
    )
    if not (replay.technique.rotates and schedule.writes_whole):
        _add_orbits(residencies, places, ones, powered)
        return
    first = np.searchsorted(register, np.arange(len(windows.size) + 1) * entries)
    if replay.technique.gates_released:
        _add_rotations(residencies, first, places, ones, powered)
    else:
        _add_rotations(_without_last(residencies), first, places, ones, np.zeros_like(powered))
        _add_orbits(_first_and_last(residencies), places, ones, powered)


def _add_rotations(
    residencies: Residencies,
    first: NDArray[np.int64],
    places: Places,
    ones: NDArray[np.int64],
    powered: NDArray[np.int64],
) -> None:
    """Add the times of a rotating layout whose released places are off and whose writes are whole.

    Over all offsets every register of a window visits every entry of it equally often, and no
    value outlives its write. The total of a window, shared out, is therefore exact. `first` is the
    first residency of each window.
    """
    writes, starts = residencies.writes, residencies.write_starts[first].tolist()
    total = [int(writes.duration[begin:end].sum()) for begin, end in pairwise(starts)]
    narrow = np.uint32 if max(total, default=0) < 1 << 32 else np.int64
    duration: NDArray[np.integer] = writes.duration.astype(narrow)
    times = new_times(np.empty(0, narrow)).ones
    for window, (begin, end) in enumerate(pairwise(starts)):
        base, size = places.base[0, window], places.size[window]
        occupants, entries = len(places.base) // size, slice(base, base + size)
        times[:] = 0
        _sum_writes(residencies.contents.planes, writes.image, duration, begin, end, times)
        ones[entries] += occupants * times.T[: ones.shape[1]].astype(np.int64)
        powered[entries] += occupants * total[window]


@compiled
def _sum_writes(
    planes: NDArray[np.uint64],
    image: NDArray[np.uint32],
    duration: NDArray[np.integer],
    begin: int,
    end: int,
    times: NDArray[np.integer],
) -> None:
    """Add the durations of writes begin ... end - 1 where they store '1': to T[32, 64]."""
    for bit in range(0, BITS, AT_ONCE):
        sum_planes(planes, image, duration, begin, end, bit, times)


def _add_orbits(
    residencies: Residencies,
    places: Places,
    ones: NDArray[np.int64],
    powered: NDArray[np.int64],
) -> None:
    """Add the times of `_orbit_times`, with space for as many events as an entry turns out to have.

    An entry has no more than all registers write in all passes, and mostly far fewer.
    """
    entry, events, cycles = 0, _EVENTS, residencies.at_most
    while entry < len(places.step):
        space = new_events(events, len(places.base), cycles)
        workspace = _Workspace(space, new_times(cycles))
        entry = _orbit_times(residencies, places, entry, workspace, ones, powered)
        events *= 2


def _without_last(residencies: Residencies) -> Residencies:
    """The same residencies with a last value that lasts no time: what follows it does not matter.

    Together with `_first_and_last` they make up the times of a rotating layout that keeps released
    values.
    """
    duration = residencies.writes.duration.copy()
    duration[residencies.write_starts[1:] - 1] = 0
    return residencies._replace(writes=residencies.writes._replace(duration=duration))


def _first_and_last(residencies: Residencies) -> Residencies:
    """The same residencies, with zeros from the first write on until the last."""
    writes, starts = residencies.writes, residencies.write_starts
    several = np.diff(starts) > 1
    is_kept = np.zeros(len(writes.image), dtype=np.bool_)
    is_kept[starts[:-1]] = is_kept[starts[1:] - 1] = True
    image, planes = writes.image.copy(), residencies.contents.planes
    image[starts[:-1][several]] = len(planes)
    kept = writes._replace(image=image)
    return residencies._replace(
        writes=Writes._make(column[is_kept] for column in kept),
        contents=residencies.contents._replace(
            planes=np.concatenate([planes, np.zeros_like(planes[:1])])
        ),
        write_starts=np.append(0, np.cumsum(1 + several)),
    )


@compiled
def _orbit_times(
    residencies: Residencies,
    places: Places,
    first: int,
    workspace: _Workspace,
    ones: NDArray[np.int64],
    powered: NDArray[np.int64],
) -> int:
    """Cell times of every entry from the first on, orbit of passes after orbit.

    Returns the entry that has more events than there is space for, or the number of entries.
    """
    events, times = workspace.events, workspace.times
    write_starts, cycles = residencies.write_starts, residencies.kernels.cycles[0]
    passes = len(places.base)
    entries = len(places.step)
    for entry in range(first, entries):
        count, orbits, step = 0, places.orbits[entry], places.step[entry]
        whole = True
        for orbit in range(orbits):
            start, turns = count, passes // orbits
            for turn in range(turns):
                current = (orbit + turn * step) % passes
                for window in range(len(places.size)):
                    offset = entry - places.base[current, window]
                    if offset < 0 or offset >= places.size[window]:
                        continue
                    reg = (offset - places.rotation[current, window]) % places.size[window]
                    residency = places.residency[window * entries + reg]
                    if residency < 0:
                        continue
                    begin, end = write_starts[residency], write_starts[residency + 1]
                    if count + end - begin > len(events.image):
                        return entry
                    whole &= _append(residencies.writes, events, count, begin, end, turn * cycles)
                    count += end - begin
            events.orbits[orbit + 1] = count
            if not residencies.rules.gated and count > start:
                _hold_until_next(events, start, count, turns * cycles)
        for orbit in range(orbits + 1, len(events.orbits)):
            events.orbits[orbit] = count
        if count:
            clear(times, ALL_BITS)
            plane_times(residencies.contents, events, whole, ALL_BITS, WHOLE_ENTRY, times)
            hand_over(times, 1, ones[entry], powered[entry])
    return entries


@inner
def _append(writes: Any, events: Any, count: int, begin: int, end: int, shift: int) -> bool:
    """Add the writes of a residency, so many cycles later; whether all of them are whole."""
    whole = True
    for write in range(begin, end):
        at = count + write - begin
        events.image[at] = writes.image[write]
        events.mask[at] = writes.mask[write]
        events.regions[at] = writes.regions[write]
        events.held[at] = writes.duration[write]
        events.when[at] = writes.cycle[write] + shift
        whole &= writes.mask[write] == WHOLE and writes.regions[write] == ALL_REGIONS
    return whole


@inner
def _hold_until_next(events: Any, start: int, end: int, period: int) -> None:
    """Let what an event leaves count until the next event; nothing is ever switched off."""
    when, held, regions = events.when, events.held, events.regions
    for i in range(start, end - 1):
        held[i] = when[i + 1] - when[i]
    held[end - 1] = when[start] + period - when[end - 1]
    for i in range(start, end):
        regions[i] = ALL_REGIONS
