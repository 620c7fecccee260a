"""What all batches of a technique share on a device: residencies, duty cycles, compiled kernels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Memo
from mcage.engines.cuda_engine.placement import forms
from mcage.engines.cuda_engine.programs import (
    STRESS_SOURCES,
    Program,
    Runner,
    residencies_program,
    stress_program,
)
from mcage.engines.interface import check_writes
from mcage.engines.stress import FaultFreeDuties
from mcage.geometry import COMPONENT_BITS, MOST_COMPONENTS, Integers, Words, repeated_components
from mcage.replays.prepare import PreparedReplay, RedirectedReplay

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


DutiesOnDevice = Memo[FaultFreeDuties, DeviceDuties]
"""Duty cycles of the techniques that a device is asked for."""


def duties_on(runner: Runner) -> DutiesOnDevice:
    """Duty cycles on a device, uploaded once."""

    def upload(duties: FaultFreeDuties) -> DeviceDuties:
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
        Of every write of a trace, residency after residency: cycles that its value counts (low and
        high half), row of `contents`, form (`mcage.engines.cuda_engine.placement.forms`).
    write_cycle : int64[writes]
        When it happens.
    residency_of : int32[writes]
        Its residency; 0 for one in the compression table.
    contents, masks : uint32[n, 64]
        Those of `mcage.replays.stored_values`, `repeated_components`.
    residencies : int64[residencies, 4]
        Start and end in cycles; first write and the number after the last, in halves; whether some
        write leaves cells as they were.
    with_sums : int
        So many of them, the first, may have sums: those that write all of their entry.
    first_write, count_of_kernel : int64[kernels]
        Number of each kernel's first write; how many residencies it has.
    """

    writes: NDArray[np.int32]
    write_cycle: Integers
    residency_of: NDArray[np.int32]
    contents: NDArray[np.uint32]
    masks: NDArray[np.uint32]
    residencies: Integers
    with_sums: int
    first_write: Integers
    count_of_kernel: Integers


@dataclass(frozen=True, eq=False)
class DeviceResidencies:
    """`HostResidencies` and their sums on a device.

    Attributes
    ----------
    table : uint64[11] on the device
        `Residencies` of `kernels/stress.cuh`: addresses of the arrays, and their sizes.
    first_write, count_of_kernel : int64[kernels]
        As in `HostResidencies`.
    wide : bool
        Whether cycles of a pass exceed 32 bits.
    arrays : tuple
        What the addresses point to.
    """

    table: Any
    first_write: Integers
    count_of_kernel: Integers
    wide: bool
    arrays: tuple[Any, ...]


def device_residencies(
    runner: Runner, replays: tuple[PreparedReplay, ...], passes: int
) -> DeviceResidencies:
    """Upload the residencies of a technique, and sum up what they show."""
    host, device = host_residencies(replays), runner.device
    wide = max(replay.schedule.cycles for replay in replays) >= 1 << 32
    cycles = np.dtype(np.uint64 if wide else np.uint32)
    count = len(host.residencies)
    writes = runner.shared(host.writes)
    contents = runner.shared(host.contents)
    residencies = runner.shared(host.residencies.view(np.int32))
    affordable = device.free_bytes() // (_PART_OF_MEMORY * _CELLS * cycles.itemsize)
    rows = min(host.with_sums, affordable)
    sums = device.empty((max(1, rows), _CELLS), cycles)
    at_most = device.empty((count, 2 * COMPONENT_BITS), cycles)
    last = device.empty((count, 2), np.uint32)
    runner.launch(
        residencies_program(replays[0].geometry, wide),
        "sum_residencies",
        count,
        MOST_COMPONENTS,
        *(writes, contents, residencies, np.int32(rows), sums, at_most, last),
    )
    arrays = (
        writes,
        contents,
        runner.shared(host.masks),
        runner.shared(host.write_cycle),
        runner.shared(host.residency_of),
        residencies,
        sums,
        at_most,
        last,
    )
    addresses = [device.address(array) for array in arrays]
    table = runner.shared(np.array([*addresses, rows, passes], dtype=np.uint64))
    return DeviceResidencies(table, host.first_write, host.count_of_kernel, wide, arrays)


def host_residencies(replays: tuple[PreparedReplay, ...]) -> HostResidencies:
    """Number the residencies of a technique on several kernels through; those with sums first."""
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
    # Those of many writes first: they gain most by sums.
    rank = np.concatenate([part.sums_save for part in parts])
    order = np.argsort(-rank, kind="stable")
    number = np.zeros(len(order) + 1, dtype=np.int32)  # the last: no residency
    number[order] = np.arange(len(order))
    residency_of = [
        np.where(part.residency_of < 0, -1, part.residency_of + first)
        for part, first in zip(parts, first_residency, strict=False)
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
        with_sums=int((rank > 0).sum()),
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
        order = np.argsort(schedule.residency_first, kind="stable")
        first = schedule.residency_first[order]
        held = (schedule.end_cycle - schedule.cycle)[order]
        self.write_cycle = schedule.cycle[order]
        self.contents = repeated_components(stored_values.contents, axis=1)
        self.masks = repeated_components(stored_values.masks[1:], axis=1)
        self.writes = np.zeros((len(order), 4), dtype=np.int32)
        self.writes[:, :2] = held.astype("<i8").view("<i4").reshape(-1, 2)
        self.writes[:, 2] = stored_values.image[order]
        self.writes[:, 3] = forms(stored_values)[order]

        begins = np.diff(first, prepend=-1) != 0
        in_table = schedule.in_table[order]
        stays = np.flatnonzero(begins & ~in_table)
        ends = np.searchsorted(first, first[stays], side="right")
        self.residency_of = np.where(in_table, -1, np.cumsum(begins & ~in_table) - 1)
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
    cycles : uint64[kernels]
        Cycles of a pass of each kernel.
    duties : DeviceDuties
        Fault-free duty cycles.
    """

    epoch_log: Program
    most_stressed: Program
    tracked_cells: Program
    residencies: DeviceResidencies
    passes: int
    cycles: Words
    duties: DeviceDuties


TablesOfDuties = Memo[FaultFreeDuties, StressTables]
"""Tables of the techniques that a device is asked for."""


def tables_on(runner: Runner, device_duties: DutiesOnDevice) -> TablesOfDuties:
    """Tables on a device, each made once."""
    return Memo(lambda duties: _tables(runner, duties, device_duties.of(duties)))


def _tables(runner: Runner, duties: FaultFreeDuties, on_device: DeviceDuties) -> StressTables:
    first, *_ = duties.replays
    passes = first.passes if isinstance(first, RedirectedReplay) else 1
    residencies = device_residencies(runner, duties.replays, passes)
    epoch_log, most_stressed, tracked_cells = (
        stress_program(source, first.technique, first.geometry, residencies.wide)
        for source in STRESS_SOURCES
    )
    return StressTables(
        epoch_log=epoch_log,
        most_stressed=most_stressed,
        tracked_cells=tracked_cells,
        residencies=residencies,
        passes=passes,
        cycles=np.array([replay.schedule.cycles for replay in duties.replays], dtype=np.uint64),
        duties=on_device,
    )
