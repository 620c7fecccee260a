"""The checksum of a file: a line behind its last byte, with the digest of everything before it.

HDF5 readers ignore what follows the end that their own header names. The checksum is verified
before HDF5 sees a byte: on damaged files that library may loop for ever, and the checksums of
chunks do not cover texts and coordinates.
"""

import hashlib
import os
from pathlib import Path
from typing import BinaryIO

from mcage.errors import UserError
from mcage.files.inputs import open_regular

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
                raise DamagedFileError(f"{path} is truncated, or was not written by mcage")
            stream.seek(0)
            expected = _line(stream, content_bytes)
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
    if line != expected:
        raise DamagedFileError(f"{path} is damaged, or was changed after mcage had written it")
    return line[len(CHECKSUM_MARK) :].decode().strip()


def _line(stream: BinaryIO, content_bytes: int) -> bytes:
    checksum = hashlib.blake2b(digest_size=_HEX_DIGITS // 2)
    left = content_bytes
    while left and (piece := stream.read(min(left, _PIECE_BYTES))):
        checksum.update(piece)
        left -= len(piece)
    return CHECKSUM_MARK + checksum.hexdigest().encode() + b"\n"
