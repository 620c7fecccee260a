"""Fifty kills at random moments: the same file, nothing left behind, an end within seconds."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import fake_campaign
import pytest
from killable import CODES, SIGNALS, Nursery, command, hear_signals, small_sweep
from sweep_cases import small_spec

from mcage.campaign.run import run_campaign
from mcage.campaign.shards import NAME, shard_folder
from mcage.campaign.study import Study

KILLS = 44
MOST_CAMPAIGNS = 200
KILLS_OF_REAL_SWEEPS = 4
SECONDS_TO_THE_PROMPT, SECONDS_TO_BEGIN = 2.0, 60.0
INSTANCES = 40


@pytest.fixture(scope="module")
def nursery():
    with Nursery() as process:
        yield process


@pytest.fixture(scope="module")
def commands():
    """Whose children know mcage's commands and have the machine code of loops."""
    with Nursery(small_sweep) as process:
        yield process


def test_kills_at_any_moment(nursery, tmp_path):
    """Campaigns are killed until they get to their end; then the next one begins."""
    campaign = fake_campaign.campaign(instances=INSTANCES)
    whole = run_campaign(
        Study(campaign, fake_campaign.compute), tmp_path / "whole.h5", 9
    ).read_bytes()
    moments = random.Random(11)
    kills, waits = dict.fromkeys(CODES, 0), []
    here = tmp_path / "killed"
    here.mkdir()
    out, log = here / "r.h5", here / "r.h5.log"
    begin = time.monotonic()
    assert nursery.run(out, INSTANCES, 6, 0.003)[0] == 0
    usual_seconds = time.monotonic() - begin  # so that kills fall into all of it
    out.unlink()
    for _ in range(MOST_CAMPAIGNS):
        if sum(kills.values()) == KILLS:
            break
        kind = min(kills, key=kills.__getitem__)
        after = moments.uniform(0, usual_seconds)
        size = moments.choice([3, 6, 14])
        status, seconds = nursery.run(out, INSTANCES, size, 0.003, kind, after)
        if status:
            assert status == CODES[kind], log.read_text()
            kills[kind] += 1
            waits.append(seconds)
            if kind != "KILL":
                assert "stopping" in log.read_text()
        assert not out.exists() or out.read_bytes() == whole
        if not status:
            assert out.read_bytes() == whole
            assert set(here.iterdir()) == {out, log}
            out.unlink()
            usual_seconds *= 0.9  # the machine has less to do than it had
    assert sum(kills.values()) == KILLS, "too many campaigns got to their end"
    assert max(waits) < SECONDS_TO_THE_PROMPT
    status, _ = nursery.run(out, INSTANCES, 5)
    assert status == 0, log.read_text()
    assert out.read_bytes() == whole
    assert set(here.iterdir()) == {out, log}


@pytest.mark.parametrize("kind", ["INT", "TERM", "INT twice"])
def test_shards_in_flight_are_dropped(kind, nursery, tmp_path):
    """Shards of half a minute, of which none is waited for.

    A second signal ends the process where it stands, perhaps before its folder is removed.
    """
    out, log, folder = (tmp_path / name for name in ("r.h5", "r.h5.log", "r.h5.shards"))
    status, seconds = nursery.run(out, INSTANCES, 6, 30.0, kind, 0.2)
    assert status == CODES[kind]
    assert seconds < SECONDS_TO_THE_PROMPT
    left = set(tmp_path.iterdir())
    assert left == {log} or (kind == "INT twice" and left == {log, folder})
    assert not list(folder.glob("*.h5"))


def start(script, *arguments, **options):
    line = [sys.executable, "-c", script, *map(os.fspath, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(line, text=True, preexec_fn=hear_signals, **pipes, **options)


BUSY = """
import hashlib, sys
from pathlib import Path
from mcage.cli.process import ending_on_signals
from mcage.files.atomic import whole_file
with ending_on_signals(), whole_file(Path("r.h5")) as stream:
    print(flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 200_000_000)
"""


@pytest.mark.parametrize("kind", ["INT", "TERM", "INT twice"])
def test_a_main_thread_that_hears_nothing(kind, tmp_path):
    """Within compiled code, Python's handlers wait: the word and the end come all the same."""
    process = start(BUSY, cwd=tmp_path)
    process.stdout.readline()
    assert len(list(tmp_path.iterdir())) == 1
    number = signal.SIGTERM if kind == "TERM" else signal.SIGINT
    begin = time.monotonic()
    process.send_signal(number)
    word = process.stderr.readline()
    assert "stopping" in word
    seconds_to_word = time.monotonic() - begin
    if kind == "INT twice":
        process.send_signal(number)
    process.wait()
    assert seconds_to_word < 0.5
    assert time.monotonic() - begin < (0.8 if kind == "INT twice" else SECONDS_TO_THE_PROMPT)
    assert process.returncode == CODES[kind]
    assert not list(tmp_path.iterdir())


def test_signals_that_are_ignored_stay_so(tmp_path):
    script = (
        "import signal\n"
        "from mcage.cli.process import ending_on_signals\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "with ending_on_signals():\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)\n"
    )
    assert start(script).communicate()[0] == "True\n"


def test_handlers_are_there_for_the_command_line_only():
    script = (
        "import signal, threading\n"
        "from mcage.cli.process import ending_on_signals\n"
        "def state():\n"
        "    return [*map(signal.getsignal, (2, 15, 1))], threading.active_count()\n"
        "before = state()\n"
        "with ending_on_signals():\n"
        "    assert state() != before\n"
        "print(state() == before, signal.set_wakeup_fd(-1))\n"
    )
    assert start(script).communicate()[0] == "True -1\n"


DROPPED = """
import signal, time
from mcage.cli.process import ending_on_signals
class Dropped:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
with ending_on_signals():
    Dropped()
    time.sleep(30)
"""


def test_an_interrupt_that_python_drops():
    """Python goes on after an exception in `__del__`; the process ends all the same."""
    process = start(DROPPED)
    begin = time.monotonic()
    _, words = process.communicate()
    assert time.monotonic() - begin < 10
    assert process.returncode == 130
    assert words == "interrupted: stopping (Ctrl-C once more stops at once)\n"


def test_a_library_gets_its_exception_at_once(tmp_path):
    """Whoever calls `run_campaign` gets KeyboardInterrupt, and waits for no shard."""
    script = (
        "import sys, threading, time, signal, os\n"
        "from pathlib import Path\n"
        "import fake_campaign\n"
        "from mcage.campaign.run import run_campaign\n"
        "from mcage.campaign.study import Study\n"
        "def compute(first, last):\n"
        "    time.sleep(30)\n"
        "threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()\n"
        "begin = time.monotonic()\n"
        "try:\n"
        "    run_campaign(Study(fake_campaign.CAMPAIGN, compute), Path('r.h5'), 5)\n"
        "except KeyboardInterrupt:\n"
        "    print(time.monotonic() - begin < 2, os.listdir(), flush=True)\n"
        "os._exit(0)\n"
    )
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = start(script, cwd=tmp_path, env=os.environ | path)
    assert process.communicate()[0] == "True []\n"


# ---- the command itself ----------------------------------------------------------------------


class RealSweep:
    """`mcage sweep` over three short kernels, as a child that knows its machine code."""

    def __init__(self, commands, folder):
        self._commands, self._spec = commands, folder / "spec.toml"
        spec = small_spec(instances=12, techniques=["baseline", "rrcd"])
        self._spec.write_text(spec.to_toml())
        begin = time.monotonic()
        untouched = self.start(folder / "untouched.h5", 2)
        assert "untouched.h5" in untouched.words.read()
        assert untouched.wait() == 0
        self.usual_seconds = time.monotonic() - begin
        self.whole = (folder / "untouched.h5").read_bytes()

    def start(self, out, shard_size):
        line = ("sweep", self._spec, "--engine", "numba", "--shard-size", shard_size, "--out", out)
        return self._commands.start(command, out.parent, *line)


@pytest.fixture(scope="module")
def real_sweep(commands, tmp_path_factory):
    return RealSweep(commands, tmp_path_factory.mktemp("sweep"))


def test_kills_of_real_sweeps(real_sweep, tmp_path):
    """Killed while they start, prepare and compute."""
    moments = random.Random(12)
    out = tmp_path / "r.h5"
    kinds = list(CODES)
    for number in range(KILLS_OF_REAL_SWEEPS):
        kind = kinds[number % len(kinds)]
        process = real_sweep.start(out, 2)
        folder, until = shard_folder(out), time.monotonic() + SECONDS_TO_BEGIN
        while not folder.exists() and not out.exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(moments.uniform(0, real_sweep.usual_seconds / 3))
        begin = time.monotonic()
        for number in SIGNALS[kind]:
            os.kill(process.pid, number)  # ended or not, it has not been waited for
            time.sleep(0.01)
        words = process.words.read()
        status = process.wait()
        assert time.monotonic() - begin < SECONDS_TO_THE_PROMPT
        assert status in (CODES[kind], 0), words
        assert "Traceback" not in words
        if status and kind != "KILL":
            assert "stopping" in words
        assert not out.exists() or out.read_bytes() == real_sweep.whole
    last = real_sweep.start(out, 2)
    words = last.words.read()
    assert last.wait() == 0, words
    assert out.read_bytes() == real_sweep.whole
    assert list(tmp_path.iterdir()) == [out]


def test_killed_among_its_shards_and_continued(real_sweep, tmp_path):
    """Kill -9 once shards are there, then let another run finish.

    What is whole on a bench is kept as well as what has been taken from it.
    """
    out = tmp_path / "r.h5"
    process = real_sweep.start(out, 1)
    until = time.monotonic() + SECONDS_TO_BEGIN
    while not list(shard_folder(out).glob("*.h5")) and time.monotonic() < until:
        time.sleep(0.002)
    time.sleep(random.Random(7).uniform(0, real_sweep.usual_seconds / 20))
    process.kill()
    assert process.wait() == -signal.SIGKILL
    kept = [path for path in shard_folder(out).rglob("*.h5") if NAME.fullmatch(path.name)]
    assert not out.exists()
    assert 0 < len(kept) < 12
    continued = real_sweep.start(out, 4)
    words = continued.words.read()
    assert continued.wait() == 0, words
    assert f"continuing: {len(kept)} of 12 instances" in words
    assert out.read_bytes() == real_sweep.whole
    assert list(tmp_path.iterdir()) == [out]


def wait_for_handlers(pid):
    """Return when a command hears SIGTERM; where the system does not tell, after a while."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        time.sleep(3.0)
        return
    heard = 0
    while not heard >> signal.SIGTERM - 1 & 1:
        time.sleep(0.01)
        heard = int(status.read_text().split("SigCgt:")[1].split()[0], 16)


@pytest.mark.parametrize(
    ("line", "files"),
    [
        (("rare", "--technique", "rrcd", "--vdd", "0.45", "--age", "3"), set()),
        (("sensitivity", "--technique", "rrcd", "--of", "rmst", "--out", "s.csv"), set()),
        (("reproduce",), set()),
    ],
)
def test_other_long_commands_end_as_soon(line, files, commands, tmp_path):
    process = commands.start(command, tmp_path, *line)
    wait_for_handlers(process.pid)
    time.sleep(0.7)
    begin = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    words = process.words.read()
    assert process.wait() == 130, words  # it was still at work
    assert time.monotonic() - begin < SECONDS_TO_THE_PROMPT
    assert "interrupted: stopping" in words
    assert "Traceback" not in words
    assert set(tmp_path.iterdir()) == files
