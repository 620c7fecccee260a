"""How functions are compiled, and where the machine code is kept.

Numba takes a function's machine code from its cache as long as the function's own file is
unchanged, even where a function that it calls, in another file, is not the same any more. The
cache is therefore kept in a folder named by a digest of all sources that are compiled.
"""

import fcntl
import gc
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.types import unliteral

import mcage.compiled
import mcage.geometry
import mcage.traces.model
from mcage.compiled import OPTIONS, LightDispatcher, code_kept_in
from mcage.files.disk_cache import code_folder

# Functions that only compiled functions call: they become machine code within their callers.
#
# Numba makes optimised machine code of each compiled function by itself, together with all that it
# calls, and then again of all of it within each caller. Where calls are six deep that is most of
# the time that compilation takes. Here the code of such a function is linked into its callers as it
# is, and optimised where machine code is made.


class Dispatcher(LightDispatcher):
    """A compiled function that is not compiled again for each constant it is called with.

    Nor do two processes compile it: the second waits, and takes the machine code of the first.
    """

    lock_folder: Path | None = None
    """Where processes tell each other what they compile; None where no machine code is kept."""

    def compile(self, sig: Any) -> Any:
        """See Numba's class."""
        with ExitStack() as scope:
            # In this order: while one thread waits for another process, others may compile.
            if self.lock_folder:
                scope.enter_context(_alone(self.lock_folder / f"{self.py_func.__qualname__}.lock"))
            scope.enter_context(global_compiler_lock)
            scope.enter_context(_without_collection())
            return super().compile(sig)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """See Numba's class; constants count as any value of their type.

        Raises
        ------
        TypeError
            The function has a lock. To wait for it while its caller is compiled could last for
            ever.
        """
        if self.lock_folder:
            raise TypeError(f"{self.py_func.__qualname__} is called from Python alone")
        plain = {name: unliteral(kind) for name, kind in kws.items()}  # type: ignore[no-untyped-call]
        return super().get_call_template(tuple(map(unliteral, args)), plain)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which the system takes back from a process that is killed."""
    descriptor = -1
    with suppress(OSError):  # a file system without locks: the same may be compiled twice
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Let Python look for no garbage, of which compiling leaves little: 5 to 10 % of its time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class _NoEnvironment:
    """Stands for the machine code of a function that has none of its own."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Ignore: only functions that handle Python objects look into their environment."""


class _LinkedLibrary(JITCodeLibrary):
    """Code that is linked into that of callers, and nothing else."""

    @property
    def codegen(self) -> Any:
        """See Numba's class."""
        return _NoEnvironment

    def get_pointer_to_function(self, name: str) -> int:
        """See Numba's class; a null pointer, as there is no machine code."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    def _optimize_final_module(self) -> None:
        """Leave that to callers."""

    def _finalize_final_module(self) -> None:
        """Make no machine code."""
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


_BUILT_UPON = (
    "_ensure_finalized",
    "_finalize_dynamic_globals",
    "_finalize_final_module",
    "_optimize_final_module",
)
"""Methods of Numba's class that are not public: another version may do without them."""


def nested_compiler() -> type[Compiler]:
    """Compiler of functions that only compiled functions call: Numba's, where it is another."""
    known = all(hasattr(JITCodeLibrary, name) for name in _BUILT_UPON)
    return LinkedCompiler if known else Compiler


class LinkedCompiler(Compiler):
    """Compiler that links functions into their callers."""

    def define_pipelines(self) -> Any:
        """See Numba's class."""
        state = self.state
        if state.library is None:
            codegen, name = state.targetctx.codegen(), state.func_id.func_qualname
            state.library = _LinkedLibrary(codegen, name)  # type: ignore[no-untyped-call]
            state.library.enable_object_caching()
        return super().define_pipelines()  # type: ignore[no-untyped-call]


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
