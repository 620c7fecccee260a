"""Standard output that is closed, full, or a pipe that nobody reads any more."""

import io
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from mcage.errors import UserError

if TYPE_CHECKING:
    from typing_extensions import Buffer

STDOUT, STDERR = 1, 2

COLUMNS = re.compile("[0-9]{2,4}")
LEAST_COLUMNS = 20


@contextmanager
def checked_output() -> Iterator[None]:
    """Make sure that all of standard output has been written when the block is left.

    Raises
    ------
    UserError
        It cannot be written.
    SystemExit
        Nobody reads the pipe any more: with 128 and the number of SIGPIPE, as other programs end.
    """
    _fill_closed_descriptors()
    _forget_impossible_width()
    if sys.stdout in (None, sys.__stdout__):
        sys.stdout = _checked(STDOUT, sys.stdout, _Output)
    if sys.stderr in (None, sys.__stderr__):
        sys.stderr = _checked(STDERR, sys.stderr, _Messages)
    try:
        yield
    finally:
        sys.stdout.flush()


def _fill_closed_descriptors() -> None:
    """Keep results files from becoming standard output: a new file takes the first free number."""
    for descriptor, mode in ((0, os.O_RDONLY), (STDOUT, os.O_RDONLY), (STDERR, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # what is written to a file open for reading fails


def _forget_impossible_width() -> None:
    """Take no width from COLUMNS that no terminal has: into none, Rich prints nothing at all."""
    columns = os.environ.get("COLUMNS", "")
    if not (COLUMNS.fullmatch(columns) and int(columns) >= LEAST_COLUMNS):
        os.environ.pop("COLUMNS", None)


def _checked(descriptor: int, stream: TextIO | None, raw: "type[_Output]") -> TextIO:
    """Text stream on a descriptor, with the encoding of the one that it takes the place of."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw(descriptor, "w", closefd=False)),
        encoding=stream.encoding if stream else "utf-8",
        errors="backslashreplace",
        line_buffering=descriptor == STDERR or os.isatty(descriptor),
    )


class _Output(io.FileIO):
    """Descriptor whose first failed write ends the command; what follows is dropped."""

    _failed = False

    def write(self, data: "Buffer", /) -> int:
        """Write, or say why not."""
        if self._failed:
            return memoryview(data).nbytes
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            self._failed = True
            raise SystemExit(128 + signal.SIGPIPE) from None
        except OSError as error:
            self._failed = True
            self._refuse(error)
            return memoryview(data).nbytes

    def _refuse(self, error: OSError) -> None:
        raise UserError(f"cannot write to standard output: {error.strerror}") from error


class _Messages(_Output):
    """Standard error: of what cannot be written there, nobody can be told."""

    def _refuse(self, error: OSError) -> None:
        """Let the command go on."""
