"""Replays on a device: tables uploaded once, kernels launched in order, workspace by chunks."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.cuda_engine.devices.device import Device, Module
from mcage.engines.cuda_engine.occupants import fixed_occupants
from mcage.engines.cuda_engine.programs import OCCUPANTS, Program, select_program, stress_program
from mcage.engines.cuda_engine.tables import Columns, redirection
from mcage.engines.stress import FaultFreeDuties
from mcage.geometry import SLICE
from mcage.replays.prepare import FixedReplay, PreparedReplay, RedirectedReplay

EVENTS = 7
"""Event counts of `kernels/select.cu`."""

DEVICE_CELLS = (SLICE.entries, SLICE.component_bits, SLICE.components)
"""Order of cells on a device: neighbouring threads touch neighbours."""

_WARPS = 4
_ARRIVAL_AND_OCCUPANT_BYTES = 32
_MOST_SLICES = 1 << 20


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
class _Walking:
    """What a walk needs besides occupants, on the device, after `Columns` and `FixedOccupants`."""

    writes: Any
    contents: Any
    masks: Any
    region_masks: Any
    orbits: Any
    periods: Any


@dataclass(frozen=True, eq=False)
class _Occupants:
    """Occupants of slices on the device, after `kernels/occupants.cu`."""

    most_orbits: int
    starts: Any
    occupants: Any
    capacity: int


class Runner:
    """Replays on a device, for any number of threads of the host.

    Parameters
    ----------
    device : Device
        Device that computes.
    threads : int
        Threads of the host that may use it at once, sharing its memory.
    """

    def __init__(self, device: Device, threads: int) -> None:
        self.device = device
        self._threads = threads
        self._lock = threading.Lock()
        self._modules: dict[tuple[str, tuple[tuple[str, int], ...]], Module] = {}
        self._redirections = Memo(self._upload_redirection)
        self._duties = Memo(self._upload_duties)

    # ---- what is made once ---------------------------------------------------------------------

    def module(self, program: Program) -> Module:
        """Compiled kernels."""
        source, constants = program
        key = source, tuple(sorted(constants.items()))
        with self._lock:
            if key not in self._modules:
                self._modules[key] = self.device.module(source, constants)
            return self._modules[key]

    def duties(self, duties: FaultFreeDuties) -> Any:
        """Fault-free duty cycles at '0' and '1' on the device: float64[2, kernels, cells]."""
        return self._duties.of(duties)

    def _upload_duties(self, duties: FaultFreeDuties) -> Any:
        both = np.stack([duties.at_zero.duty, duties.at_one.duty])
        by_bit = both.reshape(2, -1, SLICE.entries, SLICE.components, SLICE.component_bits)
        return self._shared(np.ascontiguousarray(by_bit.swapaxes(3, 4)))

    def _upload_redirection(self, replay: RedirectedReplay) -> tuple[_Selecting, _Walking]:
        tables = redirection(replay)
        selecting = _Selecting(
            residency_operations=self._shared(tables.residency_operations),
            write_operations=self._shared(tables.write_operations),
            reads_after=self._shared(tables.reads_after),
            cycles=self._shared(tables.cycles),
            scan_starts=self._shared(tables.scan_starts),
            residencies=tables.residencies,
        )
        orbits = np.full(SLICE.entries, replay.passes, dtype=np.int32)
        periods = np.full(SLICE.entries, replay.schedule.cycles, dtype=np.uint64)
        return selecting, self._walking(tables.columns, orbits, periods)

    def _walking(
        self, columns: Columns, orbits: NDArray[np.int32], periods: NDArray[np.uint64]
    ) -> _Walking:
        return _Walking(
            writes=self._shared(columns.writes),
            contents=self._shared(columns.contents),
            masks=self._shared(columns.masks),
            region_masks=self._shared(columns.region_masks),
            orbits=self._shared(orbits),
            periods=self._shared(periods),
        )

    def _shared(self, table: NDArray[Any]) -> Any:
        """A table on the device, there for the other threads of the host as well."""
        uploaded = self.device.upload(table)
        self.device.download(uploaded[:1])  # waits until it is there
        return uploaded

    # ---- replays -------------------------------------------------------------------------------

    def count(self, replay: RedirectedReplay, fault_maps: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Events of a redirecting technique: int64[instances, passes, 7]."""
        selecting, _ = self._redirections.of(replay)
        shape = (len(fault_maps), replay.passes, EVENTS)
        events = np.empty(shape, dtype=np.int64)
        per_slice = SLICE.entries + replay.passes * EVENTS * 8
        for chunk in self._chunks(len(fault_maps), per_slice):
            nothing = self.device.empty((1, 4), np.int32)
            counted = self._place(replay, selecting, fault_maps[chunk], 0, nothing, nothing)
            events[chunk] = self.device.download(counted)
        return events

    def fixed_times(self, replay: FixedReplay) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cycles at '1' and powered under a window layout: two times int64[1, 256, 2048]."""
        tables = fixed_occupants(replay)
        walking = self._walking(tables.columns, tables.orbits, tables.periods)
        occupants = _Occupants(
            most_orbits=len(tables.starts),
            starts=self._shared(tables.starts),
            occupants=self._shared(tables.occupants),
            capacity=tables.occupants.shape[1],
        )
        return self._cell_times(replay, walking, occupants, 1)

    def redirected_times(
        self, replay: RedirectedReplay, fault_maps: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cycles at '1' and powered on fault maps: two times int64[instances, 256, 2048]."""
        selecting, walking = self._redirections.of(replay)
        shape = (len(fault_maps), SLICE.entries, SLICE.entry_bits)
        ones, powered = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
        per_slice = _work_bytes(replay, selecting.residencies) + 16 * SLICE.cells
        for chunk in self._chunks(len(fault_maps), per_slice):
            occupants = self._occupants(replay, selecting, fault_maps[chunk])
            times = self._cell_times(replay, walking, occupants, len(fault_maps[chunk]))
            ones[chunk], powered[chunk] = times
        return ones, powered

    def add_stress(
        self,
        replay: RedirectedReplay,
        fault_maps: NDArray[np.uint8],
        instances: NDArray[np.int64],
        scale: float,
        seconds: Any,
        longest: Any,
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
        seconds : float64[2, instances, cells] on the device
            Seconds at '0' and '1'.
        longest : uint64[2, instances] on the device
            Bits of the longest of them.
        """
        for chunk, walked in self._walked(replay, fault_maps):
            chosen = instances[chunk]
            self.module(stress_program(replay)).launch(
                "add_stress",
                (len(chosen), SLICE.entries, 1),
                (SLICE.components, 1, 1),
                [
                    *walked,
                    self.device.upload(chosen.astype(np.int32)),
                    np.int32(seconds.shape[1]),
                    np.float64(scale),
                    seconds,
                    longest,
                ],
            )

    def look_back(
        self,
        replay: RedirectedReplay,
        fault_maps: NDArray[np.uint8],
        instances: NDArray[np.int64],
        backs: NDArray[np.float64],
        seconds: Any,
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
        seconds : float64[2, instances, cells] on the device
            Seconds at '0' and '1', which stay as they are.
        """
        result = np.empty((2, len(instances)))
        for chunk, walked in self._walked(replay, fault_maps):
            chosen = instances[chunk]
            longest = self.device.zeros((2, len(chosen)), np.uint64)
            self.module(stress_program(replay)).launch(
                "look_back",
                (len(chosen), SLICE.entries, 1),
                (SLICE.components, 1, 1),
                [
                    *walked,
                    self.device.upload(chosen.astype(np.int32)),
                    np.int32(seconds.shape[1]),
                    self.device.upload(np.ascontiguousarray(backs[chunk])),
                    seconds,
                    longest,
                ],
            )
            result[:, chunk] = self.device.download(longest).view(np.float64)
        return result

    def _walked(
        self, replay: RedirectedReplay, fault_maps: NDArray[np.uint8]
    ) -> Iterator[tuple[slice, list[Any]]]:
        """Chunks of a batch whose occupants are on the device, with the arguments of a walk."""
        selecting, walking = self._redirections.of(replay)
        for chunk in self._chunks(len(fault_maps), _work_bytes(replay, selecting.residencies)):
            occupants = self._occupants(replay, selecting, fault_maps[chunk])
            yield chunk, _walk_arguments(replay, walking, occupants)

    def _chunks(self, slices: int, bytes_each: int) -> Iterator[slice]:
        """Parts of a batch whose workspace fits into this thread's part of the free memory."""
        available = self.device.free_bytes() // (2 * self._threads)
        size = max(1, min(_MOST_SLICES, available // bytes_each))
        for first in range(0, slices, size):
            yield slice(first, first + size)

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
        events = self.device.empty((slices, passes, EVENTS), np.int64)
        self.module(select_program(replay.technique)).launch(
            "place",
            (-(-slices * passes // _WARPS), 1, 1),
            (32 * _WARPS, 1, 1),
            [
                self.device.upload(fault_maps),
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

    def _occupants(
        self, replay: RedirectedReplay, selecting: _Selecting, fault_maps: NDArray[np.uint8]
    ) -> _Occupants:
        device, capacity = self.device, selecting.residencies
        replicas = len(fault_maps) * replay.passes
        arrivals = device.empty((replicas, capacity, 4), np.int32)
        arrived = device.empty((replicas, SLICE.entries), np.int32)
        starts = device.empty((replicas, SLICE.entries + 1), np.int32)
        occupants = device.empty((replicas, capacity, 4), np.int32)
        self._place(replay, selecting, fault_maps, capacity, arrivals, arrived)
        self.module(OCCUPANTS).launch(
            "sort_occupants",
            (replicas, 1, 1),
            (SLICE.entries, 1, 1),
            [arrivals, arrived, np.int32(capacity), starts, occupants],
        )
        return _Occupants(replay.passes, starts, occupants, capacity)

    def _cell_times(
        self, replay: PreparedReplay, walking: _Walking, occupants: _Occupants, slices: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        ones = self.device.empty((slices, *DEVICE_CELLS), np.uint64)
        powered = self.device.empty((slices, *DEVICE_CELLS), np.uint64)
        self.module(stress_program(replay)).launch(
            "cell_times",
            (slices, SLICE.entries, 1),
            (SLICE.components, 1, 1),
            [*_walk_arguments(replay, walking, occupants), ones, powered],
        )
        return self._by_component(ones), self._by_component(powered)

    def _by_component(self, times: Any) -> NDArray[np.int64]:
        downloaded = self.device.download(times).view(np.int64)
        shape = (len(downloaded), SLICE.entries, SLICE.entry_bits)
        return downloaded.swapaxes(2, 3).reshape(shape)


def _work_bytes(replay: RedirectedReplay, residencies: int) -> int:
    """Bytes of workspace for the occupants of a slice."""
    tables = 4 * SLICE.entries + 4 * (SLICE.entries + 1) + 8 * EVENTS
    return SLICE.entries + replay.passes * (residencies * _ARRIVAL_AND_OCCUPANT_BYTES + tables)


def _walk_arguments(replay: PreparedReplay, walking: _Walking, occupants: _Occupants) -> list[Any]:
    """First arguments of the kernels of `kernels/stress.cu`."""
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
