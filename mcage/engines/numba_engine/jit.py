"""How functions are compiled, and where the machine code is kept.

Numba takes a function's machine code from its cache as long as the function's own file is
unchanged, even where a function that it calls, in another file, is not the same any more. The
cache is therefore kept in a folder named by a digest of all sources that are compiled.
"""

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

import mcage.geometry
import mcage.traces.model

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function when it is first called, and keep the machine code.

    It releases the GIL, and has no fast-math, so that floats round as NumPy's do.
    """
    folder = _cache_folder()
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = folder
    try:
        return cast(Function, numba.njit(cache=bool(folder), nogil=True)(function))
    finally:
        config.CACHE_DIR = before


@cache
def _cache_folder() -> str:
    """Folder of this version's machine code; the empty text if there is no place for one."""
    here = Path(__file__).parent
    sources = sorted(here.rglob("*.py"))
    for module in (mcage.geometry, mcage.traces.model):
        sources.append(Path(str(module.__file__)))
    digest = hashlib.blake2b(digest_size=8)
    for source in sources:
        digest.update(source.read_bytes())
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcage"
    for place in (here / "__pycache__", user):
        folder = place / f"numba-{digest.hexdigest()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return str(folder)
    return ""


def compiled_before() -> bool:
    """Whether machine code of this version lies in the cache, at least in part."""
    folder = _cache_folder()
    return bool(folder) and any(Path(folder).rglob("*.nbi"))


def inner(function: Function) -> Function:
    """Compile a function of inner loops, which allocates nothing and returns no array.

    References to arrays are not counted in it: that would cost more than what it does.
    """
    without_references: Any = {"_nrt": False}  # Numba knows this option, its stubs do not
    return cast(Function, numba.njit(**without_references, nogil=True)(function))


def inlined(function: Function) -> Function:
    """As `inner`, for a few lines that every caller repeats.

    To hand over arrays costs more than what they do: each is seven words on the stack.
    """
    repeated: Any = {"_nrt": False, "forceinline": True}
    return cast(Function, numba.njit(**repeated, nogil=True)(function))
