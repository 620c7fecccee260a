"""``mcage show`` and ``mcage compare``: the tables of results files."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer
from rich.text import Text

import mcage
from mcage.cli.commands import Labels
from mcage.errors import UserError
from mcage.files.inputs import UnreadableFileError
from mcage.plain_text import shown, visible

if TYPE_CHECKING:
    from mcage.report.presentation import Presentation, Summary
    from mcage.report.tables import ResultTable
    from mcage.results.header import Header


# Options on the lines, the columns and the form of tables of results, and their printing.

FORM = "Lines, columns and form"


@dataclass(frozen=True)
class FormOptions:
    """Which lines and columns a table has, and its form."""

    panel: ClassVar = FORM

    where: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE")] = None
    """Show only what fulfils this, such as technique=rrcd,baseline or 'vdd>0.42': by technique,
    protection, environment, scenario, vdd, temperature, case; of GPUs by policy, technique,
    reading, design. May be given several times; all must hold."""
    sort: Annotated[str | None, typer.Option(metavar="COLUMN")] = None
    """Order lines by a column, named as --csv heads it (or by the beginning of that name); -COLUMN:
    the largest first."""
    wide: bool = False
    """Print all columns, also those for which the terminal has no room, and by digest what ran."""
    csv: bool = False
    """Print CSV instead of a table."""
    json: bool = False
    """Print JSON instead of a table."""
    latex: bool = False
    """Print the table for a paper in LaTeX, with the rules of booktabs."""
    markdown: bool = False
    """Print the table in Markdown."""

    @property
    def forms(self) -> list[str]:
        """Options that ask for another form than that of a terminal."""
        return [f"--{name}" for name in ("csv", "json", "latex", "markdown") if getattr(self, name)]


def check_form(form: FormOptions) -> None:
    """Refuse options that contradict each other.

    Raises
    ------
    UserError
        They do.
    """
    if len(form.forms) > 1:
        first, second, *_ = form.forms
        raise UserError(f"{first} and {second} are two forms: give one of them")
    if form.json and form.sort is not None:
        raise UserError("--sort orders the lines of a table or of CSV: leave out --json")


def print_in_form(table: "ResultTable", form: FormOptions) -> None:
    """Print a table in the form that the options say.

    Raises
    ------
    UserError
        There is no column to sort by.
    """
    from mcage.report import tables

    if form.sort is not None:
        table = tables.sorted_by(table, form.sort)
    if not form.forms:
        tables.print_table(table, tables.console(), wide=form.wide, remedy="--wide")
        return
    if not form.csv:
        written = tables.latex_of if form.latex else tables.markdown_of
        typer.echo("\n".join(map(written, (table, *table.below))), nl=False)
        return
    typer.echo(tables.csv_of(table), nl=False)
    for below in table.below:
        typer.echo(f"not in this CSV, but in --json and in mcage report: {below.title}", err=True)


def print_json(content: Any) -> None:
    """Print plain values as JSON."""
    typer.echo(dumps(content, indent=2, allow_nan=False))


def print_notes(
    files: Sequence[Path], *, to_stderr: bool, heeds_dies: bool = False, programs: bool = False
) -> None:
    """Print what must be known of the files; of several, with their names.

    `heeds_dies`: whether intervals are those of slices that share dies; `programs`: whether
    digests of what ran are printed.
    """
    from mcage.report.notes import note_on_programs, notes_on
    from mcage.results.reader import read_header

    for file in files:
        name, header = f"{file}: " if len(files) > 1 else "", read_header(file)
        notes = notes_on(file, header, heeds_dies)
        if programs or len(files) > 1:
            notes += filter(None, [note_on_programs(header)])
        if programs:
            notes += [f"{key}: {digest}" for key, digest in header.programs.items()]
        for note in notes:
            typer.echo(visible(name + note), err=to_stderr)


TABLES = "Other tables"


@dataclass(frozen=True)
class TableOptions:
    """Which table is shown instead of that of the cases."""

    panel: ClassVar = TABLES

    compare: Annotated[tuple[str, str] | None, typer.Option(metavar="A B")] = None
    """Compare two cases die by die; each is named by its values on axes, or its label. Files are
    compared by mcage compare."""
    causes: bool = False
    """Show by age what fraction of the slices each cause of death has ended."""
    fit: bool = False
    """Fit Weibull and lognormal distributions, and say whether lives follow them."""
    rate_at: Annotated[list[float] | None, typer.Option(metavar="YEARS")] = None
    """Show how many slices have failed by that age, in ppm, and their mean failure rate until then,
    in FIT. May be given several times."""
    slices_per_chip: Annotated[int | None, typer.Option(metavar="N")] = None
    """Show the lives of chips of N successive slices."""
    spare_slices: Annotated[int | None, typer.Option(metavar="N")] = None
    """Number of dead slices that such a chip tolerates. Default: 0."""
    by: Annotated[Literal["instruction", "register", "bit", "lane"] | None, typer.Option()] = None
    """Of flips: show what becomes of those into the result of each instruction, each register, bit
    or lane."""

    @property
    def chosen(self) -> list[str]:
        """Options of which each asks for a table of its own."""
        asked = {
            "--compare": self.compare is not None,
            "--causes": self.causes,
            "--fit": self.fit,
            "--rate-at": bool(self.rate_at),
            "--slices-per-chip": self.slices_per_chip is not None,
            "--by": self.by is not None,
        }
        return [name for name, is_given in asked.items() if is_given]


def show(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Results files, such as those of one case each."),
    ],
    which: TableOptions,
    form: FormOptions,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also draw the fraction of working slices against age: .png, .pdf or .svg.",
        ),
    ] = None,
    label: Labels = None,
) -> None:
    """Show for each case lives, threshold shifts, spills, slowdown, energy and causes of death."""
    from mcage.report.cases import Condition, names_for, parsed_labels, summarized
    from mcage.report.presentation import presentation_of

    _check_options(which, form)
    where = [Condition.parse(text) for text in form.where or ()]
    headers = {path: _header(path) for path in files}
    _check_studies(headers, [*which.chosen, *(["--figure"] if figure is not None else [])])
    labels = parsed_labels(label or ())
    names = names_for([*headers.values()], labels)
    if figure is not None:
        if which.slices_per_chip is not None:
            raise UserError("--figure draws lives of slices, not of chips: leave out one of them")
        if len(files) > 1:
            raise UserError(f"--figure is for one file: leave out {files[1]}")
        from mcage.analysis.drawing import draw_survival_of_file

        draw_survival_of_file(files[0], figure, where, labels)
    if which.compare:
        if len(files) > 1:
            raise UserError(
                f"--compare is for one file: leave out {files[1]}; mcage compare compares files, "
                "and results.mcage.paired() of Python other cases of two files"
            )
        _show_comparison(files[0], which.compare, names, form)
    elif which.chosen:
        summarize, table_of = _other_table(which, presentation_of(headers[files[0]]))
        of_files = {path: summarized(path, summarize, where) for path in files}
        _show_lines(of_files, table_of, form, names)
    else:
        shown = presentation_of(headers[files[0]])
        of_files = {path: shown.summarize_file(path, where) for path in files}
        _show_lines(of_files, shown.table_of, form, names)
    if which.slices_per_chip is None:
        print_notes(files, to_stderr=bool(form.forms), programs=form.wide)


def _header(path: Path) -> "Header":
    """Header of a results file; where only its shards are there, say what makes it."""
    from mcage.campaign.finished import recorded_campaign
    from mcage.campaign.merge import filling_command
    from mcage.campaign.shards import shard_folder
    from mcage.results.reader import read_header

    try:
        return read_header(path)
    except UnreadableFileError:
        if os.path.lexists(path) or not os.path.isdir(folder := shard_folder(path)):
            raise
    try:
        begun = recorded_campaign(folder)
    except UserError:  # no shard is finished
        begun = None
    raise UserError(
        f"{path} is not there yet, but its shards are in {folder}: mcage status says how many "
        "instances they hold, and the same command as before computes the others",
        command=filling_command(begun, path, folder) if begun else "",
    )


def _check_options(which: TableOptions, form: FormOptions) -> None:
    """Refuse options that contradict each other."""
    if len(which.chosen) > 1:
        first, *others = which.chosen
        raise UserError(
            f"{first} and {' and '.join(others)} show different tables: give one of them"
        )
    if which.spare_slices is not None and which.slices_per_chip is None:
        raise UserError(
            f"--spare-slices {which.spare_slices}: only chips have spare slices; give the number "
            "of slices of a chip with --slices-per-chip, too"
        )
    check_form(form)
    if which.compare and form.where:
        raise UserError("--where selects lines of a table of cases; --compare names its cases")


def _check_studies(headers: Mapping[Path, "Header"], options: Sequence[str]) -> None:
    """Refuse files of different studies, and options of sweeps where another study wrote."""
    first, *_ = headers
    for path, header in headers.items():
        if header.study != headers[first].study:
            raise UserError(f"{path} holds another study than {first}: show it for itself")
        for option in options:
            study, whose = ("inject", "injections") if option == "--by" else ("sweep", "sweeps")
            if header.study != study:
                raise UserError(
                    f"{option} is for {whose}; {path} holds the study {shown(header.study)}"
                )


def _other_table(
    which: TableOptions, shown: "Presentation"
) -> tuple[Callable[..., Sequence["Summary"]], Callable[..., "ResultTable"]]:
    """Functions that summarize a file, and that make its table."""
    from mcage.studies.sweep import tables

    if which.by:
        return partial(shown.summarize_by, by=which.by), partial(shown.table_by, by=which.by)
    if which.causes:
        return tables.summarize_causes, tables.table_of_causes
    if which.fit:
        return tables.summarize_fits, tables.table_of_fits
    if which.rate_at:
        return partial(tables.summarize_rates, ages_years=which.rate_at), tables.table_of_rates
    count, spare = which.slices_per_chip, which.spare_slices or 0
    summarize = partial(tables.summarize_chips, slices_per_chip=count, spare_slices=spare)
    return summarize, tables.table_of_chips


def _show_lines(
    of_files: Mapping[Path, Sequence["Summary"]],
    table_of: Callable[..., "ResultTable"],
    form: FormOptions,
    names: Mapping[str, str],
) -> None:
    """Show the cases of all files in one table, or as JSON; those of several, with their files."""
    from mcage.report.presentation import Summary
    from mcage.report.tables import renamed_in
    from mcage.stats.estimates import plain

    def named(path: Path, fields: dict[str, Any]) -> Summary:
        return Summary(({"file": str(path)} if len(of_files) > 1 else {}) | fields)

    if form.json:
        print_json([named(path, of) for path, rows in of_files.items() for of in plain(rows)])
        return
    table = table_of([named(path, row) for path, rows in of_files.items() for row in rows])
    print_in_form(renamed_in(table, names), form)


def _show_comparison(
    file: Path, pair: tuple[str, str], names: Mapping[str, str], form: FormOptions
) -> None:
    """Show two cases die by die."""
    from mcage.report.comparison import compare_in_file, lines_by_key, table_of
    from mcage.stats.estimates import plain

    compared = compare_in_file(file, *pair, {} if form.json else names)
    if form.json:
        print_json(plain(compared) | {"lines": lines_by_key(compared.lines)})
    else:
        print_in_form(table_of(compared), form)


# ``mcage compare``: cases that several results files have in common.


def compare(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B...", help="Results files; the first is compared with the others."
        ),
    ],
    form: FormOptions,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Key of the specs that is meant to differ, such as aging.model, or a section, "
            "such as aging. May be given several times.",
        ),
    ] = None,
) -> None:
    """Compare results files case by case: one by one on the same dies where seeds match.

    Files whose specs differ in more than cases, seed and instances are refused, unless --allow says
    that the difference is meant.
    """
    from mcage.report.comparison import (
        NOTE,
        NOTE_ON_STUDIES,
        as_json,
        pairs_of,
        pairs_table,
        title_of,
    )

    check_form(form)
    comparisons = mcage.compare(files, allow or (), form.where or ())
    if form.json:
        print_json([as_json(comparison) for comparison in comparisons])
    else:
        note = NOTE if comparisons[0].study == "sweep" else NOTE_ON_STUDIES
        print_in_form(pairs_table(title_of(comparisons), pairs_of(comparisons), note), form)
    print_notes(files, to_stderr=bool(form.forms))


# ``mcage report``: figures, tables and a page of results files, in a folder.


class Width(StrEnum):
    """Width of the figures in mm: a column, or a page, of a paper."""

    COLUMN = "85"
    PAGE = "180"


@dataclass(frozen=True)
class DrawingOptions:
    """Look of figures."""

    panel: ClassVar = "Figures"

    width: Annotated[Width, typer.Option(metavar="MM")] = Width.PAGE
    """Width of the figures in mm: 85, a column of a paper, or 180, its page."""
    height: Annotated[float | None, typer.Option(metavar="MM", min=40, max=1000)] = None
    """Height of the figures in mm. Default: what their panels need."""
    x: Annotated[str, typer.Option(metavar="AXIS")] = ""
    """Draw measures of the cases against this axis of numbers, such as vdd or temperature, with a
    curve for each point on the others. Default: each axis by which cases differ."""
    no_title: bool = False
    """Draw figures without titles, as papers caption them."""


def report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Results files. Those of the same study stand side by side.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the page (index.html), figures as PDF and PNG, and their numbers as "
            "CSV. A report that is there already is replaced, and nothing else is.",
        ),
    ],
    drawing: DrawingOptions,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Show only cases of sweeps that fulfil this, such as technique=rrcd,baseline or "
            "'vdd>0.42', as mcage show does. May be given several times; all must hold.",
        ),
    ] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Draw this figure only, such as survival. May be given several times.",
        ),
    ] = None,
    label: Labels = None,
) -> None:
    """Write a page with summary, table and figures that needs no network, and all figures."""
    from mcage.report.cases import Condition, parsed_labels
    from mcage.report.folder import PAGE, ReportOptions, write_report
    from mcage.report.tables import PlainConsole

    options = ReportOptions(
        width_mm=float(drawing.width),
        where=tuple(map(Condition.parse, where or ())),
        figures=tuple(figure or ()),
        title=not drawing.no_title,
        labels=parsed_labels(label or ()),
        height_mm=drawing.height,
        x=drawing.x,
    )
    terminal = PlainConsole(stderr=True)
    said = (lambda title: terminal.print(Text(visible(title)))) if terminal.is_terminal else str
    write_report(files, out, options, said)
    typer.echo(visible(f"{out / PAGE} is the page; figures, numbers and specs lie beside it"))
