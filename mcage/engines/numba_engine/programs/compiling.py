"""Compiles the functions of a placement program, and those that they call."""

import re
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

from numba.core.errors import NumbaError
from numba.core.types import Integer

from mcage.compiled import OPTIONS, LightDispatcher
from mcage.engines.numba_engine.linking import Dispatcher
from mcage.plain_text import said_by
from mcage.techniques.programs import PlacementProgram
from mcage.techniques.programs.program import FUNCTIONS
from mcage.techniques.programs.source import globals_used, reachable

Function = TypeVar("Function", bound=Callable[..., Any])


_OF_USERS = OPTIONS | {"no_cpython_wrapper": True, "boundscheck": True}
"""How a program's functions are compiled: those of the machine call them, and nothing else does."""


def outermost(function: Function) -> Function:
    """Compile a function that Python calls, and keep no machine code of it."""
    return cast(Function, Dispatcher(function, targetoptions=OPTIONS))


def compiled_functions(program: PlacementProgram) -> dict[str, Callable[..., Any]]:
    """Functions that a program defines, compiled; a function that it calls by a name is, too.

    An index outside an array is an error, as it is in Python; so is a division by zero.
    """
    functions = {name: getattr(type(program), name) for name in FUNCTIONS if program.defines(name)}
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
        function: LightDispatcher(copy, targetoptions=_OF_USERS) for function, copy in anew.items()
    }
    for function in met:
        for name, value in globals_used(function).items():
            if isinstance(value, FunctionType):
                anew[function].__globals__[name] = compiled[value]
    return {name: compiled[function] for name, function in functions.items()}


def answers_that_are_no_integers(functions: dict[str, Any]) -> str:
    """What compiled functions answer otherwise than an integer, in words; empty if none does."""
    for name, function in functions.items():
        for overload in function.overloads.values():
            kind = overload.signature.return_type
            if name != "read" and not isinstance(kind, Integer):
                return f"{name} answers a {kind}, where an integer is needed"
    return ""


def in_words(error: Exception) -> str:
    """What a program or its compilation fails with: for the latter why, and in which line."""
    if not isinstance(error, NumbaError):
        return said_by(error)
    text = str(error)
    lines = (line.strip() for line in text.splitlines())
    why = next((line for line in lines if line and not line.startswith("Failed in ")), "")
    places = re.findall(r'File "([^"]+)", line (\d+)', text)
    of_user = [place for place in places if not _MACHINE.search(place[0])]
    where = f"; {Path(of_user[0][0]).name} line {of_user[0][1]}" if of_user else ""
    return f"Numba does not compile it: {why.rstrip(':'):.200}{where}"


_MACHINE = re.compile(r"numba_engine.programs.machine\.py$|site-packages")
"""Files that are not the user's."""
