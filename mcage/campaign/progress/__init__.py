"""What a campaign reports while it runs, and where that is shown."""

from typing import Protocol


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
