"""Short loops that stand by themselves, compiled for the CPU.

A module that needs one imports this and names the function. What the Numba engine compiles is much
more, in files that call each other: it has a way of its own (`mcage.engines.numba_engine.jit`).
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function when it is first called, and keep the machine code if there is a place.

    It releases the GIL, and has no fast-math, so that floats round as NumPy's do. It may call no
    compiled function of another file: the machine code is kept for as long as its own file is
    unchanged.
    """
    try:
        return cast(Function, numba.njit(nogil=True, cache=True)(function))
    except RuntimeError:  # no folder that can be written
        return cast(Function, numba.njit(nogil=True)(function))
