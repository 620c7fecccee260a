"""Does mcage stay a good citizen whatever it is given?

Hundreds of mutated inputs, each to a command of its own: it may do its work or refuse, in a line
or two and with exit code 2; it may not crash, hang, take memory without end, call itself
defective, or touch a file that is not its output. `scripts/validation/fuzz.py` tries many more.
"""

import pytest
from commands import CommandServer
from fuzzing import KINDS, Judge, fuzz

SEED = 20_240_229
INPUTS = {
    "trace bytes": 50,
    "trace structure": 50,
    "results": 50,
    "conditions": 40,
    "programs": 40,
    "shards": 40,
    "fault maps": 40,
    "specs": 100,
    "options": 100,
    "plug-ins": 70,
    "tables": 60,
}


def test_every_kind_of_input_is_tried():
    assert set(INPUTS) == set(KINDS)
    assert sum(INPUTS.values()) == 640


@pytest.fixture(scope="module")
def server():
    with CommandServer() as server:
        yield server


@pytest.mark.parametrize("kind", INPUTS)
def test_mutated_inputs_do_no_harm(kind, server, tmp_path):
    complaints = list(fuzz(server, kind, SEED, range(INPUTS[kind]), tmp_path))
    assert not complaints, "\n".join(complaints)


def test_the_judge_sees_what_is_wrong(tmp_path):
    """Each complaint is made once by a command that deserves it."""
    from commands import Ended

    (tmp_path / "theirs").write_text("precious")
    judge = Judge(tmp_path)
    good = Ended(2, "", "error: no such thing\n", 0.1, 10**8)
    assert judge.complaint(good) is None
    for bad, word in (
        (Ended(-11, "", "", 0.1, 0), "signal 11"),
        (Ended(1, "", "internal error", 0.1, 0), "exit code 1"),
        (Ended(0, "", "", 10.5, 0), "seconds"),
        (Ended(0, "", "", 0.1, 2 * 10**9), "MB"),
        (Ended(2, "", "", 0.1, 0), "without a word"),
        (Ended(2, "", "error: a\nb\nc\n", 0.1, 0), "3 lines"),
        (Ended(2, "", "error: " + "x" * 2000, 0.1, 0), "long"),
        (Ended(2, "", "error: \x1b[31m", 0.1, 0), "control"),
        (Ended(0, "\x1b]0;title\x07", "", 0.1, 0), "control"),
        (Ended(0, "", "This is a defect of mcage", 0.1, 0), "defect"),
    ):
        complaint = judge.complaint(bad)
        assert complaint
        assert word in complaint
    (tmp_path / "theirs").write_text("changed")
    assert "theirs" in (judge.complaint(good) or "")
