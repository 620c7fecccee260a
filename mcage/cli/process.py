"""How a command ends: on signals, and when nobody reads its output."""

import io
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, TextIO

from mcage.errors import UserError
from mcage.files.atomic import remove_all_in_work

if TYPE_CHECKING:
    from typing_extensions import Buffer


GRACE_SECONDS = 1.5

WORDS = {
    signal.SIGINT: "interrupted: stopping (Ctrl-C once more stops at once)",
    signal.SIGTERM: "asked to end (SIGTERM): stopping",
    signal.SIGHUP: "terminal closed (SIGHUP): stopping",
}

SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """End the process soon after SIGINT, SIGTERM or SIGHUP, with 128 and the signal's number.

    Signals that are ignored, as under ``nohup``, stay so. Outside of the main thread, nothing
    changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stop = _Stop()
    try:
        yield
    finally:
        stop.end_if_asked()
        stop.restore()


class _Stop:
    """Handlers, and a thread that hears of a signal even while the main thread computes."""

    def __init__(self) -> None:
        self._first = 0
        self._said = threading.Event()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._earlier_writer = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._earlier = {
            number: signal.signal(number, self._unwind)
            for number in WORDS
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        self._earlier_hook = sys.unraisablehook
        sys.unraisablehook = self._pass_on
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _unwind(self, number: int, _: FrameType | None) -> None:
        if not self._first:
            self._first = number
            raise KeyboardInterrupt

    def _pass_on(self, dropped: "sys.UnraisableHookArgs") -> None:
        """Say nothing of an unwinding that Python drops: it came where code may not fail.

        The process ends after the time of grace.
        """
        if not (self._first and isinstance(dropped.exc_value, KeyboardInterrupt)):
            self._earlier_hook(dropped)

    def _watch(self) -> None:
        number = self._heard()
        if number is None:
            return
        _say(WORDS[signal.Signals(number)])
        self._said.set()
        select.select([self._reader], [], [], GRACE_SECONDS)
        _end(number)

    def _heard(self) -> int | None:
        """The first of our signals; None at the end of the command."""
        while received := os.read(self._reader, 1):
            if received[0] in self._earlier:
                return received[0]
        return None

    def end_if_asked(self) -> None:
        """End the process if a signal has come, once the word has been said."""
        if self._first:
            self._said.wait(GRACE_SECONDS)
            with suppress(Exception):
                sys.stdout.flush()
            _end(self._first)

    def restore(self) -> None:
        """Make signals do what they did before."""
        for number, handler in self._earlier.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._earlier_writer)
        sys.unraisablehook = self._earlier_hook
        os.close(self._writer)
        self._thread.join()
        os.close(self._reader)


def _say(words: str) -> None:
    """Write a line, below what a bar or the terminal's ^C have left of the current one."""
    with suppress(OSError):
        os.write(2, f"{chr(10) if os.isatty(2) else ''}{words}\n".encode())


def _end(number: int) -> NoReturn:
    remove_all_in_work()
    with suppress(OSError):
        if os.isatty(2):
            os.write(2, SHOW_CURSOR.encode())
    os._exit(128 + number)


# Standard output that is closed, full, or a pipe that nobody reads any more.

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
