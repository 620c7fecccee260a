"""The seal of a file: one line behind its last byte, the checksum of everything before it.

HDF5 readers ignore what follows the end that their own header names. The seal is checked before
HDF5 sees a byte: on damaged files that library may loop for ever, and chunk checksums alone do
not cover texts and coordinates.
"""

import hashlib
import os
from pathlib import Path
from typing import BinaryIO

from mcage.errors import UserError
from mcage.files.inputs import open_regular

SEAL_MARK = b"\nmcage-seal blake2b "
_HEX_DIGITS = 64
SEAL_BYTES = len(SEAL_MARK) + _HEX_DIGITS + 1
_PIECE_BYTES = 1 << 20

MOST_BYTES = 1 << 36
"""Largest sealed file: 64 GiB."""


class DamagedFileError(Exception):
    """A file is not as mcage wrote it; the text says which and how."""


def seal(path: Path) -> None:
    """Append the seal to a file that is complete otherwise."""
    with path.open("r+b") as stream:
        seal_stream(stream)


def seal_stream(stream: BinaryIO) -> None:
    """Append the seal to a file that is open for reading and writing."""
    content_bytes = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    line = _line(stream, content_bytes)
    stream.seek(0, os.SEEK_END)
    stream.write(line)


def check_seal(path: Path) -> str:
    """Make sure that a file is, to the last bit, what was sealed.

    Returns
    -------
    str
        The checksum: files of the same one have the same content.

    Raises
    ------
    DamagedFileError
        It has no seal, or another content.
    UserError
        It cannot be read, is no regular file, or larger than `MOST_BYTES`.
    """
    with open_regular(path, MOST_BYTES) as stream:
        try:
            content_bytes = max(0, os.fstat(stream.fileno()).st_size - SEAL_BYTES)
            stream.seek(content_bytes)
            found = stream.read()
            if not found.startswith(SEAL_MARK):
                raise DamagedFileError(f"{path} is truncated, or was not written by mcage")
            stream.seek(0)
            expected = _line(stream, content_bytes)
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
    if found != expected:
        raise DamagedFileError(f"{path} is damaged, or was changed after mcage had written it")
    return found[len(SEAL_MARK) :].decode().strip()


def _line(stream: BinaryIO, content_bytes: int) -> bytes:
    checksum = hashlib.blake2b(digest_size=_HEX_DIGITS // 2)
    left = content_bytes
    while left and (piece := stream.read(min(left, _PIECE_BYTES))):
        checksum.update(piece)
        left -= len(piece)
    return SEAL_MARK + checksum.hexdigest().encode() + b"\n"
