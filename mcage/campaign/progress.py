"""What a campaign reports while it runs, and where that is shown."""

import json
import sys
import time
from collections import deque
from collections.abc import Callable
from html import escape
from itertools import pairwise
from statistics import linear_regression
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Protocol

from mcage.errors import UserError
from mcage.plain_text import shortened, visible

if TYPE_CHECKING:
    from rich.console import Console


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


# Progress in lines, for logs and pipes: plain, or as JSON for programs.

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_RECORDS = 1.0


class Lines:
    """Progress as plain lines: every ten seconds, and when all is finished."""

    def __init__(self, stream: IO[str], clock: Clock = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self.start(0, 0)

    def start(self, total: int, done: int) -> None:
        """Remember what earlier runs have finished and when this run begins."""
        self._pace = Pace(total, done, self._clock)
        self._last_line = self._clock()

    def advance(self, instances: int) -> None:
        """Write a line if ten seconds have passed since the last line, or if all is finished."""
        pace = self._pace
        pace.advance(instances)
        now = self._clock()
        if now - self._last_line >= SECONDS_BETWEEN_LINES or pace.done == pace.total:
            self._last_line = now
            words = pace.in_words()
            self.say(f"{pace.done}/{pace.total} instances" + (f", {words}" if words else ""))

    def say(self, message: str) -> None:
        """Write a line."""
        print(visible(message), file=self._stream, flush=True)

    def finish(self) -> None:
        """Do nothing: lines need no end."""


class JsonLines:
    """Progress as JSON, an object to a line.

    ``event`` is ``start``, ``progress``, ``message`` or ``finish``. All but messages have
    ``instances``, ``done``, ``instances_per_second`` and ``seconds_left``; the last two are null
    until there is a rate. Messages have ``text``.
    """

    def __init__(self, stream: IO[str], clock: Clock = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._pace = Pace(0, 0, clock)
        self._last_record = clock()

    def start(self, total: int, done: int) -> None:
        """Write what there is to do."""
        self._pace = Pace(total, done, self._clock)
        self._write("start")

    def advance(self, instances: int) -> None:
        """Write how far the campaign is, at most every second."""
        self._pace.advance(instances)
        if self._clock() - self._last_record >= SECONDS_BETWEEN_RECORDS:
            self._write("progress")

    def say(self, message: str) -> None:
        """Write a message."""
        self._print({"event": "message", "text": message})

    def finish(self) -> None:
        """Write how far the campaign has come."""
        self._write("finish")

    def _write(self, event: str) -> None:
        self._last_record = self._clock()
        self._print({"event": event, **numbers(self._pace)})

    def _print(self, record: dict[str, Any]) -> None:
        print(json.dumps(record), file=self._stream, flush=True)


def numbers(pace: Pace) -> dict[str, float | None]:
    """How far a campaign is, for programs."""
    return {
        "instances": pace.total,
        "done": pace.done,
        "instances_per_second": pace.per_second,
        "seconds_left": pace.seconds_left,
    }


# Progress as a bar on a terminal.

PREPARING = "preparing the first ones"


class Bar:
    """Progress as a bar that moves.

    Parameters
    ----------
    console : Console
        Where it is drawn.
    """

    def __init__(self, console: "Console") -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._pace = Pace(0, 0)
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
        self._pace = Pace(total, done)
        self._bar.update(self._task, total=total, completed=done)
        self._bar.start()

    def advance(self, instances: int) -> None:
        """Move the bar."""
        self._pace.advance(instances)
        words = self._pace.in_words() or PREPARING
        self._bar.update(self._task, advance=instances, description=words)

    def say(self, message: str) -> None:
        """Show a line above the bar."""
        self._bar.console.print(
            visible(message), markup=False, emoji=False, highlight=False, soft_wrap=True
        )

    def finish(self) -> None:
        """Stop the bar, which stays where it is."""
        self._bar.stop()


# Progress below the cell of a notebook, by what every notebook shows: HTML that is replaced.
#
# The bars of rich and tqdm need ipywidgets there, and show nothing without.

Show = Callable[[dict[str, str]], Any]
"""Shows what is given as ``text/plain`` and ``text/html``, and returns what ``update`` has."""


class NotebookBar:
    """Progress as a bar below a cell.

    Parameters
    ----------
    show : callable, optional
        Shows a new output; by default `IPython.display.display`.
    clock : callable
        Seconds since any moment.
    """

    def __init__(self, show: Show | None = None, clock: Clock = time.monotonic) -> None:
        self._show, self._clock = show or _display, clock
        self._pace, self._begin = Pace(0, 0, clock), clock()
        self._output: Any = None
        self._drawing = Lock()

    def start(self, total: int, done: int) -> None:
        """Show the bar."""
        self._pace, self._begin = Pace(total, done, self._clock), self._clock()
        self._output = self._show(self._bar(PREPARING))

    def advance(self, instances: int) -> None:
        """Move the bar."""
        self._pace.advance(instances)
        self._draw(self._pace.in_words() or PREPARING)

    def say(self, message: str) -> None:
        """Show a line in an output of its own."""
        print(visible(message), flush=True)

    def finish(self) -> None:
        """Leave the bar where it is, with the time that it took."""
        self._draw(duration(self._clock() - self._begin))

    def _draw(self, words: str) -> None:
        if self._output is None:
            return
        with self._drawing:
            self._output.update(self._bar(words), raw=True)

    def _bar(self, words: str) -> dict[str, str]:
        done, total = self._pace.done, self._pace.total
        text = f"{done:,}/{total:,} instances, {words}"
        bar = f'<progress value="{done}" max="{total}" style="width: 20em"></progress>'
        return {"text/plain": text, "text/html": f"<div>{bar} {escape(text)}</div>"}


def _display(content: dict[str, str]) -> Any:
    from IPython.display import display

    return display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]


# Which kind of progress is shown.

KINDS = ("rich", "plain", "json", "none")
"""A bar, plain lines, JSON lines, nothing."""


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
        return Silent()
    if kind == "json":
        return JsonLines(sys.stderr)
    if kind == "rich" or (kind is None and sys.stderr.isatty()):
        from rich.console import Console

        return Bar(Console(stderr=True))
    return Lines(sys.stderr)


def say_on_stderr(kind: str | None, message: str) -> None:
    """Show a message as progress of a kind does; a function that travels to other processes."""
    progress_on_stderr(kind).say(message)


def progress_in_notebooks() -> Progress:
    """Progress of a function that a notebook calls: a bar below its cell; elsewhere nothing."""
    if "IPython" not in sys.modules:
        return Silent()
    from rich.console import Console

    return NotebookBar() if Console().is_jupyter else Silent()
