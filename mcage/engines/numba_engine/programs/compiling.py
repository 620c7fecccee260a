"""Compiles the functions of a placement program, and those that they call."""

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

import numba

from mcage.techniques.programs import PlacementProgram
from mcage.techniques.programs.program import FUNCTIONS
from mcage.techniques.programs.source import globals_used, reachable

Function = TypeVar("Function", bound=Callable[..., Any])


def machine_code(function: Function) -> Function:
    """Compile a function into its callers.

    It allocates nothing, so that references to the arrays which it hands on are not counted: that
    would take ten times as long as all that it does.
    """
    compile_: Any = numba.njit
    return cast(Function, compile_(nogil=True, forceinline=True, _nrt=False)(function))


def compiled_functions(program: PlacementProgram) -> dict[str, Callable[..., Any]]:
    """Functions of a program by name, compiled; a function that it calls by a name is, too.

    An index outside an array is an error, as it is in Python; so is a division by zero.
    """
    functions = {name: getattr(type(program), name) for name in FUNCTIONS}
    met = reachable(functions.values())
    anew = {
        function: FunctionType(
            function.__code__,
            dict(function.__globals__),
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        for function in met
    }
    compiled = {
        function: numba.njit(boundscheck=True, nogil=True)(copy) for function, copy in anew.items()
    }
    for function in met:
        for name, value in globals_used(function).items():
            if isinstance(value, FunctionType):
                anew[function].__globals__[name] = compiled[value]
    return {name: compiled[function] for name, function in functions.items()}
