"""Stress times without a sum for every cell: what happened is kept, and looked at when it matters.

Of an epoch the log keeps who lived where, and for each bit of each entry how long any cell can have
held '0' or '1' at most. The most stressed cell is looked for where these bounds leave it open;
tracked cells are summed up for themselves.
"""

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import FreeList
from mcage.engines.compiled_cells import CompiledSeconds
from mcage.engines.numba_engine.placement.residencies import (
    Residencies,
    each_by_itself,
    owners_of,
)
from mcage.engines.numba_engine.stress.epoch_log import (
    EpochLog,
    enlarged,
    new_epoch_log,
)
from mcage.engines.numba_engine.stress.kept_cells import (
    Cells,
    FaultFreeState,
)
from mcage.engines.numba_engine.stress.most_stressed import (
    ALONE,
    FINISH,
    OPEN_UP,
    Search,
    look,
)
from mcage.engines.numba_engine.stress.open_bits import SIDE_BY_SIDE, forget
from mcage.engines.numba_engine.stress.placing import Batch, place_and_bound
from mcage.engines.numba_engine.stress.together import run_together
from mcage.engines.numba_engine.stress.tracked_cells import run_side_by_side
from mcage.engines.numba_engine.stress.tracked_groups import (
    CellList,
    Progress,
    TrackedGroups,
    Tracking,
    cells_of,
    groups_of,
    new_progress,
)
from mcage.engines.numba_engine.stress.workspace import BatchMemory, Workspace
from mcage.engines.stress import FaultFreeDuties, StressAccumulator, by_kernel
from mcage.engines.tracked_cells import TrackedCells
from mcage.geometry import SliceGeometry

_EPOCHS, _EXPECTED = 8, 5
"""Epochs of an instance for which there is space at first, and for the occupants of how many."""


class FaultFreeStress(StressAccumulator):
    """Stress times of instances whose technique heeds no fault: always mixtures of duty cycles."""

    tracked_seconds: CompiledSeconds

    def _new_tracked_seconds(self) -> CompiledSeconds:
        return CompiledSeconds(self._tracked, len(self._has_separate_times))

    def _track_mixtures(
        self, instances: NDArray[np.int64], kernel: NDArray[np.int64], seconds: float
    ) -> None:
        self.tracked_seconds.add_duties(instances, kernel, self._duties, seconds)

    def _begin(self, instances: NDArray[np.int64]) -> None:
        raise NotImplementedError


class NumbaStress(FaultFreeStress):
    """Stress times of instances that may be redirected.

    Parameters
    ----------
    residencies : Residencies
        Those of the technique on every kernel.
    workspaces, memory : FreeList, BatchMemory
        Memory for threads, and for batches.
    duties, tracked, instances
        As for `StressAccumulator`.
    """

    def __init__(
        self,
        residencies: Residencies,
        workspaces: FreeList[Workspace],
        memory: BatchMemory,
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        instances: int,
    ) -> None:
        super().__init__(duties, tracked, instances)
        self._residencies, self.workspaces, self._memory = residencies, workspaces, memory

    @property
    def _geometry(self) -> SliceGeometry:
        return self._duties.replays[0].geometry

    @cached_property
    def _cells(self) -> Cells:
        cells = self._memory.cells.take(len(self._has_separate_times))
        cells.used[0] = 0
        return cells

    @cached_property
    def _groups(self) -> TrackedGroups:
        tracked, instances = self._tracked, len(self._has_separate_times)
        if each_by_itself(self._residencies.rules):  # then nothing asks for groups
            tracked, instances = TrackedCells(tracked.instance[:0], tracked.cell[:0]), 0
        return groups_of(tracked, self._geometry, instances, self._residencies.rules.in_blocks)

    @cached_property
    def _list(self) -> CellList:
        return cells_of(self._tracked, self._geometry, len(self._has_separate_times))

    @cached_property
    def _progress(self) -> Progress:
        instances, passes = len(self._has_separate_times), len(self._residencies.selector_starts)
        rows, groups = len(self._list.tracked), len(self._groups.block)
        progress: Progress = new_progress(
            rows, groups, self._geometry.entries, instances, passes, self._residencies.at_most
        )
        return progress

    @cached_property
    def _residencies_of_kernel(self) -> NDArray[np.int64]:
        return np.diff(self._residencies.kernels.first_residency)

    @cached_property
    def _epoch_log(self) -> EpochLog:
        passes, instances = len(self._residencies.selector_starts), len(self._has_separate_times)
        occupants = passes * int(self._residencies_of_kernel.mean())
        occupant = self._memory.occupants.take(_EXPECTED * instances * occupants)
        places = self._geometry.entries * passes
        return new_epoch_log(places, instances, _EPOCHS, occupant)

    def __del__(self) -> None:
        if "_epoch_log" in self.__dict__:
            self._memory.occupants.give_back(self._epoch_log.occupant)
        if "_cells" in self.__dict__:
            self._memory.cells.give_back(self._cells)

    def _begin(self, instances: NDArray[np.int64]) -> None:
        tracked = self._tracked_of(instances)
        instance, cell = self._tracked.instance[tracked], self._tracked.cell[tracked]
        duties = (self._duties.at_zero, self._duties.at_one)
        self._cells.bounds[:, instances] = 0
        self._cells.kept[instances] = -1
        for seconds, bounds, duty in zip(
            self.tracked_seconds.now, self._cells.bounds, duties, strict=True
        ):
            seconds[tracked] = 0
            for kernel in np.flatnonzero(self._mixture[instances].any(axis=0)).tolist():
                spent = self._mixture[:, kernel]
                bounds[instances] += spent[instances, None, None] * duty.most[kernel]
                seconds[tracked] += spent[instance] * duty.at(kernel, cell)

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
        self._epoch_log = enlarged(self._epoch_log, epochs, occupants, self._memory.occupants)
        # Kernel after kernel: what all instances look at stays in the caches.
        workspace = self.workspaces.take()
        for number, runs_it in by_kernel(kernel):
            of_kernel = np.flatnonzero(runs_it)
            for begin in range(0, len(of_kernel), SIDE_BY_SIDE):
                which = of_kernel[begin : begin + SIDE_BY_SIDE]
                scale = seconds / self._periods[number]
                batch = Batch(number, scale, instances[which], fault_maps[which])
                for step in self.steps(batch, workspace):
                    step()
        self.workspaces.give_back(workspace)

    def steps(self, batch: Batch, workspace: Workspace) -> list[Callable[[], None]]:
        """Return what adds an epoch to instances that run the same kernel, step by step.

        On no instances, each step compiles what it calls, whatever has been done before.
        """
        residencies, epoch_log, cells = self._residencies, self._epoch_log, workspace.cells
        placement, by_itself = workspace.placement, each_by_itself(self._residencies.rules)
        tracking = Tracking(self._groups, self._list, self._progress, self.tracked_seconds.now)
        ran = residencies, epoch_log, batch.kernel, batch.instances
        asked = self._search(workspace), batch.instances, np.zeros(len(batch.instances))
        to_place = residencies, owners_of(residencies), batch, epoch_log, self._cells, placement
        place = partial(place_and_bound, *to_place, workspace.views, by_itself)
        if not by_itself:
            run = partial(run_side_by_side, *ran, tracking, cells.events)
            return [place, partial(look, *asked, ALONE), run]
        homes = placement.homes_of_several, placement.spilled
        return [
            place,
            partial(forget, cells.open_bits),
            partial(look, *asked, OPEN_UP),
            partial(run_together, *ran, *homes, tracking, cells),
            partial(look, *asked, FINISH),
        ]

    def _separate_longest_earlier(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        seconds: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """See `StressAccumulator`; the log has the occupants, and no map is needed."""
        workspace = self.workspaces.take()
        search = self._search(workspace)._replace(longest=np.zeros_like(self.longest))
        look(search, instances, seconds / self._periods[kernel], ALONE)
        self.workspaces.give_back(workspace)
        return search.longest[:, instances]

    @cached_property
    def _periods(self) -> NDArray[np.int64]:
        return np.array([replay.period for replay in self._duties.replays])

    def _search(self, workspace: Workspace) -> Search:
        zeros, ones = self._duties.at_zero, self._duties.at_one
        state = FaultFreeState(
            self._mixture, zeros.period, zeros.cycles, ones.cycles, zeros.components
        )
        return Search(
            self._residencies, self._epoch_log, state, self._cells, self.longest, workspace.cells
        )
