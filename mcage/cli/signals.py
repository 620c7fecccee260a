"""How the command line ends when it is asked to: with a word at once, and within two seconds.

The first signal unwinds the main thread as Ctrl-C does in any Python program. Compiled code cannot
be stopped, though, and Python would wait for it: after a time of grace, or on a second signal, the
process ends where it stands, but for its temporary files.
"""

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from mcage.files.atomic import remove_all_in_work

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
