"""The walk through the writes that land in each entry, on a device: times of its cells."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.cuda_engine.occupants import fixed_occupants
from mcage.engines.cuda_engine.placement import Occupants, Placement
from mcage.engines.cuda_engine.programs import walk_program
from mcage.engines.cuda_engine.runner import Runner
from mcage.engines.cuda_engine.tables import Columns, redirection
from mcage.geometry import SLICE
from mcage.replays.prepare import FixedReplay, PreparedReplay, RedirectedReplay

DEVICE_CELLS = (SLICE.entries, SLICE.component_bits, SLICE.components)
"""Order of cells on a device: neighbouring threads touch neighbours."""


@dataclass(frozen=True, eq=False)
class _Walking:
    """What a walk needs besides occupants, on the device, after `Columns` and `FixedOccupants`."""

    writes: Any
    contents: Any
    masks: Any
    region_masks: Any
    orbits: Any
    periods: Any


class Walk:
    """Walks of replays on a device, for any number of threads of the host.

    Parameters
    ----------
    runner : Runner
        The device.

    Attributes
    ----------
    runner : Runner
        As given.
    placement : Placement
        Its selectors.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.placement = Placement(runner)
        self._tables = Memo(self._upload)

    def _upload(self, replay: RedirectedReplay) -> _Walking:
        orbits = np.full(SLICE.entries, replay.passes, dtype=np.int32)
        periods = np.full(SLICE.entries, replay.schedule.cycles, dtype=np.uint64)
        return self._walking(redirection(replay).columns, orbits, periods)

    def _walking(
        self, columns: Columns, orbits: NDArray[np.int32], periods: NDArray[np.uint64]
    ) -> _Walking:
        return _Walking(
            writes=self.runner.shared(columns.writes),
            contents=self.runner.shared(columns.contents),
            masks=self.runner.shared(columns.masks),
            region_masks=self.runner.shared(columns.region_masks),
            orbits=self.runner.shared(orbits),
            periods=self.runner.shared(periods),
        )

    def fixed_times(self, replay: FixedReplay) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cycles at '1' and powered under a window layout: two times int64[1, 256, 2048]."""
        tables = fixed_occupants(replay)
        walking = self._walking(tables.columns, tables.orbits, tables.periods)
        occupants = Occupants(
            most_orbits=len(tables.starts),
            runs=None,
            starts=self.runner.shared(tables.starts),
            occupants=self.runner.shared(tables.occupants),
            capacity=tables.occupants.shape[1],
        )
        return self._cell_times(replay, walking, occupants, 1)

    def redirected_times(
        self, replay: RedirectedReplay, fault_maps: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cycles at '1' and powered on fault maps: two times int64[instances, 256, 2048]."""
        shape = (len(fault_maps), SLICE.entries, SLICE.entry_bits)
        ones, powered = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
        walking, kernel = self._tables.of(replay), np.zeros(len(fault_maps), dtype=np.int64)
        placed = self.placement.occupants((replay,), kernel, fault_maps, 16 * SLICE.cells)
        for chunk, occupants in placed:
            times = self._cell_times(replay, walking, occupants, len(fault_maps[chunk]))
            ones[chunk], powered[chunk] = times
        return ones, powered

    def _cell_times(
        self, replay: PreparedReplay, walking: _Walking, occupants: Occupants, slices: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        ones = self.runner.device.empty((slices, *DEVICE_CELLS), np.uint64)
        powered = self.runner.device.empty((slices, *DEVICE_CELLS), np.uint64)
        self.runner.module(walk_program(replay)).launch(
            "cell_times",
            (slices, SLICE.entries, 1),
            (SLICE.components, 1, 1),
            [*_walk_arguments(replay, walking, occupants), ones, powered],
        )
        return self._by_component(ones), self._by_component(powered)

    def _by_component(self, times: Any) -> NDArray[np.int64]:
        downloaded = self.runner.device.download(times).view(np.int64)
        shape = (len(downloaded), SLICE.entries, SLICE.entry_bits)
        return downloaded.swapaxes(2, 3).reshape(shape)


def _walk_arguments(replay: PreparedReplay, walking: _Walking, occupants: Occupants) -> list[Any]:
    """First arguments of the kernel of `kernels/walk.cu`."""
    return [
        walking.writes,
        walking.contents,
        walking.masks,
        walking.region_masks,
        np.uint64(replay.schedule.cycles),
        walking.orbits,
        walking.periods,
        np.int32(occupants.most_orbits),
        occupants.starts,
        occupants.occupants,
        np.int32(occupants.capacity),
    ]
