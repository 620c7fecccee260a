"""How much of a slice is on in a steady pass of a trace: entries that are powered or switched on.

Everything follows from the schedule of a replay; cells are not looked at.

=============  ==============================================================================
gating         on
=============  ==============================================================================
none           the whole slice
unused         entries that any window of the trace covers, all the time; the whole slice
               where rows may live anywhere
idle windows   entries of the windows that are open, from their allocation on
empty          what holds a value, from its first write on; under inline storage also the
               first component of each register of an open window
=============  ==============================================================================
"""

import numpy as np
from numpy.typing import NDArray

from mcage.replays.prepare import FixedReplay, PackedReplay, PreparedReplay
from mcage.replays.schedule import Schedule, writes_of
from mcage.techniques import Gating, Storage, refuse_policy
from mcage.traces.model import ALLOC, RELEASE, WRITE
from mcage.traces.patterns import wc_bytes

BASE_BYTES = 4
"""Bytes of a register that Warped-Compression never switches off: its first component."""


def powered_fractions(schedule: Schedule) -> NDArray[np.float64]:
    """Fraction of an entry that each value keeps on under `empty` gating: float64[writes]."""
    fractions = np.ones(schedule.writes)
    compressed = schedule.compressed
    match schedule.technique.storage:
        case Storage.PLAIN:
            pass
        case Storage.TABLE:
            fractions[compressed] = 0.0
        case Storage.BLOCK:
            fractions[compressed] = 1 / schedule.geometry.blocks
        case Storage.INLINE:
            fractions[compressed] = (
                inline_bytes(schedule)[compressed] / schedule.geometry.entry_bytes
            )
        case unknown:
            refuse_policy(unknown, "the power of stored values")
    return fractions


def _always_on(schedule: Schedule) -> float:
    """Fraction of an entry of an open window that is on without a value."""
    return BASE_BYTES / schedule.geometry.entry_bytes if schedule.technique.stores_inline else 0.0


def switched_on(schedule: Schedule, fractions: NDArray[np.float64]) -> tuple[float, float]:
    """Entries switched on for first values, and for values that follow compressed values.

    A row that gets a new home switches it on; a row that stays in the LDS all its life counts, too.
    """
    technique, windows = schedule.technique, schedule.windows
    match technique.gating:
        case Gating.NONE | Gating.UNUSED:
            return 0.0, 0.0
        case Gating.IDLE_WINDOWS:
            return float(windows.size.sum()), 0.0
        case Gating.EMPTY:
            pass
        case unknown:
            refuse_policy(unknown, "the entries that are switched on")
    if technique.redirects:
        begins = schedule.residency_first == np.arange(schedule.writes)
        return float(fractions[begins].sum()), 0.0
    always_on, first = _always_on(schedule), schedule.first
    previous = writes_of(schedule.trace).previous
    opened = always_on * float(windows.size.sum()) + float(
        (fractions[first] - always_on).clip(0).sum()
    )
    expanded = (fractions - fractions[previous])[~first].clip(0).sum()
    return opened, float(expanded)


def powered_entry_cycles(
    replay: PreparedReplay, fractions: NDArray[np.float64], spilled_row_cycles: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Sum over cycles of the entries that are on: float64[instances].

    Parameters
    ----------
    replay : PreparedReplay
        A technique on a trace.
    fractions : float64[writes]
        From `powered_fractions`.
    spilled_row_cycles : float64[instances]
        Sum over cycles of the rows in the LDS.
    """
    schedule = replay.schedule
    technique, lasting = schedule.technique, schedule.end_cycle - schedule.cycle
    match technique.gating:
        case Gating.NONE | Gating.UNUSED:
            return float(used_entries(replay) * schedule.cycles) + 0 * spilled_row_cycles
        case Gating.IDLE_WINDOWS:
            return _open_entry_cycles(schedule) + 0 * spilled_row_cycles
        case Gating.EMPTY:
            pass
        case unknown:
            refuse_policy(unknown, "the power of entries")
    always_on = _always_on(schedule)
    whole = float(lasting[~schedule.compressed].sum())
    parts = float(lasting[schedule.compressed] @ fractions[schedule.compressed])
    empty = _open_entry_cycles(schedule) - float(lasting.sum())
    # Spilled rows keep nothing on; beyond the uncompressed ones they are compressed, as above.
    beyond = np.maximum(spilled_row_cycles - whole, 0.0)
    spilled = (spilled_row_cycles - beyond) + beyond / schedule.geometry.blocks
    return whole + parts + always_on * empty - spilled


def compressed_entry_cycles(schedule: Schedule, fractions: NDArray[np.float64]) -> float:
    """Sum over cycles of the parts of entries that are off since their values are compressed."""
    if not schedule.technique.gates_empty or schedule.technique.redirects:
        return 0.0
    return float((schedule.end_cycle - schedule.cycle) @ (1 - fractions))


def _open_entry_cycles(schedule: Schedule) -> float:
    """Sum over cycles of the entries of open windows."""
    windows = schedule.windows
    return float((windows.size * (windows.release_cycle - windows.alloc_cycle)).sum())


def used_entries(replay: PreparedReplay) -> int:
    """Entries on under `unused` or no gating; otherwise the most that are in windows at once."""
    technique, schedule = replay.technique, replay.schedule
    if not isinstance(replay, FixedReplay | PackedReplay):
        return replay.geometry.entries
    match technique.gating:
        case Gating.NONE:
            return replay.geometry.entries
        case Gating.IDLE_WINDOWS | Gating.EMPTY:
            return _most_open_entries(schedule)
        case Gating.UNUSED:
            pass
        case unknown:
            refuse_policy(unknown, "the entries in use")
    used = np.zeros(replay.geometry.entries, dtype=bool)
    for starts, size in zip(replay.layout.base.T, schedule.windows.size, strict=True):
        for start in np.unique(starts):
            used[start : start + size] = True
    return int(used.sum())


def _most_open_entries(schedule: Schedule) -> int:
    sign = np.select([schedule.op_kind == ALLOC, schedule.op_kind == RELEASE], [1, -1])
    window = np.where(sign, schedule.op, 0)
    return int(np.cumsum(sign * schedule.windows.size[window]).max())


def entries_that_hold(replay: PreparedReplay) -> int:
    """Entries that stay on while the slice is idle after a pass, when no window is open."""
    return 0 if replay.technique.gates_released else used_entries(replay)


def inline_bytes(schedule: Schedule) -> NDArray[np.int64]:
    """Bytes that each value takes under Warped-Compression: int64[writes]."""
    trace = schedule.trace
    sizes: NDArray[np.int64] = wc_bytes(trace.values)[trace.value[trace.kind == WRITE]]
    return sizes
