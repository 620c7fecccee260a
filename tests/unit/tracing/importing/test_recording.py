"""What a recording keeps of accesses, one by one and in blocks, against a dictionary."""

import random

import numpy as np
import pytest

from mcage.traces import READ, WRITE
from mcage.tracing.importing import recording as recordings
from mcage.tracing.importing.contents import Contents
from mcage.tracing.importing.recording import EVENT, INEXACT, PRELOAD, Origin, Place, Recording

LANES = 32
SIZES = (2, 3, None)


class Model:
    """What is recorded, with a dictionary of registers for each window."""

    def __init__(self):
        self.events, self.rows, self.held = [], {}, {}
        self.reads = self.before_any_write = self.other_contents = 0

    def access(self, window, time, kind, register, mask, numbers):
        held = self.held.setdefault(window.number, {})
        before = held.get(register)
        if kind == READ:
            self.reads += 1
            self.before_any_write += before is None
            shown = [before[lane] for lane in lanes(mask)] if before else numbers
            self.other_contents += shown != numbers
            self.events.append((time, window.number, kind, register, 0, -1))
            return
        after = list(before or [0] * LANES)
        for lane, number in zip(lanes(mask), numbers, strict=True):
            after[lane] = number
        held[register] = after
        row = self.rows.setdefault(tuple(after), len(self.rows))
        self.events.append((time, window.number, kind, register, mask, row))


def lanes(mask):
    return [lane for lane in range(LANES) if mask >> lane & 1]


def accesses(rng, model, recording, count):
    """Random accesses of windows that open and close, as a recording and the model see them."""
    windows = []
    for time in range(count):
        if len(windows) < 3 or rng.random() < 0.05:
            windows.append(recording.open_window(time, rng.choice(SIZES), Origin(), Place(0, 0)))
        window = rng.choice(windows)
        register = rng.randrange(window.size or 4)
        mask = rng.choice([0, 1, 0xF0, (1 << LANES) - 1, rng.getrandbits(LANES)])
        numbers = [rng.choice([0, 7, 1 << 31]) for _ in lanes(mask)]
        kind = rng.choice([READ, WRITE, WRITE, INEXACT, PRELOAD])
        packed = np.array(numbers, np.uint32)
        if kind == READ:
            recording.read(window, time, register, mask, packed)
        elif kind == PRELOAD:
            recording.preload(window, register, mask, packed)
        else:
            recording.write(window, time, register, mask, packed, kind == WRITE)
        if mask or kind == READ:
            when = window.begin if kind == PRELOAD else time
            model.access(window, when, kind, register, mask, numbers)
        if rng.random() < 0.1:
            recording.close_window(windows.pop(windows.index(window)), time)


def assert_as(model, recording):
    columns = recording.columns()
    wanted = zip(*model.events, strict=True)
    for (name, column), of_model in zip(columns.items(), wanted, strict=True):
        np.testing.assert_array_equal(column, np.array(of_model, column.dtype), name)
    np.testing.assert_array_equal(recording.values(), np.array(list(model.rows), np.uint32))
    gaps = recording.gaps
    assert (gaps.reads, gaps.before_any_write, gaps.other_contents) == (
        *(model.reads, model.before_any_write, model.other_contents),
    )


@pytest.mark.parametrize("block", [1, 7, 4096])
def test_registers_hold_what_was_written_last(monkeypatch, block):
    """Whatever the accesses are that are followed together; windows begin without contents."""
    monkeypatch.setattr(recordings, "_BLOCK", block * EVENT.itemsize)
    monkeypatch.setattr(recordings, "_ROWS_AT_ONCE", 100)
    recording, model = Recording(), Model()
    recording.has_lanes(LANES)
    accesses(random.Random(block), model, recording, 3000)
    recording.finish()
    assert_as(model, recording)
    totals = {name: sum(w.counted[name] for w in recording.windows) for name in ("reads", "writes")}
    kinds = [kind for _, _, kind, *_ in model.events]
    writes = sum(kind in (WRITE, INEXACT) for kind in kinds)
    assert totals == {"reads": kinds.count(READ), "writes": writes}


def test_blocks_name_contents_that_are_known():
    """Contents are numbered by their first use; those of other lanes stay as they were."""
    rng = np.random.default_rng(3)
    contents, model, recording = Contents(LANES), Model(), Recording()
    rows = np.repeat(rng.integers(0, 2, (5000, LANES // 4)), 4, axis=1).astype(np.uint32)
    numbers = contents.numbers(rows)
    assert len({row.tobytes() for row in rows}) == contents.count
    recording.has_lanes(LANES, contents)
    windows = [recording.open_window(0, 4, Origin(), Place(0, 0)) for _ in range(3)]
    events = np.zeros(2000, EVENT)
    for time, event in enumerate(events):
        number, register = rng.integers(3), rng.integers(4)
        mask = rng.choice([(1 << LANES) - 1, rng.integers(1, 1 << LANES)])
        row = rng.integers(len(rows))
        kind = rng.choice([READ, WRITE])
        shown = (0, -1) if kind == READ else (mask, numbers[row])
        event["time"], event["window"], event["kind"], event["reg"] = time, number, kind, register
        event["exec_mask"], event["value"] = shown
        of_lanes = [] if kind == READ else rows[row][lanes(int(mask))].tolist()
        model.access(windows[number], time, kind, register, int(shown[0]), of_lanes)
    recording.record(events[:900])
    recording.record(events[900:])
    recording.finish()
    assert_as(model, recording)
    latest = [max(e[0] for e in model.events if e[1] == window) for window in range(3)]
    assert [window.last for window in recording.windows] == latest
