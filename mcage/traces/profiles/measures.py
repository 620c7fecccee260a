"""What a profile says of windows, of steps between accesses, and of contents."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS, SliceGeometry
from mcage.traces import profiles
from mcage.traces.model import Trace
from mcage.traces.patterns import OTHER, Patterns, first_block_fits, wc_bytes, wc_sizes
from mcage.traces.transforms import last_accesses, release_cycles

_ROWS_AT_ONCE = 4096
_DIGITS = 3
_LINKED = 0.98
"""Largest share of lanes that keep their bits: where all do, a plane is kept."""


def bits_of(words: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Bits of words, the least significant first: [..., 32]."""
    bytes_ = np.ascontiguousarray(words, dtype="<u4").view(np.uint8)
    return np.unpackbits(bytes_.reshape(*words.shape, 4), axis=-1, bitorder="little")


def widths_of(values: NDArray[np.uint32], code: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Patterns, those that are not regular by the width of differences from lane 0: [rows]."""
    _, byte, two_bytes, _ = wc_sizes(values.shape[1])
    sizes = wc_bytes(values)
    of_width = np.select([sizes <= byte, sizes == two_bytes], [OTHER, OTHER + 1], OTHER + 2)
    return np.where(code == OTHER, of_width, code.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Written:
    """Values of one kind: [n, components] or [n].

    Attributes
    ----------
    values, before : uint32[n, components]
        Contents, and those before in the same register and window.
    first : bool[n]
        Whether there are none before.
    patterns, patterns_before : Patterns
        Patterns of both.
    code, code_before : int64[n]
        Patterns with widths of both; -1 before the first value.
    lanes : bool[n, components]
        Which lanes were written.
    """

    values: NDArray[np.uint32]
    before: NDArray[np.uint32]
    first: NDArray[np.bool_]
    patterns: Patterns
    patterns_before: Patterns
    code: NDArray[np.int64]
    code_before: NDArray[np.int64]
    lanes: NDArray[np.bool_]


def contents_of(written: Written, geometry: SliceGeometry) -> profiles.Contents:
    """Characterize contents of a kind."""
    alike = ~written.first & (written.code == written.code_before)
    same = alike & (written.values == written.before).all(axis=1)
    left = ~same
    regular = int(written.code[0]) < profiles.REGULAR
    # What is the same tells nothing of how planes change.
    values, before = written.values[left], written.before[left]
    lanes, first = written.lanes[left].copy(), written.first[left]
    lanes[first] = True
    if regular:
        values, before, lanes = values[:, :1], before[:, :1], np.ones((len(values), 1), np.bool_)
    planes = _transitions(values, before, first, lanes)
    if regular:
        equal = (written.patterns.delta_e == written.patterns_before.delta_e) & (
            written.patterns.delta_b == written.patterns_before.delta_b
        )
        return profiles.Contents(
            deltas=_deltas(written.patterns, left & ~(equal & alike)),
            same=_share(same.sum(), alike.sum()),
            same_deltas=_share((equal & alike & left).sum(), (alike & left).sum()),
            **planes,
        )
    fits = first_block_fits(written.values, geometry, None)
    return profiles.Contents(
        same=_share(same.sum(), alike.sum()),
        first_block=_share(fits.sum(), np.int64(len(fits))),
        **planes,
    )


def states_of(
    values: NDArray[np.uint32], lanes: NDArray[np.bool_]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Words of the planes that are '0', '1' and mixed in the given lanes: uint32[n] each."""
    active = np.where(lanes, np.uint32(0xFFFFFFFF), np.uint32(0))
    ones = np.bitwise_and.reduce(values | ~active, axis=1)
    any_ones = np.bitwise_or.reduce(values & active, axis=1)
    return ~any_ones, ones, any_ones & ~ones


def _transitions(
    values: NDArray[np.uint32],
    before: NDArray[np.uint32],
    first: NDArray[np.bool_],
    lanes: NDArray[np.bool_],
) -> dict[str, Any]:
    """What planes become, by what they were, as `Contents` names it."""
    if not len(values):
        return {
            "was_zero": (0.0, 0.0),
            "was_one": (1.0, 0.0),
            "was_mixed": (0.0, 1.0),
            "kept": 1.0,
        }
    active = np.where(lanes, np.uint32(0xFFFFFFFF), np.uint32(0))
    _, ones, mixed = states_of(values, lanes)
    differs = values ^ before
    unchanged = ~np.bitwise_or.reduce(differs & active, axis=1)
    opposite = np.bitwise_and.reduce(differs | ~active, axis=1)
    again = np.where(first, np.uint32(0), np.uint32(0xFFFFFFFF))
    of_before = tuple(state & again for state in states_of(before, lanes))
    both = of_before[2] & mixed
    kept, inverted = both & unchanged, both & opposite
    anew = mixed & ~kept & ~inverted
    shares: dict[str, Any] = {}
    if first.any():
        shares["first"] = _become(ones, mixed, ~again, (0.0, 0.0))
    if not first.all():
        of_any = _become(ones, mixed, again, (0.0, 0.0))
        shares["after"] = of_any
        for name, state in zip(("was_zero", "was_one", "was_mixed"), of_before, strict=True):
            # Of a state that was not seen, that bit becomes what it becomes of any.
            of_state = _become(ones, mixed, state, of_any)
            if of_state != of_any:
                shares[name] = of_state
    count = np.maximum(_count(both), 1)
    shares["kept"] = _bits(_count(kept), count)
    shares["inverted"] = _bits(_count(inverted), count)
    return shares | _lanes(values, before, active, anew, anew & both)


def _become(
    ones: NDArray[np.uint32],
    mixed: NDArray[np.uint32],
    state: NDArray[np.uint32],
    else_: tuple[profiles.Bits, profiles.Bits],
) -> tuple[profiles.Bits, profiles.Bits]:
    """Shares of planes that are '1', and mixed, after a state; where none was in it, others."""
    count = _count(state)
    become = (_count(ones & state), _count(mixed & state))
    of_one, of_mixed = (
        _compact(np.where(count > 0, after / np.maximum(count, 1), instead))
        for after, instead in zip(become, else_, strict=True)
    )
    return of_one, of_mixed


def _lanes(
    values: NDArray[np.uint32],
    before: NDArray[np.uint32],
    active: NDArray[np.uint32],
    anew: NDArray[np.uint32],
    again: NDArray[np.uint32],
) -> dict[str, Any]:
    """How lanes differ in planes that are mixed anew, and from before in those mixed again."""
    sums = np.zeros((11, COMPONENT_BITS))
    pairs = active[:, 1:] & active[:, :-1]
    for start in range(0, len(values), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        value, earlier, here = values[rows], before[rows], active[rows]
        of_fresh, of_again = here & (anew & ~again)[rows, None], here & again[rows, None]
        fresh_pairs = pairs[rows] & (anew & ~again)[rows, None]
        again_pairs = pairs[rows] & again[rows, None]
        differing = value[:, 1:] ^ value[:, :-1]
        words = (
            of_fresh,
            value & of_fresh,
            fresh_pairs,
            differing & fresh_pairs,
            of_again,
            earlier & of_again,
            earlier & value & of_again,
            ~earlier & value & of_again,
            again_pairs,
            differing & again_pairs,
            (earlier[:, 1:] ^ earlier[:, :-1]) & again_pairs,
        )
        for place, each in enumerate(words):
            sums[place] += bits_of(each).sum(axis=(0, 1), dtype=np.int64)
    lanes, ones, fresh, differ, both, ones_before, one_to_one, zero_to_one, pair, now, old = sums

    def share(counts: NDArray[np.float64], of: NDArray[np.float64]) -> NDArray[np.float64]:
        return counts / np.maximum(of, 1)

    # A lane keeps its bit (or inverts it) in a share of lanes; in the others it is drawn by chance.
    of_one, of_zero = share(one_to_one, ones_before), share(zero_to_one, both - ones_before)
    linked = np.clip(of_one - of_zero, -_LINKED, _LINKED)
    left = 1 - np.abs(linked)
    again_ones = np.clip(np.minimum(of_one, of_zero) / left, 0, 1)
    before_one = share(ones_before, both)
    before_one = np.where(linked < 0, 1 - before_one, before_one)
    mixed_pair = before_one * (1 - again_ones) + again_ones * (1 - before_one)
    explained = linked**2 * share(old, pair) + 2 * np.abs(linked) * left * mixed_pair
    again_differ = np.clip((share(now, pair) - explained) / left**2, 0, 1)
    # Of planes that were not seen to become mixed, or to be mixed again, lanes are as in all.
    ones_of_any = share(ones + one_to_one + zero_to_one, lanes + both)
    differ_of_any = share(differ + now, fresh + pair)
    numbers: dict[str, Any] = {
        "mixed_ones": _compact(np.where(lanes > 0, share(ones, lanes), ones_of_any), 2),
        "neighbours": _compact(np.where(fresh > 0, share(differ, fresh), differ_of_any), 2),
    }
    if both.any():
        numbers |= {
            "linked": _compact(np.where(both > 0, linked, 0), 2),
            "again_ones": _compact(np.where(both > 0, again_ones, ones_of_any), 2),
            "again_neighbours": _compact(np.where(pair > 0, again_differ, differ_of_any), 2),
        }
    return numbers


def _count(words: NDArray[np.uint32]) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = bits_of(words).sum(axis=0, dtype=np.int64)
    return counts


def _share(count: np.number[Any], of: np.number[Any]) -> float:
    return round(float(count) / max(float(of), 1.0), _DIGITS)


def _bits(counts: NDArray[np.number[Any]], of: NDArray[np.number[Any]]) -> profiles.Bits:
    """Counts as shares, bit by bit; 0 where there is nothing to count."""
    return _compact(counts / np.maximum(of, 1))


def _compact(shares: NDArray[np.float64], digits: int = _DIGITS) -> "float | tuple[float, ...]":
    numbers = tuple(round(float(share), digits) + 0.0 for share in shares)
    return numbers[0] if len(set(numbers)) == 1 else numbers


def _deltas(patterns: Patterns, fresh: NDArray[np.bool_]) -> tuple[tuple[int, int, float], ...]:
    """Exponents of the deltas of contents that do not have those before, else of all."""
    exponents = np.stack([exponents_of(patterns.delta_e), exponents_of(patterns.delta_b)], axis=1)
    exponents = exponents[fresh] if fresh.any() else exponents
    pairs, counts = np.unique(exponents, axis=0, return_counts=True)
    return tuple(
        (int(e), int(b), _share(count, counts.sum()))
        for (e, b), count in zip(pairs, counts, strict=True)
    )


def exponents_of(deltas: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Exponents of deltas; -1 of a delta of 0."""
    return np.where(deltas == 0, -1, np.log2(np.maximum(deltas, 1))).astype(np.int64)


# Steps of a register: which of its writes in a window are alike, in turn or in loops.

MOST_STEPS = 64
"""Steps of a register that are told apart; where there would be more, less is told apart."""
LONGEST_LOOP = 12
"""Most writes of a register in one iteration of a loop that is recognised."""

_TOLERANCE, _WIDER = 0.12, 1.5
_FEW = 16
"""Writes that are compared at once at first: most are not of a loop."""


def steps_of(
    number: NDArray[np.int64], features: NDArray[np.float64]
) -> tuple[tuple[int, int], ...]:
    """Fold the writes of a register into steps that follow one another or repeat in loops.

    Windows of a kernel run one program: a write of a number is the same instruction in most of
    them, and writes that are alike at equal distances are a loop.

    Parameters
    ----------
    number : int64[n]
        Number of each write in its window, from 1, but for the last one of the window.
    features : float64[n, features]
        What writes are compared by: of alike ones, the means differ by at most 0.12.

    Returns
    -------
    tuple of (int, int)
        Writes in a row, and steps that they belong to in turn.
    """
    if not len(number):
        return ()
    most = int(number.max())
    sums = np.zeros((most, features.shape[1]))
    np.add.at(sums, number - 1, features)
    means = sums / np.maximum(np.bincount(number - 1, minlength=most), 1)[:, None]
    tolerance = _TOLERANCE
    steps = _folded(means, tolerance)
    while sum(period for _, period in steps) > MOST_STEPS:
        tolerance *= _WIDER
        steps = _folded(means, tolerance)
    return steps


def _folded(means: NDArray[np.float64], tolerance: float) -> tuple[tuple[int, int], ...]:
    steps: list[tuple[int, int]] = []
    at = 0
    while at < len(means):
        best = (1, 1)
        for period in range(1, min(LONGEST_LOOP, (len(means) - at) // 2) + 1):
            alike = _alike(means[at:], period, tolerance)
            # A loop saves the steps of all iterations but the first.
            if alike // period * period > best[0] - best[1]:
                best = (period + alike // period * period, period)
        steps.append(best)
        at += best[0]
    return tuple(steps)


def _alike(means: NDArray[np.float64], period: int, tolerance: float) -> int:
    """Writes after a first iteration of a loop that are like those of that iteration."""
    start, length = period, _FEW
    while start < len(means):
        following = np.arange(start, min(start + length, len(means)))
        unlike = np.abs(means[following] - means[following % period]).max(axis=1) > tolerance
        if unlike.any():
            return start + int(unlike.argmax()) - period
        start, length = start + length, 2 * length
    return len(means) - period


def step_of_writes(steps: tuple[tuple[int, int], ...], most: int) -> NDArray[np.int64]:
    """Step of the write of each number that is not the last of its window: int64[most + 1].

    Writes beyond those that were seen repeat the last steps; number 0 is the time before.
    """
    of_writes, first = [np.zeros(1, np.int64)], 1
    for index, (writes, period) in enumerate(steps):
        if index == len(steps) - 1:
            writes = max(writes, most)
        of_writes.append(first + np.arange(writes) % period)
        first += period
    numbers = np.concatenate([*of_writes, np.full(most, profiles.LAST)])
    return numbers[: most + 1]


# Windows: how they are grouped and launched, when they are allocated and how long they last.

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


def launches_of(windows: Windows) -> tuple[profiles.Launch, ...]:
    """Launches in the order of their begin."""
    numbers = np.unique(windows.launch)
    begins = np.array([windows.begin[windows.launch == number].min() for number in numbers])
    launches, ended = [], 0
    for number in numbers[np.argsort(begins, kind="stable")]:
        members = windows.launch == number
        groups, first = np.unique(windows.group[members], return_index=True)
        in_order = groups[np.argsort(first, kind="stable")]
        active = _longest(windows.active, windows.group)[in_order].astype(np.float64)
        trend = profiles.trend_of(active, profiles.MANY)
        deviation = active / np.maximum(profiles.along(trend, len(active)), 1)
        ends = _longest(windows.end, windows.group)[in_order]
        followed = len(groups) - len(np.unique(windows.group[members & windows.fresh]))
        in_turn = followed > 1 and np.mean(np.diff(ends) >= 0) > _MOSTLY
        tail = _longest(windows.end - windows.begin, windows.group)[in_order] - active
        launches.append(
            profiles.Launch(
                kernel=int(windows.kernel[members][0]),
                work_groups=len(groups),
                gap=max(int(windows.begin[members].min()) - ended, 0),
                active=tuple(trend),
                deviation=tuple(profiles.levels_of(deviation, profiles.MANY)),
                tail=tuple(profiles.trend_of(tail, profiles.MANY)),
                apart=tuple(profiles.levels_of(np.diff(np.sort(ends)[:followed]), profiles.MANY))
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
        "wavefronts": tuple(profiles.levels_of(sizes, profiles.MANY)),
        "open_windows": _most_open(windows.begin[members], ends),
        "first": tuple(profiles.levels_of(delay[fresh], profiles.MANY)),
        "following": tuple(profiles.levels_of(delay[~fresh], profiles.MANY)),
        "tail": None if together else tuple(profiles.levels_of(ends - last, profiles.MANY)),
    }


def _most_open(begin: NDArray[np.int64], end: NDArray[np.int64]) -> int:
    """Most windows open at once; entries that are released can be allocated in the next cycle."""
    order = np.argsort(np.concatenate((begin, end + 1)), kind="stable")
    change = np.repeat([1, -1], len(begin))
    at = np.concatenate((begin, end + 1))
    order = np.lexsort((change, at))
    return int(np.cumsum(change[order]).max())
