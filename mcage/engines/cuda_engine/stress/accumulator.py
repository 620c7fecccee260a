"""Stress times on a device, without a sum for every cell.

Of an epoch the log of a device keeps which residencies lived in each entry, and bounds say for how
long any cell can have held '0' or '1'. Cells are summed up where the bounds leave open which of
them is the most stressed; tracked cells are summed up for themselves.
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.engines.cuda_engine.stress.epoch_log import EpochLog, Epochs
from mcage.engines.cuda_engine.stress.tables import StressTables, TablesOfDuties
from mcage.engines.cuda_engine.walk import Walk
from mcage.engines.stress import FaultFreeDuties, StressAccumulator
from mcage.engines.tracked_cells import TrackedCells
from mcage.replays.prepare import RedirectedReplay

_THREADS, _WARPS = 256, 8
_GUESSES = 4
_PLACES = 8192
_WARPS_OF_SLICE, _MOST_BLOCKS = 64, 2112
"""Warps that work out cells: so many for each slice, in so many blocks at most."""


class CudaStress(StressAccumulator):
    """Stress times of instances that may be redirected, on a device.

    Parameters
    ----------
    walk : Walk
        The device, and its selectors.
    tables : TablesOfDuties
        What all batches of a technique share there.
    duties, tracked, instances
        As for `StressAccumulator`.
    """

    def __init__(
        self,
        walk: Walk,
        tables: TablesOfDuties,
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        instances: int,
    ) -> None:
        super().__init__(duties, tracked, instances)
        self._runner, self._placement = walk.runner, walk.placement
        self._tables_of = tables

    # Memory is taken with the first instance that has separate times: often no instance has.

    @cached_property
    def _tables(self) -> StressTables:
        return self._tables_of.of(self._duties)

    @cached_property
    def _log(self) -> EpochLog:
        return EpochLog(self._runner, self._tables, len(self._has_separate_times))

    @cached_property
    def _tracked_on_device(self) -> tuple[Any, Any, Any]:
        """Instances, cells, and seconds at '0' and at '1' of the tracked cells."""
        device = self._runner.device
        return (
            device.upload(self._tracked.instance.astype(np.int32)),
            device.upload(self._tracked.cell.astype(np.int32)),
            device.empty((2, len(self._tracked.cell)), np.float64),
        )

    def _begin(self, instances: NDArray[np.int64]) -> None:
        """See `StressAccumulator`; `_run_each`, which always follows, adds tracked seconds."""
        self._log.begin(instances, self._mixture[instances])

    def _run_each(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        seconds: float,
    ) -> None:
        replays = self._redirected
        scales = seconds / np.array([replay.period for replay in replays])[kernel]
        more_bytes = self._log.epoch_bytes(kernel)
        placed = self._placement.occupants(replays, kernel, fault_maps, more_bytes)
        for chunk, occupants in placed:
            self._log.add(
                Epochs(instances[chunk], np.unique(kernel[chunk]), scales[chunk]), occupants
            )
        self.longest[:, instances] = self._longest_at(
            instances, np.zeros(len(instances)), self.longest[:, instances]
        )
        self._track(instances)

    def _separate_longest_earlier(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        seconds: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """See `StressAccumulator`; the log has the occupants, and no map is needed."""
        periods = np.array([replay.period for replay in self._duties.replays])
        nothing = np.zeros((2, len(instances)))
        return self._longest_at(instances, seconds / periods[kernel], nothing)

    def _longest_at(
        self, instances: NDArray[np.int64], backs: NDArray[np.float64], known: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Longest seconds at '0' and at '1' of any cell at moments of the latest epochs.

        Parameters
        ----------
        instances : int64[m]
            Positions in the batch.
        backs : float64[m]
            Seconds to be taken back for each cycle of the epoch.
        known : float64[2, m]
            Seconds that some cell reaches.
        """
        longest = np.empty_like(known)
        for chunk in self._runner.chunks(np.full(len(instances), 4 * _PLACES)):
            longest[:, chunk] = self._search(instances[chunk], backs[chunk], known[:, chunk])
        return longest

    def _search(
        self, instances: NDArray[np.int64], backs: NDArray[np.float64], known: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        device, module, count = self._runner.device, self._tables.most_stressed, len(instances)
        longest = device.upload(np.ascontiguousarray(known).view(np.uint64))
        arrays = (
            device.upload(instances.astype(np.int32)),
            device.upload(self._log.parts(instances, backs)),
            device.upload(np.ascontiguousarray(backs)),
            longest,
        )
        addresses = [device.address(array) for array in arrays]
        moments = device.upload(np.array([*addresses, count], dtype=np.uint64))
        state = self._log.state
        guesses = device.empty((_GUESSES * count,), np.uint32)
        module.launch("guess", (count, 1, 1), (_THREADS, 1, 1), [state, moments, guesses])
        how_many = device.upload(np.array([_GUESSES * count], dtype=np.int32))
        self._work_out(moments, guesses, how_many, -(-_GUESSES * count // _WARPS))
        places, how_many = device.empty((_PLACES * count,), np.uint32), device.zeros((1,), np.int32)
        module.launch(
            "list_open",
            (_PLACES // _THREADS * count, 1, 1),
            (_THREADS, 1, 1),
            [state, moments, places, how_many],
        )
        blocks = min(_MOST_BLOCKS, _WARPS_OF_SLICE // _WARPS * count)
        self._work_out(moments, places, how_many, blocks)
        return device.download(longest).view(np.float64)

    def _work_out(self, moments: Any, items: Any, how_many: Any, blocks: int) -> None:
        self._tables.most_stressed.launch(
            "work_out",
            (blocks, 1, 1),
            (_THREADS, 1, 1),
            [self._tables.residencies.table, self._log.state, moments, items, how_many],
        )

    def _track(self, instances: NDArray[np.int64]) -> None:
        """Bring `tracked_seconds` of instances up to date."""
        device, tracked = self._runner.device, self._tracked_of(instances)
        if not len(tracked):
            return
        instance, cell, seconds = self._tracked_on_device
        sums = device.empty((2, len(tracked)), np.float64)
        self._tables.tracked_cells.launch(
            "track",
            (-(-len(tracked) // _THREADS), 1, 1),
            (_THREADS, 1, 1),
            [
                self._tables.residencies.table,
                self._log.state,
                instance,
                cell,
                device.upload(tracked.astype(np.int32)),
                np.int32(len(tracked)),
                np.int32(len(self._tracked.cell)),
                seconds,
                sums,
            ],
        )
        self.tracked_seconds.now[:, tracked] = device.download(sums)

    @cached_property
    def _redirected(self) -> tuple[RedirectedReplay, ...]:
        """The replays: only redirection gives instances separate stress times."""
        replays = self._duties.replays
        return tuple(replay for replay in replays if isinstance(replay, RedirectedReplay))
