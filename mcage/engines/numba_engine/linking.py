"""Functions that only compiled functions call: they become machine code within their callers.

Numba makes optimised machine code of each compiled function by itself, together with all that it
calls, and then again of all of it within each caller. Where calls are six deep that is most of the
time that compilation takes. Here the code of such a function is linked into its callers as it is,
and optimised where machine code is made.
"""

import fcntl
import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.types import unliteral

from mcage.compiled import LightDispatcher


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
