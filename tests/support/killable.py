"""Campaigns that can be killed: one process forks them, so that none waits for its imports.

For each line of standard input, ``OUT INSTANCES SHARD_SIZE SECONDS_PER_SHARD``, a campaign runs in
a child with the signal handlers of the command line. Its words go to ``OUT.log``. Standard output
gets a line with its process id once it has begun, and one with its exit status at the end.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fake_campaign

from mcage.campaign.progress.lines import Lines
from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.cli.signals import ending_on_signals
from mcage.files import plain_hdf5
from mcage.results import verified_file

SIGNALS = {
    "KILL": [signal.SIGKILL],
    "TERM": [signal.SIGTERM],
    "INT": [signal.SIGINT],
    "INT twice": [signal.SIGINT, signal.SIGINT],
}
CODES = {"KILL": -signal.SIGKILL, "TERM": 128 + 15, "INT": 128 + 2, "INT twice": 128 + 2}
SECONDS_BETWEEN_TWO = 0.002


class Nursery:
    """The process of campaigns, seen from a test."""

    def __init__(self):
        line = [sys.executable, __file__]
        path = os.pathsep.join(sys.path)
        self._process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )

    def run(self, out, instances, shard_size, seconds_per_shard=0.0, kill=None, after=0.0):
        """Run a campaign; send it signals some time after it has begun.

        Returns its exit status, and the seconds from the signals to its end.
        """
        print(out, instances, shard_size, seconds_per_shard, file=self._process.stdin, flush=True)
        child = int(self._process.stdout.readline())
        if kill:
            time.sleep(after)
            for number in SIGNALS[kill]:
                os.kill(child, number)  # ended or not, it has not been waited for
                time.sleep(SECONDS_BETWEEN_TWO)
        begin = time.monotonic()
        print(file=self._process.stdin, flush=True)
        status = os.waitstatus_to_exitcode(int(self._process.stdout.readline()))
        return status, time.monotonic() - begin

    def close(self):
        self._process.stdin.close()
        self._process.wait()


class ReadHere:
    """Stands in for a file that another process reads: each campaign would start one of its own."""

    def __init__(self, path: Path, _: int) -> None:
        self._path = path

    def look_through(self) -> dict:
        return plain_hdf5.look_through(os.fspath(self._path))


def main() -> None:
    verified_file.ForeignFile = ReadHere
    while line := sys.stdin.readline():
        *name, instances, shard_size, seconds = line.split(" ")
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            campaign(Path(" ".join(name)), int(instances), int(shard_size), float(seconds), writer)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        print(child, flush=True)
        sys.stdin.readline()  # until then, its number is not given to another process
        print(os.waitpid(child, 0)[1], flush=True)


def hear_signals() -> None:
    """Make signals do what they do for a program in the foreground.

    Tests that run in the background have been told to ignore Ctrl-C, and so have their children.
    """
    for numbers in SIGNALS.values():
        if numbers[0] != signal.SIGKILL:
            signal.signal(numbers[0], signal.SIG_DFL)


def campaign(out: Path, instances: int, shard_size: int, seconds: float, begun: int) -> None:
    os.dup2(os.open(f"{out}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 2)

    def compute(first, last):
        time.sleep(seconds)  # in a thread: as little to be stopped as compiled code
        return fake_campaign.compute(first, last)

    hear_signals()
    with ending_on_signals():
        os.write(begun, b".")
        whole = fake_campaign.campaign(instances=instances)
        run_campaign(Study(whole, compute), out, shard_size, Lines(sys.stderr))
        os._exit(0)


if __name__ == "__main__":
    main()
