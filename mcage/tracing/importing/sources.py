"""Text files of other tools: plain, `.gz` or `.zst`, read once, some thousand lines at a time."""

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Protocol

from mcage.errors import UserError, pip_install
from mcage.files.inputs import MIB, open_regular
from mcage.plain_text import shortened, shown_path

BLOCK_BYTES = MIB // 4
"""Uncompressed text that is read at once."""

LONGEST_LINE = 4 * MIB
"""Bytes of a line; what the tools print for an instruction has a tenth of that at most."""

HEAD_BYTES = MIB // 4
"""Beginning of a file, uncompressed, by which its format is recognised."""

_MOST_FILE_BYTES = 1 << 42

_MOST_TEXT, _MOST_RATIO = 16 * MIB, 2048
"""A compressed file holds at most so much text, and so many times its size more.

Zstandard reaches 32,000, gzip 1,032; the most that a recording has reached is 1,300 (MGPUSim, which
prints all registers and 64 KiB of LDS with every instruction).
"""
_GZIP, _ZSTD, _BOM = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xef\xbb\xbf"

Told = Callable[["Source", int], None]
"""Receiver of progress: the file, and how many of its bytes on disk have been read."""


class Source:
    """A file that a tool has written.

    Parameters
    ----------
    path : path
        A regular file; one that is compressed is recognised by its first bytes.
    told : callable, optional
        Receives the progress of reading after each block.

    Attributes
    ----------
    path : Path
        The file.
    stem : str
        Its name without what the compression and the format have appended.
    bytes_on_disk : int
        Its size.
    head : bytes
        The first `HEAD_BYTES` of its text.
    cut_line : int or None
        Number of the last line, if no line break ends it; known when everything has been read.

    Raises
    ------
    UserError
        It cannot be opened or is damaged.
    """

    def __init__(self, path: str | os.PathLike[str], told: Told | None = None) -> None:
        self.path = Path(path)
        self.stem = _stem(self.path)
        self.cut_line: int | None = None
        self._told = told
        with self._open() as raw:
            self.bytes_on_disk = os.fstat(raw.fileno()).st_size
            self.head = self._text(raw).read(HEAD_BYTES)

    def blocks(self, unfinished: bool = False) -> Iterator[tuple[int, bytes]]:
        r"""Whole lines of the text, some thousand at once.

        Parameters
        ----------
        unfinished : bool
            Whether a last line without a line break is read. By default it is taken for one that
            was cut off, and left out: `cut_line`.

        Yields
        ------
        int
            Number of the first line, from 1.
        bytes
            Lines, each with its line break; ``\r\n`` has become ``\n``.

        Raises
        ------
        UserError
            The file is damaged, holds far more text than a recording of its size, or has a line
            longer than `LONGEST_LINE`.
        """
        line, rest, length = 1, b"", 0
        longest = _MOST_TEXT + _MOST_RATIO * self.bytes_on_disk
        with self._open() as raw:
            text = self._text(raw, lambda: f"after line {line}: ")
            while block := text.read(BLOCK_BYTES):
                length += len(block)
                if length > longest:
                    self.refuse(
                        f"its {self.bytes_on_disk:,} bytes hold more than {longest // MIB:,} MiB "
                        "of text, as no recording does; decompress it to import it all the same"
                    )
                if line == 1 and not rest:
                    block = block.removeprefix(_BOM)
                whole, _, begun = block.rpartition(b"\n")
                if whole or block.startswith(b"\n"):
                    lines, rest = rest + whole + b"\n", begun
                    if b"\r" in lines:
                        lines = lines.replace(b"\r\n", b"\n")
                    yield line, lines
                    line += lines.count(b"\n")
                else:
                    rest += begun
                if len(rest) > LONGEST_LINE:
                    self.fail(line, f"has more than {LONGEST_LINE // MIB} MiB")
                if self._told:
                    self._told(self, raw.tell())
        if rest and unfinished:
            yield line, rest.removesuffix(b"\r") + b"\n"
        elif rest:
            self.cut_line = line

    def lines(self, unfinished: bool = False) -> Iterator[tuple[int, bytes]]:
        """Lines without their line breaks, each with its number; see `blocks`."""
        for first, block in self.blocks(unfinished):
            yield from enumerate(block[:-1].split(b"\n"), first)

    def fail(self, line: int, why: str) -> NoReturn:
        """Refuse the file because of a line."""
        raise UserError(f"{shown_path(self.path)}: line {line}: {why}")

    def refuse(self, why: str) -> NoReturn:
        """Refuse the file as a whole."""
        raise UserError(f"{shown_path(self.path)}: {why}")

    def _open(self) -> BinaryIO:
        return open_regular(self.path, _MOST_FILE_BYTES)

    def _text(self, raw: BinaryIO, where: Callable[[], str] = str) -> "_Text":
        first = raw.read(len(_ZSTD))
        raw.seek(0)
        if first.startswith(_GZIP):
            return _Text(self, gzip.GzipFile(fileobj=raw), where)
        if first == _ZSTD:
            try:
                from zstandard import ZstdDecompressor
            except ImportError:
                self.refuse(f"Zstandard is not installed, which reads it: {pip_install('import')}")
            return _Text(self, _Zstandard(raw, ZstdDecompressor().decompressobj), where)
        return _Text(self, raw, where)


class _Stream(Protocol):
    def read(self, most: int, /) -> bytes: ...


class _Text:
    """Uncompressed text of a source; says where it is damaged."""

    def __init__(self, source: Source, stream: _Stream, where: Callable[[], str]) -> None:
        self._source, self._stream, self._where = source, stream, where

    def read(self, most: int) -> bytes:
        """Read up to so many bytes; none are left where there are none in the answer."""
        try:
            return self._stream.read(most)
        except EOFError:
            why = "the compressed file ends too early; it is not complete"
        except (gzip.BadGzipFile, zlib.error) as error:
            why = f"the compressed file is damaged: {error}"
        except OSError as error:
            why = f"cannot be read: {error.strerror or error}"
        except Exception as error:
            if not type(error).__module__.startswith(("zstandard", "zstd")):
                raise
            why = f"the compressed file is damaged: {error}"
        self._source.refuse(f"{self._where()}{why}")


class _Zstandard:
    """Frames of Zstandard, decompressed a little at a time; a frame that is cut short is noticed.

    A kilobyte holds 32 MiB of text at most, so that no file can fill the memory.
    """

    def __init__(self, raw: BinaryIO, new: Callable[[], Any]) -> None:
        self._raw, self._new = raw, new
        self._frame = self._new()
        self._begun = False
        self._text = bytearray()

    def read(self, most: int) -> bytes:
        """Read up to so many bytes of text."""
        while len(self._text) < most and (packed := self._raw.read(1024)):
            while packed:
                self._text += self._frame.decompress(packed)
                self._begun, packed = not self._frame.eof, self._frame.unused_data
                if self._frame.eof:
                    self._frame = self._new()
        if not self._text and self._begun:
            raise EOFError
        text = bytes(self._text[:most])
        del self._text[:most]
        return text


def _stem(path: Path) -> str:
    name = path.name
    for compressed in (".gz", ".zst"):
        name = name.removesuffix(compressed)
    return Path(name).stem or name


# Requests of a user, and facts that files lack.


class Enough(Exception):  # noqa: N818
    """All that the user asks for has been read; the rest of the files need not be."""


@dataclass(frozen=True)
class ImportOptions:
    """Requests of a user, and facts that files lack.

    Attributes
    ----------
    windows : int or None
        Only the first so many windows.
    slices : frozenset of str
        Only slices of these names, such as ``cu0.simd1``; all if it is empty.
    period : int or None
        Ticks of the file that are one cycle.
    values : str or None
        Whether the contents of registers are those ``before`` or ``after`` the instruction, where
        the format does not say (CUTracer). None: taken as those before, and refused where they
        contradict that.
    """

    windows: int | None = None
    slices: frozenset[str] = frozenset()
    period: int | None = None
    values: str | None = None

    def __post_init__(self) -> None:
        if self.values not in (None, "before", "after"):
            raise UserError(f"values {shortened(self.values)}: must be before or after")
