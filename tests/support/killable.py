"""Campaigns and commands to kill: a process forks them, so that none waits for its imports."""

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from pkgutil import resolve_name

import darts
import fake_campaign

from mcage.campaign.progress import Lines
from mcage.campaign.run import Part, run_campaign
from mcage.campaign.study import Study
from mcage.cli.process import ending_on_signals
from mcage.files import plain_hdf5
from mcage.results import reader

SIGNALS = {
    "KILL": [signal.SIGKILL],
    "TERM": [signal.SIGTERM],
    "INT": [signal.SIGINT],
    "INT twice": [signal.SIGINT, signal.SIGINT],
}
CODES = {"KILL": -signal.SIGKILL, "TERM": 128 + 15, "INT": 128 + 2, "INT twice": 128 + 2}
SECONDS_BETWEEN_TWO = 0.002
DARTS = 60
MOST_BYTES = 1 << 16
"""Of a request or an answer of the nursery: JSON over a socket."""


class Nursery:
    """The process of campaigns, seen from a test; one that runs for as long as a block.

    Parameters
    ----------
    *ready : function
        Of modules, without arguments. They are called first: what they load, no child loads again.
    """

    def __init__(self, *ready):
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *map(name_of, ready)],
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()
        self._process.wait()

    def start(self, function, *arguments):
        """Call a function of a module in a child, and give that child."""
        reader, writer = os.pipe()
        request = {"name": name_of(function), "arguments": [*arguments]}
        socket.send_fds(self._socket, [json.dumps(request, default=os.fspath).encode()], [writer])
        os.close(writer)
        return Child(self, json.loads(self._socket.recv(MOST_BYTES)), os.fdopen(reader))

    def wait(self, pid):
        """Exit status of a child, once it has ended."""
        self._socket.sendall(json.dumps({"pid": pid}).encode())
        return os.waitstatus_to_exitcode(json.loads(self._socket.recv(MOST_BYTES)))

    def run(self, out, instances, shard_size, seconds_per_shard=0.0, kill=None, after=0.0):
        """Run a campaign; send it signals some time after it has begun.

        Returns its exit status, and the seconds from the signals to its end.
        """
        child = self.start(campaign, out, instances, shard_size, seconds_per_shard)
        child.words.readline()
        if kill:
            time.sleep(after)
            for number in SIGNALS[kill]:
                os.kill(child.pid, number)  # ended or not, it has not been waited for
                time.sleep(SECONDS_BETWEEN_TWO)
        begin = time.monotonic()
        return child.wait(), time.monotonic() - begin


def name_of(function):
    return f"{function.__module__}:{function.__qualname__}"


class Child:
    """A process of the nursery: its number, and what it prints on either stream."""

    def __init__(self, nursery, pid, words):
        self._nursery, self.pid, self.words = nursery, pid, words

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def wait(self):
        """Exit status; until then, the number is not given to another process."""
        status = self._nursery.wait(self.pid)
        self.words.close()
        return status


class ReadHere:
    """Stands in for a file that another process reads: each campaign would start one of its own."""

    def __init__(self, path: Path, _: int) -> None:
        self._path = path

    def look_through(self) -> dict:
        return plain_hdf5.look_through(os.fspath(self._path))


def main() -> None:
    """Serve requests until the other end of the socket is closed."""
    descriptor, *ready = sys.argv[1:]
    for name in ready:
        resolve_name(name)()
    reader.ForeignFile = ReadHere
    with tempfile.TemporaryDirectory() as folder:  # children import nothing any more
        study = Study(fake_campaign.campaign(instances=2), fake_campaign.compute)
        run_campaign(study, Path(folder, "r.h5"), 1)
    with socket.socket(fileno=int(descriptor)) as server:
        while True:
            message, descriptors, *_ = socket.recv_fds(server, MOST_BYTES, 1)
            if not message:
                return
            server.sendall(json.dumps(_answer(json.loads(message), *descriptors)).encode())


def _answer(request, printed=None):
    """Status of a child that has ended, or the number of a new one."""
    if printed is None:
        return os.waitpid(request["pid"], 0)[1]
    child = os.fork()
    if not child:
        _call(request, printed)
    os.close(printed)
    return child


def _call(request, printed):
    for stream in (1, 2):
        os.dup2(printed, stream)
    os.close(printed)
    try:
        resolve_name(request["name"])(*request["arguments"])
        os._exit(0)
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code or 0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def hear_signals() -> None:
    """Make signals do what they do for a program in the foreground.

    Tests that run in the background have been told to ignore Ctrl-C, and so have their children.
    """
    for numbers in SIGNALS.values():
        if numbers[0] != signal.SIGKILL:
            signal.signal(numbers[0], signal.SIG_DFL)


def small_sweep() -> None:
    """Run one with the numba engine by its command, so that its machine code is loaded."""
    from sweep_cases import small_spec

    spec = small_spec(instances=2, techniques=["baseline", "rrcd"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "spec.toml")
        path.write_text(spec.to_toml())
        with (
            contextlib.suppress(SystemExit),
            contextlib.chdir(folder),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            command(folder, "sweep", path, "--engine", "numba", "--out", "r.h5")


def command(folder: str, *words: str) -> None:
    """Run ``mcage WORDS`` in a folder, as a program in the foreground."""
    from mcage.cli.main import main as command_line

    os.chdir(folder)
    hear_signals()
    sys.argv = ["mcage", *map(str, words)]
    command_line()


def campaign(out: str, instances: int, shard_size: int, seconds: float) -> None:
    """With the signal handlers of the command line; its words go to ``OUT.log``."""
    os.dup2(os.open(f"{out}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 2)

    def compute(first, last):
        time.sleep(seconds)  # in a thread: as little to be stopped as compiled code
        return fake_campaign.compute(first, last)

    hear_signals()
    with ending_on_signals():
        print(flush=True)
        whole = fake_campaign.campaign(instances=instances)
        run_campaign(Study(whole, compute), Path(out), shard_size, Lines(sys.stderr))
        os._exit(0)


def dying(out: str, instances: int, shard_size: int, moment: str) -> None:
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
    fake_campaign.run(out, instances, shard_size)


def job_of_darts(out: str, part: str) -> None:
    """Compute a part of a campaign, ``K/N``, of as many instances as `DARTS`."""
    run_campaign(
        darts.pi_by_darts(DARTS, seconds_per_shard=0.05), Path(out), 3, part=Part.parse(part)
    )


if __name__ == "__main__":
    main()
