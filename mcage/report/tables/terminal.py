"""Tables of results in a terminal: as many columns as fit, and never a part of a number."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, takewhile

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding

from mcage.plain_text import visible_lines
from mcage.report.console import plain_table
from mcage.report.tables.table import Column, ResultTable

GAP = 2
"""Spaces between columns, as `plain_table` leaves them."""

INDENT = "  "
"""Spaces before the lines of a group."""

TEXT_WIDTH = 80
"""Width of the text about a table that is narrower."""


def print_table(
    table: ResultTable, console: Console, *, wide: bool = False, remedy: str = "mcage show --wide"
) -> None:
    """Print a table and those below it, as the width of the console allows.

    Columns that group lines and come first, such as the case of several ages, stand above their
    lines. Columns are left out until the others fit, and the caption says which. Words of names are
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
    remedy : str
        What prints all columns, as the caption says if some are left out.
    """
    for place, single in enumerate((table, *table.below)):
        if place:
            console.print()
        _print(single, console, "" if wide else remedy)


def fits(table: ResultTable, console: Console) -> bool:
    """Whether all columns of a table fit in a console, with no word wrapped."""
    return _width(table.shown) <= console.width


def _print(table: ResultTable, console: Console, remedy: str) -> None:
    """Print a table: whole if there is no remedy for what would be left out."""
    common = [column for column in table.shown if column.groups and _is_common(column)]
    columns = [column for column in table.shown if column not in common]
    between = "\n" if "\n" in table.title else ", "
    title = between.join([table.title, *(f"{of.name} {of.cells[0].text}" for of in common)])
    groups = list(takewhile(_groups_lines, columns))
    chosen = columns[len(groups) :]
    width = max(_width(chosen, groups), min(console.width, TEXT_WIDTH))
    if remedy and width > console.width:
        width = console.width
        groups = [column for column in columns if column.groups]
        chosen = _fitting([column for column in columns if not column.groups], groups, width)
    if not chosen:
        _print_list(title, columns, table.caption, console)
        return
    caption = table.caption
    if gone := [column.name for column in columns if column not in (*chosen, *groups)]:
        caption += "\n" if caption else ""
        caption += f"Too wide for this terminal: {', '.join(gone)}. {remedy} shows all columns."
    before, console.width = console.width, width
    try:
        if title:
            console.print(title)
        _print_lines(chosen, groups, console)
        if caption:
            console.print("", caption, sep="\n")
    finally:
        console.width = before


def _print_list(title: str, columns: Sequence[Column], caption: str, console: Console) -> None:
    """Print each line of a table as lines of their own."""
    console.print(title)
    for line in range(len(columns[0].cells)):
        for place, column in enumerate(columns):
            text = f"{column.name}: {column.cells[line].text}"
            console.print(INDENT + text if place else text, soft_wrap=True)
    console.print(caption)


def _print_lines(columns: Sequence[Column], groups: Sequence[Column], console: Console) -> None:
    """Print headings and lines; the name of each group of lines stands above them."""
    widths = _widths(columns, console.width - len(INDENT) * bool(groups))

    def drawn(lines: Iterable[int], *, headings: bool) -> Padding:
        table = plain_table(show_header=headings)
        for column, width in zip(columns, widths, strict=True):
            table.add_column(visible_lines(column.heading), justify=column.justify, width=width)
        for line in lines:
            table.add_row(*(column.cells[line].text for column in columns))
        return Padding(table, (0, 0, 0, len(INDENT) * bool(groups)), expand=False)

    all_lines = range(len(columns[0].cells))
    if not groups:
        console.print(drawn(all_lines, headings=True))
        return
    console.print(drawn((), headings=True))
    for number, (name, lines) in enumerate(groupby(all_lines, partial(_group, groups))):
        console.print(*[""] * bool(number), name, drawn(lines, headings=False), sep="\n")


def _fitting(columns: list[Column], groups: list[Column], width: int) -> list[Column]:
    """Columns that matter most, and of the others those for which there is room.

    Without any number there is no table.
    """
    primary = [column for column in columns if column.primary]
    chosen = list(primary)
    while chosen and _width(chosen, groups, narrowest=True) > width:
        chosen.pop()
    if all(column.justify == "left" for column in chosen):
        return []
    for column in columns if chosen == primary else ():
        more = [other for other in columns if other in chosen or other is column]
        if _width(more, groups) <= width:
            chosen = more
    return chosen


def _group(groups: Sequence[Column], line: int) -> str:
    return ", ".join(column.cells[line].text for column in groups)


def _groups_lines(column: Column) -> bool:
    """Whether there are fewer groups of lines than lines."""
    return column.groups and len(list(groupby(column.cells))) < len(column.cells)


def _is_common(column: Column) -> bool:
    return len({cell.text for cell in column.cells}) == 1


def _widths(columns: Sequence[Column], room: int) -> list[int]:
    """Width of each column: that of its longest line, or less where words can be wrapped."""
    widths = [_natural(column) for column in columns]
    least = [_least(column) for column in columns]
    while sum(widths) + GAP * (len(widths) - 1) > room:
        place = max(range(len(widths)), key=lambda of: (widths[of] > least[of], widths[of]))
        if widths[place] == least[place]:
            break
        widths[place] -= 1
    return widths


def _width(
    columns: Sequence[Column], groups: Sequence[Column] = (), *, narrowest: bool = False
) -> int:
    """Width of a table in which no line is wrapped, or at most words are."""
    widths = [(_least if narrowest else _natural)(column) for column in columns]
    return sum(widths) + GAP * (len(widths) - 1) + len(INDENT) * bool(groups)


def _natural(column: Column) -> int:
    return max(cell_len(line) for line in _lines(column))


def _least(column: Column) -> int:
    """Width that a column needs: words of texts may be wrapped, numbers not."""
    if column.justify == "right":
        return _natural(column)
    words = (word for line in _lines(column) for word in line.split())
    return max(map(cell_len, words), default=0)


def _lines(column: Column) -> Iterator[str]:
    for text in (column.heading, *(cell.text for cell in column.cells)):
        yield from visible_lines(text).split("\n")
