"""Stress times without a sum for every cell: what happened is kept, and looked at when it matters.

Of an epoch the log keeps who lived where, and for each bit of each entry how long any cell can have
held '0' or '1' at most. The most stressed cell is looked for where these bounds leave it open;
tracked cells are summed up for themselves.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import FreeList
from mcage.engines.compiled_cells import CompiledSeconds
from mcage.engines.numba_engine.jit import compiled, nested
from mcage.engines.numba_engine.placement.contents import BITS
from mcage.engines.numba_engine.placement.homes import find_homes, leave_out_late
from mcage.engines.numba_engine.placement.occupants import sort_occupants
from mcage.engines.numba_engine.placement.redirect import ENTRIES, LDS, Homes, with_home
from mcage.engines.numba_engine.placement.residencies import Residencies, each_by_itself
from mcage.engines.numba_engine.simd import COMPONENTS
from mcage.engines.numba_engine.stress.bounds import bound_homes, bound_occupants
from mcage.engines.numba_engine.stress.epoch_log import (
    EpochLog,
    Pool,
    enlarged,
    new_epoch_log,
    occupants_in,
)
from mcage.engines.numba_engine.stress.kept_cells import (
    Cells,
    FaultFreeState,
    new_cells,
    raise_bounds,
)
from mcage.engines.numba_engine.stress.most_stressed import (
    Search,
    find_longest,
    guess_longest,
    longest_earlier,
    open_up,
)
from mcage.engines.numba_engine.stress.open_bits import SIDE_BY_SIDE, forget
from mcage.engines.numba_engine.stress.together import (
    advance_late,
    advance_together,
    finish_together,
    start_together,
)
from mcage.engines.numba_engine.stress.tracked_cells import advance, finish, start
from mcage.engines.numba_engine.stress.tracked_groups import (
    CellList,
    Progress,
    TrackedGroups,
    Tracking,
    cells_of,
    groups_of,
    new_progress,
)
from mcage.engines.numba_engine.stress.workspace import Workspace
from mcage.engines.stress import FaultFreeDuties, StressAccumulator
from mcage.engines.tracked_cells import TrackedCells, TrackedSeconds

_EPOCHS, _EXPECTED = 8, 5
"""Epochs of an instance for which there is space at first, and for the occupants of how many."""

_TOGETHER = 1024
"""Residencies that instances go through side by side: what they write fits the second-level
cache."""


class FaultFreeStress(StressAccumulator):
    """Stress times of instances whose technique heeds no fault: always mixtures of duty cycles."""

    def _new_tracked_seconds(self) -> TrackedSeconds:
        return CompiledSeconds(self._tracked, len(self._has_separate_times))

    def _begin(self, instances: NDArray[np.int64]) -> None:
        raise NotImplementedError


class Batch(NamedTuple):
    """What instances run in an epoch, listed kernel by kernel.

    Attributes
    ----------
    instances, kernels : int64[m]
        Instances, and the kernel that each runs.
    fault_maps : uint8[m, 256]
        Fault map of each.
    scales : float64[m]
        Seconds that a cycle stands for.
    """

    instances: NDArray[np.int64]
    kernels: NDArray[np.int64]
    fault_maps: NDArray[np.uint8]
    scales: NDArray[np.float64]


class NumbaStress(FaultFreeStress):
    """Stress times of instances that may be redirected.

    Parameters
    ----------
    residencies : Residencies
        Those of the technique on every kernel.
    workspaces, pool : FreeList, Pool
        Memory.
    duties, tracked, instances
        As for `StressAccumulator`.
    """

    def __init__(
        self,
        residencies: Residencies,
        workspaces: FreeList[Workspace],
        pool: Pool,
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        instances: int,
    ) -> None:
        super().__init__(duties, tracked, instances)
        self._residencies, self._workspaces, self._pool = residencies, workspaces, pool

    @cached_property
    def _cells(self) -> Cells:
        return new_cells(len(self._has_separate_times))

    @cached_property
    def _groups(self) -> TrackedGroups:
        tracked, instances = self._tracked, len(self._has_separate_times)
        if each_by_itself(self._residencies.rules):  # then nothing asks for groups
            tracked, instances = TrackedCells(tracked.instance[:0], tracked.cell[:0]), 0
        return groups_of(tracked, instances, self._residencies.rules.in_blocks)

    @cached_property
    def _list(self) -> CellList:
        return cells_of(self._tracked, len(self._has_separate_times))

    @cached_property
    def _progress(self) -> Progress:
        instances, passes = len(self._has_separate_times), len(self._residencies.selector_starts)
        rows, groups = len(self._list.tracked), len(self._groups.block)
        progress: Progress = new_progress(
            rows, groups, instances, passes, self._residencies.at_most
        )
        return progress

    @cached_property
    def _residencies_of_kernel(self) -> NDArray[np.int64]:
        return np.diff(self._residencies.kernels.first_residency)

    @cached_property
    def _epoch_log(self) -> EpochLog:
        passes, instances = len(self._residencies.selector_starts), len(self._has_separate_times)
        occupants = passes * int(self._residencies_of_kernel.mean())
        occupant = self._pool.take(_EXPECTED * instances * occupants)
        return new_epoch_log(passes, instances, _EPOCHS, occupant)

    def __del__(self) -> None:
        if "_epoch_log" in self.__dict__:
            self._pool.give_back(self._epoch_log.occupant)

    def _begin(self, instances: NDArray[np.int64]) -> None:
        tracked = self._tracked_of(instances)
        instance, cell = self._tracked.instance[tracked], self._tracked.cell[tracked]
        duties = (self._duties.at_zero.duty, self._duties.at_one.duty)
        for seconds, bounds, duty in zip(
            self.tracked_seconds.now, self._cells.bounds, duties, strict=True
        ):
            seconds[tracked] = 0
            for kernel in np.flatnonzero(self._mixture[instances].any(axis=0)):
                spent = self._mixture[:, kernel]
                most = duty[kernel].reshape(ENTRIES, COMPONENTS, BITS).max(axis=1)
                bounds[instances] += spent[instances, None, None] * most
                seconds[tracked] += spent[instance] * duty[kernel, cell]

    def _run_each(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        seconds: float,
    ) -> None:
        occupants = int(self._residencies_of_kernel[kernel].sum())
        occupants *= len(self._residencies.selector_starts)
        epochs = int(self._epoch_log.epochs[instances].max()) + 1
        self._epoch_log = enlarged(self._epoch_log, epochs, occupants, self._pool)
        # Kernel after kernel: what all instances look at stays in the caches.
        order = np.argsort(kernel, kind="stable")
        scales = seconds / self._periods[kernel[order]]
        batch = Batch(instances[order], kernel[order], fault_maps[order], scales)
        tracking = Tracking(self._groups, self._list, self._progress, self.tracked_seconds.now)
        workspace = self._workspaces.take()
        _add_epoch(batch, self._search(workspace), tracking, workspace)
        self._workspaces.give_back(workspace)

    def _separate_longest_earlier(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        seconds: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """See `StressAccumulator`; the log has the occupants, and no map is needed."""
        workspace = self._workspaces.take()
        longest = np.empty((len(instances), 2))
        backs = seconds / self._periods[kernel]
        _look_earlier(self._search(workspace), instances, backs, longest)
        self._workspaces.give_back(workspace)
        return longest.T

    @cached_property
    def _periods(self) -> NDArray[np.int64]:
        return np.array([replay.period for replay in self._duties.replays])

    def _search(self, workspace: Workspace) -> Search:
        state = FaultFreeState(self._mixture, self._duties.at_zero.duty, self._duties.at_one.duty)
        return Search(
            self._residencies, self._epoch_log, state, self._cells, self.longest, workspace.cells
        )


@compiled
def _add_epoch(batch: Batch, search: Search, tracking: Tracking, workspace: Workspace) -> None:
    """Add an epoch to the instances of a batch, some instances of a kernel at a time."""
    # Of type int64, not the literal 0: what is called with it would be compiled for both.
    begin: int = np.int64(0)  # type: ignore[assignment]
    while begin < len(batch.instances):
        end = begin
        while (
            end < len(batch.instances)
            and batch.kernels[end] == batch.kernels[begin]
            and end < begin + SIDE_BY_SIDE
        ):
            end += 1
        if each_by_itself(search.residencies.rules):
            _add_together(batch, begin, end, search, tracking, workspace)
        else:
            _add_side_by_side(batch, begin, end, search, tracking, workspace)
        begin = end


@nested
def _add_together(
    batch: Batch, begin: int, end: int, search: Search, tracking: Tracking, workspace: Workspace
) -> None:
    """Add an epoch of a kernel to instances where each residency is the same wherever it lives."""
    residencies, epoch_log, kernel = search.residencies, search.epoch_log, batch.kernels[begin]
    homes_of_several = workspace.placement.homes_of_several
    cells, instances = workspace.cells, batch.instances[begin:end]
    sums, open_bits = cells.times.ones, cells.open_bits
    spilled = np.zeros(SIDE_BY_SIDE, np.bool_)
    forget(open_bits)
    for place in range(end - begin):
        homes = with_home(workspace.placement.homes, homes_of_several[place])
        _place(batch, begin + place, search, workspace, homes)
        leave_out_late(residencies, kernel, homes)
        spilled[place] = homes.tally.events[LDS] > 0
        bound_homes(residencies, kernel, homes, workspace.views.at_most)
        _guess(batch, begin + place, search, workspace)
        open_up(search, instances[place], place)
        start_together(instances[place], tracking)
    advance_together(residencies, kernel, instances, homes_of_several, tracking, open_bits, sums)
    for place in range(end - begin):
        instance, scale = instances[place], batch.scales[begin + place]
        occupants = occupants_in(epoch_log, instance, epoch_log.epochs[instance] - 1)
        if spilled[place]:
            advance_late(residencies, occupants, instance, place, tracking, open_bits, sums)
        finish_together(
            residencies, occupants, scale, instance, place, tracking, open_bits, cells.events
        )
        find_longest(search, instance, place)


@nested
def _add_side_by_side(
    batch: Batch, begin: int, end: int, search: Search, tracking: Tracking, workspace: Workspace
) -> None:
    """Add an epoch of a kernel to instances where it matters what was in an entry before."""
    residencies, epoch_log, kernel = search.residencies, search.epoch_log, batch.kernels[begin]
    groups, progress = tracking.groups, tracking.progress
    instances = batch.instances[begin:end]
    for place in range(begin, end):
        instance = batch.instances[place]
        _place(batch, place, search, workspace, workspace.placement.homes)
        bound_occupants(residencies, kernel, workspace.placement.homes.arrivals, workspace.views)
        _guess(batch, place, search, workspace)
        find_longest(search, instance, -1)
        occupants = occupants_in(epoch_log, instance, epoch_log.epochs[instance] - 1)
        start(instance, occupants, groups, progress)
    _advance_side_by_side(residencies, kernel, instances, epoch_log, groups, progress)
    for place in range(begin, end):
        instance = batch.instances[place]
        occupants = occupants_in(epoch_log, instance, epoch_log.epochs[instance] - 1)
        finish(
            residencies, occupants, batch.scales[place], instance, tracking, workspace.cells.events
        )


@nested
def _place(batch: Batch, place: int, search: Search, workspace: Workspace, homes: Homes) -> None:
    """Place the residencies of an instance, and write into the log who lived where."""
    residencies, epoch_log = search.residencies, search.epoch_log
    fill = workspace.placement.fill
    instance, kernel = batch.instances[place], batch.kernels[place]
    find_homes(residencies, kernel, batch.fault_maps[place], homes, workspace.placement.counters)
    epoch = epoch_log.epochs[instance]
    epoch_log.epochs[instance] = epoch + 1
    epoch_log.kernel[instance, epoch] = kernel
    epoch_log.scale[instance, epoch] = batch.scales[place]
    epoch_log.begin[instance, epoch] = epoch_log.used[0]
    epoch_log.used[0] += homes.arrivals.arrived.sum()
    sort_occupants(homes.arrivals, fill, occupants_in(epoch_log, instance, epoch))


@nested
def _guess(batch: Batch, place: int, search: Search, workspace: Workspace) -> None:
    """Raise the bounds of an instance, and look where the most stressed cell is likely to be."""
    instance = batch.instances[place]
    raise_bounds(search.cells, instance, workspace.views.at_most, batch.scales[place])
    guess_longest(search, instance)


@compiled
def _look_earlier(
    search: Search,
    instances: NDArray[np.int64],
    backs: NDArray[np.float64],
    earlier: NDArray[np.float64],
) -> None:
    """`longest_earlier` of instances: backs float64[m], earlier float64[m, 2]."""
    for place in range(len(instances)):
        longest_earlier(search, instances[place], backs[place], earlier[place])


@nested
def _advance_side_by_side(
    residencies: Any, kernel: int, instances: Any, epoch_log: Any, groups: Any, progress: Any
) -> None:
    """Take the cells of instances that run the same kernel through their latest epochs."""
    last = residencies.kernels.first_residency[kernel + 1]
    for residency in range(residencies.kernels.first_residency[kernel], last, _TOGETHER):
        until = min(residency + _TOGETHER, last)
        for instance in instances:
            occupants = occupants_in(epoch_log, instance, epoch_log.epochs[instance] - 1)
            advance(residencies, occupants, instance, until, groups, progress)
