"""What a recording keeps of accesses, one by one and in blocks, against a dictionary."""

import random

import numpy as np
import pytest

from mcage.traces import READ, WRITE
from mcage.tracing.importing import recording as recordings
from mcage.tracing.importing.contents import Contents
from mcage.tracing.importing.recording import EVENT, INEXACT, PRELOAD, Origin, Place, Recording

LANES = 32


class Model:
    """What is recorded, with a dictionary of registers for each window."""

    def __init__(self):
        self.events, self.rows, self.held = [], {}, {}
        self.gaps = recordings.Gaps()

    def access(self, window, time, kind, register, mask, numbers):
        held = self.held.setdefault(window.number, {})
        before = held.get(register)
        if kind == READ:
            self.gaps.reads += 1
            self.gaps.before_any_write += before is None
            held = [before[lane] for lane in lanes(mask)] if before else numbers
            self.gaps.other_contents += held != numbers
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


def random_access(rng, windows):
    window = rng.choice(windows)
    register = rng.randrange(window.size or 4)
    mask = rng.choice([0, 1, 0xF0, (1 << LANES) - 1, rng.getrandbits(LANES)])
    numbers = [rng.choice([0, 7, 1 << 31]) for _ in lanes(mask)]
    return window, register, rng.choice([READ, WRITE, WRITE, INEXACT, PRELOAD]), mask, numbers


def accesses(rng, model, recording, count):
    """Random accesses of windows that open and close, as a recording and the model see them."""
    windows = []
    for time in range(count):
        if len(windows) < 3 or rng.random() < 0.05:
            windows.append(recording.open_window(time, rng.choice([2, 3, None]), Origin(), Place()))
        window, register, kind, mask, numbers = random_access(rng, windows)
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
    assert vars(recording.gaps) == vars(model.gaps)


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
    kinds = [kind for _, _, kind, *_ in model.events]
    totals = [sum(w.counted[name] for w in recording.windows) for name in ("reads", "writes")]
    assert totals == [kinds.count(READ), kinds.count(WRITE) + kinds.count(INEXACT)]


def test_blocks_name_contents_that_are_known():
    """Contents are numbered by their first use; those of other lanes stay as they were."""
    rng, events = random.Random(3), []
    contents, model, recording = Contents(LANES), Model(), Recording()
    recording.has_lanes(LANES, contents)
    windows = [recording.open_window(0, 4, Origin(), Place(0, 0)) for _ in range(3)]
    for time in range(2000):
        window, register, kind, mask, numbers = random_access(rng, windows)
        if kind == READ or (kind == WRITE and mask):
            row = np.array([rng.randrange(2)] * LANES, np.uint32)
            row[lanes(mask)] = numbers
            shown = (0, -1) if kind == READ else (mask, contents.numbers(row[None])[0])
            events.append((time, window.number, kind, register, *shown))
            model.access(window, time, kind, register, shown[0], numbers if shown[0] else [])
    for part in (events[:900], events[900:]):
        recording.record(np.array(part, EVENT))
    recording.finish()
    assert_as(model, recording)
    latest = [max(time for time, of, *_ in events if of == number) for number in range(3)]
    assert [window.last for window in recording.windows] == latest
