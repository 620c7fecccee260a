"""Compiled functions of the host."""

import numba
import pytest

from mcage.compiled import compiled


@pytest.mark.parametrize("has_a_place", [True, False])
def test_a_function_is_compiled_with_and_without_a_place_for_its_code(monkeypatch, has_a_place):
    njit = numba.njit

    def without_a_place(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    if not has_a_place:
        monkeypatch.setattr(numba, "njit", without_a_place)

    def twice(number):
        return 2 * number

    function = compiled(twice)
    assert function(3) == 6
    assert function.targetoptions["nogil"]
    assert not function.targetoptions.get("fastmath")
