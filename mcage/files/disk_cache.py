"""What is costly to compute and small to keep: arrays on disk, for the runs to come.

An entry is a file in the user's cache folder, named by the digest of all that decides its content.
Nothing in it is believed without a check: a file that is damaged, cut off or from elsewhere is made
again. Files appear whole or not at all, so that any number of processes may use the folder. Where
nothing can be written, results are the same and take longer.
"""

import hashlib
import json
import mmap
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER_VARIABLE = "MCAGE_CACHE"
"""Names another folder; ``off`` keeps nothing."""

MOST_BYTES = 1 << 31
"""Size of all entries; those that have not been used for longest make room for others."""

Arrays = dict[str, NDArray[Any]]

_MARK = b"mcage kept arrays 1\n"
_BEGIN = len(_MARK) + 16
"""Behind the mark stand the checksum of all that follows, and the length of the header."""

_SUFFIX, _PARTIAL = ".kept", ".partial"
_ALIGNED = 64
_KINDS = "biuf"


def kept_on_disk(key: str, make: Callable[[], Arrays]) -> Arrays:
    """Arrays of an entry; they are made, and kept, if they are not on the disk.

    Parameters
    ----------
    key : str
        All that decides what the arrays are.
    make : callable
        Makes them: arrays of numbers or truth values by name.
    """
    folder = cache_folder()
    if folder is None:
        return make()
    path = folder / (hashlib.blake2b(key.encode(), digest_size=16).hexdigest() + _SUFFIX)
    arrays = _read(path, key)
    if arrays is None:
        arrays = make()
        _write(path, key, arrays)
    return arrays


def cache_folder() -> Path | None:
    """Folder of the entries, which may not exist yet; None where nothing is to be kept."""
    given = os.environ.get(FOLDER_VARIABLE, "")
    if given.lower() == "off":
        return None
    if given:
        return Path(given)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcage" / "arrays"
    except RuntimeError:  # a user without a home
        return None


def _read(path: Path, key: str) -> Arrays | None:
    """Arrays of a file, which may be written to without changing it; None if it is not whole."""
    try:
        with path.open("rb") as stream:
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        arrays = _arrays_of(content, key)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    with suppress(OSError):
        os.utime(path)
    return arrays


def _arrays_of(content: mmap.mmap, key: str) -> Arrays:
    """Arrays of a content that is whole; any other raises ValueError, KeyError or TypeError."""
    checksum, length = _numbers(content[len(_MARK) : _BEGIN])
    behind: Any = memoryview(content)[_BEGIN:]
    if content[: len(_MARK)] != _MARK or checksum != zlib.crc32(behind):
        raise ValueError
    header = json.loads(content[_BEGIN : _BEGIN + length])
    if header["key"] != key:
        raise ValueError
    body, arrays = _aligned(_BEGIN + length), {}
    for name, (dtype, shape, offset) in header["arrays"].items():
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(content, np.dtype(dtype), count, body + offset)
        arrays[name] = array.reshape(shape)
    return arrays


def _numbers(words: bytes) -> tuple[int, int]:
    return int.from_bytes(words[:8], "little"), int.from_bytes(words[8:], "little")


def _write(path: Path, key: str, arrays: Arrays) -> None:
    """Write an entry if there is a place for it, and make room for it."""
    described, offset = {}, 0
    body: list[Any] = []
    for name, array in arrays.items():
        whole = np.ascontiguousarray(array)
        assert whole.dtype.kind in _KINDS
        described[name] = (whole.dtype.str, array.shape, offset)
        body += [whole.reshape(-1).view(np.uint8).data, _padding(whole.nbytes)]
        offset += _aligned(whole.nbytes)
    header = json.dumps({"key": key, "arrays": described}).encode()
    pieces: list[Any] = [header, _padding(_BEGIN + len(header)), *body]
    checksum = 0
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
    numbers = checksum.to_bytes(8, "little") + len(header).to_bytes(8, "little")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(path, [_MARK, numbers, *pieces])
        _make_room(path.parent)


def _write_whole(path: Path, pieces: list[Any]) -> None:
    """Write a file that appears when it is complete."""
    with NamedTemporaryFile(dir=path.parent, suffix=_PARTIAL, delete=False) as stream:
        try:
            stream.writelines(pieces)
            stream.close()
            os.replace(stream.name, path)
        except BaseException:
            os.unlink(stream.name)
            raise


def _make_room(folder: Path) -> None:
    """Remove the entries that have not been used for longest, until the rest is small enough."""
    files = []
    for path in folder.iterdir():
        if path.suffix in (_SUFFIX, _PARTIAL):
            with suppress(OSError):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
    left = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if left <= MOST_BYTES:
            return
        with suppress(OSError):
            path.unlink()
        left -= size


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _padding(size: int) -> bytes:
    return bytes(_aligned(size) - size)
