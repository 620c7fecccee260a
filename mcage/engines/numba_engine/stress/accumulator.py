"""Exposure without a sum for every cell: what happened is kept, and asked when something hurts.

Of a stretch of life an instance keeps who lived where, and for each bit of each entry how long any
cell can have held '0' or '1' at most. The most stressed cell is looked for where the bounds leave
room for it; watched cells are followed one by one.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import Events, Times, new_events, new_times
from mcage.engines.numba_engine.jit import compiled
from mcage.engines.numba_engine.placement.homes import find_homes
from mcage.engines.numba_engine.placement.occupants import sort_visits
from mcage.engines.numba_engine.placement.redirect import COUNTERS, ENTRIES, LDS, Homes, new_homes
from mcage.engines.numba_engine.placement.residencies import BITS, Runs
from mcage.engines.numba_engine.simd import LANES
from mcage.engines.numba_engine.spares import Spares
from mcage.engines.numba_engine.stress.abreast import Abreast, forget, new_abreast
from mcage.engines.numba_engine.stress.bounds import Views, bound_homes, bound_visits, new_views
from mcage.engines.numba_engine.stress.epoch_log import (
    Pool,
    Stretches,
    new_stretches,
    stretch_of,
    with_room,
)
from mcage.engines.numba_engine.stress.mixture import Tree, longest_total
from mcage.engines.numba_engine.stress.most_stressed import (
    Cells,
    Past,
    find_longest,
    guess_longest,
    longest_earlier,
    narrow,
    new_cells,
    raise_bounds,
)
from mcage.engines.numba_engine.stress.tracked_cells import (
    Following,
    Progress,
    advance,
    advance_abreast,
    finish,
    following_of,
    new_progress,
    start,
)
from mcage.engines.stress import Exposure, SharedDuties, Watched
from mcage.replays.most_stressed import DutyGroups

_STRETCHES, _EXPECTED = 8, 5
"""Stretches of an instance for which there is room at first, and for the visits of how many."""

_ABREAST = 16
"""Instances whose homes are kept at a time."""

_TOGETHER = 1024
"""Runs that instances go through side by side: what they write fits the second-level cache."""


class Room(NamedTuple):
    """Room to work on the instances of a thread."""

    homes: Homes
    fill: NDArray[np.int64]
    events: Events
    times: Times
    latest: Times
    abreast: Abreast
    views: Views
    at_most: NDArray[np.unsignedinteger]
    counters: NDArray[np.int64]
    homes_of_same: NDArray[np.int16]


@compiled
def new_room(runs: Runs) -> Any:
    """Room for any kernel."""
    passes = len(runs.selector_starts)
    most_runs, most_writes = 0, 0
    for kernel in range(len(runs.cycles)):
        first, last = runs.run_starts[kernel], runs.run_starts[kernel + 1]
        most_runs = max(most_runs, last - first)
        most_writes = max(most_writes, runs.write_starts[last] - runs.write_starts[first])
    return Room(
        new_homes(passes, most_runs),
        np.empty(ENTRIES * passes, np.int64),
        new_events(passes * most_writes, passes, runs.longest),
        new_times(runs.longest),
        new_times(runs.longest),
        new_abreast(runs.longest),
        new_views(passes, runs.longest),
        np.empty((ENTRIES, LANES), runs.longest.dtype),
        np.zeros(COUNTERS, np.int64),
        np.empty((_ABREAST, most_runs, passes), np.int16),
    )


class SharedExposure(Exposure):
    """Exposure of instances that never have times of their own.

    Parameters
    ----------
    trees : tuple of Tree
        Of the duties at '0' and at '1'.
    duties, watched, instances
        As for `Exposure`.
    """

    def __init__(
        self, trees: tuple[Tree, Tree], duties: SharedDuties, watched: Watched, instances: int
    ) -> None:
        super().__init__(duties, watched, instances)
        self._trees = trees

    def _longest_of_mixtures(
        self, mixtures: NDArray[np.float64], duties: DutyGroups
    ) -> NDArray[np.float64]:
        longest = np.empty(len(mixtures))
        longest_total(mixtures, self._trees[duties is self._duties.one], longest)
        return longest

    def _begin(self, instances: NDArray[np.int64]) -> None:
        raise NotImplementedError


class NativeExposure(SharedExposure):
    """Exposure of instances that may be redirected.

    Parameters
    ----------
    runs : Runs
        Of the technique on every kernel.
    rooms, pool : Spares, Pool
        Memory.
    trees, duties, watched, instances
        As for `SharedExposure`.
    """

    def __init__(
        self,
        runs: Runs,
        rooms: Spares[Room],
        pool: Pool,
        trees: tuple[Tree, Tree],
        duties: SharedDuties,
        watched: Watched,
        instances: int,
    ) -> None:
        super().__init__(trees, duties, watched, instances)
        self._runs, self._rooms, self._pool = runs, rooms, pool

    @cached_property
    def _cells(self) -> Cells:
        return new_cells(len(self._has_own))

    @cached_property
    def _following(self) -> Following:
        return following_of(self._watched, len(self._has_own), self._runs.in_blocks)

    @cached_property
    def _progress(self) -> Progress:
        instances, passes = len(self._has_own), len(self._runs.selector_starts)
        progress: Progress = new_progress(len(self._following.block), instances, passes)
        return progress

    @cached_property
    def _stretches(self) -> Stretches:
        passes, instances = len(self._runs.selector_starts), len(self._has_own)
        visits = passes * int(np.diff(self._runs.run_starts).mean())
        visit = self._pool.take(_EXPECTED * instances * visits)
        return new_stretches(passes, instances, _STRETCHES, visit)

    def __del__(self) -> None:
        if "_stretches" in self.__dict__:
            self._pool.give_back(self._stretches.visit)

    def _begin(self, instances: NDArray[np.int64]) -> None:
        mine = self._watched_of(instances)
        instance, cell = self._watched.instance[mine], self._watched.cell[mine]
        duties = (self._duties.zero.duty, self._duties.one.duty)
        for seconds, bounds, duty in zip(
            self.watched_seconds, self._cells.bounds, duties, strict=True
        ):
            seconds[mine] = 0
            for kernel in np.flatnonzero(self._mixture[instances].any(axis=0)):
                spent = self._mixture[:, kernel]
                most = duty[kernel].reshape(ENTRIES, LANES, BITS).max(axis=1)
                bounds[instances] += spent[instances, None, None] * most
                seconds[mine] += spent[instance] * duty[kernel, cell]

    def _run_each(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        seconds: float,
    ) -> None:
        runs = self._runs
        visits = int(np.diff(runs.run_starts)[kernel].sum()) * len(runs.selector_starts)
        turns = int(self._stretches.turns[instances].max()) + 1
        self._stretches = with_room(self._stretches, turns, visits, self._pool)
        # One kernel after the other: what is shared by all instances stays in the caches.
        order = np.argsort(kernel, kind="stable")
        room = self._rooms.take()
        _expose(
            runs,
            instances[order],
            kernel[order],
            fault_maps[order],
            seconds / self._periods[kernel[order]],
            self._stretches,
            self._following,
            self._progress,
            self._past,
            self._cells,
            room,
            self.watched_seconds,
            self.longest,
        )
        self._rooms.give_back(room)

    def _own_earlier(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        seconds: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """See `Exposure`; the visits of the stretch are still known, and no map is needed."""
        room = self._rooms.take()
        longest = np.empty((len(instances), 2))
        _look_earlier(
            self._runs,
            instances,
            seconds / self._periods[kernel],
            self._stretches,
            self._past,
            self._cells,
            room,
            self.longest,
            longest,
        )
        self._rooms.give_back(room)
        return longest.T

    @cached_property
    def _periods(self) -> NDArray[np.int64]:
        return np.array([replay.period for replay in self._duties.replays])

    @property
    def _past(self) -> Past:
        return Past(self._mixture, self._duties.zero.duty, self._duties.one.duty)


@compiled
def _expose(
    runs: Runs,
    instances: NDArray[np.int64],
    kernels: NDArray[np.int64],
    fault_maps: NDArray[np.uint8],
    scales: NDArray[np.float64],
    stretches: Stretches,
    following: Following,
    progress: Progress,
    past: Past,
    cells: Cells,
    room: Room,
    watched_seconds: NDArray[np.float64],
    longest: NDArray[np.float64],
) -> None:
    """Add a stretch to some instances, listed kernel by kernel."""
    homes = room.homes
    begin = 0
    while begin < len(instances):
        kernel, end = kernels[begin], begin
        same, others = np.empty(_ABREAST, np.int64), np.empty(_ABREAST, np.int64)
        abreast = 0
        while end < len(instances) and kernels[end] == kernel and end < begin + _ABREAST:
            instance, turn = instances[end], stretches.turns[instances[end]]
            find_homes(runs, kernel, fault_maps[end], homes, room.counters)
            stretches.turns[instance] = turn + 1
            stretches.kernel[instance, turn] = kernel
            stretches.scale[instance, turn] = scales[end]
            stretches.begin[instance, turn] = stretches.used[0]
            stretches.used[0] += homes.founds.sum()
            visits = stretch_of(stretches, instance, turn)
            sort_visits(homes, room.fill, visits)
            by_itself = runs.gated and not runs.in_blocks and homes.events[LDS] == 0
            if by_itself:
                bound_homes(runs, kernel, homes, room.at_most)
            else:
                bound_visits(runs, kernel, homes, room.views, room.at_most)
            raise_bounds(cells, instance, room.at_most, scales[end])
            forget(room.abreast)
            guess_longest(runs, instance, stretches, past, cells, room, longest)
            if by_itself:
                narrow(runs, kernel, instance, homes, turn, scales[end], cells, room, longest)
            find_longest(runs, instance, stretches, past, cells, room, longest)
            start(instance, visits, following, progress)
            if by_itself:
                same[abreast] = instance
                room.homes_of_same[abreast] = homes.home.T
                abreast += 1
            else:
                others[end - begin - abreast] = instance
            end += 1
        advance_abreast(
            runs,
            kernel,
            same[:abreast],
            room.homes_of_same,
            following,
            progress,
            room.times.ones,
        )
        others = others[: end - begin - abreast]
        _advance_side_by_side(runs, kernel, others, stretches, following, progress)
        for instance in instances[begin:end]:
            turn = stretches.turns[instance] - 1
            visits, scale = stretch_of(stretches, instance, turn), stretches.scale[instance, turn]
            finish(
                runs,
                kernel,
                visits,
                scale,
                instance,
                following,
                progress,
                room.events,
                watched_seconds,
            )
        begin = end


@compiled
def _look_earlier(
    runs: Runs,
    instances: NDArray[np.int64],
    backs: NDArray[np.float64],
    stretches: Stretches,
    past: Past,
    cells: Cells,
    room: Room,
    longest: NDArray[np.float64],
    earlier: NDArray[np.float64],
) -> None:
    """`longest_earlier` of some instances: backs float64[m], earlier float64[m, 2]."""
    for place in range(len(instances)):
        longest_earlier(
            runs,
            instances[place],
            backs[place],
            stretches,
            past,
            cells,
            room,
            longest,
            earlier[place],
        )


@compiled
def _advance_side_by_side(
    runs: Any, kernel: int, instances: Any, stretches: Any, following: Any, progress: Any
) -> None:
    """Take the cells of instances that run the same kernel through their latest stretches."""
    last = runs.run_starts[kernel + 1]
    for run in range(runs.run_starts[kernel], last, _TOGETHER):
        run_end = min(run + _TOGETHER, last)
        for instance in instances:
            visits = stretch_of(stretches, instance, stretches.turns[instance] - 1)
            advance(runs, visits, instance, run_end, following, progress)
