"""Exposure without a sum for every cell: what happened is kept, and asked when something hurts.

Of a stretch of life an instance keeps who lived where, and for each bit of each entry how long any
cell can have held '0' or '1' at most. The most stressed cell is looked for where the bounds leave
room for it; watched cells are followed one by one.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import FreeList
from mcage.engines.numba_engine.cell_times import Events, Times, new_events, new_times
from mcage.engines.numba_engine.jit import compiled
from mcage.engines.numba_engine.placement.homes import find_homes
from mcage.engines.numba_engine.placement.occupants import sort_occupants
from mcage.engines.numba_engine.placement.redirect import COUNTERS, ENTRIES, LDS, Homes, new_homes
from mcage.engines.numba_engine.placement.residencies import BITS, Residencies
from mcage.engines.numba_engine.simd import LANES
from mcage.engines.numba_engine.stress.abreast import Abreast, forget, new_abreast
from mcage.engines.numba_engine.stress.bounds import Views, bound_homes, bound_occupants, new_views
from mcage.engines.numba_engine.stress.epoch_log import (
    EpochLog,
    Pool,
    epoch_span_of,
    new_epoch_log,
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
from mcage.engines.stress import FaultFreeDuties, StressAccumulator, TrackedCells
from mcage.replays.most_stressed import DutyGroups

_EPOCH_LOG, _EXPECTED = 8, 5
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
def new_room(residencies: Residencies) -> Any:
    """Room for any kernel."""
    passes = len(residencies.selector_starts)
    most_residencies, most_writes = 0, 0
    for kernel in range(len(residencies.cycles)):
        first, last = residencies.residency_starts[kernel], residencies.residency_starts[kernel + 1]
        most_residencies = max(most_residencies, last - first)
        most_writes = max(
            most_writes, residencies.write_starts[last] - residencies.write_starts[first]
        )
    return Room(
        new_homes(passes, most_residencies),
        np.empty(ENTRIES * passes, np.int64),
        new_events(passes * most_writes, passes, residencies.longest),
        new_times(residencies.longest),
        new_times(residencies.longest),
        new_abreast(residencies.longest),
        new_views(passes, residencies.longest),
        np.empty((ENTRIES, LANES), residencies.longest.dtype),
        np.zeros(COUNTERS, np.int64),
        np.empty((_ABREAST, most_residencies, passes), np.int16),
    )


class FaultFreeStress(StressAccumulator):
    """Exposure of instances that never have times of their own.

    Parameters
    ----------
    trees : tuple of Tree
        Of the duties at '0' and at '1'.
    duties, watched, instances
        As for `StressAccumulator`.
    """

    def __init__(
        self,
        trees: tuple[Tree, Tree],
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        instances: int,
    ) -> None:
        super().__init__(duties, tracked, instances)
        self._trees = trees

    def _longest_of_mixtures(
        self, mixtures: NDArray[np.float64], duties: DutyGroups
    ) -> NDArray[np.float64]:
        longest = np.empty(len(mixtures))
        longest_total(mixtures, self._trees[duties is self._duties.one], longest)
        return longest

    def _begin(self, instances: NDArray[np.int64]) -> None:
        raise NotImplementedError


class NumbaStress(FaultFreeStress):
    """Exposure of instances that may be redirected.

    Parameters
    ----------
    runs : Runs
        Of the technique on every kernel.
    rooms, pool : Spares, Pool
        Memory.
    trees, duties, watched, instances
        As for `FaultFreeStress`.
    """

    def __init__(
        self,
        residencies: Residencies,
        rooms: FreeList[Room],
        pool: Pool,
        trees: tuple[Tree, Tree],
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        instances: int,
    ) -> None:
        super().__init__(trees, duties, tracked, instances)
        self._residencies, self._rooms, self._pool = residencies, rooms, pool

    @cached_property
    def _cells(self) -> Cells:
        return new_cells(len(self._has_own))

    @cached_property
    def _following(self) -> Following:
        return following_of(self._tracked, len(self._has_own), self._residencies.in_blocks)

    @cached_property
    def _progress(self) -> Progress:
        instances, passes = len(self._has_own), len(self._residencies.selector_starts)
        progress: Progress = new_progress(len(self._following.block), instances, passes)
        return progress

    @cached_property
    def _epoch_log(self) -> EpochLog:
        passes, instances = len(self._residencies.selector_starts), len(self._has_own)
        occupants = passes * int(np.diff(self._residencies.residency_starts).mean())
        occupant = self._pool.take(_EXPECTED * instances * occupants)
        return new_epoch_log(passes, instances, _EPOCH_LOG, occupant)

    def __del__(self) -> None:
        if "_stretches" in self.__dict__:
            self._pool.give_back(self._epoch_log.occupant)

    def _begin(self, instances: NDArray[np.int64]) -> None:
        mine = self._tracked_of(instances)
        instance, cell = self._tracked.instance[mine], self._tracked.cell[mine]
        duties = (self._duties.zero.duty, self._duties.one.duty)
        for seconds, bounds, duty in zip(
            self.tracked_seconds, self._cells.bounds, duties, strict=True
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
        residencies = self._residencies
        occupants = int(np.diff(residencies.residency_starts)[kernel].sum()) * len(
            residencies.selector_starts
        )
        turns = int(self._epoch_log.turns[instances].max()) + 1
        self._epoch_log = with_room(self._epoch_log, turns, occupants, self._pool)
        # One kernel after the other: what is shared by all instances stays in the caches.
        order = np.argsort(kernel, kind="stable")
        room = self._rooms.take()
        _expose(
            residencies,
            instances[order],
            kernel[order],
            fault_maps[order],
            seconds / self._periods[kernel[order]],
            self._epoch_log,
            self._following,
            self._progress,
            self._past,
            self._cells,
            room,
            self.tracked_seconds,
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
        """See `StressAccumulator`; occupants are still known, and no map is needed."""
        room = self._rooms.take()
        longest = np.empty((len(instances), 2))
        _look_earlier(
            self._residencies,
            instances,
            seconds / self._periods[kernel],
            self._epoch_log,
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
    residencies: Residencies,
    instances: NDArray[np.int64],
    kernels: NDArray[np.int64],
    fault_maps: NDArray[np.uint8],
    scales: NDArray[np.float64],
    epoch_log: EpochLog,
    following: Following,
    progress: Progress,
    past: Past,
    cells: Cells,
    room: Room,
    tracked_seconds: NDArray[np.float64],
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
            instance, turn = instances[end], epoch_log.turns[instances[end]]
            find_homes(residencies, kernel, fault_maps[end], homes, room.counters)
            epoch_log.turns[instance] = turn + 1
            epoch_log.kernel[instance, turn] = kernel
            epoch_log.scale[instance, turn] = scales[end]
            epoch_log.begin[instance, turn] = epoch_log.used[0]
            epoch_log.used[0] += homes.founds.sum()
            occupants = epoch_span_of(epoch_log, instance, turn)
            sort_occupants(homes, room.fill, occupants)
            by_itself = residencies.gated and not residencies.in_blocks and homes.events[LDS] == 0
            if by_itself:
                bound_homes(residencies, kernel, homes, room.at_most)
            else:
                bound_occupants(residencies, kernel, homes, room.views, room.at_most)
            raise_bounds(cells, instance, room.at_most, scales[end])
            forget(room.abreast)
            guess_longest(residencies, instance, epoch_log, past, cells, room, longest)
            if by_itself:
                narrow(
                    residencies, kernel, instance, homes, turn, scales[end], cells, room, longest
                )
            find_longest(residencies, instance, epoch_log, past, cells, room, longest)
            start(instance, occupants, following, progress)
            if by_itself:
                same[abreast] = instance
                room.homes_of_same[abreast] = homes.home.T
                abreast += 1
            else:
                others[end - begin - abreast] = instance
            end += 1
        advance_abreast(
            residencies,
            kernel,
            same[:abreast],
            room.homes_of_same,
            following,
            progress,
            room.times.ones,
        )
        others = others[: end - begin - abreast]
        _advance_side_by_side(residencies, kernel, others, epoch_log, following, progress)
        for instance in instances[begin:end]:
            turn = epoch_log.turns[instance] - 1
            occupants, scale = (
                epoch_span_of(epoch_log, instance, turn),
                epoch_log.scale[instance, turn],
            )
            finish(
                residencies,
                kernel,
                occupants,
                scale,
                instance,
                following,
                progress,
                room.events,
                tracked_seconds,
            )
        begin = end


@compiled
def _look_earlier(
    residencies: Residencies,
    instances: NDArray[np.int64],
    backs: NDArray[np.float64],
    epoch_log: EpochLog,
    past: Past,
    cells: Cells,
    room: Room,
    longest: NDArray[np.float64],
    earlier: NDArray[np.float64],
) -> None:
    """`longest_earlier` of some instances: backs float64[m], earlier float64[m, 2]."""
    for place in range(len(instances)):
        longest_earlier(
            residencies,
            instances[place],
            backs[place],
            epoch_log,
            past,
            cells,
            room,
            longest,
            earlier[place],
        )


@compiled
def _advance_side_by_side(
    residencies: Any, kernel: int, instances: Any, epoch_log: Any, following: Any, progress: Any
) -> None:
    """Take the cells of instances that run the same kernel through their latest stretches."""
    last = residencies.residency_starts[kernel + 1]
    for residency in range(residencies.residency_starts[kernel], last, _TOGETHER):
        residency_end = min(residency + _TOGETHER, last)
        for instance in instances:
            occupants = epoch_span_of(epoch_log, instance, epoch_log.turns[instance] - 1)
            advance(residencies, occupants, instance, residency_end, following, progress)
