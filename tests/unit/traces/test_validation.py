"""Every rule of the trace format, broken once in a trace that keeps all the others."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from tables import each
from trace_strategies import alloc, pattern, read, release, trace_of, traces, write

from mcage.errors import UserError
from mcage.traces.model import ALLOC, COLUMNS, READ, RELEASE, WRITE, Kernel
from mcage.traces.validation import MOST_CYCLES, validate_trace


def good_trace():
    """Rows 0 to 9; two kernels, slot 0 used by both in turn."""
    return trace_of(
        [
            alloc(0, 0, 2),  # 0
            alloc(0, 1, 2),  # 1
            write(1, 0, 1, pattern(5, 1, 8)),  # 2
            write(1, 1, 0, 7),  # 3
            read(1, 0, 1),  # 4
            write(2, 0, 1, 9, lanes=0xF0),  # 5
            release(3, 0),  # 6
            release(3, 1),  # 7
            alloc(9, 0, 3),  # 8
            release(9, 0),  # 9
        ]
    )


def with_(trace, attribute, row, content):
    """The trace with one element of one column replaced."""
    column = getattr(trace, attribute).copy()
    column[row] = content
    return dataclasses.replace(trace, **{attribute: column})


def assert_refused(trace, message):
    with pytest.raises(UserError) as caught:
        validate_trace(trace, "some.h5")
    assert str(caught.value).startswith("some.h5: ")
    assert message in str(caught.value)


def test_good_trace_is_good():
    validate_trace(good_trace())


@given(traces())
def test_random_traces_are_good(trace):
    validate_trace(trace)


@each(
    ("attribute", "row", "content", "message"),
    [
        ("cycle", 0, -1, "event/cycle row 0: cycle -1 is negative"),
        ("cycle", 5, 0, "event/cycle row 5: cycle 0 is before that of the row above"),
        ("kind", 4, 4, "event/kind row 4: unknown kind 4, must be 0 ... 3"),
        ("exec_mask", 2, 0, "event/exec row 2: a write without lanes"),
        ("exec_mask", 4, 1, "event/exec row 4: only a write has lanes"),
        ("value", 2, -1, "event/value row 2: row -1 of values does not exist; there are 3"),
        ("value", 2, 3, "event/value row 2: row 3 of values does not exist; there are 3"),
        ("value", 4, 0, "event/value row 4: is 0, must be -1: not a write"),
        ("reg", 6, 1, "event/reg row 6: is 1, must be 0 for a release"),
        ("reg", 2, 2, "event/reg row 2: register 2 is outside the window of slot 0"),
        ("reg", 4, 255, "event/reg row 4: register 255 is outside the window of slot 0"),
        ("slot", 4, 2, "event/slot row 4: access to slot 2, which is not open"),
        ("slot", 6, 2, "event/slot row 6: release of slot 2, which is not open"),
        ("slot", 1, 0, "event/slot row 1: allocation of slot 0, which is still open"),
        ("slot", 1, 127, "event/slot row 7: release of slot 1, which is not open"),
        ("slot", 1, 128, "event/slot row 1: slot 128 of 2 registers ends at entry 257, beyond"),
        ("slot", 1, 65535, "event/slot row 1: slot 65535 of 2 registers ends at entry 131071"),
        ("alloc_event", 1, 2, "alloc/event row 1: event row 2 is not the allocation"),
        ("alloc_kernel", 2, 2, "alloc/kernel row 2: kernel 2 does not exist; there are 2"),
        ("alloc_kernel", 0, 1, "event/reg row 0: the window has 2 registers, but its kernel"),
        ("reg", 0, 3, "(alloc/kernel row 0) has 2"),
        ("reg", 0, 0, "event/reg row 0: the window has 0 registers"),
        ("alloc_kernel", 2, 0, "kernels: 'kernel3' has no window in alloc/kernel"),
    ],
)
def test_one_wrong_element(attribute, row, content, message):
    assert_refused(with_(good_trace(), attribute, row, content), message)


def test_last_entry_of_the_slice_can_be_used():
    trace = with_(good_trace(), "slot", [1, 3, 7], 127)
    validate_trace(trace)


@each(
    ("before", "after"),
    [(RELEASE, ALLOC), (RELEASE, WRITE), (RELEASE, READ), (READ, WRITE), (WRITE, ALLOC)],
)
def test_order_inside_a_cycle(before, after):
    trace = with_(good_trace(), "kind", [2, 3], [before, after])
    assert_refused(trace, f"event/kind row 3: kind {after} is out of order in cycle 1")


def test_allocation_in_the_cycle_of_the_release_of_its_slot():
    trace = trace_of(
        [alloc(0, 0, 2), write(0, 0, 0, 1), release(5, 0), alloc(6, 0, 2), release(7, 0)]
    )
    together = with_(trace, "cycle", 3, 5)
    assert_refused(together, "event/kind row 3: kind 0 is out of order in cycle 5")


def test_windows_of_different_size_may_not_share_entries():
    # Slot 2 of 19 registers covers 38 ... 56, slot 1 of 22 covers 22 ... 43.
    events = [alloc(0, 2, 19), write(0, 2, 0, 1), alloc(1, 1, 22), release(5, 2), release(5, 1)]
    with pytest.raises(UserError, match="event/slot row 2: entries of slot 1 overlap those of "):
        validate_trace(trace_of(events))


def test_slot_reused_by_a_kernel_of_another_size_after_release():
    validate_trace(
        trace_of(
            [
                alloc(0, 2, 19),
                write(0, 2, 0, 1),
                release(5, 2),
                alloc(6, 1, 22),
                alloc(6, 2, 22),
                release(7, 1),
                release(7, 2),
            ]
        )
    )


def test_window_open_at_the_end():
    trace = good_trace()
    cut = {
        c.attribute: getattr(trace, c.attribute)[: 9 if c.dataset.startswith("event/") else None]
        for c in COLUMNS
    }
    assert_refused(dataclasses.replace(trace, **cut), "event/kind: slot 0 is still open at the end")


def test_access_between_two_windows_of_a_slot():
    trace = good_trace()
    late = with_(with_(trace, "kind", 6, READ), "kind", 4, RELEASE)
    late = with_(with_(late, "cycle", [2, 3, 4], 1), "reg", 4, 0)
    late = with_(late, "cycle", 5, 2)
    assert_refused(late, "event/slot row 5: access to slot 0, which is not open")


def test_write_changes_a_lane_that_it_does_not_have():
    trace = good_trace()
    values = trace.values.copy()
    values[trace.value[5], 0] ^= 1  # lane 0 is not in 0xF0
    assert_refused(
        dataclasses.replace(trace, values=values),
        "event/value row 5: row 2 of values changes a lane of register 1 of slot 0",
    )


def test_lanes_that_nobody_wrote_may_hold_anything():
    content = np.arange(64, dtype=np.uint32) ** 3
    trace = trace_of([alloc(0, 0, 1), write(0, 0, 0, 1, lanes=1), release(1, 0)])
    validate_trace(dataclasses.replace(trace, values=content[None]))


def test_rule_on_lanes_holds_across_chunks(monkeypatch):
    monkeypatch.setattr("mcage.traces.validation._ROWS_AT_ONCE", 2)
    events = [alloc(0, 0, 1), *(write(i, 0, 0, i, lanes=1 << i) for i in range(9)), release(9, 0)]
    trace = trace_of(events)
    validate_trace(trace)
    for write_row in range(1, 9):
        values = trace.values.copy()
        values[write_row, 40] = 1
        assert_refused(dataclasses.replace(trace, values=values), f"row {write_row + 1}: row ")


# ---- columns, kernels, length ----------------------------------------------------------------


@each("column", COLUMNS)
def test_type_of_a_column(column):
    trace = good_trace()
    wrong = getattr(trace, column.attribute).astype(np.float32)
    changed = dataclasses.replace(trace, **{column.attribute: wrong})
    assert_refused(changed, f"{column.dataset}: is float32, must be an array of {column.held}")


@each("column", COLUMNS[:-1])
def test_length_of_a_column(column):
    trace = good_trace()
    shorter = getattr(trace, column.attribute)[:-1]
    changed = dataclasses.replace(trace, **{column.attribute: shorter})
    assert_refused(changed, "has shape (")


@pytest.mark.parametrize("shape", [(6, 32), (192,), (3, 8, 8)])
def test_shape_of_values(shape):
    changed = dataclasses.replace(good_trace(), values=np.zeros(shape, np.uint32))
    assert_refused(changed, f"values: has shape {shape}, must be (rows, 64)")


def test_column_that_is_no_array():
    changed = dataclasses.replace(good_trace(), cycle=[0, 1])
    assert_refused(changed, "event/cycle: is list, must be an array of int64")


def test_columns_of_two_dimensions():
    trace = good_trace()
    changed = dataclasses.replace(trace, cycle=trace.cycle[:, None])
    assert_refused(changed, "event/cycle: has shape (10, 1)")


def test_empty_trace():
    trace = good_trace()
    nothing = {c.attribute: getattr(trace, c.attribute)[:0] for c in COLUMNS}
    assert_refused(dataclasses.replace(trace, **nothing), "event/kind: the trace is empty")


def test_trace_without_writes():
    rows = [0, 1, 4, 6, 7, 8, 9]
    trace = good_trace()
    columns = {c.attribute: getattr(trace, c.attribute)[rows] for c in COLUMNS[:6]}
    columns["alloc_event"] = np.array([0, 1, 5], np.uint32)
    assert_refused(dataclasses.replace(trace, **columns), "at least one register write")


def test_no_kernels():
    assert_refused(dataclasses.replace(good_trace(), kernels=()), "kernels: is empty")


@pytest.mark.parametrize("size", [0, -1, 256])
def test_size_of_a_kernel(size):
    changed = dataclasses.replace(good_trace(), kernels=(Kernel("k", 2), Kernel("l", size)))
    assert_refused(changed, f"kernels: 'l' has {size} registers per window, must be 1 ... 255")


def test_missing_row_of_alloc():
    trace = good_trace()
    fewer = {c.attribute: getattr(trace, c.attribute)[:2] for c in COLUMNS[6:11]}
    assert_refused(
        dataclasses.replace(trace, **fewer), "alloc/event: has 2 rows, but 3 allocations"
    )


@pytest.mark.parametrize(
    ("cycles", "message"),
    [
        (9, "cycles: 9 ends before the last event; must be at least 10"),
        (-1, "cycles: -1 ends before the last event"),
        (MOST_CYCLES + 1, f"cycles: {MOST_CYCLES + 1} is too long; the engines count a pass in 32"),
    ],
)
def test_length_of_the_trace(cycles, message):
    assert_refused(dataclasses.replace(good_trace(), cycles=cycles), message)


def test_longest_trace():
    validate_trace(dataclasses.replace(good_trace(), cycles=MOST_CYCLES))


def test_place_is_the_name_where_there_is_no_file():
    with pytest.raises(UserError, match=r"^trace 'by hand': cycles: "):
        validate_trace(dataclasses.replace(good_trace(), cycles=0))
