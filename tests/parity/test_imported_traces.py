"""Does a trace that goes through another tool's text replay to the same numbers?"""

import json

import pytest
from import_samples import assert_same_events, imported
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
