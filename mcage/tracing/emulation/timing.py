"""When instructions issue on one compute unit: a simple model, whose numbers are assumed.

Functional execution says which instructions each wave executes; this says when. Work-groups enter
in their order as soon as all their waves have a free window and their LDS has room. Of the waves of
a SIMD unit whose turn has come, the oldest issues first. A vector instruction keeps the vector ALU
of its unit busy; loads complete after a latency, in order, and ``s_waitcnt`` waits for them.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from mcage.compiled import compiled
from mcage.traces.model import READ, WRITE
from mcage.tracing.emulation import waves
from mcage.tracing.emulation.arithmetic import Array
from mcage.tracing.emulation.waves import Reached, Wave
from mcage.tracing.importing.contents import NOTHING
from mcage.tracing.importing.recording import EVENT, PRELOAD

KINDS = 11
_COUNTERS = 3
_RING = 64
_VM, _LGKM, _VS = range(_COUNTERS)
_NO_WAIT = 1 << 40
_NEVER = 1 << 62
_NOBODY, _UNKNOWN = -1, -2


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
    clock: tuple[int, float],
    units: int,
    windows: int,
    groups_at_once: int,
    noted: slice = slice(None),
) -> None:
    """Let the waves of a compute unit run, and note in each when it did what.

    Parameters
    ----------
    ran : list of Wave
        Waves in the order of their work-groups; wave n runs on SIMD unit n modulo `units`.
    codes : list of Reached
        Instructions by number.
    clock : (int, float)
        Generation and latency, as of `cycles_of`; in generation 9 stores count as loads do.
    units, windows : int
        SIMD units, and windows of each that may be open at once.
    groups_at_once : int
        Work-groups for which the LDS has room.
    noted : slice
        Waves that keep when each of their instructions was issued and ready.
    """
    lengths = np.array([len(wave.codes) for wave in ran], np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    trail = np.concatenate([wave.codes for wave in ran], dtype=np.int32)
    for wave, first, end in zip(ran, starts, starts[1:], strict=False):
        wave.codes = trail[first:end]  # the same, once in memory
    keeps = np.zeros(len(ran), np.bool_)
    keeps[noted] = True
    kept = np.cumsum(lengths * keeps)
    note_from = np.where(keeps, kept - lengths, -1)
    generation, latency = clock
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
    issued, ready = (np.zeros(kept[-1], np.int64) for _ in range(2))
    begin, end, slot = (np.full(n, -1, np.int64) for _ in range(3))
    places, counters = (units, windows), (units, windows, _COUNTERS)
    complete = _simulate(
        (trail, starts, note_from, group, size),
        (kind, wait, counter),
        (*cycles_of(generation, latency), groups_at_once),
        (issued, ready, begin, end, slot),
        (
            *(np.full(places, _NOBODY, np.int64), np.zeros(places, np.int64)),
            *(np.zeros(places, np.int64), np.full(places, _NEVER, np.int64)),
            *(np.zeros((*counters, _RING), np.int64), np.zeros(counters, np.int64)),
            np.zeros(counters, np.int64),
        ),
        (np.zeros(units, np.int64), np.full((units, 2), _UNKNOWN, np.int64)),
        (np.zeros(places, np.int64), np.zeros((len(size), 4), np.int64)),
    )
    if not complete:
        raise AssertionError("waves wait for each other for ever")
    for number, wave in enumerate(ran):
        wave.begin, wave.end, wave.slot = int(begin[number]), int(end[number]), int(slot[number])
        if keeps[number]:
            steps = slice(note_from[number], kept[number])
            wave.issued, wave.ready = issued[steps], ready[steps]


@compiled
def _may_issue(unit: Any, window: Any, trail: Any, instructions: Any, waves_at: Any) -> Any:
    """When the wave in a window of a unit may issue, as far as the vector ALU is free."""
    kind, wait, _ = instructions
    _, step_of, earliest, _, ring, count, _ = waves_at
    code = trail[step_of[unit, window]] >> 1
    time = earliest[unit, window]
    if kind[code] == 8:  # a wait
        for which in range(3):
            left = wait[code, which]
            under_way = count[unit, window, which]
            if under_way > left:
                time = max(time, ring[unit, window, which, (under_way - left - 1) % _RING])
    return time


@compiled
def _find_first(unit: Any, trail: Any, kind: Any, waves_at: Any, units: Any) -> None:
    """Find the wave of a unit that may issue first, the oldest of several."""
    resident, step_of, _, may_issue, _, _, _ = waves_at
    alu_free, first = units
    best, best_time = _NOBODY, _NEVER
    for window in range(resident.shape[1]):
        time = may_issue[unit, window]
        if time == _NEVER:
            continue
        if kind[trail[step_of[unit, window]] >> 1] <= 2:  # the vector ALU
            time = max(time, alu_free[unit])
        older = best < 0 or resident[unit, window] < resident[unit, best]
        if time < best_time or (time == best_time and older):
            best, best_time = window, time
    first[unit, 0], first[unit, 1] = best, best_time


@compiled
def _enters_at(next_wave: Any, room_at: Any, group: Any, size: Any, free_at: Any) -> Any:
    """When the next group can enter, with a window for each of its waves."""
    units, windows = free_at.shape
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
    return enter_at


@compiled
def _simulate(
    program: Any, instructions: Any, clock: Any, out: Any, waves_at: Any, units: Any, room: Any
) -> bool:
    """Let all waves run; return whether each comes to its end."""
    trail, starts, note_from, group, size = program
    kind, _, counter = instructions
    busy, latency, groups_at_once = clock
    issued, ready, begin, end, slot = out
    resident, step_of, earliest, may_issue, ring, count, latest = waves_at
    alu_free, first = units
    free_at, groups = room
    n = len(begin)
    count_of_units, windows = free_at.shape
    next_wave = ended = in_flight = 0
    room_at = 0
    enter_at = -1  # -1: to be found anew
    while ended < n:
        if enter_at < 0:
            enter_at = _NEVER
            if next_wave < n and in_flight < groups_at_once:
                enter_at = _enters_at(next_wave, room_at, group, size, free_at)
        # The wave that may issue first; of several, the oldest.
        unit = _NOBODY
        for other in range(count_of_units):
            if first[other, 0] == _UNKNOWN:
                _find_first(other, trail, kind, waves_at, units)
            if first[other, 0] < 0:
                continue
            sooner = unit < 0 or first[other, 1] < first[unit, 1]
            if not sooner and first[other, 1] == first[unit, 1]:
                sooner = resident[other, first[other, 0]] < resident[unit, first[unit, 0]]
            if sooner:
                unit = other
        if enter_at < _NEVER and (unit < 0 or enter_at <= first[unit, 1]):
            for wave in range(next_wave, next_wave + size[group[next_wave]]):
                unit = wave % count_of_units
                window = 0
                while free_at[unit, window] > enter_at:
                    window += 1
                free_at[unit, window] = _NEVER
                slot[wave], begin[wave], resident[unit, window] = window, enter_at, wave
                step_of[unit, window] = starts[wave]
                earliest[unit, window] = enter_at + 1
                count[unit, window] = 0
                latest[unit, window] = 0
                may_issue[unit, window] = _may_issue(unit, window, trail, instructions, waves_at)
                first[unit, 0] = _UNKNOWN
            next_wave += size[group[next_wave]]
            in_flight += 1
            enter_at = -1
            continue
        if unit < 0:
            return False
        window, now = first[unit, 0], first[unit, 1]
        wave, step = resident[unit, window], step_of[unit, window]
        of_kind = kind[trail[step] >> 1]
        done = now + latency[of_kind]
        if of_kind <= 2:
            alu_free[unit] = now + busy[of_kind]
        which = counter[of_kind]
        if which >= 0:
            done = max(done, latest[unit, window, which])
            latest[unit, window, which] = done
            ring[unit, window, which, count[unit, window, which] % _RING] = done
            count[unit, window, which] += 1
        if note_from[wave] >= 0:
            note = note_from[wave] + step - starts[wave]
            issued[note], ready[note] = now, done
        step_of[unit, window] = step + 1
        earliest[unit, window] = now + busy[of_kind]
        first[unit, 0] = _UNKNOWN
        if of_kind < 9:
            may_issue[unit, window] = _may_issue(unit, window, trail, instructions, waves_at)
            continue
        may_issue[unit, window] = _NEVER  # it waits for others, or has ended
        of_group = group[wave]
        groups[of_group, 2] = max(groups[of_group, 2], now + 1)
        if of_kind == 9:  # a barrier
            groups[of_group, 0] += 1
        else:
            last = max(now, latest[unit, window, 0], latest[unit, window, 1])
            end[wave] = last
            ended += 1
            groups[of_group, 1] += 1
            groups[of_group, 3] = max(groups[of_group, 3], last + 1)
            resident[unit, window] = _NOBODY
            free_at[unit, window] = last + 1
            if groups[of_group, 1] == size[of_group]:
                if in_flight == groups_at_once:
                    room_at = max(room_at, groups[of_group, 3])
                in_flight -= 1
            enter_at = -1
        if groups[of_group, 0] > 0 and groups[of_group, 0] + groups[of_group, 1] == size[of_group]:
            for unit in range(count_of_units):
                for window in range(windows):
                    wave = resident[unit, window]
                    if wave >= 0 and group[wave] == of_group and may_issue[unit, window] == _NEVER:
                        earliest[unit, window] = max(earliest[unit, window], groups[of_group, 2])
                        may_issue[unit, window] = _may_issue(
                            unit, window, trail, instructions, waves_at
                        )
                        first[unit, 0] = _UNKNOWN
            groups[of_group, 0] = 0
            groups[of_group, 2] = 0
    return True


# Accesses to registers, in the order in which they happen.

_CYCLES_TOGETHER = 1 << 18
_RANK = np.zeros(8, np.int8)
_RANK[[PRELOAD, WRITE, READ]] = range(3)  # inside a cycle


def accesses_in_order(
    ran: list[Wave], codes: list[Reached], preloads: list[Array], *, keeps: bool
) -> Iterator[tuple[int, Array]]:
    """Accesses of waves that have been timed, in the order of time, in parts.

    A register is read when its instruction issues, and written when the result is there.

    Parameters
    ----------
    ran : list of Wave
        In the order in which their windows open.
    codes : list of Reached
        Instructions by number.
    preloads : list of int32[waves of a work-group]
        What the first registers hold at first: numbers of contents, by the wave's number.
    keeps : bool
        Whether waves keep all that they have done; otherwise they forget all but when what was
        issued.

    Yields
    ------
    int, array of `EVENT`
        The cycle before which all this happens, and all accesses before it that have not been
        yielded; windows are numbers of waves in `ran`.
    """
    read = _RegistersRead(codes)
    running: dict[int, _Writes] = {}
    begun, last = 0, max((wave.end for wave in ran), default=-1)
    for first in range(0, last + 1, _CYCLES_TOGETHER):
        until, before = first + _CYCLES_TOGETHER, begun
        while begun < len(ran) and ran[begun].begin < until:
            running[begun] = _Writes(ran[begun])
            if not keeps:
                ran[begun].forget_writes()
            begun += 1
        parts = [_preloaded(number, ran[number], preloads) for number in range(before, begun)]
        parts += [writes.between(number, first, until) for number, writes in running.items()]
        parts += [read.between(ran, list(running), first, until)]
        events = np.concatenate(parts)
        yield until, events[np.lexsort((_RANK[events["kind"]], events["time"]))]
        for number in [number for number in running if ran[number].end < until]:
            del running[number]
            if not keeps:
                ran[number].codes = ran[number].codes[:0].copy()


def _events(kind: int, time: Array, window: Any, register: Any, mask: Any, content: Any) -> Array:
    events = np.empty(len(time), EVENT)
    columns = {"time": time, "window": window, "kind": kind, "reg": register}
    for name, column in (columns | {"exec_mask": mask, "value": content}).items():
        events[name] = column
    return events


def _preloaded(number: int, wave: Wave, preloads: list[Array]) -> Array:
    """What the registers of a wave hold at first."""
    count = len(preloads)
    contents = [of_waves[wave.number] for of_waves in preloads]
    time = np.full(count, wave.begin)
    return _events(PRELOAD, time, number, np.arange(count), np.uint64(wave.lanes), contents)


class _Writes:
    """Writes of a wave, in the order in which they happen."""

    def __init__(self, wave: Wave) -> None:
        self.columns: list[Array] = []
        if wave.step is not None:
            on = np.flatnonzero(wave.mask)
            time = wave.ready[wave.step[on]]
            on = on[np.argsort(time, kind="stable")]
            time.sort()
            self.columns = [time, wave.register[on], wave.mask[on], wave.content[on]]

    def between(self, number: int, first: int, until: int) -> Array:
        """Return those from a cycle on, before another."""
        if not self.columns:
            return np.empty(0, EVENT)
        part = slice(*np.searchsorted(self.columns[0], (first, until)))
        time, register, mask, content = (column[part] for column in self.columns)
        return _events(WRITE, time, number, register, mask, content)


class _RegistersRead:
    """Registers that instructions read."""

    def __init__(self, codes: list[Reached]) -> None:
        self.registers = np.array([of for code in codes for of in code.reads], np.int64)
        self.count = np.array([len(code.reads) for code in codes])
        self.first = np.cumsum(self.count) - self.count

    def between(self, ran: list[Wave], running: list[int], first: int, until: int) -> Array:
        """Return reads of some waves from a cycle on, before another, wave after wave."""
        if not running:
            return np.empty(0, EVENT)
        parts = [slice(*np.searchsorted(ran[n].issued, (first, until))) for n in running]
        there = [(ran[n], part) for n, part in zip(running, parts, strict=True)]
        codes = np.concatenate([of.codes[part] for of, part in there])
        time = np.concatenate([of.issued[part] for of, part in there])
        wave = np.repeat(running, [part.stop - part.start for part in parts])
        active = np.flatnonzero(codes & 1 == 0)
        codes = codes[active] >> 1
        count = self.count[codes]
        of = np.repeat(active, count)
        skipped = np.repeat(self.first[codes] - (np.cumsum(count) - count), count)
        registers = self.registers[skipped + np.arange(len(of))]
        return _events(READ, time[of], wave[of], registers, 0, NOTHING)
