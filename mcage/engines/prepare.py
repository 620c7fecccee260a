"""Everything that a replay of one trace under one technique needs besides fault maps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.engines.layout import Layout, needed_entries, window_layout
from mcage.engines.schedule import Schedule, make_schedule
from mcage.geometry import SLICE
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
        Places of the windows; None for redirect placement, where each instance has its own.
    selector_starts : int64[passes]
        Redirect placement: entry at which the selectors' scan starts, one pass each.
    needed : bool[256]
        Entries that must be reliable; all False for redirect placement.
    """

    schedule: Schedule
    layout: Layout | None
    selector_starts: NDArray[np.int64]
    needed: NDArray[np.bool_]

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
    return PreparedReplay(
        schedule, layout, np.zeros(0, dtype=np.int64), needed_entries(schedule, layout)
    )
