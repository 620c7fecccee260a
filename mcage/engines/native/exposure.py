"""Exposure without a sum for every cell: what happened is kept, and asked when something hurts.

Of a stretch of life an instance keeps who lived where, and for each bit of each entry how long any
cell can have held '0' or '1' at most. The most stressed cell is looked for where the bounds leave
room for it; watched cells are followed one by one.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.exposure import Exposure, SharedDuties, Watched
from mcage.engines.extremes import DutyGroups
from mcage.engines.native.abreast import Abreast, forget, new_abreast
from mcage.engines.native.bounds import bound_homes, bound_visits, new_views
from mcage.engines.native.compile import compiled
from mcage.engines.native.follow import (
    Following,
    advance,
    finish,
    following_of,
    new_progress,
    start,
)
from mcage.engines.native.longest import (
    Cells,
    Past,
    find_longest,
    guess_longest,
    narrow,
    new_cells,
    raise_bounds,
)
from mcage.engines.native.mixtures import Tree, longest_total
from mcage.engines.native.place import COUNTERS, ENTRIES, LDS, new_homes, place
from mcage.engines.native.runs import BITS, Runs
from mcage.engines.native.stretches import Stretches, new_stretches, stretch_of, with_room
from mcage.engines.native.vectors import LANES
from mcage.engines.native.visits import sort_visits
from mcage.engines.native.walk import Events, Times, new_events, new_times

_STRETCHES, _EXPECTED = 8, 5
"""Stretches of an instance for which there is room at first, and for the visits of how many."""

_TOGETHER = 1024
"""Runs that instances go through side by side: what they write fits the second-level cache."""


class Room(NamedTuple):
    """Room to work."""

    events: Events
    times: Times
    latest: Times
    abreast: Abreast


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
    trees, duties, watched, instances
        As for `SharedExposure`.
    """

    def __init__(
        self,
        runs: Runs,
        trees: tuple[Tree, Tree],
        duties: SharedDuties,
        watched: Watched,
        instances: int,
    ) -> None:
        super().__init__(trees, duties, watched, instances)
        self._runs = runs

    @cached_property
    def _cells(self) -> Cells:
        return new_cells(len(self._has_own))

    @cached_property
    def _following(self) -> Following:
        return following_of(self._watched, len(self._has_own), self._runs.in_blocks)

    @cached_property
    def _stretches(self) -> Stretches:
        passes, instances = len(self._runs.selector_starts), len(self._has_own)
        visits = passes * int(np.diff(self._runs.run_starts).mean())
        return new_stretches(passes, instances, _STRETCHES, _EXPECTED * instances * visits)

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
        self._stretches = with_room(self._stretches, turns, visits)
        # One kernel after the other: what is shared by all instances stays in the caches.
        order = np.argsort(kernel, kind="stable")
        periods = np.array([replay.period for replay in self._duties.replays])
        _expose(
            runs,
            instances[order],
            kernel[order],
            fault_maps[order],
            seconds / periods[kernel[order]],
            self._stretches,
            self._following,
            Past(self._mixture, self._duties.zero.duty, self._duties.one.duty),
            self._cells,
            self.watched_seconds,
            self.longest,
        )


@compiled
def _expose(
    runs: Runs,
    instances: NDArray[np.int64],
    kernels: NDArray[np.int64],
    fault_maps: NDArray[np.uint8],
    scales: NDArray[np.float64],
    stretches: Stretches,
    following: Following,
    past: Past,
    cells: Cells,
    watched_seconds: NDArray[np.float64],
    longest: NDArray[np.float64],
) -> None:
    """Add a stretch to some instances."""
    passes = len(runs.selector_starts)
    most_runs, most_writes = 0, 0
    for kernel in range(len(runs.cycles)):
        first, last = runs.run_starts[kernel], runs.run_starts[kernel + 1]
        most_runs = max(most_runs, last - first)
        most_writes = max(most_writes, runs.write_starts[last] - runs.write_starts[first])
    homes = new_homes(passes, most_runs)
    fill = np.empty(ENTRIES * passes, np.int64)
    room = Room(
        new_events(passes * most_writes, passes, runs.longest),
        new_times(runs.longest),
        new_times(runs.longest),
        new_abreast(runs.longest),
    )
    progress = new_progress(len(following.block), len(stretches.turns), passes)
    at_most = np.empty((ENTRIES, LANES), runs.longest.dtype)
    views = new_views(passes, runs.longest)
    unused = np.zeros(COUNTERS, np.int64)
    begin = 0
    while begin < len(instances):
        kernel, end = kernels[begin], begin
        while end < len(instances) and kernels[end] == kernel:
            instance, turn = instances[end], stretches.turns[instances[end]]
            place(runs, kernel, fault_maps[end], homes, unused)
            stretches.turns[instance] = turn + 1
            stretches.kernel[instance, turn] = kernel
            stretches.scale[instance, turn] = scales[end]
            stretches.begin[instance, turn] = stretches.used[0]
            stretches.used[0] += homes.founds.sum()
            visits = stretch_of(stretches, instance, turn)
            sort_visits(homes, fill, visits)
            by_itself = runs.gated and not runs.in_blocks and homes.events[LDS] == 0
            if by_itself:
                bound_homes(runs, kernel, homes, at_most)
            else:
                bound_visits(runs, kernel, homes, views, at_most)
            raise_bounds(cells, instance, at_most, scales[end])
            forget(room.abreast)
            guess_longest(runs, instance, stretches, past, cells, room, longest)
            if by_itself:
                narrow(runs, kernel, instance, homes, turn, scales[end], cells, room, longest)
            find_longest(runs, instance, stretches, past, cells, room, longest)
            end += 1
        same = instances[begin:end]
        _follow(runs, kernel, same, stretches, following, progress, room.events, watched_seconds)
        begin = end


@compiled
def _follow(
    runs: Any,
    kernel: int,
    instances: Any,
    stretches: Any,
    following: Any,
    progress: Any,
    events: Any,
    watched_seconds: Any,
) -> None:
    """Bring the watched cells of instances that run the same kernel up to date."""
    for instance in instances:
        visits = stretch_of(stretches, instance, stretches.turns[instance] - 1)
        start(instance, visits, following, progress)
    last = runs.run_starts[kernel + 1]
    for run in range(runs.run_starts[kernel], last, _TOGETHER):
        run_end = min(run + _TOGETHER, last)
        for instance in instances:
            visits = stretch_of(stretches, instance, stretches.turns[instance] - 1)
            advance(runs, visits, instance, run_end, following, progress)
    for instance in instances:
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
            events,
            watched_seconds,
        )
