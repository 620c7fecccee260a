"""Compiles all of the numba engine once, for every process that comes after.

A program, started by `once` in the first worker that needs the engine: the others wait.
"""

import fcntl
import subprocess
import sys
from functools import cache
from pathlib import Path

from mcage.engines.numba_engine.jit import cache_folder

TECHNIQUES = ["baseline", "disable", "gr-guard", "rrcd", "rrcd+rc+rar"]
"""Techniques of every kind of placement that is compiled."""


@cache
def once() -> None:
    """Return when the machine code is in the cache."""
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if cache_folder() and not _mark().exists():
            subprocess.run([sys.executable, __file__], check=True)


def _mark() -> Path:
    """File that says that compilation has come to its end: not all is there if it was stopped."""
    return Path(cache_folder()) / "complete"


def main() -> None:
    """Compile."""
    from sweep_cases import small_sweep

    from mcage.sweep.compile_beside import compiling_beside

    with compiling_beside():
        small_sweep(instances=24, techniques=TECHNIQUES).compute(0, 24)
    if cache_folder():
        _mark().touch()


if __name__ == "__main__":
    main()
