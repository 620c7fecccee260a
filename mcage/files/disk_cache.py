"""A cache on disk for arrays that are costly to compute and small.

An entry is a file in the user's cache folder, named by the digest of all that decides its content.
Nothing in it is believed without a check: a file that is damaged or cut off is made again, and so
is one that another user has written, or could have. Files appear whole or not at all, so that any
number of processes may use the folder. Where nothing can be written, results are the same and take
longer.
"""

import grp
import hashlib
import json
import mmap
import os
import pwd
import re
import shutil
import stat
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from mcage.files.inputs import UnreadableFileError, open_regular
from mcage.plain_text import shown_path

FOLDER_VARIABLE = "MCAGE_CACHE"
"""Names another folder; ``off`` keeps nothing."""

MOST_BYTES = 1 << 31
"""Size of all entries; those that have not been used for longest make room for others."""

CODE = "numba-"
"""How names of folders of machine code begin."""

MOST_CODE_FOLDERS = 4
"""In a place: each version of mcage has one, of a few megabytes."""

Arrays = dict[str, NDArray[Any]]

_MARK = b"mcage kept arrays 1\n"
_BEGIN = len(_MARK) + 16
"""Behind the mark stand the checksum of all that follows, and the length of the header."""

_SUFFIX, _PARTIAL = ".kept", ".partial"
_ENTRY = re.compile(r"[0-9a-f]{32}\.kept|tmp\w+\.partial")
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
    if not is_own_folder(folder):
        warn_of_others(folder)
        return make()
    path = folder / (hashlib.blake2b(key.encode(), digest_size=16).hexdigest() + _SUFFIX)
    arrays = _read(path, key)
    if arrays is None:
        arrays = make()
        _write(path, key, arrays)
    return arrays


def cache_folder() -> Path | None:
    """Folder of the entries, which may not exist yet; None where nothing is to be kept."""
    folder = os.environ.get(FOLDER_VARIABLE, "")
    if folder.lower() == "off":
        return None
    if folder:
        return Path(folder)
    user = user_folder()
    return user / "arrays" if user else None


def user_folder() -> Path | None:
    """Folder of mcage in the user's cache; None for a user without a home."""
    place = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not place.is_absolute():  # which the XDG Base Directory Specification has ignored
        place = Path(os.path.expanduser("~")) / ".cache"
    return place / "mcage" if place.is_absolute() else None


def is_own_folder(folder: Path) -> bool:
    """Make a folder of the cache if there is none; whether its content can be believed."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return not others_may_write(folder.stat())
    except OSError:
        return False


def code_folder(name: str, *places: Path) -> str:
    """Folder of machine code, made in the first place where none but this user can change it.

    Loading machine code runs it, so that a folder is not used if another user has written any file
    in it, or could have. A new folder takes the room of those that were not used for longest.

    Parameters
    ----------
    name : str
        What the name of the folder ends in.
    *places : Path
        Where it may lie; the user's cache comes last.

    Returns
    -------
    str
        Empty where there is no such place.
    """
    user = user_folder()
    folders = [place / f"{CODE}{name}" for place in (*places, *([user] if user else []))]
    for folder in folders:
        is_new = not os.path.exists(folder)
        if is_own_folder(folder) and os.access(folder, os.W_OK) and all_own(folder):
            os.utime(folder)
            if is_new:
                _remove_oldest(folder.parent)
            return str(folder)
    for folder in folders:
        if os.access(folder, os.W_OK):
            _warn(folder)
    return ""


def code_folders(place: Path) -> list[Path]:
    """Folders of machine code in a place, those that were used last at the end."""
    return _oldest_first(place.glob(f"{CODE}*"))


def array_files(folder: Path) -> list[Path]:
    """Files of arrays, also unfinished ones, those that were used last at the end."""
    return _oldest_first(path for path in folder.glob("*") if _ENTRY.fullmatch(path.name))


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; 0 of what has gone."""
    with suppress(OSError):
        return sum(part.lstat().st_size for part in (path, *path.rglob("*")))
    return 0


def remove(path: Path) -> bool:
    """Remove a file or a folder of the cache; whether it could be."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
    return not os.path.lexists(path)


def _oldest_first(paths: Iterable[Path]) -> list[Path]:
    used = {}
    with suppress(OSError):  # a folder in which this user may not look
        for path in paths:
            with suppress(OSError):  # another process has removed it
                used[path] = path.lstat().st_mtime
    return sorted(used, key=used.__getitem__)


def all_own(folder: Path) -> bool:
    """Whether no file in a folder is or could have been written by another user."""
    reached_by_others = folder.stat().st_mode & 0o077
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # another process has given it its final name
            status = path.lstat()
            if others_may_write(status) if reached_by_others else status.st_uid != os.geteuid():
                return False
    return True


def _remove_oldest(place: Path) -> None:
    for folder in code_folders(place)[:-MOST_CODE_FOLDERS]:
        remove(folder)


def warn_of_others(folder: Path) -> None:
    """Say, once, that a folder is not used because of other users, if that is the reason."""
    with suppress(OSError):
        if others_may_write(folder.stat()):
            _warn(folder)


def _warn(folder: Path) -> None:
    warnings.warn(
        f"the cache {shown_path(folder)} is not used: it belongs to another user, or others may "
        "write into it (if it is yours: mcage cache --clear, then chmod go-w)",
        stacklevel=1,
    )


def others_may_write(status: os.stat_result) -> bool:
    """Whether a file or a folder belongs to another user, or may be written by others."""
    if status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_of_user_alone(status.st_gid)


def _is_of_user_alone(group: int) -> bool:
    """Whether a group is named like the user and has no other members, as Linux makes them."""
    try:
        name, entry = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == name and set(entry.gr_mem) <= {name}


def _read(path: Path, key: str) -> Arrays | None:
    """Arrays of a file, which may be written to without changing it; None if it is not whole."""
    try:
        with open_regular(path) as stream:
            if others_may_write(os.fstat(stream.fileno())):
                return None
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        arrays = _arrays_of(content, key)
    except (UnreadableFileError, OSError, ValueError, KeyError, TypeError, RecursionError):
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
    sizes = {path: size_of(path) for path in array_files(folder)}
    left = sum(sizes.values())
    for path, size in sizes.items():
        if left <= MOST_BYTES:
            return
        remove(path)
        left -= size


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _padding(size: int) -> bytes:
    return bytes(_aligned(size) - size)


# Records of numbers and arrays as arrays by name, and back: what a file of arrays can hold.

Record = TypeVar("Record")

_NUMBERS = (bool, int, float)


def arrays_of_record(record: Any, name: str) -> dict[str, NDArray[Any]]:
    """Arrays of a record: a dataclass or named tuple of arrays, numbers, and such records.

    Parameters
    ----------
    record : dataclass or named tuple
        The record.
    name : str
        What the names of its arrays begin with.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for field, kind in _fields(type(record)):
        value = getattr(record, field)
        if _is_record(kind):
            arrays |= arrays_of_record(value, f"{name}.{field}")
        else:
            arrays[f"{name}.{field}"] = np.asarray(value)
    return arrays


def record_of_arrays(kind: type[Record], arrays: dict[str, NDArray[Any]], name: str) -> Record:
    """The record that `arrays_of_record` has made arrays of; it has these arrays, not copies.

    Parameters
    ----------
    kind : type
        Type of the record.
    arrays : dict of str to array
        Its arrays, and any others.
    name : str
        What the names of its arrays begin with.
    """
    values: dict[str, Any] = {}
    for field, of_field in _fields(kind):
        if _is_record(of_field):
            values[field] = record_of_arrays(of_field, arrays, f"{name}.{field}")
        else:
            array = arrays[f"{name}.{field}"]
            values[field] = array.item() if of_field in _NUMBERS else array
    return kind(**values)


def _fields(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    for name in names:
        yield name, hints[name]


def _is_record(kind: Any) -> bool:
    return is_dataclass(kind) or hasattr(kind, "_fields")
