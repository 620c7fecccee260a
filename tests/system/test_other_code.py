"""Does a change of the code keep old results from standing for new ones? With a real change."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

import mcage
from mcage.version import COMMIT_FILE

QUICK = """
sweep --engine numpy --instances 2 --technique baseline --environment nominal
--kernel ScanLargeArrays --generations 1 --periods 1 --epochs 1 --out r.h5
"""


def _left_out(folder, names):
    """The commit that an installed mcage carries; byte code, but not the machine code of loops.

    That is valid for a copy of their files, and to compile them would take longest.
    """
    if Path(folder).name == "__pycache__":
        return [name for name in names if not name.endswith((".nbi", ".nbc"))]
    return [COMMIT_FILE] if COMMIT_FILE in names else []


@pytest.fixture
def changeable(tmp_path):
    """A copy of mcage that may be changed, and how to run it."""
    package = tmp_path / "copy" / "mcage"
    shutil.copytree(Path(mcage.__file__).parent, package, ignore=_left_out)

    def run(*words):
        command = [sys.executable, "-c", "from mcage.cli.main import main; main()", *words]
        environment = os.environ | {"PYTHONPATH": str(package.parent)}
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment
        )

    return package, run


def test_a_changed_engine_does_not_take_over_what_the_old_one_computed(changeable, tmp_path):
    package, run = changeable
    assert run(*QUICK.split()).returncode == 0
    before = (tmp_path / "r.h5").read_bytes()

    with (package / "engines" / "numpy_engine" / "cell_times.py").open("a") as source:
        source.write("\n\nCHANGED = True\n")
    refused = run(*QUICK.split())
    assert refused.returncode == 2
    assert "r.h5 was computed by other code" in refused.stderr
    assert "--accept-other-code" in refused.stderr
    assert len(refused.stderr.splitlines()) <= 2
    accepted = run(*QUICK.split(), "--accept-other-code")
    assert accepted.returncode == 0
    assert "already holds this campaign, computed by other code" in accepted.stderr
    assert (tmp_path / "r.h5").read_bytes() == before

    shown = run("show", "r.h5").stdout
    with h5py.File(tmp_path / "r.h5") as file:
        (code,) = json.loads(file.attrs["codes"])
    assert f"computed by {code['version']}, digest {code['digest']}; this is " in shown
    assert code["version"] == f"{mcage.__version__} (unknown commit)"
