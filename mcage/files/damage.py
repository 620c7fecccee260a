"""What HDF5 can still read of a file that is damaged, chunk by chunk.

HDF5 crashes, or searches for ever, on some damaged files, so this module is also a program, which
looks at a file in a process with limits on its time and memory. It imports nothing of mcage. A
chunk counts as whole if it lies within the file, has been written through all filters, and has the
right Fletcher checksum. What lies behind the end of a truncated file is read as zeros.
"""

import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py

if TYPE_CHECKING:
    from typing_extensions import Buffer

_SECONDS = 4
_BYTES_PER_SECOND = 10 << 20
_MEMORY_BYTES = 1 << 30
_END_OF_FILE = slice(28, 36)
"""Where a superblock of version 2 or 3 keeps the length that HDF5 knows of the file."""


class Padded(io.RawIOBase):
    """A file for reading, with zeros up to the length that HDF5 expects.

    Parameters
    ----------
    path : path
        The file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # waits for nobody
        self._stream = open(descriptor, "rb", buffering=0)  # noqa: SIM115, closed by `close`
        self.held_bytes = os.fstat(self._stream.fileno()).st_size
        head = os.pread(self._stream.fileno(), 64, 0)
        self._length = max(self.held_bytes, int.from_bytes(head[_END_OF_FILE], "little") % 2**40)
        self._position = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a place."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._length}
        self._position = base[whence] + offset
        return self._position

    def readinto(self, buffer: "Buffer", /) -> int:
        """Fill the buffer, with zeros behind the end of the file."""
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view) and (
            count := os.preadv(self._stream.fileno(), [view[filled:]], self._position + filled)
        ):
            filled += count
        view[filled:] = bytes(len(view) - filled)
        self._position += len(view)
        return len(view)

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def seekable(self) -> bool:
        """Say that it has places."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()


def look_at_damage(path: Path) -> dict[str, Any] | None:
    """What is still whole of a damaged file, found out by another process.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict or None
        ``attributes``: texts and integers of the file by name, those that can be read.
        ``datasets``: by name ``dtype``, ``shape``, ``chunks`` and ``broken``, the first indices of
        the chunks that are not whole; None for a dataset without checksums or that cannot be
        opened. None if HDF5 does not open the file, crashes on it or takes too long.
    """
    seconds = _SECONDS + path.stat().st_size // _BYTES_PER_SECOND
    run = subprocess.run(
        [sys.executable, "-P", __file__, os.path.realpath(path), str(seconds)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "HDF5_PLUGIN_PRELOAD": "::"},
        start_new_session=True,
    )
    if run.returncode:
        return None
    said: dict[str, Any] = json.loads(run.stdout)
    return said


def _seen(path: str) -> dict[str, Any]:
    with Padded(path) as stream, h5py.File(stream, "r") as file:
        names = [name.decode() for name in file.id]
        return {
            "attributes": _texts_and_integers(file.attrs),
            "datasets": {name: _tried(file, name, stream.held_bytes) for name in names},
        }


def _texts_and_integers(held: Mapping[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for name in held:
        try:
            content = held[name]
            if isinstance(content, bytes | str):
                known[name] = content.decode() if isinstance(content, bytes) else content
            elif content.dtype.kind in "iu" and content.shape == ():
                known[name] = int(content)
        except Exception:  # h5py meets damage with any kind of exception
            continue
    return known


def _tried(file: h5py.File, name: str, held_bytes: int) -> dict[str, Any] | None:
    try:
        dataset = file[name]
        if not dataset.fletcher32:
            return None
        chunks = [tuple(part.start for part in place) for place in dataset.iter_chunks()]
        broken = [place for place in chunks if not _is_whole(dataset, place, held_bytes)]
        shape = [list(dataset.shape), list(dataset.chunks)]
    except Exception:
        return None
    return {"dtype": dataset.dtype.str, "shape": shape[0], "chunks": shape[1], "broken": broken}


def _is_whole(dataset: h5py.Dataset, place: tuple[int, ...], held_bytes: int) -> bool:
    try:
        stored = dataset.id.get_chunk_info_by_coord(place)
        if stored.byte_offset is None or stored.byte_offset + stored.size > held_bytes:
            return False
        if stored.filter_mask:
            return False
        spans = zip(place, dataset.chunks, strict=True)
        _ = dataset[tuple(slice(first, first + length) for first, length in spans)]
    except Exception:
        return False
    return True


def main(path: str, seconds: int) -> None:
    """Limit this process, look at the file, and print what was seen as JSON."""
    with open("/proc/self/statm", encoding="ascii") as status:
        pages = int(status.read().split()[0])
    memory = pages * resource.getpagesize() + _MEMORY_BYTES
    for limit, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
    ):
        _, hard = resource.getrlimit(limit)
        resource.setrlimit(
            limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard)
        )
    print(json.dumps(_seen(path)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
