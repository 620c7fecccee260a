"""Cycles that the cells of an entry hold '1' and are powered, a bit of all components at a time."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.homes import (
    WHOLE_ENTRY,
    begin_of,
    block_of,
    has_records,
    residency_of,
)
from mcage.engines.numba_engine.jit import (
    AT_ONCE,
    COMPONENTS,
    FIRST_BITS,
    add_where,
    aligned_zeros,
    compiled,
    inner,
    lowest_bit,
    members,
    prefetch,
    sum_components,
    sum_plane,
    sum_planes,
)
from mcage.engines.numba_engine.residencies import (
    ALL_COMPONENTS,
    ALL_REGIONS,
    BITS,
    END,
    EVER,
    PARTIAL,
    RECORD,
    WHOLE,
    WRITES_END,
    EntryWrites,
    Residencies,
    residencies_of,
)
from mcage.geometry import Integers, Words
from mcage.replays.prepare import FixedReplay

# Writes that an entry receives, and what its cells hold after each, a bit at a time.
#
# Bit b of the components of an entry is a plane, a 64-bit word. An event of the entry is a write
# that it receives: what it puts into a plane, in which components, and for how long that counts.

_NOTHING = np.uint64(0)


class Events(NamedTuple):
    """Writes that an entry, or a block of it, receives, orbit after orbit; arrays [events].

    An orbit of passes repeats for ever: its first event meets what its last one left.

    Attributes
    ----------
    image, mask, regions : uint32, int64, int64
        Row of `Contents.planes`, row of `Contents.masks`, set of regions.
    when, held : int64, uint32 or int64
        When the write happens; for how long what it leaves counts.
    orbits : int64[orbits + 1]
        First event of each orbit.
    lit, powered : uint64
        Workspace: components of a plane at '1', and powered, after each event.
    """

    image: NDArray[np.uint32]
    mask: Integers
    regions: Integers
    when: Integers
    held: NDArray[np.unsignedinteger]
    orbits: Integers
    lit: Words
    powered: Words


def new_events(events: int, orbits: int, cycles: Any) -> Any:
    """Make space for so many events; `cycles` is an array of the type of sums of cycles."""
    return Events(
        np.empty(events, np.uint32),
        np.empty(events, np.int64),
        np.empty(events, np.int64),
        np.empty(events, np.int64),
        np.empty(events, cycles.dtype),
        np.zeros(orbits + 1, np.int64),
        *np.empty((2, events), np.uint64),
    )


@inner
def gather_events(residencies: Any, occupants: Any, entry: int, block: int, events: Any) -> bool:
    """List what an entry, or a block of it, receives in all passes; every pass is an orbit.

    Parameters
    ----------
    residencies, occupants : Residencies, Occupants
        A redirected replay.
    entry : int
        Entry.
    block : int
        Block: its own records count, and occupants of the whole entry. Or 4: no records.
    events : Events
        Where the list goes.

    Returns
    -------
    bool
        Whether every event writes all components that matter.
    """
    writes, facts, gated = residencies.writes, residencies.facts, residencies.rules.gated
    image, duration, cycle = writes.image, writes.duration, writes.cycle
    cycles = residencies.kernels.cycles[occupants.kernel]
    image_at, held_at, orbits = events.image, events.held, events.orbits
    occupant_at, first_at = occupants.occupant, occupants.first
    passes = len(residencies.selector_starts)
    count = 0
    whole = True
    for pass_ in range(passes):
        place = entry * passes + pass_
        start, first_start, previous_end = count, np.int64(0), np.int64(0)
        for i in range(first_at[place], first_at[place + 1]):
            occupant = occupant_at[i]
            if block_of(occupant) != WHOLE_ENTRY and block_of(occupant) != block:
                continue
            residency = residency_of(residencies, occupant)
            begin = begin_of(residencies, occupant)
            whole &= block_of(occupant) == WHOLE_ENTRY and facts[residency, PARTIAL] == 0
            if not gated:
                if count > start:
                    held_at[count - 1] += cycle[begin] - previous_end
                else:
                    first_start = cycle[begin]
                previous_end = np.int64(facts[residency, END])
            for write in range(begin, np.int64(facts[residency, WRITES_END])):
                image_at[count] = image[write]
                held_at[count] = duration[write]
                count += 1
        if not gated and count > start:
            held_at[count - 1] += first_start + cycles - previous_end
        orbits[pass_ + 1] = count
    if not whole or block != WHOLE_ENTRY:
        _gather_masks(residencies, occupants, entry, block, events)
    return whole


@inner
def _gather_masks(residencies: Any, occupants: Any, entry: int, block: int, events: Any) -> None:
    """Find out which components each event writes."""
    passes, write_starts = len(residencies.selector_starts), residencies.write_starts
    mask = residencies.writes.mask
    count = 0
    for i in range(occupants.first[entry * passes], occupants.first[(entry + 1) * passes]):
        occupant = occupants.occupant[i]
        if block_of(occupant) == WHOLE_ENTRY or block_of(occupant) == block:
            end = write_starts[residency_of(residencies, occupant) + 1]
            for write in range(begin_of(residencies, occupant), end):
                events.mask[count] = mask[write]
                events.regions[count] = ALL_REGIONS
                count += 1


@inner
def lit_components(contents: Any, events: Any, bit: int, block: int) -> None:
    """Find out which components are lit and powered after each event, whatever events write.

    `contents` are those of the residencies; `bit` is that of the plane. Block 4 is the whole entry.
    """
    orbits, lit, powered = events.orbits, events.lit, events.powered
    image, mask, regions = events.image, events.mask, events.regions
    planes, masks, regions_on = contents.planes, contents.masks, contents.regions_on
    components = ALL_COMPONENTS
    if block != WHOLE_ENTRY:
        components = contents.first_block[0] << np.uint64(block * contents.block_components)
    for orbit in range(len(orbits) - 1):
        content, written = _NOTHING, _NOTHING
        for turn in range(2):  # the first turn finds out what the last event leaves
            for i in range(orbits[orbit], orbits[orbit + 1]):
                shift = np.uint64(0)
                if mask[i] == RECORD:
                    shift = np.uint64(block * contents.block_components)
                cells = masks[mask[i], bit] << shift
                content = (content & ~cells) | (planes[image[i], bit] << shift & cells)
                written |= cells
                if turn:
                    on = components & regions_on[regions[i], bit]
                    lit[i] = content & on
                    powered[i] = written & on


ALL_BITS = np.uint64(0xFFFF_FFFF)
_NEAR, _FAR, _FARTHEST = 3, 8, 16
"""Occupants between the one at hand and those that are asked for."""

_LINE = 8
"""Planes in a cache line."""

_LINE_BITS = np.uint64((1 << _LINE) - 1)
_LOWEST = np.uint64(1)

_ALONE = 2
"""Bits of `AT_ONCE` up to which it is better to look at each for itself."""


class Times(NamedTuple):
    """Cycles of the cells of an entry at '1' and powered, by bit and component: T[32, 64]."""

    ones: NDArray[np.unsignedinteger]
    powered: NDArray[np.unsignedinteger]


def new_times(cycles: Any, *turns: int) -> Any:
    """Make times of an entry, or in so many turns; `cycles` is an array of the type of sums."""
    return Times(
        aligned_zeros((*turns, BITS, COMPONENTS), cycles.dtype),
        aligned_zeros((*turns, BITS, COMPONENTS), cycles.dtype),
    )


@inner
def plane_times(
    contents: Any, events: Any, whole: bool, chosen: np.uint64, block: int, times: Any
) -> None:
    """Add the times of the chosen bits of a block's components; block 4 is the whole entry.

    Parameters
    ----------
    contents, events : Contents, Events
        What happens to the entry.
    whole : bool
        Whether every event writes all components that matter.
    chosen : uint64
        Set of bits.
    block : int
        Block, or 4.
    times : Times
        Added to.
    """
    count = events.orbits[len(events.orbits) - 1]
    if whole and block == WHOLE_ENTRY:
        total = 0
        for i in range(count):
            total += events.held[i]
        for first in range(0, BITS, AT_ONCE):
            if chosen >> np.uint64(first) & FIRST_BITS:
                sum_planes(
                    contents.planes, events.image, events.held, 0, count, first, times.ones, first
                )
                for bit in range(first, first + AT_ONCE):
                    add_everywhere(times.powered, bit, total)
    else:
        for bit in range(BITS):
            if chosen >> np.uint64(bit) & np.uint64(1):
                lit_components(contents, events, bit, block)
                sum_components(events.lit, events.held, count, times.ones, bit)
                sum_components(events.powered, events.held, count, times.powered, bit)


@inner
def gathered_times(
    residencies: Any, occupants: Any, entry: int, chosen: np.uint64, events: Any, times: Any
) -> None:
    """Add the times of the chosen bits of an entry, whatever is written to it."""
    passes = len(residencies.selector_starts)
    records = has_records(
        occupants, occupants.first[entry * passes], occupants.first[(entry + 1) * passes]
    )
    for block in (
        range(residencies.slice_.blocks) if records else range(WHOLE_ENTRY, WHOLE_ENTRY + 1)
    ):
        whole = gather_events(residencies, occupants, entry, block, events)
        plane_times(residencies.contents, events, whole, chosen, block, times)


@inner
def whole_times(
    residencies: Any, occupants: Any, entry: int, chosen: np.uint64, times: Any
) -> None:
    """Add the times of the chosen bits of an entry that is always written as a whole.

    Of `AT_ONCE` bits next to each other all are added up, unless few of them are chosen: then each
    is added for itself, and a residency of which all components, or none, show a '1' all the time
    need not be looked into.

    Parameters
    ----------
    residencies, occupants, entry : Residencies, Occupants, int
        Occupants of an entry.
    chosen : uint64
        Set of bits.
    times : Times
        Added to.
    """
    facts, cycle, gated = residencies.facts, residencies.writes.cycle, residencies.rules.gated
    cycles = residencies.kernels.cycles[occupants.kernel]
    passes, powered, together = len(residencies.selector_starts), np.int64(0), np.uint64(0)
    for first in range(0, BITS, AT_ONCE):
        if members(chosen >> np.uint64(first) & FIRST_BITS) > _ALONE:
            together |= FIRST_BITS << np.uint64(first)
    last_occupant = occupants.first[(entry + 1) * passes] - 1
    for pass_ in range(passes):
        place = entry * passes + pass_
        begin, last = occupants.first[place], occupants.first[place + 1]
        if begin == last:
            continue
        previous = np.int64(-1)
        first_start, previous_end = np.int64(0), np.int64(0)
        for i in range(begin, last):
            _look_ahead(residencies, occupants, i, last_occupant, chosen)
            occupant = occupants.occupant[i]
            residency = residency_of(residencies, occupant)
            write = begin_of(residencies, occupant)
            start, end = np.int64(cycle[write]), np.int64(facts[residency, END])
            if previous < 0:
                first_start = start
            elif not gated:
                _add_left(residencies, previous, chosen, start - previous_end, times)
            _add_whole(residencies, residency, write, end - start, chosen, together, times)
            if gated:
                powered += end - start
            previous, previous_end = np.int64(residency), end
        if not gated:
            until = np.int64(first_start + cycles)
            _add_left(residencies, previous, chosen, until - previous_end, times)
            powered += np.int64(cycles)
    for bit in range(BITS):
        if chosen >> np.uint64(bit) & _LOWEST:
            add_everywhere(times.powered, bit, powered)


@inner
def _add_whole(
    residencies: Any,
    residency: int,
    write: int,
    lasts: np.int64,
    chosen: np.uint64,
    together: np.uint64,
    times: Any,
) -> None:
    """Add what a residency shows from a write on; those of `together` are added up together."""
    planes, image = residencies.contents.planes, residencies.writes.image
    duration, ever = residencies.writes.duration, residencies.facts[residency, EVER]
    end = np.int64(residencies.facts[residency, WRITES_END])
    left = together
    while left:
        first = lowest_bit(left)
        sum_planes(planes, image, duration, write, end, first, times.ones, first)
        left &= ~(FIRST_BITS << np.uint64(first))
    left = chosen & ~together & ever
    while left:
        bit = lowest_bit(left)
        if ever >> np.uint64(BITS + bit) & _LOWEST:  # some component shows a '0' at some time
            sum_plane(planes, image, duration, write, end, bit, times.ones, bit)
        else:
            add_everywhere(times.ones, bit, lasts)
        left &= left - _LOWEST


@inner
def _look_ahead(residencies: Any, occupants: Any, at: int, last: int, chosen: np.uint64) -> None:
    """Ask for what the occupants to come will need: their writes, then the planes of these."""
    writes, facts = residencies.writes, residencies.facts
    farthest = occupants.occupant[min(at + _FARTHEST, last)]
    prefetch(facts, residency_of(residencies, farthest), 0)
    far = begin_of(residencies, occupants.occupant[min(at + _FAR, last)])
    prefetch(writes.image, far, 0)
    prefetch(writes.duration, far, 0)
    prefetch(writes.cycle, far, 0)
    near = occupants.occupant[min(at + _NEAR, last)]
    begin = begin_of(residencies, near)
    end = np.int64(facts[residency_of(residencies, near), WRITES_END])
    for bit in range(0, BITS, _LINE):
        if chosen >> np.uint64(bit) & _LINE_BITS:
            for write in range(begin, end):
                prefetch(residencies.contents.planes, int(writes.image[write]), bit)


@inner
def _add_left(
    residencies: Any, residency: np.int64, chosen: np.uint64, cycles: np.int64, times: Any
) -> None:
    """Add the cycles for which what a residency has left stays in the entry."""
    last_write = np.int64(residencies.facts[residency, WRITES_END]) - 1
    row = residencies.writes.image[last_write]
    left = chosen
    while left:
        bit = lowest_bit(left)
        plane = residencies.contents.planes[row, bit]
        add_where(times.ones, bit, plane, times.ones.dtype.type(cycles))
        left &= left - _LOWEST


@inner
def only_whole(residencies: Any, occupants: Any, entry: int) -> bool:
    """Whether an entry is always written as a whole."""
    if residencies.kernels.whole[occupants.kernel]:
        return True
    passes = len(residencies.selector_starts)
    for i in range(occupants.first[entry * passes], occupants.first[(entry + 1) * passes]):
        occupant = occupants.occupant[i]
        residency = residency_of(residencies, occupant)
        if block_of(occupant) != WHOLE_ENTRY or residencies.facts[residency, PARTIAL]:
            return False
    return True


@inner
def add_everywhere(sums: Any, bit: int, cycles: Any) -> None:
    """Add cycles to all components."""
    add_where(sums, bit, ALL_COMPONENTS, sums.dtype.type(cycles))


@inner
def hand_over(times: Any, occupants: int, ones: Any, powered: Any) -> None:
    """Add the times of an entry that so many occupants alike have made to int64[components, 32]."""
    for component in range(len(ones)):
        for bit in range(BITS):
            ones[component, bit] += occupants * np.int64(times.ones[bit, component])
            powered[component, bit] += occupants * np.int64(times.powered[bit, component])


@inner
def clear(times: Any, chosen: np.uint64) -> None:
    """Forget the times of the chosen bits, and of those that are summed up together with them."""
    for bit in range(BITS):
        if chosen >> np.uint64(bit - bit % AT_ONCE) & FIRST_BITS:
            for component in range(COMPONENTS):
                times.ones[bit, component] = 0
                times.powered[bit, component] = 0


# Cell times where windows have places that no fault changes.

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

    residency: Integers
    size: Integers
    base: Integers
    rotation: Integers
    step: Integers
    orbits: Integers


class _Workspace(NamedTuple):
    """Memory in which an entry is worked out."""

    events: Events
    times: Times


def fixed_layout_times(replay: FixedReplay, ones: Integers, powered: Integers) -> None:
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
    residencies: Residencies, first: Integers, places: Places, ones: Integers, powered: Integers
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
    planes: Words,
    image: NDArray[np.uint32],
    duration: NDArray[np.integer],
    begin: int,
    end: int,
    times: NDArray[np.integer],
) -> None:
    """Add the durations of writes begin ... end - 1 where they store '1': to T[32, 64]."""
    for bit in range(0, BITS, AT_ONCE):
        sum_planes(planes, image, duration, begin, end, bit, times, bit)


def _add_orbits(
    residencies: Residencies, places: Places, ones: Integers, powered: Integers
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
        writes=EntryWrites._make(column[is_kept] for column in kept),
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
    ones: Integers,
    powered: Integers,
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
