"""Stress times on a device, without a sum for every cell.

Of an epoch the log of a device keeps which residencies lived in each entry, and bounds say for how
long any cell can have held '0' or '1'. Cells are summed up where the bounds leave open which of
them is the most stressed; tracked cells are summed up for themselves.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mcage.aging.nbti.models import Facelift
from mcage.aging.transistors import LEAST_RECOVERY, AdditiveShift
from mcage.aging.vmin import CellFailure
from mcage.compiled import compiled
from mcage.concurrency import Memo
from mcage.engines import stress
from mcage.engines.cuda_engine import programs as cuda_programs
from mcage.engines.cuda_engine.devices import Download
from mcage.engines.cuda_engine.walk import Occupants, Walk, forms, groups_of, rows_of
from mcage.engines.interface import check_writes
from mcage.geometry import (
    COMPONENT_BITS,
    MOST_COMPONENTS,
    Booleans,
    Bytes,
    Floats,
    Integers,
    SliceGeometry,
    Words,
    repeated_components,
)
from mcage.replays.outcome import free_places, may_share
from mcage.replays.prepare import PreparedReplay, RedirectedReplay
from mcage.replays.schedule import residencies_of_writes

# Data of a technique on a device, for all batches: residencies, duty cycles, compiled kernels.

# Fault-free duty cycles on a device.


@dataclass(frozen=True, eq=False)
class DeviceDuties:
    """Fault-free duty cycles of a technique on k kernels, on a device.

    Attributes
    ----------
    duties : float64[2, k, entries, 32, 64]
        At '0' and at '1': entry, bit, component; components are repeated until there are 64.
    most : float64[2, k, entries, 32]
        Those of any component at most.
    skylines : tuple of float64[k, n]
        Of the cells of which one is the most stressed, at '0' and at '1'.
    """

    duties: Any
    most: Any
    skylines: tuple[Any, Any]


DutiesOnDevice = Memo[stress.FaultFreeDuties, DeviceDuties]
"""Duty cycles of the techniques that a device is asked for."""


def duties_on(runner: cuda_programs.Runner) -> DutiesOnDevice:
    """Duty cycles on a device, uploaded once."""

    def upload(duties: stress.FaultFreeDuties) -> DeviceDuties:
        geometry = duties.replays[0].geometry
        shape = (2, -1, geometry.entries, geometry.components, COMPONENT_BITS)
        both = np.stack(
            [each.cycles / each.period[:, None] for each in (duties.at_zero, duties.at_one)]
        ).reshape(shape)
        of_components = repeated_components(both, axis=3)
        return DeviceDuties(
            duties=runner.shared(np.ascontiguousarray(of_components.swapaxes(3, 4))),
            most=runner.shared(both.max(axis=3)),
            skylines=(
                runner.shared(duties.at_zero.skyline.duty),
                runner.shared(duties.at_one.skyline.duty),
            ),
        )

    return Memo(upload)


# Residencies of a technique on all kernels, on a device: what each of them shows.
#
# A residency is what one register writes into one home. No fault map changes what it shows, and for
# how long: its cycles are summed up once, and an epoch only says where it lived.

_CELLS = COMPONENT_BITS * MOST_COMPONENTS
_PART_OF_MEMORY = 4
"""Sums take a quarter of the free memory at most; residencies of few writes do without first."""

MOST_WRITES = 1 << 28
"""Writes, and therefore residencies, that a code of the log can name (`kernels/stress.cuh`)."""


@dataclass(frozen=True, eq=False)
class HostResidencies:
    """Residencies of several kernels, writes and contents numbered through all of them.

    Attributes
    ----------
    writes : int32[writes, 4]
        Of every write to an entry, residency after residency: cycles that its value counts (low and
        high half), row of `contents`, form (`mcage.engines.cuda_engine.walk.forms`).
    write_cycle : int64[writes]
        When it happens.
    residency_of : int32[writes]
        Its residency.
    contents, masks : uint32[n, 64]
        Those of `mcage.replays.stored_values`, `repeated_components`.
    residencies : int64[residencies, 4]
        Start and end in cycles; first write and the number after the last, in halves; whether some
        write leaves cells as they were.
    first_rows : int64[kernels + 1]
        Those with sums are the first, kernel after kernel, in order of time: where they begin.
    first_write, count_of_kernel : int64[kernels]
        Number of each kernel's first write; how many residencies it has.
    """

    writes: NDArray[np.int32]
    write_cycle: Integers
    residency_of: NDArray[np.int32]
    contents: NDArray[np.uint32]
    masks: NDArray[np.uint32]
    residencies: Integers
    first_rows: Integers
    first_write: Integers
    count_of_kernel: Integers


@dataclass(frozen=True, eq=False)
class DeviceResidencies:
    """`HostResidencies` and their sums on a device.

    Attributes
    ----------
    table : uint64[13] on the device
        `Residencies` of `kernels/stress.cuh`: addresses of the arrays, and their sizes.
    first_write, count_of_kernel : int64[kernels]
        As in `HostResidencies`.
    wide : bool
        Whether cycles of all passes together exceed 32 bits.
    arrays : tuple
        What the addresses point to.
    """

    table: Any
    first_write: Integers
    count_of_kernel: Integers
    wide: bool
    arrays: tuple[Any, ...]


def device_residencies(
    runner: cuda_programs.Runner, replays: tuple[PreparedReplay, ...], passes: int
) -> DeviceResidencies:
    """Upload the residencies of a technique, and sum up what they show."""
    device = runner.device
    wide = cuda_programs.is_wide(passes * max(replay.schedule.cycles for replay in replays))
    cycles = np.dtype(np.uint64 if wide else np.uint32)
    affordable = device.free_bytes() // (_PART_OF_MEMORY * _CELLS * cycles.itemsize)
    host = host_residencies(replays, affordable)
    count, rows = len(host.residencies), host.first_rows[-1]
    writes = runner.shared(host.writes)
    contents = runner.shared(host.contents)
    residencies = runner.shared(host.residencies.view(np.int32))
    sums = device.empty_table((max(1, rows), _CELLS), cycles)
    record_sums = device.empty_table((count, 2 * COMPONENT_BITS), cycles)
    at_most = device.empty_table((count, 2 * COMPONENT_BITS), cycles)
    last = device.empty_table((count, 2), np.uint32)
    runner.launch(
        cuda_programs.residencies_program(replays[0].geometry, wide),
        "sum_residencies",
        count,
        MOST_COMPONENTS,
        *(writes, contents, residencies, np.int32(rows), sums, record_sums, at_most, last),
    )
    arrays = (
        writes,
        contents,
        runner.shared(host.masks),
        runner.shared(host.write_cycle),
        runner.shared(host.residency_of),
        residencies,
        sums,
        record_sums,
        at_most,
        last,
        runner.shared(host.first_rows.astype(np.int32)),
    )
    addresses = [device.address(array) for array in arrays]
    table = runner.shared(np.array([*addresses, rows, passes], dtype=np.uint64))
    return DeviceResidencies(table, host.first_write, host.count_of_kernel, wide, arrays)


def host_residencies(replays: tuple[PreparedReplay, ...], most_rows: int) -> HostResidencies:
    """Number the residencies of a technique on several kernels through; those with sums first.

    No more than `most_rows` have sums: those of many writes, which gain most by them.
    """
    parts = [_Part(replay) for replay in replays]
    first_write = _starts([len(part.write_cycle) for part in parts])
    check_writes(first_write[-1], MOST_WRITES, "cuda")
    first_residency = _starts([len(part.residencies) for part in parts])
    first_image = _starts([len(part.contents) for part in parts])
    first_mask = _starts([len(part.masks) for part in parts])
    for part, write, image, mask in zip(parts, first_write, first_image, first_mask, strict=False):
        part.writes[:, 2] += image
        part.writes[part.writes[:, 3] >= 16, 3] += 16 * mask
        part.residencies.view(np.int32)[:, 4:6] += write
    rank = np.concatenate([part.sums_save for part in parts])
    most_writes = np.argsort(-rank, kind="stable")[: min(most_rows, int((rank > 0).sum()))]
    has_sums = np.zeros(len(rank), dtype=bool)
    has_sums[most_writes] = True
    order = np.argsort(~has_sums, kind="stable")
    number = np.empty(len(order), dtype=np.int32)
    number[order] = np.arange(len(order))
    residency_of = [
        part.residency_of + first for part, first in zip(parts, first_residency, strict=False)
    ]
    whole = np.full((1, MOST_COMPONENTS), 0xFFFF_FFFF, dtype=np.uint32)
    residencies = np.concatenate([part.residencies for part in parts])[order]
    return HostResidencies(
        writes=np.concatenate([part.writes for part in parts]),
        write_cycle=np.concatenate([part.write_cycle for part in parts]),
        residency_of=number[np.concatenate(residency_of)],
        contents=np.concatenate([part.contents for part in parts]),
        masks=np.concatenate([whole, *(part.masks for part in parts)]),
        residencies=residencies if len(order) else np.zeros((1, 4), dtype=np.int64),
        first_rows=np.append(0, np.cumsum(has_sums))[first_residency],
        first_write=first_write[:-1],
        count_of_kernel=np.diff(first_residency),
    )


class _Part:
    """Writes and residencies of one kernel, numbered from 0; `masks` without that of all cells.

    `sums_save` is how many writes a residency's sums stand for, 0 where they do not say everything,
    or no more than its only write does.
    """

    def __init__(self, replay: PreparedReplay) -> None:
        schedule, stored_values = replay.schedule, replay.schedule.stored_values
        order, self.residency_of = residencies_of_writes(schedule)
        held = (schedule.end_cycle - schedule.cycle)[order]
        self.write_cycle = schedule.cycle[order]
        self.contents = repeated_components(stored_values.contents, axis=1)
        self.masks = repeated_components(stored_values.masks[1:], axis=1)
        self.writes = np.zeros((len(order), 4), dtype=np.int32)
        self.writes[:, :2] = held.astype("<i8").view("<i4").reshape(-1, 2)
        self.writes[:, 2] = stored_values.image[order]
        self.writes[:, 3] = forms(stored_values)[order]

        stays = np.flatnonzero(np.diff(self.residency_of, prepend=-1))
        ends = np.append(stays, len(order))[1:]
        partial = stored_values.mask[order] > 0
        is_partial = np.add.reduceat(partial, stays) > 0 if len(stays) else partial[:0]
        self.residencies = np.zeros((len(stays), 4), dtype=np.int64)
        self.residencies[:, 0] = self.write_cycle[stays]
        self.residencies[:, 1] = (self.write_cycle + held)[ends - 1]
        halves = self.residencies.view(np.int32)
        halves[:, 4], halves[:, 5], halves[:, 6] = stays, ends, is_partial
        count = ends - stays
        says_all = ~stored_values.is_record[order][stays] & ~is_partial
        worthwhile = (count > 1) | (not replay.technique.borrows)
        self.sums_save = count * (says_all & worthwhile)


def _starts(counts: list[int]) -> Integers:
    return np.cumsum([0, *counts])


@dataclass(frozen=True, eq=False)
class StressTables:
    """Kernels and tables of a technique on a device.

    Attributes
    ----------
    epoch_log, most_stressed, tracked_cells : Program
        The files of these names in `kernels/`.
    residencies : DeviceResidencies
        Residencies of all kernels.
    passes : int
        Passes of each kernel.
    gated : bool
        Whether places are off once their values are gone.
    cycles : uint64[kernels]
        Cycles of a pass of each kernel.
    duties : DeviceDuties
        Fault-free duty cycles.
    shared : SharedTimes
        Cell times in places that slices share.
    """

    epoch_log: cuda_programs.Program
    most_stressed: cuda_programs.Program
    tracked_cells: cuda_programs.Program
    residencies: DeviceResidencies
    passes: int
    gated: bool
    cycles: Words
    duties: DeviceDuties
    shared: "SharedTimes"


TablesOfDuties = Memo[stress.FaultFreeDuties, StressTables]
"""Tables of the techniques that a device is asked for."""


def tables_on(walk: Walk, device_duties: DutiesOnDevice) -> TablesOfDuties:
    """Tables on a device, each made once."""
    return Memo(lambda duties: _tables(walk, duties, device_duties.of(duties)))


def _tables(walk: Walk, duties: stress.FaultFreeDuties, on_device: DeviceDuties) -> StressTables:
    runner, (first, *_) = walk.runner, duties.replays
    passes = first.passes if isinstance(first, RedirectedReplay) else 1
    residencies = device_residencies(runner, duties.replays, passes)
    epoch_log, most_stressed, tracked_cells = (
        cuda_programs.stress_program(source, first.technique, first.geometry, residencies.wide)
        for source in cuda_programs.STRESS_SOURCES
    )
    return StressTables(
        epoch_log=epoch_log,
        most_stressed=most_stressed,
        tracked_cells=tracked_cells,
        residencies=residencies,
        passes=passes,
        gated=first.technique.gates_released,
        cycles=np.array([replay.schedule.cycles for replay in duties.replays], dtype=np.uint64),
        duties=on_device,
        shared=SharedTimes(walk, duties.replays, np.uint64 if residencies.wide else np.uint32),
    )


class SharedTimes:
    """Cell times of kernels in places that slices share, each made once; for all threads.

    Parameters
    ----------
    walk : Walk
        The device.
    replays : sequence of PreparedReplay
        A technique on several kernels.
    cycles : type
        Of sums of cycles on the device.
    """

    def __init__(
        self, walk: Walk, replays: Sequence[PreparedReplay], cycles: type[np.unsignedinteger]
    ) -> None:
        first = replays[0]
        self._walk, self._cycles, self._geometry = walk, cycles, first.geometry
        redirected = [each for each in replays if isinstance(each, RedirectedReplay)]
        self._replays = redirected if may_share(first.technique, first.geometry) else []
        self.places = first.geometry.entries * first.geometry.blocks
        """Places of a slice."""
        self._times = Memo(self._make)

    def are_in(self, kernel: Integers, fault_maps: Bytes) -> Booleans:
        """Which slices take shared places: int64[n, turns], uint8[n, entries] to bool[n, turns]."""
        if not self._replays:
            return np.zeros(kernel.shape, dtype=bool)
        (sound, reliable), (in_blocks, whole) = free_places(fault_maps, self._geometry), self._taken
        enough: Booleans = sound[:, None] >= in_blocks[kernel]
        enough &= reliable[:, None] >= whole[kernel]
        return enough

    @cached_property
    def _taken(self) -> Integers:
        """Most blocks, and most entries, that each kernel takes at a time: int64[2, kernels]."""
        places = [self._walk.placement.shared_places(replay) for replay in self._replays]
        return np.array([(each.in_blocks, each.whole) for each in places]).T

    def words(self, kernels: Integers) -> Words:
        """Cell times of kernels as `SharedTimes` of `kernels/stress.cuh`: uint64[k, 4]."""
        words = [self._times.of(self._replays[number])[0] for number in kernels]
        return np.array(words, dtype=np.uint64).reshape(-1, 4)

    def _make(self, replay: RedirectedReplay) -> tuple[list[int], list[Any]]:
        """Replay a kernel on its own map; it has one, since there are maps with enough places."""
        places, upload = self._walk.placement.shared_places(replay), self._walk.runner.shared
        if places.fault_map is None:
            raise ValueError("no slice has so many places")
        ((ones, powered),) = self._walk.redirected_times(
            (replay,), np.zeros(1, dtype=np.int64), places.fault_map[None]
        )
        ones, powered = places.by_place(ones), places.by_place(powered)
        most = np.stack([(powered - ones).max(axis=2), ones.max(axis=2)])
        arrays = [
            upload(np.ascontiguousarray(cycles, self._cycles)) for cycles in (ones, powered, most)
        ]
        return [*map(self._walk.runner.device.address, arrays), places.faulty], arrays


# Tracked cells on a device: their times, which of them fail, how many have shifted how far.

_TRACKED_SECONDS_THREADS = 256

_WORDS = 5
"""Words of 64 bits of a cell that fails, as `kernels/shifts.cu` lists them."""

_AT_FIRST = 1024
"""Cells that fail which come back with their number; more are asked for."""

_Latest = tuple[tuple[Integers, Integers, Floats], tuple[Any, Any, Any]]
"""Tracked cells and Vmin of a batch, and the same on a device."""

_MOST_BINS = 4096
"""Bins of which two rows fit into the shared memory of a block."""


class CudaTrackedSeconds(stress.TrackedSeconds):
    """Seconds of tracked cells on a device: only those of cells that fail come back, and counts.

    Shifts of models other than `facelift`, of pull-downs and of margins are worked out on the host.

    Parameters
    ----------
    runner : Runner
        The device.
    geometry : SliceGeometry
        The slice.
    tracked, instances
        As for `TrackedSeconds`.
    """

    def __init__(
        self,
        runner: cuda_programs.Runner,
        geometry: SliceGeometry,
        tracked: stress.TrackedCells,
        instances: int,
    ) -> None:
        super().__init__(tracked, instances)
        self._runner, self._geometry = runner, geometry
        self._shift: tuple[AdditiveShift, Any, tuple[Any, ...]] | None = None

    # Memory is taken with the first epoch.

    @cached_property
    def _cells(self) -> tuple[Any, Any, Any]:
        """Instances, and numbers as if each entry had 64 components; Vmin of the tail.

        Lives of the same slices under several techniques follow one another in a thread: what is
        there of the latest is taken again.
        """
        arrays = self._tracked.instance, self._tracked.cell, self._tracked.vmin_volts
        latest: _Latest | None = getattr(self._runner.of_thread, "cells", None)
        if latest is None or any(a is not b for a, b in zip(latest[0], arrays, strict=True)):
            latest = arrays, self._upload_cells()
            self._runner.of_thread.cells = latest
        return latest[1]

    def _upload_cells(self) -> tuple[Any, Any, Any]:
        narrow = np.empty((2, max(1, self.count)), dtype=np.int32)  # on a device: one at least
        of_entry = self._geometry.entry_bits, MOST_COMPONENTS * COMPONENT_BITS
        _number_cells(self._tracked.instance, self._tracked.cell, *of_entry, narrow)
        both, vmin = self._runner.device.upload_together(narrow, self._tracked.vmin_volts)
        return both[0], both[1], vmin

    @cached_property
    def seconds(self) -> tuple[Any, Any]:
        """Seconds at the starts and at the ends of the latest epochs: two times float64[2, n]."""
        both = self._runner.device.zeros((2, 2, max(1, self.count)), np.float64)
        return both[0], both[1]

    @property
    def now(self) -> Floats:
        """See `TrackedSeconds.now`; a copy."""
        return self._runner.device.download(self.seconds[1])[:, : self.count]

    def begin_epoch(self, instances: Integers) -> None:
        """See `TrackedSeconds.begin_epoch`; what adds the epoch keeps what was before."""

    @override
    def of(self, places: Integers) -> stress.CellSeconds:
        self._fetch()
        return super().of(places)

    def _fetch(self) -> None:
        coming = [self._runner.device.begin_download(seconds) for seconds in self.seconds]
        self._before, self._now = (seconds.result()[:, : self.count] for seconds in coming)

    def cells_of(self, runs: Any, turns: int) -> tuple[Any, ...]:
        """Arguments of a kernel that adds an epoch: data of the instances, and the cells.

        Parameters
        ----------
        runs : uint8[instances] on the device
            Who runs.
        turns : int
            Turns of the epoch.
        """
        instance, cell, _ = self._cells
        return (runs, np.int32(turns), instance, cell, np.int32(self.count), *self.seconds)

    def among(self, instances: Integers) -> Bytes:
        """Whether each instance is one of some: uint8[instances]."""
        return self._among(instances).view(np.uint8)

    @property
    def count(self) -> int:
        """Number of the cells."""
        return len(self._tracked.cell)

    def turns_of(
        self, instances: Integers, kernel: Integers, seconds: Floats
    ) -> tuple[NDArray[np.int32], Floats]:
        """Kernels that all instances of the batch run, turn by turn.

        Parameters
        ----------
        instances, kernel, seconds : int64[m], int64[m, turns], float64[m, turns]
            Those that run, their kernels, and for how long.

        Returns
        -------
        int32[turns, instances], float64[turns, instances]
            Kernels, -1 where an instance does not run, and seconds.
        """
        shape = kernel.shape[1], self._instances
        kernel_of, seconds_of = np.full(shape, -1, dtype=np.int32), np.zeros(shape)
        kernel_of[:, instances], seconds_of[:, instances] = kernel.T, seconds.T
        return kernel_of, seconds_of

    def cells_without_faults(self, kernel_of: Any, seconds_of: Any) -> tuple[Any, ...]:
        """As `cells_of`, of instances without faults: their turns as `turns_of`, on the device."""
        turns, instances = (np.int32(size) for size in kernel_of.shape)
        return (kernel_of, seconds_of, turns, instances, *self._cells[:2], np.int32(self.count))

    @override
    def failing(
        self, instances: Integers, age: Floats, shift: AdditiveShift, failure: CellFailure
    ) -> tuple[Integers, stress.CellSeconds]:
        if not _is_plain(shift, failure):
            return super().failing(instances, age, shift, failure)
        device, tail = self._runner.device, self._tracked.tail
        ages = np.full(self._instances, -1.0)
        ages[instances] = age
        listed = device.zeros((1 + tail, _WORDS), np.uint64)
        instance, _, vmin = self._cells
        ages_there, sound, coefficients = device.upload_together(
            ages, self._sound.view(np.uint8), failure.coefficients
        )
        if tail:
            self._runner.launch(
                cuda_programs.SHIFTS,
                "list_failing",
                -(-tail // _TRACKED_SECONDS_THREADS),
                _TRACKED_SECONDS_THREADS,
                self._shift_on_device(shift),
                ages_there,
                instance,
                vmin,
                sound,
                np.int32(tail),
                np.int32(self.count),
                *self.seconds,
                coefficients,
                np.int64(len(failure.coefficients) > 1),
                np.float64(failure.lowest_vdd_volts),
                listed,
            )
        rows = device.download(listed[: 1 + _AT_FIRST])
        count = int(rows[0, 0])
        if count > _AT_FIRST:
            rows = device.download(listed[: 1 + count])
        rows = rows[1 : 1 + count]
        rows = rows[np.argsort(rows[:, 0])]
        seconds = rows[:, 1:].T.copy().view(np.float64)
        return rows[:, 0].astype(np.int64), stress.CellSeconds(seconds[:2], seconds[2:])

    @override
    def sampled_dvth(
        self, instances: Integers, moments: stress.Moments, shift: AdditiveShift
    ) -> Floats:
        self._fetch()
        return super().sampled_dvth(instances, moments, shift)

    @override
    def histogram(
        self, instances: Integers, moments: stress.Moments, shift: AdditiveShift, bins: int
    ) -> Integers:
        if type(shift.nbti) is not Facelift or bins > _MOST_BINS:
            return super().histogram(instances, moments, shift, bins)
        device, cells = self._runner.device, self.count
        counts = device.zeros((2, bins), np.uint64)
        moment = device.upload_together(instances.astype(np.int32), moments.part, moments.age)
        if len(instances):
            self._runner.launch(
                cuda_programs.SHIFTS,
                "count_shifts",
                len(instances),
                _TRACKED_SECONDS_THREADS,
                self._shift_on_device(shift),
                *moment,
                np.int64(cells - self._instances * self._tracked.sampled),
                np.int32(self._tracked.sampled),
                np.int32(cells),
                *self.seconds,
                np.float64(stress.BINS_PER_VOLT),
                np.int32(bins),
                counts,
                shared_bytes=2 * bins * 4,
            )
        return device.download(counts).astype(np.int64)

    def _shift_on_device(self, shift: AdditiveShift) -> Any:
        """`Shift` of `kernels/shifts.cu`."""
        if self._shift is None or self._shift[0] is not shift:
            device, rates = self._runner.device, shift.of_facelift
            arrays = device.upload_together(*rates)
            words = np.zeros(9, dtype=np.uint64)
            words[:4] = [device.address(array) for array in arrays]
            words[4:8] = [len(of_instances) > 1 for of_instances in rates]
            words[8:].view(np.float64)[:] = LEAST_RECOVERY
            self._shift = shift, device.upload(words), arrays
        return self._shift[1]


def _is_plain(shift: AdditiveShift, failure: CellFailure) -> bool:
    """Whether cells fail by shifts of `facelift` in T0 and T1 alone, which kernels know.

    A model derived from it may have another formula.
    """
    plain = shift.pull_downs is None and failure.margins is None
    return plain and type(shift.nbti) is Facelift


@compiled
def _number_cells(
    instance: Integers, cell: Integers, entry_bits: int, stride: int, narrow: NDArray[np.int32]
) -> None:
    """Fill in instances, and numbers of cells whose entries are so far apart: int32[2, n]."""
    for place in range(len(cell)):
        number = cell[place]
        narrow[0, place] = instance[place]
        narrow[1, place] = number // entry_bits * stride + number % entry_bits


# History of instances on a device: occupants of entries, and bounds of cells.

_EPOCHS = 8
"""Epochs of an instance, turns and all, for which there is space at first."""

_EPOCH_WORDS = 7
"""Words of 64 bits of `Epoch` in `kernels/stress.cuh`."""

_WARP, _THREADS, _PARTS = 32, 256, 4
"""Threads of a block; blocks that share the entries of a slice."""


class EpochLog:
    """Epochs of the lives of instances that have separate times, turn after turn.

    Parameters
    ----------
    runner : Runner
        The device.
    tables : StressTables
        The technique there.
    instances : int
        Size of the batch.
    turns : int
        Turns of the first epoch.
    """

    def __init__(
        self, runner: cuda_programs.Runner, tables: StressTables, instances: int, turns: int
    ) -> None:
        device, self._entries = runner.device, int(tables.duties.most.shape[2])
        self._runner, self._device, self._tables = runner, device, tables
        self._places = self._entries * COMPONENT_BITS
        self._epochs = np.zeros(instances, dtype=np.int64)
        self._scale = np.zeros((instances, turns))
        self._kernel = np.zeros((instances, turns), dtype=np.int64)
        self._most = _EPOCHS * turns
        self._table = device.empty((instances, self._most, _EPOCH_WORDS), np.uint64)
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
            device.empty((instances, self._places), np.int32),
            device.empty((_KEPT * instances, 2 * MOST_COMPONENTS), np.float64),
            device.empty((_KEPT * instances,), np.int32),
            device.zeros((1,), np.int32),
        )
        self.state = self._upload_state()
        """`State` of `kernels/stress.cuh` on the device."""

    def _upload_state(self) -> Any:
        addresses = [self._device.address(array) for array in (self._table, *self._arrays)]
        row = [*addresses, self._most, len(self._tables.cycles), _KEPT * len(self._epochs)]
        return self._device.upload(np.array(row, dtype=np.uint64))

    def begin(self, instances: Integers, mixtures: Floats) -> None:
        """Let instances begin with the seconds that they have run each kernel: float64[m, k]."""
        mixed, among = self._device.upload_together(mixtures, instances.astype(np.int32))
        blocks = len(instances), 2 * self._places // _THREADS
        program = self._tables.epoch_log
        self._runner.launch(program, "begin", blocks, _THREADS, self.state, mixed, among)

    def turn_bytes(self, kernel: Integers) -> int:
        """Bytes that a turn of an instance takes at most, whichever of the kernels it runs."""
        codes = int(self._tables.residencies.count_of_kernel[np.unique(kernel)].max())
        return 4 * self._tables.passes * (2 * codes + self._entries) + 8 * self._entries

    def add(
        self, instances: Integers, kernel: Integers, scales: Floats, occupants: Occupants
    ) -> None:
        """Add an epoch of each of m instances.

        Parameters
        ----------
        instances : int64[m]
            Positions in the batch.
        kernel : int64[m, turns]
            Kernels that they run.
        scales : float64[m, turns]
            Seconds that a cycle of all passes stands for.
        occupants : Occupants
            Those of their slices; those that are not placed are in shared places.
        """
        device, tables = self._device, self._tables
        turns = kernel.shape[1]
        self._epochs[instances] += turns
        if turns > self._scale.shape[1]:
            more = (0, 0), (0, turns - self._scale.shape[1])
            self._scale, self._kernel = np.pad(self._scale, more), np.pad(self._kernel, more)
        self._scale[instances, :turns], self._kernel[instances, :turns] = scales, kernel
        if self._epochs[instances].max() > self._most:
            self._enlarge()
        placed = occupants.slice_of >= 0
        codes = by_pass = device.empty((occupants.occupants.size // 4,), np.uint32)
        if tables.gated:
            by_pass = device.empty(codes.shape, np.uint32)
        slices = int(placed.sum())
        starts = device.empty((max(1, slices), tables.passes * self._entries + 1), np.int32)
        powered = device.empty((max(1, slices), self._entries), np.int64)
        kernels = np.unique(kernel[placed])  # in the order in which `Occupants.runs` counts them
        rows, _ = np.nonzero(~placed)
        in_shared, of_shared = np.unique(kernel[~placed], return_inverse=True)
        slice_of = occupants.slice_of.copy()
        slice_of[~placed] = ~np.arange(len(rows))
        slice_of, first_write, cycles, among, scales_there, shared, shared_kernel, map_of = (
            device.upload_together(
                slice_of,
                rows_of(tables.residencies.first_write[kernels].astype(np.int32)),
                rows_of(tables.cycles[kernels]),
                instances.astype(np.int32),
                np.ascontiguousarray(scales),
                rows_of(tables.shared.words(in_shared)),
                rows_of(of_shared.astype(np.int32)),
                rows_of(rows.astype(np.int32)),
            )
        )
        like = device.empty((max(1, len(rows)), tables.shared.places), np.int16)
        if len(rows):
            self._runner.launch(
                tables.epoch_log,
                "find_alike",
                len(rows),
                _WARP,
                *(shared, shared_kernel, map_of, occupants.maps, like),
            )
        self._kept.append((codes, starts, powered, shared, like))
        blocks = len(instances), _PARTS
        self._runner.launch(
            *(tables.epoch_log, "log_epoch", blocks, _THREADS),
            *(tables.residencies.table, self.state, occupants.runs, slice_of, np.int32(turns)),
            *(first_write, cycles, occupants.starts, occupants.occupants, among, scales_there),
            *(by_pass, codes, starts, powered, shared, shared_kernel, like),
        )

    def groups_of_turn(self, instances: Integers, turn: int) -> tuple[NDArray[np.int32], Integers]:
        """Order of instances by the kernels of a turn of their latest epochs, longest first.

        Returns
        -------
        int32[m], int64[groups, 3]
            Places in `instances`, and `groups_of` them.
        """
        kernel, count = self._kernel[instances, turn], self._tables.residencies.count_of_kernel
        order = np.lexsort((kernel, -count[kernel]))
        return order.astype(np.int32), groups_of(1, kernel[order], count)

    def parts(self, instances: Integers, backs: Floats) -> Floats:
        """Parts of latest epochs that have passed when seconds are taken back: float64[m].

        `backs`, float64[m, turns]: seconds for each cycle of a turn. The turn of which most are
        taken back tells, since a turn may have no share at all.
        """
        most = np.arange(len(backs)), backs.argmax(axis=1)
        back, scale = backs[most], self._scale[instances, most[1]]
        parts = np.ones(len(backs))
        np.divide(back, scale, out=parts, where=back > 0)
        parts[back > 0] = 1 - parts[back > 0]
        return parts

    def _enlarge(self) -> None:
        """Make space for twice as many epochs of each instance."""
        table = np.zeros((len(self._epochs), 2 * self._most, _EPOCH_WORDS), dtype=np.uint64)
        table[:, : self._most] = self._device.download(self._table)
        self._most *= 2
        self._table = self._device.upload(table)
        self.state = self._upload_state()


_KEPT = 256
"""Bits of entries whose cells' seconds are kept, for each instance of a batch on average."""

_ITEM_BYTES, _TRUTH_BYTES = 4, 16
"""Of an open place: its number, and what is known of it while it is bounded."""

_CLOSING_THREADS = 768
"""Threads of a block of `close` (`kernels/most_stressed.cu`)."""

_WARPS, _CELLS_OF_BLOCK = 8, 32
"""Warps of a block; tracked cells of one of `kernels/tracked_cells.cu`."""
_MIXTURES = 4
"""Mixtures of a block that looks for the longest times of some."""
_MOST_SHARED_KERNELS = 1024
"""Kernels whose seconds fit into the shared memory of such a block."""
_GUESSES = 6
"""Places of an instance that are looked at first (`guess` of `kernels/most_stressed.cu`)."""
_WARPS_OF_SLICE, _MOST_BLOCKS = 64, 2112
"""Warps that work out cells: so many for each slice, in so many blocks at most."""


class CudaStress(stress.StressAccumulator):
    """Stress times of instances that may be redirected, on a device.

    Parameters
    ----------
    walk : Walk
        The device, and its selectors.
    duties_there, tables : Memo
        What all batches share there: fault-free duty cycles, and tables of techniques.
    duties, tracked, instances
        As for `StressAccumulator`.
    """

    def __init__(
        self,
        walk: Walk,
        duties_there: DutiesOnDevice,
        tables: TablesOfDuties,
        duties: stress.FaultFreeDuties,
        tracked: stress.TrackedCells,
        instances: int,
    ) -> None:
        self._runner, self._placement = walk.runner, walk.placement
        self._duties_there, self._tables_there = duties_there, tables
        self._tracked_there = CudaTrackedSeconds(
            walk.runner, duties.replays[0].geometry, tracked, instances
        )
        self._places = duties.replays[0].geometry.entries * COMPONENT_BITS
        self._upcoming: list[tuple[Integers, Download]] = []
        super().__init__(duties, tracked, instances)

    # Memory is taken with the first instance that has separate times: often no instance has.

    @cached_property
    def _tables(self) -> StressTables:
        return self._tables_there.of(self._duties)

    @cached_property
    def _log(self) -> EpochLog:
        return EpochLog(self._runner, self._tables, len(self._has_separate_times), self._turns)

    @property
    def longest(self) -> Floats:
        """See `StressAccumulator.longest`; the device is waited for once somebody asks."""
        for whose, longest in self._upcoming:
            self._longest[:, whose] = longest.result().view(np.float64)
        self._upcoming.clear()
        return self._longest

    @longest.setter
    def longest(self, longest: Floats) -> None:
        self._longest = longest

    def _new_tracked_seconds(self) -> CudaTrackedSeconds:
        return self._tracked_there

    @override
    def add(
        self, instances: Integers, turns: stress.Turns, fault_maps: Bytes, seconds: float
    ) -> None:
        self._turns = len(turns)
        super().add(instances, turns, fault_maps, seconds)

    def _begin(self, instances: Integers) -> None:
        """See `StressAccumulator`; `_run_each`, which always follows, adds tracked seconds."""
        self._log.begin(instances, self._mixture[instances])

    def _run_each(
        self, instances: Integers, turns: stress.Turns, fault_maps: Bytes, seconds: float
    ) -> None:
        kernel, scales = turns.kernel, seconds * turns.weight / self._periods[turns.kernel]
        shared = self._tables.shared.are_in(kernel, fault_maps)
        placed = self._placement.occupants(
            self._redirected,
            np.where(shared, -1, kernel),
            fault_maps,
            self._log.turn_bytes(kernel),
        )
        for chunk, occupants in placed:
            self._log.add(instances[chunk], kernel[chunk], scales[chunk], occupants)
        self._track(instances)
        nothing, known = np.zeros(kernel.shape), self.longest[:, instances]
        self._upcoming += self._searches(instances, nothing, known)

    @cached_property
    def _periods(self) -> Integers:
        return np.array([replay.period for replay in self._duties.replays])

    def _separate_longest_earlier(
        self, instances: Integers, turns: stress.Turns, fault_maps: Bytes, seconds: Floats
    ) -> Floats:
        """See `StressAccumulator`; the log has the occupants, and no map is needed."""
        longest = np.zeros((2, len(instances)))
        backs = seconds[:, None] * turns.weight / self._periods[turns.kernel]
        place = np.zeros(len(self._has_separate_times), np.int64)
        place[instances] = np.arange(len(instances))
        for whose, upcoming in list(self._searches(instances, backs, longest.copy())):
            longest[:, place[whose]] = upcoming.result().view(np.float64)
        return longest

    def _searches(
        self, instances: Integers, backs: Floats, known: Floats
    ) -> Iterator[tuple[Integers, Download]]:
        """Longest seconds at '0' and at '1' of any cell at moments of the latest epochs.

        Parameters
        ----------
        instances : int64[m]
            Positions in the batch.
        backs : float64[m, turns]
            Seconds to be taken back for each cycle of a turn of the epoch.
        known : float64[2, m]
            Seconds that some cell reaches.

        Yields
        ------
        int64[n], Download of uint64[2, n]
            Some of the instances, and the bits of the longest seconds of each.
        """
        each = self._places * (_ITEM_BYTES + _TRUTH_BYTES * self._tables.gated)
        for chunk in self._runner.chunks(np.full(len(instances), each)):
            yield instances[chunk], self._search(instances[chunk], backs[chunk], known[:, chunk])

    def _search(self, instances: Integers, backs: Floats, known: Floats) -> Download:
        runner, program, count = self._runner, self._tables.most_stressed, len(instances)
        device, state, guesses = runner.device, self._log.state, _GUESSES * count
        closing = range(backs.shape[1] if self._tables.gated else 0)
        by_kernel: list[NDArray[Any]] = []
        for turn in closing:
            by_kernel += self._log.groups_of_turn(instances, turn)
        among, parts, backs_there, longest, guessed, listed, *groups = device.upload_together(
            instances.astype(np.int32),
            self._log.parts(instances, backs),
            np.ascontiguousarray(backs),
            np.ascontiguousarray(known).view(np.uint64),
            np.array([guesses], dtype=np.int32),
            np.zeros(1, dtype=np.int32),
            *by_kernel,
        )

        tables = self._tables.residencies.table
        turns = np.int32(backs.shape[1])

        def work_out(items: Any, how_many: Any, blocks: int) -> None:
            arrays = tables, state, among, parts, backs_there, longest
            counts = np.int32(count), turns, items, how_many
            runner.launch(program, "work_out", blocks, _THREADS, *arrays, *counts)

        items = device.empty((guesses,), np.uint32)

        def work_out_likely() -> None:
            runner.launch(program, "guess", count, _THREADS, state, among, parts, items)
            work_out(items, guessed, -(-guesses // _WARPS))

        work_out_likely()
        places = device.empty((self._places * count,), np.uint32)
        lists = device.empty((count, COMPONENT_BITS, 2), np.int32)
        runner.launch(
            program,
            "list_open",
            COMPONENT_BITS // _WARPS * count,
            _THREADS,
            *(state, among, parts, longest, np.int32(count), places, lists, listed),
        )
        truths = device.empty((len(places) if closing else 1, 2), np.float64)
        for turn in closing:
            order, of_turn = groups[2 * turn : 2 * turn + 2]
            runner.launch(
                program,
                "close",
                (len(of_turn), COMPONENT_BITS),
                _CLOSING_THREADS,
                *(tables, state, among, of_turn, order, np.int32(turn), turns),
                *(places, lists, truths),
            )
        if closing:
            work_out_likely()  # bounds are tight now, and what is found closes most of the others
        work_out(places, listed, min(_MOST_BLOCKS, _WARPS_OF_SLICE // _WARPS * count))
        return device.begin_download(longest)

    def _track(self, instances: Integers) -> None:
        """Add the latest epoch to the tracked cells of instances."""
        tracked = self._tracked_there
        if tracked.count:
            self._runner.launch(
                self._tables.tracked_cells,
                "track",
                -(-tracked.count // _CELLS_OF_BLOCK),
                _THREADS,
                self._tables.residencies.table,
                self._log.state,
                *tracked.cells_of(
                    self._runner.device.upload(tracked.among(instances)), self._turns
                ),
            )

    def _add_to_mixtures(self, instances: Integers, turns: stress.Turns, seconds: float) -> None:
        lasts, tracked = seconds * turns.weight, self._tracked_there
        for kernel, of_turn in zip(turns.kernel.T, lasts.T, strict=True):
            self._mixture[instances, kernel] += of_turn
        mixtures, *of_turns = self._runner.device.upload_together(
            self._mixture[instances], *tracked.turns_of(instances, turns.kernel, lasts)
        )
        rows, cells = -(-len(instances) // _MIXTURES), -(-tracked.count // _THREADS)
        longest = self._look_at_mixtures(
            "live_without_faults",
            2 * rows + cells,
            mixtures,
            *tracked.cells_without_faults(*of_turns),
            self._duties_there.of(self._duties).duties,
            *tracked.seconds,
        )
        self._upcoming.append((instances, longest))

    def _longest_of_mixtures(self, mixtures: Floats) -> Floats:
        on_device = self._runner.device.upload(mixtures)
        blocks = -(-len(mixtures) // _MIXTURES), 2
        return self._look_at_mixtures("longest_of_mixtures", blocks, on_device).result()

    def _look_at_mixtures(
        self, kernel: str, blocks: int | tuple[int, int], mixtures: Any, *more: Any
    ) -> Download:
        """Longest seconds at '0' and at '1', float64[2, m], of mixtures float64[m, k] there."""
        device, (count, kernels) = self._runner.device, mixtures.shape
        longest = device.empty((2, count), np.float64)
        at_zero, at_one = self._duties_there.of(self._duties).skylines
        self._runner.launch(
            cuda_programs.fault_free_program(self._duties.replays[0].geometry),
            kernel,
            blocks,
            _THREADS,
            *(mixtures, np.int32(count), np.int32(kernels)),
            *(at_zero, np.int32(at_zero.shape[1]), at_one, np.int32(at_one.shape[1])),
            longest,
            *more,
            shared_bytes=8 * min(kernels, _MOST_SHARED_KERNELS) * _MIXTURES,
        )
        return device.begin_download(longest)

    @cached_property
    def _redirected(self) -> tuple[RedirectedReplay, ...]:
        """The replays: only redirection gives instances separate stress times."""
        replays = self._duties.replays
        return tuple(replay for replay in replays if isinstance(replay, RedirectedReplay))
