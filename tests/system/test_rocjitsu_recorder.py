"""The recorder for AMD's emulator: does what it writes come back? The emulator is a stand-in."""

import json
import subprocess
from pathlib import Path

import pytest
from host_gpu.compiler import host_compiler
from import_samples import imported

from mcage.traces.model import READ, WRITE

PLUGIN = Path(__file__).parents[2] / "scripts" / "rocjitsu"
STAND_INS = Path(__file__).parents[1] / "support" / "rocjitsu"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not host_compiler(), reason="no C++ compiler of Linux"),
]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """Program in which the plugin sees two wavefronts of a simulated emulator."""
    program = tmp_path_factory.mktemp("rocjitsu") / "simulated"
    command = [host_compiler(), "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{STAND_INS}", f"-I{PLUGIN}", str(STAND_INS / "simulated.cpp")]
    made = subprocess.run([*command, "-o", str(program)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return program


def run(simulated, lanes, ends, file):
    """What registers did, as the simulated emulator says; the recording is in the file."""
    ran = subprocess.run(
        [simulated, str(lanes), ends],
        env={"RECORD_FILE": str(file)},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("lanes", [32, 64])
def test_what_registers_did_comes_back(simulated, lanes, tmp_path):
    file = tmp_path / "recording.csv"
    said = run(simulated, lanes, "shutdown", file)
    result = imported([file], tmp_path / "out")
    recording = result.recording
    assert recording.lanes == lanes
    assert set(recording.approximate) == {"time", "lanes"}
    columns, values = recording.columns(), recording.values()
    found = []
    for row in (columns["kind"] == WRITE).nonzero()[0]:
        mask, held = int(columns["exec_mask"][row]), values[columns["value"][row]]
        written = [int(held[lane]) for lane in range(lanes) if mask >> lane & 1]
        found.append((int(columns["window"][row]), int(columns["reg"][row]), mask, written))
    events = [json.loads(line) for line in said.splitlines()]
    assert found == [(e["wave"], e["register"], e["lanes"], e["values"]) for e in events]
    of_second = (columns["window"] == 1) & (columns["kind"] == WRITE)
    assert columns["time"][of_second].tolist() == [5, 6, 8, 9]
    reads = columns["reg"][columns["kind"] == READ].tolist()
    assert reads == [0, 5, 0, 5]
    assert [window.size for window in recording.windows] == [8, 8]
    assert recording.windows[0].origin.kernel == 'scale<float, "x">'
    assert {(made.trace.windows, made.name) for _, made in result.slices} == {
        (1, f"{'cu' if lanes == 64 else 'sm'}0.{'simd' if lanes == 64 else 'part'}{part}")
        for part in (0, 1)
    }


def test_windows_that_are_open_when_the_program_ends_are_released(simulated, tmp_path):
    ended, shut_down = tmp_path / "ended.csv", tmp_path / "shut_down.csv"
    run(simulated, 64, "exit", ended)
    run(simulated, 64, "shutdown", shut_down)
    assert ended.read_text() == shut_down.read_text()
