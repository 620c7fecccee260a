"""Placement on a device: where registers find homes on a fault map; the occupants of entries."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.cuda_engine.programs import OCCUPANTS, select_program
from mcage.engines.cuda_engine.runner import Runner
from mcage.engines.cuda_engine.tables import redirection
from mcage.geometry import SLICE
from mcage.replays.prepare import RedirectedReplay

EVENTS = 7
"""Event counts of `kernels/select.cu`."""

_WARPS = 4
_ARRIVAL_AND_OCCUPANT_BYTES = 32


@dataclass(frozen=True, eq=False)
class _Selecting:
    """Tables of the selectors on the device, after `Redirection`."""

    residency_operations: Any
    write_operations: Any
    reads_after: Any
    cycles: Any
    scan_starts: Any
    residencies: int


@dataclass(frozen=True, eq=False)
class Occupants:
    """Occupants of slices on the device, after `kernels/occupants.cu`."""

    most_orbits: int
    starts: Any
    occupants: Any
    capacity: int


class Placement:
    """Runs the selectors of redirecting techniques.

    Parameters
    ----------
    runner : Runner
        The device.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._tables = Memo(self._upload)

    def _upload(self, replay: RedirectedReplay) -> _Selecting:
        tables, shared = redirection(replay), self._runner.shared
        return _Selecting(
            residency_operations=shared(tables.residency_operations),
            write_operations=shared(tables.write_operations),
            reads_after=shared(tables.reads_after),
            cycles=shared(tables.cycles),
            scan_starts=shared(tables.scan_starts),
            residencies=tables.residencies,
        )

    def count(self, replay: RedirectedReplay, fault_maps: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Events of a redirecting technique: int64[instances, passes, 7]."""
        selecting = self._tables.of(replay)
        shape = (len(fault_maps), replay.passes, EVENTS)
        events = np.empty(shape, dtype=np.int64)
        per_slice = SLICE.entries + replay.passes * EVENTS * 8
        for chunk in self._runner.chunks(len(fault_maps), per_slice):
            nothing = self._runner.device.empty((1, 4), np.int32)
            counted = self._place(replay, selecting, fault_maps[chunk], 0, nothing, nothing)
            events[chunk] = self._runner.device.download(counted)
        return events

    def work_bytes(self, replay: RedirectedReplay) -> int:
        """Bytes of workspace for the occupants of a slice."""
        tables = 4 * SLICE.entries + 4 * (SLICE.entries + 1) + 8 * EVENTS
        residencies = self._tables.of(replay).residencies
        each = residencies * _ARRIVAL_AND_OCCUPANT_BYTES + tables
        return SLICE.entries + replay.passes * each

    def occupants(self, replay: RedirectedReplay, fault_maps: NDArray[np.uint8]) -> Occupants:
        """Occupants of slices with fault maps uint8[m, 256]: `work_bytes` for each of them."""
        selecting = self._tables.of(replay)
        device, capacity = self._runner.device, selecting.residencies
        replicas = len(fault_maps) * replay.passes
        arrivals = device.empty((replicas, capacity, 4), np.int32)
        arrived = device.empty((replicas, SLICE.entries), np.int32)
        starts = device.empty((replicas, SLICE.entries + 1), np.int32)
        occupants = device.empty((replicas, capacity, 4), np.int32)
        self._place(replay, selecting, fault_maps, capacity, arrivals, arrived)
        self._runner.module(OCCUPANTS).launch(
            "sort_occupants",
            (replicas, 1, 1),
            (SLICE.entries, 1, 1),
            [arrivals, arrived, np.int32(capacity), starts, occupants],
        )
        return Occupants(replay.passes, starts, occupants, capacity)

    def _place(
        self,
        replay: RedirectedReplay,
        selecting: _Selecting,
        fault_maps: NDArray[np.uint8],
        capacity: int,
        arrivals: Any,
        arrived: Any,
    ) -> Any:
        """Run the selectors; events on the device."""
        slices, passes = len(fault_maps), replay.passes
        events = self._runner.device.empty((slices, passes, EVENTS), np.int64)
        self._runner.module(select_program(replay.technique)).launch(
            "place",
            (-(-slices * passes // _WARPS), 1, 1),
            (32 * _WARPS, 1, 1),
            [
                self._runner.device.upload(fault_maps),
                selecting.scan_starts,
                np.int32(slices),
                np.int32(passes),
                selecting.residency_operations,
                np.int32(len(selecting.residency_operations)),
                selecting.write_operations,
                np.int32(len(selecting.write_operations)),
                selecting.reads_after,
                selecting.cycles,
                np.int32(capacity),
                arrivals,
                arrived,
                events,
            ],
        )
        return events
