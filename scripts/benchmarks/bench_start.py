"""Time from the start of a sweep to its first finished instance, step by step.

    python scripts/benchmarks/bench_start.py [--first] [--json]

The default sweep, all eight cases, three times in a process of its own: the first compiles what
is not compiled yet (with ``--first`` all, in a copy of the package), the second finds machine code,
the third also what is kept on disk of replays. Prints processor time of each step, and wall-clock
time until the first instance is finished, in seconds.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import mcage
from mcage.version import kernels_of

STEPS = """
import json, time, sys

steps = {}
def done(step):
    steps[step] = time.process_time() - sum(steps.values())
done("interpreter")
import mcage.cli.app, mcage.studies.sweep.study, mcage.studies.sweep.compile_beside
from mcage.studies.sweep.compile_beside import compiling_beside
from mcage.engines import select_engine
from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep
done("imports")
with compiling_beside():
    sweep = Sweep(SweepSpec(instances=1), select_engine("numba")[0])
    done("traces and cases")
    sweep.header
    done("header")
    sweep.prepare()
    done("replays without faults")
    sweep.compute(0, 1)
    done("first instance")
print(json.dumps(steps))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--first", action="store_true", help="compile all, in a copy")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    given = parser.parse_args()
    path, runs = Path(mcage.__file__).parent.parent, {}
    with tempfile.TemporaryDirectory() as folder:
        if given.first:
            path = _copied(Path(folder, "copy"))
        for name in ("nothing compiled", "nothing kept", "replays kept"):
            kept = Path(folder, "kept")
            if name != "replays kept":
                shutil.rmtree(kept, ignore_errors=True)
            runs[name] = _run(path, kept)
            if not given.json:
                took = (f"{step} {seconds:.2f} s" for step, seconds in runs[name].items())
                print(f"{name}: " + ", ".join(took), flush=True)
    if given.json:
        print(json.dumps(runs, indent=1))


def _copied(folder: Path) -> Path:
    """Folder with a copy of the package and its kernels, without any machine code."""
    package, without = Path(mcage.__file__).parent, shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, folder / package.name, ignore=without)
    kernels = kernels_of(package)
    if package not in kernels.parents:
        shutil.copytree(kernels, folder / kernels.name, ignore=without)
    return folder


def _run(path: Path, kept: Path) -> dict[str, float]:
    """Processor time of each step, all of it until the replays are there, and wall-clock time."""
    environment = dict(os.environ) | {"MCAGE_CACHE": str(kept), "PYTHONPATH": str(path)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, "-P", "-c", STEPS]  # not from the folder that happens to be here
    answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    steps: dict[str, float] = json.loads(answer.stdout)
    *preparing, _ = steps.values()
    return steps | {
        "processor time of the start": sum(preparing),
        "processor time, other processes included": (
            after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        ),
        "wall-clock time": wall,
    }


if __name__ == "__main__":
    main()
