"""Compiles all of the numba engine once, for every process that comes after.

A program, started by `once` in the first worker that needs the engine: the others wait.
"""

import fcntl
import subprocess
import sys
from functools import cache
from pathlib import Path

from mcage.engines.numba_engine.jit import compiled_before

SPEC = {
    "instances": 4,
    "techniques": ["baseline", "disable", "gr-guard", "rrcd+rc+rar"],
    "workload": {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1},
    "life": {"epochs": 3},
}
"""A sweep of every kind of placement that is compiled."""


@cache
def once() -> None:
    """Return when the machine code is in the cache."""
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not compiled_before():
            subprocess.run([sys.executable, __file__], check=True)


def main() -> None:
    """Compile."""
    from mcage.engines.numba_engine import NumbaEngine
    from mcage.spec import SweepSpec
    from mcage.sweep.study import Sweep

    Sweep(SweepSpec.from_mapping(SPEC), NumbaEngine()).compute(0, 4)


if __name__ == "__main__":
    main()
