"""Is the user told when the engine is compiled, and only then? Is anything compiled twice?"""

import fcntl
import os
import sys

import pytest
from numba.core.registry import CPUDispatcher
from sweep_cases import small_sweep

from mcage.campaign.progress import Silent
from mcage.engines.compiled_cells import _find_failing
from mcage.engines.numba_engine import jit
from mcage.engines.numba_engine.jit import Dispatcher, inner, telling_of_compilation
from mcage.engines.numba_engine.most_stressed import look
from mcage.engines.numba_engine.stress import place_and_bound
from mcage.engines.numba_engine.tracked_cells import run_side_by_side, run_together
from mcage.philox import _keep_below
from mcage.spec import SweepSpec
from mcage.sweep import compile_beside, run
from mcage.variation.added_faults import add_faults

STEPS = (place_and_bound, look, run_together, run_side_by_side)
LIVES = (_keep_below, add_faults, _find_failing)


def jitted():
    def double(number):
        return 2 * number

    return Dispatcher(double, targetoptions={"nopython": True})


def keeping():
    """A function whose machine code later runs would find."""
    function = jitted()
    function.keeps_code = True
    return function


def test_compilation_is_told_of_once():
    told = []
    with telling_of_compilation(told.append):
        assert not told
        keeping()(1)
        keeping()(1)
        assert told == [True]
        jitted()(1)  # as a placement program
        jitted()(1)
        assert told == [True, False]
    keeping()(1)
    assert told == [True, False]


def test_what_is_compiled_within_a_function_is_part_of_it():
    @inner
    def add(left, right):
        return left + right

    def twice(number):
        return add(add(number, 1), number)

    told, function = [], Dispatcher(twice, targetoptions={"nopython": True})
    function.keeps_code = True
    with telling_of_compilation(told.append):
        assert function(4) == 9
    assert told == [True]


def test_machine_code_that_is_there_is_not_told_of():
    told, function = [], jitted()
    function(1)
    with telling_of_compilation(told.append):
        function(1)
    assert not told


def test_a_constant_compiles_nothing_more():
    @inner
    def add(left, right):
        return left + right

    def twice(number):
        return add(add(number, 1), number)

    assert Dispatcher(twice, targetoptions={"nopython": True})(4) == 9
    assert len(add.signatures) == 1


def test_a_function_with_a_lock_is_called_from_python_alone(tmp_path):
    locked = jitted()
    locked.lock_folder = tmp_path

    def twice(number):
        return locked(locked(number))

    with pytest.raises(TypeError, match="called from Python alone"):
        Dispatcher(twice, targetoptions={"nopython": True})(4)


@pytest.mark.parametrize(
    ("function", "folder", "words"),
    [
        (keeping, "there", "the engine is compiled first, for half a minute; later runs need not"),
        (jitted, "there", "the placement program is compiled first, as in each run"),
        (jitted, "", "the engine is compiled first, for half a minute, as in each run here"),
    ],
)
def test_a_sweep_says_what_is_compiled(monkeypatch, tmp_path, function, folder, words):
    class Lines(Silent):
        said = ()

        def say(self, message):
            self.said += (message,)

    def compile_something(*arguments, **options):
        function()(1)

    monkeypatch.setattr(run, "run_campaign", compile_something)
    monkeypatch.setattr(jit, "cache_folder", lambda: folder)
    lines = Lines()
    spec = SweepSpec.from_mapping({"instances": 1, "workload": {"kernels": ["MatrixTranspose"]}})
    run.run_sweep(spec, tmp_path / "r.h5", engine="numba", progress=lines)
    assert [line for line in lines.said if "compiled" in line] == [words]


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


def test_a_folder_without_locks_hinders_nobody(tmp_path):
    function = jitted()
    function.lock_folder = tmp_path / "nowhere"
    assert function(4) == 8


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
