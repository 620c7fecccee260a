"""How fast a campaign advances, and when it will end."""

import time
from collections import deque
from collections.abc import Callable
from threading import Lock

RATE_SECONDS = 60.0
"""The rate is that of so much time, if there are reports that old."""

BURST_SECONDS = 1.0
"""Reports of several workers that began together come within so much time."""

SETTLED_SECONDS = 5.0
"""Time after the first reports from which on their successors tell a rate."""

Clock = Callable[[], float]


class Pace:
    """Rate and time left, computed from the instances that this run has finished itself.

    Until its first report a run compiles and prepares, which later instances need not wait for.
    What the first reports bring therefore counts only until later reports tell a rate. It may be
    called from several threads.

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
        self._first = float("inf")
        self._reports = deque[tuple[float, int]]()
        self._advancing = Lock()

    def advance(self, instances: int) -> None:
        """Count instances that have just been finished."""
        with self._advancing:
            now = self._clock()
            self.done += instances
            self._first = min(self._first, now)
            self._reports.append((now, self.done))
            old = max(now - RATE_SECONDS, self._first + BURST_SECONDS)
            while len(self._reports) > 2 and self._reports[1][0] <= old:
                self._reports.popleft()

    @property
    def settled(self) -> bool:
        """Whether the rate is that of later reports alone, without compiling and preparing."""
        with self._advancing:
            reports = self._reports
            return bool(reports) and reports[-1][0] - reports[0][0] >= SETTLED_SECONDS

    @property
    def per_second(self) -> float | None:
        """Instances per second; None until some are finished."""
        settled = self.settled
        with self._advancing:
            if not self._reports:
                return None
            now, done = self._reports[-1]
            begin, earlier = self._reports[0] if settled else self._begin
        return (done - earlier) / (now - begin) if now > begin and done > earlier else None

    @property
    def seconds_left(self) -> float | None:
        """Time until the last instance at this rate; None while there is no rate."""
        rate = self.per_second
        return None if rate is None else (self.total - self.done) / rate

    def in_words(self) -> str | None:
        """Return the rate in instances per second and the time left; None while there is none."""
        rate, left = self.per_second, self.seconds_left
        if rate is None or left is None:
            return None
        if self.settled or not left:
            return f"{rate:.3g} instances/s, {duration(left)} left"
        return f"{rate:.3g} instances/s since the start, at most {duration(left)} left"


def duration(seconds: float) -> str:
    """Write a time span in hours and minutes, in minutes and seconds, or in seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
