"""Trace files: what is written is read again, and nothing but a sound trace file is read."""

import dataclasses
import os
import stat
from contextlib import suppress

import h5py
import numpy as np
import pytest
from damaged_files import store_as_recorders_do
from geometries import on
from hypothesis import given, settings
from hypothesis import strategies as st
from small_traces import small_trace
from tables import each
from trace_strategies import alloc, pattern, read, release, trace_of, traces, write

from mcage.errors import UserError
from mcage.geometry import CDNA2, GCN, NVIDIA, PRESETS, RDNA2, RDNA3
from mcage.traces import first_generations
from mcage.traces.library import bundled_trace
from mcage.traces.model import (
    ALLOC,
    ALLOC_COLUMNS,
    COLUMNS,
    EVENT_COLUMNS,
    MOST_CYCLES,
    READ,
    RELEASE,
    WRITE,
    Kernel,
    validate_trace,
)
from mcage.traces.storage import load_trace, save_trace

NEEDED = {"name", "source", "kernels", "registers", "lanes", "cycles"}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "trace.h5"
    save_trace(small_trace(), path)
    return path


def put(path, dataset, content):
    """Replace a dataset of a file, or take it away."""
    with h5py.File(path, "a") as file:
        del file[dataset]
        if content is not None:
            file[dataset] = content


def held(path, dataset):
    with h5py.File(path) as file:
        return file[dataset][...]


def assert_same(one, other):
    facts = [(of.name, of.source, of.kernels, of.cycles, of.geometry) for of in (one, other)]
    assert facts[0] == facts[1]
    for column in COLUMNS:
        a, b = getattr(one, column.attribute), getattr(other, column.attribute)
        assert a.dtype == b.dtype == column.held
        assert np.array_equal(a, b)
    assert one.digest() == other.digest()


# ---- round trip ------------------------------------------------------------------------------


@settings(max_examples=20)
@given(traces(), st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_round_trip_of_any_trace(tmp_path_factory, trace, name):
    path = tmp_path_factory.mktemp("any") / "trace.h5"
    trace = dataclasses.replace(trace, name=name, source={"ort": name, "n": []} if name else {})
    save_trace(trace, path)
    assert_same(load_trace(path), trace)


def test_equal_traces_give_equal_files(tmp_path, saved):
    save_trace(load_trace(saved), tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == saved.read_bytes()


def test_file_as_recorders_write_it(saved):
    """Plain datasets, text of variable length, no digest."""
    store_as_recorders_do(saved)
    assert_same(load_trace(saved), small_trace())


# ---- registers of more than a byte -----------------------------------------------------------


def large_trace(registers):
    """A window of so many registers, of which the first, the last but one and the last are used."""
    with on(CDNA2):
        events = [alloc(0, 0, registers), write(1, 0, 0, 7), write(2, 0, registers - 2, 8)]
        return trace_of([*events, write(3, 0, registers - 1, pattern(9, 1)), release(4, 0)])


@pytest.mark.parametrize(("registers", "stored"), [(255, "|u1"), (256, "<u2"), (512, "<u2")])
def test_registers_are_stored_in_a_byte_where_all_fit(registers, stored, tmp_path):
    trace, path = large_trace(registers), tmp_path / "t.h5"
    save_trace(trace, path)
    with h5py.File(path) as file:
        assert file["event/reg"].dtype.str == stored
        assert file["event/reg"][:].tolist() == [registers, 0, registers - 2, registers - 1, 0]
    assert_same(load_trace(path), trace)
    assert load_trace(path).geometry == CDNA2


def test_traces_made_by_hand_may_have_registers_in_bytes():
    trace = dataclasses.replace(small_trace(), reg=small_trace().reg.astype(np.uint8))
    validate_trace(trace)
    assert_same(trace, small_trace())


def test_how_registers_are_stored_makes_no_difference(saved):
    put(saved, "event/reg", held(saved, "event/reg").astype("<u2"))
    assert_same(load_trace(saved), small_trace())


@each("name", PRESETS)
def test_a_file_that_says_only_entries_and_lanes_is_of_the_first_such_preset(name, tmp_path):
    with on(PRESETS[name]):
        save_trace(trace_of([alloc(0, 0, 1), write(1, 0, 0, 7), release(2, 0)]), tmp_path / "t.h5")
    assert load_trace(tmp_path / "t.h5").geometry == PRESETS[name]
    with h5py.File(tmp_path / "t.h5", "r+") as file:
        for attribute in file.attrs.keys() - NEEDED:
            del file.attrs[attribute]
    alike = {of.shape[:2]: of for of in (CDNA2, RDNA2, RDNA3, NVIDIA, GCN)}
    assert load_trace(tmp_path / "t.h5").geometry == alike[PRESETS[name].shape[:2]]


# ---- saving is all or nothing ----------------------------------------------------------------


def test_bad_trace_is_not_saved(saved):
    with pytest.raises(UserError, match="cycles"):
        save_trace(dataclasses.replace(small_trace(), cycles=1), saved)
    assert_same(load_trace(saved), small_trace())


def test_source_that_is_no_json(saved):
    with pytest.raises(UserError, match=r"source: .* JSON"):
        save_trace(dataclasses.replace(small_trace(), source={"x": {1}}), saved)
    assert os.listdir(saved.parent) == [saved.name]


def test_saved_file_can_be_read_by_others(saved):
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o666 & ~umask


def test_a_file_whose_folder_cannot_be_flushed_is_there(saved, monkeypatch):
    flush = os.fsync

    def fails_for_folders(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(5, "Input/output error")
        flush(descriptor)

    monkeypatch.setattr("os.fsync", fails_for_folders)
    words = r"^cannot make sure that .* outlasts a power failure: .*Input/output"
    with pytest.raises(UserError, match=words):
        save_trace(dataclasses.replace(small_trace(), name="other"), saved)
    assert load_trace(saved).name == "other"


# ---- what is no trace file -------------------------------------------------------------------


def assert_refused(path, message):
    with pytest.raises(UserError) as caught:
        load_trace(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert message in str(caught.value)


def test_hdf5_file_of_something_else(tmp_path):
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["temperature"] = [1.0]
    assert_refused(tmp_path / "t.h5", "event/cycle: missing; not a trace file")


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.attribute)
def test_missing_dataset_or_one_of_another_type(saved, column):
    put(saved, column.dataset, held(saved, column.dataset).astype(np.int16))
    assert_refused(saved, f"{column.dataset}: has type int16, must be ")
    put(saved, column.dataset, None)
    assert_refused(saved, f"{column.dataset}: missing")


@pytest.mark.parametrize("attribute", sorted(NEEDED))
def test_missing_attribute(saved, attribute):
    with h5py.File(saved, "a") as file:
        del file.attrs[attribute]
    assert_refused(saved, f"attribute {attribute}: missing")


@pytest.mark.parametrize(
    ("attribute", "content", "message"),
    [
        ("name", 5, "must be text"),
        ("source", "{", "attribute source: is not JSON text"),
        ("source", 5, "attribute source: is not JSON text"),
        ("source", "[]", "attribute source: must be a JSON object"),
        ("kernels", "5", "attribute kernels: must be a JSON list"),
        ("kernels", '[{"name": "kernel2"}]', "attribute kernels: must be a JSON list"),
        ("kernels", "[]", "attribute kernels: must be a JSON list"),
        ("kernels", '[{"name": "k", "N": 2.5}]', "attribute kernels: must be a JSON list"),
        ("kernels", '[{"name": 1, "N": 2}]', "attribute kernels: must be a JSON list"),
        ("kernels", '[{"name": "kernel2", "N": 2}]', "attribute kernel_names of alloc"),
        (
            "kernels",
            '[{"name": "kernel2", "N": 2}, {"name": "kernel3", "N": 4}]',
            "event/reg row 7: the window has 3 registers, but its kernel 'kernel3'",
        ),
        ("registers", 300, "geometry: entries is 300, must be 64, 128, 192, ... 1536"),
        ("registers", "many", "attribute registers: is many, must be an integer"),
        ("lanes", 32, "values: has shape (2, 64), must be (rows, 32)"),
        ("cycles", 12.5, "attribute cycles: is 12.5"),
        ("max_windows", 3, "attribute max_windows: is 3, but 2 windows are open at once"),
        ("window_size", 2, "attribute window_size: is (2,), but the kernels have (2, 3)"),
        ("digest", "0" * 32, "attribute digest: does not belong to this content"),
        ("digest", [1, 2], "attribute digest: does not belong to this content"),
    ],
)
def test_wrong_attribute(saved, attribute, content, message):
    with h5py.File(saved, "a") as file:
        file.attrs[attribute] = content
    assert_refused(saved, message)


@each("cycle", [2**31, 2**64 - 1])
def test_cycle_beyond_32_bits(saved, cycle):
    with h5py.File(saved, "a") as file:
        file["event/cycle"][8] = cycle
    assert_refused(saved, f"event/cycle row 8: cycle {cycle} is too late")


def test_values_beyond_memory(saved):
    with h5py.File(saved, "a") as file:
        del file["values"]
        file.create_dataset("values", (2**40, 64), np.uint32, chunks=(1024, 64))
    assert_refused(saved, "values")


def test_flipped_bits_are_noticed(tmp_path):
    """Wherever a bit flips in a file: an error, or the very same content."""
    path = tmp_path / "t.h5"
    trace = first_generations(bundled_trace("QuasiRandomSequence"), 1)
    save_trace(trace, path)
    sound = path.read_bytes()
    random = np.random.default_rng(20)
    refused = 0
    for position in random.integers(0, len(sound), 200):
        damaged = bytearray(sound)
        damaged[position] ^= 1 << random.integers(8)
        path.write_bytes(damaged)
        content = content_of(path)
        refused += content is None
        assert content in (None, trace.digest())
    assert refused > 100


def content_of(path):
    """Digest of a trace file, None if it is refused."""
    with suppress(UserError):
        return load_trace(path).digest()


# Every rule of the trace format, broken once in a trace that keeps all the others.


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


def assert_invalid(trace, message):
    with pytest.raises(UserError) as caught:
        validate_trace(trace, "some.h5")
    assert str(caught.value).startswith("some.h5: ")
    assert message in str(caught.value)


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
    assert_invalid(with_(good_trace(), attribute, row, content), message)


def test_last_entry_of_the_slice_can_be_used():
    trace = with_(good_trace(), "slot", [1, 3, 7], 127)
    validate_trace(trace)


@each(
    ("before", "after"),
    [(RELEASE, ALLOC), (RELEASE, WRITE), (RELEASE, READ), (READ, WRITE), (WRITE, ALLOC)],
)
def test_order_inside_a_cycle(before, after):
    trace = with_(good_trace(), "kind", [2, 3], [before, after])
    assert_invalid(trace, f"event/kind row 3: kind {after} is out of order in cycle 1")


def test_windows_of_different_size_may_not_share_entries():
    # Slot 2 of 19 registers covers 38 ... 56, slot 1 of 22 covers 22 ... 43.
    events = [alloc(0, 2, 19), write(0, 2, 0, 1), alloc(1, 1, 22), release(5, 2), release(5, 1)]
    with pytest.raises(UserError, match="event/slot row 2: entries of slot 1 overlap those of "):
        validate_trace(trace_of(events))


def test_access_between_two_windows_of_a_slot():
    trace = good_trace()
    late = with_(with_(trace, "kind", 6, READ), "kind", 4, RELEASE)
    late = with_(with_(late, "cycle", [2, 3, 4], 1), "reg", 4, 0)
    late = with_(late, "cycle", 5, 2)
    assert_invalid(late, "event/slot row 5: access to slot 0, which is not open")


def test_write_changes_a_lane_that_it_does_not_have():
    trace = good_trace()
    values = trace.values.copy()
    values[trace.value[5], 0] ^= 1  # lane 0 is not in 0xF0
    assert_invalid(
        dataclasses.replace(trace, values=values),
        "event/value row 5: row 2 of values changes a lane of register 1 of slot 0",
    )


def test_lanes_that_nobody_wrote_may_hold_anything():
    content = np.arange(64, dtype=np.uint32) ** 3
    trace = trace_of([alloc(0, 0, 1), write(0, 0, 0, 1, lanes=1), release(1, 0)])
    validate_trace(dataclasses.replace(trace, values=content[None]))


def test_rule_on_lanes_holds_across_chunks(monkeypatch):
    monkeypatch.setattr("mcage.traces.model._ROWS_AT_ONCE", 2)
    events = [alloc(0, 0, 1), *(write(i, 0, 0, i, lanes=1 << i) for i in range(9)), release(9, 0)]
    trace = trace_of(events)
    validate_trace(trace)
    for write_row in range(1, 9):
        values = trace.values.copy()
        values[write_row, 40] = 1
        assert_invalid(dataclasses.replace(trace, values=values), f"row {write_row + 1}: row ")


# ---- columns, kernels, length ----------------------------------------------------------------


@each("column", COLUMNS)
def test_type_and_length_of_a_column(column):
    trace = good_trace()
    held = getattr(trace, column.attribute)
    changed = dataclasses.replace(trace, **{column.attribute: held.astype(np.float32)})
    assert_invalid(changed, f"{column.dataset}: is float32, must be an array of {column.held}")
    if column != COLUMNS[-1]:
        changed = dataclasses.replace(trace, **{column.attribute: held[:-1]})
        assert_invalid(changed, "has shape (")


def part(columns, rows):
    """Some rows of columns of the good trace."""
    return {column.attribute: getattr(good_trace(), column.attribute)[rows] for column in columns}


WITHOUT_WRITES = part(EVENT_COLUMNS, [0, 1, 4, 6, 7, 8, 9])


@each(
    ("changes", "message"),
    [
        (part(COLUMNS, slice(0)), "event/kind: the trace is empty"),
        (
            WITHOUT_WRITES | {"alloc_event": np.array([0, 1, 5], np.uint32)},
            "at least one register write",
        ),
        (part(EVENT_COLUMNS, slice(9)), "event/kind: slot 0 is still open at the end"),
        (part(ALLOC_COLUMNS, slice(2)), "alloc/event: has 2 rows, but 3 allocations"),
        ({"cycle": [0, 1]}, "event/cycle: is list, must be an array of int64"),
        ({"cycle": good_trace().cycle[:, None]}, "event/cycle: has shape (10, 1)"),
        *(
            ({"values": np.zeros(shape, np.uint32)}, f"has shape {shape}, must be (rows, 64)")
            for shape in ((6, 32), (192,), (3, 8, 8))
        ),
        ({"kernels": ()}, "kernels: is empty"),
        ({"cycles": 9}, "cycles: 9 ends before the last event; must be at least 10"),
        ({"cycles": MOST_CYCLES + 1}, f"cycles: {MOST_CYCLES + 1} is too long; the engines count"),
    ],
)
def test_wrong_content(changes, message):
    assert_invalid(dataclasses.replace(good_trace(), **changes), message)


@each(("size", "geometry", "most"), [(0, GCN, 256), (257, GCN, 256), (513, RDNA3, 512)])
def test_size_of_a_kernel(size, geometry, most):
    kernels = (Kernel("k", 2), Kernel("l", size))
    with on(geometry):
        changed = dataclasses.replace(good_trace(), kernels=kernels)
    assert_invalid(changed, f"kernels: 'l' has {size} registers per window, must be 1 ... {most}")


def test_longest_trace():
    validate_trace(dataclasses.replace(good_trace(), cycles=MOST_CYCLES))


def test_place_is_the_name_where_there_is_no_file():
    with pytest.raises(UserError, match=r"^trace 'by hand': cycles: "):
        validate_trace(dataclasses.replace(good_trace(), cycles=0))
