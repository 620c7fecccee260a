"""Which kind of progress is shown."""

import sys

from mcage.campaign.progress import Progress, Silent
from mcage.campaign.progress.lines import JsonLines, Lines
from mcage.errors import UserError
from mcage.plain_text import shortened

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
        from mcage.campaign.progress.bar import bar_on_stderr

        return bar_on_stderr()
    return Lines(sys.stderr)


def progress_in_notebooks() -> Progress:
    """Progress of a function that a notebook calls: a bar below its cell; elsewhere nothing."""
    if "IPython" not in sys.modules:
        return Silent()
    from rich.console import Console

    if not Console().is_jupyter:
        return Silent()
    from mcage.campaign.progress.notebook import NotebookBar

    return NotebookBar()
