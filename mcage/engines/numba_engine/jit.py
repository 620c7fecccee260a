"""How functions are compiled, and where the machine code is kept.

Numba takes a function's machine code from its cache as long as the function's own file is
unchanged, even where a function that it calls, in another file, is not the same any more. The
cache is therefore kept in a folder named by a digest of all sources that are compiled.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba.core import event

import mcage.compiled
import mcage.geometry
import mcage.traces.model
from mcage.compiled import OPTIONS, code_kept_in
from mcage.engines.numba_engine.linking import Dispatcher, nested_compiler
from mcage.files.disk_cache import code_folder

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function when it is first called, and keep the machine code.

    `mcage.compiled.OPTIONS` says what it may do.
    """
    dispatcher = Dispatcher(function, targetoptions=OPTIONS)
    if folder := cache_folder():
        with code_kept_in(folder):
            dispatcher.enable_caching()
        dispatcher.lock_folder = Path(folder)
    return cast(Function, dispatcher)


@cache
def cache_folder() -> str:
    """Folder of this version's machine code; the empty text if there is no place for one."""
    here = Path(__file__).parent
    sources = sorted(here.rglob("*.py"))
    for module in (mcage.compiled, mcage.geometry, mcage.traces.model):
        sources.append(Path(str(module.__file__)))
    digest = hashlib.blake2b(digest_size=8)
    for source in sources:
        digest.update(source.read_bytes())
    return code_folder(digest.hexdigest(), here / "__pycache__")


@contextmanager
def telling_of_compilation(tell: Callable[[bool], None]) -> Iterator[None]:
    """Tell when a function is compiled whose machine code is not in the cache.

    Parameters
    ----------
    tell : callable
        Is called once with True for functions whose machine code is kept for later runs, and once
        with False for those that each run compiles, such as placement programs.
    """
    with event.install_listener("numba:compile", _Compilations(tell)):
        yield


class _Compilations(event.Listener):
    """Tells of the first compilation of a kind. No two go on at a time: Numba has a lock."""

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self._tell, self._told, self._depth = tell, set[bool](), 0

    def on_start(self, event: Any) -> None:
        """See Numba's class. What is compiled within another function is part of that."""
        kept = getattr(event.data["dispatcher"], "keeps_code", False)
        if not self._depth and kept not in self._told:
            self._told.add(kept)
            self._tell(kept)
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """See Numba's class."""
        self._depth -= 1


def inner(function: Function) -> Function:
    """Compile a function that only compiled functions call; it cannot be called from Python."""
    return _nested(function, {})


def inlined(function: Function) -> Function:
    """As `inner`, for a few lines that every caller repeats.

    To hand over arrays costs more than what they do: each is seven words on the stack.
    """
    return _nested(function, {"forceinline": True})


def _nested(function: Function, options: dict[str, bool]) -> Function:
    options = OPTIONS | {"no_cpython_wrapper": True} | options
    return cast(
        Function, Dispatcher(function, targetoptions=options, pipeline_class=nested_compiler())
    )
