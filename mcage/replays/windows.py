"""Register windows of a trace: where each begins, and when it is allocated and released."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.traces.model import RELEASE, Trace


@dataclass(frozen=True)
class Windows:
    """Register windows of a trace, in the order of their allocation; arrays int64[windows].

    `mcage.traces.Trace.window_of_event` gives the window that each event belongs to.

    Attributes
    ----------
    slot : int64[windows]
        Slot of the window.
    size : int64[windows]
        Registers N of the window.
    base : int64[windows]
        Row of its first register: slot x N.
    generation : int64[windows]
        Number of earlier windows of the same slot.
    alloc_cycle, release_cycle : int64[windows]
        Cycles in which the window is allocated and released.
    """

    slot: NDArray[np.int64]
    size: NDArray[np.int64]
    base: NDArray[np.int64]
    generation: NDArray[np.int64]
    alloc_cycle: NDArray[np.int64]
    release_cycle: NDArray[np.int64]


def windows_of(trace: Trace) -> Windows:
    """Return the windows of a valid trace in allocation order."""
    events = trace.alloc_event.astype(np.int64)
    slot = trace.slot[events].astype(np.int64)
    sizes = np.array([kernel.window_size for kernel in trace.kernels], dtype=np.int64)
    size = sizes[trace.alloc_kernel.astype(np.int64)]
    order = np.argsort(slot, kind="stable")
    generation = np.empty(len(events), dtype=np.int64)
    generation[order] = np.arange(len(order)) - np.searchsorted(slot[order], slot[order])
    releases = np.flatnonzero(trace.kind == RELEASE)
    release_cycle = np.empty(len(events), dtype=np.int64)
    release_cycle[trace.window_of_event()[releases]] = trace.cycle[releases]
    return Windows(
        slot=slot,
        size=size,
        base=slot * size,
        generation=generation,
        alloc_cycle=trace.cycle[events].astype(np.int64),
        release_cycle=release_cycle,
    )
