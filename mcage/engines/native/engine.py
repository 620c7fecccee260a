"""The Numba engine."""

from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mcage.engines.exposure import Exposure, SharedDuties, Watched
from mcage.engines.interface import CellTimes, Counters, Engine
from mcage.engines.native.compile import compiled
from mcage.engines.native.counting import Counts
from mcage.engines.native.exposure import NativeExposure, Room, SharedExposure, new_room
from mcage.engines.native.laid_out import laid_out_times
from mcage.engines.native.mixtures import Tree, tree_of
from mcage.engines.native.place import COUNTERS, ENTRIES, WHOLE_ENTRY, new_homes, place
from mcage.engines.native.runs import BITS, Runs, runs_of
from mcage.engines.native.spares import Spares
from mcage.engines.native.stretches import Pool
from mcage.engines.native.vectors import LANES
from mcage.engines.native.visits import has_records, new_visits, sort_visits
from mcage.engines.native.walk import (
    ALL_BITS,
    BLOCKS,
    clear,
    gather_events,
    hand_over,
    new_events,
    new_times,
    plane_times,
)
from mcage.engines.prepare import PreparedReplay
from mcage.geometry import SLICE


class NativeEngine(Engine):
    """Numba engine. Its functions release the GIL, so threads may run batches side by side."""

    name = "numba"
    batch = 48

    def __init__(self) -> None:
        self._runs: WeakKeyDictionary[PreparedReplay, Runs] = WeakKeyDictionary()
        self._pool = Pool()
        self._rooms: WeakKeyDictionary[SharedDuties, Spares[Room]] = WeakKeyDictionary()
        self._trees: WeakKeyDictionary[SharedDuties, tuple[Tree, Tree]] = WeakKeyDictionary()
        self._runs_of_kernels: WeakKeyDictionary[SharedDuties, Runs] = WeakKeyDictionary()
        self._counts: WeakKeyDictionary[PreparedReplay, Counts] = WeakKeyDictionary()

    def _runs_of(self, replay: PreparedReplay) -> Runs:
        if replay not in self._runs:
            self._runs[replay] = runs_of((replay,))
        return self._runs[replay]

    def redirect(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> Counters:
        """See `Engine.redirect`."""
        if replay not in self._counts:
            self._counts[replay] = Counts(self._runs_of(replay))
        counters = self._counts[replay].of(fault_maps)
        return Counters(replay.passes, *(counters[:, one] for one in range(COUNTERS)))

    def cell_times(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> CellTimes:
        """See `Engine.cell_times`."""
        instances = len(fault_maps) if replay.layout is None else 1
        ones = np.zeros((instances, ENTRIES, LANES, BITS), dtype=np.int64)
        powered = np.zeros_like(ones)
        if replay.layout is None:
            _redirected_times(self._runs_of(replay), fault_maps, ones, powered)
        else:
            laid_out_times(replay, replay.layout, ones[0], powered[0])
        shape = (instances, ENTRIES, SLICE.entry_bits)
        return CellTimes(ones.reshape(shape), powered.reshape(shape), replay.period)

    def exposure(self, duties: SharedDuties, watched: Watched, instances: int) -> Exposure:
        """See `Engine.exposure`."""
        if duties not in self._trees:
            self._trees[duties] = (tree_of(duties.zero), tree_of(duties.one))
        trees = self._trees[duties]
        if not duties.replays[0].technique.redirects:
            return SharedExposure(trees, duties, watched, instances)
        if duties not in self._runs_of_kernels:
            self._runs_of_kernels[duties] = runs_of(duties.replays)
            runs = self._runs_of_kernels[duties]
            self._rooms[duties] = Spares(partial(new_room, runs))
        runs, rooms = self._runs_of_kernels[duties], self._rooms[duties]
        return NativeExposure(runs, rooms, self._pool, trees, duties, watched, instances)


@compiled
def _redirected_times(
    runs: Runs,
    fault_maps: NDArray[np.uint8],
    ones: NDArray[np.int64],
    powered: NDArray[np.int64],
) -> None:
    passes = len(runs.selector_starts)
    homes = new_homes(passes, runs.run_starts[1])
    visits = new_visits(passes, runs.run_starts[1])
    fill = np.empty(ENTRIES * passes, np.int64)
    events = new_events(passes * len(runs.image), passes, runs.longest)
    times = new_times(runs.longest)
    unused = np.zeros(COUNTERS, np.int64)
    for instance in range(len(fault_maps)):
        place(runs, 0, fault_maps[instance], homes, unused)
        sort_visits(homes, fill, visits)
        for entry in range(ENTRIES):
            first, last = visits.first[entry * passes], visits.first[entry * passes + passes]
            if first == last:
                continue
            for bit in range(BITS):
                clear(times, bit)
            records = has_records(visits, first, last)
            for block in range(BLOCKS) if records else range(WHOLE_ENTRY, WHOLE_ENTRY + 1):
                whole = gather_events(runs, 0, visits, entry, block, events)
                plane_times(runs, events, whole, ALL_BITS, block, times)
            hand_over(times, 1, ones[instance, entry], powered[instance, entry])
