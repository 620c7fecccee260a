"""``check_suite.py``: launches that follow one another, verdicts, kernels that end a process."""

import csv
import subprocess
import sys

import check_suite
import pytest
from amd_tools import needs_clang, needs_library
from check_suite import CaseRun, Limits, cases_of, read_suite
from places import ROOT
from tables import each

from mcage.errors import UserError

KERNELS = """
#ifdef INCLUDED
#include "empty.h"
#endif
__kernel void scale(__global float *x, float a, int n) {
    int i = get_global_id(0);
    if (i < n) x[i] = a * x[i];
}
__kernel void add(__global const float *source, __global float *target) {
    int i = get_global_id(0);
    target[i] += source[i];
}
__kernel void shift(__global const float *x, __global float *y) {  // and reads behind the end
    int i = get_global_id(0);
    y[i] = x[i + 1];
}
__kernel void spin(__global volatile int *flag) {
    while (!*flag);
}
"""
FUNCTIONS = """
import os
import signal
import numpy as np

def inputs(random):
    return {"x": np.ones(64, "f4"), "y": np.zeros(64, "f4"), "n": 64, "reached": np.int64(0)}

def until_large(arguments):
    while arguments["x"][0] < 100:  # 2.5, 6.25, 15.6, 39.1, 97.7, 244.1
        yield {"entry": "scale", "grid": 1, "arguments": {"a": 2.5}}
    yield {"entry": "add", "grid": 1, "arguments": {"source": "x", "target": "y"}}

def large(x, y, n, reached):
    return {"x": 2.5**6 * x, "y": 2.5**6 * x}

def half(x, y, **others):
    return {"x": 2.5 * x, "y": 1.25 * x}

def killed(**arguments):
    os.kill(os.getpid(), signal.SIGKILL)

def looping(flag):
    while True:
        pass
"""
SUITE = """
kernel = "k.cl"
block = 64
tolerance = 1e-6

[[case]]
name = "steps"
arguments = "f.py:inputs"
launches = "f.py:until_large"
reference = "f.py:large"

[[case]]
name = "two"
arguments = "x=f32[256]~normal y=f32[256] n=256"
reference = "f.py:half"
grid = 4
[[case.launch]]
entry = "scale"
arguments = "a=2.5"
[[case.launch]]
entry = "add"
arguments = "source=x target=y"
[[case.launch]]
entry = "shift"
"""
ROUGH = """
[[case]]
name = "killed"
arguments = "x=f32[64] n=64"
reference = "f.py:killed"
kernel = "k.cl"
entry = "scale"
grid = 1
block = 64
launch = [{arguments = "a=1"}]

[[case]]
name = "endless"
arguments = "flag=i32[1]"
kernel = "k.cl"
entry = "spin"
grid = 1
block = 1

[[case]]
name = "slow"
arguments = "flag=i32[1]~ones"
reference = "f.py:looping"
kernel = "k.cl"
entry = "spin"
grid = 1
block = 1

[[case]]
name = "nobody looks"
arguments = "x=f32[64]~ones n=64"
kernel = "k.cl"
flags = "-Iheaders -DINCLUDED"
entry = "scale"
grid = 1
block = 64
launch = [{arguments = "a=1"}]
"""


@pytest.fixture
def suite(tmp_path):
    """A folder with kernels, functions and a suite."""
    (tmp_path / "k.cl").write_text(KERNELS)
    (tmp_path / "f.py").write_text(FUNCTIONS)
    (tmp_path / "s.toml").write_text(SUITE)
    return tmp_path


def run(suite, number, arch="gfx1030", **changes):
    """Rows of a case by the names of its kernels."""
    case = cases_of(read_suite(suite / "s.toml"))[number].model_copy(update=changes)
    rows = CaseRun(case, suite, suite, arch, Limits(10_000, 10)).finish()
    return {row.kernel.partition(":")[2]: row for row in rows}


@needs_clang
@needs_library
def test_launches_that_depend_on_outputs(suite):
    rows = run(suite, 0)
    assert {name: (row.verdict, row.launches) for name, row in rows.items()} == {
        "scale": ("right", 6),
        "add": ("right", 1),
    }
    assert rows["scale"].instructions > 6 * 10
    assert rows["scale"].error <= 1e-6


@needs_clang
@needs_library
def test_kernels_that_are_refused_wrong_or_not_reached(suite):
    """The last of three launches reads behind a buffer; without it, an output is wrong."""
    rows = run(suite, 1)
    assert [row.verdict for row in rows.values()] == ["not compared", "not compared", "refused"]
    assert rows["shift"].reason.startswith("k.cl: instruction global_load")
    assert "outside of every buffer" in rows["shift"].reason
    case = cases_of(read_suite(suite / "s.toml"))[1]
    rows = run(suite, 1, launch=case.launch[:2])
    assert {row.verdict for row in rows.values()} == {"wrong"}
    assert "y differs by 1 of its largest value" in rows["add"].reason
    assert rows["add"].error == pytest.approx(1)
    rows = run(suite, 1, launch=[case.launch[2], case.launch[0]])  # the first ends the case
    assert [(row.verdict, row.launches) for row in rows.values()] == [
        ("refused", 0),
        ("not compared", 0),
    ]
    (rows,) = run(suite, 1, launch=case.launch[:1], reference="f.py:nothing").values()
    assert (rows.verdict, rows.reason) == ("failed", "f.py: has no function nothing")


@each(
    ("old", "new", "said"),
    [
        ("block = 64", "blocks = 64", "unknown key 'blocks'; there are kernel, entry"),
        ('name = "two"', 'name = "steps"', "case.name = 'steps': is there twice"),
        ("f.py:half", "half", "case.1.reference = 'half': string should match pattern"),
    ],
)
def test_what_is_wrong_in_a_suite_is_named(tmp_path, old, new, said):
    path = tmp_path / "s.toml"
    path.write_text(SUITE.replace(old, new))
    with pytest.raises(UserError) as refused:
        read_suite(path)
    assert str(refused.value).startswith(f"{path}: {said}")


@needs_clang
@needs_library
@pytest.mark.slow
def test_a_case_that_ends_its_process_does_not_end_the_run(suite):
    (suite / "s.toml").write_text(ROUGH)
    (suite / "headers").mkdir()
    (suite / "headers" / "empty.h").write_text("")
    command = [
        sys.executable,
        check_suite.__file__,
        "../s.toml",
        suite,
        "--arch",
        "gfx1030",
        "-j",
        "2",
    ]
    command += ["--seconds", "2", "--most-instructions", "5000", "--csv", "rows.csv"]
    ended = subprocess.run(
        command, cwd=suite / "headers", capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1, ended.stderr
    with (suite / "headers" / "rows.csv").open() as file:
        rows = {row["case"]: (row["verdict"], row["reason"]) for row in csv.DictReader(file)}
    assert rows["killed"] == ("failed", "its process was ended by signal 9")
    assert rows["endless"][0] == "refused"
    assert "more than 5,000 wave instructions" in rows["endless"][1]
    assert rows["slow"][0] == "refused"
    assert rows["slow"][1].startswith("takes more than 2 s of processor time")
    assert rows["nobody looks"] == ("not compared", "the case has no reference")
    assert "1 failed" in ended.stdout.splitlines()[-1]
    assert str(ROOT) not in ended.stdout
