"""Does mcage stay a good citizen whatever it is given?

Mutated inputs, each to a command of its own: it may do its work or refuse, in a line or two and
with exit code 2; it may not crash, hang, take memory without end, call itself defective, warn of
its own code, leave a half of anything, or touch a file that is not its output.
`scripts/validation/fuzz.py` tries many more.
"""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import pytest
from amd_tools import has_clang, has_objdump
from fuzzing import KINDS, NEED_A_COMPILER, NEED_A_DISASSEMBLER, NEED_NO_COMPILER, Judge, fuzz
from nursery import Ended, Nursery, usual_commands
from tables import each

SEED = 20_240_229
FEW = 3
"""Inputs of a kind that commands of this process are given."""

INPUTS = {
    "traces": 80,
    "results": 60,
    "conditions": 40,
    "programs": 40,
    "shards": 40,
    "fault maps": 30,
    "specs": 80,
    "options": 80,
    "plug-ins": 60,
    "tables": 60,
    "code objects": 40,
    "arguments": 15,
    "inputs": 15,
    "sources": 6,
    "runs of programs": 6,
    "modern code objects": 6,
}


@pytest.mark.parametrize("kind", NEED_NO_COMPILER)
def test_mutated_inputs_do_no_harm(kind, command, tmp_path):
    def run(arguments, folder, *_):
        with contextlib.chdir(folder):
            return Ended(*command(*arguments), seconds=0.0, peak_bytes=0)

    complaints = list(fuzz(SimpleNamespace(run=run), kind, SEED, range(FEW), tmp_path))
    assert not complaints, "\n".join(complaints)


@pytest.fixture(scope="module")
def server():
    with Nursery(usual_commands) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_mutated_inputs_do_no_harm(kind, server, tmp_path):
    """In processes, which may crash and take memory."""
    if (kind in NEED_A_COMPILER and not has_clang) or (
        kind in NEED_A_DISASSEMBLER and not has_objdump
    ):
        pytest.skip("needs clang-19, lld-19 and llvm-19")
    inputs = range(FEW, INPUTS.get(kind, 25))
    complaints = list(fuzz(server, kind, SEED, inputs, tmp_path))
    assert not complaints, "\n".join(complaints)


REFUSED = Ended(2, "", "error: no such thing\n", 0.1, 10**8)


@each(
    ("wrong", "word"),
    [
        ({"code": -11}, "signal 11"),
        ({"code": 1}, "exit code 1"),
        ({"seconds": 10.5}, "seconds"),
        ({"peak_bytes": 2 * 10**9}, "MB"),
        ({"stderr": ""}, "without a word"),
        ({"stderr": "error: a\nb\nc\n"}, "3 lines"),
        ({"stderr": "error: " + "x" * 2000}, "long"),
        ({"stderr": "error: \x1b[31m"}, "control"),
        ({"code": 0, "stdout": "\x1b]0;title\x07"}, "control"),
        ({"code": 0, "stderr": "This is a defect of mcage"}, "defect"),
        ({"stderr": "/mcage/a.py:3: UserWarning: no\n  x\nerror: so\n"}, "warning"),
    ],
)
def test_the_judge_sees_what_is_wrong(wrong, word, tmp_path):
    judge = Judge(tmp_path)
    assert judge.complaint(REFUSED) is None
    assert word in judge.complaint(replace(REFUSED, **wrong))


@each("name", ["theirs", "out/theirs"])
def test_the_judge_sees_what_is_touched(name, tmp_path):
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / name).write_text("precious")
    judge = Judge(tmp_path)
    (tmp_path / name).write_text("changed")
    assert name in judge.complaint(REFUSED)
    assert (judge.complaint(replace(REFUSED, code=0)) is None) is name.startswith("out")
