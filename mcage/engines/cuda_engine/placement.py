"""Placement on a device: where registers find homes on a fault map; the occupants of entries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.cuda_engine.programs import occupants_program, select_program
from mcage.engines.cuda_engine.runner import Runner
from mcage.engines.cuda_engine.tables import redirection
from mcage.replays.prepare import RedirectedReplay

EVENTS = 7
"""Event counts of `kernels/select.cu`."""

_WARPS = 4
_ARRIVAL_AND_OCCUPANT_BYTES = 32
_RUN_WORDS = 4


@dataclass(frozen=True, eq=False)
class _Tables:
    """Tables of a kernel of the workload on the device.

    Attributes
    ----------
    arrays : tuple of arrays of the device
        Operations of residencies and of writes, reads and cycles of writes, starts of the scan.
    words : uint64[6]
        The same as `kernels/select.cu` takes them: their addresses, and how many operations.
    residencies : int
        Residencies that may find a home in a pass.
    """

    arrays: tuple[Any, ...]
    words: NDArray[np.uint64]
    residencies: int


@dataclass(frozen=True, eq=False)
class Occupants:
    """Occupants of m slices on the device, after `kernels/occupants.cu`.

    Attributes
    ----------
    most_orbits : int
        Passes of a slice.
    runs : int32[m, 4]
        Of each slice, as ``Run`` of the kernels: where the occupants of its first pass begin (low
        and high half), number of its kernel, and how far apart its passes are.
    starts : int32[m * passes, entries + 1]
        First occupant of each entry, from the beginning of the pass.
    occupants : int32[..., 4]
        First and end of the writes of an occupant, its block, and its turn in an orbit.
    """

    most_orbits: int
    runs: Any
    starts: Any
    occupants: Any


@dataclass(frozen=True, eq=False)
class _Launch:
    """A placement of m slices under way on the device.

    Attributes
    ----------
    passes : int
        Of each slice.
    runs, events, arrivals, arrived
        As `kernels/select.cu` has them.
    """

    passes: int
    runs: Any
    events: Any
    arrivals: Any
    arrived: Any


class Placement:
    """Runs the selectors of redirecting techniques, for batches whose slices run any kernels.

    ``replays`` is a technique on several kernels, ``kernel`` int64[m] says which of them each of
    the m slices of a batch runs, and ``fault_maps`` is uint8[m, entries].

    Parameters
    ----------
    runner : Runner
        The device.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._tables = Memo(self._upload)

    def _upload(self, replay: RedirectedReplay) -> _Tables:
        tables = redirection(replay)
        arrays = tuple(
            self._runner.shared(table)
            for table in (
                tables.residency_operations,
                tables.write_operations,
                tables.reads_after,
                tables.cycles,
                tables.scan_starts,
            )
        )
        words = np.empty(len(arrays) + 1, dtype=np.uint64)
        words[:-1] = [self._runner.device.address(array) for array in arrays]
        operations = [len(tables.residency_operations), len(tables.write_operations)]
        words[-1:] = np.array(operations, dtype=np.int32).view(np.uint64)
        return _Tables(arrays, words, tables.residencies)

    def count(
        self,
        replays: Sequence[RedirectedReplay],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
    ) -> NDArray[np.int64]:
        """Events of each slice in each pass: int64[m, passes, 7]."""
        events = np.empty((len(kernel), replays[0].passes, EVENTS), dtype=np.int64)
        bytes_each = np.full(len(kernel), fault_maps.shape[1] + events[:1].nbytes)
        for chunk in self._runner.chunks(bytes_each):
            launch = self._place(replays, kernel[chunk], fault_maps[chunk], wanted=False)
            events[chunk] = self._runner.device.download(launch.events)
        return events

    def occupants(
        self,
        replays: Sequence[RedirectedReplay],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        more_bytes: int = 0,
    ) -> Iterator[tuple[slice, Occupants]]:
        """Occupants of a batch, chunk by chunk, of which each fits into the device's memory.

        Parameters
        ----------
        replays, kernel, fault_maps
            The batch.
        more_bytes : int
            What the caller needs for each slice besides.
        """
        device, passes, entries = self._runner.device, replays[0].passes, fault_maps.shape[1]
        numbers, place = np.unique(kernel, return_inverse=True)
        residencies = np.array([self._tables.of(replays[number]).residencies for number in numbers])
        tables = 4 * entries + 4 * (entries + 1) + 8 * EVENTS
        bytes_of_kernel = passes * (residencies * _ARRIVAL_AND_OCCUPANT_BYTES + tables)
        for chunk in self._runner.chunks(bytes_of_kernel[place] + entries + more_bytes):
            launch = self._place(replays, kernel[chunk], fault_maps[chunk], wanted=True)
            replicas = len(kernel[chunk]) * passes
            starts = device.empty((replicas, entries + 1), np.int32)
            occupants = device.empty(launch.arrivals.shape, np.int32)
            self._runner.module(occupants_program(replays[0].geometry)).launch(
                "sort_occupants",
                (replicas, 1, 1),
                (entries, 1, 1),
                [
                    launch.runs,
                    np.int32(passes),
                    launch.arrivals,
                    launch.arrived,
                    starts,
                    occupants,
                ],
            )
            yield chunk, Occupants(passes, launch.runs, starts, occupants)

    def _place(
        self,
        replays: Sequence[RedirectedReplay],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        wanted: bool,
    ) -> _Launch:
        """Run the selectors; with their arrivals if they are ``wanted``."""
        device, slices, passes = self._runner.device, len(kernel), replays[0].passes
        numbers, place = np.unique(kernel, return_inverse=True)
        tables = [self._tables.of(replays[number]) for number in numbers]
        capacity = np.array([of_kernel.residencies for of_kernel in tables])[place]
        end = np.cumsum(passes * capacity)
        first = end - passes * capacity
        runs = runs_of(first, place, capacity)
        words = np.stack([of_kernel.words for of_kernel in tables])
        kernels, on_device, maps = device.upload_together(words, runs, fault_maps)
        events = device.empty((slices, passes, EVENTS), np.int64)
        arrivals = device.empty((int(end[-1]) if wanted else 1, 4), np.int32)
        arrived = device.empty((slices * passes if wanted else 1, fault_maps.shape[1]), np.int32)
        self._runner.module(select_program(replays[0].technique, replays[0].geometry)).launch(
            "place",
            (-(-slices * passes // _WARPS), 1, 1),
            (32 * _WARPS, 1, 1),
            [
                kernels,
                on_device,
                maps,
                np.int32(slices),
                np.int32(passes),
                np.int32(wanted),
                arrivals,
                arrived,
                events,
            ],
        )
        return _Launch(passes, on_device, events, arrivals, arrived)


def runs_of(
    first: NDArray[np.int64], kernel: NDArray[np.int64], capacity: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Slices of a launch as ``Run`` of the kernels: int32[m, 4].

    Parameters
    ----------
    first, kernel, capacity : int64[m]
        Where the occupants of the first pass of each slice begin, the number of its kernel among
        the tables of the launch, and how far apart its passes are.
    """
    runs = np.empty((len(first), _RUN_WORDS), dtype=np.int32)
    runs[:, :2] = first[:, None].view(np.int32)
    runs[:, 2], runs[:, 3] = kernel, capacity
    return runs
