"""Short loops that stand by themselves, compiled for the CPU; and how machine code is loaded.

A module that needs one imports this and names the function. What the Numba engine compiles is much
more, in files that call each other: it has a way of its own (`mcage.engines.numba_engine.jit`).
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.registry import CPUDispatcher

from mcage.files.disk_cache import MOST_BYTES, code_folder, remove
from mcage.files.inputs import UnreadableFileError, read_regular

Function = TypeVar("Function", bound=Callable[..., Any])

OPTIONS = {"nopython": True, "nogil": True, "no_cfunc_wrapper": True, "_nrt": False}
"""Functions release the GIL, and have no fast-math, so that floats round as NumPy's do. They
allocate nothing: what they fill in is handed to them. References to arrays are therefore not
counted, which would be half of the machine code."""


def compiled(function: Function) -> Function:
    """Compile a function when it is first called, and keep the machine code if there is a place.

    `OPTIONS` says what it may do. An array that it fills in may overlap no other that it is handed:
    loops over several then need no tests of that, and take half of the time. It may call no
    compiled function of another file: the machine code is kept for as long as its own file is
    unchanged.
    """
    dispatcher: Any = LightDispatcher(function, targetoptions=OPTIONS)
    dispatcher._compiler._customize_flags = _arrays_lie_apart
    if (folder := _folder(function)) is not None:
        with code_kept_in(folder):
            dispatcher.enable_caching()
    return cast(Function, dispatcher)


@contextmanager
def code_kept_in(folder: str) -> Iterator[None]:
    """Have machine code kept in a folder; beside its source, or not at all, if that is empty."""
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, folder
    try:
        yield
    finally:
        config.CACHE_DIR = before


def _folder(function: Callable[..., Any]) -> str | None:
    """Folder for the machine code of a function; empty where it lies beside its source.

    None where there is no place: Numba's own may be one that other users can write into.
    """
    config: Any = numba.config
    beside = Path(function.__code__.co_filename).parent
    pycache = beside / "__pycache__"
    if config.CACHE_DIR or os.access(pycache if pycache.exists() else beside, os.W_OK):
        return str(config.CACHE_DIR)
    return code_folder("functions") or None


def _arrays_lie_apart(flags: Any) -> Any:
    flags.noalias = True
    return flags


class LightDispatcher(CPUDispatcher):
    """A compiled function whose machine code is loaded without all that makes machine code.

    That would be most of Numba, and SciPy's linear algebra: 0.3 s of processor time at each start.
    """

    keeps_code = False
    """Whether the machine code is there for later runs."""

    def enable_caching(self) -> None:
        """Keep machine code on disk if there is a place for it."""
        with suppress(RuntimeError):  # no folder that can be written
            self._cache = _LightCache(self.py_func)
            self.keeps_code = True


class _WholeFiles(IndexDataCacheFile):
    """Files of machine code that end in a checksum: one without its own is made again.

    Numba believes what it finds, and loads what is damaged or of another function.
    """

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        if os.path.isdir(filepath):
            remove(Path(filepath))
        with super()._open_for_write(filepath) as stream:
            yield stream
            stream.flush()
            stream.write(_checksum(filepath, Path(stream.name).read_bytes()))

    def _load_index(self) -> Any:
        whole = _is_whole(self._index_path)
        return super()._load_index() if whole else {}  # type: ignore[no-untyped-call]

    def _load_data(self, name: str) -> Any:
        if not _is_whole(self._data_path(name)):  # type: ignore[no-untyped-call]
            raise FileNotFoundError
        return super()._load_data(name)  # type: ignore[no-untyped-call]


_CHECKSUM_BYTES = 16


def _checksum(path: str, content: bytes) -> bytes:
    """Checksum of a file, by its name and what is in it."""
    name = os.path.basename(path).encode()
    return hashlib.blake2b(content, key=name[-64:], digest_size=_CHECKSUM_BYTES).digest()


def _is_whole(path: str) -> bool:
    try:
        content = read_regular(path, MOST_BYTES)
    except UnreadableFileError:
        return False
    return content.endswith(_checksum(path, content[:-_CHECKSUM_BYTES]))


class _LightCache(FunctionCache):
    """Machine code that was made with `OPTIONS`: any other may need what is not loaded."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        of = self._impl
        self._cache_file = _WholeFiles(  # type: ignore[no-untyped-call]
            self._cache_path, of.filename_base, of.locator.get_source_stamp()
        )

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        key = super()._index_key(sig, codegen)  # type: ignore[no-untyped-call]
        return *key, *OPTIONS.items()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """See Numba's class, which prepares for compiling first."""
        with self._guard_against_spurious_io_errors():
            try:
                return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            except Exception:  # it names a type of an earlier version
                with suppress(OSError):
                    self._cache_file.flush()  # type: ignore[no-untyped-call]
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """See Numba's class; where nothing can be written, each run compiles."""
        with suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
