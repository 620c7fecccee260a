"""Longest duty cycles under assumptions that the papers leave open.

For ``scripts/experiments/explore_differences.py``.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from explore_traces import (
    dispatched_by_wavefront,
    kernels_of_table_5,
    released_at_last_access,
    sound_radix_sort,
    together,
)

from mcage.engines import select_engine
from mcage.engines.interface import Engine, fault_free_maps
from mcage.replays.layout import Layout, window_layout
from mcage.replays.outcome import CellTimes
from mcage.replays.prepare import FixedReplay, PreparedReplay
from mcage.replays.schedule import Schedule, live_ranges, make_schedule
from mcage.techniques import technique
from mcage.traces import ALLOC, KERNELS, RELEASE, WRITE, Trace, load_trace, open_trace
from mcage.traces.transforms import released_with_wavefronts

TECHNIQUES = ("baseline", "rc", "rc+rar", "argo")
PAPER_DUTY = (0, 0, 24, 30, 58, 68, 34, 36)
"""Mean reductions of the longest '0' and '1' duty in % (Valero et al., Figs. 13 and 16)."""

FOLLOWED_OFFSETS = 24
"""Starting offsets of a rotation that are followed one by one where they do not add up."""


@dataclass(frozen=True)
class Assumptions:
    """Under which a technique is replayed; the defaults are mcage's own.

    Attributes
    ----------
    changed : callable
        What becomes of a trace before.
    group : int
        Components of a group of the compression rule (the papers' BS).
    compress_divergent : bool
        The register's content decides also after a write under a partial lane mask.
    held : bool
        A released place is on until it is written next, instead of off.
    dead_off : bool
        Under compression, a register is off from the last read of its value on.
    slots : str
        Which free slot a new window takes: "lowest", next "in turn", "latest" released, "random".
    steady : bool
        Only the time from the first to the last moment with all slots in use counts.
    executions : int
        Rotation is followed for so many executions of the trace only; 0: in the long run.
    by_register : bool
        The mean over the used entries of each one's longest duty, instead of the longest of all.
    """

    changed: Callable[[Trace], Trace] = lambda trace: trace
    group: int = 8
    compress_divergent: bool = False
    held: bool = False
    dead_off: bool = False
    slots: str = "lowest"
    steady: bool = False
    executions: int = 0
    by_register: bool = False


def compresses(values: np.ndarray, group: int, delta_limit: int | None) -> np.ndarray:
    """Which contents compress, with groups of any size: bool[rows]."""
    groups = values.reshape(len(values), -1, group)
    inside, between = np.diff(groups, axis=2), np.diff(groups[:, :, 0], axis=1)
    e, b = inside[:, 0, 0], between[:, 0]
    fits = (inside == e[:, None, None]).all(axis=(1, 2)) & (between == b[:, None]).all(axis=1)
    for delta in (e, b):
        fits &= ((delta & (delta - np.uint32(1))) == 0) & (delta <= (delta_limit or 1 << 31))
    return fits


def schedule_under(
    trace: Trace, name: str, delta_limit: int | None, assumed: Assumptions
) -> Schedule:
    """Schedule of a trace under a technique."""
    schedule = make_schedule(trace, technique(name), delta_limit)
    if schedule.technique.stores_in_table:
        fits = compresses(trace.values, assumed.group, delta_limit)
        compressed = fits[trace.value[trace.kind == WRITE]]
        if not assumed.compress_divergent:
            compressed &= ~schedule.divergent
        schedule = replace(schedule, compressed=compressed)
        if assumed.dead_off:
            ends = live_ranges(trace, trace.window_of_event()).end_event
            schedule = replace(schedule, end_cycle=trace.cycle[ends])
    if assumed.slots != "lowest":
        schedule = in_other_slots(schedule, assumed.slots)
    return in_steady_state(schedule) if assumed.steady else schedule


def in_other_slots(schedule: Schedule, policy: str) -> Schedule:
    """The same windows, each in one of those slots of the trace that are free."""
    windows, rng = schedule.windows, random.Random(1)
    slots = schedule.trace.concurrent_windows
    free, pointer, given = list(range(slots)), 0, [0] * slots
    slot, generation = np.empty_like(windows.slot), np.empty_like(windows.slot)
    for kind, window in zip(schedule.op_kind.tolist(), schedule.op.tolist(), strict=True):
        if kind == RELEASE:
            free.append(int(slot[window]))
        elif kind == ALLOC:
            in_turn = min(free, key=lambda place: (place - pointer) % slots)
            choice = {"in turn": in_turn, "latest": free[-1], "random": rng.choice(free)}[policy]
            free.remove(choice)
            pointer = choice + 1
            slot[window], generation[window] = choice, given[choice]
            given[choice] += 1
    moved = replace(windows, slot=slot, base=slot * windows.size, generation=generation)
    return replace(schedule, windows=moved)


def in_steady_state(schedule: Schedule) -> Schedule:
    """Its time between the first and the last moment at which all slots are in use."""
    windows = schedule.windows
    moment = np.concatenate([windows.alloc_cycle, windows.release_cycle])
    opened = np.repeat([1, -1], len(windows.size))
    order = np.lexsort((opened, moment))
    full = np.flatnonzero(np.cumsum(opened[order]) == schedule.trace.concurrent_windows)
    begin, end = moment[order][full[0]], moment[order][full[-1] + 1]
    return replace(
        schedule,
        cycle=np.clip(schedule.cycle, begin, end) - begin,
        end_cycle=np.clip(schedule.end_cycle, begin, end) - begin,
        cycles=int(end - begin),
    )


def replays_under(schedule: Schedule, assumed: Assumptions) -> Iterator[PreparedReplay]:
    """Replays whose cell times add up to those of the technique."""
    layout = window_layout(schedule)
    held = assumed.held and schedule.technique.stores_in_table
    if schedule.technique.rotates and assumed.executions:
        windows = schedule.windows
        advance = np.bincount(windows.slot)[windows.slot]
        before = np.arange(assumed.executions)[:, None] * advance
        rotations = (windows.generation + before) % windows.size
    elif held:
        followed = np.linspace(0, layout.passes - 1, FOLLOWED_OFFSETS).astype(int)
        rotations = layout.rotation[np.unique(followed)]
    else:
        yield _replay(schedule, layout)
        return
    for rotation in rotations:
        once = Layout(layout.base[:1], rotation[None], np.zeros_like(layout.step))
        # As under RC, of which no engine expects that all offsets are there.
        under_rc = replace(schedule, technique=technique("rc"))
        yield _replay(held_until_written(under_rc, once) if held else under_rc, once)


def _replay(schedule: Schedule, layout: Layout) -> PreparedReplay:
    return FixedReplay.of(schedule, layout)


def held_until_written(schedule: Schedule, layout: Layout) -> Schedule:
    """Values stay in their entries until the next write to the entry, to the table or not."""
    window, size = schedule.window, schedule.windows.size[schedule.window]
    entry = layout.base[0, window] + (layout.rotation[0, window] + schedule.reg) % size
    order = np.argsort(entry, kind="stable")
    last = np.append(entry[order][1:] != entry[order][:-1], True)
    first = np.append(True, last[:-1])
    until = np.append(schedule.cycle[order][1:], 0)
    until[last] = schedule.cycle[order][first] + schedule.cycles
    end = np.empty_like(until)
    end[order] = until
    return replace(schedule, end_cycle=end)


def cell_times(
    engine: Engine, trace: Trace, name: str, delta_limit: int | None, assumed: Assumptions
) -> CellTimes:
    """Cell times of a technique under assumptions."""
    schedule = schedule_under(assumed.changed(trace), name, delta_limit, assumed)
    return summed(
        engine.cell_times(replay, fault_free_maps()) for replay in replays_under(schedule, assumed)
    )


def summed(parts: Iterable[CellTimes]) -> CellTimes:
    """Times of the same cells, one after the other."""
    parts = list(parts)
    ones, powered = sum(part.ones for part in parts), sum(part.powered for part in parts)
    return CellTimes(ones, powered, sum(part.period for part in parts))


def longest_duties(times: CellTimes, by_register: bool) -> list[float]:
    """Longest '0' and '1' duty cycle."""
    if not by_register:
        return [times.longest_zero_duty[0], times.longest_one_duty[0]]
    used = times.powered[0].any(axis=1)
    both = (times.zeros[0][used], times.ones[0][used])
    return [cycles.max(axis=1).mean() / times.period for cycles in both]


def reductions(
    engine: Engine,
    slices: Iterable[list[Trace]],
    delta_limit: int | None = None,
    assumed: Assumptions = Assumptions(),
) -> np.ndarray:
    """Reductions of the longest duties against the baseline, %: float64[kernels, 2 * techniques].

    The slices of a kernel count as one: cells are averaged over them. In place of the baseline's
    own reduction stands what its longest duties lack to 100 %.
    """
    rows = []
    for traces in slices:
        reduced = np.array(
            [
                longest_duties(
                    summed(
                        cell_times(engine, trace, name, delta_limit, assumed) for trace in traces
                    ),
                    assumed.by_register,
                )
                for name in TECHNIQUES
            ]
        )
        against = np.concatenate(
            [np.ones((1, 2)), np.repeat(reduced[:1], len(reduced) - 1, axis=0)]
        )
        rows.append((100 * (1 - reduced / against)).ravel())
    return np.array(rows)


SOUND = together(sound_radix_sort, kernels_of_table_5)

DUTY_HYPOTHESES = {
    "as recorded": Assumptions(),
    "a released place stays on until written": Assumptions(held=True),
    "a register is off once dead": Assumptions(dead_off=True),
    "divergent writes compress too": Assumptions(compress_divergent=True),
    "groups of 4": Assumptions(group=4),
    "groups of 16": Assumptions(group=16),
    "slots in turn": Assumptions(slots="in turn"),
    "slot released last": Assumptions(slots="latest"),
    "random slot": Assumptions(slots="random"),
    "no launch and tail": Assumptions(steady=True),
    "one execution of rotation": Assumptions(executions=1),
    "four executions of rotation": Assumptions(executions=4),
    "mean over registers": Assumptions(by_register=True),
    "kernels of Table 5 only": Assumptions(changed=kernels_of_table_5),
    "RadixSort without overflow": Assumptions(changed=sound_radix_sort),
    "wavefronts release": Assumptions(changed=released_with_wavefronts),
    "wavefronts release at last access": Assumptions(changed=released_at_last_access),
    "wavefronts release, slots in turn": Assumptions(
        changed=released_with_wavefronts, slots="in turn"
    ),
    "wavefronts release, random slot": Assumptions(
        changed=released_with_wavefronts, slots="random"
    ),
    "wavefronts are dispatched singly": Assumptions(changed=dispatched_by_wavefront),
    "A: Table 5, no overflow": Assumptions(changed=SOUND),
    "A, wavefronts release": Assumptions(changed=together(released_with_wavefronts, SOUND)),
    "A, wavefronts are dispatched singly": Assumptions(
        changed=together(dispatched_by_wavefront, SOUND)
    ),
}


def explore_duty(recorded: Path | None) -> None:
    """Print everything about the longest duty cycles."""
    engine = select_engine()[0]
    bundled = {name: [open_trace(name)] for name in KERNELS}
    print("Reductions of the longest '0' and '1' duty, %, mean over the kernels")
    print(f"{'':42s}" + "".join(f"{name:>13s}" for name in TECHNIQUES))
    _row("the paper", PAPER_DUTY)
    for delta_limit in (64, 1024, 4096, 16384):
        _row(f"delta limit {delta_limit}", reductions(engine, bundled.values(), delta_limit))
    for name, assumed in DUTY_HYPOTHESES.items():
        for delta_limit in (64, None):
            reduced = reductions(engine, bundled.values(), delta_limit, assumed)
            _row(f"{name}, {delta_limit or 'none'}", reduced)
    if recorded:
        _slices(engine, bundled, recorded)

    shown = [(64, "as recorded"), (None, "as recorded"), (None, "A: Table 5, no overflow")]
    shown += [(64, "wavefronts release"), (64, "wavefronts are dispatched singly")]
    for delta_limit, name in shown:
        print(f"\nEach kernel, {name}, delta limit {delta_limit or 'none'}")
        assumed = DUTY_HYPOTHESES[name]
        reduced = reductions(engine, bundled.values(), delta_limit, assumed)
        for kernel, row in zip(KERNELS, reduced, strict=True):
            _row(f"  {kernel}", row)
        several = [len(traces[0].kernels) > 1 for traces in bundled.values()]
        _row("  mean without RadixSort, ScanLargeArrays", reduced[~np.array(several)])

    on = share_on(open_trace("BlackScholes"))
    print("\nBlackScholes under RC: share of the time that a register is on, %")
    order = np.argsort(on)
    for label, registers in (("least", order[:3]), ("most", order[:-4:-1])):
        print(
            f"  {label}: "
            + ", ".join(f"register {register}: {on[register]:.0f}" for register in registers)
        )


def _row(label: str, reduced: Iterable[float]) -> None:
    cells = np.atleast_2d(np.asarray(reduced, dtype=float)).mean(axis=0)
    print(f"{label:42s}" + "".join(f"{a:7.1f}{b:6.1f}" for a, b in cells.reshape(-1, 2)))


def _slices(engine: Engine, bundled: dict[str, list[Trace]], folder: Path) -> None:
    """Other slices of the same runs, and MatrixTranspose with its default block size."""
    recordings = {
        name: [load_trace(path) for path in sorted(folder.glob(f"{name}-cu*.h5"))]
        for name in (*KERNELS, "MatrixTransposeB16")
    }
    other = recordings.pop("MatrixTransposeB16")
    for delta_limit in (64, None):
        label = f"{delta_limit or 'none'}"
        _row(
            f"cells averaged over slices, {label}",
            reductions(engine, recordings.values(), delta_limit),
        )
        alone = [
            reductions(engine, [[trace] for trace in of], delta_limit) for of in recordings.values()
        ]
        _row(f"mean over slices, {label}", [reduction.mean(axis=0) for reduction in alone])
        spread = np.max([np.ptp(reduction, axis=0) for reduction in alone], axis=0)
        _row(f"  largest spread of a kernel, {label}", spread)
        swapped = bundled | {"MatrixTranspose": other[:1]}
        _row(
            f"MatrixTranspose in blocks of 16, {label}",
            reductions(engine, swapped.values(), delta_limit),
        )


def share_on(trace: Trace) -> np.ndarray:
    """Share of its windows' time that each register's entry is on under RC, %: float64[N]."""
    schedule = make_schedule(trace, technique("rc"), 64)
    windows, held = schedule.windows, ~schedule.compressed
    on = np.bincount(
        schedule.reg[held],
        weights=(schedule.end_cycle - schedule.cycle)[held],
        minlength=int(windows.size.max()),
    )
    return 100 * on / (windows.release_cycle - windows.alloc_cycle).sum()
