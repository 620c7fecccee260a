"""The walk through the writes that land in each entry, on a device: times of its cells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.cuda_engine import programs as cuda_programs
from mcage.geometry import (
    COMPONENT_BITS,
    MOST_COMPONENTS,
    Booleans,
    Bytes,
    Integers,
    SliceGeometry,
    Words,
    repeated_components,
)
from mcage.replays.layout import WritesOfRegisters, writes_of_registers
from mcage.replays.prepare import FixedReplay, RedirectedReplay
from mcage.replays.schedule import DEATH, Schedule
from mcage.replays.stored_values import StoredValues
from mcage.traces.model import ALLOC, RELEASE, WRITE

# Placement on a device: where registers find homes on a fault map; the occupants of entries.

# A prepared replay as the kernels take it: tables of integers, the same for every instance.

_RELEASE, _DEATH = 1, 2
_COMPRESSED, _WAS_COMPRESSED, _BEGINS_RESIDENCY = 4, 8, 16
_ROW = 5
"""Bits of an operation's word, as `kernels/select.cu` has them."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Input of the walk through the writes of an entry (`kernels/walk.cu`).

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
    """Content that writes leave in their entries, as the kernels take it: int64[writes].

    16 x the row of `masks` + the regions powered, or the complement of a record's code.
    """
    return np.where(
        stored_values.is_record,
        ~stored_values.record_code.astype(np.int64),
        16 * stored_values.mask + stored_values.regions,
    )


@dataclass(frozen=True, eq=False)
class Redirection:
    """Input of the selectors (`kernels/select.cu`) and of the walk.

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
    lds_rows : int
        Spilled rows for which the LDS has room; those beyond live in memory.
    columns : Columns
        Writes, residency after residency.
    """

    residency_operations: NDArray[np.int32]
    write_operations: NDArray[np.int32]
    reads_after: Integers
    cycles: Integers
    scan_starts: NDArray[np.int32]
    residencies: int
    lds_rows: int
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
        lds_rows=replay.lds_rows,
        columns=columns(schedule, order),
    )


def _words(schedule: Schedule, begins: Booleans) -> Integers:
    """Bits that decide the next home at each operation: int64[operations].

    Parameters
    ----------
    schedule : Schedule
        The operations.
    begins : bool[writes]
        Writes that begin a residency.
    """
    windows, entries = schedule.windows, schedule.geometry.entries
    second = _ROW + cuda_programs.row_bits(schedule.geometry)
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


EVENTS = 9
"""Event counts of `kernels/select.cu`."""

_WARPS = 4
_MOST_THREADS = 1024
"""Threads of a block of `kernels/occupants.cu`; of more entries, a thread has several."""
_ARRIVAL_AND_OCCUPANT_BYTES = 32
_RUN_WORDS = 4


@dataclass(frozen=True, eq=False)
class _PlacementTables:
    """Tables of a kernel of the workload on the device.

    Attributes
    ----------
    arrays : tuple of arrays of the device
        Operations of residencies and of writes, reads and cycles of writes, starts of the scan.
    words : uint64[6]
        The same as `kernels/select.cu` takes them: their addresses, and how many operations.
    residencies : int
        Residencies that may find a home in a pass.
    operations : int
        Operations of residencies in a pass: what it takes to place them.
    """

    arrays: tuple[Any, ...]
    words: Words
    residencies: int
    operations: int


@dataclass(frozen=True, eq=False)
class Occupants:
    """Occupants of m slices on the device, after `kernels/occupants.cu`.

    Attributes
    ----------
    slice_of : int32[n, turns]
        On the host: which of the slices an instance is in each of its turns.
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

    slice_of: NDArray[np.int32]
    most_orbits: int
    runs: Any
    starts: Any
    occupants: Any


@dataclass(frozen=True, eq=False)
class _Placed:
    """Slices after `kernels/select.cu`.

    Attributes
    ----------
    slice_of : int32[n, turns]
        On the host: which of the slices an instance is in each of its turns.
    runs, events, arrivals, arrived : arrays of the device
        As the kernel has them.
    """

    slice_of: NDArray[np.int32]
    runs: Any
    events: Any
    arrivals: Any
    arrived: Any


class PlacementRunner:
    """Runs the selectors of redirecting techniques, for batches whose slices run any kernels.

    ``replays`` is a technique on several kernels, ``kernel`` int64[n, turns] says which of them
    each of the n instances of a batch runs in each of its turns, and ``fault_maps`` is uint8[n,
    entries]. Each turn is a slice of its own on the device. The longest slices of a launch begin
    first: none that begins late keeps the device waiting.

    Parameters
    ----------
    runner : Runner
        The device.
    """

    def __init__(self, runner: cuda_programs.Runner) -> None:
        self._runner = runner
        self._tables = Memo(self._upload)

    def _upload(self, replay: RedirectedReplay) -> _PlacementTables:
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
        words = np.empty(len(arrays) + 2, dtype=np.uint64)
        words[:-2] = [self._runner.device.address(array) for array in arrays]
        numbers = [len(tables.residency_operations), len(tables.write_operations)]
        numbers += [tables.lds_rows, 0]
        words[-2:] = np.array(numbers, dtype=np.int32).view(np.uint64)
        return _PlacementTables(arrays, words, tables.residencies, numbers[0])

    def make_ready(self, replay: RedirectedReplay) -> None:
        """Upload what the selectors look at, if it is not there yet."""
        self._tables.of(replay)

    def count(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Integers:
        """Events in each pass, int64[n, passes, 9], of instances that run a kernel each."""
        events = np.empty((len(kernel), replays[0].passes, EVENTS), dtype=np.int64)
        bytes_each = np.full(len(kernel), fault_maps.shape[1] + events[:1].nbytes)
        for chunk in self._runner.chunks(bytes_each):
            placed = self._place(replays, kernel[chunk, None], fault_maps[chunk], wanted=False)
            events[chunk] = self._runner.device.download(placed.events)[placed.slice_of[:, 0]]
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
        bytes_of_kernel = passes * (residencies * _ARRIVAL_AND_OCCUPANT_BYTES + tables) + more_bytes
        bytes_each = bytes_of_kernel[place.reshape(kernel.shape)].sum(axis=1) + entries
        for chunk in self._runner.chunks(bytes_each):
            placed = self._place(replays, kernel[chunk], fault_maps[chunk], wanted=True)
            replicas = placed.slice_of.size * passes
            starts = device.empty((replicas, entries + 1), np.int32)
            occupants = device.empty(placed.arrivals.shape, np.int32)
            self._runner.launch(
                cuda_programs.occupants_program(replays[0].geometry),
                "sort_occupants",
                replicas,
                entries // -(-entries // _MOST_THREADS),
                placed.runs,
                np.int32(passes),
                placed.arrivals,
                placed.arrived,
                starts,
                occupants,
            )
            yield chunk, Occupants(placed.slice_of, passes, placed.runs, starts, occupants)

    def _place(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes, wanted: bool
    ) -> _Placed:
        """Run the selectors; with their arrivals if they are ``wanted``."""
        device, passes = self._runner.device, replays[0].passes
        numbers, place = np.unique(kernel, return_inverse=True)
        tables = [self._tables.of(replays[number]) for number in numbers]
        operations = np.array([of_kernel.operations for of_kernel in tables])[place.ravel()]
        order = np.argsort(-operations, kind="stable")
        slices, place = len(order), place.ravel()[order]
        slice_of = np.empty(slices, dtype=np.int32)
        slice_of[order] = np.arange(slices, dtype=np.int32)
        capacity = np.array([of_kernel.residencies for of_kernel in tables])[place]
        end = np.cumsum(passes * capacity)
        first = end - passes * capacity
        kernels, runs, map_of, maps = device.upload_together(
            np.stack([of_kernel.words for of_kernel in tables]),
            runs_of(first, place, capacity),
            (order // kernel.shape[1]).astype(np.int32),
            fault_maps,
        )
        events = device.empty((slices, passes, EVENTS), np.int64)
        arrivals = device.empty((int(end[-1]) if wanted else 1, 4), np.int32)
        arrived = device.empty((slices * passes if wanted else 1, fault_maps.shape[1]), np.int32)
        self._runner.launch(
            cuda_programs.select_program(replays[0].technique, replays[0].geometry),
            "place",
            -(-slices * passes // _WARPS),
            32 * _WARPS,
            kernels,
            runs,
            map_of,
            maps,
            np.int32(slices),
            np.int32(passes),
            np.int32(wanted),
            arrivals,
            arrived,
            events,
        )
        return _Placed(slice_of.reshape(kernel.shape), runs, events, arrivals, arrived)


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


# The registers that live in each entry, in order of time, under a fixed window layout.
#
# For redirecting techniques `kernels/select.cu` and `kernels/occupants.cu` make the same tables.

WHOLE_ENTRY = -1
"""In place of a block."""


@dataclass(frozen=True, eq=False)
class FixedOccupants:
    """Occupants of all entries in all their orbits of passes.

    Attributes
    ----------
    starts : int32[orbits, entries + 1]
        First occupant of each entry.
    occupants : int32[orbits, capacity, 4]
        First and end of the writes of an occupant, its block, and its turn: the pass of the orbit
        in which it lives.
    orbits : int32[entries]
        Orbits of each entry.
    periods : uint64[entries]
        Cycles of an orbit of each entry.
    """

    starts: NDArray[np.int32]
    occupants: NDArray[np.int32]
    orbits: NDArray[np.int32]
    periods: Words


def fixed_occupants(replay: FixedReplay) -> FixedOccupants:
    """Occupants of all entries under a window layout."""
    schedule, layout = replay.schedule, replay.layout
    entries, writes = schedule.geometry.entries, writes_of_registers(schedule)
    of_entries = [_occupants_of(entry, replay, writes) for entry in range(entries)]
    orbit = np.concatenate([orbit for orbit, _ in of_entries])
    entry = np.repeat(np.arange(entries), [len(orbit) for orbit, _ in of_entries])
    occupants = np.concatenate([rows for _, rows in of_entries])
    orbits = layout.orbits
    counts = np.zeros((int(orbits.max()), entries + 1), dtype=np.int64)
    np.add.at(counts, (orbit, entry + 1), 1)
    starts = counts.cumsum(axis=1)
    sorted_occupants = np.zeros((len(starts), max(1, int(starts[:, -1].max())), 4), dtype=np.int32)
    by_orbit = np.argsort(orbit, kind="stable")
    in_orbit = np.arange(len(orbit)) - np.searchsorted(orbit[by_orbit], orbit[by_orbit])
    sorted_occupants[orbit[by_orbit], in_orbit] = occupants[by_orbit]
    return FixedOccupants(
        starts=starts.astype(np.int32),
        occupants=sorted_occupants,
        orbits=orbits.astype(np.int32),
        periods=(layout.passes // orbits * schedule.cycles).astype(np.uint64),
    )


def columns_of_registers(schedule: Schedule) -> Columns:
    """Writes, register after register, to which the occupants refer."""
    return columns(schedule, writes_of_registers(schedule).write)


def _occupants_of(
    entry: int, replay: FixedReplay, writes: WritesOfRegisters
) -> tuple[Integers, Integers]:
    """Occupants of an entry, orbit after orbit in order of time: orbit, and row of the table."""
    held = replay.layout.registers_in(entry, replay.schedule.windows.size)
    first, end = writes.first[held.register], writes.end[held.register]
    rows = np.stack([first, end, np.full(len(first), WHOLE_ENTRY), held.turn], axis=1)
    written = first < end
    return held.orbit[written], rows[written]


TOGETHER = 16
"""Slices whose cell times are computed together: 8 MB each."""

_CELLS = MOST_COMPONENTS * COMPONENT_BITS
"""Cells of an entry, with those that are repeated."""

Times = tuple[Integers, Integers]
"""Cycles at '1' and powered of slices: two times int64[m, entries, cells of an entry]."""


@dataclass(frozen=True, eq=False)
class _Tables:
    """Arguments of a walk besides occupants, on the device.

    Attributes
    ----------
    arrays : tuple of arrays of the device
        Those of `Columns`; orbits and periods of the entries.
    words : uint64[7]
        The same as `kernels/walk.cu` takes them: their addresses, and the cycles of a pass.
    """

    arrays: tuple[Any, ...]
    words: Words


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
    placement : PlacementRunner
        Its selectors.
    """

    def __init__(self, runner: cuda_programs.Runner) -> None:
        self.runner = runner
        self.placement = PlacementRunner(runner)
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
        alone = np.zeros((1, 1), dtype=np.int32)
        occupants = Occupants(alone, most_orbits, runs, starts, rows)
        return self._cell_times(
            cuda_programs.walk_program((replay,)), replay.geometry, [tables], occupants
        )

    def redirected_times(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Iterator[Times]:
        """Cell times of slices on fault maps, some slices at a time, in their order.

        Parameters
        ----------
        replays : sequence of RedirectedReplay
            A technique on several kernels.
        kernel, fault_maps : int64[m], uint8[m, entries]
            What each slice runs, and on which map.
        """
        program, geometry = cuda_programs.walk_program(replays), replays[0].geometry
        for start in range(0, len(kernel), TOGETHER):
            part = slice(start, start + TOGETHER)
            placed = self.placement.occupants(
                replays, kernel[part, None], fault_maps[part], 16 * _CELLS * geometry.entries
            )
            for chunk, occupants in placed:
                numbers = kernel[part][chunk]
                tables = [self._redirected.of(replays[number]) for number in np.unique(numbers)]
                yield self._cell_times(program, geometry, tables, occupants)

    def _cell_times(
        self,
        program: cuda_programs.Program,
        geometry: SliceGeometry,
        tables: Sequence[_Tables],
        occupants: Occupants,
    ) -> Times:
        slice_of = occupants.slice_of[:, 0]
        device, shape = self.runner.device, (len(slice_of), geometry.entries, _CELLS)
        ones, powered = device.empty(shape, np.uint64), device.empty(shape, np.uint64)
        self.runner.launch(
            program,
            "cell_times",
            shape[:2],
            MOST_COMPONENTS,
            device.upload(np.stack([of_kernel.words for of_kernel in tables])),
            occupants.runs,
            np.int32(occupants.most_orbits),
            occupants.starts,
            occupants.occupants,
            ones,
            powered,
        )
        of_entry = geometry.entry_bits  # without the components that are repeated
        coming = device.begin_download(ones), device.begin_download(powered)
        at_one, on = (each.result().view(np.int64)[slice_of, :, :of_entry] for each in coming)
        return at_one, on
