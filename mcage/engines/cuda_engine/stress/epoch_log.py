"""What instances have been through, on a device: occupants of entries, and bounds of cells."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.engines.cuda_engine.placement import Occupants
from mcage.engines.cuda_engine.runner import Runner
from mcage.engines.cuda_engine.stress.tables import StressTables
from mcage.geometry import COMPONENT_BITS

_EPOCHS = 8
"""Epochs of an instance for which there is space at first."""

_EPOCH_WORDS = 5
"""Words of 64 bits of `Epoch` in `kernels/stress.cuh`."""

_THREADS, _PARTS = 256, 4
"""Threads of a block; blocks that share the entries of a slice."""


@dataclass(frozen=True, eq=False)
class Epochs:
    """An epoch of each of m instances.

    Attributes
    ----------
    instances : int64[m]
        Positions in the batch.
    kernels : int64[k]
        Kernels that they run, in the order in which `Occupants.runs` counts them.
    scales : float64[m]
        Seconds that a cycle of all passes stands for.
    """

    instances: NDArray[np.int64]
    kernels: NDArray[np.int64]
    scales: NDArray[np.float64]


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
        self._device, self._tables = device, tables
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

    def begin(self, instances: NDArray[np.int64], mixtures: NDArray[np.float64]) -> None:
        """Let instances begin with the seconds that they have run each kernel: float64[m, k]."""
        mixed, among = self._device.upload_together(mixtures, instances.astype(np.int32))
        grid = (len(instances), 2 * self._places // _THREADS, 1)
        self._tables.epoch_log.launch("begin", grid, (_THREADS, 1, 1), [self.state, mixed, among])

    def epoch_bytes(self, kernel: NDArray[np.int64]) -> int:
        """Bytes that an epoch of an instance takes at most, whichever of the kernels it runs."""
        codes = int(self._tables.residencies.count_of_kernel[kernel].max())
        return 4 * self._tables.passes * (codes + self._entries) + 8 * self._entries

    def add(self, epochs: Epochs, occupants: Occupants) -> None:
        """Add an epoch of instances, whose slices have these occupants."""
        device, tables, instances = self._device, self._tables, epochs.instances
        self._epochs[instances] += 1
        self._scale[instances] = epochs.scales
        if self._epochs[instances].max() > self._most:
            self._enlarge()
        codes = device.empty((occupants.occupants.size // 4,), np.uint32)
        starts = device.empty((len(instances), tables.passes * self._entries + 1), np.int32)
        powered = device.empty((len(instances), self._entries), np.int64)
        self._kept.append((codes, starts, powered))
        first_write, cycles, among, scales = device.upload_together(
            tables.residencies.first_write[epochs.kernels].astype(np.int32),
            tables.cycles[epochs.kernels],
            instances.astype(np.int32),
            epochs.scales,
        )
        tables.epoch_log.launch(
            "log_epoch",
            (len(instances), _PARTS, 1),
            (_THREADS, 1, 1),
            [
                tables.residencies.table,
                self.state,
                occupants.runs,
                first_write,
                cycles,
                occupants.starts,
                occupants.occupants,
                among,
                scales,
                codes,
                starts,
                powered,
            ],
        )

    def parts(
        self, instances: NDArray[np.int64], backs: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Parts of latest epochs that have passed when seconds are taken back for each cycle."""
        parts: NDArray[np.float64] = 1 - backs / self._scale[instances]
        return parts

    def _enlarge(self) -> None:
        """Make space for twice as many epochs of each instance."""
        table = np.zeros((len(self._epochs), 2 * self._most, _EPOCH_WORDS), dtype=np.uint64)
        table[:, : self._most] = self._device.download(self._table)
        self._most *= 2
        self._table = self._device.upload(table)
        self.state = self._upload_state()
