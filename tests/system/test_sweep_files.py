"""The files of real sweeps: the same to the last byte however they came about.

Sweeps that are killed and continued: `test_kills.py`.
"""

import os
import re
import subprocess
import sys

import pytest
from sweep_cases import SMALL_KERNELS, file_content, small_spec

from mcage.results.reader import read_header
from mcage.sweep.run import run_sweep
from mcage.sweep.study import Sweep

KERNELS = SMALL_KERNELS[:2]
SPEC = small_spec(
    instances=12,
    techniques=["baseline", "rrcd"],
    workload={"kernels": list(KERNELS), "periods": 3, "generations": 2},
)
OPTIONS = [
    *("--seed", "5", "--periods", "3", "--generations", "2", "--epochs", "4"),
    *("--technique", "baseline", "--technique", "rrcd"),
    *(word for kernel in KERNELS for word in ("--kernel", kernel)),
]


def command(out, instances=12, shard_size=1, before=""):
    """A real `mcage sweep` in a process of its own, and what it does before."""
    words = ["--instances", str(instances), "--shard-size", str(shard_size), "--out", str(out)]
    program = f"{before}from mcage.cli.main import main; main()"
    return [sys.executable, "-c", program, "sweep", *OPTIONS, *words]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_sweep(SPEC, tmp_path_factory.mktemp("whole") / "whole.h5", shard_size=256)


@pytest.mark.parametrize("shard_size", [1, 5, 12])
def test_shard_sizes_make_the_same_bytes(shard_size, whole, tmp_path):
    out = run_sweep(SPEC, tmp_path / "r.h5", shard_size=shard_size)
    assert out.read_bytes() == whole.read_bytes()
    assert list(tmp_path.iterdir()) == [out]


def test_engines_make_the_same_file_but_for_their_names(tmp_path):
    spec = small_spec(
        instances=2,
        techniques=["baseline", "rrcd+pg"],
        workload={"kernels": list(KERNELS[:1]), "periods": 1, "generations": 1},
        life={"epochs": 2},
    )
    numba, numpy = (
        file_content(run_sweep(spec, tmp_path / f"{engine}.h5", engine))
        for engine in ("numba", "numpy")
    )
    assert set(numba) == set(numpy)
    differing = {name for name in numba if numba[name] != numpy[name]}
    assert differing == {"@engine", "@campaign"}
    assert numba["@campaign"].replace('"numba"', '"numpy"') == numpy["@campaign"]
    assert (numba["@engine"], numpy["@engine"]) == ("'numba'", "'numpy'")
    assert {"spill_rate", "life_years@units", "@spec_digest", "case"} <= set(numba)


def test_the_same_sweep_twice_computes_nothing(whole, monkeypatch):
    before = whole.read_bytes(), os.stat(whole).st_mtime_ns

    def compute(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(Sweep, "compute", compute)
    monkeypatch.setattr(Sweep, "prepare", compute)
    assert run_sweep(SPEC, whole) == whole
    assert (whole.read_bytes(), os.stat(whole).st_mtime_ns) == before


def test_the_file_names_its_sweep(whole):
    campaign = read_header(whole)
    assert campaign.spec_toml == SPEC.to_toml()
    assert campaign.kernels == KERNELS
    assert [case.label for case in campaign.cases] == [
        "baseline nominal common 1 V",
        "rrcd nominal common 1 V",
        "baseline dvfs common 0.8/0.419 V",
        "rrcd dvfs common 0.8/0.419 V",
    ]
    assert campaign.engine == "numba"


def test_one_instance(tmp_path):
    out = run_sweep(small_spec(instances=1, techniques=["rrcd"]), tmp_path / "r.h5")
    assert read_header(out).instances == 1


def peak_megabytes(out, instances):
    """Peak memory of a sweep, by its own account.

    To what its parent is told of it, the parent's own memory at the time of the start belongs.
    """
    asked = "import atexit; atexit.register(lambda: print(open('/proc/self/status').read())); "
    sweep = command(out, instances, shard_size=16, before=asked)
    done = subprocess.run(sweep, capture_output=True, text=True, check=True)
    (kilobytes,) = re.findall(r"^VmHWM:\s*(\d+) kB$", done.stdout, re.MULTILINE)
    return int(kilobytes) / 1024


def test_memory_does_not_grow_with_the_instances(tmp_path):
    """Four times as many, within what the memory of one and the same run varies."""
    few, many = (peak_megabytes(tmp_path / f"{n}.h5", n) for n in (32, 128))
    assert many < few + 60
    assert many < 1000
