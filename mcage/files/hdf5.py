"""HDF5 files of one format: whole or absent, with a checksum, and an error if the disk is full.

A file that mcage itself has made is read here, too; `mcage.files.hdf5` reads all others.
"""

import atexit
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import BufferTooShort, Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.files import plain_hdf5
from mcage.files.atomic import FileKind, whole_file
from mcage.files.inputs import append_checksum_to, open_regular

if TYPE_CHECKING:
    from typing_extensions import Buffer


LIBRARY_VERSIONS = ("v110", "v110")
"""Oldest HDF5 format (2016) whose metadata all carry checksums, the lists of chunks too."""


def write_hdf5(
    path: Path, fill: Callable[[h5py.File], None], over: FileKind | None = None, **options: Any
) -> None:
    """Write a new HDF5 file; ``path`` appears, with its checksum, once the file is whole.

    Python raises KeyboardInterrupt in the main thread, also while HDF5 has it write, and HDF5 takes
    that for a write that was made. So another thread writes: it finishes the file, or none appears.

    Parameters
    ----------
    path : Path
        Where to.
    fill : callable
        Writes into the open file.
    over : FileKind, optional
        Kind of file that may be replaced; by default none.
    options
        Further arguments of `h5py.File`.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_write, path, fill, over, options).result()


def _write(
    path: Path, fill: Callable[[h5py.File], None], over: FileKind | None, options: dict[str, Any]
) -> None:
    with whole_file(path, over) as stream:
        content = _NeverFails(stream.fileno())
        try:
            with h5py.File(content, "w", libver=LIBRARY_VERSIONS, **options) as file:
                fill(file)
        finally:
            if content.failure:
                raise content.failure
        append_checksum_to(stream)


class _NeverFails(io.RawIOBase):
    """File under HDF5 that remembers its first failed write or cut and drops all later ones.

    HDF5 kills the process if either fails while it closes a file. After a failure the file is
    thrown away, so what it holds then does not matter.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.failure: OSError | None = None
        self._descriptor = descriptor
        self._position = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            offset += os.fstat(self._descriptor).st_size
        self._position = offset
        return offset

    def write(self, data: "Buffer", /) -> int:
        content = memoryview(data).cast("B")
        written = 0
        while written < content.nbytes and not self.failure:
            try:
                written += os.pwrite(self._descriptor, content[written:], self._position + written)
            except OSError as error:
                self.failure = error
        self._position += content.nbytes
        return content.nbytes

    def readinto(self, buffer: "Buffer", /) -> int:
        count = os.preadv(self._descriptor, [buffer], self._position)
        self._position += count
        return count

    def truncate(self, size: int | None = None, /) -> int:
        length = self._position if size is None else size
        try:
            if not self.failure:
                os.ftruncate(self._descriptor, length)
        except OSError as error:
            self.failure = error
        return length


@dataclass(frozen=True)
class PlainFile:
    """An HDF5 file that this process reads, because mcage itself has made it."""

    path: str | os.PathLike[str]

    def describe(
        self, datasets: Sequence[str], attributes: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """Types and shapes of datasets, and attributes: as `plain_hdf5.describe`."""
        return plain_hdf5.describe(os.fspath(self.path), datasets, attributes)

    def read(self, dataset: str, dtype: npt.DTypeLike, shape: Sequence[int]) -> npt.NDArray[Any]:
        """Content of a dataset that `describe` has described with this type and shape."""
        pieces = [
            np.empty((0, *shape[1:]), dtype),
            *plain_hdf5.slabs(os.fspath(self.path), dataset),
        ]
        return np.concatenate(pieces)


# Reads HDF5 files that other programs have made, in a second process, which may crash.
#
# A damaged file can crash the HDF5 library. mcage therefore reads such files in a reader process.
# It is started for the first file, reads all others as well, and ends together with mcage. If it
# crashes or computes for too long, the file is refused, and a new reader is started for the next
# file.

SECONDS = 4
"""Processor time that the reader has for a file, in seconds."""

BYTES_PER_SECOND = 10 << 20
"""For each of these numbers of bytes, on disk or to be sent, the reader has a second more."""

SECONDS_TO_WAIT = 1800
"""Time by the clock for the start, and for each answer: that it ends says nothing of the file."""


@dataclass(frozen=True)
class ForeignFile:
    """An HDF5 file that is read in the reader process.

    Every method raises `UserError` if the file cannot be read, is not a regular file, is larger
    than stated, contains something that `plain_hdf5` does not read, or makes the HDF5 library
    crash or search without end.

    Parameters
    ----------
    path : path
        The file.
    most_bytes : int
        Largest size on disk.
    """

    path: str | os.PathLike[str]
    most_bytes: int

    def describe(
        self, datasets: Sequence[str], attributes: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """Types and shapes of datasets, and the content of attributes: `plain_hdf5.describe`."""
        return dict(self._ask("describe", datasets=list(datasets), attributes=dict(attributes)))

    def read(self, dataset: str, dtype: npt.DTypeLike, shape: Sequence[int]) -> npt.NDArray[Any]:
        """Content of a dataset that `describe` has described with this type and shape."""
        array = np.empty(shape, dtype)
        content = array.reshape(-1).view(np.uint8).data
        try:
            sent = self._ask("slabs", content, dataset=dataset)
        except BufferTooShort:
            sent = None
        if sent != array.nbytes:
            raise UserError(f"{Path(self.path)}: {dataset}: has changed while it was read")
        return array

    def look_through(self) -> dict[str, Any]:
        """Read the whole file and say what it contains: `plain_hdf5.look_through`.

        After this, the file may be read by the HDF5 library in this process, too.
        """
        return dict(self._ask("look_through"))

    def _ask(self, action: str, into: memoryview | None = None, **arguments: Any) -> Any:
        with open_regular(self.path, self.most_bytes) as stream:
            size = os.fstat(stream.fileno()).st_size
        with _Process.lock:
            return _Process.running().ask(self.path, size, action, into, arguments)


class _Process:
    """The reader process, as this process sees it; there is one at a time."""

    lock = threading.Lock()
    _running: "_Process | None" = None

    @classmethod
    def running(cls) -> "_Process":
        """The reader process, which is started if none is running; the caller holds the lock."""
        if cls._running is None or not cls._running._serves():
            cls._running = cls()
        return cls._running

    def _serves(self) -> bool:
        """Whether the reader is alive, and was started by this process, not by its parent."""
        return self._owner == os.getpid() and self._process.poll() is None

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._connection, theirs = Pipe()
        # -P: nothing is imported from the folder of the program or from the current folder. The
        # reader gets a new session, so that Ctrl-C reaches this process only.
        command = [sys.executable, "-P", plain_hdf5.__file__, str(theirs.fileno())]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env={
                **os.environ,
                "OPENBLAS_NUM_THREADS": "1",
                "OMP_NUM_THREADS": "1",
                "HDF5_PLUGIN_PRELOAD": "::",  # only the filters of HDF5 itself
            },
        )
        theirs.close()
        atexit.register(self.end)
        try:
            self._message()
        except (EOFError, TimeoutError) as error:
            self.end()
            raise RuntimeError(
                f"the process that reads HDF5 files does not start: {' '.join(command)}"
            ) from error

    def ask(
        self,
        path: str | os.PathLike[str],
        size: int,
        action: str,
        into: memoryview | None,
        arguments: dict[str, Any],
    ) -> Any:
        """Send a request to the reader, fill the buffer with what it sends, return its answer."""
        seconds = SECONDS + (size + (into.nbytes if into else 0)) // BYTES_PER_SECOND
        # The real path: /dev/stdin and /proc/self/fd are others in another process.
        arguments = {"path": os.path.realpath(path), **arguments}
        request = {"action": action, "arguments": arguments, "seconds": seconds}
        filled = 0
        try:
            self._connection.send_bytes(json.dumps(request).encode())
            while "bytes" in (message := self._message()):
                filled += self._connection.recv_bytes_into(into, filled)
        except TimeoutError as error:
            self.end()
            raise UserError(
                f"{Path(path)}: cannot be read: the process that reads it has not had the time in "
                f"{SECONDS_TO_WAIT:,} s; the machine or its disk is busy"
            ) from error
        except (EOFError, OSError) as error:
            raise UserError(f"{Path(path)}: {self._cause_of_death(seconds)}") from error
        except (
            BaseException
        ):  # also Ctrl-C: an answer still to come would be taken for that to a later request
            self.end()
            raise
        if "refused" in message:
            raise UserError(f"{Path(path)}: {message['refused']}")
        return message["answer"]

    def _message(self) -> dict[str, Any]:
        if not self._connection.poll(SECONDS_TO_WAIT):
            raise TimeoutError
        return dict(json.loads(self._connection.recv_bytes()))

    def _cause_of_death(self, seconds: int) -> str:
        self.end()
        code = self._process.returncode
        if code == -signal.SIGKILL:
            return "cannot be read: the process that reads it was killed"
        if code == -signal.SIGXCPU:
            time = f"{seconds} s of processor time"
            return f"the HDF5 library does not come to an end with it in {time}; it is damaged"
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"the HDF5 library crashes on it ({name}); it is damaged"

    def end(self) -> None:
        """End the reader, even while it reads."""
        atexit.unregister(self.end)
        if self._owner == os.getpid():
            type(self)._running = None
            self._connection.close()
            self._process.kill()
            self._process.wait()
