"""Stress times on a device: those of all cells stay there, only tracked cells come back."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.cuda_engine.programs import STRESS_TIMES, stress_program
from mcage.engines.cuda_engine.runner import Runner
from mcage.engines.cuda_engine.walk import Walk
from mcage.engines.stress import FaultFreeDuties, StressAccumulator, by_kernel
from mcage.engines.tracked_cells import TrackedCells
from mcage.geometry import SLICE
from mcage.replays.prepare import RedirectedReplay

_THREADS = 256


DeviceDuties = Memo[FaultFreeDuties, Any]
"""Fault-free duty cycles at '0' and '1' on a device: float64[2, kernels, cells]."""


def duties_on(runner: Runner) -> DeviceDuties:
    """Fault-free duty cycles on a device, uploaded once."""

    def upload(duties: FaultFreeDuties) -> Any:
        both = np.stack([duties.at_zero.duty, duties.at_one.duty])
        by_bit = both.reshape(2, -1, SLICE.entries, SLICE.components, SLICE.component_bits)
        return runner.shared(np.ascontiguousarray(by_bit.swapaxes(3, 4)))

    return Memo(upload)


class CudaStress(StressAccumulator):
    """Two sums for each of the 524,288 cells of an instance, in the memory of a device.

    Parameters
    ----------
    walk : Walk
        Walks of the device.
    device_duties : DeviceDuties
        Fault-free duty cycles there.
    duties, tracked, instances
        As for `StressAccumulator`.
    """

    def __init__(
        self,
        walk: Walk,
        device_duties: DeviceDuties,
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        instances: int,
    ) -> None:
        super().__init__(duties, tracked, instances)
        self._walk = walk
        self._runner = walk.runner
        self._device_duties = device_duties
        self._instances = instances
        self._seconds: Any = None
        self._longest: Any = None
        self._tracked_instance: Any = None
        self._tracked_cell: Any = None

    def _allocate(self) -> None:
        """Take memory with the first instance that has separate times: often no instance has."""
        device = self._runner.device
        self._seconds = device.empty((2, self._instances, SLICE.cells), np.float64)
        self._longest = device.zeros((2, self._instances), np.uint64)
        self._tracked_instance = device.upload(self._tracked.instance.astype(np.int32))
        self._tracked_cell = device.upload(self._tracked.cell.astype(np.int32))

    def _begin(self, instances: NDArray[np.int64]) -> None:
        """See `StressAccumulator`; `_run_each`, which always follows, adds tracked seconds."""
        if self._seconds is None:
            self._allocate()
        device, module = self._runner.device, self._runner.module(STRESS_TIMES)
        chosen = device.upload(instances.astype(np.int32))
        mixtures = self._mixture[instances]
        module.launch(
            "begin",
            (len(instances), SLICE.cells // _THREADS, 2),
            (_THREADS, 1, 1),
            [
                device.upload(mixtures),
                self._device_duties.of(self._duties),
                np.int32(mixtures.shape[1]),
                chosen,
                np.int32(self._instances),
                self._seconds,
            ],
        )
        module.launch(
            "set_longest",
            (_blocks(len(instances)), 1, 1),
            (_THREADS, 1, 1),
            [
                device.upload(np.ascontiguousarray(self.longest[:, instances]).view(np.uint64)),
                np.int32(len(instances)),
                chosen,
                np.int32(self._instances),
                self._longest,
            ],
        )

    def _run_each(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        seconds: float,
    ) -> None:
        for number, chosen in by_kernel(kernel):
            replay = self._redirected(number)
            self._add_stress(
                replay,
                fault_maps[chosen],
                instances[chosen],
                seconds / replay.period,
            )
        self._look_up(instances)

    def _separate_longest_earlier(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        seconds: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        longest = np.empty((2, len(instances)))
        for number, chosen in by_kernel(kernel):
            replay = self._redirected(number)
            longest[:, chosen] = self._look_back(
                replay,
                fault_maps[chosen],
                instances[chosen],
                seconds[chosen] / replay.period,
            )
        return longest

    def _add_stress(
        self,
        replay: RedirectedReplay,
        fault_maps: NDArray[np.uint8],
        instances: NDArray[np.int64],
        scale: float,
    ) -> None:
        """Add scaled times of a redirecting technique to the seconds of instances.

        Parameters
        ----------
        replay, fault_maps
            What they run: fault_maps is uint8[m, 256].
        instances : int64[m]
            Whose seconds.
        scale : float
            Seconds that a cycle stands for.
        """
        for chunk, walked in self._walk.walked(replay, fault_maps):
            chosen = instances[chunk]
            self._runner.module(stress_program(replay)).launch(
                "add_stress",
                (len(chosen), SLICE.entries, 1),
                (SLICE.components, 1, 1),
                [
                    *walked,
                    self._runner.device.upload(chosen.astype(np.int32)),
                    np.int32(self._instances),
                    np.float64(scale),
                    self._seconds,
                    self._longest,
                ],
            )

    def _look_back(
        self,
        replay: RedirectedReplay,
        fault_maps: NDArray[np.uint8],
        instances: NDArray[np.int64],
        backs: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Longest seconds at '0' and '1' when some of a replay is taken back: float64[2, m].

        Parameters
        ----------
        replay, fault_maps : PreparedReplay, uint8[m, 256]
            What was added last.
        instances : int64[m]
            Whose seconds.
        backs : float64[m]
            Seconds to be taken back for each cycle.
        """
        result = np.empty((2, len(instances)))
        for chunk, walked in self._walk.walked(replay, fault_maps):
            chosen = instances[chunk]
            longest = self._runner.device.zeros((2, len(chosen)), np.uint64)
            self._runner.module(stress_program(replay)).launch(
                "look_back",
                (len(chosen), SLICE.entries, 1),
                (SLICE.components, 1, 1),
                [
                    *walked,
                    self._runner.device.upload(chosen.astype(np.int32)),
                    np.int32(self._instances),
                    self._runner.device.upload(np.ascontiguousarray(backs[chunk])),
                    self._seconds,
                    longest,
                ],
            )
            result[:, chunk] = self._runner.device.download(longest).view(np.float64)
        return result

    def _redirected(self, kernel: int) -> RedirectedReplay:
        """A kernel's replay: only redirection gives instances separate stress times."""
        replay = self._duties.replays[kernel]
        assert isinstance(replay, RedirectedReplay)
        return replay

    def _look_up(self, instances: NDArray[np.int64]) -> None:
        """Bring `longest` and `tracked_seconds` of instances up to date."""
        device = self._runner.device
        tracked = self._tracked_of(instances)
        if len(tracked):
            seconds = device.empty((2, len(tracked)), np.float64)
            self._runner.module(STRESS_TIMES).launch(
                "look_up",
                (_blocks(len(tracked)), 1, 1),
                (_THREADS, 1, 1),
                [
                    self._tracked_instance,
                    self._tracked_cell,
                    device.upload(tracked.astype(np.int32)),
                    np.int32(len(tracked)),
                    np.int32(self._instances),
                    self._seconds,
                    seconds,
                ],
            )
            self.tracked_seconds.now[:, tracked] = device.download(seconds)
        longest = device.download(self._longest).view(np.float64)
        self.longest[:, instances] = longest[:, instances]


def _blocks(threads: int) -> int:
    return -(-threads // _THREADS)
