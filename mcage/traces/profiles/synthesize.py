"""Traces drawn from a profile: when windows open, which registers are accessed, and when."""

import hashlib
import heapq
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.files.disk_cache import kept_on_disk
from mcage.geometry import SliceGeometry
from mcage.traces import profiles
from mcage.traces.model import ALLOC, COLUMNS, MOST_CYCLES, READ, RELEASE, WRITE, Kernel, Trace
from mcage.traces.profiles.drawn_contents import Writes, contents_drawn
from mcage.traces.profiles.measures import role_of, step_of_writes
from mcage.version import code_digest

# Dispatch: which windows there are, when each begins and ends, and where it lies.

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
    profile: profiles.Profile, work_groups: tuple[int, ...], random: np.random.Generator
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

    def __init__(
        self, kernel: profiles.KernelProfile, groups: int, random: np.random.Generator
    ) -> None:
        def of_groups(levels: tuple[float, ...]) -> NDArray[np.int64]:
            return whole(profiles.drawn(levels, profiles.spread(random, groups)), random)

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
            self._share[members] = profiles.drawn(
                of_role.active, profiles.spread(random, len(members))
            )
        self._tail = None
        if kernel.tail is not None:
            tails = profiles.drawn(kernel.tail, profiles.spread(random, len(role)))
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
        self, launch: profiles.Launch, groups: int, at_once: int, random: np.random.Generator
    ) -> None:
        self.groups = groups
        deviation = profiles.drawn(launch.deviation, profiles.spread(random, groups))
        self._active = profiles.along(launch.active, groups) * deviation
        self._tail = profiles.along(launch.tail, groups)
        self._latest: float | None = None
        self._apart: list[float] = []
        if launch.apart is not None:
            followed = max(groups - at_once, 1)
            self._apart = profiles.drawn(
                launch.apart, profiles.spread(random, followed - 1)
            ).tolist()

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


# Accesses to a register in the windows of a role: values, and when they are written and read.


@dataclass(frozen=True, eq=False)
class Accesses:
    """Values of a register, window by window in the order of time, and reads of them.

    Attributes
    ----------
    window, number, kind : int64[values]
        Window (of the role), number of the write and index of the kind; those before the first
        write are left out.
    cycle : int64[values]
        Cycles after the allocation.
    read_window, read_cycle : int64[reads]
        Window and cycle of each read.
    """

    window: NDArray[np.int64]
    number: NDArray[np.int64]
    kind: NDArray[np.int64]
    cycle: NDArray[np.int64]
    read_window: NDArray[np.int64]
    read_cycle: NDArray[np.int64]


def accesses_of(
    register: profiles.Register, active: NDArray[np.int64], random: np.random.Generator
) -> Accesses:
    """Draw the accesses to a register.

    Parameters
    ----------
    register : Register
        What happens to it.
    active : int64[windows]
        Cycles from the allocation of each window to its last access.
    random : Generator
        Where random numbers come from.
    """
    windows = len(active)
    writes = whole(profiles.drawn(register.writes, profiles.spread(random, windows)), random)
    kinds = _kinds(register, writes, random)
    number = np.broadcast_to(np.arange(kinds.shape[1]), kinds.shape)
    is_value = number <= writes[:, None]
    window, number = np.nonzero(is_value)
    kind = kinds[is_value]
    lives = _lives(register, writes, kinds, is_value, random)
    begin = _begins(register, writes, is_value, lives, random) * active[window]
    cycle = np.rint(begin).astype(np.int64)
    following = np.append(cycle[1:], 0)
    final = number == writes[window]
    end = np.where(final, active[window], following)
    latest = np.where(final, end, np.maximum(end - 1, cycle))
    value, read_cycle = _reads(register, kind, cycle, end - cycle, lives, random)
    written = number > 0
    return Accesses(
        window=window[written],
        number=number[written],
        kind=kind[written],
        cycle=cycle[written],
        read_window=window[value],
        read_cycle=np.minimum(read_cycle, latest[value]),
    )


def _kinds(
    register: profiles.Register, writes: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """Kind of each value of each window: int64[windows, most writes + 1]."""
    most = int(writes.max(initial=0))
    kinds = np.zeros((len(writes), most + 1), np.int64)
    steps = step_of_writes(register.steps, most)
    for number in range(1, most + 1):
        for step, is_step in ((steps[number], writes > number), (profiles.LAST, writes == number)):
            members = np.flatnonzero(is_step)
            for before in np.unique(kinds[members, number - 1]):
                followers = members[kinds[members, number - 1] == before]
                indices, shares = _followers(register.values, int(before), int(step))
                picked = profiles.chosen(shares, profiles.spread(random, len(followers)))
                kinds[followers, number] = np.asarray(indices)[picked]
    return kinds


def _followers(
    values: tuple[profiles.Value, ...], before: int, step: int
) -> tuple[list[int], list[float]]:
    """Kinds of a step that may follow a kind, and their shares.

    Where none of that step was seen after the kind, all of the step may follow; where none of the
    step was seen, those of any.
    """
    after = values[before].then
    seen = {k: share for k, share in after.items() if values[k].step == step and share > 0}
    if not seen:
        seen = {k: float(v.count) for k, v in enumerate(values) if v.step == step and v.count}
    if not seen:
        seen = {k: 1.0 for k, v in enumerate(values) if v.step != profiles.BEFORE} or {0: 1.0}
    return list(seen), list(seen.values())


def _begins(
    register: profiles.Register,
    writes: NDArray[np.int64],
    is_value: NDArray[np.bool_],
    lives: NDArray[np.float64],
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """Time of each value's write, as a share of its window's active time; 0 of value 0."""
    windows = len(writes)
    parts = np.array(register.written)
    of_windows = parts[(profiles.spread(random, windows) * len(parts)).astype(np.int64)]
    first, last = of_windows.min(axis=1), of_windows.max(axis=1)
    first = np.where(writes == 1, last, first)
    times = np.zeros(is_value.shape)
    times[is_value] = lives[:, 0]
    number = np.arange(is_value.shape[1])
    times[(number == 0) | (number >= writes[:, None])] = 0
    until = np.cumsum(times, axis=1)
    # Without any time between writes, they are evenly spaced.
    even = until[:, -1] == 0
    until[even] = np.clip(number, 0, writes[even, None])
    before = np.concatenate((np.zeros((windows, 1)), until[:, :-1]), axis=1)
    before[even] = np.clip(number - 1, 0, None)
    total = np.where(even, np.maximum(writes - 1, 1), until[:, -1])
    at = first[:, None] + (last - first)[:, None] * np.minimum(before / total[:, None], 1)
    at[:, 0] = 0
    of_values: NDArray[np.float64] = at[is_value]
    return of_values


def _lives(
    register: profiles.Register,
    writes: NDArray[np.int64],
    kinds: NDArray[np.int64],
    is_value: NDArray[np.bool_],
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """Time to the next write, reads and time to the last read, as in `Value.lives`: [values, 3].

    The times of a window between its first and last write add up to all of that time, so long ones
    go to windows where there were short ones before.
    """
    parts = [np.array(value.lives) for value in register.values]
    lives = np.zeros((*kinds.shape, 3))
    elapsed = np.zeros(len(kinds))
    for number in range(kinds.shape[1]):
        for final in (False, True):
            here = is_value[:, number] & ((writes == number) == final)
            for kind in np.unique(kinds[here, number]):
                members = np.flatnonzero(here & (kinds[:, number] == kind))
                members = members[
                    np.argsort(-elapsed[members] + 1e-9 * random.random(len(members)))
                ]
                places = (np.sort(profiles.spread(random, len(members))) * len(parts[kind])).astype(
                    np.int64
                )
                lives[members, number] = parts[kind][places]
        if number:
            elapsed += lives[:, number, 0]
    of_values: NDArray[np.float64] = lives[is_value]
    return of_values


def _reads(
    register: profiles.Register,
    kind: NDArray[np.int64],
    begin: NDArray[np.int64],
    life: NDArray[np.int64],
    lives: NDArray[np.float64],
    random: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Value and cycle of each read."""
    counts = whole(lives[:, 1], random)
    last_reads = np.rint(life * lives[:, 2])
    read_values, cycles = [], []
    for index, value in enumerate(register.values):
        members = np.flatnonzero((kind == index) & (counts > 0))
        last = last_reads[members]
        earlier = np.repeat(np.arange(len(members)), counts[members] - 1)
        share = profiles.drawn(value.other_reads, profiles.spread(random, len(earlier)))
        read_values += [members, members[earlier]]
        cycles += [begin[members] + last, begin[members[earlier]] + np.rint(last[earlier] * share)]
    return np.concatenate(read_values), np.concatenate(cycles).astype(np.int64)


# A trace drawn from a profile.

MOST_WRITES = 4_000_000
"""Writes of the longest trace: their contents take 1 GiB."""
_ORDER_IN_CYCLE = np.array([0, 3, 1, 2])
_COLUMNS = ("window", "cycle", "kind", "reg", "exec_mask")
_AT_ONCE = 65536


def synthesize(
    profile: profiles.Profile, seed: int = 0, windows: int | None = None, cycles: int | None = None
) -> Trace:
    """Draw a trace.

    Parameters
    ----------
    profile : Profile
        What it is to be like.
    seed : int
        Equal seeds give equal traces.
    windows, cycles : int, optional
        About so many windows, or cycles of a pass; by default as many as in the profile. Whole
        work-groups are drawn, at least one for each launch.

    Raises
    ------
    UserError
        The profile makes a trace without writes, with too many, or a pass that is too long.
    """
    random = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
    placed = dispatched(profile, _work_groups(profile, windows, cycles), random)
    if int(placed.end.max()) + profile.rest > MOST_CYCLES:
        raise UserError(
            f"profile {profile.name!r}: makes a pass of {int(placed.end.max())} cycles, and at "
            f"most {MOST_CYCLES} can be replayed; ask for fewer windows"
        )
    parts: list[NDArray[np.uint64]] = []
    contents: list[NDArray[np.uint32]] = []
    for number, kernel in enumerate(profile.kernels):
        masks = np.array([int(mask, 16) for mask in kernel.lane_masks], np.uint64)
        for role, of_role in enumerate(kernel.roles):
            members = np.flatnonzero((placed.kernel == number) & (placed.role == role))
            if not len(members):
                continue
            of_registers = [
                accesses_of(register, placed.active[members], random)
                for register in of_role.registers
            ]
            kinds, writes = _writes(of_role.registers, of_registers, masks)
            contents.append(contents_drawn(kinds, writes, profile.slice, random))
            edges = np.cumsum([len(accesses.kind) for accesses in of_registers])[:-1]
            for reg, lanes in enumerate(np.split(writes.lanes, edges)):
                parts += _events(of_registers[reg], lanes, reg, members, placed)
    return _trace(profile, seed, placed, parts, np.concatenate(contents))


def _work_groups(
    profile: profiles.Profile, windows: int | None, cycles: int | None
) -> tuple[int, ...]:
    """Work-groups of each launch."""
    in_profile = [
        launch.work_groups * float(np.mean(profile.kernels[launch.kernel].wavefronts))
        for launch in profile.launches
    ]
    scale = 1.0
    if windows is not None:
        scale = windows / sum(in_profile)
    elif cycles is not None:
        scale = cycles / max(int(profile.statistics.get("cycles", cycles)), 1)
    writes = [
        float(
            np.mean([sum(np.mean(reg.writes) for reg in role.registers) for role in kernel.roles])
        )
        for kernel in profile.kernels
    ]
    launched = zip(in_profile, profile.launches, strict=True)
    expected = scale * sum(count * writes[launch.kernel] for count, launch in launched)
    if expected > MOST_WRITES:
        raise UserError(
            f"profile {profile.name!r}: {expected:.3g} writes; at most {MOST_WRITES} are drawn"
        )
    return tuple(max(1, round(launch.work_groups * scale)) for launch in profile.launches)


def _events(
    accesses: Accesses,
    lanes: NDArray[np.uint64],
    reg: int,
    members: NDArray[np.int64],
    placed: Dispatched,
) -> list[NDArray[np.uint64]]:
    """Writes and reads of a register: [_COLUMNS, events] each."""
    parts = []
    for kind, window, cycle, mask in (
        (WRITE, accesses.window, accesses.cycle, lanes),
        (READ, accesses.read_window, accesses.read_cycle, None),
    ):
        columns = np.zeros((len(_COLUMNS), len(window)), np.uint64)
        columns[0] = members[window]
        columns[1] = placed.begin[members[window]] + cycle
        columns[2], columns[3] = kind, reg
        if mask is not None:
            columns[4] = mask
        parts.append(columns)
    return parts


def _writes(
    registers: tuple[profiles.Register, ...], accesses: list[Accesses], masks: NDArray[np.uint64]
) -> tuple[list[profiles.Value], Writes]:
    """Kinds of values of all registers of a role, and the writes of them."""
    kinds = [value for register in registers for value in register.values]
    starts = np.cumsum([0, *(len(register.values) for register in registers)])
    kind = np.concatenate(
        [each.kind + start for each, start in zip(accesses, starts[:-1], strict=True)]
    )
    number = np.concatenate([each.number for each in accesses])
    lanes = masks[[value.lanes for value in kinds]][kind]
    return kinds, Writes(kind, number, lanes)


def _trace(
    profile: profiles.Profile,
    seed: int,
    placed: Dispatched,
    parts: list[NDArray[np.uint64]],
    contents: NDArray[np.uint32],
) -> Trace:
    windows = np.arange(len(placed.begin), dtype=np.uint64)
    sizes = np.array([kernel.window_size for kernel in profile.kernels], np.uint64)
    nothing = np.zeros_like(windows)
    boundaries = [
        np.stack(
            [
                windows,
                placed.begin.astype(np.uint64),
                nothing + ALLOC,
                sizes[placed.kernel],
                nothing,
            ]
        ),
        np.stack([windows, placed.end.astype(np.uint64), nothing + RELEASE, nothing, nothing]),
    ]
    window, cycle, kind, reg, mask = np.concatenate([*parts, *boundaries], axis=1)
    order = np.lexsort((_ORDER_IN_CYCLE[kind.astype(np.int64)], cycle))
    written = np.flatnonzero(kind == WRITE)
    rows, row = _distinct(contents)
    value = np.full(len(kind), -1, np.int32)
    value[written] = row
    kind = kind[order].astype(np.uint8)
    if not len(written):
        raise UserError(f"profile {profile.name!r}: makes a trace without register writes")
    group_size = int(np.bincount(placed.launch * (placed.group.max() + 1) + placed.group).max())
    return Trace(
        name=profile.name,
        source={**profile.source, "synthesized": profile.title, "seed": seed},
        kernels=tuple(Kernel(kernel.name, kernel.window_size) for kernel in profile.kernels),
        cycles=int(cycle.max()) + profile.rest,
        cycle=cycle[order].astype(np.int64),
        kind=kind,
        slot=placed.slot[window[order].astype(np.int64)].astype(np.uint16),
        reg=reg[order].astype(np.uint16),
        exec_mask=mask[order],
        value=value[order],
        values=rows,
        alloc_event=np.flatnonzero(kind == ALLOC).astype(np.uint32),
        alloc_kernel=placed.kernel.astype(np.uint8),
        alloc_launch=placed.launch.astype(np.uint32),
        alloc_work_group=placed.group.astype(np.uint32),
        alloc_wavefront=_wavefronts(placed, group_size).astype(np.uint32),
        geometry=profile.slice,
    )


def _wavefronts(placed: Dispatched, group_size: int) -> NDArray[np.int64]:
    """Number of each wavefront in its launch: by work-group, and by slot in it."""
    order = np.lexsort((placed.slot, placed.group, placed.launch))
    group = (placed.launch * (placed.group.max() + 1) + placed.group)[order]
    starts = np.searchsorted(group, group)
    wavefront: NDArray[np.int64] = np.empty_like(group)
    wavefront[order] = placed.group[order] * group_size + np.arange(len(group)) - starts
    return wavefront


def _distinct(
    contents: NDArray[np.uint32],
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Contents without repetition, and the row of each: equal ones are told by a hash."""
    factors = np.random.default_rng(0).integers(0, 1 << 63, contents.shape[1], np.uint64) * 2 + 1
    keys = np.concatenate(
        [
            (contents[start : start + _AT_ONCE] * factors).sum(axis=1, dtype=np.uint64)
            for start in range(0, len(contents), _AT_ONCE)
        ]
    )
    _, first, row = np.unique(keys, return_index=True, return_inverse=True)
    rows = contents[first]
    if not np.array_equal(rows[row], contents):  # two contents with one hash
        return contents, np.arange(len(contents))
    return rows, row.reshape(-1)


# The trace of a profile: drawn once, and then kept on disk.

SEED = 0
"""Seed of the traces that are named like profiles."""


def trace_of_profile(path: Path) -> Trace:
    """Draw the trace of a profile, or take it from the disk.

    Parameters
    ----------
    path : Path
        File of the profile.

    Raises
    ------
    UserError
        The file is no profile.
    """
    content = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    key = f"trace of profile {content} {SEED} {code_digest()} {np.__version__}"
    arrays: dict[str, Any] = kept_on_disk(
        key, lambda: _arrays(synthesize(profiles.read_profile(path), SEED))
    )
    about = json.loads(arrays.pop("about").tobytes())
    kernels = tuple(Kernel(*kernel) for kernel in about.pop("kernels"))
    geometry = SliceGeometry(**about.pop("geometry"))
    return Trace(**about, **arrays, kernels=kernels, geometry=geometry)


def _arrays(trace: Trace) -> dict[str, NDArray[Any]]:
    columns = {column.attribute: getattr(trace, column.attribute) for column in COLUMNS}
    about = {
        "name": trace.name,
        "source": trace.source,
        "cycles": trace.cycles,
        "kernels": [
            [getattr(kernel, field.name) for field in fields(kernel)] for kernel in trace.kernels
        ],
        "geometry": trace.geometry.described(),
    }
    return {**columns, "about": np.frombuffer(json.dumps(about).encode(), np.uint8)}
