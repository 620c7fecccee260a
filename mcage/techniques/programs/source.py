"""Functions that a program consists of, wherever they stand, and the digest of their source."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from mcage.plugins import plugin_source


def globals_used(function: FunctionType) -> dict[str, Any]:
    """Names of a function's module, and of what it is defined in, and what they stand for."""
    names = sorted(set(_names(function.__code__)))
    used = {name: function.__globals__[name] for name in names if name in function.__globals__}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return used | {name: cell.cell_contents for name, cell in cells}


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def reachable(functions: Iterable[FunctionType]) -> list[FunctionType]:
    """Functions, and those that they call by a global name, each once."""
    met: dict[FunctionType, None] = {}
    waiting = list(functions)
    while waiting:
        function = waiting.pop(0)
        if function not in met:
            met[function] = None
            called = globals_used(function).values()
            waiting += [value for value in called if isinstance(value, FunctionType)]
    return list(met)


def source_digest(functions: Iterable[FunctionType], settings: str) -> str:
    """Digest of the files that functions stand in and import, and of the constants that they use.

    Parameters
    ----------
    functions : iterable of function
        Functions; those that they call count as well.
    settings : str
        What else decides.

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    content = hashlib.blake2b(settings.encode(), digest_size=8)
    met = reachable(functions)
    for module in sorted({function.__module__ for function in met}):
        if not module.startswith("mcage."):  # mcage's sources have a digest of their own
            content.update(f"\n{module}\n".encode() + _source(module))
    for function in met:
        code = function.__code__
        constants = [value for value in code.co_consts if not isinstance(value, CodeType)]
        where = function.__qualname__, code.co_firstlineno  # in a file there may be several
        content.update(f"\n{where} {code.co_names} {code.co_varnames} {constants}".encode())
        if not Path(code.co_filename).is_file():  # typed into an interpreter
            content.update(code.co_code)
        for name, value in globals_used(function).items():
            if not isinstance(value, FunctionType | ModuleType | type):
                content.update(f"\n{name} = {_constant(value)}".encode())
    return content.hexdigest()


def _source(module: str) -> bytes:
    try:
        return plugin_source(module)
    except (KeyError, AttributeError, OSError):
        return b""


def _constant(value: Any) -> str:
    return str(value.tolist()) if isinstance(value, np.ndarray) else repr(value)
