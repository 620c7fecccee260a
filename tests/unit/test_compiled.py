"""Compiled functions of the host."""

import subprocess
import sys

import numpy as np
import pytest

from mcage.compiled import LightDispatcher, compiled

WARM = """
import sys
from mcage.engines.select import select_engine
from mcage.spec import SweepSpec
from mcage.sweep.study import Sweep
kernels, techniques = ["MatrixTranspose"], ["baseline", "rrcd", "rrcd+rc+rar"]
mapping = {"instances": 1, "workload": {"kernels": kernels}, "techniques": techniques}
sweep = Sweep(SweepSpec.from_mapping(mapping), select_engine("numba")[0])
sweep.prepare()
sweep.compute(0, 1)
print(*(name for name in ("numba.np.arraymath", "scipy.linalg") if name in sys.modules))
"""


@pytest.mark.parametrize("has_a_place", [True, False])
def test_a_function_is_compiled_with_and_without_a_place_for_its_code(monkeypatch, has_a_place):
    def without_a_place(dispatcher):
        raise RuntimeError("cannot cache function: no locator available")

    if not has_a_place:
        monkeypatch.setattr(LightDispatcher, "enable_caching", without_a_place)

    def twice(number):
        return 2 * number

    function = compiled(twice)
    assert function(3) == 6
    assert function.targetoptions["nogil"]
    assert not function.targetoptions.get("fastmath")


def test_arrays_lie_apart(monkeypatch):
    """The compiler is told so: else each inner loop over several arrays begins with tests."""

    def without_a_place(dispatcher):
        raise RuntimeError

    def add(left, right, sums):
        for place in range(len(sums)):
            sums[place] = left[place] + right[place]

    monkeypatch.setattr(LightDispatcher, "enable_caching", without_a_place)
    function, sums = compiled(add), np.zeros(3)
    function(np.arange(3.0), np.arange(3.0), sums)
    assert sums.tolist() == [0, 2, 4]
    (code,) = function.inspect_llvm().values()
    assert code.split("define")[1].split("{")[0].count("ptr noalias") > 5


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
