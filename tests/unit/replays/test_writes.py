"""Writes of a trace: worked out once for all techniques, and only for as long as the trace is."""

import gc
import weakref

import numpy as np
from small_traces import small_trace
from trace_strategies import ALL_LANES

from mcage.replays.schedule import make_schedule, writes_of
from mcage.techniques import TECHNIQUES


def test_schedules_of_all_techniques_share_them():
    trace = small_trace()
    schedules = [make_schedule(trace, TECHNIQUES[name], 64) for name in ("wc", "rrcd+rc+rar")]
    for name in ("cycle", "window", "row", "first", "reads_after"):
        assert len({id(getattr(schedule, name)) for schedule in schedules}) == 1


def test_they_go_with_the_trace():
    trace = small_trace()
    writes = weakref.ref(writes_of(trace))
    assert writes_of(trace) is writes()
    del trace
    gc.collect()
    assert writes() is None


def test_of_a_few_events_by_hand():
    """Register 1 of the first window is written whole, then register 0 in its last lane."""
    writes = writes_of(small_trace())
    assert writes.cycle.tolist() == [1, 1]
    assert writes.end_cycle.tolist() == [3, 3]
    assert writes.reg.tolist() == [1, 0]
    assert writes.row.tolist() == [1, 0]
    assert writes.by_register.tolist() == [1, 0]
    assert writes.first.all()
    assert writes.divergent.tolist() == [False, True]
    assert np.array_equal(writes.lanes, np.array([ALL_LANES, 1 << 63], np.uint64))
    assert writes.reads_after.tolist() == [1, 0]
