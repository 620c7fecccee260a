"""The walk through the writes that land in each entry, on a device: times of its cells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.cuda_engine import programs as cuda_programs
from mcage.geometry import (
    COMPONENT_BITS,
    MOST_COMPONENTS,
    Bytes,
    Integers,
    SliceGeometry,
    Words,
    repeated_components,
)
from mcage.replays.layout import WritesOfRegisters, writes_of_registers
from mcage.replays.outcome import SharedPlaces
from mcage.replays.prepare import FixedReplay, RedirectedReplay
from mcage.replays.schedule import KINDS, Schedule, operations_of, residencies_of_writes
from mcage.replays.stored_values import StoredValues

# Placement on a device: where registers find homes on a fault map; the occupants of entries.

# A prepared replay as the kernels take it: tables of integers, the same for every instance.

_WAKES_UP, _ROW = 4, 3
"""Bits of an operation's word, as `kernels/place.cu` has them."""


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
    rows = np.zeros((len(order), 4), dtype=np.int32)
    rows[:, :2] = np.ascontiguousarray(time[order].astype("<i8")).view("<i4").reshape(-1, 2)
    rows[:, 2] = stored_values.image[order]
    rows[:, 3] = forms(stored_values)[order]
    words = stored_values.contents, stored_values.masks, stored_values.region_masks
    return Columns(rows_of(rows), *(repeated_components(each, axis=1) for each in words))


def forms(stored_values: StoredValues) -> Integers:
    """Content that writes leave in their entries, as the kernels take it: int64[writes].

    16 x the row of `masks` + the regions powered, or the complement of a record's code.
    """
    return np.where(
        stored_values.is_record,
        ~stored_values.record_code.astype(np.int64),
        16 * stored_values.mask + stored_values.regions,
    )


def rows_of(array: NDArray[Any]) -> NDArray[Any]:
    """The array, with a row of zeros if it has none: on a device there is one at least."""
    return array if len(array) else np.zeros((1, *array.shape[1:]), array.dtype)


EVENTS = 9
"""Event counts of `kernels/place.cu`."""

_LANES = 32
_SHARED_COUNTS = 8192
"""Counts of arrivals in an entry for which a block of that kernel has room."""
_HOME_BYTES, _ARRIVAL_AND_OCCUPANT_BYTES = 2, 8 + 16
_RUN_WORDS = 4


@dataclass(frozen=True, eq=False)
class _PlacementTables:
    """Tables of a kernel of the workload on the device.

    Attributes
    ----------
    arrays : tuple of arrays of the device
        Operations, retries, reads and cycles of writes, ends, starts of the scan.
    words : uint64[7]
        The same as `kernels/place.cu` takes them: their addresses, how many operations, and how
        many spilled rows have room in the LDS.
    residencies : int
        Residencies that may find a home in a pass, at least 1.
    operations : int
        Operations of a pass: what it takes to place them.
    shared : SharedPlaces
        Places that it takes wherever there are so many.
    """

    arrays: tuple[Any, ...]
    words: Words
    residencies: int
    operations: int
    shared: SharedPlaces


def _placement_tables(runner: cuda_programs.Runner, replay: RedirectedReplay) -> _PlacementTables:
    """Upload what the selectors take of a technique on a trace.

    A register that is spilled may find a home in the midst of a residency, and then keeps it: what
    comes into an entry together is always the end of a residency.
    """
    schedule, technique = replay.schedule, replay.technique
    held, residency = residencies_of_writes(schedule)
    code, retry_starts, retries = operations_of(schedule, held, residency)
    opens, row = np.flatnonzero(np.diff(residency, prepend=-1)), schedule.row[held]
    # Word of each operation, its residency, the first write of this, and number of the first retry
    # after it; one operation more says where the last ones end.
    operations = np.zeros((len(code) + 1, 4), dtype=np.int32)
    operations[:, 3] = np.append(retry_starts, len(retries))
    if len(held):
        whose = code // KINDS
        first = opens[whose]
        wakes = (schedule.was_compressed & ~schedule.compressed)[held] & technique.gates_empty
        operations[:-1, 0] = code % KINDS + _WAKES_UP * wakes[first] + (row[first] << _ROW)
        operations[:-1, 1], operations[:-1, 2] = whose, first
    in_block = schedule.stored_values.is_record[held]
    of_retries = np.stack([np.arange(len(held)), residency, row, in_block], axis=1)[retries]
    arrays = tuple(
        runner.shared(rows_of(table))
        for table in (
            operations,
            of_retries.astype(np.int32),
            schedule.reads_after[held],
            (schedule.end_cycle - schedule.cycle)[held],
            np.searchsorted(residency, residency, side="right").astype(np.int32),
            replay.selector_starts.astype(np.int32),
        )
    )
    numbers = np.array([len(code), replay.lds_rows], dtype=np.int32).view(np.uint64)
    addresses = np.array([runner.device.address(array) for array in arrays], dtype=np.uint64)
    words, shared = np.append(addresses, numbers), SharedPlaces.of(code, replay.geometry)
    return _PlacementTables(arrays, words, max(1, len(opens)), len(code), shared)


@dataclass(frozen=True, eq=False)
class Occupants:
    """Occupants of m slices on the device, sorted by `kernels/place.cu`.

    Attributes
    ----------
    slice_of : int32[n, turns]
        On the host: which of the slices an instance is in each of its turns; negative for those
        that are not placed.
    maps : uint8[n, entries]
        Fault maps.
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
    maps: Any
    most_orbits: int
    runs: Any
    starts: Any
    occupants: Any


class PlacementRunner:
    """Runs the selectors of redirecting techniques, for batches whose slices run any kernels.

    ``replays`` is a technique on several kernels, ``kernel`` int64[n, turns] says which of them
    each of the n instances of a batch runs in each of its turns, and ``fault_maps`` is uint8[n,
    entries]. Each turn is a slice of its own on the device, but those of kernel -1, which nobody
    places. The longest slices of a launch begin first: none that begins late keeps the device
    waiting.

    Parameters
    ----------
    runner : Runner
        The device.
    """

    def __init__(self, runner: cuda_programs.Runner) -> None:
        self._runner = runner
        self._tables = Memo(partial(_placement_tables, runner))

    def make_ready(self, replay: RedirectedReplay) -> None:
        """Upload what the selectors look at, if it is not there yet."""
        self._tables.of(replay)

    def shared_places(self, replay: RedirectedReplay) -> SharedPlaces:
        """Places that a kernel takes wherever there are so many."""
        return self._tables.of(replay).shared

    def count(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes
    ) -> Integers:
        """Events in each pass, int64[n, passes, 9], of instances that run a kernel each."""
        events = np.empty((len(kernel), replays[0].passes, EVENTS), dtype=np.int64)
        for chunk in self._runner.chunks(self._bytes(replays, kernel, fault_maps, 0)):
            placed, there = self._place(replays, kernel[chunk, None], fault_maps[chunk], False)
            events[chunk] = self._runner.device.download(there)[placed.slice_of[:, 0]]
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
        passes, entries = replays[0].passes, fault_maps.shape[1]
        more = passes * (4 * (entries + 1) + 8 * EVENTS) + more_bytes
        each = _ARRIVAL_AND_OCCUPANT_BYTES
        of_turns = self._bytes(replays, kernel, fault_maps, each) + more * (kernel >= 0)
        for chunk in self._runner.chunks(of_turns.sum(axis=1)):
            yield chunk, self._place(replays, kernel[chunk], fault_maps[chunk], True)[0]

    def _bytes(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes, each: int
    ) -> Integers:
        """Bytes of the homes of slices, and `each` for a residency besides: as `kernel`."""
        of_kernel = np.zeros(1 + len(replays), dtype=np.int64)  # the last: of kernel -1
        for number in np.unique(kernel[kernel >= 0]):
            of_kernel[number] = self._tables.of(replays[number]).residencies
        of_residencies = replays[0].passes * (_HOME_BYTES + each) * of_kernel
        of_slices: Integers = fault_maps.shape[1] + of_residencies[kernel]
        return of_slices

    def _place(
        self, replays: Sequence[RedirectedReplay], kernel: Integers, fault_maps: Bytes, wanted: bool
    ) -> tuple[Occupants, Any]:
        """Run the selectors; return occupants, if they are ``wanted``, and events.

        A warp places slices of the same kernel. The longest begin first.
        """
        device, passes, entries = self._runner.device, replays[0].passes, fault_maps.shape[1]
        (which,) = np.nonzero(kernel.ravel() >= 0)
        if not len(which):
            nobody = device.empty((1, 4), np.int32)
            there = device.upload(fault_maps), passes, nobody, nobody, nobody
            return Occupants(kernel.astype(np.int32), *there), nobody
        numbers, place = np.unique(kernel.ravel()[which], return_inverse=True)
        tables = [self._tables.of(replays[number]) for number in numbers]
        operations = np.array([of_kernel.operations for of_kernel in tables])
        order = np.lexsort((place, -operations[place]))
        slices, place, which = len(order), place[order], which[order]
        slice_of = np.full(kernel.shape, -1, dtype=np.int32)
        slice_of.flat[which] = np.arange(slices)
        residencies = np.array([of_kernel.residencies for of_kernel in tables])
        end = np.cumsum(passes * residencies[place])
        groups = groups_of(passes, place, residencies)
        rows = int(groups[-1, 0] + residencies[place[-1]])
        kernels, runs, groups_there, map_of, maps = device.upload_together(
            np.stack([of_kernel.words for of_kernel in tables]),
            runs_of(end - passes * residencies[place], place, residencies[place]),
            groups,
            (which // kernel.shape[1]).astype(np.int32),
            fault_maps,
        )
        program = cuda_programs.place_program(replays[0].technique, replays[0].geometry)
        events = device.empty((slices, passes, EVENTS), np.int64)
        homes = device.empty((rows, _LANES), np.uint16)
        arrivals = device.empty((rows if wanted else 1, _LANES), np.uint64)
        arrived = device.empty((slices * passes,), np.int32)
        given = map_of, maps, np.int32(passes), np.int32(wanted)
        results = arrivals, arrived, events
        self._runner.launch(
            program, "place", len(groups), _LANES, kernels, groups_there, *given, homes, *results
        )
        starts = device.empty((slices * passes if wanted else 1, entries + 1), np.int32)
        occupants = device.empty((int(end[-1]) if wanted else 1, 4), np.int32)
        if wanted:
            warps = min(_LANES, _SHARED_COUNTS // entries)
            self._runner.launch(
                program,
                "sort_occupants",
                (len(groups), -(-_LANES // warps)),
                _LANES * warps,
                *(kernels, groups_there, runs, np.int32(passes), arrivals, arrived),
                *(starts, occupants),
            )
        return Occupants(slice_of, maps, passes, runs, starts, occupants), events


def groups_of(passes: int, place: Integers, residencies: Integers) -> Integers:
    """Slices in passes that a warp takes together, as ``Group`` of the kernels: int64[groups, 3].

    Parameters
    ----------
    passes : int
        Passes of each slice.
    place : int64[slices]
        Number of its kernel among the tables of the launch; slices of a kernel are neighbours.
    residencies : int64[kernels]
        Residencies of each kernel.
    """
    begins = np.flatnonzero(np.diff(place, prepend=-1))
    first = np.append(begins, len(place)) * passes
    number = -(-np.diff(first) // _LANES)
    run = np.repeat(np.arange(len(begins)), number)  # of slices that are neighbours
    start = first[run] + _LANES * (
        np.arange(len(run)) - np.repeat(np.cumsum(number) - number, number)
    )
    of_kernel = place[begins][run]
    groups = np.empty((len(run), 3), dtype=np.int64)
    groups[:, 0] = np.cumsum(residencies[of_kernel]) - residencies[of_kernel]
    groups[:, 1] = start
    halves = groups.view(np.int32)
    halves[:, 4], halves[:, 5] = of_kernel, np.minimum(_LANES, first[run + 1] - start)
    return groups


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
# For redirecting techniques `kernels/place.cu` makes the same tables.

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
        schedule, entries = replay.schedule, replay.geometry.entries
        arrays = self._upload_columns(columns(schedule, residencies_of_writes(schedule)[0]))
        orbits = np.full(entries, replay.passes, dtype=np.int32)
        periods = np.full(entries, replay.schedule.cycles, dtype=np.uint64)
        of_entries = self.runner.shared(orbits), self.runner.shared(periods)
        return self._tables((*arrays, *of_entries), schedule)

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
        occupants = Occupants(alone, None, most_orbits, runs, starts, rows)
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
