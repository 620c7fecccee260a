"""``mcage replay`` as scripts use it: keys, types, numbers by hand, and refusals."""

from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from command_line import from_json, run_mcage
from tables import each
from trace_strategies import alloc, pattern, read, release, trace_of, write

import mcage
from mcage.costs.activity import CONVENTIONAL, activity_of, conventional
from mcage.costs.energy import Energy, Slowdown, energy, slowdown
from mcage.engines.numpy_engine import NumpyEngine
from mcage.replays.prepare import prepare
from mcage.spec.cost_constants import load_costs
from mcage.techniques import TECHNIQUES
from mcage.traces import open_trace, save_trace

PER_INSTANCE = {
    "writes": {"regular", "to_reliable", "to_faulty", "lds"},
    "reads": {"slice", "lds"},
    "peak_spilled_rows": None,
    "mean_spilled_rows": None,
    "wakeups": None,
    "longest_zero_duty": None,
    "longest_one_duty": None,
    "needed_faulty_entries": None,
    "slowdown": {field.name for field in fields(Slowdown)} | {"waiting", "total"},
    "energy": {f"{field.name}_pj" for field in fields(Energy)}
    | {"total_pj", "saving", "saving_over_nominal_vdd"},
}
SCALARS = {
    *("trace", "caveat", "geometry", "technique", "engine", "delta_limit", "release", "instances"),
    *("mov_writes", "mispredicted_writes", "compressible_write_share", "window_size"),
    *("concurrent_windows", "cycles", "technology", "vdd_volts"),
}
ENGINES = ("numpy", "numba")
RANDOM = np.random.default_rng(3).integers(1, 2**32, 64, dtype=np.uint32)


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory):
    """One window: register 0 never compresses, register 1 does, both are read once."""
    events = [
        alloc(0, 0, 2),
        *(write(0, 0, 0, RANDOM), write(10, 0, 1, 7)),
        *(read(20, 0, 0), read(30, 0, 1)),
        release(99, 0),
    ]
    path = tmp_path_factory.mktemp("traces") / "mine.h5"
    save_trace(trace_of(events, 100, name="mine"), path)
    return str(path)


@pytest.fixture
def three_maps(tmp_path):
    """No fault; block 0 of entry 0; everything."""
    maps = np.zeros((3, 256), dtype=np.uint8)
    maps[1, 0], maps[2] = 0b0001, 0b1111
    np.save(tmp_path / "maps.npy", maps)
    return str(tmp_path / "maps.npy")


run_json = partial(from_json, "replay")


def assert_shape(report, instances):
    """Lists where the fault map matters, scalars elsewhere."""
    assert report.keys() == PER_INSTANCE.keys() | SCALARS
    assert not any(isinstance(report[key], list) for key in SCALARS)
    for key, parts in PER_INSTANCE.items():
        values = report[key]
        assert (set(values) if parts else None) == parts, key
        for single in values.values() if parts else [values]:
            assert isinstance(single, list), key
            assert len(single) == instances, key
            assert all(isinstance(number, int | float) for number in single), key


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("technique", ["baseline", "rc+rar", "rrcd", "rrcd+rc+rar"])
def test_keys_and_types(engine, technique, trace_file, three_maps):
    arguments = (trace_file, "--technique", technique, "--engine", engine)
    assert_shape(run_json(*arguments), 1)
    report = run_json(*arguments, "--fault-map", three_maps)
    assert_shape(report, 3)
    assert (report["trace"], report["technique"]) == ("mine", technique)
    assert (report["engine"], report["instances"]) == (engine, 3)


@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_by_hand(engine, trace_file, three_maps):
    report = run_json(
        *(trace_file, "--technique", "rrcd", "--engine", engine, "--fault-map", three_maps)
    )
    assert report["writes"] == {
        "regular": [0, 0, 0],
        "to_reliable": [2, 1, 0],
        "to_faulty": [0, 1, 0],
        "lds": [0, 0, 2],
    }
    assert report["reads"] == {"slice": [2, 2, 0], "lds": [0, 0, 2]}
    assert report["peak_spilled_rows"] == [0, 0, 2]
    assert report["mean_spilled_rows"] == pytest.approx([0, 0, (99 + 89) / 100])
    assert report["longest_zero_duty"] == report["longest_one_duty"] == [1, 1, 0]
    assert report["wakeups"] == [0, 0, 0]
    assert report["needed_faulty_entries"] == [0, 0, 0]
    assert report["mov_writes"] == report["mispredicted_writes"] == 0
    assert report["compressible_write_share"] == 0.5
    assert (report["window_size"], report["concurrent_windows"], report["cycles"]) == (2, 1, 100)
    assert (report["technology"], report["vdd_volts"]) == ("28nm", 0.8)


def test_in_python_traces_and_techniques_go_by_name_or_by_value(trace_file):
    report = run_json(trace_file, "--technique", "rrcd", "--engine", "numpy")
    assert mcage.replay(trace_file, "rrcd", engine="numpy") == report
    assert mcage.replay(Path(trace_file), "rrcd", engine="numpy") == report
    by_value = open_trace(trace_file), TECHNIQUES["rrcd"]
    assert mcage.replay(*by_value, engine=NumpyEngine()) == report
    for words, message in (
        (("nothing.h5", "rrcd"), "no trace 'nothing.h5': neither a file nor"),
        ((trace_file, "rrdc"), "technique 'rrdc' is unknown; choose from baseline"),
        ((trace_file, "rrcd", None, 64, "numby"), "engine 'numby' is unknown; choose from auto"),
    ):
        with pytest.raises(mcage.UserError, match=message):
            mcage.replay(*words)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_technique_that_cannot_move_data(engine, trace_file, three_maps):
    report = run_json(
        *(trace_file, "--technique", "baseline", "--engine", engine, "--fault-map", three_maps)
    )
    assert report["writes"]["regular"] == [2, 2, 2]
    assert report["longest_zero_duty"] == [1, 1, 1]
    assert report["needed_faulty_entries"] == [0, 1, 2]


def test_wakeups_and_movs_by_hand(tmp_path):
    """Register 0: constant, random, constant, then one lane of it, which takes a MOV."""
    events = [
        alloc(0, 0, 1),
        *(write(0, 0, 0, pattern(1)), write(20, 0, 0, RANDOM), write(40, 0, 0, pattern(2))),
        write(60, 0, 0, pattern(5), lanes=1),
        release(99, 0),
    ]
    save_trace(trace_of(events, 100), tmp_path / "t.h5")
    for engine in ENGINES:
        report = run_json(str(tmp_path / "t.h5"), "--technique", "rc", "--engine", engine)
        assert report["wakeups"] == [2]
        assert report["mov_writes"] == 1
        assert report["compressible_write_share"] == 0.5


def test_the_delta_limit(tmp_path):
    events = [alloc(0, 0, 1), write(0, 0, 0, pattern(1, 128, 1024)), release(99, 0)]
    save_trace(trace_of(events, 100), tmp_path / "t.h5")
    shares = {}
    for text in ("1", "64", "128", "1024", "none"):
        report = run_json(str(tmp_path / "t.h5"), "--technique", "rc", "--delta-limit", text)
        assert report["delta_limit"] == (None if text == "none" else int(text))
        shares[text] = report["compressible_write_share"]
    assert shares == {"1": 0, "64": 0, "128": 0, "1024": 1, "none": 1}


def test_a_trace_of_several_kernels_has_several_window_sizes():
    report = run_json("ScanLArr", "--technique", "baseline")
    assert report["window_size"] == [3, 10]
    assert report["trace"] == "ScanLargeArrays"


def test_more_instances_than_are_held_at_once(trace_file, tmp_path):
    maps = np.zeros((40, 256), dtype=np.uint8)
    maps[17] = 15
    np.save(tmp_path / "maps.npy", maps)
    report = run_json(trace_file, "--technique", "rrcd", "--fault-map", str(tmp_path / "maps.npy"))
    assert_shape(report, 40)
    assert [i for i, duty in enumerate(report["longest_zero_duty"]) if not duty] == [17]


# ---- slowdown and energy -----------------------------------------------------------------------


@pytest.mark.parametrize(("technology", "vdd_volts"), [("28nm", 0.419), ("32nm", 0.9)])
@each("technique", ["baseline", "rc+rar", "gr-guard", "rrcd", "rrcd+rc+rar"])
def test_costs_are_those_of_the_package(technique, technology, vdd_volts, trace_file, three_maps):
    trace, named = open_trace(trace_file), TECHNIQUES[technique]
    replay = prepare(trace, named)
    did = activity_of(replay, NumpyEngine().count(replay, np.load(three_maps)))
    costs = load_costs()
    node = costs.technology(technology)
    slower = slowdown(did, named, node, costs.penalties)
    spent = energy(did, named, node, vdd_volts, slower.total)
    before = [
        energy(conventional(trace), CONVENTIONAL, node, vdd).total for vdd in (vdd_volts, None)
    ]
    report = run_json(
        *(trace_file, "--technique", technique, "--fault-map", three_maps),
        *("--technology", technology, "--vdd", str(vdd_volts)),
    )
    assert (report["technology"], report["vdd_volts"]) == (technology, vdd_volts)
    assert report["energy"]["total_pj"] == pytest.approx(spent.total)
    assert report["energy"]["saving"] == pytest.approx(1 - spent.total / before[0])
    assert report["energy"]["saving_over_nominal_vdd"] == pytest.approx(1 - spent.total / before[1])
    assert report["slowdown"]["total"] == pytest.approx(slower.total)
    parts = [values for name, values in report["energy"].items() if name.endswith("_pj")]
    assert 2 * np.array(report["energy"]["total_pj"]) == pytest.approx(np.sum(parts, axis=0))
    assert 2 * np.array(report["slowdown"]["total"]) == pytest.approx(
        np.sum(list(report["slowdown"].values()), axis=0)
    )


def test_windows_are_released_with_their_wavefronts_by_default(tmp_path):
    """Of two wavefronts, one ends half-way: ARGO has its window on for half of the time."""
    events = []
    for slot, busy in ((0, 10), (1, 25)):
        events += [alloc(0, slot, 2), write(2, slot, 1, 7), read(busy, slot, 1), release(30, slot)]
    trace = replace(trace_of(events, 40), alloc_work_group=np.zeros(2, dtype=np.uint32))
    save_trace(trace, tmp_path / "t.h5")
    words = (str(tmp_path / "t.h5"), "--technique", "argo")
    by_default, by_wavefront, by_work_group = (
        run_json(*words, *option)
        for option in ((), ("--release", "wavefront"), ("--release", "work-group"))
    )
    assert by_default == by_wavefront
    assert (by_default["release"], by_work_group["release"]) == ("wavefront", "work-group")
    leakage = [single["energy"]["slice_leakage_pj"][0] for single in (by_default, by_work_group)]
    assert leakage[0] / leakage[1] == pytest.approx((15 + 30) / (30 + 30))


def test_windows_that_wait(tmp_path):
    """Two windows of 40 entries in turn take 9 of 100 cycles more; without room nothing runs."""
    events = []
    for slot in range(2):
        events += [alloc(0, slot, 40), write(1, slot, 0, 1), read(3, slot, 0), release(8, slot)]
    save_trace(trace_of(events, 100), tmp_path / "t.h5")
    maps = np.zeros((3, 256), dtype=np.uint8)
    maps[1], maps[2] = 1, 1
    maps[1, 100:179] = 0  # one entry less than two windows need
    np.save(tmp_path / "maps.npy", maps)
    words = (str(tmp_path / "t.h5"), "--technique", "disable")
    report = run_json(*words, "--fault-map", str(tmp_path / "maps.npy"))
    assert report["concurrent_windows"] == [2, 1, 0]
    assert report["writes"]["regular"] == report["reads"]["slice"] == [2, 2, 0]
    assert report["slowdown"]["waiting"] == report["slowdown"]["total"]
    assert report["slowdown"]["total"] == [0, pytest.approx(0.09), None]
    leakage, _, none = report["energy"]["slice_leakage_pj"]
    assert report["energy"]["slice_leakage_pj"] == pytest.approx([leakage, 1.09 * leakage, none])
    assert none is None
    assert all(values[2] is None for values in report["energy"].values())
    told = run_mcage("replay", *words, "--fault-map", tmp_path / "maps.npy")
    assert "0, 0.09, none" in told


# ---- refusals ----------------------------------------------------------------------------------


@pytest.fixture
def refused(refusal):
    """Message of a refusal, which is one line."""

    def run(*arguments):
        said = refusal("replay", *arguments)
        assert said.startswith("error: ")
        assert len(said.splitlines()) == 1
        return said

    return run


@each(
    ("option", "value", "word"),
    [
        ("--delta-limit", "63", "delta limit '63': a power of two up to 2**31, or none"),
        ("--delta-limit", "4294967296", "delta limit '4294967296'"),
        ("--technology", "30nm", "costs.technology = '30nm': must be one of 32nm, 28nm"),
        ("--release", "windows", "release 'windows' is unknown; choose from wavefront, work-group"),
        ("--vdd", "419", "vdd = 419.0 V of the slice"),
    ],
)
def test_options_that_cannot_be_meant(option, value, word, trace_file, refused):
    assert word in refused(trace_file, "--technique", "disable", option, value)


GOOD = np.zeros((2, 256), dtype=np.uint8)


@each(
    ("maps", "message"),
    [
        (GOOD.astype(np.int64), "int64[2, 256], where uint8[instances, 256] is needed"),
        (GOOD[0], "uint8[256], where uint8[instances, 256]"),
        (GOOD[:, :255], "uint8[2, 255], where"),
        (GOOD[:0], "no instance in it"),
        (GOOD + 16, "value 16 of instance 0, entry 0: only bits 0 ... 3 stand for blocks"),
        (np.array([GOOD, None], dtype=object), "no NumPy file with a fault map"),
        ({"of_two": GOOD}, "an archive of several arrays; one array is needed"),
    ],
)
def test_fault_maps_that_are_none(maps, message, trace_file, tmp_path, refused):
    path = tmp_path / "maps.npy"
    with path.open("wb") as file:
        np.savez(file, **maps) if isinstance(maps, dict) else np.save(file, maps)
    error = refused(trace_file, "--technique", "rrcd", "--fault-map", path)
    assert error.startswith(f"error: {path}: ")
    assert message in error


def test_a_file_that_is_no_trace(refused):
    assert __file__ in refused(__file__, "--technique", "baseline")
