"""Whatever call of the system fails, no file is accepted that is wrong, and a campaign recovers.

Every call of every kind is tried by `scripts/validation/check_failing_calls.py`.
"""

import errno

import pytest
from failing_calls import ERRORS, KINDS, OUT, Failure, library, nursery_with, run
from host_gpu.compiler import host_compiler, needs_host_compiler

from mcage.results.reader import open_results

pytestmark = needs_host_compiler


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    with nursery_with(library(tmp_path_factory.mktemp("shim"), host_compiler())) as nursery:
        yield nursery


@pytest.fixture(scope="module")
def whole(nursery, tmp_path_factory):
    """The file of a campaign without failures, and how many calls it makes."""
    folder = tmp_path_factory.mktemp("whole")
    outcome = run(nursery, folder)
    assert outcome.code == 0
    assert all(outcome.calls[kind] for kind in KINDS)
    return (folder / OUT).read_bytes(), outcome.calls


def check(nursery, whole, folder, failure):
    """Fail, look at what is there, and let the same command go on, in an empty folder."""
    folder.mkdir()
    out = folder / OUT
    outcome = run(nursery, folder, failure)
    assert outcome.code in (0, 2), outcome.words
    assert outcome.code == 0 or outcome.words[-1].startswith("error: ")
    assert not out.exists() or out.read_bytes() == whole
    assert outcome.code == 2 or out.exists()
    again = run(nursery, folder)
    assert again.code == 0, again.words
    assert out.read_bytes() == whole
    return outcome


def calls_to_try(calls):
    """The first and the last call."""
    return sorted({1, calls})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("memory", "remove")])
def test_every_kind_of_call(nursery, whole, tmp_path, kind):
    content, calls = whole
    refused = 0
    for place, call in enumerate(calls_to_try(calls[kind])):
        answers = ERRORS[kind]
        failure = Failure(kind, call, answers[place % len(answers)], place % 2 == 0)
        folder = tmp_path / str(call)
        refused += check(nursery, content, folder, failure).code == 2
        assert [path.name for path in folder.iterdir()] == [OUT], failure
    assert refused


def test_the_disk_is_full_from_some_byte_on(nursery, whole, tmp_path):
    """The last write is taken in part, and nothing fits any more until somebody makes room."""
    content, calls = whole
    for call in (calls["write"] // 3, calls["write"] - 2):
        failure = Failure("write", call, errno.ENOSPC, True)
        outcome = check(nursery, content, tmp_path / str(call), failure)
        assert "No space left on device" in outcome.words[-1]


def test_what_cannot_be_removed_stays_and_harms_nothing(nursery, whole, tmp_path):
    content, calls = whole
    for call in calls_to_try(calls["remove"]):
        failure = Failure("remove", call, errno.EACCES, True)
        check(nursery, content, tmp_path / str(call), failure)


def test_memory_runs_out(nursery, whole, tmp_path):
    """The process ends as it likes; a chunk for whose compression there was no memory is plain."""
    content, calls = whole
    right = tmp_path / "right.h5"
    right.write_bytes(content)
    for call in calls_to_try(calls["memory"]):
        folder = tmp_path / str(call)
        folder.mkdir()
        run(nursery, folder, Failure("memory", call, errno.ENOMEM))
        if (folder / OUT).exists():
            assert equal(folder / OUT, right)
        assert run(nursery, folder).code == 0
        assert equal(folder / OUT, right)


def equal(path, other):
    """Whether two results files hold the same, both with the right checksum."""
    with open_results(path) as ours, open_results(other) as theirs:
        return ours.identical(theirs)
