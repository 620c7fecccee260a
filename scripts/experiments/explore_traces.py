"""Copies of a trace in which an assumption about its windows is another one.

For ``scripts/experiments/explore_differences.py``.
"""

import heapq
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mcage.geometry import GCN
from mcage.traces import ALLOC, READ, RELEASE, WRITE, Trace
from mcage.traces.transforms import last_accesses, release_cycles, released_with_wavefronts


def rearranged(
    trace: Trace,
    cycle: np.ndarray | None = None,
    slot: np.ndarray | None = None,
    kept: np.ndarray | None = None,
) -> Trace:
    """The trace with other times or slots, or without some events; in order of time again."""
    cycle = trace.cycle if cycle is None else cycle
    kept = np.ones(len(cycle), dtype=bool) if kept is None else kept
    rank_in_cycle = np.argsort([ALLOC, WRITE, READ, RELEASE])[trace.kind]
    order = np.lexsort((rank_in_cycle, cycle))
    order = order[kept[order]]
    columns = {name: getattr(trace, name)[order] for name in ("kind", "reg", "exec_mask", "value")}
    opens = columns["kind"] == ALLOC
    window = trace.window_of_event()[order][opens]
    of_windows = ("alloc_kernel", "alloc_launch", "alloc_work_group", "alloc_wavefront")
    return replace(
        trace,
        cycle=cycle[order],
        cycles=int(cycle[order][-1]) + 1,
        slot=(trace.slot if slot is None else slot)[order],
        alloc_event=np.flatnonzero(opens).astype(np.uint32),
        **columns,
        **{name: getattr(trace, name)[window] for name in of_windows},
    )


def released_at_last_access(trace: Trace) -> Trace:
    """The earliest that `released_with_wavefronts` can mean."""
    ends = last_accesses(trace)[trace.window_of_event()]
    return rearranged(trace, np.where(trace.kind == RELEASE, ends, trace.cycle))


def dispatched_by_wavefront(trace: Trace) -> Trace:
    """As `released_with_wavefronts`, and the next wavefront takes a slot as soon as it is free."""
    trace = released_with_wavefronts(trace)
    begin, end = trace.cycle[trace.alloc_event], release_cycles(trace)
    new_begin, slot = np.empty_like(begin), np.empty_like(begin)
    launch_begin = 0
    for launch in np.unique(trace.alloc_launch):
        windows = np.flatnonzero(trace.alloc_launch == launch)
        slots = GCN.entries // trace.kernels[trace.alloc_kernel[windows[0]]].window_size
        free = [(launch_begin, slot) for slot in range(min(slots, trace.concurrent_windows))]
        for window in windows:
            new_begin[window], slot[window] = heapq.heappop(free)
            busy_until = new_begin[window] + end[window] - begin[window] + 1
            heapq.heappush(free, (int(busy_until), int(slot[window])))
        launch_begin = max(free)[0]
    window = trace.window_of_event()
    cycle = trace.cycle + (new_begin - begin)[window]
    return rearranged(trace, cycle, slot[window].astype(trace.slot.dtype))


def out_of_step(trace: Trace) -> Trace:
    """Slot s runs s / slots of a mean window's life later."""
    life = (release_cycles(trace) - trace.cycle[trace.alloc_event]).mean()
    return rearranged(trace, trace.cycle + trace.slot * int(life / trace.concurrent_windows))


def some_windows(trace: Trace, chosen: np.ndarray) -> Trace:
    """Only the windows marked; times in which none of them is open last for a cycle each."""
    kept = chosen[trace.window_of_event()]
    opened = (trace.kind == ALLOC).astype(int) - (trace.kind == RELEASE)
    is_open = np.cumsum(np.where(kept, opened, 0))[:-1] > 0
    just_closed = np.diff(is_open.astype(int), prepend=0) < 0
    lasts = np.where(is_open, np.diff(trace.cycle), just_closed)
    cycle = np.concatenate(([0], np.cumsum(lasts)))
    return rearranged(trace, cycle - cycle[kept][0], kept=kept)


def kernels_of_table_5(trace: Trace) -> Trace:
    """Of traces with two kernels the one whose utilisation Valero et al. print in Table 5."""
    for number, kernel in enumerate(trace.kernels):
        if len(trace.kernels) > 1 and kernel.name in ("histogram", "blockAddition"):
            left = some_windows(trace, trace.alloc_kernel == number)
            return replace(left, kernels=(kernel,), alloc_kernel=np.zeros_like(left.alloc_kernel))
    return trace


def sound_radix_sort(trace: Trace) -> Trace:
    """RadixSort up to where its positions overflow: the first launch of each of its kernels."""
    if trace.name != "RadixSort":
        return trace
    first = [trace.alloc_launch[trace.alloc_kernel == kernel].min() for kernel in range(2)]
    return some_windows(trace, np.isin(trace.alloc_launch, first))


def few_registers(trace: Trace, registers: int) -> Trace:
    """The trace without accesses to the registers from a number on, as if N were smaller."""
    return rearranged(trace, kept=np.isin(trace.kind, (ALLOC, RELEASE)) | (trace.reg < registers))


def together(*changes: Callable[[Trace], Trace]) -> Callable[[Trace], Trace]:
    """One change after the other."""

    def changed(trace: Trace) -> Trace:
        for change in changes:
            trace = change(trace)
        return trace

    return changed
