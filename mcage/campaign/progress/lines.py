"""Progress in lines, for logs and pipes: plain, or as JSON for programs."""

import json
import time
from typing import IO, Any

from mcage.campaign.progress.pace import Clock, Pace
from mcage.plain_text import visible

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
