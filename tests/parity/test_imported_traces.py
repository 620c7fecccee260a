"""Does a trace that goes through another tool's text replay to the same numbers?"""

import json

import pytest
from engine_cases import NUMBA, NUMPY
from import_samples import NAMES, assert_same_events, expected, files_of, imported
from multi2sim_text import multi2sim_files

from mcage.studies.single_replay import replay
from mcage.techniques import TECHNIQUES, technique
from mcage.traces import bundled_trace, load_trace


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """A recorded trace, and the same from Multi2Sim's text and timing."""
    folder = tmp_path_factory.mktemp("multi2sim")
    recorded = bundled_trace("ScanLargeArrays")  # with two kernels
    files = [folder / "run.txt", folder / "run.m2s"]
    for file, text in zip(files, multi2sim_files(recorded), strict=True):
        file.write_text(text)
    ((name, _),) = imported(files, folder).slices
    return recorded, load_trace(folder / name)


def test_every_event_comes_back(traces):
    recorded, again = traces
    assert_same_events(again, recorded)


@pytest.mark.parametrize("name", TECHNIQUES)
def test_every_technique_replays_to_the_same_numbers(traces, name):
    recorded, again = (replay(trace, technique(name)) for trace in traces)
    again["trace"] = recorded["trace"]
    assert json.dumps(again) == json.dumps(recorded)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """The first slice of a sample of each tool, in its geometry."""
    of_tool = {name.split("/")[0]: name for name in NAMES if "windows" in expected(name)}
    first = {}
    for name in of_tool.values():
        values = expected(name).get("values", "before")
        folder = tmp_path_factory.mktemp("sample")
        ((_, made), *_) = imported(files_of(name), folder, values=values).slices
        first[name] = made.trace
    assert {trace.geometry.components for trace in first.values()} == {32, 64}
    return first


@pytest.mark.parametrize("name", TECHNIQUES)
def test_samples_of_every_tool_replay_under_every_technique(samples, name):
    """On the compiled engine as in the reference."""
    for sample, trace in samples.items():
        reference, compiled = (
            replay(trace, technique(name), engine=engine) for engine in (NUMPY, NUMBA)
        )
        assert json.dumps(compiled | {"engine": ""}) == json.dumps(reference | {"engine": ""}), (
            sample
        )
