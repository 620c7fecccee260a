"""Progress as a bar on a terminal."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from mcage.campaign.progress.pace import Pace
from mcage.plain_text import visible

PREPARING = "preparing the first ones"


class Bar:
    """Progress as a bar that moves.

    Parameters
    ----------
    console : Console
        Where it is drawn.
    """

    def __init__(self, console: Console) -> None:
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


def bar_on_stderr() -> Bar:
    """Bar on stderr, which need not be a terminal."""
    return Bar(Console(stderr=True))
