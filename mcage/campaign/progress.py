"""Progress of a campaign while it runs, and where it is shown."""

import sys
import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from statistics import linear_regression
from threading import Lock
from typing import IO, TYPE_CHECKING, ClassVar

from mcage.errors import UserError
from mcage.plain_text import shortened, visible

if TYPE_CHECKING:
    from rich.console import Console


# How fast a campaign advances, and when it will end.

RATE_SECONDS = 60.0
"""The rate is that of so much time, if there are reports that old."""

RATE_GAPS = 4
"""The rate is that of so many of the longest times without a report, where these take longer."""

BURST_SECONDS = 1.0
"""Reports of several workers that began together come within so much time, and count as one."""

SETTLED_SECONDS = 5.0
"""Time after the first reports from which on their successors tell a rate."""

SETTLED_GAPS = 2
"""Number of the longest times without a report after which reports tell a rate."""

AGREEING = 1.5
"""Rates that differ by such a factor are the same."""

Clock = Callable[[], float]


class Pace:
    """Rate and time left, computed from the instances that this run has finished itself.

    Until its first report a run compiles and prepares, which later instances need not wait for.
    What the first reports bring therefore counts only until later reports tell a rate: the slope
    of a line through them, since workers that began together report together, and a rate from one
    report to another would depend on which of them has just come. It may be called from several
    threads.

    Parameters
    ----------
    total : int
        Number of instances.
    done : int
        Instances that an earlier run has finished.
    clock : callable
        Seconds since any moment; these must not jump when somebody sets the time.
    """

    def __init__(self, total: int, done: int, clock: Clock = time.monotonic) -> None:
        self.total = total
        self.done = done
        self._clock = clock
        self._begin = (clock(), done)
        self._burst = -float("inf")
        self._reports = deque[tuple[float, int]]()
        self._advancing = Lock()

    def advance(self, instances: int) -> None:
        """Count instances that have just been finished."""
        with self._advancing:
            now = self._clock()
            self.done += instances
            if now - self._burst <= BURST_SECONDS:
                self._reports.pop()
            else:
                self._burst = now
            self._reports.append((now, self.done))
            old = now - max(RATE_SECONDS, RATE_GAPS * self._longest_gap())
            while len(self._reports) > 2 and self._reports[1][0] <= old:
                self._reports.popleft()

    @property
    def per_second(self) -> float | None:
        """Instances per second; None until some are finished."""
        return self._rate()[0]

    @property
    def seconds_left(self) -> float | None:
        """Time until the last instance at this rate; None while there is no rate."""
        return self._left(self.per_second)

    def in_words(self) -> str | None:
        """Return the rate in instances per second and the time left; None while there is none."""
        rate, settled = self._rate()
        left = self._left(rate)
        if rate is None or left is None:
            return None
        if settled or not left:
            return f"{rate:.3g} instances/s, {duration(left)} left"
        return f"{rate:.3g} instances/s since the start, at most {duration(left)} left"

    def _rate(self) -> tuple[float | None, bool]:
        """Instances per second, and whether they are those of later reports alone."""
        with self._advancing:
            if not self._reports:
                return None, False
            reports, gap = list(self._reports), self._longest_gap()
        now, done = reports[-1]
        begin, earlier = self._begin
        since_start = (done - earlier) / (now - begin) if now > begin and done > earlier else None
        span = now - reports[0][0]
        if since_start is None or span < SETTLED_SECONDS:
            return since_start, False
        recent = linear_regression(*zip(*reports, strict=True)).slope
        settled = span >= SETTLED_GAPS * gap or recent <= AGREEING * since_start
        return (recent if settled else since_start), settled

    def _longest_gap(self) -> float:
        """Longest time without a report, in seconds."""
        times = [time for time, _ in self._reports]
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)

    def _left(self, rate: float | None) -> float | None:
        return None if rate is None else (self.total - self.done) / rate


def duration(seconds: float) -> str:
    """Write a time span in hours and minutes, in minutes and seconds, or in seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


# Receivers of progress.


class Progress:
    """Receives what a campaign reports while it runs; this class shows nothing of it.

    Parameters
    ----------
    clock : callable
        Seconds since any moment; these must not jump when somebody sets the time.

    Attributes
    ----------
    pace : Pace
        How far the campaign is.
    """

    seconds_between: ClassVar = 0.0
    """Time between two displays of how far the campaign is, but for the last."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self.pace = Pace(0, 0, clock)
        self._shown_at = clock()

    def start(self, total: int, done: int) -> None:
        """Begin; an earlier run has finished ``done`` of the ``total`` instances."""
        self.pace = Pace(total, done, self._clock)
        self._show()

    def advance(self, instances: int) -> None:
        """Count instances that have just been finished."""
        self.pace.advance(instances)
        due = self._clock() - self._shown_at >= self.seconds_between
        if due or self.pace.done == self.pace.total:
            self._show()

    def say(self, message: str) -> None:
        """Show a message in one line."""

    def died(self, workers: int) -> None:
        """Count workers that have died over a shard that is finished."""

    def finish(self) -> None:
        """End the display, whether the campaign has succeeded or not."""

    def enter(self, state: str, words: str = "") -> None:
        """Note that the run does something else now, or has ended, and in words why."""

    def _show(self) -> None:
        self._shown_at = self._clock()
        self.show()

    def show(self) -> None:
        """Show how far the campaign is."""


# Progress in lines, for logs and pipes.


class Lines(Progress):
    """Progress as plain lines: every ten seconds, and when all is finished."""

    seconds_between: ClassVar = 10.0

    def __init__(self, stream: IO[str], clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._stream = stream

    def show(self) -> None:
        """Write a line, once there is something to say of this run."""
        if words := self.pace.in_words():
            self.say(f"{self.pace.done}/{self.pace.total} instances, {words}")

    def say(self, message: str) -> None:
        """Write a line."""
        print(visible(message), file=self._stream, flush=True)


# Progress as a bar on a terminal.

PREPARING = "preparing the first ones"


class ProgressBar(Progress):
    """Progress as a bar that moves.

    Parameters
    ----------
    console : Console
        Where it is drawn.
    """

    def __init__(self, console: "Console") -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        super().__init__()
        self._bar = RichProgress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("instances, {task.description},"),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._bar.add_task(PREPARING, total=None)

    def finish(self) -> None:
        """Leave the bar where it is."""
        self._bar.stop()

    def show(self) -> None:
        """Move the bar."""
        pace = self.pace
        words = pace.in_words() or PREPARING
        self._bar.update(self._task, total=pace.total, completed=pace.done, description=words)
        self._bar.start()

    def say(self, message: str) -> None:
        """Show a line above the bar."""
        self._bar.console.print(
            visible(message), markup=False, emoji=False, highlight=False, soft_wrap=True
        )


# Which kind of progress is shown.

KINDS = ("rich", "plain", "none")
"""A bar, plain lines, nothing."""


def progress_on_stderr(kind: str | None = None) -> Progress:
    """Progress of a kind.

    Parameters
    ----------
    kind : str, optional
        One of `KINDS`; by default a bar if stderr is a terminal, otherwise plain lines.

    Raises
    ------
    UserError
        There is no such kind.
    """
    if kind not in (None, *KINDS):
        raise UserError(f"--progress {shortened(kind)}: must be one of {', '.join(KINDS)}")
    if kind == "none":
        return Progress()
    if kind == "rich" or (kind is None and sys.stderr.isatty()):
        from rich.console import Console

        return ProgressBar(Console(stderr=True))
    return Lines(sys.stderr)


def progress_in_notebooks() -> Progress:
    """Progress of a function that a notebook calls: lines below its cell; elsewhere nothing."""
    if "IPython" not in sys.modules:
        return Progress()
    from rich.console import Console

    return Lines(sys.stdout) if Console().is_jupyter else Progress()
