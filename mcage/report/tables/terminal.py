"""Tables of results in a terminal: as many columns as fit, and never a part of a number."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from mcage.plain_text import visible_lines
from mcage.report.tables.table import Column, ResultTable

GAP = 2
"""Spaces between columns."""

INDENT = "  "
"""Spaces before the lines of a group."""

TEXT_WIDTH = 80
"""Width of the text about a table that is narrower."""


def print_table(table: ResultTable, console: Console, *, wide: bool = False) -> None:
    """Print a table and those below it, as the width of the console allows.

    Columns are left out until the others fit, and the caption says which. Words of names are
    wrapped rather than a number left out that matters. Where not even a single number has room,
    each line of the table becomes a list.

    Parameters
    ----------
    table : ResultTable
        Table with at least a line.
    console : rich.console.Console
        Where to.
    wide : bool
        Whether all columns are printed, whatever the width.
    """
    for place, single in enumerate((table, *table.below)):
        if place:
            console.print()
        _print(single, console, wide)


def _print(table: ResultTable, console: Console, wide: bool) -> None:
    common = [column for column in table.shown if column.groups and _is_common(column)]
    columns = [column for column in table.shown if column not in common]
    title = ", ".join([table.title, *(f"{column.name} {_first(column)}" for column in common)])
    if wide or _width(columns) <= console.width:
        room = max(_width(columns), min(console.width, TEXT_WIDTH))
        _print_whole(title, _drawn(columns, wrapped=False), table.caption, console, room)
        return
    groups = [column for column in columns if column.groups]
    chosen = _fitting([column for column in columns if column not in groups], groups, console.width)
    if not chosen:
        console.print(title)
        for line in range(table.lines):
            for place, column in enumerate(columns):
                text = f"{column.name}: {column.cells[line].text}"
                console.print(text if not place else INDENT + text, soft_wrap=True)
        console.print(table.caption)
        return
    gone = [column.name for column in columns if column not in (*chosen, *groups)]
    caption = table.caption
    if gone:
        caption += f"\nToo wide for this terminal: {', '.join(gone)}. --wide shows all columns."
    _print_whole(title, _drawn(chosen, groups, wrapped=True), caption, console, console.width)


def _print_whole(title: str, table: Table, caption: str, console: Console, width: int) -> None:
    """Print a table between its title and its caption, on a console as wide as it needs."""
    before, console.width = console.width, width
    try:
        console.print(title, table, "", caption, sep="\n")
    finally:
        console.width = before


def _fitting(columns: list[Column], groups: list[Column], width: int) -> list[Column]:
    """Columns that matter most, and of the others those for which there is room.

    Without any number there is no table.
    """
    chosen = [column for column in columns if column.primary]
    while chosen and _narrowest(chosen, groups) > width:
        chosen.pop()
    if all(column.justify == "left" for column in chosen):
        return []
    for column in columns:
        more = [other for other in columns if other in chosen or other is column]
        if _width(more, groups) <= width:
            chosen = more
    return chosen


def _drawn(columns: Sequence[Column], groups: Sequence[Column] = (), *, wrapped: bool) -> Table:
    """Table of some columns; groups of lines have a heading of their own."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        wraps = wrapped and column.justify == "left"
        table.add_column(
            visible_lines(column.heading),
            justify=column.justify,
            min_width=_longest_word([column]) if wraps else _width([column]),
            no_wrap=not wraps,
        )
    for group, lines in groupby(range(len(columns[0].cells)), lambda line: _group(groups, line)):
        if groups:
            table.add_row(group)
        for line in lines:
            first, *others = (column.cells[line].text for column in columns)
            table.add_row(INDENT + first if groups else first, *others)
        if groups:
            table.add_section()
    return table


def _group(groups: Sequence[Column], line: int) -> str:
    return "\n".join(column.cells[line].text for column in groups)


def _is_common(column: Column) -> bool:
    return len({cell.text for cell in column.cells}) == 1


def _first(column: Column) -> str:
    return column.cells[0].text


def _lines(column: Column) -> Iterator[str]:
    for text in (column.heading, *(cell.text for cell in column.cells)):
        yield from visible_lines(text).split("\n")


def _width(columns: Sequence[Column], groups: Sequence[Column] = ()) -> int:
    """Width in which no line of a cell is wrapped."""
    widths = [max(map(cell_len, _lines(column))) for column in columns]
    if groups and widths:
        widths[0] = max(widths[0] + len(INDENT), *(_width([group]) for group in groups))
    return sum(widths) + GAP * (len(widths) - 1)


def _narrowest(columns: Sequence[Column], groups: Sequence[Column]) -> int:
    """Width in which at most words are wrapped."""
    widths = [
        _longest_word([column]) if column.justify == "left" else _width([column])
        for column in columns
    ]
    if groups and widths:
        widths[0] = max(widths[0] + len(INDENT), _longest_word(groups))
    return sum(widths) + GAP * (len(widths) - 1)


def _longest_word(columns: Sequence[Column]) -> int:
    words = (word for column in columns for line in _lines(column) for word in line.split())
    return max(map(cell_len, words), default=0)
