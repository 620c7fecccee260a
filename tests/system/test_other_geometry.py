"""A sweep over traces of another slice: on each engine, in its file, its tables and its figure."""

import dataclasses
import json
import random
import tomllib

import numpy as np
import pytest
from engine_cases import cuda_engine
from geometries import on
from sweep_cases import assert_same_arrays, small_spec
from trace_strategies import random_trace

from mcage.engines.numba_engine import NumbaEngine
from mcage.engines.numpy_engine.engine import NumpyEngine
from mcage.errors import UserError
from mcage.geometry import NVIDIA
from mcage.report.figures.survival import draw_survival_of_file
from mcage.results.reader import open_results, read_header
from mcage.spec import SweepSpec
from mcage.sweep.run import run_sweep
from mcage.sweep.study import Sweep
from mcage.traces.storage import load_trace, save_trace

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
        "life": {"epochs": 2},
        "instances": 2,
    }
    return small_spec(**given | fields)


@pytest.fixture(scope="module")
def result(traces, tmp_path_factory):
    return run_sweep(spec_of(traces), tmp_path_factory.mktemp("result") / "numba.h5", "numba")


def test_a_file_keeps_the_geometry(traces):
    assert load_trace(traces[0]).geometry == NVIDIA


@pytest.mark.parametrize("engine", [NumpyEngine, cuda_engine])
def test_engines_compute_the_same(engine, traces):
    expected = Sweep(spec_of(traces), NumbaEngine()).compute(0, 2)
    assert_same_arrays(expected, Sweep(spec_of(traces), engine()).compute(0, 2))


def test_one_sentence_says_it_of_all_bundled_profiles():
    names = ["DCT-32", "MatrixTranspose-32"]
    sweep = Sweep(spec_of(names), NumpyEngine())
    assert sweep.plan.caveats[1:] == (
        "DCT-32, MatrixTranspose-32: synthesized from the profile of its name, not recorded on "
        "NVIDIA hardware",
    )


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
    draw_survival_of_file(result, tmp_path / "f.svg")
    assert "approximate in lanes" in (tmp_path / "f.svg").read_text()


def test_a_replay_says_it_too(traces, command):
    words = ("replay", traces[1], "--technique", "rrcd", "--engine", "numba", "--json")
    code, out, _ = command(*words)
    report = json.loads(out)
    assert code == 0
    assert (report["caveat"], report["geometry"]) == ("approximate in lanes", "nvidia")
    assert report["energy"]["total_pj"] == [None]


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
