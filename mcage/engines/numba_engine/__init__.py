"""The engine that users get on a CPU: compiled by Numba, cached on disk, releases the GIL.

`residencies` lays out what no fault map changes, `homes` finds a home for every residency as RRCD
does or GR-Guard, and sorts them by entry. `cell_times` works out what cells go through, a bit of 64
components at a time. A sweep asks for less than all cells: `bounds` finds the most stressed
cell by branch and bound, `tracked_cells` sums up some cells, and `stress` does both for a batch.
results/performance.md says what each costs.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from typing_extensions import override

from mcage.concurrency import FreeList, Memo
from mcage.engines.interface import WITH_PROGRAMS, RememberingEngine
from mcage.engines.numba_engine.cell_times import (
    ALL_BITS,
    Events,
    Times,
    clear,
    fixed_layout_times,
    gathered_times,
    hand_over,
    new_events,
    new_times,
)
from mcage.engines.numba_engine.homes import (
    COUNTERS,
    Homes,
    Occupants,
    homes_on,
    new_occupants,
    sort_occupants,
)
from mcage.engines.numba_engine.jit import compiled
from mcage.engines.numba_engine.programs import NumbaProgramRunner
from mcage.engines.numba_engine.residencies import BITS, Residencies, ResidencyTables
from mcage.engines.numba_engine.stress import (
    BatchMemory,
    FaultFreeStress,
    NumbaStress,
    SharedPlacements,
    Workspace,
    count,
    new_batch_memory,
    new_workspace,
)
from mcage.engines.stress import FaultFreeDuties, StressAccumulator, TrackedCells, by_kernel
from mcage.geometry import Bytes, Integers, SliceGeometry
from mcage.replays.outcome import CellTimes
from mcage.replays.prepare import FixedReplay, PreparedReplay, ProgrammedReplay, RedirectedReplay


class NumbaEngine(RememberingEngine):
    """Numba engine. Its functions release the GIL, so threads may run batches side by side."""

    name = "numba"
    policies = WITH_PROGRAMS
    batch = 48

    def __init__(self) -> None:
        super().__init__()
        self._memory: dict[int, BatchMemory] = {}
        self._tables = ResidencyTables()
        self._workspaces: Memo[FaultFreeDuties, FreeList[Workspace]] = Memo(self._free_workspaces)
        self._shared: Memo[FaultFreeDuties, SharedPlacements] = Memo(self._shared_placements)

    @override
    def _count(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Integers:
        residencies = self._tables.of(replays)
        counters = np.zeros((len(kernel), COUNTERS), dtype=np.int64)
        for number, runs_it in by_kernel(kernel):
            of_kernel = np.zeros((np.count_nonzero(runs_it), COUNTERS), dtype=np.int64)
            homes = homes_on(residencies, number)
            count(residencies, number, fault_maps[runs_it], homes, of_kernel)
            counters[runs_it] = of_kernel
        return counters

    @override
    def fixed_times(self, replay: FixedReplay) -> CellTimes:
        ones, powered = (_no_cycles(1, replay.geometry) for _ in range(2))
        fixed_layout_times(replay, ones[0], powered[0])
        return _cell_times(ones, powered, replay.period)

    @override
    def redirected_times(self, replay: RedirectedReplay, fault_maps: Bytes) -> CellTimes:
        return self._times_on_kernel((replay,), 0, fault_maps)

    def cell_times_each(
        self, replays: Sequence[PreparedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Iterator[CellTimes]:
        """See `Engine.cell_times_each`: one table for all kernels."""
        redirected = [replay for replay in replays if isinstance(replay, RedirectedReplay)]
        if not redirected:
            yield from super().cell_times_each(replays, kernel, fault_maps)
            return
        self.check(redirected[0].technique)
        for number, fault_map in zip(kernel.tolist(), fault_maps, strict=True):
            yield self._times_on_kernel(redirected, number, fault_map[None])

    def _times_on_kernel(
        self, replays: Sequence[RedirectedReplay], kernel: int, fault_maps: Bytes
    ) -> CellTimes:
        geometry = replays[kernel].geometry
        ones, powered = (_no_cycles(len(fault_maps), geometry) for _ in range(2))
        residencies = self._tables.of(replays)
        workspace = _EntryWorkspace.of(residencies, kernel)
        for instance in range(len(fault_maps)):
            only = fault_maps[instance : instance + 1]
            count(residencies, kernel, only, workspace.homes, workspace.counters)
            _redirected_times(residencies, workspace, ones[instance], powered[instance])
        return _cell_times(ones, powered, replays[kernel].period)

    @override
    def program_runner(self, replay: ProgrammedReplay) -> NumbaProgramRunner:
        return NumbaProgramRunner(replay)

    def compile_cell_times(self, replay: RedirectedReplay) -> None:
        """Compile what works out cell times, but not what places, which takes longer."""
        residencies = self._tables.of((replay,))
        workspace = _EntryWorkspace.of(residencies, 0)
        workspace.homes.arrivals.arrived[:] = 0
        ones, powered = (_no_cycles(1, replay.geometry) for _ in range(2))
        _redirected_times(residencies, workspace, ones[0], powered[0])

    @override
    def unpacked_stress(
        self, duties: FaultFreeDuties, tracked: TrackedCells, instances: int
    ) -> StressAccumulator:
        if not isinstance(duties.replays[0], RedirectedReplay):
            return FaultFreeStress(duties, tracked, instances)
        residencies, workspaces = self._tables.of(duties.replays), self._workspaces.of(duties)
        entries = residencies.slice_.entries
        memory = self._memory.setdefault(entries, new_batch_memory(entries))
        shared = self._shared.of(duties)
        return NumbaStress(residencies, shared, workspaces, memory, duties, tracked, instances)

    def _shared_placements(self, duties: FaultFreeDuties) -> SharedPlacements:
        replays = [replay for replay in duties.replays if isinstance(replay, RedirectedReplay)]
        times_on = partial(self._times_on_kernel, replays)
        return SharedPlacements(self._tables.of(replays), replays[0], times_on)

    def _free_workspaces(self, duties: FaultFreeDuties) -> FreeList[Workspace]:
        return FreeList(partial(new_workspace, self._tables.of(duties.replays)))


def _no_cycles(instances: int, geometry: SliceGeometry) -> Integers:
    """Zeros for all cells of slices: int64[instances, entries, components, 32]."""
    return np.zeros((instances, geometry.entries, geometry.components, BITS), dtype=np.int64)


def _cell_times(ones: Integers, powered: Integers, period: int) -> CellTimes:
    shape = (*ones.shape[:2], -1)
    return CellTimes(ones.reshape(shape), powered.reshape(shape), period)


class _EntryWorkspace(NamedTuple):
    """Memory in which all entries of an instance are worked out on one kernel."""

    homes: Homes
    occupants: Occupants
    fill: Integers
    counters: Integers
    events: Events
    times: Times

    @classmethod
    def of(cls, residencies: Residencies, kernel: int) -> Self:
        """Make memory for the residencies of a kernel."""
        passes, cycles = len(residencies.selector_starts), residencies.at_most
        first, end = residencies.kernels.first_residency[kernel : kernel + 2].tolist()
        writes = int(residencies.write_starts[end] - residencies.write_starts[first])
        return cls(
            homes_on(residencies, kernel),
            new_occupants(kernel, residencies.slice_.entries, passes, end - first),
            np.empty(residencies.slice_.entries * passes, np.int64),
            np.zeros((1, COUNTERS), np.int64),
            new_events(passes * writes, passes, cycles),
            new_times(cycles),
        )


@compiled
def _redirected_times(
    residencies: Residencies, workspace: _EntryWorkspace, ones: Integers, powered: Integers
) -> None:
    """Add the cell times of an instance whose residencies have homes.

    To int64[entries, components, 32] each.
    """
    occupants, events, times = workspace.occupants, workspace.events, workspace.times
    passes = len(residencies.selector_starts)
    sort_occupants(workspace.homes.arrivals, workspace.fill, occupants)
    for entry in range(len(ones)):
        if occupants.first[entry * passes] == occupants.first[(entry + 1) * passes]:
            continue
        clear(times, ALL_BITS)
        gathered_times(residencies, occupants, entry, ALL_BITS, events, times)
        hand_over(times, 1, ones[entry], powered[entry])
