"""Dispatch: which windows there are, when each begins and ends, and where it lies."""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.traces.profiles.characterizing.windows import role_of
from mcage.traces.profiles.levels import along, drawn, spread
from mcage.traces.profiles.profile import KernelProfile, Launch, Profile

_CHOICE = 64
"""Intervals among which a work-group chooses."""


@dataclass(frozen=True, eq=False)
class Dispatched:
    """Windows in the order of their allocation: int64[windows] each.

    Attributes
    ----------
    kernel, launch, group, role, slot : int64
        Kernel, launch, number of the work-group in its launch, role in it, slot.
    begin, active, end : int64
        Cycle of the allocation, cycles to the last access, cycle of the release.
    """

    kernel: NDArray[np.int64]
    launch: NDArray[np.int64]
    group: NDArray[np.int64]
    role: NDArray[np.int64]
    slot: NDArray[np.int64]
    begin: NDArray[np.int64]
    active: NDArray[np.int64]
    end: NDArray[np.int64]


def dispatched(
    profile: Profile, work_groups: tuple[int, ...], random: np.random.Generator
) -> Dispatched:
    """Dispatch the work-groups of all launches, one launch after the other.

    Parameters
    ----------
    profile : Profile
        The profile.
    work_groups : tuple of int
        Work-groups of each of its launches.
    random : Generator
        Where random numbers come from.
    """
    launches: list[NDArray[np.int64]] = []
    ended = 0
    # All launches of a kernel share their draws, which are spread over all its windows.
    draws = [
        _Draws(
            kernel,
            sum(
                n
                for n, launch in zip(work_groups, profile.launches, strict=True)
                if launch.kernel == number
            ),
            random,
        )
        for number, kernel in enumerate(profile.kernels)
    ]
    for number, (launch, groups) in enumerate(zip(profile.launches, work_groups, strict=True)):
        begin = ended + max(launch.gap, 1) if launches else launch.gap
        kernel = profile.kernels[launch.kernel]
        at_once = int(kernel.open_windows / np.mean(kernel.wavefronts))
        columns = draws[launch.kernel].launch(begin, _Lasting(launch, groups, at_once, random))
        same = np.full((2, columns.shape[1]), [[launch.kernel], [number]])
        launches.append(np.concatenate((same, columns)))
        ended = int(columns[-1].max())
    columns = np.concatenate(launches, axis=1)
    return Dispatched(*columns[:, np.argsort(columns[5], kind="stable")])


class _Draws:
    """Draws for the work-groups of a kernel."""

    def __init__(self, kernel: KernelProfile, groups: int, random: np.random.Generator) -> None:
        def of_groups(levels: tuple[float, ...]) -> NDArray[np.int64]:
            return whole(drawn(levels, spread(random, groups)), random)

        self._kernel, self._done = kernel, 0
        self._most = max(1, kernel.open_windows)
        self._sizes = np.clip(of_groups(kernel.wavefronts), 1, self._most)
        self._first, self._following = of_groups(kernel.first), of_groups(kernel.following)
        starts = np.concatenate(([0], np.cumsum(self._sizes)))
        self._windows = starts
        rank = np.arange(starts[-1]) - np.repeat(starts[:-1], self._sizes)
        largest = np.full(len(rank), max(1, round(max(kernel.wavefronts))))
        role = np.minimum(role_of(np.minimum(rank, largest - 1), largest), len(kernel.roles) - 1)
        self._role = role
        self._share = np.empty(len(role))
        for number, of_role in enumerate(kernel.roles):
            members = np.flatnonzero(role == number)
            self._share[members] = drawn(of_role.active, spread(random, len(members)))
        self._tail = None
        if kernel.tail is not None:
            tails = drawn(kernel.tail, spread(random, len(role)))
            self._tail = np.rint(tails).astype(np.int64)

    def launch(self, begin: int, lasting: "_Lasting") -> NDArray[np.int64]:
        """Dispatch the next work-groups: group, role, slot, begin, active and end of windows.

        Parameters
        ----------
        begin : int
            Cycle in which the launch begins.
        lasting : _Lasting
            How long the work-groups last.
        """
        these = np.arange(self._done, self._done + lasting.groups)
        self._done += lasting.groups
        fresh_delays = iter(np.sort(self._first[these]).tolist())
        free = [(begin, 0, slot) for slot in range(self._most)]
        rows: list[tuple[int, ...]] = []
        for number, group in enumerate(these.tolist()):
            windows = np.arange(self._windows[group], self._windows[group + 1])
            taken = [heapq.heappop(free) for _ in windows]
            ready, used, _ = max(taken)
            delay = max(int(self._following[group]), 1) if used else next(fresh_delays)
            at = ready + delay
            share = self._share[windows] / self._share[windows].max(initial=1e-9)
            active_of, tail_of = lasting.group(number, at)
            active = np.rint(active_of * share).astype(np.int64)
            last = at + active
            if self._tail is None:
                ends = np.full(len(windows), last.max() + tail_of)
            else:
                ends = last + self._tail[windows]
            ends = np.maximum(ends, at + 1)
            slots = sorted(slot for _, _, slot in taken)
            roles = self._role[windows].tolist()
            for row in zip(roles, slots, active.tolist(), ends.tolist(), strict=True):
                role, slot, until, end = row
                rows.append((number, role, slot, at, until, end))
                heapq.heappush(free, (end, 1, slot))
        return np.array(rows, np.int64).T


class _Lasting:
    """How long the work-groups of a launch last: a trend, and deviations of each from it.

    Work-groups wait for the same memory, so that they are released in turn, at more equal times
    than durations that know nothing of one another would give. Where a launch does so, a work-group
    takes one of the next few of the intervals between releases that were drawn: the one that comes
    closest to the duration that was drawn for it.
    """

    def __init__(
        self, launch: Launch, groups: int, at_once: int, random: np.random.Generator
    ) -> None:
        self.groups = groups
        deviation = drawn(launch.deviation, spread(random, groups))
        self._active = along(launch.active, groups) * deviation
        self._tail = along(launch.tail, groups)
        self._latest: float | None = None
        self._apart: list[float] = []
        if launch.apart is not None:
            followed = max(groups - at_once, 1)
            self._apart = drawn(launch.apart, spread(random, followed - 1)).tolist()

    def group(self, number: int, begin: int) -> tuple[float, int]:
        """Cycles to the last access of the work-group that begins, and from there to its release.

        Parameters
        ----------
        number : int
            Number of the work-group in its launch; they begin in this order.
        begin : int
            Cycle of its allocation.
        """
        active, tail = float(self._active[number]), float(self._tail[number])
        end = begin + active + tail
        if self._apart and self._latest is not None:
            wanted = end - self._latest
            few = range(min(_CHOICE, len(self._apart)))
            nearest = min(few, key=lambda place: abs(self._apart[place] - wanted))
            end = max(self._latest + self._apart.pop(nearest), begin + tail + 1)
        self._latest = end
        return end - begin - tail, round(tail)


def whole(numbers: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.int64]:
    """Numbers rounded up or down at random, so that their mean stays."""
    return np.floor(numbers + random.random(len(numbers))).astype(np.int64)
