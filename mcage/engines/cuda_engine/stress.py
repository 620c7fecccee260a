"""Stress times on a device, without a sum for every cell.

Of an epoch the log of a device keeps which residencies lived in each entry, and bounds say for how
long any cell can have held '0' or '1'. Cells are summed up where the bounds leave open which of
them is the most stressed; tracked cells are summed up for themselves.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from mcage.engines.cuda_engine.placement import Occupants
from mcage.engines.cuda_engine.programs import Runner, fault_free_program
from mcage.engines.cuda_engine.stress_tables import DutiesOnDevice, StressTables, TablesOfDuties
from mcage.engines.cuda_engine.tracked_seconds import CudaTrackedSeconds
from mcage.engines.cuda_engine.walk import Walk
from mcage.engines.stress import FaultFreeDuties, StressAccumulator, TrackedCells
from mcage.geometry import COMPONENT_BITS, Bytes, Floats, Integers
from mcage.replays.prepare import RedirectedReplay

# What instances have been through, on a device: occupants of entries, and bounds of cells.

_EPOCHS = 8
"""Epochs of an instance for which there is space at first."""

_EPOCH_WORDS = 5
"""Words of 64 bits of `Epoch` in `kernels/stress.cuh`."""

_THREADS, _PARTS = 256, 4
"""Threads of a block; blocks that share the entries of a slice."""


class EpochLog:
    """Epochs of the lives of instances that have separate times.

    Parameters
    ----------
    runner : Runner
        The device.
    tables : StressTables
        The technique there.
    instances : int
        Size of the batch.
    """

    def __init__(self, runner: Runner, tables: StressTables, instances: int) -> None:
        device, self._entries = runner.device, int(tables.duties.most.shape[2])
        self._runner, self._device, self._tables = runner, device, tables
        self._places = self._entries * COMPONENT_BITS
        self._epochs = np.zeros(instances, dtype=np.int64)
        self._scale = np.zeros(instances)
        self._most = _EPOCHS
        self._table = device.empty((instances, _EPOCHS, _EPOCH_WORDS), np.uint64)
        self._kept: list[Any] = []
        self.bounds = device.empty((instances, 2, self._places), np.float64)
        """Seconds at '0' and at '1' that no cell of an entry exceeds in any bit, on the device."""
        self._arrays = (
            device.zeros((instances,), np.int32),
            device.empty((instances, len(tables.cycles)), np.float64),
            tables.duties.duties,
            tables.duties.most,
            self.bounds,
            device.empty((instances, 2, self._places), np.float64),
        )
        self.state = self._upload_state()
        """`State` of `kernels/stress.cuh` on the device."""

    def _upload_state(self) -> Any:
        addresses = [self._device.address(array) for array in (self._table, *self._arrays)]
        row = [*addresses, self._most, len(self._tables.cycles)]
        return self._device.upload(np.array(row, dtype=np.uint64))

    def begin(self, instances: Integers, mixtures: Floats) -> None:
        """Let instances begin with the seconds that they have run each kernel: float64[m, k]."""
        mixed, among = self._device.upload_together(mixtures, instances.astype(np.int32))
        blocks = len(instances), 2 * self._places // _THREADS
        program = self._tables.epoch_log
        self._runner.launch(program, "begin", blocks, _THREADS, self.state, mixed, among)

    def epoch_bytes(self, kernel: Integers) -> int:
        """Bytes that an epoch of an instance takes at most, whichever of the kernels it runs."""
        codes = int(self._tables.residencies.count_of_kernel[kernel].max())
        return 4 * self._tables.passes * (codes + self._entries) + 8 * self._entries

    def add(
        self, instances: Integers, kernels: Integers, scales: Floats, occupants: Occupants
    ) -> None:
        """Add an epoch of each of m instances.

        Parameters
        ----------
        instances : int64[m]
            Positions in the batch.
        kernels : int64[k]
            Kernels that they run, in the order in which `Occupants.runs` counts them.
        scales : float64[m]
            Seconds that a cycle of all passes stands for.
        occupants : Occupants
            Those of their slices.
        """
        device, tables = self._device, self._tables
        self._epochs[instances] += 1
        self._scale[instances] = scales
        if self._epochs[instances].max() > self._most:
            self._enlarge()
        codes = device.empty((occupants.occupants.size // 4,), np.uint32)
        starts = device.empty((len(instances), tables.passes * self._entries + 1), np.int32)
        powered = device.empty((len(instances), self._entries), np.int64)
        self._kept.append((codes, starts, powered))
        uploaded = device.upload_together(
            tables.residencies.first_write[kernels].astype(np.int32),
            tables.cycles[kernels],
            instances.astype(np.int32),
            scales,
        )
        first_write, cycles, among, scales_there = uploaded
        self._runner.launch(
            tables.epoch_log,
            "log_epoch",
            (len(instances), _PARTS),
            _THREADS,
            tables.residencies.table,
            self.state,
            occupants.runs,
            first_write,
            cycles,
            occupants.starts,
            occupants.occupants,
            among,
            scales_there,
            codes,
            starts,
            powered,
        )

    def parts(self, instances: Integers, backs: Floats) -> Floats:
        """Parts of latest epochs that have passed when seconds are taken back for each cycle."""
        parts: Floats = 1 - backs / self._scale[instances]
        return parts

    def _enlarge(self) -> None:
        """Make space for twice as many epochs of each instance."""
        table = np.zeros((len(self._epochs), 2 * self._most, _EPOCH_WORDS), dtype=np.uint64)
        table[:, : self._most] = self._device.download(self._table)
        self._most *= 2
        self._table = self._device.upload(table)
        self.state = self._upload_state()


_WARPS = 8
_MIXTURES = 4
"""Mixtures of a block that looks for the longest times of some."""
_GUESSES = 4
_WARPS_OF_SLICE, _MOST_BLOCKS = 64, 2112
"""Warps that work out cells: so many for each slice, in so many blocks at most."""


class CudaStress(StressAccumulator):
    """Stress times of instances that may be redirected, on a device.

    Parameters
    ----------
    walk : Walk
        The device, and its selectors.
    duties_there, tables : Memo
        What all batches share there: fault-free duty cycles, and tables of techniques.
    duties, tracked, instances
        As for `StressAccumulator`.
    """

    def __init__(
        self,
        walk: Walk,
        duties_there: DutiesOnDevice,
        tables: TablesOfDuties,
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        instances: int,
    ) -> None:
        self._runner, self._placement = walk.runner, walk.placement
        self._duties_there, self._tables_there = duties_there, tables
        self._tracked_there = CudaTrackedSeconds(
            walk.runner, duties.replays[0].geometry, tracked, instances
        )
        self._places = duties.replays[0].geometry.entries * COMPONENT_BITS
        self._upcoming: list[tuple[Integers, Any]] = []
        super().__init__(duties, tracked, instances)

    # Memory is taken with the first instance that has separate times: often no instance has.

    @cached_property
    def _tables(self) -> StressTables:
        return self._tables_there.of(self._duties)

    @cached_property
    def _log(self) -> EpochLog:
        return EpochLog(self._runner, self._tables, len(self._has_separate_times))

    def _new_tracked_seconds(self) -> CudaTrackedSeconds:
        return self._tracked_there

    def add(self, instances: Integers, kernel: Integers, fault_maps: Bytes, seconds: float) -> None:
        """See `StressAccumulator.add`; the device is waited for once, at the end."""
        super().add(instances, kernel, fault_maps, seconds)
        for whose, longest in self._upcoming:
            self.longest[:, whose] = self._runner.device.download(longest).view(np.float64)
        self._upcoming.clear()

    def _begin(self, instances: Integers) -> None:
        """See `StressAccumulator`; `_run_each`, which always follows, adds tracked seconds."""
        self._log.begin(instances, self._mixture[instances])

    def _run_each(
        self, instances: Integers, kernel: Integers, fault_maps: Bytes, seconds: float
    ) -> None:
        replays = self._redirected
        scales = seconds / np.array([replay.period for replay in replays])[kernel]
        more_bytes = self._log.epoch_bytes(kernel)
        placed = self._placement.occupants(replays, kernel, fault_maps, more_bytes)
        for chunk, occupants in placed:
            kernels = np.unique(kernel[chunk])
            self._log.add(instances[chunk], kernels, scales[chunk], occupants)
        nothing, known = np.zeros(len(instances)), self.longest[:, instances]
        self._upcoming += self._searches(instances, nothing, known)
        self._track(instances)

    def _separate_longest_earlier(
        self, instances: Integers, kernel: Integers, fault_maps: Bytes, seconds: Floats
    ) -> Floats:
        """See `StressAccumulator`; the log has the occupants, and no map is needed."""
        periods = np.array([replay.period for replay in self._duties.replays])
        longest = np.zeros((2, len(instances)))
        backs, place = seconds / periods[kernel], np.zeros(len(self._has_separate_times), np.int64)
        place[instances] = np.arange(len(instances))
        for whose, upcoming in self._searches(instances, backs, longest.copy()):
            longest[:, place[whose]] = self._runner.device.download(upcoming).view(np.float64)
        return longest

    def _searches(
        self, instances: Integers, backs: Floats, known: Floats
    ) -> Iterator[tuple[Integers, Any]]:
        """Longest seconds at '0' and at '1' of any cell at moments of the latest epochs.

        Parameters
        ----------
        instances : int64[m]
            Positions in the batch.
        backs : float64[m]
            Seconds to be taken back for each cycle of the epoch.
        known : float64[2, m]
            Seconds that some cell reaches.

        Yields
        ------
        int64[n], uint64[2, n] on the device
            Some of the instances, and the bits of the longest seconds of each.
        """
        for chunk in self._runner.chunks(np.full(len(instances), 4 * self._places)):
            yield instances[chunk], self._search(instances[chunk], backs[chunk], known[:, chunk])

    def _search(self, instances: Integers, backs: Floats, known: Floats) -> Any:
        runner, program, count = self._runner, self._tables.most_stressed, len(instances)
        device = runner.device
        arrays = device.upload_together(
            instances.astype(np.int32),
            self._log.parts(instances, backs),
            backs,
            np.ascontiguousarray(known).view(np.uint64),
        )
        longest = arrays[-1]
        addresses = [device.address(array) for array in arrays]
        moments = device.upload(np.array([*addresses, count], dtype=np.uint64))
        state = self._log.state
        guesses = device.empty((_GUESSES * count,), np.uint32)
        runner.launch(program, "guess", count, _THREADS, state, moments, guesses)
        how_many = device.upload(np.array([_GUESSES * count], dtype=np.int32))
        self._work_out(moments, guesses, how_many, -(-_GUESSES * count // _WARPS))
        places = device.empty((self._places * count,), np.uint32)
        how_many = device.zeros((1,), np.int32)
        blocks = self._places // _THREADS * count
        runner.launch(program, "list_open", blocks, _THREADS, state, moments, places, how_many)
        blocks = min(_MOST_BLOCKS, _WARPS_OF_SLICE // _WARPS * count)
        self._work_out(moments, places, how_many, blocks)
        return longest

    def _work_out(self, moments: Any, items: Any, how_many: Any, blocks: int) -> None:
        self._runner.launch(
            self._tables.most_stressed,
            "work_out",
            blocks,
            _THREADS,
            *(self._tables.residencies.table, self._log.state, moments, items, how_many),
        )

    def _track(self, instances: Integers) -> None:
        """Add the latest epoch to the tracked cells of instances."""
        cells = len(self._tracked.cell)
        if cells:
            self._runner.launch(
                self._tables.tracked_cells,
                "track",
                -(-cells // _THREADS),
                _THREADS,
                self._tables.residencies.table,
                self._log.state,
                *self._tracked_there.cells_of(instances),
            )

    def _add_to_mixtures(self, instances: Integers, kernel: Integers, seconds: float) -> None:
        if len(instances):
            self._mixture[instances, kernel] += seconds
            self._upcoming.append((instances, self._longest_of(self._mixture[instances])))
            duties = self._duties_there.of(self._duties)
            self._tracked_there.add_duties(instances, kernel, duties, seconds)

    def _longest_of_mixtures(self, mixtures: Floats) -> Floats:
        return self._runner.device.download(self._longest_of(mixtures))

    def _longest_of(self, mixtures: Floats) -> Any:
        """Longest seconds at '0' and at '1' of mixtures float64[m, k]: float64[2, m], there."""
        device, (count, kernels) = self._runner.device, mixtures.shape
        longest, on_device = device.empty((2, count), np.float64), device.upload(mixtures)
        skylines = self._duties_there.of(self._duties).skylines
        for of_kind, skyline in zip((longest[0], longest[1]), skylines, strict=True):
            self._runner.launch(
                fault_free_program(self._duties.replays[0].geometry),
                "longest_of_mixtures",
                -(-count // _MIXTURES),
                _THREADS,
                on_device,
                np.int32(count),
                np.int32(kernels),
                skyline,
                np.int32(skyline.shape[1]),
                of_kind,
                shared_bytes=8 * kernels * _MIXTURES,
            )
        return longest

    @cached_property
    def _redirected(self) -> tuple[RedirectedReplay, ...]:
        """The replays: only redirection gives instances separate stress times."""
        replays = self._duties.replays
        return tuple(replay for replay in replays if isinstance(replay, RedirectedReplay))
