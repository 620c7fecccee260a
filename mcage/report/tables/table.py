"""A table of results: columns of cells, which terminals, CSV files and pages draw alike."""

import csv
import io
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import Literal

from mcage.errors import UserError
from mcage.plain_text import csv_text, shown, visible
from mcage.stats.estimates import Estimate
from mcage.stats.wording import DASH, known_name, life

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


def renamed(label: str, names: Mapping[str, str]) -> str:
    """Label of a case, or name of a technique, with the name that people read."""
    technique, space, rest = label.partition(" ")
    return f"{names.get(technique, technique)}{space}{rest}"


def renamed_in(table: ResultTable, names: Mapping[str, str]) -> ResultTable:
    """Table in which people read other names of techniques and policies; programs read the old.

    Parameters
    ----------
    table : ResultTable
        The table.
    names : mapping of str to str
        Names as `mcage.report.cases.names_for` returns them.
    """
    columns = (
        replace(column, cells=tuple(replace(c, text=renamed(c.text, names)) for c in column.cells))
        if column.key in ("technique", "policy", "case")
        else column
        for column in table.columns
    )
    below = tuple(renamed_in(part, names) for part in table.below)
    return replace(table, columns=tuple(columns), below=below)


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


def names(key: str, heading: str, texts: Sequence[str], *, groups: bool = False) -> Column:
    """Column of names, which says of what a line is."""
    cells = tuple(Cell(text, text) for text in texts)
    return Column(key, heading, cells, primary=True, justify="left", groups=groups)


def remarks(heading: str, texts: Sequence[str], *, primary: bool = False) -> Column:
    """Column of words for people alone."""
    cells = tuple(Cell(text, None) for text in texts)
    return Column("", heading, cells, primary=primary, justify="left")


def numbers(
    key: str,
    heading: str,
    values: Sequence[Number],
    write: Callable[[Number], str] = "{:,}".format,
    *,
    primary: bool = False,
) -> Column:
    """Column of numbers without an interval, such as counts."""
    cells = tuple(Cell(write(value), value) for value in values)
    return Column(key, heading, cells, primary=primary)


def estimates(
    key: str,
    heading: str,
    estimated: Sequence[Estimate | None],
    write: Callable[[Estimate], str],
    *,
    primary: bool = False,
) -> Column:
    """Column of estimates; None where a line has none."""
    cells = tuple(
        Cell(DASH, None) if estimate is None else Cell(write(estimate), *vars(estimate).values())
        for estimate in estimated
    )
    return Column(key, heading, cells, primary=primary)


def ages(
    key: str,
    heading: str,
    estimated: Sequence[Estimate],
    horizons_years: Sequence[float],
    *,
    primary: bool = False,
) -> Column:
    """Column of ages in years, some of which lie beyond the horizon of their line."""
    cells = tuple(
        Cell(life(age, horizon), *vars(age).values())
        for age, horizon in zip(estimated, horizons_years, strict=True)
    )
    return Column(key, heading, cells, primary=primary)


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


def file_column(files: Sequence[Path]) -> tuple[Column, ...]:
    """Column that says of which file each line is; none if there is a single file."""
    texts = [visible(str(path)) for path in files]
    return (names("file", "file", texts, groups=True),) if files else ()


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
