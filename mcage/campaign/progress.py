"""Progress of a campaign on stderr: a bar on a terminal, a line every ten seconds elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import IO, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from mcage.plain_text import visible

SECONDS_BETWEEN_LINES = 10.0

PREPARING = "preparing the first ones"


class Progress(Protocol):
    """Receives what a campaign reports while it runs."""

    def start(self, total: int, done: int) -> None:
        """Begin; an earlier run has finished ``done`` of the ``total`` instances."""

    def advance(self, instances: int) -> None:
        """Count instances that have just been finished."""

    def say(self, message: str) -> None:
        """Show a message in one line."""

    def finish(self) -> None:
        """End the display, whether the campaign has succeeded or not."""


class Silent:
    """Progress that shows nothing."""

    def start(self, total: int, done: int) -> None:
        """Do nothing."""

    def advance(self, instances: int) -> None:
        """Do nothing."""

    def say(self, message: str) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""


class Pace:
    """Rate and time left, computed from the instances that this run has finished itself."""

    def __init__(self, total: int, done: int, clock: Callable[[], float]) -> None:
        self.total = total
        self.done = done
        self._earlier = done
        self._clock = clock
        self._begin = clock()

    def in_words(self) -> str:
        """Return the rate in instances per second and the time left at that rate."""
        elapsed = self._clock() - self._begin
        finished = self.done - self._earlier
        if finished == 0 or elapsed <= 0:
            return PREPARING
        rate = finished / elapsed
        return f"{rate:.3g} instances/s, {duration((self.total - self.done) / rate)} left"


def duration(seconds: float) -> str:
    """Write a time span in hours and minutes, in minutes and seconds, or in seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


class Lines:
    """Progress as plain lines, for logs and pipes."""

    def __init__(self, stream: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._pace = Pace(0, 0, clock)
        self._last_line = clock()

    def start(self, total: int, done: int) -> None:
        """Remember what earlier runs have finished and when this run begins."""
        self._pace = Pace(total, done, self._clock)
        self._last_line = self._clock()

    def advance(self, instances: int) -> None:
        """Write a line if ten seconds have passed since the last one, or if all is finished."""
        self._pace.done += instances
        now = self._clock()
        if now - self._last_line >= SECONDS_BETWEEN_LINES or self._pace.done == self._pace.total:
            self._last_line = now
            self.say(f"{self._pace.done}/{self._pace.total} instances, {self._pace.in_words()}")

    def say(self, message: str) -> None:
        """Write a line."""
        print(visible(message), file=self._stream, flush=True)

    def finish(self) -> None:
        """Do nothing: lines need no end."""


class Bar:
    """Progress as a bar on a terminal."""

    def __init__(self, console: Console) -> None:
        self._pace = Pace(0, 0, time.monotonic)
        self._bar = RichProgress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("instances, {task.description},"),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._bar.add_task(PREPARING, total=None)

    def start(self, total: int, done: int) -> None:
        """Show the bar."""
        self._pace = Pace(total, done, time.monotonic)
        self._bar.update(self._task, total=total, completed=done)
        self._bar.start()

    def advance(self, instances: int) -> None:
        """Move the bar."""
        self._pace.done += instances
        self._bar.update(self._task, advance=instances, description=self._pace.in_words())

    def say(self, message: str) -> None:
        """Show a line above the bar."""
        self._bar.console.print(
            visible(message), markup=False, emoji=False, highlight=False, soft_wrap=True
        )

    def finish(self) -> None:
        """Stop the bar, which stays on the terminal as it is."""
        self._bar.stop()


def on_stderr() -> Progress:
    """Return a bar if stderr is a terminal, otherwise plain lines for a log."""
    console = Console(stderr=True)
    return Bar(console) if console.is_terminal else Lines(sys.stderr)
