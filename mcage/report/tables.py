"""A table of results: columns of cells, which terminals, CSV files and pages draw alike."""

import csv
import io
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, starmap, takewhile
from pathlib import Path
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mcage.errors import UserError
from mcage.plain_text import csv_text, shown, visible, visible_lines
from mcage.results.axes import CASE, NAMED_FOR_PEOPLE, Axis, differing
from mcage.results.measures import Measure
from mcage.stats.estimates import DASH, Estimate, known_name

# The terminal that tables are printed on.

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


Number = float | int


@dataclass(frozen=True)
class Cell:
    """A cell of a table, for people and for programs.

    Parameters
    ----------
    text : str
        As people read it, often in percent, with its interval.
    value : float, int, str or None
        The same in the unit of the column's key: infinity for an age beyond the horizon, NaN where
        nothing is known, None where the cell does not apply.
    lower, upper : float, optional
        Bounds of its interval, NaN where the sample gives none; None if it has no interval.
    """

    text: str
    value: Number | str | None
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    key : str
        Name for programs, with the unit, such as ``b10_life_years``; fractions have no unit. Empty
        if the column is for people alone.
    heading : str
        Name for people, in one line or more, with the unit; empty if the column is for programs
        alone.
    cells : tuple of Cell
        A cell for each line of the table.
    primary : bool
        Whether the column belongs to those that a narrow table shows.
    justify : str
        ``left`` or ``right``.
    groups : bool
        Whether the column says what several lines have in common, such as their environment. It is
        said once above these lines where the table is narrow or begins with this column, and in
        the title if all lines have it.
    """

    key: str
    heading: str
    cells: tuple[Cell, ...]
    primary: bool = False
    justify: Literal["left", "right"] = "right"
    groups: bool = False

    @property
    def name(self) -> str:
        """Heading in one line."""
        return " ".join(self.heading.split())

    @property
    def has_intervals(self) -> bool:
        """Whether a cell has an interval, be it unknown."""
        return any(cell.lower is not None for cell in self.cells)


@dataclass(frozen=True)
class ResultTable:
    """A table of results.

    Parameters
    ----------
    title : str
        What all lines have in common, such as their population.
    caption : str
        What the columns mean, and what their intervals are.
    columns : tuple of Column
        Columns of equally many cells.
    below : tuple of ResultTable
        Further tables of the same study, which stand below this table.

    Raises
    ------
    ValueError
        Columns differ in their number of cells, or have the same key.
    """

    title: str
    caption: str
    columns: tuple[Column, ...]
    below: tuple["ResultTable", ...] = ()

    def __post_init__(self) -> None:
        if len({len(column.cells) for column in self.columns}) != 1:
            raise ValueError("columns of a table have equally many cells")
        keys = [column.key for column in self.columns if column.key]
        if len(set(keys)) < len(keys):
            raise ValueError("columns of a table have keys of their own")

    @property
    def lines(self) -> int:
        """Number of lines."""
        return len(self.columns[0].cells)

    @property
    def shown(self) -> tuple[Column, ...]:
        """Columns for people."""
        return tuple(column for column in self.columns if column.heading)


def renamed_in(table: ResultTable, names: Mapping[str, str]) -> ResultTable:
    """Table in which people read other names of techniques and policies; programs read the old.

    Parameters
    ----------
    table : ResultTable
        The table.
    names : mapping of str to str
        Names as `mcage.report.cases.names_for` returns them.
    """

    def read(cell: Cell) -> Cell:
        return replace(cell, text=names.get(cell.text, cell.text))

    columns = tuple(
        replace(column, cells=tuple(map(read, column.cells)))
        if column.key in NAMED_FOR_PEOPLE
        else column
        for column in table.columns
    )
    below = tuple(renamed_in(part, names) for part in table.below)
    there = {c.text for of in table.columns if of.key in NAMED_FOR_PEOPLE for c in of.cells}
    of_users = [f"{names[name]} is {name}" for name in names if ":" in name and name in there]
    caption = table.caption
    if of_users:
        caption += f"{caption and chr(10)}In options, {', '.join(of_users)}."
    return replace(table, columns=columns, below=below, caption=caption)


def sorted_by(table: ResultTable, key: str) -> ResultTable:
    """Table with its lines in the order of a column; unknown values come last.

    Parameters
    ----------
    table : ResultTable
        What is below it stays as it is.
    key : str
        Key of a column or its beginning, if only one key begins so; after a minus sign for falling
        order.

    Raises
    ------
    UserError
        No column has this key, or several may be meant.
    """
    falling, name = key.startswith("-"), key.removeprefix("-")
    columns = {column.key: column for column in table.columns if column.key}
    name = known_name(name, columns)
    meant = [name] if name in columns else [other for other in columns if other.startswith(name)]
    if len(meant) != 1:
        raise UserError(
            f"--sort {shown(key)}: the table has {'several' if meant else 'no'} such columns; "
            f"they are {', '.join(meant or columns)}"
        )
    values = [cell.value for cell in columns[meant[0]].cells]
    known = [line for line, value in enumerate(values) if not _is_unknown(value)]
    known.sort(key=lambda line: _rank(values[line]), reverse=falling)
    order = known + [line for line, value in enumerate(values) if _is_unknown(value)]
    return replace(
        table,
        columns=tuple(
            replace(column, cells=tuple(column.cells[line] for line in order))
            for column in table.columns
        ),
    )


def _is_unknown(value: Number | str | None) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _rank(value: Number | str | None) -> tuple[str, Number]:
    return (value.casefold(), 0) if isinstance(value, str) else ("", value or 0)


Line = Mapping[str, Any]
"""Line of a table, by key: texts, numbers, estimates, None where one does not apply."""


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:,}"


def column(
    lines: Sequence[Line],
    key: str,
    heading: str = "",
    write: Callable[[Any], str] = _plain,
    *,
    primary: bool = False,
    groups: bool = False,
) -> Column:
    """Column of what lines say by a key; that of texts stays in a narrow table.

    Parameters
    ----------
    lines : sequence of mapping
        Lines; of estimates, bounds follow in columns of their own.
    key, heading, primary, groups
        As of `Column`.
    write : callable
        From what a line says to text, where it says something.
    """
    said = [line.get(key) for line in lines]
    are_texts = all(isinstance(value, str) for value in said)
    cells = (
        Cell(DASH, None)
        if value is None
        else Cell(write(value), *(vars(value).values() if isinstance(value, Estimate) else [value]))
        for value in said
    )
    return Column(
        key,
        heading,
        tuple(cells),
        primary=primary or are_texts,
        justify="left" if are_texts else "right",
        groups=groups,
    )


def columns_of_axes(axes: Sequence[Axis], points: Sequence[Line]) -> tuple[Column, ...]:
    """Columns of the axes of cases; for people, those with a single value stand in the title.

    Parameters
    ----------
    axes : sequence of Axis
        Axes; those on which a line has no value get no column.
    points : sequence of mapping
        Of each line, its values by the names of axes, besides others.
    """
    axes = [axis for axis in axes if all(axis.name in point for point in points)]
    several = differing(axes, points)
    shown = [axis for axis in axes if axis in several or not axis.of_spec]
    shown = [axis for axis in shown if axis.named != "never"]
    plain = (*shown[:1], *(axis for axis in several if axis.named != "always"))
    return tuple(
        column(
            points,
            axis.name,
            axis.title.replace(" [", "\n[") if axis in shown else "",
            lambda value: value if isinstance(value, str) else f"{value:.10g}",
            primary=True,
            groups=axis in shown and axis not in plain,
        )
        for axis in axes
    )


def columns_of_cases(
    axes: Sequence[Axis],
    lines: Sequence[Line],
    counts: Sequence[str] = ("instances", "worked", "horizon_years"),
) -> tuple[Column, ...]:
    """Columns that say of which file and case a line is, and what it counts.

    Parameters
    ----------
    axes : sequence of Axis
        As of `columns_of_axes`.
    lines : sequence of mapping
        Of each line, its values on the axes; its ``file``, where there are several; the label of
        its ``case``, which stands in CSV alone; and counts.
    counts : sequence of str
        Keys of texts and numbers that stand in CSV alone, where they are known of any line.
    """
    return (
        *file_column([line["file"] for line in lines] if "file" in lines[0] else ()),
        *([column(lines, CASE)] if CASE in lines[0] else []),
        *columns_of_axes(axes, lines),
        *(
            column(lines, key)
            for key in counts
            if key in lines[0] and not all(_is_unknown(line[key]) for line in lines)
        ),
    )


def remarks(heading: str, texts: Sequence[str], *, primary: bool = False) -> Column:
    """Column of words for people alone."""
    cells = tuple(Cell(text, None) for text in texts)
    return Column("", heading, cells, primary=primary, justify="left")


def measured(measure: Measure, lines: Sequence[Line]) -> Column:
    """Column of a measure, of lines that say what it is, and ``horizon_years`` if there is."""
    cells = []
    for line in lines:
        said = line[measure.key]
        text = measure.written(said, line.get("horizon_years", math.nan))
        bounds = list(vars(said).values()) if isinstance(said, Estimate) else [said]
        if measure.scale_in_csv != 1.0 and said is not None:
            bounds = [measure.scale_in_csv * bound for bound in bounds]
        cells.append(Cell(text, *bounds))
    return Column(measure.key, measure.heading, tuple(cells), primary=measure.primary)


def span(values: Sequence[Number]) -> str:
    """Write the lowest and the highest of some numbers, or the only one."""
    low, high = (f"{value:.10g}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def table_of_texts(
    title: str,
    headings: Sequence[str],
    lines: Sequence[Sequence[str]],
    numbers: Collection[str],
    primary: Collection[str],
) -> ResultTable:
    """Table of texts for people alone.

    Parameters
    ----------
    title : str
        Its title.
    headings : sequence of str
        A heading for each column.
    lines : sequence of sequence of str
        A text for each column.
    numbers, primary : collection of str
        Headings of the columns of numbers, and of those that a narrow table shows.
    """
    columns = zip(headings, zip(*lines, strict=True), strict=True)
    return ResultTable(
        title,
        "",
        tuple(
            Column(
                "",
                heading,
                tuple(Cell(text, None) for text in texts),
                primary=heading in primary,
                justify="right" if heading in numbers else "left",
            )
            for heading, texts in columns
        ),
    )


def file_column(files: Sequence[Path | str]) -> tuple[Column, ...]:
    """Column that says of which file each line is; none if there is a single file."""
    lines = [{"file": visible(str(path))} for path in files]
    return (column(lines, "file", "file", groups=True),) if files else ()


def csv_of(table: ResultTable) -> str:
    """Table in CSV: a line of keys, then a line for each line of the table.

    An estimate has columns of its own for its bounds, ``KEY_lower`` and ``KEY_upper``. Unknown
    numbers are empty, ages beyond the horizon are ``inf``.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    columns = [column for column in table.columns if column.key]
    writer.writerow(key for column in columns for key in _keys(column))
    for line in range(table.lines):
        cells = ((column.cells[line], column.has_intervals) for column in columns)
        writer.writerow(field for fields in starmap(_fields, cells) for field in fields)
    return file.getvalue()


def _keys(column: Column) -> Iterator[str]:
    yield column.key
    if column.has_intervals:
        yield from (f"{column.key}_{bound}" for bound in ("lower", "upper"))


def _fields(cell: Cell, with_bounds: bool) -> Iterator[str]:
    for content in (cell.value, cell.lower, cell.upper) if with_bounds else (cell.value,):
        if isinstance(content, str):
            yield csv_text(content)
        else:
            yield "" if content is None or math.isnan(content) else str(content)


def latex_of(table: ResultTable) -> str:
    """Table in LaTeX, with the rules of booktabs: what people read of it."""
    head, *body = (" & ".join(map(_latex, line)) + r" \\" for line in _for_people(table))
    columns = "".join(column.justify[0] for column in table.shown)
    rules = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body]
    return "\n".join([*rules, r"\bottomrule", r"\end{tabular}", ""])


_BARS = {ord("|"): r"\|"}


def markdown_of(table: ResultTable) -> str:
    """Table in Markdown, between vertical bars: what people read of it."""

    def of_line(texts: Sequence[str]) -> str:
        return f"| {' | '.join(visible(text).translate(_BARS) for text in texts)} |"

    head, *body = map(of_line, _for_people(table))
    rule = {"left": "---", "right": "---:"}
    rules = f"| {' | '.join(rule[column.justify] for column in table.shown)} |"
    return "\n".join([head, rules, *body, ""])


def _for_people(table: ResultTable) -> list[list[str]]:
    """Headings, and texts of the cells of each line, of the columns for people."""
    texts = ([column.cells[line].text for column in table.shown] for line in range(table.lines))
    return [[column.name for column in table.shown], *texts]


_LATEX = {letter: f"\\{letter}" for letter in "&%#_{}"} | {
    "\\": r"\textbackslash{}",
    "$": r"\$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "≤": r"$\le$",
    "–": "--",
}


def _latex(text: str) -> str:
    """Text as LaTeX shows it; mathematics between dollar signs stays."""
    parts = visible(text).split("$")
    if not len(parts) % 2:
        parts = [visible(text)]
    for place in range(0, len(parts), 2):
        escaped = "".join(_LATEX.get(letter, letter) for letter in parts[place])
        parts[place] = re.sub(r"> ([\d.]+)", r"$> \1$", escaped)
    return "$".join(parts)


# Tables of results in a terminal: as many columns as fit, and never a part of a number.

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
