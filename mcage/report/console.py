"""The terminal that tables are printed on."""

import os
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcage.plain_text import visible_lines

WIDTH_WITHOUT_TERMINAL = 100_000
"""More than a table with long names of files and techniques takes."""


class PlainConsole(Console):
    """A console that ignores markup, and shows control characters instead of sending them.

    Cells, titles and captions may hold names from traces, files, specs and plug-ins.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text as it is printed; see `rich.console.Console.render_str`."""
        return super().render_str(visible_lines(text), **options)


def console() -> PlainConsole:
    """Make a console for the terminal.

    A file or a pipe has room for any table, unless the variable COLUMNS says how wide its reader
    is.
    """
    terminal = PlainConsole()
    known = terminal.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    return terminal if known else PlainConsole(width=WIDTH_WITHOUT_TERMINAL)


def plain_table(*headers: str, **options: Any) -> Table:
    """Make an empty table, drawn as all tables of mcage are; see `rich.table.Table`."""
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "pad_edge": False}
    look |= {"show_edge": False, "title_justify": "left", "caption_justify": "left"}
    return Table(*headers, **look | options)
