"""The Numba engine."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Once
from mcage.engines.interface import CellTimes, Counters, Engine
from mcage.engines.numba_engine.cell_times import (
    ALL_BITS,
    clear,
    gathered_times,
    hand_over,
    new_events,
    new_times,
)
from mcage.engines.numba_engine.fixed_layout import laid_out_times
from mcage.engines.numba_engine.jit import compiled
from mcage.engines.numba_engine.placement.count import Counts
from mcage.engines.numba_engine.placement.homes import find_homes
from mcage.engines.numba_engine.placement.occupants import new_visits, sort_visits
from mcage.engines.numba_engine.placement.redirect import COUNTERS, ENTRIES, new_homes
from mcage.engines.numba_engine.placement.residencies import BITS, Runs, runs_of
from mcage.engines.numba_engine.simd import LANES
from mcage.engines.numba_engine.spares import Spares
from mcage.engines.numba_engine.stress.accumulator import (
    NativeExposure,
    Room,
    SharedExposure,
    new_room,
)
from mcage.engines.numba_engine.stress.epoch_log import Pool
from mcage.engines.numba_engine.stress.mixture import Tree, tree_of
from mcage.engines.packed import Packed, PackedExposure
from mcage.engines.policies import Policies
from mcage.engines.stress import Exposure, SharedDuties, Watched
from mcage.geometry import SLICE
from mcage.replays.prepare import PreparedReplay
from mcage.techniques import Gating, Placement, Storage


class NativeEngine(Engine):
    """Numba engine. Its functions release the GIL, so threads may run batches side by side."""

    name = "numba"
    policies = Policies(
        placements={
            Placement.DIRECT,
            Placement.ROTATE,
            Placement.ROUND_ROBIN,
            Placement.REDIRECT,
            Placement.GUARD,
            Placement.PACK,
        },
        storages={Storage.PLAIN, Storage.TABLE, Storage.INLINE, Storage.BLOCK},
        gatings={Gating.NONE, Gating.UNUSED, Gating.IDLE_WINDOWS, Gating.EMPTY},
    )
    batch = 48

    def __init__(self) -> None:
        self._pool = Pool()
        self._packed = Packed(self)
        self._runs: Once[PreparedReplay, Runs] = Once(lambda replay: runs_of((replay,)))
        self._counts: Once[PreparedReplay, Counts] = Once(lambda one: Counts(self._runs.of(one)))
        self._trees: Once[SharedDuties, tuple[Tree, Tree]] = Once(_trees)
        self._redirected: Once[SharedDuties, tuple[Runs, Spares[Room]]] = Once(_redirected)

    def redirect(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> Counters:
        """See `Engine.redirect`."""
        self.check(replay.technique)
        counters = self._counts.of(replay).of(fault_maps)
        return Counters(replay.passes, *(counters[:, one] for one in range(COUNTERS)))

    def cell_times(self, replay: PreparedReplay, fault_maps: NDArray[np.uint8]) -> CellTimes:
        """See `Engine.cell_times`."""
        self.check(replay.technique)
        if replay.packing is not None:
            return self._packed.cell_times(replay, fault_maps)
        instances = len(fault_maps) if replay.layout is None else 1
        ones = np.zeros((instances, ENTRIES, LANES, BITS), dtype=np.int64)
        powered = np.zeros_like(ones)
        if replay.layout is None:
            _redirected_times(self._runs.of(replay), fault_maps, ones, powered)
        else:
            laid_out_times(replay, replay.layout, ones[0], powered[0])
        shape = (instances, ENTRIES, SLICE.entry_bits)
        return CellTimes(ones.reshape(shape), powered.reshape(shape), replay.period)

    def exposure(self, duties: SharedDuties, watched: Watched, instances: int) -> Exposure:
        """See `Engine.exposure`."""
        self.check(duties.replays[0].technique)
        technique = duties.replays[0].technique
        if technique.packs:
            return PackedExposure(self._packed, duties, watched, instances)
        trees = self._trees.of(duties)
        if not technique.redirects:
            return SharedExposure(trees, duties, watched, instances)
        runs, rooms = self._redirected.of(duties)
        return NativeExposure(runs, rooms, self._pool, trees, duties, watched, instances)


def _trees(duties: SharedDuties) -> tuple[Tree, Tree]:
    return tree_of(duties.zero), tree_of(duties.one)


def _redirected(duties: SharedDuties) -> tuple[Runs, Spares[Room]]:
    """Runs of a technique on every kernel, and room to work on them."""
    runs = runs_of(duties.replays)
    return runs, Spares(partial(new_room, runs))


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
        find_homes(runs, 0, fault_maps[instance], homes, unused)
        sort_visits(homes, fill, visits)
        for entry in range(ENTRIES):
            first, last = visits.first[entry * passes], visits.first[entry * passes + passes]
            if first == last:
                continue
            clear(times, ALL_BITS)
            gathered_times(runs, 0, visits, entry, ALL_BITS, events, times)
            hand_over(times, 1, ones[instance, entry], powered[instance, entry])
