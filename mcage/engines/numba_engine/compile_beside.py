"""Compiles half of the engine in a process of its own, beside the one that needs it.

Numba compiles one function at a time in a process. On the first run a second process therefore
begins with what the first needs last, the stress times of redirected slices, which are half of the
work. Whatever either has compiled, the other takes from the folder of machine code.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import numpy as np

from mcage.concurrency import usable_cores
from mcage.engines.interface import fault_free_maps
from mcage.engines.numba_engine.engine import NumbaEngine
from mcage.engines.numba_engine.jit import cache_folder
from mcage.engines.numba_engine.stress.accumulator import NumbaStress
from mcage.engines.numba_engine.stress.placing import Batch
from mcage.engines.stress import FaultFreeDuties
from mcage.engines.tracked_cells import TrackedCells
from mcage.geometry import GCN
from mcage.replays.most_stressed import DutyCycles
from mcage.replays.prepare import PreparedReplay, prepare
from mcage.techniques import TECHNIQUES
from mcage.traces import bundled_trace, first_generations
from mcage.version import PACKAGE

MODULE = "mcage.engines.numba_engine.compile_beside"
"""This module, whatever it is called while it runs."""

REDIRECTING, KERNEL = ("rrcd+rc+rar", "rrcd"), "QuasiRandomSequence"
"""Techniques that redirect, with all steps between them, and a short trace."""


@contextmanager
def compiling_beside() -> Iterator[None]:
    """Compile beside the block, if there is something to compile, and a core for it.

    The process ends when its work is done, or the block is, or the process that has started it.
    """
    if not cache_folder() or _mark().exists() or usable_cores() < 2:
        yield
        return
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, sys.path)])
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": path},
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _mark() -> Path:
    """File that says that all of this has been compiled."""
    return Path(cache_folder()) / "beside"


def compile_all() -> None:
    """Compile what lives of redirected slices need, the longest first.

    Where they live is asked for first of all, and last here: the process that needs it does not
    wait.
    """
    engine = NumbaEngine()
    trace, maps = first_generations(bundled_trace(KERNEL), 1), fault_free_maps()
    replays = [prepare(trace, TECHNIQUES[technique]) for technique in REDIRECTING]
    steps: list[Callable[[], object]] = []
    for replay in replays:
        stress = stress_of_nobody(engine, replay)
        nobody = Batch(0, 1.0, np.zeros(0, dtype=np.int64), maps[:0])
        _, *others = stress.steps(nobody, stress.workspaces.take())
        steps += others
    for step in steps:
        step()
    maps[0, 0] = 1
    engine.cell_times(replays[0], maps)
    _mark().touch()


def stress_of_nobody(engine: NumbaEngine, replay: PreparedReplay) -> NumbaStress:
    """Stress times of no instances at all on a kernel."""
    cycles = np.zeros((1, GCN.cells), dtype=np.uint32)
    duties = DutyCycles.of(
        cycles, np.array([replay.period]), np.zeros(1, dtype=np.int64), GCN.components
    )
    tracked = TrackedCells(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    stress = engine.stress(FaultFreeDuties((replay,), duties, duties), tracked, 0)
    assert isinstance(stress, NumbaStress)
    return stress


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    Thread(target=_end_with_parent, daemon=True).start()
    compile_all()
