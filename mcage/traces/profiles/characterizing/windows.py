"""Windows: how they are grouped and launched, when they are allocated and how long they last."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.traces.model import Trace
from mcage.traces.profiles.levels import MANY, along, levels_of, trend_of
from mcage.traces.profiles.profile import Launch
from mcage.traces.transforms import last_accesses, release_cycles

ROLES = 4
"""Most roles of windows by the places of their wavefronts in their work-groups."""

_MOSTLY = 0.9
"""Share of neighbouring work-groups above which a launch counts as released in turn."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of a trace, [windows] each.

    Attributes
    ----------
    kernel, launch : int64
        Kernel and number of the launch.
    group : int64
        Number of the work-group, counted from 0.
    role : int64
        Role in the work-group.
    begin, active, end : int64
        Cycle of the allocation, cycles from there to the last access, cycle of the release.
    share : float64
        Cycles to the last access as a share of the largest number in the work-group.
    ready : int64
        Cycle from which the entries were free: the launch's begin for entries that it has not
        used yet.
    fresh : bool
        Whether the launch had not used the entries yet.
    """

    kernel: NDArray[np.int64]
    launch: NDArray[np.int64]
    group: NDArray[np.int64]
    role: NDArray[np.int64]
    begin: NDArray[np.int64]
    active: NDArray[np.int64]
    end: NDArray[np.int64]
    share: NDArray[np.float64]
    ready: NDArray[np.int64]
    fresh: NDArray[np.bool_]


def windows_of(trace: Trace) -> Windows:
    """Describe the windows of a valid trace."""
    begin = trace.cycle[trace.alloc_event].astype(np.int64)
    end = release_cycles(trace)
    kernel = trace.alloc_kernel.astype(np.int64)
    ids = np.stack([trace.alloc_launch, trace.alloc_kernel, trace.alloc_work_group]).astype(
        np.int64
    )
    _, launch = np.unique(ids[:2], axis=1, return_inverse=True)
    _, group = np.unique(ids, axis=1, return_inverse=True)
    launch, group = launch.reshape(-1), group.reshape(-1)
    active = last_accesses(trace) - begin
    ready, fresh = np.empty_like(begin), np.empty(len(begin), np.bool_)
    slot = trace.slot[trace.alloc_event]
    for number in range(int(launch.max()) + 1):
        free_at: dict[int, int] = {}
        members = np.flatnonzero(launch == number)
        start = int(begin[members].min())
        for window in members.tolist():
            place = int(slot[window])
            fresh[window] = place not in free_at
            ready[window] = free_at.get(place, start)
            free_at[place] = int(end[window])
    return Windows(
        kernel=kernel,
        launch=launch,
        group=group,
        role=_roles(kernel, group, trace.alloc_wavefront),
        begin=begin,
        active=active,
        end=end,
        share=active / np.maximum(_longest(active, group)[group], 1),
        ready=ready,
        fresh=fresh,
    )


def _longest(active: NDArray[np.int64], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """Largest number of cycles to the last access in each work-group."""
    longest = np.zeros(int(group.max()) + 1, np.int64)
    np.maximum.at(longest, group, active)
    return longest


def _roles(
    kernel: NDArray[np.int64], group: NDArray[np.int64], wavefront: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """Role of each window: the ranks of a kernel's work-groups, in at most four parts."""
    order = np.lexsort((wavefront, group))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(starts, sizes)
    largest = np.zeros(int(kernel.max()) + 1, np.int64)
    np.maximum.at(largest, kernel, rank + 1)
    return role_of(rank, largest[kernel])


def role_of(rank: NDArray[np.int64], largest: NDArray[np.int64]) -> NDArray[np.int64]:
    """Role of wavefronts by their ranks, in kernels whose largest work-group has so many."""
    return rank * np.minimum(largest, ROLES) // largest


def launches_of(windows: Windows) -> tuple[Launch, ...]:
    """Launches in the order of their begin."""
    numbers = np.unique(windows.launch)
    begins = np.array([windows.begin[windows.launch == number].min() for number in numbers])
    launches, ended = [], 0
    for number in numbers[np.argsort(begins, kind="stable")]:
        members = windows.launch == number
        groups, first = np.unique(windows.group[members], return_index=True)
        in_order = groups[np.argsort(first, kind="stable")]
        active = _longest(windows.active, windows.group)[in_order].astype(np.float64)
        trend = trend_of(active, MANY)
        deviation = active / np.maximum(along(trend, len(active)), 1)
        ends = _longest(windows.end, windows.group)[in_order]
        followed = len(groups) - len(np.unique(windows.group[members & windows.fresh]))
        in_turn = followed > 1 and np.mean(np.diff(ends) >= 0) > _MOSTLY
        tail = _longest(windows.end - windows.begin, windows.group)[in_order] - active
        launches.append(
            Launch(
                kernel=int(windows.kernel[members][0]),
                work_groups=len(groups),
                gap=max(int(windows.begin[members].min()) - ended, 0),
                active=tuple(trend),
                deviation=tuple(levels_of(deviation, MANY)),
                tail=tuple(trend_of(tail, MANY)),
                apart=tuple(levels_of(np.diff(np.sort(ends)[:followed]), MANY))
                if in_turn
                else None,
            )
        )
        ended = max(ended, int(windows.end[members].max()))
    return tuple(launches)


def times_of(windows: Windows, kernel: int) -> dict[str, object]:
    """When the windows of a kernel are allocated and released, as `KernelProfile` names it."""
    members = np.flatnonzero(windows.kernel == kernel)
    _, group, sizes = np.unique(windows.group[members], return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    delay = (windows.begin - windows.ready)[members]
    fresh = windows.fresh[members]
    ends = windows.end[members]
    earliest = np.full(len(sizes), np.iinfo(np.int64).max)
    latest = np.zeros(len(sizes), np.int64)
    np.minimum.at(earliest, group, ends)
    np.maximum.at(latest, group, ends)
    last = (windows.begin + windows.active)[members]
    together = bool((earliest == latest).all())
    return {
        "wavefronts": tuple(levels_of(sizes, MANY)),
        "open_windows": _most_open(windows.begin[members], ends),
        "first": tuple(levels_of(delay[fresh], MANY)),
        "following": tuple(levels_of(delay[~fresh], MANY)),
        "tail": None if together else tuple(levels_of(ends - last, MANY)),
    }


def _most_open(begin: NDArray[np.int64], end: NDArray[np.int64]) -> int:
    """Most windows open at once; entries that are released can be allocated in the next cycle."""
    order = np.argsort(np.concatenate((begin, end + 1)), kind="stable")
    change = np.repeat([1, -1], len(begin))
    at = np.concatenate((begin, end + 1))
    order = np.lexsort((change, at))
    return int(np.cumsum(change[order]).max())
