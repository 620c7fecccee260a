"""Time and memory of a campaign as a whole process, start-up and files included.

    python scripts/benchmarks/bench_sweep.py [--command "gpu gating"] [instances ...]

By default the campaign is the default sweep.

Prints wall-clock time, processor time, peak memory and the cost of one more instance.
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("instances", type=int, nargs="*", default=[100, 1000, 10_000])
    parser.add_argument("--command", default="sweep", help="of mcage, with options (sweep)")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{platform.processor() or platform.machine()}, {cores} cores, {platform.platform()}")
    previous = None
    for instances in given.instances:
        wall, processor, peak_mb = _run(given.command.split(), instances)
        line = f"{instances:8} instances: {wall:7.1f} s wall, {processor:7.1f} s processor, "
        line += f"{peak_mb:6.0f} MB"
        if previous:
            more = (wall - previous[1]) / (instances - previous[0])
            line += f", {1e3 * more:.1f} ms per further instance"
        print(line, flush=True)
        previous = (instances, wall)


def _run(arguments: list[str], instances: int) -> tuple[float, float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "from mcage.cli.main import main; main()"]
        command += [
            *arguments,
            "--instances",
            str(instances),
            "--out",
            str(Path(folder) / "sweep.h5"),
        ]
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, processor, after.ru_maxrss / 1e3


if __name__ == "__main__":
    main()
