"""A prepared replay as the kernels take it: tables of integers, the same for every instance."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.engines.cuda_engine.programs import row_bits
from mcage.geometry import repeated_components
from mcage.replays.prepare import RedirectedReplay
from mcage.replays.schedule import DEATH, Schedule
from mcage.replays.stored_values import StoredValues
from mcage.traces.model import ALLOC, RELEASE, WRITE

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


def columns(schedule: Schedule, order: NDArray[np.int64]) -> Columns:
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


def forms(stored_values: StoredValues) -> NDArray[np.int64]:
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
    reads_after: NDArray[np.int64]
    cycles: NDArray[np.int64]
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


def _words(schedule: Schedule, begins: NDArray[np.bool_]) -> NDArray[np.int64]:
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
