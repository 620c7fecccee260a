"""When instructions issue on one compute unit: a simple model, whose numbers are assumed.

Functional execution says which instructions each wave executes; this says when. Work-groups enter
in their order as soon as all their waves have a free window and their LDS has room. Of the waves of
a SIMD unit whose turn has come, the oldest issues first. A vector instruction keeps the vector ALU
of its unit busy; loads complete after a latency, in order, and ``s_waitcnt`` waits for them.
"""

import re
from typing import Any

import numpy as np

from mcage.compiled import compiled
from mcage.tracing.emulation import waves
from mcage.tracing.emulation.arithmetic import Array
from mcage.tracing.emulation.waves import Reached, Wave

KINDS = 11
_COUNTERS = 3
_RING = 64
_VM, _LGKM, _VS = range(_COUNTERS)
_NO_WAIT = 1 << 40


def cycles_of(generation: int, latency: float) -> tuple[Array, Array]:
    """Cycles that instructions take; all are assumed, but for the rates of the vector ALU.

    The vector ALU needs 4 cycles for 64 lanes on 16 units, and 1 for 32 on 32; transcendental
    functions and float64 have a quarter of the rate. Latencies are 500 cycles of loads and stores,
    64 of the LDS, and 100 of scalar loads.

    Parameters
    ----------
    generation : int
        Of the instruction set.
    latency : float
        Factor on the latencies.

    Returns
    -------
    int64[kinds], int64[kinds]
        Cycles until the next instruction of a wave, for which one keeps the vector ALU of its unit
        busy if it uses it; and until it has its result.
    """
    vector, slow, matrix, issue = (4, 16, 32, 4) if generation == 9 else (1, 4, 16, 1)
    busy = np.full(KINDS, issue, np.int64)
    busy[[waves.VECTOR, waves.SLOW, waves.MATRIX]] = vector, slow, matrix
    result = busy.copy()
    load, lds, scalar = (max(1, round(latency * cycles)) for cycles in (500, 64, 100))
    result[[waves.LOAD, waves.STORE, waves.LDS, waves.SCALAR_LOAD]] = load, load, lds, scalar
    return busy, result


_COUNTS = {
    **{"vmcnt": _VM, "loadcnt": _VM, "lgkmcnt": _LGKM, "dscnt": _LGKM, "kmcnt": _LGKM},
    **{"vscnt": _VS, "storecnt": _VS},
}


def waits_for(text: str) -> list[int]:
    """How many accesses of each counter may still be under way after a wait."""
    left = [_NO_WAIT] * _COUNTERS
    name, _, rest = text.partition(" ")
    for counter, number in re.findall(r"(\w+)\((\d+)\)", rest):
        if counter in _COUNTS:
            left[_COUNTS[counter]] = min(left[_COUNTS[counter]], int(number))
    for counter in re.findall(r"(?:s_wait(?:cnt)?|^)_?([a-z]+cnt)(?=_|$)", name):
        numbers = re.findall(r"(0x[0-9a-f]+|\d+)$", rest)
        if counter in _COUNTS and numbers and "(" not in rest:
            left[_COUNTS[counter]] = int(numbers[0], 0) & 63
    return left


def time_waves(
    ran: list[Wave],
    codes: list[Reached],
    generation: int,
    latency: float,
    units: int,
    windows: int,
    groups_at_once: int,
) -> None:
    """Let the waves of a compute unit run, and note in each when it did what.

    Parameters
    ----------
    ran : list of Wave
        Waves in the order of their work-groups; wave n runs on SIMD unit n modulo `units`.
    codes : list of Reached
        Instructions by number.
    generation, latency : int, float
        As of `cycles_of`; in generation 9 stores count as loads do.
    units, windows : int
        SIMD units, and windows of each that may be open at once.
    groups_at_once : int
        Work-groups for which the LDS has room.
    """
    lengths = np.array([len(wave.codes) for wave in ran], np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    trail = np.concatenate([wave.codes for wave in ran]).astype(np.int32)
    kind = np.array([code.kind for code in codes], np.int64)
    counter = np.full(KINDS, -1, np.int64)
    counter[waves.LOAD], counter[waves.LDS] = _VM, _LGKM
    counter[waves.SCALAR_LOAD] = _LGKM
    counter[waves.STORE] = _VM if generation == 9 else _VS
    wait = np.array([waits_for(code.inst.text) for code in codes], np.int64).reshape(-1, _COUNTERS)
    group = np.unique(np.array([wave.work_group for wave in ran]), return_inverse=True)[1].astype(
        np.int64
    )
    size = np.bincount(group).astype(np.int64)
    n = len(ran)
    issued, ready = np.zeros(len(trail), np.int64), np.zeros(len(trail), np.int64)
    begin, end, slot = (np.full(n, -1, np.int64) for _ in range(3))
    complete = _simulate(
        (trail, starts, kind, wait, counter, group, size),
        (*cycles_of(generation, latency), groups_at_once),
        (issued, ready, begin, end, slot),
        (
            *(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.bool_)),
            *(np.zeros((n, _COUNTERS, _RING), np.int64), np.zeros((n, _COUNTERS), np.int64)),
            *(np.zeros((n, _COUNTERS), np.int64), np.full(units * windows, -1, np.int64)),
            *(np.zeros((units, windows), np.int64), np.zeros(units, np.int64)),
            np.zeros((len(size), 4), np.int64),
        ),
    )
    if not complete:
        raise AssertionError("waves wait for each other for ever")
    for number, wave in enumerate(ran):
        steps = slice(starts[number], starts[number + 1])
        wave.issued, wave.ready = issued[steps], ready[steps]
        wave.begin, wave.end, wave.slot = int(begin[number]), int(end[number]), int(slot[number])


_NEVER = 1 << 62


@compiled
def _simulate(program: Any, clock: Any, out: Any, work: Any) -> bool:
    """Let all waves run; return whether each comes to its end."""
    trail, starts, kind, wait, counter, group, size = program
    busy, latency, groups_at_once = clock
    issued, ready, begin, end, slot = out
    step_of, earliest, held, ring, count, latest, resident, free_at, alu_free, groups = work
    n, most = len(begin), len(resident)
    units, windows = free_at.shape
    next_wave = ended = in_flight = 0
    room_at = 0
    enter_at = -1  # -1: to be found anew
    while ended < n:
        if enter_at < 0:
            enter_at = _NEVER
            if next_wave < n and in_flight < groups_at_once:
                enter_at = room_at
                for unit in range(units):
                    needed = 0
                    for wave in range(next_wave, next_wave + size[group[next_wave]]):
                        needed += wave % units == unit
                    # The latest of the windows that it takes: the lowest `needed` that are free.
                    candidate = _NEVER if needed else 0
                    for window in range(windows):
                        earlier = 0
                        for other in range(windows):
                            earlier += free_at[unit, other] <= free_at[unit, window]
                        if earlier >= needed:
                            candidate = min(candidate, free_at[unit, window])
                    enter_at = max(enter_at, candidate)
        # The wave that may issue first; of several, the oldest.
        best = -1
        best_time = 0
        for place in range(most):
            wave = resident[place]
            if wave < 0 or held[wave]:
                continue
            code = trail[step_of[wave]] >> 1
            of_kind = kind[code]
            time = earliest[wave]
            if of_kind == 8:  # a wait
                for which in range(3):
                    left = wait[code, which]
                    under_way = count[wave, which]
                    if under_way > left:
                        time = max(time, ring[wave, which, (under_way - left - 1) % _RING])
            elif of_kind <= 2:  # the vector ALU
                time = max(time, alu_free[wave % units])
            if best < 0 or time < best_time or (time == best_time and wave < best):
                best, best_time = wave, time
        if enter_at < _NEVER and (best < 0 or enter_at <= best_time):
            for wave in range(next_wave, next_wave + size[group[next_wave]]):
                unit = wave % units
                for window in range(windows):
                    if free_at[unit, window] <= enter_at:
                        free_at[unit, window] = _NEVER
                        slot[wave] = window
                        break
                begin[wave] = enter_at
                step_of[wave] = starts[wave]
                earliest[wave] = enter_at + 1
                for place in range(most):
                    if resident[place] < 0:
                        resident[place] = wave
                        break
            next_wave += size[group[next_wave]]
            in_flight += 1
            enter_at = -1
            continue
        if best < 0:
            return False
        wave = best
        step = step_of[wave]
        of_kind = kind[trail[step] >> 1]
        issued[step] = best_time
        done = best_time + latency[of_kind]
        if of_kind <= 2:
            alu_free[wave % units] = best_time + busy[of_kind]
        which = counter[of_kind]
        if which >= 0:
            done = max(done, latest[wave, which])
            latest[wave, which] = done
            ring[wave, which, count[wave, which] % _RING] = done
            count[wave, which] += 1
        ready[step] = done
        step_of[wave] = step + 1
        earliest[wave] = best_time + busy[of_kind]
        of_group = group[wave]
        if of_kind == 9:  # a barrier
            groups[of_group, 0] += 1
            groups[of_group, 2] = max(groups[of_group, 2], best_time + 1)
            held[wave] = True
        elif of_kind == 10:  # the end
            last = max(best_time, latest[wave, 0], latest[wave, 1])
            end[wave] = last
            ended += 1
            groups[of_group, 1] += 1
            groups[of_group, 2] = max(groups[of_group, 2], best_time + 1)
            groups[of_group, 3] = max(groups[of_group, 3], last + 1)
            for place in range(most):
                if resident[place] == wave:
                    resident[place] = -1
            free_at[wave % units, slot[wave]] = last + 1
            if groups[of_group, 1] == size[of_group]:
                if in_flight == groups_at_once:
                    room_at = max(room_at, groups[of_group, 3])
                in_flight -= 1
            enter_at = -1
        if groups[of_group, 0] > 0 and groups[of_group, 0] + groups[of_group, 1] == size[of_group]:
            for place in range(most):
                other = resident[place]
                if other >= 0 and group[other] == of_group and held[other]:
                    held[other] = False
                    earliest[other] = max(earliest[other], groups[of_group, 2])
            groups[of_group, 0] = 0
            groups[of_group, 2] = 0
    return True
