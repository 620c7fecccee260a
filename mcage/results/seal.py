"""The seal of a file: one line behind its last byte, the checksum of everything before it.

HDF5 readers ignore what follows the end that their own header names. The seal is checked before
HDF5 sees a byte: on damaged files that library may loop for ever, and chunk checksums alone do
not cover texts and coordinates.
"""

import hashlib
from pathlib import Path
from typing import BinaryIO

from mcage.errors import UserError

_MARK = b"\nmcage-seal blake2b "
_HEX_DIGITS = 64
_LENGTH = len(_MARK) + _HEX_DIGITS + 1
_PIECE_BYTES = 1 << 20


class DamagedFileError(Exception):
    """A file is not as mcage wrote it; the text says which and how."""


def seal(path: Path) -> None:
    """Append the seal to a file that is complete otherwise."""
    with path.open("r+b") as stream:
        line = _line(stream, path.stat().st_size)
        stream.write(line)


def check_seal(path: Path) -> None:
    """Make sure that a file is, to the last bit, what was sealed.

    Raises
    ------
    DamagedFileError
        It has no seal, or another content.
    UserError
        It cannot be read.
    """
    try:
        with path.open("rb") as stream:
            content_bytes = max(0, path.stat().st_size - _LENGTH)
            expected = _line(stream, content_bytes)
            found = stream.read()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if not found.startswith(_MARK):
        raise DamagedFileError(f"{path} is truncated, or was not written by mcage")
    if found != expected:
        raise DamagedFileError(f"{path} is damaged, or was changed after mcage had written it")


def _line(stream: BinaryIO, content_bytes: int) -> bytes:
    checksum = hashlib.blake2b(digest_size=_HEX_DIGITS // 2)
    left = content_bytes
    while left and (piece := stream.read(min(left, _PIECE_BYTES))):
        checksum.update(piece)
        left -= len(piece)
    return _MARK + checksum.hexdigest().encode() + b"\n"
