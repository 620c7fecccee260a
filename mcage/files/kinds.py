"""Kinds of files, recognised by their content: a new file replaces only one of its own kind."""

import os
from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcage.errors import UserError
from mcage.files.checksum import CHECKSUM_BYTES, CHECKSUM_MARK
from mcage.files.inputs import open_regular
from mcage.plain_text import shown_path

HEAD_BYTES = 4096


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes
    ----------
    name : str
        Words that name this kind in messages.
    fits : callable
        ``fits(head, tail)``: whether a file with these first and last bytes is of this kind.
    """

    name: str
    fits: Callable[[bytes, bytes], bool]

    def is_kind_of(self, path: Path) -> bool:
        """Whether a regular file is of this kind. An empty file is of every kind.

        Raises
        ------
        UnreadableFileError, OSError
            It is no regular file, or cannot be read.
        """
        head, tail = _ends(path)
        return not head or self.fits(head, tail)


def _ends(path: Path) -> tuple[bytes, bytes]:
    with open_regular(path) as stream:
        head = stream.read(HEAD_BYTES) or b""
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - CHECKSUM_BYTES))
        return head, stream.read(CHECKSUM_BYTES) or b""


def same_as(path: Path) -> Kind:
    """Return the kind of the file that is now at a path: only that content may be replaced.

    Parameters
    ----------
    path : Path
        A file with a checksum, by which it is known again.

    Raises
    ------
    UnreadableFileError, OSError
        It is no regular file, or cannot be read.
    """
    ends = _ends(path)
    return Kind("the file that was there before", lambda head, tail: (head, tail) == ends)


def _begins(*beginnings: bytes) -> Callable[[bytes, bytes], bool]:
    return lambda head, _: head.startswith(beginnings)


def _is_text(head: bytes) -> bool:
    try:
        getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _is_svg(head: bytes, _: bytes) -> bool:
    return _is_text(head) and b"<svg" in head


def _is_json(head: bytes, _: bytes = b"") -> bool:
    return _is_text(head) and head.lstrip()[:1] in (b"{", b"[")


def _is_csv(head: bytes, _: bytes) -> bool:
    return _is_text(head) and not _is_json(head) and b"," in head.split(b"\n")[0]


def _is_trace(head: bytes, tail: bytes) -> bool:
    return head.startswith(b"\x89HDF\r\n\x1a\n") and not tail.startswith(CHECKSUM_MARK)


PNG = Kind("a PNG figure", _begins(b"\x89PNG\r\n\x1a\n"))
PDF = Kind("a PDF figure", _begins(b"%PDF-"))
SVG = Kind("an SVG figure", _is_svg)
JSON = Kind("a JSON file", _is_json)
CSV = Kind("a CSV table", _is_csv)
TRACE = Kind("a trace", _is_trace)
PROFILE = Kind("a profile of a trace", _begins(b'{"format":"mcage profile'))

FIGURES = {".png": PNG, ".pdf": PDF, ".svg": SVG}
TABLES = {".json": JSON, ".csv": CSV}


def kind_of_name(path: Path, suffixes: Sequence[str]) -> Kind:
    """Kind of a file that is to be written, by the end of its name.

    Parameters
    ----------
    path : Path
        Path of the file.
    suffixes : sequence of str
        Ends of a name that are allowed, each a key of `FIGURES` or `TABLES`.

    Raises
    ------
    UserError
        The name ends in none of these.
    """
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        *others, last = suffixes
        known = f"{', '.join(others)} or {last}" if others else last
        raise UserError(f"cannot write {shown_path(path)}: its name must end in {known}")
    return (FIGURES | TABLES)[suffix]
