"""Is the user told when the engine is compiled, and only then? Is anything compiled twice?"""

import errno
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from unittest import mock

import numpy as np
import pytest
from numba.core import config
from numba.core.caching import IndexDataCacheFile
from numba.core.registry import CPUDispatcher
from sweep_cases import small_sweep

from mcage import functions
from mcage.campaign.executors import Threads
from mcage.campaign.progress import Progress
from mcage.compiled import compiled
from mcage.engines.numba_engine import jit
from mcage.engines.numba_engine.bounds import look
from mcage.engines.numba_engine.jit import Dispatcher, inner
from mcage.engines.numba_engine.stress import place_and_bound
from mcage.engines.numba_engine.tracked_cells import run_side_by_side, run_together
from mcage.philox import _keep_small
from mcage.spec import SweepSpec
from mcage.studies.sweep import compile_beside
from mcage.variation.fault_models import add_faults

STEPS = (place_and_bound, look, run_together, run_side_by_side)
LIVES = (_keep_small, add_faults)


def jitted():
    def double(number):
        return 2 * number

    return Dispatcher(double, targetoptions={"nopython": True})


def keeping():
    """A function whose machine code later runs would find; what it calls is part of it."""

    @inner
    def add(left, right):
        return left + right

    def double(number):
        return add(number, number)

    function = Dispatcher(double, targetoptions={"nopython": True})
    function.keeps_code = True
    return function


@pytest.mark.parametrize(
    ("function", "folder", "words"),
    [
        (keeping, "there", "the engine is compiled first, for half a minute; later runs need not"),
        (jitted, "there", "the placement program is compiled first, as in each run"),
        (jitted, "", "the engine is compiled first, for half a minute, as in each run here"),
    ],
)
def test_a_sweep_says_once_what_is_compiled(monkeypatch, function, folder, words):
    class Lines(Progress):
        said = ()

        def say(self, message):
            self.said += (message,)

    for module in (jit, compile_beside):
        monkeypatch.setattr(module, "cache_folder", lambda: folder)
    monkeypatch.setattr(compile_beside, "compiling_beside", nullcontext)
    lines = Lines()
    spec = SweepSpec.from_mapping({"instances": 1, "workload": {"kernels": ["MatrixTranspose"]}})
    with functions._made(spec, "numba", None, lines, Threads()):
        for _ in range(2):  # what is compiled next is of the same kind
            function()(1)
    function()(1)
    assert [line for line in lines.said if "compiled" in line] == [words]


def on_a_machine_with(monkeypatch, features):
    """The module as it is where Numba compiles for these features."""
    monkeypatch.setattr(config, "CPU_FEATURES", features)
    spec = importlib.util.spec_from_file_location("jit_elsewhere", jit.__file__)
    elsewhere = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(elsewhere)
    monkeypatch.setattr(elsewhere, "code_folder", lambda name, *places: name)
    return elsewhere


def test_planes_are_summed_as_vectors_have_room_and_machines_share_no_code(monkeypatch):
    narrow, wide = (
        on_a_machine_with(monkeypatch, of) for of in ("+avx2,-avx512f", "+avx2,+avx512f")
    )
    assert (narrow.AT_ONCE, wide.AT_ONCE) == (1, 4)
    assert narrow.cache_folder() != wide.cache_folder()


def test_no_two_processes_compile_a_function_at_a_time(monkeypatch, tmp_path):
    function, compiled = jitted(), []
    function.lock_folder = tmp_path
    compile_alone = CPUDispatcher.compile

    def second_user():
        return (tmp_path / "jitted.<locals>.double.lock").open()

    def compile_and_try_the_lock(self, sig):
        with second_user() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        compiled.append(sig)
        return compile_alone(self, sig)

    monkeypatch.setattr(CPUDispatcher, "compile", compile_and_try_the_lock)
    assert function(4) == 8
    assert len(compiled) == 1
    with second_user() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.slow
def test_what_is_compiled_beside_is_what_lives_need(monkeypatch, tmp_path):
    monkeypatch.setattr(compile_beside, "cache_folder", lambda: str(tmp_path))
    of_other_tests = [list(function.signatures) for function in (*STEPS, *LIVES)]
    compile_beside.compile_all()
    ready = [list(function.signatures) for function in (*STEPS, *LIVES)]
    assert all(ready)
    for earlier, now in zip(of_other_tests, ready, strict=True):
        assert len(now) - len(earlier) <= 1, "a step was compiled twice"
    small_sweep(instances=24, techniques=["rrcd+rc+rar", "rrcd"]).compute(0, 24)
    assert [list(function.signatures) for function in (*STEPS, *LIVES)] == ready
    assert (tmp_path / "beside").exists()


def test_the_process_beside_ends_with_the_block(monkeypatch, tmp_path):
    asleep = tmp_path / "asleep.py"
    asleep.write_text("import time; time.sleep(600)")
    started = []

    def start(command, **options):
        started.append(popen([sys.executable, str(asleep)], **options))
        return started[0]

    popen = compile_beside.subprocess.Popen
    monkeypatch.setattr(compile_beside, "cache_folder", lambda: str(tmp_path))
    monkeypatch.setattr(compile_beside, "usable_cores", lambda: 2)
    monkeypatch.setattr(compile_beside.subprocess, "Popen", start)
    with compile_beside.compiling_beside():
        assert started[0].poll() is None
    assert started[0].poll() is not None
    (tmp_path / "beside").touch()
    with compile_beside.compiling_beside():
        assert len(started) == 1, "there is nothing left to compile"


def test_the_process_beside_ends_with_the_process_that_needs_it(monkeypatch):
    read, write = os.pipe()
    os.close(write)
    ended = []
    with os.fdopen(read) as nothing_to_read:
        monkeypatch.setattr(sys, "stdin", nothing_to_read)
        monkeypatch.setattr(os, "_exit", ended.append)
        compile_beside._end_with_parent()
    assert ended == [1]


# Compiled functions of the host.

WARM = """
import sys
from unittest import mock
from mcage.engines import select_engine
from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep
kernels, techniques = ["MatrixTranspose"], ["baseline", "rrcd", "rrcd+rc+rar"]
mapping = {"instances": 1, "workload": {"kernels": kernels}, "techniques": techniques}
sweep = Sweep(SweepSpec.from_mapping(mapping), select_engine("numba")[0])
sweep.prepare()
sweep.compute(0, 1)
print(*(name for name in ("numba.np.arraymath", "scipy.linalg") if name in sys.modules))
"""


@pytest.mark.parametrize("has_a_place", [True, False])
def test_a_function_is_compiled_with_and_without_a_place_for_its_code(monkeypatch, has_a_place):
    def without_a_place(function):
        raise RuntimeError("cannot cache function: no locator available")

    if not has_a_place:
        monkeypatch.setattr("mcage.compiled._LightCache", without_a_place)

    def twice(number):
        return 2 * number

    function = compiled(twice)
    assert function(3) == 6
    assert function.targetoptions["nogil"]
    assert not function.targetoptions.get("fastmath")


@pytest.mark.slow
def test_what_is_compiled_is_used_without_what_compiles():
    """The second run of a sweep loads neither all of Numba nor SciPy's linear algebra.

    Where all has been compiled before, the first is such a run.
    """
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", WARM], capture_output=True, text=True)
        if ran.stdout == "\n":
            break
    assert ran.stdout.split() == [], ran.stderr
    assert ran.returncode == 0, ran.stderr


RECORD = """
from typing import NamedTuple
import numpy as np
from mcage.compiled import compiled

class {name}(NamedTuple):
    values: object

@compiled
def add_up(record):
    total = 0.0
    for value in record.values:
        total += value
    return total

print(add_up({name}(np.ones(3))))
"""


@pytest.mark.slow
def test_code_for_a_type_of_an_earlier_version_is_made_again(tmp_path):
    program = tmp_path / "added.py"
    for name in ("Earlier", "Later", "Later"):
        program.write_text(RECORD.format(name=name), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", "import added"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.stdout == "3.0\n", done.stderr


LOOP = """
from mcage.compiled import compiled
@compiled
def {name}(numbers, out):
    for place in range(len(numbers)):
        out[place] = {factor} * numbers[place]
"""


@pytest.fixture(scope="module")
def loops(tmp_path_factory):
    """Two functions whose machine code is kept, and how to import them anew."""
    folder = tmp_path_factory.mktemp("loops")
    for name, factor in (("double", 2), ("treble", 3)):
        (folder / f"{name}.py").write_text(LOOP.format(name=name, factor=factor))

    def imported(name):
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)

    for name in ("double", "treble"):
        imported(name)(np.arange(3.0), np.zeros(3))
    kept = {path: path.read_bytes() for path in (folder / "__pycache__").glob("*.nb*")}
    assert sorted(path.suffix for path in kept) == [".nbc", ".nbc", ".nbi", ".nbi"]
    return imported, kept


def without(path):
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


DAMAGES = {
    "empty": lambda path, content, other: path.write_bytes(b""),
    "cut off": lambda path, content, other: path.write_bytes(content[: len(content) // 2]),
    "a wrong bit": lambda path, content, other: path.write_bytes(
        content[: len(content) // 3]
        + bytes([content[len(content) // 3] ^ 4])
        + content[len(content) // 3 + 1 :]
    ),
    "a program": lambda path, content, other: path.write_text("cos\nsystem\n(S'false'\ntR."),
    "that of another function": lambda path, content, other: path.write_bytes(other),
    "a folder": lambda path, content, other: (path.unlink(), path.mkdir(), (path / "x").mkdir()),
    "a FIFO": lambda path, content, other: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_machine_code_that_is_damaged_is_made_again(damage, suffix, loops, recwarn):
    imported, kept = loops
    (path,) = (path for path in kept if path.suffix == suffix and "double" in path.name)
    (other,) = (path for path in kept if path.suffix == suffix and "treble" in path.name)
    DAMAGES[damage](path, kept[path], kept[other])
    try:
        for hits in (0, 1):
            double, out = imported("double"), np.zeros(3)
            double(np.arange(3.0), out)
            assert out.tolist() == [0, 2, 4]
            assert sum(double.stats.cache_hits.values()) == hits
        assert not recwarn
    finally:
        for name, content in kept.items():
            if os.path.lexists(name):
                without(name)
            name.write_bytes(content)


def test_machine_code_without_a_place_is_made_in_each_run(loops, monkeypatch):
    imported, kept = loops
    (path,) = (path for path in kept if path.suffix == ".nbc" and "double" in path.name)
    path.write_bytes(b"")
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(IndexDataCacheFile, "_open_for_write", mock.Mock(side_effect=full))
    try:
        for _ in range(2):
            double, out = imported("double"), np.zeros(3)
            double(np.arange(3.0), out)
            assert out.tolist() == [0, 2, 4]
            assert not double.stats.cache_hits
    finally:
        path.write_bytes(kept[path])


def test_a_file_in_place_of_a_folder_of_machine_code(tmp_path, monkeypatch):
    """Functions of the engine are compiled all the same."""
    monkeypatch.setattr(jit, "cache_folder", lambda: str(tmp_path / "numba-0"))
    (tmp_path / "numba-0").write_text("no folder")
    assert jit.compiled(lambda number: 2 * number)(2) == 4
