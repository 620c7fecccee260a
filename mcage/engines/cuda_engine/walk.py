"""The walk through the writes that land in each entry, on a device: times of its cells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.cuda_engine.occupants import columns_of_registers, fixed_occupants
from mcage.engines.cuda_engine.placement import Occupants, Placement, runs_of
from mcage.engines.cuda_engine.programs import Program, walk_program
from mcage.engines.cuda_engine.runner import Runner
from mcage.engines.cuda_engine.tables import Columns, redirection
from mcage.geometry import COMPONENT_BITS, MOST_COMPONENTS, SliceGeometry
from mcage.replays.prepare import FixedReplay, RedirectedReplay
from mcage.replays.schedule import Schedule

TOGETHER = 16
"""Slices whose cell times are computed together: 8 MB each."""

_CELLS = MOST_COMPONENTS * COMPONENT_BITS
"""Cells of an entry, with those that are repeated."""

Times = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Cycles at '1' and powered of slices: two times int64[m, entries, cells of an entry]."""


@dataclass(frozen=True, eq=False)
class _Tables:
    """What a walk needs besides occupants, on the device.

    Attributes
    ----------
    arrays : tuple of arrays of the device
        Those of `Columns`; orbits and periods of the entries.
    words : uint64[7]
        The same as `kernels/walk.cu` takes them: their addresses, and the cycles of a pass.
    """

    arrays: tuple[Any, ...]
    words: NDArray[np.uint64]


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
        self._redirected = Memo(self._upload_redirected)
        self._columns = Memo(self._upload_registers)

    def _upload_redirected(self, replay: RedirectedReplay) -> _Tables:
        arrays, entries = self._upload_columns(redirection(replay).columns), replay.geometry.entries
        orbits = np.full(entries, replay.passes, dtype=np.int32)
        periods = np.full(entries, replay.schedule.cycles, dtype=np.uint64)
        of_entries = self.runner.shared(orbits), self.runner.shared(periods)
        return self._tables((*arrays, *of_entries), replay.schedule)

    def _upload_registers(self, schedule: Schedule) -> tuple[Any, ...]:
        """Columns of a schedule, which are the same wherever its windows lie."""
        return self._upload_columns(columns_of_registers(schedule))

    def _upload_columns(self, columns: Columns) -> tuple[Any, ...]:
        tables = (columns.writes, columns.contents, columns.masks, columns.region_masks)
        return tuple(map(self.runner.shared, tables))

    def _tables(self, arrays: tuple[Any, ...], schedule: Schedule) -> _Tables:
        addresses = [self.runner.device.address(array) for array in arrays]
        return _Tables(arrays, np.array([*addresses, schedule.cycles], dtype=np.uint64))

    def fixed_times(self, replay: FixedReplay) -> Times:
        """Cell times of a slice under a window layout."""
        host = fixed_occupants(replay)
        columns = self._columns.of(replay.schedule)
        most_orbits, capacity, _ = host.occupants.shape
        zero = np.zeros(1, dtype=np.int64)
        runs, starts, rows, *of_entries = self.runner.device.upload_together(
            runs_of(zero, zero, np.array([capacity])),
            host.starts,
            host.occupants,
            host.orbits,
            host.periods,
        )
        tables = self._tables((*columns, *of_entries), replay.schedule)
        occupants = Occupants(most_orbits, runs, starts, rows)
        return self._cell_times(walk_program((replay,)), replay.geometry, [tables], occupants, 1)

    def redirected_times(
        self,
        replays: Sequence[RedirectedReplay],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
    ) -> Iterator[Times]:
        """Cell times of slices on fault maps, some slices at a time, in their order.

        Parameters
        ----------
        replays : sequence of RedirectedReplay
            A technique on several kernels.
        kernel, fault_maps : int64[m], uint8[m, entries]
            What each slice runs, and on which map.
        """
        program, geometry = walk_program(replays), replays[0].geometry
        for start in range(0, len(kernel), TOGETHER):
            part = slice(start, start + TOGETHER)
            placed = self.placement.occupants(
                replays, kernel[part], fault_maps[part], 16 * _CELLS * geometry.entries
            )
            for chunk, occupants in placed:
                numbers = kernel[part][chunk]
                tables = [self._redirected.of(replays[number]) for number in np.unique(numbers)]
                yield self._cell_times(program, geometry, tables, occupants, len(numbers))

    def _cell_times(
        self,
        program: Program,
        geometry: SliceGeometry,
        tables: Sequence[_Tables],
        occupants: Occupants,
        slices: int,
    ) -> Times:
        device, shape = self.runner.device, (slices, geometry.entries, _CELLS)
        ones, powered = device.empty(shape, np.uint64), device.empty(shape, np.uint64)
        self.runner.module(program).launch(
            "cell_times",
            (slices, geometry.entries, 1),
            (MOST_COMPONENTS, 1, 1),
            [
                device.upload(np.stack([of_kernel.words for of_kernel in tables])),
                occupants.runs,
                np.int32(occupants.most_orbits),
                occupants.starts,
                occupants.occupants,
                ones,
                powered,
            ],
        )
        of_entry = geometry.entry_bits  # without the components that are repeated
        return (
            device.download(ones)[:, :, :of_entry].view(np.int64),
            device.download(powered)[:, :, :of_entry].view(np.int64),
        )
