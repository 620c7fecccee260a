"""Stress times without a sum for every cell: what happened is kept, and looked at when it matters.

Of an epoch the log keeps who lived where, and for each bit of each entry how long any cell can have
held '0' or '1' at most. The most stressed cell is looked for where these bounds leave it open;
tracked cells are summed up for themselves.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import FreeList, Pool
from mcage.engines.numba_engine.bounds import (
    ALONE,
    FINISH,
    IN_SHARED_PLACES,
    OPEN_UP,
    OPENED_TOGETHER,
    Batch,
    Cells,
    CellWorkspace,
    EpochLog,
    FaultFreeState,
    Search,
    SharedTimes,
    Views,
    begin_epoch,
    bound_homes,
    bound_occupants,
    enlarged,
    forget,
    keep_bounds,
    look,
    new_cells,
    new_epoch_log,
    new_open_bits,
    new_views,
    occupants_in,
    raise_bounds,
)
from mcage.engines.numba_engine.cell_times import new_events, new_times
from mcage.engines.numba_engine.homes import (
    COUNTERS,
    Homes,
    find_homes,
    leave_out_late,
    new_homes,
    sort_occupants,
)
from mcage.engines.numba_engine.jit import COMPONENTS, LANES, aligned_zeros, compiled, inner
from mcage.engines.numba_engine.residencies import BITS, Residencies, Slice, each_by_itself
from mcage.engines.numba_engine.tracked_cells import (
    CellList,
    EpochProgress,
    Together,
    TrackedGroups,
    Tracking,
    TurnsOfEpoch,
    cells_of,
    groups_of,
    new_progress,
    new_together,
    run_side_by_side,
    run_together,
)
from mcage.engines.stress import FaultFreeDuties, StressAccumulator, TrackedCells, Turns
from mcage.geometry import Booleans, Bytes, Floats, Integers, SliceGeometry
from mcage.replays.outcome import CellTimes, SharedPlaces, free_places, may_share
from mcage.replays.prepare import RedirectedReplay

# Placements that instances share: see `mcage.replays.outcome.SharedPlaces`.


class SharedPlacements:
    """Placements that instances share, each made when first asked for; for all threads.

    Parameters
    ----------
    residencies : Residencies
        Those of the technique on every kernel.
    replay : RedirectedReplay
        The technique on one of them.
    times_on : callable
        From a kernel and fault maps, uint8[n, entries], to the cell times on them.
    """

    def __init__(
        self,
        residencies: Residencies,
        replay: RedirectedReplay,
        times_on: Callable[[int, Bytes], CellTimes],
    ) -> None:
        self._residencies, self._times_on = residencies, times_on
        geometry = self._geometry = replay.geometry
        self._can = may_share(replay.technique, geometry)
        self.places = geometry.entries * geometry.blocks if self._can else 0
        kernels, cycles = len(residencies.kernels.cycles), residencies.at_most.dtype
        # Pages that are never touched take no memory.
        of_cells = (kernels, self.places, BITS, geometry.block_components)
        self.times = SharedTimes(
            np.zeros(of_cells, cycles),
            np.zeros(of_cells, cycles),
            np.zeros((kernels, 2, self.places, BITS), cycles),
            np.zeros(kernels, np.int64),
        )
        self._shared: dict[int, SharedPlaces] = {}
        self._lock = Lock()

    def are_shared(self, kernel: int, fault_maps: Bytes) -> Booleans:
        """Which instances take the shared places of a kernel: uint8[n, entries] to bool[n]."""
        if not self._can:
            return np.zeros(len(fault_maps), dtype=bool)
        with self._lock:
            if kernel not in self._shared:
                self._shared[kernel] = self._make(kernel)
        return self._shared[kernel].are_among(*free_places(fault_maps, self._geometry))

    def _make(self, kernel: int) -> SharedPlaces:
        """Replay a kernel on its own map, if it has one."""
        residencies, times = self._residencies, self.times
        begin, end = residencies.kernels.first_operation[kernel : kernel + 2].tolist()
        shared = SharedPlaces.of(residencies.operations.code[begin:end], self._geometry)
        if shared.fault_map is not None:
            replayed = self._times_on(kernel, shared.fault_map[None])
            ones, powered = map(shared.by_place, (replayed.ones, replayed.powered))
            times.ones[kernel], times.powered[kernel] = ones, powered
            times.most[kernel] = (powered - ones).max(axis=2), ones.max(axis=2)
            times.faulty[kernel] = shared.faulty
        return shared


@compiled
def run_shared(
    shared: SharedTimes,
    slice_: Slice,
    batch: Batch,
    epoch_log: EpochLog,
    cells: Cells,
    groups: Any,
    seconds: Floats,
    bounded: bool,
) -> None:
    """Take instances through a turn, in places that they share.

    Parameters
    ----------
    shared, slice_, batch : SharedTimes, Slice, Batch
        What happens.
    epoch_log : EpochLog
        Where it is written down.
    cells : Cells
        Bounds, which are raised if `bounded`.
    groups, seconds : TrackedGroups, float64[2, tracked]
        Tracked cells, and their seconds, which are raised.
    """
    kernel = batch.kernel
    for place in range(len(batch.instances)):
        instance, scale = batch.instances[place], batch.scale[place]
        epoch = begin_epoch(epoch_log, instance, kernel, scale, IN_SHARED_PLACES)
        alike = epoch_log.places[instance, epoch]
        _find_alike(shared.faulty[kernel], slice_, batch.fault_maps[place], alike)
        if bounded:
            if batch.turn[place] == 0:
                keep_bounds(cells, instance)
            _raise_bounds(shared.most[kernel], slice_, alike, cells, instance, scale)
        ones, powered = shared.ones[kernel], shared.powered[kernel]
        _add_tracked(ones, powered, slice_, alike, groups, instance, scale, seconds)


@inner
def _find_alike(faulty: int, slice_: Any, fault_map: Any, alike: Any) -> None:
    """Tell which place of a kernel's own map, with so many faulty entries, each place is like.

    Fills int16[places] in; -1: the place stays empty.
    """
    entries, blocks, all_blocks = slice_.entries, slice_.blocks, slice_.all_blocks
    reliable, sound = np.int64(faulty), np.int64(0)
    for entry in range(entries):
        usable = ~np.int64(fault_map[entry]) & all_blocks
        for block in range(blocks):
            like = np.int64(-1)
            if usable == all_blocks:
                if reliable < entries:
                    like = reliable * blocks + block
            elif usable >> block & 1:
                if sound < faulty * (blocks - 1):
                    like = sound // (blocks - 1) * blocks + sound % (blocks - 1)
                sound += 1
            alike[entry * blocks + block] = like
        reliable += usable == all_blocks


@inner
def _raise_bounds(
    most: Any, slice_: Any, alike: Any, cells: Any, instance: int, scale: float
) -> None:
    """Raise bounds by what a turn adds to the cell that gains most."""
    bounds, blocks = cells.bounds, slice_.blocks
    for entry in range(slice_.entries):
        for which in range(2):
            for bit in range(BITS):
                cycles = np.int64(0)
                for block in range(blocks):
                    like = alike[entry * blocks + block]
                    if like >= 0:
                        cycles = max(cycles, np.int64(most[which, like, bit]))
                bounds[which, instance, entry, bit] += cycles * scale


@inner
def _add_tracked(
    ones: Any,
    powered: Any,
    slice_: Any,
    alike: Any,
    groups: Any,
    instance: int,
    scale: float,
    seconds: Any,
) -> None:
    """Add a turn to the seconds of the tracked cells of an instance."""
    blocks, of_block = slice_.blocks, ones.shape[2]
    for entry in range(slice_.entries):
        of_entry = instance * slice_.entries + entry
        for group in range(groups.first[of_entry], groups.first[of_entry + 1]):
            for cell in range(LANES):
                tracked, bit = groups.tracked[group, cell], groups.column[group, cell]
                block, within = divmod(np.int64(groups.component[group, cell]), of_block)
                like = alike[entry * blocks + block]
                if tracked >= 0 and like >= 0:
                    at_one = np.int64(ones[like, bit, within])
                    zeros = np.int64(powered[like, bit, within]) - at_one
                    seconds[0, tracked] += zeros * scale
                    seconds[1, tracked] += at_one * scale


# Memory in which the instances of a thread, and of a batch, are worked on.


class PlacementWorkspace(NamedTuple):
    """Memory in which residencies are placed.

    Attributes
    ----------
    homes : Homes
        Homes of an instance.
    fill : int64[entries * passes]
        Where the next occupant of each entry goes.
    counters : int64[48, 10]
        Counters of instances that run the same kernel, which nobody asks for.
    """

    homes: Homes
    fill: Integers
    counters: Integers


class Workspace(NamedTuple):
    """Memory in which the instances of a thread are worked on.

    Attributes
    ----------
    placement : PlacementWorkspace
        For placing residencies.
    views : Views
        For bounding cells.
    together : Together
        For instances that run the same kernel.
    cells : CellWorkspace
        For working cells out.
    """

    placement: PlacementWorkspace
    views: Views
    together: Together
    cells: CellWorkspace


class BatchMemory(NamedTuple):
    """Memory that a batch has until its last epoch, and leaves to the next.

    Attributes
    ----------
    occupants : Pool of uint32[...]
        For the occupants of an epoch log.
    cells : Pool of Cells
        For the cells of so many instances.
    """

    occupants: Pool[NDArray[np.uint32]]
    cells: Pool[Cells]


def new_batch_memory(entries: int) -> BatchMemory:
    """Make memory for batches of slices of so many entries; there is none at first."""
    return BatchMemory(
        Pool(lambda occupants: np.empty(occupants, np.uint32), len),
        Pool(partial(new_cells, entries), lambda cells: len(cells.kept)),
    )


def new_workspace(residencies: Residencies) -> Any:
    """Make memory that is enough for any kernel, and for epochs of a single turn."""
    passes, kernels = len(residencies.selector_starts), residencies.kernels
    write_starts, cycles = residencies.write_starts, residencies.at_most
    entries = residencies.slice_.entries
    most_residencies, most_writes = 0, 0
    for kernel in range(len(kernels.cycles)):
        first, last = kernels.first_residency[kernel], kernels.first_residency[kernel + 1]
        most_residencies = max(most_residencies, last - first)
        most_writes = max(most_writes, write_starts[last] - write_starts[first])
    return Workspace(
        PlacementWorkspace(
            new_homes(residencies.slice_, passes, most_residencies),
            np.empty(entries * passes, np.int64),
            np.zeros((OPENED_TOGETHER, COUNTERS), np.int64),
        ),
        new_views(entries, passes, cycles),
        new_together(entries, passes, most_residencies, cycles),
        CellWorkspace(
            new_events(passes * most_writes, passes, cycles),
            new_times(cycles),
            new_times(cycles, 1),
            new_open_bits(entries, 1, cycles),
            np.empty(2),
            np.empty((BITS, 2, COMPONENTS)),
        ),
    )


# The first step of an epoch, and all that counting takes: where everything lives.
#
# Counting asks for homes alone. It calls the same function, with no instances to log and bound: the
# selectors of redirection are compiled once.


def count(
    residencies: Residencies, kernel: int, fault_maps: Bytes, homes: Homes, counters: Integers
) -> None:
    """Count the events of every instance on a kernel: uint8[n, entries], int64[n, 10].

    `homes` are those of the last instance then.
    """
    entries, passes = residencies.slice_.entries, len(residencies.selector_starts)
    nobody, narrow = np.zeros(0, np.int64), _without_durations(residencies)
    place_and_bound(
        narrow,
        Batch(kernel, np.zeros(0), nobody, fault_maps, nobody, nobody, False),
        new_epoch_log(entries * passes, 0, 0, 0, np.empty(0, np.uint32)),
        new_cells(entries, 0),
        PlacementWorkspace(homes, nobody, counters),
        new_views(entries, passes, narrow.at_most),
        aligned_zeros((0, 0, entries, COMPONENTS), narrow.at_most.dtype),
        False,
        False,
    )


def _without_durations(residencies: Residencies) -> Residencies:
    """Residencies of long traces as those of short ones, for which the selectors are compiled.

    Where registers live depends on no duration, of which traces beyond 32 bits have wider ones.
    """
    writes, at_most = residencies.writes, residencies.at_most
    if at_most.dtype == np.uint32:
        return residencies
    return residencies._replace(
        writes=writes._replace(duration=_none_of(writes.duration)), at_most=_none_of(at_most)
    )


def _none_of(array: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    """An empty array of 32-bit numbers that is written to where the array is."""
    empty = array[:0].astype(np.uint32)
    empty.flags.writeable = array.flags.writeable
    return empty


@compiled
def place_and_bound(
    residencies: Residencies,
    batch: Batch,
    epoch_log: EpochLog,
    cells: Cells,
    placement: PlacementWorkspace,
    views: Views,
    at_most: NDArray[np.unsignedinteger],
    by_itself: bool,
    bounded: bool,
) -> None:
    """Place the residencies of instances that run the same kernel, and bound their cells.

    Writes into the log who lived where. `by_itself`: whether each residency is the same wherever it
    lives; then bounds of each instance are kept: see `OpenBits`. `bounded`: whether bounds are
    asked for.
    """
    kernel, homes = batch.kernel, placement.homes
    for place in range(len(batch.fault_maps)):
        counters = placement.counters[place]
        find_homes(residencies, kernel, batch.fault_maps[place], homes, counters)
        if place >= len(batch.instances):
            continue
        instance = batch.instances[place]
        scale = batch.scale[place]
        _log(kernel, scale, instance, homes.arrivals, epoch_log, placement.fill)
        if not bounded:
            continue
        if by_itself:
            leave_out_late(residencies, kernel, homes)
            of_turn = at_most[batch.turn[place], batch.number[place]]
            bound_homes(residencies, kernel, homes, of_turn)
        else:
            of_turn = views.at_most
            bound_occupants(residencies, kernel, homes.arrivals, views)
        if batch.turn[place] == 0:
            keep_bounds(cells, instance)
        raise_bounds(cells, instance, of_turn, scale)


@inner
def _log(
    kernel: int, scale: float, instance: int, arrivals: Any, epoch_log: EpochLog, fill: Any
) -> None:
    """Begin the next epoch of an instance, and write down who lives where."""
    epoch = begin_epoch(epoch_log, instance, kernel, scale, epoch_log.used[0])
    for pass_ in range(len(arrivals.arrived)):
        epoch_log.used[0] += arrivals.arrived[pass_]
    sort_occupants(arrivals, fill, occupants_in(epoch_log, instance, epoch))


_EPOCHS, _EXPECTED = 8, 5
"""Epochs of an instance for which there is space at first, and for the occupants of how many."""


def _kernel_after_kernel(kernel: Integers) -> Iterator[tuple[int, Integers, Integers]]:
    """Kernels, int64[n, turns], and the instances and turns that run them: int64[m] each.

    What all instances look at stays in the caches. No instance is twice among those of a kernel: a
    further turn of the same kernel comes after that.
    """
    for number in np.unique(kernel).tolist():
        runs = kernel == number
        copy = runs.cumsum(axis=1)
        for copies in range(1, int(copy.max()) + 1):
            yield number, *np.nonzero(runs & (copy == copies))


class FaultFreeStress(StressAccumulator):
    """Stress times of instances whose technique heeds no fault: always mixtures of duty cycles."""

    def _begin(self, instances: Integers) -> None:
        raise NotImplementedError


class NumbaStress(FaultFreeStress):
    """Stress times of instances that may be redirected.

    Parameters
    ----------
    residencies, shared : Residencies, SharedPlacements
        Those of the technique on every kernel.
    workspaces, memory : FreeList, BatchMemory
        Memory for threads, and for batches.
    duties, tracked, instances
        As for `StressAccumulator`.
    """

    def __init__(
        self,
        residencies: Residencies,
        shared: SharedPlacements,
        workspaces: FreeList[Workspace],
        memory: BatchMemory,
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        instances: int,
    ) -> None:
        super().__init__(duties, tracked, instances)
        self._residencies, self._shared = residencies, shared
        self.workspaces, self._memory = workspaces, memory
        self._turns = 1

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
    def _progress(self) -> EpochProgress:
        instances, passes = len(self._has_separate_times), len(self._residencies.selector_starts)
        rows, groups = len(self._list.tracked), len(self._groups.block)
        progress: EpochProgress = new_progress(
            rows, groups, self._geometry.entries, instances, passes, self._residencies.at_most
        )
        return progress

    @cached_property
    def _residencies_of_kernel(self) -> Integers:
        return np.diff(self._residencies.kernels.first_residency)

    @cached_property
    def _epoch_log(self) -> EpochLog:
        passes, instances = len(self._residencies.selector_starts), len(self._has_separate_times)
        occupants = passes * int(self._residencies_of_kernel.mean())
        expected = self._turns * _EXPECTED * instances * occupants
        occupant = self._memory.occupants.take(expected)
        lists, places = self._geometry.entries * passes, self._shared.places
        return new_epoch_log(lists, places, instances, self._turns * _EPOCHS, occupant)

    def __del__(self) -> None:
        if "_epoch_log" in self.__dict__:
            self._memory.occupants.give_back(self._epoch_log.occupant)
        if "_cells" in self.__dict__:
            self._memory.cells.give_back(self._cells)

    def _begin(self, instances: Integers) -> None:
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
        self, instances: Integers, turns: Turns, fault_maps: Bytes, seconds: float
    ) -> None:
        self._turns = max(self._turns, len(turns))
        for part in np.array_split(
            np.arange(len(instances)), -(-len(instances) // OPENED_TOGETHER)
        ):
            self._run_part(instances[part], turns.of(part), fault_maps[part], seconds)

    def _run_part(
        self, instances: Integers, turns: Turns, fault_maps: Bytes, seconds: float
    ) -> None:
        """As `_run_each`, of instances whose bits may be open at the same time."""
        passes = len(self._residencies.selector_starts)
        occupants = passes * int(self._residencies_of_kernel[turns.kernel].sum())
        epochs = int(self._epoch_log.epochs[instances].max()) + len(turns)
        self._epoch_log = enlarged(self._epoch_log, epochs, occupants, self._memory.occupants)
        workspace, done = self._workspace(len(turns)), np.zeros(len(instances), np.int64)
        batches = []
        for kernel, which, turn in _kernel_after_kernel(turns.kernel):
            scale = seconds * turns.weight[which, turn] / self._periods[kernel]
            shares = self._shared.are_shared(kernel, fault_maps[which])
            for is_shared in (True, False):
                part = np.flatnonzero(shares == is_shared)
                if len(part):
                    places = which[part]
                    ran = scale[part], instances[places], fault_maps[places], done[places], places
                    batches.append(Batch(kernel, *ran, is_shared))
            done[which] += 1
        for step in self.steps(batches, instances, len(turns), workspace):
            step()
        self.workspaces.give_back(workspace)

    def _workspace(self, turns: int) -> Workspace:
        """Take memory for epochs of so many turns."""
        workspace = self.workspaces.take()
        cells = workspace.cells
        if len(cells.latest.ones) >= turns:
            return workspace
        cycles, entries = self._residencies.at_most, self._geometry.entries
        latest, open_bits = new_times(cycles, turns), new_open_bits(entries, turns, cycles)
        return workspace._replace(cells=cells._replace(latest=latest, open_bits=open_bits))

    def steps(
        self,
        batches: Sequence[Batch],
        instances: Integers,
        turns: int,
        workspace: Workspace,
    ) -> list[Callable[[], None]]:
        """Return what adds an epoch to instances, step by step.

        On no instances, each step compiles what it calls, whatever has been done before.

        Parameters
        ----------
        batches : sequence of Batch
            Turn after turn of instances that run the same kernel.
        instances, turns : int64[n], int
            All instances, and how many turns each has.
        workspace : Workspace
            Memory to work in.
        """
        residencies, epoch_log, cells = self._residencies, self._epoch_log, workspace.cells
        by_itself = each_by_itself(residencies.rules)
        tracking = Tracking(self._groups, self._list, self._progress, self.tracked_seconds.now)
        asked = self._search(workspace), instances, np.zeros((len(instances), turns))
        first = epoch_log.epochs[instances]
        place, run = [], []
        for batch in batches:
            if batch.in_shared_places:
                known = self._shared.times, residencies.slice_, batch, epoch_log, self._cells
                raised = self._groups, self.tracked_seconds.now, self.knows_longest
                place.append(partial(run_shared, *known, *raised))
                continue
            to_place = residencies, batch, epoch_log, self._cells, workspace.placement
            to_bound = workspace.views, cells.open_bits.at_most, by_itself, self.knows_longest
            place.append(partial(place_and_bound, *to_place, *to_bound))
            ran, epoch = (residencies, epoch_log, batch.kernel), first[batch.number] + batch.turn
            ran_turns = TurnsOfEpoch(batch.instances, epoch, batch.turn, batch.number)
            if by_itself:
                to_run = *ran, ran_turns, workspace.together, tracking, asked[0], turns
                run.append(partial(run_together, *to_run))
            else:
                of_each = batch.instances, tracking, cells.events
                place.append(partial(run_side_by_side, *ran, *of_each))
        if not self.knows_longest:
            return [*place, partial(forget, cells.open_bits), *run]
        if not by_itself:
            return [*place, partial(look, *asked, ALONE)]
        return [
            *place,
            partial(forget, cells.open_bits),
            partial(look, *asked, OPEN_UP),
            *run,
            partial(look, *asked, FINISH),
        ]

    def _separate_longest_earlier(
        self, instances: Integers, turns: Turns, fault_maps: Bytes, seconds: Floats
    ) -> Floats:
        """See `StressAccumulator`; the log has the occupants, and no map is needed."""
        workspace = self._workspace(len(turns))
        search = self._search(workspace)._replace(longest=np.zeros_like(self.longest))
        order = np.argsort(turns.kernel, axis=1, kind="stable")  # the order in which they were run
        kernel, weight = (
            np.take_along_axis(of, order, axis=1) for of in (turns.kernel, turns.weight)
        )
        backs = seconds[:, None] * weight / self._periods[kernel]
        look(search, instances, backs, ALONE)
        self.workspaces.give_back(workspace)
        return search.longest[:, instances]

    @cached_property
    def _periods(self) -> Integers:
        return np.array([replay.period for replay in self._duties.replays])

    def _search(self, workspace: Workspace) -> Search:
        zeros, ones = self._duties.at_zero, self._duties.at_one
        state = FaultFreeState(
            self._mixture, zeros.period, zeros.cycles, ones.cycles, zeros.components
        )
        return Search(
            self._residencies,
            self._epoch_log,
            state,
            self._cells,
            self.longest,
            self._shared.times,
            workspace.cells,
        )
