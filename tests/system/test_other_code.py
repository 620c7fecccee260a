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
sweep --engine numpy --instances 2 --technique baseline --environment turbo
--kernel ScanLargeArrays --generations 1 --periods 1 --epochs 1 --out r.h5
"""


PROGRAM = """
import contextlib, io, json, sys
from mcage.cli.main import main
ended = []
for sys.argv in json.loads(sys.argv[1]):
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        try:
            code = main()
        except SystemExit as end:
            code = end.code
    ended.append((code or 0, out.getvalue(), said.getvalue()))
print(json.dumps(ended))
"""


def _left_out(folder, names):
    """The commit that an installed mcage carries.

    Byte code and the machine code of loops are valid for a copy of their files, which keeps the
    times of the files; to compile them would take longest.
    """
    return [COMMIT_FILE] if COMMIT_FILE in names else []


@pytest.fixture
def changeable(tmp_path):
    """A copy of mcage that may be changed, and how to run commands of it, one after the other."""
    package = tmp_path / "copy" / "mcage"
    shutil.copytree(Path(mcage.__file__).parent, package, ignore=_left_out)

    def run(*lines):
        """Exit code, output and messages of each, in a process that knows the code as it is now."""
        lines = [["mcage", *line.split()] for line in lines]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(lines)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(package.parent)},
            check=True,
        )
        return json.loads(done.stdout)

    return package, run


@pytest.mark.slow
def test_a_changed_engine_does_not_take_over_what_the_old_one_computed(changeable, tmp_path):
    package, run = changeable
    ((code, _, said),) = run(QUICK)
    assert code == 0, said
    before = (tmp_path / "r.h5").read_bytes()

    with (package / "engines" / "numpy_engine" / "cell_times.py").open("a") as source:
        source.write("\n\nCHANGED = True\n")
    refused, accepted, shown = run(QUICK, f"{QUICK} --accept-other-code", "show r.h5")
    assert (tmp_path / "r.h5").read_bytes() == before
    code, _, said = refused
    assert code == 2
    assert "r.h5 was computed by other code" in said
    assert "--accept-other-code" in said
    assert len(said.splitlines()) <= 2
    code, _, said = accepted
    assert code == 0
    assert "already holds this campaign, computed by other code" in said

    code, shown, _ = shown
    assert code == 0
    with h5py.File(tmp_path / "r.h5") as file:
        (by,) = json.loads(file.attrs["codes"])
    assert f"computed by {by['version']}, digest {by['digest']}; this is " in shown
    assert by["version"] == f"{mcage.__version__} (unknown commit)"
