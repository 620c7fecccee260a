"""A sweep over traces of another slice: on each engine, in its file, its tables and its figure."""

import dataclasses
import random
import tomllib
from importlib.resources import files

import numpy as np
import pytest
from command_line import from_json
from engine_cases import cuda_engine
from geometries import on
from sweep_cases import assert_same_arrays, small_spec
from trace_strategies import random_trace

from mcage import run_sweep
from mcage.analysis.drawing import draw_survival_of_file
from mcage.engines.numba_engine import NumbaEngine
from mcage.engines.numpy_engine import NumpyEngine
from mcage.errors import UserError
from mcage.geometry import NVIDIA
from mcage.results.reader import open_results, read_header
from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep
from mcage.traces.library import MODERN
from mcage.traces.storage import save_trace

SHAPE = {"slots": (6, 9), "window_sizes": (12, 20), "generations": (2, 3), "accesses": (20, 30)}


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Two traces of 32 lanes, of which one is approximate."""
    folder = tmp_path_factory.mktemp("traces")
    paths = [folder / f"kernel{number}.h5" for number in range(2)]
    for number, path in enumerate(paths):
        with on(NVIDIA):
            trace = random_trace(random.Random(number), **SHAPE, phases=(1, 1))
        source = {"approximate": {"lanes": "all taken as written"}} if number else {}
        save_trace(dataclasses.replace(trace, name=path.stem, source=source), path)
    return [str(path) for path in paths]


def spec_of(traces, **fields):
    given = {
        "techniques": ["rrcd", "wc"],
        "workload": {"kernels": traces, "periods": 2, "generations": 0},
        "life": {"epochs": 2, "slowdown_limit": "none"},  # random accesses are dense
        "instances": 2,
    }
    return small_spec(**given | fields)


@pytest.fixture(scope="module")
def result(traces, tmp_path_factory):
    return run_sweep(spec_of(traces), tmp_path_factory.mktemp("result") / "numba.h5", "numba")


@pytest.mark.parametrize("engine", [NumpyEngine, pytest.param(cuda_engine, marks=pytest.mark.slow)])
def test_engines_compute_the_same(engine, traces):
    expected = Sweep(spec_of(traces), NumbaEngine()).compute(0, 2)
    assert_same_arrays(expected, Sweep(spec_of(traces), engine()).compute(0, 2))


@pytest.mark.slow
@pytest.mark.parametrize("slice_of", ["nvidia", "hopper"])
def test_the_suite_of_today_runs_on_slices_of_nvidia(slice_of, command, tmp_path):
    """With AMD's code, which is said wherever results are shown."""
    words = ("sweep", "--suite", "modern", "--geometry", slice_of, "--technique", "rrcd+rc+rar")
    words += ("--instances", 2, "--generations", 1, "--epochs", 2, "--engine", "numba")
    code, shown, said = command(*words, "--out", tmp_path / "r.h5")
    assert code == 0, said
    caveats = read_header(tmp_path / "r.h5").caveats
    of_amd = [said for said in caveats if "instructions (those of AMD's gfx1100)" in said]
    assert {name for said in of_amd for name in said.split(": ")[0].split(", ")} == {
        *MODERN["nvidia"]
    }
    assert "instructions (those of AMD's gfx1100)" in " ".join(shown.split())


def test_what_nobody_knows_is_said(result, tmp_path, command):
    slices, approximate = read_header(result).caveats
    assert slices.startswith("slices of 512 x 32 with blocks of 16: no constants of their energy")
    assert approximate == "kernel1: approximate in lanes"
    with open_results(result) as results:
        assert np.isnan(results["energy_saving"].values).all()
    code, out, _ = command("show", result)
    assert code == 0
    assert f"CAVEAT: {slices}; {approximate}" in out
    assert "energy saving" not in out
    draw_survival_of_file(result, tmp_path / "f.svg", (), {})
    assert "approximate in lanes" in (tmp_path / "f.svg").read_text()


def test_a_replay_says_it_too(traces):
    report = from_json("replay", traces[1], "--technique", "rrcd", "--engine", "numba")
    assert (report["caveat"], report["geometry"]) == ("approximate in lanes", "nvidia")
    assert report["energy"]["total_pj"] == [None]


@pytest.fixture
def costs_file(tmp_path):
    """Writes the constants of mcage as those of another slice, with other energies and Vdd."""
    shipped = files("mcage").joinpath("data", "costs.toml").read_text(encoding="utf-8")

    def write(name, geometry="nvidia", value="247.38"):
        assert "value = 247.38" in shipped
        assert "value = 0.8," in shipped
        text = shipped.replace("value = 247.38", f"value = {value}", 1)
        text = text.replace("value = 0.8,", "value = 0.85,", 1)
        (tmp_path / name).write_text(f'geometry = "{geometry}"\n{text}')
        return tmp_path / name

    return write


def test_energies_of_constants_of_ones_own(traces, costs_file, command, tmp_path):
    (tmp_path / "s.toml").write_text(spec_of(traces).to_toml())
    words = ("sweep", "s.toml", "--geometry", "nvidia", "--engine", "numba")
    mine, out = costs_file("mine.toml"), tmp_path / "r.h5"
    code, table, said = command(*words, "--costs", mine, "--out", out)
    assert code == 0, said
    caveat = "energy and slowdown rest on user-defined constants of 28nm ("
    assert "energy saving" in table
    assert caveat in table
    assert "technology's nominal 0.85 V" in " ".join(table.split())
    draw_survival_of_file(out, tmp_path / "f.svg", (), {})
    assert "user-defined constants of 28nm" in (tmp_path / "f.svg").read_text()
    lines = from_json("show", out)
    savings = {line["label"]: line["energy_saving"]["value"] for line in lines if line["worked"]}
    assert len(set(savings.values())) == len(savings) > 1
    assert all(-1 < saving < 1 for saving in savings.values())
    mine.unlink()  # the results file is enough to repeat it
    code, _, said = command("sweep", out, "--engine", "numba", "--out", tmp_path / "again.h5")
    assert code == 0, said
    assert read_header(tmp_path / "again.h5").spec_digest == read_header(out).spec_digest
    costs_file("mine.toml", value="250.0")
    code, _, said = command(*words, "--costs", mine, "--out", out)
    assert code == 2
    assert "already holds another campaign (differs from this one in " in said
    assert "read_pj.value (247.38, 250.0)" in said


def test_bad_constants_are_refused(traces, costs_file, refusal, tmp_path):
    bad = costs_file("mine.toml", value="-1")
    for words in (
        ("sweep", "--kernel", traces[0], "--out", "r.h5"),
        ("replay", traces[0], "--technique", "rrcd"),
    ):
        said = refusal(*words, "--costs", bad)
        assert said == f"error: {bad}, [28nm.slice] read_pj = -1: must be 0 or above\n"
    assert not list(tmp_path.glob("r.h5*"))


def test_slices_do_not_mix(traces):
    with pytest.raises(UserError, match="'DCT' of gcn; a sweep has slices of a single geometry"):
        Sweep(spec_of([traces[0], "DCT"]), NumbaEngine())
    with pytest.raises(UserError, match=r"asks for 256 x 64; leave it out"):
        Sweep(spec_of(traces, registers={"geometry": "gcn"}), NumbaEngine())


def test_blocks_may_be_chosen(traces):
    spec = spec_of(traces, registers={"geometry": {"block_components": 32}})
    assert SweepSpec.from_mapping(tomllib.loads(spec.to_toml())) == spec
    given = spec.registers.geometry.of(NVIDIA)
    assert given.blocks == 1
    with pytest.raises(UserError, match=r"registers\.geometry: block_components is 7"):
        Sweep(spec_of(traces, registers={"geometry": {"block_components": 7}}), NumbaEngine())
