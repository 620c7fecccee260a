"""Compiles all of the numba engine once, for every process that comes after.

A program, started by `once` in the first worker that needs the engine: the others wait.
"""

import fcntl
import subprocess
import sys
from functools import cache
from pathlib import Path

from mcage.engines.numba_engine.jit import compiled_before

TECHNIQUES = ["baseline", "disable", "gr-guard", "rrcd", "rrcd+rc+rar"]
"""Techniques of every kind of placement that is compiled."""


@cache
def once() -> None:
    """Return when the machine code is in the cache."""
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not compiled_before():
            subprocess.run([sys.executable, __file__], check=True)


def main() -> None:
    """Compile."""
    from sweep_cases import small_sweep

    small_sweep(instances=24, techniques=TECHNIQUES).compute(0, 24)


if __name__ == "__main__":
    main()
