"""When a window is released: with its own wavefront, or with its work-group, as recorded.

Both papers let a wavefront release its window when it ends (Valero et al., IEEE TC 2019, section
5.2; Toca-Diaz et al. (RRCD), section IV.D), and so do AMD's GCN units; this is the default. The
simulator that recorded the bundled traces releases the windows of a work-group together, when its
last wavefront has ended, as NVIDIA's GPUs do: docs/open-differences.md.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.traces.model import ALLOC, EVENT_COLUMNS, RELEASE, Trace

WORK_GROUP, WAVEFRONT = "work-group", "wavefront"
RELEASES = (WAVEFRONT, WORK_GROUP)


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
    """Return the trace with every window released when its own wavefront has ended.

    The ends of wavefronts are not in a trace. The window of the wavefront that is the last of its
    work-group to access a register outlives that access by some cycles; every other wavefront of
    the group is taken to end as many cycles after its own last access. Windows are allocated when
    they were, so that slots stay empty meanwhile. A work-group of a single wavefront stays as
    recorded, and so does one whose windows were not released together: its trace tells the ends of
    wavefronts already.

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
    columns = {one.attribute: getattr(trace, one.attribute)[order] for one in EVENT_COLUMNS}
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
