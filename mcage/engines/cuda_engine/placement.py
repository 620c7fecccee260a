"""Placement on a device: where registers find homes on a fault map; the occupants of entries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.cuda_engine.programs import Runner, occupants_program, row_bits, select_program
from mcage.geometry import Booleans, Bytes, Integers, Words, repeated_components
from mcage.replays.prepare import RedirectedReplay
from mcage.replays.schedule import DEATH, Schedule
from mcage.replays.stored_values import StoredValues
from mcage.traces.model import ALLOC, RELEASE, WRITE

# A prepared replay as the kernels take it: tables of integers, the same for every instance.

_RELEASE, _DEATH = 1, 2
_COMPRESSED, _WAS_COMPRESSED, _BEGINS_RESIDENCY = 4, 8, 16
_ROW = 5
"""Bits of an operation's word, as `kernels/select.cu` has them."""


@dataclass(frozen=True, eq=False)
class Columns:
    """What the walk through the writes of an entry looks at (`kernels/walk.cu`).

    Attributes
    ----------
    writes : int32[n, 4]
        In an order in which the writes that come into an entry together are neighbours: time (low
        and high half), row of `contents`, form.
    contents, masks, region_masks : uint32[..., 64]
        Those of `mcage.replays.stored_values`, `repeated_components`.
    """

    writes: NDArray[np.int32]
    contents: NDArray[np.uint32]
    masks: NDArray[np.uint32]
    region_masks: NDArray[np.uint32]


def columns(schedule: Schedule, order: Integers) -> Columns:
    """Columns of the writes ``order``, in this order."""
    stored_values = schedule.stored_values
    held = schedule.end_cycle - schedule.cycle
    time = held if schedule.technique.gates_released else schedule.cycle
    writes = np.zeros(
        (max(1, len(order)), 4), dtype=np.int32
    )  # an array on a device has a row at least
    rows = writes[: len(order)]
    rows[:, :2] = np.ascontiguousarray(time[order].astype("<i8")).view("<i4").reshape(-1, 2)
    rows[:, 2] = stored_values.image[order]
    rows[:, 3] = forms(stored_values)[order]
    words = stored_values.contents, stored_values.masks, stored_values.region_masks
    return Columns(writes, *(repeated_components(each, axis=1) for each in words))


def forms(stored_values: StoredValues) -> Integers:
    """What writes leave in their entries, as the kernels take it: int64[writes].

    16 x the row of `masks` + the regions powered, or the complement of a record's code.
    """
    return np.where(
        stored_values.is_record,
        ~stored_values.record_code.astype(np.int64),
        16 * stored_values.mask + stored_values.regions,
    )


@dataclass(frozen=True, eq=False)
class Redirection:
    """What the selectors look at (`kernels/select.cu`), and what the walk does.

    Attributes
    ----------
    residency_operations, write_operations : int32[operations, 4]
        Releases, deaths, and writes: those that begin a residency, or all. Word of the operation,
        first and end of the writes in the order of `columns`, and nothing.
    reads_after, cycles : int64[writes]
        Of the writes in that order: reads of the value, and cycles until its end.
    scan_starts : int32[passes]
        Entry at which the selectors' scan starts.
    residencies : int
        Residencies that may find a home in a pass, at least 1.
    columns : Columns
        Writes, residency after residency.
    """

    residency_operations: NDArray[np.int32]
    write_operations: NDArray[np.int32]
    reads_after: Integers
    cycles: Integers
    scan_starts: NDArray[np.int32]
    residencies: int
    columns: Columns


def redirection(replay: RedirectedReplay) -> Redirection:
    """Tables of a redirecting technique on a trace.

    A register that is spilled may find a home in the midst of a residency, and then keeps it: what
    comes into an entry together is always the end of a residency.
    """
    schedule = replay.schedule
    order = np.argsort(schedule.residency_first, kind="stable")
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    end = np.searchsorted(schedule.residency_first[order], schedule.residency_first, side="right")
    begins = schedule.residency_first == np.arange(schedule.writes)

    is_write = schedule.op_kind == WRITE
    write = schedule.op[is_write]
    operations = np.zeros((len(schedule.op), 4), dtype=np.int32)
    operations[:, 0] = _words(schedule, begins)
    operations[is_write, 1] = position[write]
    operations[is_write, 2] = end[write]
    of_writes = schedule.op_kind != ALLOC
    of_residencies = of_writes.copy()
    of_residencies[is_write] = begins[write]
    return Redirection(
        residency_operations=operations[of_residencies],
        write_operations=operations[of_writes],
        reads_after=schedule.reads_after[order],
        cycles=(schedule.end_cycle - schedule.cycle)[order],
        scan_starts=replay.selector_starts.astype(np.int32),
        residencies=max(1, int((begins & ~schedule.in_table).sum())),
        columns=columns(schedule, order),
    )


def _words(schedule: Schedule, begins: Booleans) -> Integers:
    """What decides the next home at each operation, in bits: int64[operations].

    Parameters
    ----------
    schedule : Schedule
        The operations.
    begins : bool[writes]
        Writes that begin a residency.
    """
    windows, entries = schedule.windows, schedule.geometry.entries
    second = _ROW + row_bits(schedule.geometry)
    is_write = schedule.op_kind == WRITE
    is_release = schedule.op_kind == RELEASE
    is_death = schedule.op_kind == DEATH
    write, window = schedule.op[is_write], schedule.op[is_release]
    windows_before = np.cumsum(schedule.op_kind == ALLOC) % entries
    words = np.zeros(len(schedule.op), dtype=np.int64)
    words[is_write] = (
        _COMPRESSED * schedule.compressed[write]
        + _WAS_COMPRESSED * schedule.was_compressed[write]
        + _BEGINS_RESIDENCY * begins[write]
        + (schedule.row[write] << _ROW)
        + (windows_before[is_write] << second)
    )
    words[is_death] = _DEATH + (schedule.row[schedule.op[is_death]] << _ROW)
    last = windows.base[window] + windows.size[window] - 1
    words[is_release] = _RELEASE + (windows.base[window] << _ROW) + (last << second)
    return words


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
    words: Words
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
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Integers:
        """Events of each slice in each pass: int64[m, passes, 7]."""
        events = np.empty((len(kernel), replays[0].passes, EVENTS), dtype=np.int64)
        bytes_each = np.full(len(kernel), fault_maps.shape[1] + events[:1].nbytes)
        for chunk in self._runner.chunks(bytes_each):
            _, counted, *_ = self._place(replays, kernel[chunk], fault_maps[chunk], wanted=False)
            events[chunk] = self._runner.device.download(counted)
        return events

    def occupants(
        self,
        replays: Sequence[RedirectedReplay],
        kernel: Integers,
        fault_maps: Bytes,
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
            runs, _, arrivals, arrived = self._place(
                replays, kernel[chunk], fault_maps[chunk], wanted=True
            )
            replicas = len(kernel[chunk]) * passes
            starts = device.empty((replicas, entries + 1), np.int32)
            occupants = device.empty(arrivals.shape, np.int32)
            self._runner.launch(
                occupants_program(replays[0].geometry),
                "sort_occupants",
                replicas,
                entries,
                runs,
                np.int32(passes),
                arrivals,
                arrived,
                starts,
                occupants,
            )
            yield chunk, Occupants(passes, runs, starts, occupants)

    def _place(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes, wanted: bool
    ) -> tuple[Any, ...]:
        """Run the selectors; with their arrivals if they are ``wanted``.

        Returns
        -------
        tuple of arrays of the device
            Runs, events, arrivals and how many have arrived, as `kernels/select.cu` has them.
        """
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
        self._runner.launch(
            select_program(replays[0].technique, replays[0].geometry),
            "place",
            -(-slices * passes // _WARPS),
            32 * _WARPS,
            kernels,
            on_device,
            maps,
            np.int32(slices),
            np.int32(passes),
            np.int32(wanted),
            arrivals,
            arrived,
            events,
        )
        return on_device, events, arrivals, arrived


def runs_of(first: Integers, kernel: Integers, capacity: Integers) -> NDArray[np.int32]:
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
