"""``mcage trace list|show|validate`` as a user runs it."""

import json
import re

import pytest
from places import ROOT
from trace_commands import run, run_badly
from trace_strategies import alloc, release, trace_of, write

from mcage.traces.library import KERNELS
from mcage.traces.storage import load_trace, save_trace


@pytest.fixture
def trace_file(tmp_path):
    trace = trace_of([alloc(0, 0, 2), write(0, 0, 1, 7), release(9, 0)])
    save_trace(trace, tmp_path / "mine.h5")
    return tmp_path / "mine.h5"


def test_list():
    text = run("list")
    assert all(name in text for name in KERNELS)
    assert re.search(r"RadixSort +RadixS +19, 22 +8 +64 +8 +197,504 +38,280,452", text)


def test_list_as_json():
    entries = json.loads(run("list", "--json"))
    assert [entry["name"] for entry in entries] == list(KERNELS)
    assert entries[9] == {
        "name": "SimpleConvolution",
        "short_name": "SimConv",
        "window_sizes": [15],
        "concurrent_windows": 16,
        "windows": 104,
        "generations": 6,
        "writes": 14060,
        "reads": 21188,
        "cycles": 106887,
    }


def test_show(trace_file):
    text = run("show", str(trace_file))
    assert "kernel2 (2 registers)" in text
    assert re.search(r"pattern: constant .* 100\.0", text)


def test_show_as_json():
    numbers = json.loads(run("show", "matrixt", "--json"))
    assert numbers["name"] == "MatrixTranspose"
    assert numbers["kernels"] == [{"name": "matrixTranspose", "window_size": 4}]
    assert numbers["compressible_shares"]["none"] == pytest.approx(0.923, abs=5e-4)
    assert numbers["source"]["arguments"] == "-q -x 1024 -y 1024 -b 8"


def test_validate(trace_file):
    assert run("validate", str(trace_file), str(trace_file)) == f"{trace_file}: ok\n" * 2


def test_validate_stops_at_the_first_violation(trace_file, monkeypatch, capsys):
    missing = trace_file.with_name("missing.h5")
    captured = run_badly(monkeypatch, capsys, "validate", str(trace_file), str(missing))
    assert captured.out == f"{trace_file}: ok\n"
    assert captured.err == f"error: cannot read {missing}: No such file or directory\n"


def test_show_of_nothing(monkeypatch, capsys):
    captured = run_badly(monkeypatch, capsys, "show", "Mandelbrot")
    assert captured.err.startswith("error: no trace 'Mandelbrot': neither a file nor one of Black")
    assert captured.out == ""


def test_example_of_the_format_page(tmp_path, monkeypatch, capsys):
    """The Python example in docs/trace-format.md runs and writes the trace that it describes."""
    page = (ROOT / "docs" / "trace-format.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "trace-format.md", "exec"), {})
    trace = load_trace("ramp.h5")
    assert (trace.windows, trace.writes, trace.reads, trace.cycles) == (4, 8, 4, 400)
    assert "0.5" in capsys.readouterr().out
