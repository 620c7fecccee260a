"""A trace made from another: other blocks, released with its wavefronts, shortened, idle after it.

**Release.** Both papers let a wavefront release its window when it ends (Valero et al., IEEE TC
2019, section 5.2; Toca-Diaz et al. (RRCD), section IV.D), and so do AMD's GCN units; this is the
default. The simulator that recorded the bundled traces releases the windows of a work-group
together, when its last wavefront has ended, as NVIDIA's GPUs do: results/open-differences.md.

**Idle time.** A trace is cyclic: what an entry holds at the end of a pass, it holds until its first
write in the next pass. So a slice that holds its values while it is idle replays the same trace
with a longer pass. All windows are released before the idle time begins: what a technique switches
off after a release is off in the idle time, too.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.geometry import SliceGeometry
from mcage.traces.model import (
    ALLOC,
    ALLOC_COLUMNS,
    EVENT_COLUMNS,
    MOST_CYCLES,
    RELEASE,
    WRITE,
    Trace,
)

WORK_GROUP, WAVEFRONT = "work-group", "wavefront"
RELEASES = (WAVEFRONT, WORK_GROUP)
"""Names of the two ways to release windows."""

HELD = "held"
"""Name of the idle time in which a slice holds its values; in the other kind it is off."""

LONGEST_IDLE_GAP = 100
"""Cycles that an excerpt may have without a window between two of its kernels."""


def on_slice(trace: Trace, geometry: SliceGeometry) -> Trace:
    """Return the trace as that of a slice with other blocks, but as many entries and components.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    geometry : SliceGeometry
        The slice.

    Raises
    ------
    UserError
        The trace was recorded on a slice of other size.
    """
    recorded = trace.geometry
    if recorded.shape[:2] != geometry.shape[:2]:
        raise UserError(
            f"trace {trace.name!r}: recorded on a slice of {recorded.entries} x "
            f"{recorded.components}, registers.geometry asks for {geometry.entries} x "
            f"{geometry.components}; leave it out, or choose other traces"
        )
    return dataclasses.replace(trace, geometry=geometry)


def released(trace: Trace, release: str = WAVEFRONT) -> Trace:
    """Return the trace with its windows released in one of the two ways.

    Take excerpts afterwards: they may keep parts of a work-group, whose end is then unknown.

    Parameters
    ----------
    trace : Trace
        A valid trace, whole.
    release : str
        ``wavefront`` as in `released_with_wavefronts`, or ``work-group`` as recorded.

    Raises
    ------
    UserError
        ``release`` is neither.
    """
    return released_with_wavefronts(trace) if checked_release(release) == WAVEFRONT else trace


def checked_release(name: str) -> str:
    """Return the name of a way to release windows.

    Raises
    ------
    UserError
        There is no such way.
    """
    if name not in RELEASES:
        raise UserError(f"release {name!r} is unknown; choose from {', '.join(RELEASES)}")
    return name


def released_with_wavefronts(trace: Trace) -> Trace:
    """Return the trace with each window released when its wavefront has ended.

    The ends of wavefronts are not in a trace. The window of the wavefront that is the last of its
    work-group to access a register outlives that access by a number of cycles. Each other wavefront
    of the group is taken to end as many cycles after its last access. Windows are allocated when
    they were, so that slots stay empty meanwhile. A work-group of a single wavefront stays as
    recorded, and so does a work-group whose windows were not released together: its trace tells the
    ends of wavefronts already.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    """
    ends = wavefront_ends(trace)[trace.window_of_event()]
    is_release = trace.kind == RELEASE
    cycle = np.where(is_release, np.minimum(ends, trace.cycle), trace.cycle)
    # Within a cycle releases come last, and other events keep their order.
    order = np.lexsort((is_release, cycle))
    columns = {c.attribute: getattr(trace, c.attribute)[order] for c in EVENT_COLUMNS}
    columns["cycle"] = cycle[order]
    return dataclasses.replace(
        trace,
        source={**trace.source, "release": WAVEFRONT},
        alloc_event=np.flatnonzero(columns["kind"] == ALLOC).astype(np.uint32),
        **columns,
    )


def wavefront_ends(trace: Trace) -> npt.NDArray[np.int64]:
    """Estimate when each wavefront has ended, as above: int64[windows]."""
    given_back, last = release_cycles(trace), last_accesses(trace)
    group = np.stack([trace.alloc_launch, trace.alloc_kernel, trace.alloc_work_group])
    _, number = np.unique(group, axis=1, return_inverse=True)
    number = number.reshape(-1)
    first_released = _least_of_groups(given_back, number)
    last_released = -_least_of_groups(-given_back, number)
    ends = last + _least_of_groups(given_back - last, number)
    together: npt.NDArray[np.bool_] = first_released == last_released
    return np.where(together, ends, given_back)


def _least_of_groups(
    of_windows: npt.NDArray[np.int64], number: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Least value of the windows in each window's group: int64[windows]."""
    least = np.full(int(number.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, number, of_windows)
    return least[number]


def release_cycles(trace: Trace) -> npt.NDArray[np.int64]:
    """Release of each window: int64[windows]."""
    is_release = trace.kind == RELEASE
    cycles = np.empty(trace.windows, dtype=np.int64)
    cycles[trace.window_of_event()[is_release]] = trace.cycle[is_release]
    return cycles


def last_accesses(trace: Trace) -> npt.NDArray[np.int64]:
    """Last access to a register of each window, or its allocation: int64[windows]."""
    accesses = trace.kind != RELEASE
    last = trace.cycle[trace.alloc_event].astype(np.int64)
    np.maximum.at(last, trace.window_of_event()[accesses], trace.cycle[accesses])
    return last


def first_generations(trace: Trace, generations: int) -> Trace:
    """Return the trace with its first windows only; whole windows.

    Each slot keeps, of each of the K kernels, its first ceil(generations / K) windows, and where a
    kernel gave the slot fewer than that, further windows in order of time until the slot has
    ``generations`` of them (or all it ever had). So every slot keeps at least ``generations``
    windows, and every kernel stays represented. All events of the other windows go; idle gaps (no
    window open) longer than 100 cycles, which open between kernel phases, are cut to 100, as in a
    recording; values no longer referred to are dropped. The time from the last event to the end of
    the pass stays what it was.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    generations : int
        Windows to keep per slot, at least 1. From ``trace.generations`` on there is nothing to
        drop for the least used slot, and the trace itself is returned.

    Raises
    ------
    UserError
        If ``generations`` is below 1, or the windows kept hold no register write.
    """
    if generations < 1:
        raise UserError(f"{generations} generations of a trace: must be at least 1")
    if generations >= trace.generations:
        return trace
    kept_window = _first_windows(trace, generations)
    kept_event = kept_window[trace.window_of_event()]
    # Boolean selection keeps the order, so the n-th allocation left is the n-th window left.
    columns = {c.attribute: getattr(trace, c.attribute)[kept_event] for c in EVENT_COLUMNS}
    columns |= {c.attribute: getattr(trace, c.attribute)[kept_window] for c in ALLOC_COLUMNS}
    columns["alloc_event"] = np.flatnonzero(columns["kind"] == ALLOC).astype(np.uint32)
    written = columns["kind"] == WRITE
    if not written.any():
        raise UserError(
            f"trace {trace.name!r}: no register write in its first {generations} generations; "
            "more of them are needed"
        )
    used_rows, renumbered = np.unique(columns["value"][written], return_inverse=True)
    columns["value"][written] = renumbered
    columns["values"] = trace.values[used_rows]
    rest = trace.cycles - int(trace.cycle[-1])
    short = dataclasses.replace(
        trace,
        source={**trace.source, "first_generations": generations},
        cycles=int(columns["cycle"][-1]) + rest,
        **columns,
    )
    return _without_idle_gaps(short)


def _first_windows(trace: Trace, generations: int) -> npt.NDArray[np.bool_]:
    """Mark the windows that ``first_generations`` keeps, [windows]."""
    slot = trace.slot[trace.alloc_event].astype(np.int64)
    of_kernel = -(-generations // len(trace.kernels))
    kept = _rank_within(slot * len(trace.kernels) + trace.alloc_kernel) < of_kernel
    missing = generations - np.bincount(slot[kept], minlength=int(slot.max()) + 1)
    spare = np.flatnonzero(~kept)
    kept[spare[_rank_within(slot[spare]) < missing[slot[spare]]]] = True
    return kept


def _without_idle_gaps(trace: Trace) -> Trace:
    """Cut every time without a window between two windows to ``LONGEST_IDLE_GAP``."""
    gaps = np.where(trace.open_windows()[:-1] == 0, np.diff(trace.cycle), 0)
    saved = np.cumsum(np.maximum(gaps - LONGEST_IDLE_GAP, 0))
    cycle = trace.cycle - np.concatenate(([0], saved))
    return dataclasses.replace(trace, cycle=cycle, cycles=trace.cycles - int(saved[-1]))


def _rank_within(group: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Position of each element among those of its group, in order: 0, 1, 2, ..."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    starts = np.searchsorted(ordered, ordered, side="left")
    rank = np.empty(len(group), np.int64)
    rank[order] = np.arange(len(group)) - starts
    return rank


def held_while_idle(trace: Trace, activity: float) -> Trace:
    """Return the trace with idle time after its last cycle, so that it fills a part of the pass.

    Parameters
    ----------
    trace : Trace
        A valid trace, all of whose cycles are busy.
    activity : float
        That part of the pass, above 0 and at most 1. The pass is rounded to a whole cycle.

    Raises
    ------
    UserError
        If the pass becomes longer than a trace may be.
    """
    cycles = round(trace.cycles / activity)
    if cycles > MOST_CYCLES:
        raise UserError(
            f"trace {trace.name!r}: its {trace.cycles} cycles at an activity of {activity:g} make "
            f"a pass of {cycles}, and at most {MOST_CYCLES} can be replayed"
        )
    return dataclasses.replace(
        trace, source={**trace.source, "idle_cycles": cycles - trace.cycles}, cycles=cycles
    )
