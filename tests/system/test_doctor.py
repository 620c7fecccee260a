"""``mcage doctor`` and what it asks: engines, the driver, and whether engines agree."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
from command_line import from_json, invoke
from host_gpu.compiler import host_compiler
from places import shown_files

from mcage.cli import doctor
from mcage.engines.cuda_engine import CudaEngine
from mcage.engines.cuda_engine import opening as driver_file
from mcage.engines.cuda_engine.opening import Card, Driver, ask_driver
from mcage.engines.numpy_engine import NumpyEngine
from mcage.engines.parity import Answers, ask, compare, demanding_maps, excerpt, largest_difference
from mcage.errors import UserError
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES
from mcage.traces.model import validate_trace


@pytest.fixture
def few_techniques(monkeypatch):
    few = {name: TECHNIQUES[name] for name in ("wc", "rrcd")}
    monkeypatch.setattr("mcage.cli.doctor.TECHNIQUES", few)


def with_engines(monkeypatch, **engines):
    opened = {"numpy": NumpyEngine(), **engines}
    monkeypatch.setattr(doctor, "_open_engines", lambda _: (opened, {"cuda": "why"}))


class WrongEngine(NumpyEngine):
    def cell_times(self, replay, fault_maps):
        times = super().cell_times(replay, fault_maps)
        times.ones[-1, 0, 0] += 1
        return times


class BrokenEngine(NumpyEngine):
    def count(self, replay, fault_maps):
        raise RuntimeError("kernel place refused")


def test_every_technique_and_engine(monkeypatch):
    report = from_json("doctor")
    assert report["verdict"] == "all is well"
    tested = {row["technique"] for row in report["self_test"] if row["engine"] == "numba"}
    assert tested == set(TECHNIQUES)
    assert all(row["result"] == "equal to the last bit" for row in report["self_test"])
    assert report["versions"]["numpy"] == np.__version__
    assert report["cores"] >= 1


@pytest.mark.usefixtures("few_techniques")
def test_an_engine_that_is_wrong(monkeypatch):
    with_engines(monkeypatch, numba=WrongEngine())
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "FAIL  numba  rrcd         integers differ: cycles at '1'" in result.stdout
    assert "ENGINES DISAGREE: numba in 2 of 2 tests" in result.stdout


@pytest.mark.usefixtures("few_techniques")
def test_an_engine_that_raises(monkeypatch):
    with_engines(monkeypatch, cuda=BrokenEngine(), numba=NumpyEngine())
    result = invoke("doctor", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    agree = {row["engine"]: row["agrees"] for row in report["self_test"]}
    assert agree == {"cuda": False, "numba": True}
    assert report["self_test"][0]["result"] == "RuntimeError: kernel place refused"


# ---- comparison ------------------------------------------------------------------------------


def test_the_excerpt_is_a_trace_with_all_that_engines_must_do():
    trace = excerpt()
    validate_trace(trace)
    assert trace.window_sizes == (3, 10)
    counters = NumpyEngine().count(prepare(trace, TECHNIQUES["rrcd+pg"]), demanding_maps(3))
    assert counters.lds.tolist()[:2] == [0, 0]
    assert counters.lds[2] > 0
    assert counters.to_faulty[1] > 0


def test_verdicts():
    replay = prepare(excerpt(), TECHNIQUES["rrcd"])
    meant = ask(NumpyEngine(), replay, demanding_maps(2))
    assert compare(meant, meant).bit_equal
    for name, array in meant.integers.items():
        changed = array.copy()
        changed.flat[-1] += 1
        parity = compare(Answers(meant.integers | {name: changed}, meant.floats), meant)
        assert not parity.agrees
        assert parity.in_words == f"integers differ: {name}"
    for factor, agrees in ((1 + 1e-6, True), (1 + 1e-4, False)):
        floats = {name: factor * array for name, array in meant.floats.items()}
        parity = compare(dataclasses.replace(meant, floats=floats), meant)
        assert (parity.agrees, parity.bit_equal) == (agrees, False)


def test_largest_difference():
    row = np.array([0.0, 2.0, np.nan])
    assert largest_difference(row, row) == 0
    assert largest_difference(np.array([0.0, 1.0, np.nan]), row) == 0.5
    assert largest_difference(np.array([0.0, 2.0, 1.0]), row) == np.inf
    assert largest_difference(row[:2], row) == np.inf


# ---- the driver ------------------------------------------------------------------------------

FAKE_DRIVER = """
#include <cstring>
extern "C" {
int cuInit(unsigned) { return STATUS; }
int cuDriverGetVersion(int *version) { *version = 13010; return 0; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int number) { *device = 7 + number; return 0; }
int cuDeviceGetName(char *name, int, int device) {
    strcpy(name, device == 8 ? "second" : "first"); return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = size_t(device) << 34; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int) {
    *value = attribute == 75 ? 9 : attribute == 76 ? 3 : -1; return 0;
}
}
"""


def fake_driver(tmp_path, status):
    library = tmp_path / f"driver{status}.so"
    command = [host_compiler(), "-shared", "-fPIC", f"-DSTATUS={status}", "-xc++", "-", "-o"]
    subprocess.run([*command, str(library)], input=FAKE_DRIVER.encode(), check=True)
    return str(library)


@pytest.mark.skipif(host_compiler() is None, reason="no C++ compiler")
def test_the_driver_is_asked(monkeypatch, tmp_path):
    monkeypatch.setattr(driver_file, "_LIBRARY", fake_driver(tmp_path, 0))
    cards = (Card("first", "9.3", 7 << 34), Card("second", "9.3", 8 << 34))
    assert ask_driver() == Driver("13.1", cards)
    monkeypatch.setattr(driver_file, "_LIBRARY", fake_driver(tmp_path, 100))
    assert ask_driver() == Driver("13.1", (), "the driver does not start: it sees no device")


def test_no_driver(monkeypatch):
    monkeypatch.setattr(driver_file, "_LIBRARY", "libnothing.so.1")
    assert ask_driver() == Driver(None, (), "no NVIDIA driver (libnothing.so.1 is not there)")


class WithoutPrograms(NumpyEngine):
    policies = CudaEngine.policies


class ForgetfulEngine(NumpyEngine):
    """What a program learns in a pass is lost."""

    def program_runner(self, replay):
        runner = super().program_runner(replay)
        run_pass = runner.run_pass
        runner.run_pass = lambda fault_map, state: run_pass(fault_map, state.copy())
        return runner


@pytest.fixture
def least_worn(tmp_path, monkeypatch):
    """The example of results/techniques.md in the current folder, tried on a short kernel alone."""
    (tmp_path / "least_worn.py").write_text(shown_files("results/techniques.md")["least_worn.py"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mcage.traces.KERNELS", ("MatrixTranspose",))
    yield tmp_path / "least_worn.py"
    sys.modules.pop("least_worn", None)


TRIAL = ("doctor", "--technique", "least_worn:LEAST_WORN")


def test_a_program_is_tried_on_every_engine(monkeypatch, least_worn):
    with_engines(monkeypatch, numba=NumpyEngine(), cuda=WithoutPrograms())
    left_out, tried = from_json(*TRIAL)["self_test"]
    assert left_out["engine"] == "cuda"
    assert "does not implement placement 'program'" in left_out["result"]
    assert (tried["engine"], tried["trace"]) == ("numba", "MatrixTranspose")
    assert tried["result"] == "equal to the last bit"


def test_an_engine_that_forgets_is_told(monkeypatch, least_worn):
    with_engines(monkeypatch, numba=ForgetfulEngine())
    result = invoke(*TRIAL, "--json")
    assert result.exit_code == 1
    (row,) = json.loads(result.stdout)["self_test"]
    assert "what is learnt on map 0" in row["result"]


def test_a_breach_ends_the_trial(monkeypatch, least_worn):
    code = least_worn.read_text()
    least_worn.write_text(code.replace("return in_entry(best)", "return in_entry(best + 1)"))
    with_engines(monkeypatch)
    result = invoke(*TRIAL)
    assert isinstance(result.exception, UserError)
    assert "technique 'least-worn': cycle " in str(result.exception)
