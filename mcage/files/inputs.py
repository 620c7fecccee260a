"""Files that a user names as input: regular ones only, of a stated size at most.

A FIFO or a device may keep whoever opens or reads it waiting for ever, or never end.
"""

import datetime
import hashlib
import math
import os
import re
import stat
import sys
import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import BytesIO
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from mcage.errors import UserError
from mcage.plain_text import one_line, shortened

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIB = 1 << 20


class UnreadableFileError(UserError):
    """A file cannot be opened, or must not be; ``reason`` says why, without its name."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"cannot read {Path(path)}: {reason}")
        self.reason = reason


_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def named_file(path: object) -> Path:
    """Path of a file that a user of Python names.

    Raises
    ------
    UserError
        It is neither a text nor a path.
    """
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str):
        raise UserError(
            f"{shortened(path)} is of type {type(path).__name__}: a file is needed by its name, "
            "str or pathlib.Path; what is in memory has to be written first"
        )
    return Path(name)


PathLike = str | os.PathLike[str]
Files = PathLike | Sequence[PathLike]
Texts = str | Sequence[str]


def named_files(files: Files) -> list[Path]:
    """Paths of the files that a user of Python names: one, or several."""
    if isinstance(files, list | tuple):
        return [named_file(file) for file in files]
    return [named_file(files)]


def listed(texts: Texts) -> list[str]:
    """Return the texts that a user of Python gives: one, or several."""
    return [texts] if isinstance(texts, str) else list(texts)


def open_regular(path: str | os.PathLike[str], most_bytes: int = sys.maxsize) -> BinaryIO:
    """Open a regular file for reading; symbolic links to one are followed.

    Parameters
    ----------
    path : path
        The file.
    most_bytes : int, optional
        Largest size on disk.

    Raises
    ------
    UnreadableFileError
        It cannot be opened, is no regular file, or is larger; the message names it.
    """
    try:
        # Without O_NONBLOCK, opening a FIFO waits for somebody who writes into it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a name with a null character in it
        raise UnreadableFileError(path, getattr(error, "strerror", None) or str(error)) from error
    try:
        status = os.fstat(descriptor)
        _require_regular(path, status, most_bytes)
        if not status.st_size:
            os.pread(descriptor, 1, 0)  # a file in /proc may have no size, or make readers wait
    except UnreadableFileError:
        os.close(descriptor)
        raise
    except OSError as error:
        os.close(descriptor)
        raise UnreadableFileError(path, str(error.strerror)) from error
    return os.fdopen(descriptor, "rb")


def read_regular(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Content of a regular file.

    Parameters
    ----------
    path, most_bytes
        As in `open_regular`.

    Raises
    ------
    UnreadableFileError
        As in `open_regular`, or the file cannot be read.
    """
    with open_regular(path, most_bytes) as stream:
        try:
            return stream.read(most_bytes) or b""  # None: of a file in /proc that would wait
        except OSError as error:
            raise UnreadableFileError(path, str(error.strerror)) from error


def array_of_npy(content: bytes) -> "NDArray[Any]":
    """Array of the content of a NumPy file, which is as long as its header says.

    Raises
    ------
    ValueError
        It is none, its elements are Python objects, or its data have another length.
    """
    import numpy as np

    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    stream = BytesIO(content)
    try:
        shape, _, dtype = readers[np.lib.format.read_magic(stream)](stream)
    except Exception as error:  # of a damaged header, NumPy raises whatever its parsers do
        raise ValueError(one_line(str(error))) from error
    if dtype.hasobject:
        raise ValueError("its elements are Python objects")
    if len(content) - stream.tell() != math.prod(shape) * dtype.itemsize:
        raise ValueError("its data is not as long as its header says")
    array: NDArray[Any] = np.load(BytesIO(content), allow_pickle=False)
    return array


def _require_regular(path: str | os.PathLike[str], status: os.stat_result, most_bytes: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise UnreadableFileError(path, "Is a directory")
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise UnreadableFileError(path, f"it is {kind}; a regular file is needed")
    if status.st_size > most_bytes:
        raise UnreadableFileError(
            path,
            f"it has {status.st_size / MIB:,.1f} MiB; at most {most_bytes // MIB:,} MiB are read",
        )


# The checksum of a file: a line behind its last byte, with the digest of everything before it.
#
# HDF5 readers ignore what follows the end that their own header names. The checksum is verified
# before HDF5 sees a byte: on damaged files that library may loop for ever, and the checksums of
# chunks do not cover texts and coordinates.

CHECKSUM_MARK = b"\nmcage-seal blake2b "
_HEX_DIGITS = 64
CHECKSUM_BYTES = len(CHECKSUM_MARK) + _HEX_DIGITS + 1
_PIECE_BYTES = 1 << 20

MOST_BYTES = 1 << 36
"""Largest file that is read: 64 GiB."""


class DamagedFileError(Exception):
    """A file is not as mcage wrote it; the text says which and how."""


def append_checksum_to(stream: BinaryIO) -> None:
    """Append its checksum to a file that is open for reading and writing."""
    content_bytes = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    line = _line(stream, content_bytes)
    stream.seek(0, os.SEEK_END)
    stream.write(line)


def verify_checksum(path: Path) -> str:
    """Make sure that a file is, to the last bit, as it was written.

    Returns
    -------
    str
        The checksum: files with the same checksum have the same content.

    Raises
    ------
    DamagedFileError
        It has no checksum, or not that of its content.
    UserError
        It cannot be read, is no regular file, or larger than `MOST_BYTES`.
    """
    with open_regular(path, MOST_BYTES) as stream:
        try:
            content_bytes = max(0, os.fstat(stream.fileno()).st_size - CHECKSUM_BYTES)
            stream.seek(content_bytes)
            line = stream.read() or b""  # None: of a file in /proc that would wait
            if not line.startswith(CHECKSUM_MARK):
                if _is_trace(stream):
                    raise UserError(f"{path} is a trace, not results: `mcage trace show` shows it")
                raise DamagedFileError(f"{path} is truncated, or was not written by mcage")
            stream.seek(0)
            expected = _line(stream, content_bytes)
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
    if line != expected:
        raise DamagedFileError(f"{path} is damaged, or was changed after mcage had written it")
    return line[len(CHECKSUM_MARK) :].decode().strip()


HDF5_MARK = b"\x89HDF\r\n\x1a\n"
"""How every HDF5 file begins."""

_OF_TRACES = b"max_windows", b"window_size"


def _is_trace(stream: BinaryIO) -> bool:
    """Whether a file has the attributes of a trace, whose names stand somewhere in its bytes."""
    with suppress(ValueError), mmap(stream.fileno(), 0, access=ACCESS_READ) as content:
        is_hdf5 = content[: len(HDF5_MARK)] == HDF5_MARK
        return is_hdf5 and all(content.find(name) > 0 for name in _OF_TRACES)
    return False  # an empty file


def _line(stream: BinaryIO, content_bytes: int) -> bytes:
    checksum = hashlib.blake2b(digest_size=_HEX_DIGITS // 2)
    left = content_bytes
    while left and (piece := stream.read(min(left, _PIECE_BYTES))):
        checksum.update(piece)
        left -= len(piece)
    return CHECKSUM_MARK + checksum.hexdigest().encode() + b"\n"


# TOML files as plain values, and which plain values no key of a spec can have.

MOST_TOML_BYTES = 4 * MIB
"""Largest TOML file: a spec holds its recorded launches and its draws."""

_DEEPEST = 7
"""Depth of tables and lists in each other; constants of costs in a spec need all of it."""

_LARGEST_INTEGER = 2**64

_DEEP_KEY = re.compile(r"""(?:\.\s*[\w"'-]{1,80}\s*){100}""")
"""Part of a dotted key; TOML readers take a time for it that grows with the square of its parts."""


class OddValueError(ValueError):
    """A value that no key of a spec can have."""


def read_toml(path: Path) -> dict[str, Any]:
    """Read the plain values of a TOML file.

    Raises
    ------
    UserError
        If it cannot be read or is no TOML, or if a value is no finite number of moderate size.
    """
    try:
        return parse_toml(read_regular(path, MOST_TOML_BYTES).decode("utf-8-sig"))
    except UnreadableFileError as error:
        raise UserError(f"{path}: cannot read the file ({error.reason})") from error
    except OddValueError as error:
        raise UserError(f"{path}: {error}") from error
    except ValueError as error:  # also bytes that are no text, and numbers beyond Python's limit
        raise UserError(f"{path}: not TOML ({error})") from error


def parse_toml(text: str) -> dict[str, Any]:
    """Read the plain values of a TOML text.

    Raises
    ------
    NotPlainError
        If a key or a value is one that no spec can have.
    ValueError
        If the text is no TOML.
    """
    if _DEEP_KEY.search(text):
        raise OddValueError("a key of more than a hundred parts; a spec needs seven")
    try:
        fields = tomllib.loads(text)
    except RecursionError as error:
        raise OddValueError("not TOML that can be read (nested too deep)") from error
    check_plain("", fields)
    return fields


def check_plain(key: str, value: Any, depth: int = 0) -> None:
    """Refuse what no key of a spec can have, and what could not be written as JSON.

    Parameters
    ----------
    key : str
        Dotted key of the value; empty for the whole spec.
    value : object
        Nested plain values.
    depth : int
        Number of tables and lists around the value.

    Raises
    ------
    NotPlainError
        The message names key and value.
    """
    if depth > _DEEPEST:
        raise OddValueError(f"{one_line(key)}: tables and lists are nested too deep")
    names: Iterable[Any] = value if isinstance(value, dict) else ()
    if isinstance(value, list | tuple):
        names = range(len(value))
    for name in names:
        _check_text(f"{key}: a key", name)
        check_plain(f"{key}.{name}" if key else str(name), value[name], depth + 1)
    _check_text(key, value)
    if isinstance(value, datetime.date | datetime.time):
        raise OddValueError(f"{one_line(key)} = {value} must be no date or time; text needs quotes")
    if isinstance(value, float) and not math.isfinite(value):
        raise OddValueError(f"{one_line(key)} = {value} must be a finite number")
    if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        raise OddValueError(f"{one_line(key)} = {shortened(value)} must be at most 2**64")


def _check_text(key: str, value: Any) -> None:
    try:
        _ = isinstance(value, str) and value.encode()
    except UnicodeEncodeError:
        raise OddValueError(f"{one_line(key)} = {shortened(value)}: must be UTF-8 text") from None
