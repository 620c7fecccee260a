"""Idle time after every run of a kernel, in which the slice stays powered and holds what it has.

A trace is cyclic: what an entry holds at the end of a pass, it holds until its first write in the
next one. So a slice that holds while it is idle replays the same trace with a longer pass. All
windows are released before: what a technique switches off when they are, is off meanwhile.
"""

import dataclasses

from mcage.errors import UserError
from mcage.traces.model import Trace
from mcage.traces.validation import MOST_CYCLES

HELD = "held"
"""The other way to be idle is to be off."""


def held_while_idle(trace: Trace, activity: float) -> Trace:
    """Return the trace with so much time after its last cycle that it fills a share of the pass.

    Parameters
    ----------
    trace : Trace
        A valid trace, all of whose cycles are busy.
    activity : float
        That share, above 0 and at most 1. The pass is rounded to a whole cycle.

    Raises
    ------
    UserError
        If the pass becomes longer than a trace may be.
    """
    cycles = round(trace.cycles / activity)
    if cycles > MOST_CYCLES:
        raise UserError(
            f"trace {trace.name!r}: its {trace.cycles} cycles at an activity of {activity:g} make "
            f"a pass of {cycles}, and at most {MOST_CYCLES} can be replayed"
        )
    return dataclasses.replace(
        trace, source={**trace.source, "idle_cycles": cycles - trace.cycles}, cycles=cycles
    )
