"""Compiles all of the numba engine once, for every process that comes after.

A program, which runs on two cores while workers collect tests.
"""

import fcntl
import subprocess
import sys
from pathlib import Path

from mcage.engines.numba_engine.jit import cache_folder

TECHNIQUES = ["baseline", "disable", "gr-guard", "rrcd", "rrcd+rc+rar"]
"""Techniques of every kind of placement that is compiled."""


def begin() -> None:
    """Start to compile if the machine code is not in the cache and nobody is about to put it there.

    The program holds the lock for as long as it runs: it has inherited the open file.
    """
    with Path(__file__).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if cache_folder() and not _mark().exists():
            subprocess.Popen([sys.executable, __file__], pass_fds=[lock.fileno()])


def wait() -> None:
    """Return when the machine code is in the cache."""
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
    if cache_folder() and not _mark().exists():
        raise RuntimeError("the numba engine was not compiled: see what the program says above")


def _mark() -> Path:
    """File that says that compilation has come to its end: not all is there if it was stopped."""
    return Path(cache_folder()) / "complete"


def main() -> None:
    """Compile.

    The process beside ends with the block: what it has not come to is compiled here, or each sweep
    of a test would start such a process again.
    """
    from sweep_cases import small_sweep

    from mcage.studies.sweep.compile_beside import compile_all, compiling_beside

    with compiling_beside():
        small_sweep(instances=24, techniques=TECHNIQUES).compute(0, 24)
    compile_all()
    if cache_folder():
        _mark().touch()


if __name__ == "__main__":
    main()
