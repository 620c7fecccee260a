"""The Numba engine: redirected and fixed placements, cell times, exposure."""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mcage.engines.exposure import DenseExposure, Exposure, SharedDuties, Watched
from mcage.engines.extremes import DutyGroups
from mcage.engines.interface import CellTimes, Counters, Engine
from mcage.engines.layout import Layout
from mcage.engines.native.columns import DURATION, Columns, Placing, columns, placing
from mcage.engines.native.compile import compiled
from mcage.engines.native.place import COUNTERS, ENTRIES, place_all, place_pass
from mcage.engines.native.spread import Spread, spread
from mcage.engines.native.stays import Stays, single_writes, stays
from mcage.engines.native.walk import BITS, COMPONENTS, clear, finish, new_entry, walk
from mcage.engines.prepare import PreparedReplay
from mcage.geometry import SLICE
from mcage.techniques import Gating, Placement, Storage

_SHAPE = (ENTRIES, COMPONENTS, BITS)


class _Policies(NamedTuple):
    """What a redirecting technique does, and where its selectors start."""

    starts: NDArray[np.int64]
    rotating: bool
    table: bool
    empty: bool
    gated: bool
    cycles: int


class _Redirection(NamedTuple):
    """A redirected replay as the compiled functions take it."""

    columns: Columns
    stays: Stays
    spread: Spread
    placing_stays: Placing
    placing_writes: Placing
    policies: _Policies


class NativeEngine(Engine):
    """Numba engine. Its functions release the GIL, so threads may run batches side by side."""

    name = "numba"
    batch = 16

    def __init__(self) -> None:
        self._redirections: WeakKeyDictionary[PreparedReplay, _Redirection] = WeakKeyDictionary()
        self._counted: WeakKeyDictionary[PreparedReplay, dict[int, NDArray[np.int64]]]
        self._counted = WeakKeyDictionary()

    def _redirection(self, replay: PreparedReplay) -> _Redirection:
        if replay not in self._redirections:
            self._redirections[replay] = _redirection(replay)
        return self._redirections[replay]

    def redirect(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> Counters:
        """See `Engine.redirect`."""
        if replay.technique.storage is Storage.TABLE:
            counters = self._count_by_room(replay, fault_maps)
        else:
            counters = self._count(replay, fault_maps)
        return Counters(replay.passes, *(counters[:, one] for one in range(COUNTERS)))

    def _count_by_room(
        self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]
    ) -> NDArray[np.int64]:
        """Events where only whole entries are used: how many are reliable decides, not which."""
        known = self._counted.setdefault(replay, {})
        reliable = (fault_maps == 0).sum(axis=1)
        for room in np.unique(reliable).tolist():
            if room not in known:
                one_map = (np.arange(ENTRIES) >= room).astype(np.uint8)[None]
                known[room] = self._count(replay, one_map)[0]
        return np.stack([known[room] for room in reliable.tolist()])

    def _count(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> NDArray[np.int64]:
        counters = np.zeros((len(fault_maps), COUNTERS), dtype=np.int64)
        redirection = self._redirection(replay)
        policies = redirection.policies
        place_all(
            redirection.placing_stays,
            redirection.placing_writes,
            fault_maps,
            policies.starts,
            policies.rotating,
            policies.table,
            policies.empty,
            counters,
        )
        return counters

    def cell_times(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> CellTimes:
        """See `Engine.cell_times`."""
        instances = len(fault_maps) if replay.layout is None else 1
        ones = np.zeros((instances, *_SHAPE), dtype=np.int64)
        powered = np.zeros_like(ones)
        if replay.layout is None:
            _redirected(self._redirection(replay), fault_maps, ones, powered)
        else:
            _fixed_cell_times(replay, replay.layout, ones[0], powered[0])
        shape = (instances, SLICE.entries, SLICE.entry_bits)
        return CellTimes(ones.reshape(shape), powered.reshape(shape), replay.period)

    def exposure(self, duties: SharedDuties, watched: Watched, instances: int) -> Exposure:
        """See `Engine.exposure`."""
        return _NativeExposure(self, duties, watched, instances)


class _NativeExposure(DenseExposure):
    def __init__(
        self, engine: NativeEngine, duties: SharedDuties, watched: Watched, instances: int
    ) -> None:
        super().__init__(duties, watched, instances)
        self._engine = engine

    def _times(
        self, replay: PreparedReplay, fault_map: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        times = self._engine.cell_times(replay, fault_map[None])
        return times.ones[0], times.powered[0]

    def _longest_of_mixtures(
        self, mixtures: NDArray[np.float64], duties: DutyGroups
    ) -> NDArray[np.float64]:
        longest = np.empty(len(mixtures))
        _longest_total(mixtures, duties.duty, duties.cells, duties.bound, longest)
        return longest


def _redirection(replay: PreparedReplay) -> _Redirection:
    technique = replay.technique
    schedule = columns(replay)
    sums = stays(replay, schedule)
    return _Redirection(
        columns=schedule,
        stays=sums,
        spread=spread(replay, schedule, sums),
        placing_stays=placing(replay, every_write=False),
        placing_writes=placing(replay, every_write=True),
        policies=_Policies(
            starts=replay.selector_starts,
            rotating=technique.rotating_selectors,
            table=technique.storage is Storage.TABLE,
            empty=technique.gating is Gating.EMPTY,
            gated=technique.gates_released,
            cycles=replay.schedule.cycles,
        ),
    )


def _fixed_cell_times(
    replay: PreparedReplay, layout: Layout, ones: NDArray[np.int64], powered: NDArray[np.int64]
) -> None:
    schedule, technique = replay.schedule, replay.technique
    gated = technique.gates_released
    in_entry = ~(schedule.compressed & (technique.storage is Storage.TABLE))
    windows = len(schedule.windows.size)
    if technique.placement is Placement.ROTATE and gated and schedule.writes_whole:
        held = np.flatnonzero(in_entry)
        order = held[np.argsort(schedule.window[held], kind="stable")]
        starts = np.searchsorted(schedule.window[order], np.arange(windows + 1))
        _rotated(columns(replay), single_writes(), order, starts, layout.passes, ones, powered)
        return
    key = schedule.window * ENTRIES + schedule.reg
    held = np.flatnonzero(in_entry)
    order = held[np.argsort(key[held], kind="stable")]
    starts = np.searchsorted(key[order], np.arange(windows * ENTRIES + 1))
    _laid_out(
        columns(replay),
        single_writes(),
        order,
        starts,
        layout.base,
        layout.rotation,
        layout.step,
        schedule.cycles,
        gated,
        ones,
        powered,
    )


@compiled
def _rotated(
    schedule: Columns,
    no_stays: Stays,
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    passes: int,
    ones: NDArray[np.int64],
    powered: NDArray[np.int64],
) -> None:
    """Cell times of a rotating layout whose released places are off and whose writes are whole.

    Over all offsets every register of a window visits every entry of it equally often, and no
    value outlives its write: the total of a window, shared out, is exact. `order` lists writes by
    window.
    """
    entry = new_entry()
    for window in range(len(schedule.window_base)):
        which = order[starts[window] : starts[window + 1]]
        clear(entry)
        total = 0
        for write in which:
            total += schedule.facts[write, DURATION]
        walk(entry, schedule, no_stays, which, which, which, np.zeros_like(which), total, True)
        finish(entry, schedule.region_masks)
        size = schedule.window_size[window]
        base = schedule.window_base[window]
        visits = passes // size
        for number in range(base, base + size):
            ones[number] += visits * entry.ones
            powered[number] += visits * entry.powered


@compiled
def _laid_out(
    schedule: Columns,
    no_stays: Stays,
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    base: NDArray[np.int64],
    rotation: NDArray[np.int64],
    step: NDArray[np.int64],
    cycles: int,
    gated: bool,
    ones: NDArray[np.int64],
    powered: NDArray[np.int64],
) -> None:
    """Cell times under a window layout. `order` lists writes by window and register."""
    entry = new_entry()
    which = np.empty(1024, np.int64)
    when = np.empty(1024, np.int64)
    done = np.empty(len(base), np.bool_)
    for number in range(ENTRIES):
        clear(entry)
        done[:] = False
        for origin in range(len(base)):
            current, turn, count = origin, 0, 0
            while not done[current]:
                done[current] = True
                for window in range(len(schedule.window_base)):
                    size = schedule.window_size[window]
                    offset = number - base[current, window]
                    if offset < 0 or offset >= size:
                        continue
                    key = window * ENTRIES + (offset - rotation[current, window]) % size
                    first, last = starts[key], starts[key + 1]
                    while count + last - first > len(which):
                        which = np.concatenate((which, np.empty_like(which)))
                        when = np.concatenate((when, np.empty_like(when)))
                    for i in range(first, last):
                        which[count] = order[i]
                        when[count] = schedule.cycle[order[i]] + turn * cycles
                        count += 1
                turn += 1
                current = (current + step[number]) % len(base)
            block = np.zeros(count, np.int64)
            chosen = which[:count]
            period = turn * cycles
            walk(entry, schedule, no_stays, chosen, chosen, when[:count], block, period, gated)
        finish(entry, schedule.region_masks)
        ones[number] = entry.ones
        powered[number] = entry.powered


class _Room(NamedTuple):
    """Placed writes of every pass by entry: starts[pass, entry] into the others' [pass]."""

    starts: NDArray[np.int64]
    which: NDArray[np.int64]
    last: NDArray[np.int64]
    when: NDArray[np.int64]
    block: NDArray[np.int64]
    home: NDArray[np.int64]
    counters: NDArray[np.int64]


@compiled
def _room(passes: int, writes: int) -> Any:
    return _Room(
        np.empty((passes, ENTRIES + 1), np.int64),
        np.empty((passes, writes), np.int64),
        np.empty((passes, writes), np.int64),
        np.empty((passes, writes), np.int64),
        np.empty((passes, writes), np.int64),
        np.empty(writes, np.int64),
        np.zeros(COUNTERS, np.int64),
    )


@compiled
def _place_and_sort(room: Any, redirection: Any, fault_map: NDArray[np.uint8]) -> None:
    """Place the writes of every pass and sort them by entry, stable in time."""
    policies = redirection.policies
    for one in range(len(policies.starts)):
        spills = place_pass(
            redirection.placing_stays,
            redirection.placing_writes,
            fault_map,
            policies.starts[one],
            policies.rotating,
            policies.table,
            False,
            room.home,
            room.counters,
        )
        units = redirection.stays.units
        if spills:
            units = _spilling_units(redirection.stays, room.home)
        else:
            _follow_first(units, redirection.stays.first, room.home)
        _sort(
            units,
            redirection.stays.last,
            redirection.columns.cycle,
            room.home,
            room.starts[one],
            room.which[one],
            room.last[one],
            room.when[one],
            room.block[one],
        )


@compiled
def _follow_first(
    units: NDArray[np.int64], first: NDArray[np.int64], home: NDArray[np.int64]
) -> None:
    """Give every write that is visited the home of its stay."""
    for write in units:
        home[write] = home[first[write]]


@compiled
def _homes(
    homes: NDArray[np.int64], room: Any, redirection: Any, fault_map: NDArray[np.uint8]
) -> bool:
    """Entry of every stay in every pass; False if something is spilled."""
    policies, first = redirection.policies, redirection.spread.first
    for one in range(len(homes)):
        spills = place_pass(
            redirection.placing_stays,
            redirection.placing_writes,
            fault_map,
            policies.starts[one],
            policies.rotating,
            policies.table,
            False,
            room.home,
            room.counters,
        )
        if spills:
            return False
        for stay in range(len(first)):
            homes[one, stay] = room.home[first[stay]] >> 3
    return True


@compiled
def _spilling_units(stays: Any, home: NDArray[np.int64]) -> Any:
    """Writes to visit where rows are spilled, which find homes in the midst of a stay."""
    first, last = stays.first, stays.last
    units = np.empty(len(home), np.int64)
    count = 0
    for write in range(len(home)):
        begin = first[write]
        if home[begin] < 0 or write == begin or last[begin] == begin:
            units[count] = write
            count += 1
    return units[:count]


@compiled
def _sort(
    units: NDArray[np.int64],
    last: NDArray[np.int64],
    cycle: NDArray[np.int64],
    home: NDArray[np.int64],
    starts: NDArray[np.int64],
    sorted_which: NDArray[np.int64],
    sorted_last: NDArray[np.int64],
    sorted_when: NDArray[np.int64],
    sorted_block: NDArray[np.int64],
) -> None:
    starts[:] = 0
    for write in units:
        if home[write] >= 0:
            starts[(home[write] >> 3) + 1] += 1
    fill = np.empty(ENTRIES, np.int64)
    for entry in range(ENTRIES):
        fill[entry] = starts[entry]
        starts[entry + 1] += starts[entry]
    for write in units:
        if home[write] >= 0:
            entry = home[write] >> 3
            place = fill[entry]
            sorted_which[place] = write
            sorted_last[place] = last[write]
            sorted_when[place] = cycle[write]
            sorted_block[place] = home[write] & 7
            fill[entry] += 1


@compiled
def _walk_passes(entry: Any, room: Any, redirection: Any, number: int) -> bool:
    """Cell times of one entry over all passes, each cyclic in itself; False if it is not used."""
    clear(entry)
    used = False
    for one in range(len(room.starts)):
        first, last = room.starts[one, number], room.starts[one, number + 1]
        used |= first < last
        walk(
            entry,
            redirection.columns,
            redirection.stays,
            room.which[one, first:last],
            room.last[one, first:last],
            room.when[one, first:last],
            room.block[one, first:last],
            redirection.policies.cycles,
            redirection.policies.gated,
        )
    finish(entry, redirection.columns.region_masks)
    return used


@compiled
def _redirected(
    redirection: Any,
    fault_maps: NDArray[np.uint8],
    ones: NDArray[np.int64],
    powered: NDArray[np.int64],
) -> None:
    room = _room(len(redirection.policies.starts), len(redirection.columns.cycle))
    entry = new_entry()
    for instance in range(len(fault_maps)):
        _place_and_sort(room, redirection, fault_maps[instance])
        for number in range(ENTRIES):
            _walk_passes(entry, room, redirection, number)
            ones[instance, number] = entry.ones
            powered[instance, number] = entry.powered


@compiled
def _longest_total(
    seconds: NDArray[np.float64],
    duty: NDArray[np.float64],
    cells: NDArray[np.int32],
    bound: NDArray[np.float64],
    longest: NDArray[np.float64],
) -> None:
    """See `mcage.engines.extremes.longest_total`: the same sums, terms in the same order."""
    kernels, groups = bound.shape
    limit = np.empty(groups)
    for instance in range(len(seconds)):
        limit[:] = 0.0
        for kernel in range(kernels):
            spent = seconds[instance, kernel]
            for group in range(groups):
                limit[group] += spent * bound[kernel, group]
        best = 0.0
        first = int(np.argmax(limit))
        for turn in range(-1, groups):
            group = first if turn < 0 else turn
            if limit[group] <= best:
                continue
            for cell in cells[group]:
                total = 0.0
                for kernel in range(kernels):
                    total += seconds[instance, kernel] * duty[kernel, cell]
                best = max(best, total)
        longest[instance] = best
