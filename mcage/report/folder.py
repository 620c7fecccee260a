"""The folder of a report: its page, and each figure as PDF and PNG with its numbers as CSV."""

import csv
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.files.atomic import flush_folder, make_name_last
from mcage.files.inputs import MIB, UnreadableFileError, read_regular
from mcage.plain_text import csv_text, shown, shown_path
from mcage.report.cases import (
    Condition,
    axes_of,
    names_for,
    places_where,
    points_of,
    selected_cases,
    with_names,
)
from mcage.report.figures import against, pareto
from mcage.report.figures.canvas import WIDTHS_MM, AbsentFigure, Plot, ReportFigure, save
from mcage.report.notes import notes_on
from mcage.report.page import PageFigure, PageSource, StudySection, drawing_of, page_of
from mcage.report.presentation import Summary, presentation_of, sheet_of
from mcage.report.tables import ResultTable, csv_of, renamed_in
from mcage.results.axes import said
from mcage.results.header import Header
from mcage.results.reader import open_results, read_header

# A folder of a report that is either there and whole, or not there.
#
# It is made beside its place and gets its name when all of it is on the disk. It lists what it
# holds in a file of its own, so that a later report replaces what mcage has written and nothing
# else.

CONTENTS = "contents.json"
FILETYPE = "mcage report"
MOST_CONTENTS_BYTES = 16 * MIB

_TEMPORARY = re.compile(r"\.mcage-(?P<destination>[0-9a-f]{12})-[0-9a-f]{16}\.report")


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give a new folder to write in; it appears as ``folder`` when the block succeeds.

    Raises
    ------
    UserError
        The folder cannot be written, or holds what is not of a report.
    """
    try:
        place = Path(os.path.realpath(folder)) if folder.is_symlink() else folder.absolute()
        _check(folder, place)
        _remove_abandoned(place)
        beside, lock = _new_folder(place)
        try:
            yield beside
            _write_contents(beside)
            _check(folder, place)
            _give_name(beside, place)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
            os.close(lock)
    except OSError as error:
        raise UserError(f"cannot write {shown_path(folder)}: {error.strerror or error}") from error
    make_name_last(place)


def _check(folder: Path, place: Path) -> None:
    """Refuse a folder that holds anything but a report.

    Raises
    ------
    UserError
        There is such a thing, or no folder to make it in.
    """
    if not place.parent.is_dir():
        raise UserError(
            f"cannot write {shown_path(folder)}: there is no folder {shown_path(place.parent)}"
        )
    if not os.path.lexists(place):
        return
    if place in (Path.cwd(), *Path.cwd().parents):
        raise UserError(
            f"cannot write {shown_path(folder)}: it is the current folder, or above it; give a "
            "folder of its own"
        )
    if not place.is_dir():
        raise UserError(f"cannot write {shown_path(folder)}: a file of this name is there already")
    listed = _contents(place)
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_symlink() or (not path.is_dir() and name not in listed):
            raise UserError(
                f"cannot write {shown_path(folder)}: it holds {name}, which is not of a report; "
                "give another folder"
            )


def _contents(place: Path) -> set[str]:
    """Files that a report says it has written; none where there is no report."""
    try:
        listed = json.loads(read_regular(place / CONTENTS, MOST_CONTENTS_BYTES))
        if listed["filetype"] == FILETYPE:
            return {CONTENTS, *map(str, listed["files"])}
    except (UnreadableFileError, ValueError, TypeError, KeyError, RecursionError):
        pass
    return set()


def _write_contents(folder: Path) -> None:
    """List what the folder holds, and bring all of it to the disk."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in files]
    contents = folder / CONTENTS
    contents.write_text(json.dumps({"filetype": FILETYPE, "files": names}, indent=1))
    for path in (*files, contents):
        flush_folder(path)
    for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        flush_folder(path)


def _give_name(beside: Path, place: Path) -> None:
    """Put the new folder in the place of the old one, which goes only then."""
    if not place.exists():
        os.rename(beside, place)
        return
    old, lock = _new_folder(place)
    try:
        os.rename(place, old)  # over an empty folder
        os.rename(beside, place)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        os.close(lock)


def _new_folder(place: Path) -> tuple[Path, int]:
    """New folder beside a place, and its descriptor, which holds a lock on it."""
    path = place.with_name(f".mcage-{_digest(place)}-{secrets.token_hex(8)}.report")
    path.mkdir()
    descriptor = os.open(path, os.O_RDONLY)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return path, descriptor


def _remove_abandoned(place: Path) -> None:
    """Remove the folders that killed processes have left for this place."""
    for path in place.parent.iterdir():
        match = _TEMPORARY.fullmatch(path.name)
        if not match or match["destination"] != _digest(place) or path.is_symlink():
            continue
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
            finally:
                os.close(descriptor)


def _digest(place: Path) -> str:
    return hashlib.blake2b(os.fsencode(place.name), digest_size=6).hexdigest()


PAGE = "index.html"
TABLE = "table"

FORMATS = ("pdf", "png")


@dataclass(frozen=True)
class ReportOptions:
    """Content and look of a report.

    Parameters
    ----------
    width_mm : float
        Width of the figures, one of `mcage.report.figures.canvas.WIDTHS_MM`.
    height_mm : float, optional
        Their height; by default what their panels need.
    where : tuple of Condition
        What the cases of sweeps must fulfil.
    figures : tuple of str
        Names of the figures; none for all.
    title : bool
        Whether figures have titles.
    labels : mapping of str to str
        Names of techniques and policies for people, as of `mcage.report.cases.names_for`.
    x : str
        Axis against which measures are drawn, as of `figures_of`.
    """

    width_mm: float = WIDTHS_MM[-1]
    where: tuple[Condition, ...] = ()
    figures: tuple[str, ...] = ()
    title: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    height_mm: float | None = None
    x: str = ""


def write_report(
    paths: Sequence[Path],
    folder: Path,
    options: ReportOptions = ReportOptions(),
    say: Callable[[str], object] = str,
) -> None:
    """Write the report of results files: a page, and its figures, tables and specs as files.

    Parameters
    ----------
    paths : sequence of Path
        Results files, at least one. Files of the same study stand side by side.
    folder : Path
        A folder that is not there yet, is empty, or holds a report and nothing else; a report is
        replaced when the new one is complete.
    options : ReportOptions
        What it shows of them.
    say : callable
        Receives the name of each figure that has been drawn.

    Raises
    ------
    UserError
        A file is given twice, missing, foreign or damaged; files cannot share a table; the folder
        holds something else, or cannot be written; no case or no figure is what is wanted.
    """
    _refuse_twice(paths)
    headers = {path: _header_of(path, options.where) for path in paths}
    with whole_folder(folder) as place:
        names = _names_of(paths)
        by_study: dict[str, list[Path]] = {}
        for path in paths:
            by_study.setdefault(headers[path].study, []).append(path)
        report = _Report(place, headers, names, options, say)
        studies = [report.study(together) for together in by_study.values()]
        report.refuse_unknown_figures()
        (place / PAGE).write_text(page_of(studies), encoding="utf-8")


def figures_of(header: Header, results: xr.Dataset, x: str = "") -> Iterator[Plot | AbsentFigure]:
    """Figures of a results file, one by one: of its study, its front, and measures against axes.

    Parameters
    ----------
    header, results
        As of `mcage.report.presentation.Presentation.figures`.
    x : str
        Name or key of the axis of numbers against which measures are drawn, of a study that
        declares some; by default each by which cases differ.

    Raises
    ------
    UserError
        As that; or there is no such axis.
    """
    measures = [measure for measure in header.measures if measure.better]
    if x:
        against.curves_along(results, x)  # refuses it before anything is drawn
        if not measures:
            raise UserError(f"--x {x}: the study {header.study} declares no measure to draw")
    yield from presentation_of(header).figures(header, results)
    yield from pareto.of_file(header, results)
    for name in [x] if x else against.numeric_axes(results):
        if measures:
            yield against.plot_of(results, name, measures)


def _header_of(path: Path, where: Sequence[Condition]) -> Header:
    """Header of a file, with the cases that fulfil all conditions."""
    header = read_header(path)
    if not where:
        return header
    presentation = presentation_of(header)
    if presentation.reads_by_place:
        raise UserError(
            f"{path}: --where {where[0]}: figures of the study {shown(header.study)} compare all "
            "of its cases; mcage show --where selects lines of its table by "
            f"{', '.join(header.grid)}"
        )
    with open_results(path) as results:
        try:
            return header.of_cases(places_where(where, points_of(results), axes_of(results)))
        except UserError as error:
            raise UserError(f"{path}: {error}") from error


def _refuse_twice(paths: Sequence[Path]) -> None:
    seen: dict[str, Path] = {}
    for path in paths:
        if (real := os.path.realpath(path)) in seen:
            raise UserError(f"{shown_path(path)} and {shown_path(seen[real])} are the same file")
        seen[real] = path


def _names_of(paths: Sequence[Path]) -> dict[Path, str]:
    """Name of each results file in the folder: that of the file, unless another has it."""
    names: dict[Path, str] = {}
    for path in paths:
        stem = _plain(path.name.removesuffix(".h5")) or "results"
        name, number = stem, 2
        while name in names.values():
            name, number = f"{stem}-{number}", number + 1
        names[path] = name
    return names


def _plain(name: str) -> str:
    """Name that every file system and every link takes."""
    return re.sub(r"[^A-Za-z0-9.+_-]", "_", name).strip(".")


class _Report:
    """A report that is being written.

    Parameters
    ----------
    place : Path
        Its folder.
    headers : mapping of Path to Header
        Its results files.
    names : mapping of Path to str
        Name of each of them in the folder.
    options : ReportOptions
        What is shown of them.
    say : callable
        Receives the name of each figure.
    """

    def __init__(
        self,
        place: Path,
        headers: Mapping[Path, Header],
        names: Mapping[Path, str],
        options: ReportOptions,
        say: Callable[[str], object],
    ) -> None:
        self._options = options
        self._technique_names = names_for([*headers.values()], options.labels)
        self._drawn: set[str] = set()
        self._cases: dict[Path, list[str]] = {}
        self._say = say
        self._place = place
        self._headers = headers
        self._names = names
        self._number = list(headers).index
        alike = len({path.name for path in headers}) < len(headers)
        self._shown = {path: str(path) if alike else path.name for path in headers}

    def study(self, paths: Sequence[Path]) -> StudySection:
        """Write the files of a study, and return its section of the page."""
        rows: dict[str, list[PageFigure]] = {}
        sources = []
        for path in paths:
            self._folder(path).mkdir(exist_ok=True)
            spec = self._folder(path) / f"{self._names[path]}.toml"
            spec.write_text(self._headers[path].spec_toml, encoding="utf-8")
            with open_results(path) as opened:
                chosen = selected_cases(opened, self._options.where)
                results = with_names(chosen, self._technique_names)
                self._cases[path] = [said(point) for point in points_of(results)]
                try:
                    sources.append(self._source(path, results, spec.name))
                except UserError as error:
                    raise UserError(f"{path}: {error}") from error
                for shown in self._figures(path, results):
                    rows.setdefault(shown.name, []).append(shown)
        table, cases = self._table(paths)
        study = self._headers[paths[0]].study
        single = len({header.study for header in self._headers.values()}) == 1
        name = TABLE if single else f"{_plain(study)}-{TABLE}"
        table = renamed_in(table, self._technique_names)
        links = []
        for number, part in enumerate((table, *table.below), 1):
            links.append(f"{name}-{number}.csv" if number > 1 else f"{name}.csv")
            (self._place / links[-1]).write_text(csv_of(part), encoding="utf-8")
        figures = tuple(map(tuple, rows.values()))
        return StudySection(study, tuple(sources), table, tuple(links), cases, figures)

    def _source(self, path: Path, results: xr.Dataset, spec_name: str) -> PageSource:
        """Text of the page about a results file."""
        header = self._headers[path]
        return PageSource(
            name=self._shown[path],
            header=header,
            words=presentation_of(header).words(header, results),
            assumptions=presentation_of(header).assumptions(header, results),
            notes=(*notes_on(path, header), *self._selection),
            spec_name=spec_name,
        )

    @property
    def _selection(self) -> tuple[str, ...]:
        """Note on cases that are left out."""
        conditions = " and ".join(map(str, self._options.where))
        return (f"Only cases with {conditions} are shown.",) if conditions else ()

    def refuse_unknown_figures(self) -> None:
        """Refuse names of figures that no file has.

        Raises
        ------
        UserError
            There is such a name.
        """
        if unknown := [name for name in self._options.figures if name not in self._drawn]:
            there = ", ".join(sorted(self._drawn))
            raise UserError(f"--figure {shown(unknown[0])}: there is none; there are {there}")

    def _folder(self, path: Path) -> Path:
        """Where the files of a results file lie: a folder for each, if there are several."""
        return self._place / self._names[path] if len(self._headers) > 1 else self._place

    def _table(self, paths: Sequence[Path]) -> tuple[ResultTable, tuple[str, ...]]:
        """Table of all cases, and the case of each of its lines, with the number of its file."""
        shown, several = presentation_of(self._headers[paths[0]]), len(paths) > 1
        where = self._options.where
        lines = {
            path: [
                Summary(({"file": self._shown[path]} if several else {}) | row)
                for row in shown.summarize_file(path, where)
            ]
            for path in paths
        }
        cases: list[str] = []
        for path, rows in lines.items():
            count = shown.table_of(rows).lines
            # A case may have several lines, such as one for each age; other tables have no cases.
            of_each, left_over = divmod(count, len(self._cases[path]))
            number = self._number(path)
            cases += (
                [""] * count
                if left_over
                else [f"{number} {line // of_each}" for line in range(count)]
            )
        return shown.table_of([row for rows in lines.values() for row in rows]), tuple(cases)

    def _figures(self, path: Path, results: xr.Dataset) -> Iterator[PageFigure]:
        """Write the figures of a results file, and yield them for the page."""
        number = self._number(path)
        file = self._shown[path] if len(self._headers) > 1 else ""
        options, header = self._options, self._headers[path]
        wanted, drawn = {*options.figures}, set[str]()
        sheet = replace(
            sheet_of(header, results, options.width_mm),
            title=options.title,
            height_mm=options.height_mm,
        )
        for figure in figures_of(header, results, options.x):
            self._drawn.add(figure.name)
            if wanted and figure.name not in wanted:
                if wanted <= drawn:
                    break  # what follows need not be made
                continue
            drawn.add(figure.name)
            self._say(f"{self._shown[path]}: {figure.title}")
            if isinstance(figure, AbsentFigure):
                yield PageFigure(figure.name, figure.title, figure.reason, number, file)
                continue
            for page in figure.pages(sheet):
                links = tuple(self._write(page, path))
                drawing = drawing_of(page, f"f{number}")
                yield PageFigure(page.name, page.title, page.caption, number, file, drawing, links)

    def _write(self, figure: ReportFigure, path: Path) -> Iterator[tuple[str, str]]:
        """Write a figure and its numbers, and yield the format and the path of each file."""
        folder = self._folder(path)
        for form in FORMATS:
            save(figure.figure, folder / f"{figure.name}.{form}")
            yield (
                form.upper(),
                (folder / f"{figure.name}.{form}").relative_to(self._place).as_posix(),
            )
        numbers = folder / f"{figure.name}.csv"
        with numbers.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream, lineterminator="\n").writerows(
                _numbers_of(figure, self._cases[path])
            )
        yield "numbers (CSV)", numbers.relative_to(self._place).as_posix()


def _numbers_of(figure: ReportFigure, cases: Sequence[str]) -> Iterator[Sequence[object]]:
    """Lines of a CSV file with all that a figure shows; cases have their labels."""
    yield (
        "panel",
        "x_axis",
        "y_axis",
        "series",
        "case",
        "x",
        "x_lower",
        "x_upper",
        "y",
        "lower",
        "upper",
    )
    for panel in figure.panels:
        for series in panel.series:
            words = [panel.title, panel.x_label, panel.y_label, series.label]
            labels = [cases[place] for place in series.cases]
            if len(labels) != series.x.size:  # one for all points, or several for each
                labels = [labels[0] if len(labels) == 1 else ""] * series.x.size
            columns = (
                *(series.x, series.x_lower, series.x_upper),
                *(series.y, series.lower, series.upper),
            )
            unknown = np.full(len(series.x), np.nan)
            known = (unknown if column is None else column for column in columns)
            for label, *numbers in zip(labels, *known, strict=True):
                yield (
                    *map(csv_text, (*words, label)),
                    *("" if np.isnan(number) else number for number in numbers),
                )
