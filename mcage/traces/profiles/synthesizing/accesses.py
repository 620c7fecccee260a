"""Accesses to a register in the windows of a role: values, and when they are written and read."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.traces.profiles.characterizing.steps import step_of_writes
from mcage.traces.profiles.levels import chosen, drawn, spread
from mcage.traces.profiles.profile import BEFORE, LAST, Register, Value
from mcage.traces.profiles.synthesizing.dispatch import whole


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
    register: Register, active: NDArray[np.int64], random: np.random.Generator
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
    writes = whole(drawn(register.writes, spread(random, windows)), random)
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
    register: Register, writes: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """Kind of each value of each window: int64[windows, most writes + 1]."""
    most = int(writes.max(initial=0))
    kinds = np.zeros((len(writes), most + 1), np.int64)
    steps = step_of_writes(register.steps, most)
    for number in range(1, most + 1):
        for step, is_step in ((steps[number], writes > number), (LAST, writes == number)):
            members = np.flatnonzero(is_step)
            for before in np.unique(kinds[members, number - 1]):
                followers = members[kinds[members, number - 1] == before]
                indices, shares = _followers(register.values, int(before), int(step))
                picked = chosen(shares, spread(random, len(followers)))
                kinds[followers, number] = np.asarray(indices)[picked]
    return kinds


def _followers(values: tuple[Value, ...], before: int, step: int) -> tuple[list[int], list[float]]:
    """Kinds of a step that may follow a kind, and their shares.

    Where none of that step was seen after the kind, all of the step may follow; where none of the
    step was seen, those of any.
    """
    after = values[before].then
    seen = {k: share for k, share in after.items() if values[k].step == step and share > 0}
    if not seen:
        seen = {k: float(v.count) for k, v in enumerate(values) if v.step == step and v.count}
    if not seen:
        seen = {k: 1.0 for k, v in enumerate(values) if v.step != BEFORE} or {0: 1.0}
    return list(seen), list(seen.values())


def _begins(
    register: Register,
    writes: NDArray[np.int64],
    is_value: NDArray[np.bool_],
    lives: NDArray[np.float64],
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """Time of each value's write, as a share of its window's active time; 0 of value 0."""
    windows = len(writes)
    parts = np.array(register.written)
    of_windows = parts[(spread(random, windows) * len(parts)).astype(np.int64)]
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
    register: Register,
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
                places = (np.sort(spread(random, len(members))) * len(parts[kind])).astype(np.int64)
                lives[members, number] = parts[kind][places]
        if number:
            elapsed += lives[:, number, 0]
    of_values: NDArray[np.float64] = lives[is_value]
    return of_values


def _reads(
    register: Register,
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
        share = drawn(value.other_reads, spread(random, len(earlier)))
        read_values += [members, members[earlier]]
        cycles += [begin[members] + last, begin[members[earlier]] + np.rint(last[earlier] * share)]
    return np.concatenate(read_values), np.concatenate(cycles).astype(np.int64)
