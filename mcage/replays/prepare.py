"""Everything that a replay of one trace under one technique needs besides fault maps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SLICE
from mcage.replays.layout import Layout, needed_entries, window_layout
from mcage.replays.packing import Packing
from mcage.replays.schedule import Schedule, find_windows, make_schedule
from mcage.techniques import Technique
from mcage.traces.model import Trace

SELECTOR_OFFSETS = 8
"""Evenly spaced starting entries over which rotating selectors are averaged."""


@dataclass(frozen=True, eq=False)
class PreparedReplay:
    """A trace made ready for replay under a technique.

    Attributes
    ----------
    schedule : Schedule
        What no instance changes.
    layout : Layout or None
        Places of the windows; None for redirecting techniques, where registers have their own.
    selector_starts : int64[passes]
        Redirecting techniques: entry at which the selectors' scan starts, one pass each.
    needed : bool[256]
        Entries that must be reliable; all False for a technique that heeds the fault map.
    packing : Packing or None
        Pack placement: where windows lie and how long they wait on a fault map. `schedule` and
        `layout` are then those of a slice without faults.
    """

    schedule: Schedule
    layout: Layout | None
    selector_starts: NDArray[np.int64]
    needed: NDArray[np.bool_]
    packing: Packing | None = None

    @property
    def technique(self) -> Technique:
        """The technique."""
        return self.schedule.technique

    @property
    def passes(self) -> int:
        """Passes of the trace over which times and counters are summed."""
        return self.layout.passes if self.layout else len(self.selector_starts)

    @property
    def period(self) -> int:
        """Cycles of all passes together."""
        return self.passes * self.schedule.cycles


def prepare(
    trace: Trace,
    technique: Technique,
    delta_limit: int | None = 64,
    selector_offsets: int = SELECTOR_OFFSETS,
) -> PreparedReplay:
    """Make a trace ready for replay.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    technique : Technique
        Any technique.
    delta_limit : int or None
        Largest delta of a compressible value: 64 as published, None for any power of two.
    selector_offsets : int
        Starting entries over which rotating selectors are averaged, a divisor of 256.

    Raises
    ------
    UserError
        If windows handed out in turn find no room, or windows of different size cannot be packed.
    """
    schedule = make_schedule(trace, technique, delta_limit)
    if technique.redirects:
        starts = selector_offsets if technique.rotating_selectors else 1
        return PreparedReplay(
            schedule,
            None,
            np.arange(starts, dtype=np.int64) * (SLICE.entries // starts),
            np.zeros(SLICE.entries, dtype=bool),
        )
    layout = window_layout(schedule)
    if technique.packs:
        packing = Packing(trace, *find_windows(trace))
        unused = np.zeros(SLICE.entries, dtype=bool)
        return PreparedReplay(schedule, layout, np.zeros(0, dtype=np.int64), unused, packing)
    return PreparedReplay(
        schedule, layout, np.zeros(0, dtype=np.int64), needed_entries(schedule, layout)
    )
