"""Accesses to a register in the windows of a role: values, and when they are written and read."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.traces.profiles.levels import chosen, drawn, spread
from mcage.traces.profiles.profile import BEFORE, LAST, LATER, STEPS, Register, Value
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
    begin = _begins(register, writes, kind, is_value, random) * active[window]
    cycle = np.rint(begin).astype(np.int64)
    following = np.append(cycle[1:], 0)
    final = number == writes[window]
    end = np.where(final, active[window], following)
    latest = np.where(final, end, np.maximum(end - 1, cycle))
    value, read_cycle = _reads(register, kind, cycle, end - cycle, random)
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
    for number in range(1, most + 1):
        for step in _steps(number, most):
            members = np.flatnonzero(_step_is(step, number, writes))
            for before in np.unique(kinds[members, number - 1]):
                followers = members[kinds[members, number - 1] == before]
                indices, shares = _followers(register.values, int(before), step)
                picked = chosen(shares, spread(random, len(followers)))
                kinds[followers, number] = np.asarray(indices)[picked]
    return kinds


def _steps(number: int, most: int) -> tuple[int, ...]:
    """Steps that the writes of a number may be."""
    if number <= STEPS:
        return (number,)
    return (LATER, LAST) if number < most else (LAST,)


def _step_is(step: int, number: int, writes: NDArray[np.int64]) -> NDArray[np.bool_]:
    if step == LATER:
        return writes > number
    return writes == number if step == LAST else writes >= number


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
    kind: NDArray[np.int64],
    is_value: NDArray[np.bool_],
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """Time of each value's write, as a share of its window's active time; 0 of value 0."""
    windows = len(writes)
    first = drawn(register.first_write, spread(random, windows))
    last = drawn(register.last_write, spread(random, windows))
    single = writes == 1
    first, last = np.where(single, last, np.minimum(first, last)), np.maximum(first, last)
    held = np.zeros(len(kind))
    for index, value in enumerate(register.values):
        members = np.flatnonzero(kind == index)
        held[members] = drawn(value.held, spread(random, len(members)))
    times = np.zeros(is_value.shape)
    times[is_value] = held
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
    return at[is_value]


def _reads(
    register: Register,
    kind: NDArray[np.int64],
    begin: NDArray[np.int64],
    life: NDArray[np.int64],
    random: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Value and cycle of each read."""
    read_values, cycles = [], []
    for index, value in enumerate(register.values):
        members = np.flatnonzero(kind == index)
        count = whole(drawn(value.reads, spread(random, len(members))), random)
        members, count = members[count > 0], count[count > 0]
        share = drawn(value.last_read, spread(random, len(members)))
        last = np.rint(life[members] * share)
        earlier = np.repeat(np.arange(len(members)), count - 1)
        share = drawn(value.other_reads, spread(random, len(earlier)))
        read_values += [members, members[earlier]]
        cycles += [begin[members] + last, begin[members[earlier]] + np.rint(last[earlier] * share)]
    return np.concatenate(read_values), np.concatenate(cycles).astype(np.int64)
