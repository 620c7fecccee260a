"""Killed at any moment: the same file in the end, nothing left behind, and no wait for shards."""

import hashlib
import os
import random
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name

import fake_campaign
import pytest
from nursery import Nursery, command, hear_signals, small_campaign, small_sweep
from sweep_cases import small_spec

from mcage.campaign.progress import Lines
from mcage.campaign.run import run_campaign
from mcage.campaign.shards import shard_folder
from mcage.campaign.study import Study
from mcage.cli.process import ending_on_signals
from mcage.files.atomic import whole_file

SIGNALS = {
    "KILL": [signal.SIGKILL],
    "TERM": [signal.SIGTERM],
    "INT": [signal.SIGINT],
    "INT twice": [signal.SIGINT, signal.SIGINT],
}
CODES = {"KILL": -signal.SIGKILL, "TERM": 128 + 15, "INT": 128 + 2, "INT twice": 128 + 2}
INSTANCES = 40
SECONDS = 60.0
"""Until what hangs is given up; no test takes so long."""

FOR_EVER = 1e6


@pytest.fixture(scope="module")
def nursery():
    with Nursery(small_campaign) as process:
        yield process


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Content of the file of a campaign that nobody kills."""
    study = fake_campaign.study(instances=INSTANCES)
    return run_campaign(study, tmp_path_factory.mktemp("whole") / "r.h5", 9).read_bytes()


def send(process, kind):
    for number in SIGNALS[kind]:
        process.signal(number)
        time.sleep(0.002 * (kind == "INT twice"))


def wait_until(has_come):
    until = time.monotonic() + SECONDS
    while not has_come():
        assert time.monotonic() < until
        time.sleep(0.002)


# ---- campaigns -------------------------------------------------------------------------------


def campaign(out, instances, shard_size, seconds, halt_at=sys.maxsize):
    """Run a campaign by the signal handlers of the command line.

    It prints the first instance of each shard, takes some seconds for it, and comes to no end with
    those from some instance on.
    """

    def compute(first, last):
        os.write(1, f"{first}\n".encode())
        time.sleep(FOR_EVER if last > halt_at else seconds)  # as little to be stopped as C code
        return fake_campaign.compute(first, last)

    hear_signals()
    with ending_on_signals():
        study = Study(fake_campaign.campaign(instances=instances), compute)
        run_campaign(study, Path(out), shard_size, Lines(sys.stderr))
        os._exit(0)


def assert_continued(nursery, out, whole, shard_size=5):
    """The same command comes to its end, and leaves its file alone."""
    process = nursery.start(campaign, out, INSTANCES, shard_size, 0.0)
    words = process.words.read()
    assert process.wait() == 0, words
    assert out.read_bytes() == whole
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("kind", CODES)
def test_killed_in_shards_that_take_for_ever(kind, nursery, whole, tmp_path):
    """None is waited for; finished ones are continued from. Killed before the first, and later.

    A second signal ends the process where it stands, perhaps before its folder is removed.
    """
    out, finished = tmp_path / "r.h5", 0
    for halt_at in (0, 18, 30):
        process = nursery.start(campaign, out, INSTANCES, 6, 0.0, halt_at)
        for line in process.words:
            if line == f"{halt_at}\n":
                break
        send(process, kind)
        words = process.words.read()
        assert process.wait() == CODES[kind]
        assert ("stopping" in words) is (kind != "KILL")
        shards = len([*shard_folder(out).glob("*.h5")])
        assert finished <= shards < 7
        assert halt_at or not shards
        if kind in ("TERM", "INT") and not halt_at:
            assert not list(tmp_path.iterdir())
        finished = shards
    assert_continued(nursery, out, whole)


@pytest.mark.slow
def test_killed_at_any_moment(nursery, whole, tmp_path):
    """Campaigns are killed until they get to their end; then the next one begins."""
    moments, kinds = random.Random(11), dict.fromkeys(CODES, 0)
    out = tmp_path / "r.h5"
    for _ in range(50):
        kind = min(kinds, key=kinds.__getitem__)
        process = nursery.start(campaign, out, INSTANCES, moments.choice([3, 6, 14]), 0.003)
        process.words.readline()
        time.sleep(moments.uniform(0, 0.08))
        send(process, kind)
        words = process.words.read()
        code = process.wait()
        assert code in (CODES[kind], 0), words
        assert not out.exists() or out.read_bytes() == whole
        kinds[kind] += code != 0
        if not code:
            assert list(tmp_path.iterdir()) == [out]
            out.unlink()
    assert all(kinds.values())
    assert_continued(nursery, out, whole)


def dying(out, moment):
    """Run a campaign that is killed before it gives its file its name, or after that."""
    whole, (owner, name) = Path(out), moment.rsplit(".", 1)
    original, out_is_there = resolve_name(moment), moment != "os.link"

    def has_come(path):
        written = "partial" in path and ".shards" not in path and Path(path).stat().st_size > 0
        return path.endswith(".shards") or (written and whole.exists() == out_is_there)

    def die(path, *arguments):
        if has_come(str(path)):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(path, *arguments)

    setattr(resolve_name(owner), name, die)
    fake_campaign.run(out, INSTANCES, 7)


@pytest.mark.parametrize("moment", ["os.link", "os.unlink", "pathlib.Path.rmdir"])
def test_killed_while_merging(moment, nursery, whole, tmp_path):
    """The moments that random kills seldom meet: before and after the file gets its name."""
    out = tmp_path / "r.h5"
    assert nursery.start(dying, out, moment).wait() == -9
    assert out.exists() == (moment != "os.link")
    assert_continued(nursery, out, whole)


# ---- signals ---------------------------------------------------------------------------------


@contextmanager
def in_foreground(folder="/"):
    os.chdir(folder)
    hear_signals()
    with ending_on_signals():
        print(flush=True)
        yield


def busy(folder):
    """Compute in compiled code for minutes."""
    with in_foreground(folder), whole_file(Path("r.h5")):
        hashlib.pbkdf2_hmac("sha256", b"", b"", 400_000_000)
        print("the compiled code was waited for")


@pytest.mark.parametrize("kind", ["INT", "TERM", "INT twice"])
def test_a_main_thread_that_hears_nothing(kind, nursery, tmp_path):
    """Within compiled code, Python's handlers wait: the word and the end come all the same."""
    process = nursery.start(busy, tmp_path)
    process.words.readline()
    wait_until(lambda: len(list(tmp_path.iterdir())) == 1)
    process.signal(SIGNALS[kind][0])
    assert "stopping" in process.words.readline()
    if kind == "INT twice":
        process.signal(signal.SIGINT)
    words = process.words.read()
    assert process.wait() == CODES[kind]
    assert "waited for" not in words
    assert not list(tmp_path.iterdir())


def ignoring():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ending_on_signals():
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def leaving_handlers_as_they_were():
    def state():
        return [*map(signal.getsignal, (2, 15, 1))], threading.active_count()

    before = state()
    with ending_on_signals():
        assert state() != before
    assert state() == before
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.parametrize("function", [ignoring, leaving_handlers_as_they_were])
def test_handlers_are_there_for_the_command_line_only(function, nursery):
    """And signals that are ignored stay so."""
    process = nursery.start(function)
    assert process.words.read() == ""
    assert process.wait() == 0


class _Dropped:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def dropping():
    with in_foreground():
        _Dropped()
        time.sleep(FOR_EVER)


def test_an_interrupt_that_python_drops(nursery):
    """Python goes on after an exception in `__del__`; the process ends all the same."""
    process = nursery.start(dropping)
    words = process.words.read()
    assert process.wait() == 130
    assert words == "\ninterrupted: stopping (Ctrl-C once more stops at once)\n"


def calling_the_library(folder):
    def compute(first, last):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(FOR_EVER)

    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run_campaign(Study(fake_campaign.CAMPAIGN, compute), Path("r.h5"), 50)
    except KeyboardInterrupt:
        print(os.listdir(), flush=True)
    os._exit(0)


def test_a_library_gets_its_exception_at_once(nursery, tmp_path):
    """Whoever calls `run_campaign` gets KeyboardInterrupt, and waits for no shard."""
    process = nursery.start(calling_the_library, tmp_path)
    assert process.words.read() == "[]\n"
    assert process.wait() == 0


@pytest.mark.slow
def test_a_sweep_is_interrupted_and_continued(tmp_path):
    """Its children know mcage's commands and have the machine code of loops."""
    spec, out = tmp_path / "spec.toml", tmp_path / "r.h5"
    spec.write_text(small_spec(instances=60, techniques=["baseline", "rrcd"]).to_toml())
    line = ["sweep", spec, "--engine", "numba", "--shard-size", 1, "--out"]
    with Nursery(small_sweep) as commands:
        process = commands.start(command, tmp_path, "", *line, out)
        wait_until(lambda: [*shard_folder(out).glob("*.h5")])
        process.signal(signal.SIGINT)
        words = process.words.read()
        assert process.wait() in (CODES["INT"], 0), words
        assert "interrupted: stopping" in words
        for name in (out, tmp_path / "untouched.h5"):
            process = commands.start(command, tmp_path, "", *line, name)
            assert f"{name}" in process.words.read()
            assert process.wait() == 0
    assert out.read_bytes() == (tmp_path / "untouched.h5").read_bytes()
    assert not shard_folder(out).exists()
