"""Compiles half of what a sweep needs in a process of its own, beside the one that needs it.

Numba compiles one function at a time in a process. On the first run a second process therefore
begins with what the first needs last: the stress times of redirected slices, and the functions of
lives. Whatever either has compiled, the other takes from the folders of machine code.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from mcage.concurrency import usable_cores
from mcage.engines.interface import fault_free_maps
from mcage.engines.numba_engine import NumbaEngine
from mcage.engines.numba_engine.bounds import Batch
from mcage.engines.numba_engine.jit import cache_folder, telling_of_compilation
from mcage.engines.numba_engine.stress import NumbaStress
from mcage.engines.stress import FaultFreeDuties, TrackedCells
from mcage.files.disk_cache import FOLDER_VARIABLE
from mcage.geometry import GCN
from mcage.replays.most_stressed import DutyCycles
from mcage.replays.prepare import PreparedReplay, RedirectedReplay, prepare
from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep
from mcage.techniques import TECHNIQUES
from mcage.traces import bundled_trace, first_generations
from mcage.version import PACKAGE

MODULE = "mcage.studies.sweep.compile_beside"
"""This module, whatever it is called while it runs."""

REDIRECTING, KERNEL = ("rrcd+rc+rar", "rrcd"), "QuasiRandomSequence"
"""Techniques that redirect, with all steps between them, and a short trace."""

FEW_LIVES: dict[str, Any] = {
    "instances": 4,
    "techniques": ["baseline", "rc+rar"],
    "workload": {"kernels": [KERNEL]},
}
"""A sweep that takes half a second, and all that lives need beside redirection."""


@contextmanager
def compiling(say: Callable[[str], None]) -> Iterator[None]:
    """Say when the engine is compiled within the block, and do half of it in another process.

    Parameters
    ----------
    say : callable
        Receives the message that it takes half a minute.
    """

    def tell(kept: bool) -> None:
        if kept:
            say("the engine is compiled first, for half a minute; later runs need not")
        elif cache_folder():
            say("the placement program is compiled first, as in each run")
        else:
            say("the engine is compiled first, for half a minute, as in each run here")

    with compiling_beside(), telling_of_compilation(tell):
        yield


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
        [sys.executable, "-P", "-m", MODULE],  # not from the folder that happens to be here
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": path, FOLDER_VARIABLE: "off"},
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
    """Compile what lives of redirected slices need, in an order in which neither process waits.

    Where registers live is asked for first of all, and comes last here. What lives need besides is
    many short functions, for which processes have no locks: it is here early, before the first
    process asks for it.
    """
    engine, trace = NumbaEngine(), first_generations(bundled_trace(KERNEL), 1)
    rotating, other = (prepare(trace, TECHNIQUES[technique]) for technique in REDIRECTING)
    search, *steps = later_steps(engine, rotating)[1:]
    search()
    Sweep(SweepSpec.from_mapping(FEW_LIVES), engine).compute(0, FEW_LIVES["instances"])
    for step in (*steps, *later_steps(engine, other)):
        step()
    assert isinstance(rotating, RedirectedReplay)
    engine.compile_cell_times(rotating)
    engine.count(rotating, fault_free_maps())
    _mark().touch()


def later_steps(engine: NumbaEngine, replay: PreparedReplay) -> list[Callable[[], None]]:
    """Return the steps of an epoch but for the first, on no instances at all."""
    stress, nobody = stress_of_nobody(engine, replay), np.zeros(0, dtype=np.int64)
    batch = Batch(0, np.zeros(0), nobody, fault_free_maps()[:0], nobody, nobody, False)
    return stress.steps([batch], nobody, 1, stress.workspaces.take())[1:]


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
