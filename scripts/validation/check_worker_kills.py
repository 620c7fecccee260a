"""Kill workers and clients at random; does every file come out as if nothing had been killed?

    check_worker_kills.py --kills 200

Two studies, register files and GPUs, are computed by processes of this machine and by Dask
workers. At random moments a worker or the command itself is killed by SIGKILL; then the command is
given again, until its file is there, and the next campaign begins. Fails if a file differs from
that of a run in threads that nobody kills, if anything is left behind, or if workers outlive the
command by more than some seconds.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

COMMAND = [sys.executable, "-c", "from mcage.cli.main import main; main()"]
SWEEP = "sweep --engine numba --kernel MatrixTranspose --technique baseline --technique rrcd"
GPUS = "gpu gating --policy default --policy round-robin --policy coolest-first"
STUDIES = {
    "register files": f"{SWEEP} --instances 1200 --shard-size 40",
    "GPUs": f"{GPUS} --instances 24000 --shard-size 500",
}
SHARE_OF_CLIENTS = 0.25
SECONDS_TO_FOLLOW = 20.0
ENDS_OF_KILLS = (
    "workers have died with instances",
    "workers have died while they prepared",
)
"""Words of a command that gives up, because too many of its workers have been killed."""


@dataclass
class Campaign:
    """A command that is killed and given again.

    Parameters
    ----------
    command : list of str
        The command; it computes into `out`.
    out : Path
        Results file, in a folder of its own.
    whole : bytes
        Content of the file of a run that nobody kills.
    moments : random.Random
        Draws moments and victims.
    longest : float
        Seconds until a kill at most.
    """

    command: list[str]
    out: Path
    whole: bytes
    moments: random.Random
    longest: float
    kills: Counter[str] = field(default_factory=Counter)
    files: int = 0

    def survive(self, kills: int) -> None:
        """Kill so often, then let the command come to its end."""
        while self.kills.total() < kills:
            self.run(kills)
        while not self.run(0):
            pass

    def run(self, kills: int) -> bool:
        """Run the command until it ends or so many have been killed in all; whether it ended."""
        log = self.out.with_name("log")
        with log.open("w") as words:
            process = subprocess.Popen(
                self.command, cwd=self.out.parent, stdout=words, stderr=words
            )
            while process.poll() is None:
                try:
                    process.wait(self.moments.uniform(0.2, self.longest))
                except subprocess.TimeoutExpired:
                    if self.kills.total() < kills:
                        self.kill(process)
        text = log.read_text()
        log.unlink()
        if process.returncode == 0:
            self.complete()
            return True
        gave_up = process.returncode == 2 and any(words in text for words in ENDS_OF_KILLS)
        if process.returncode != -signal.SIGKILL and not gave_up:
            sys.exit(f"ended with {process.returncode}: {text}")
        if self.out.exists() and self.out.read_bytes() != self.whole:
            sys.exit("a killed campaign has another file")
        return False

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """Kill the command or, mostly, a worker of it."""
        workers = workers_of(process.pid)
        if not workers or self.moments.random() < SHARE_OF_CLIENTS:
            process.kill()
            process.wait()
            self.kills["client"] += 1
            _, alive = psutil.wait_procs(workers, SECONDS_TO_FOLLOW)
            if alive:
                sys.exit(f"workers have outlived their client: {alive}")
            return
        try:
            self.moments.choice(workers).send_signal(signal.SIGKILL)
            self.kills["worker"] += 1
        except psutil.NoSuchProcess:
            pass

    def complete(self) -> None:
        """Compare the file, and look for what was left beside it."""
        if self.out.read_bytes() != self.whole:
            sys.exit("a killed campaign has another file")
        left = [path.name for path in self.out.parent.iterdir() if path != self.out]
        if left:
            sys.exit(f"left behind: {left}")
        self.out.unlink()
        self.files += 1


def workers_of(pid: int) -> list[psutil.Process]:
    """Processes that compute for this one, by what they have been started as."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    workers = []
    for child in children:
        try:
            line = " ".join(child.cmdline())
        except psutil.Error:
            continue
        if "mcage.campaign.processes" in line or "spawn_main" in line:
            workers.append(child)
    return workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--longest", type=float, default=6.0, help="seconds until a kill")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    each = -(-options.kills // len(STUDIES))
    with tempfile.TemporaryDirectory() as folder:
        for study, arguments in STUDIES.items():
            here = Path(folder) / study
            here.mkdir()
            line = [*COMMAND, *arguments.split(), "--out"]
            whole = here / "whole.h5"
            subprocess.run([*line, whole], check=True, capture_output=True)
            content = whole.read_bytes()
            whole.unlink()
            out = here / "killed.h5"
            campaign = Campaign(
                [*line, os.fspath(out), "--processes", "2"],
                out,
                content,
                random.Random(f"{options.seed} {study}"),
                options.longest,
            )
            campaign.survive(each)
            print(
                f"{study:<14} {campaign.kills['worker']:>3} workers and "
                f"{campaign.kills['client']:>3} clients killed; {campaign.files} files, all the "
                "same as of a run that nobody kills",
                flush=True,
            )


if __name__ == "__main__":
    main()
