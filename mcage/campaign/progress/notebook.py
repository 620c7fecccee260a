"""Progress below the cell of a notebook, by what every notebook shows: HTML that is replaced.

The bars of rich and tqdm need ipywidgets there, and show nothing without.
"""

import time
from collections.abc import Callable
from html import escape
from threading import Lock
from typing import Any

from mcage.campaign.progress.pace import Clock, Pace, duration
from mcage.plain_text import visible

PREPARING = "preparing the first ones"

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
