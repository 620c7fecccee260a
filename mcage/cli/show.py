"""``mcage show``: the tables of a results file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console

Shown = TypeVar("Shown")


@dataclass(frozen=True)
class FormOptions:
    """How tables are printed."""

    wide: Annotated[
        bool,
        typer.Option(
            "--wide", help="Print all columns, also those for which the terminal has no room."
        ),
    ] = False
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False


def show(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Results files, such as those of one case each."),
    ],
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B",
            help="Compare two cases die by die; each is named by its label or its beginning, or "
            "by its file.",
        ),
    ] = None,
    causes: Annotated[
        bool,
        typer.Option(
            "--causes",
            help="Show by age what fraction of the slices each cause of death has ended.",
        ),
    ] = False,
    fit: Annotated[
        bool,
        typer.Option(
            "--fit",
            help="Fit Weibull and lognormal distributions, and say whether lives follow them.",
        ),
    ] = False,
    slices_per_chip: Annotated[
        int | None,
        typer.Option(metavar="N", help="Show the lives of chips of N successive slices."),
    ] = None,
    spare_slices: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of dead slices that such a chip tolerates. Default: 0."
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also draw the fraction of working slices against age: .png, .pdf or .svg.",
        ),
    ] = None,
    form: FormOptions = FormOptions(),
) -> None:
    """Show for each case lives, threshold shifts, spills, slowdown, energy and causes of death."""
    from mcage.errors import UserError

    wide, json = form.wide, form.json
    if (compare is not None) + causes + fit + (slices_per_chip is not None) > 1:
        raise UserError(
            "--compare, --causes, --fit and --slices-per-chip show different tables: "
            "give one of them"
        )
    if spare_slices is not None and slices_per_chip is None:
        raise UserError(
            f"--spare-slices {spare_slices}: only chips have spare slices; give the number of "
            "slices of a chip with --slices-per-chip, too"
        )
    options = {
        "--causes": causes,
        "--fit": fit,
        "--slices-per-chip": slices_per_chip,
        "--figure": figure,
    }
    file, *others = files
    if others and (given := _given(options)):
        raise UserError(f"{given[0]} is for one file: leave out {others[0]}")
    for path in files:
        _require_study(path, {"--compare": compare, **options})
    if figure is not None:
        if slices_per_chip is not None:
            raise UserError("--figure draws lives of slices, not of chips: leave out one of them")
        from mcage.report.figures.survival import draw_survival_of_file

        draw_survival_of_file(file, figure)
    if slices_per_chip is not None:
        from mcage.report.tables.chips import print_chips, summarize_chips_of_file

        _show(summarize_chips_of_file(file, slices_per_chip, spare_slices or 0), print_chips, json)
        return
    if compare:
        from mcage.report.tables.comparison import (
            compare_in_file,
            compare_in_files,
            print_comparison,
        )

        comparison = (
            compare_in_files(files, *compare) if others else compare_in_file(file, *compare)
        )
        _show(comparison, print_comparison, json)
    elif causes:
        from mcage.report.tables.causes import print_causes, summarize_causes_of_file

        _show(summarize_causes_of_file(file), print_causes, json)
    elif fit:
        from mcage.report.tables.fits import print_fits, summarize_fits_of_file

        _show(summarize_fits_of_file(file), print_fits, json)
    elif others:
        _show_all(files, wide, json)
    else:
        from importlib import import_module

        from mcage.results.reader import read_header

        header = read_header(file)
        table = import_module(header.table)
        summaries = table.summarize_file(file)
        if getattr(header, "draws", ()):
            _show_with_draws(file, summaries, _printed_by(table, wide), json)
        else:
            _show(summaries, _printed_by(table, wide), json)
    _print_notes(files, json)


def _show_with_draws(
    file: Path,
    summaries: list[Shown],
    print_table: Callable[[list[Shown], "Console"], None],
    json: bool,
) -> None:
    """Show summaries and, of each case, what the lot and what the constants make uncertain."""
    from mcage.report.tables.draws import print_draws, summarize_draws_of_file
    from mcage.stats.wording import plain

    by_draw = summarize_draws_of_file(file)
    if json:
        both = [
            plain(case) | {"by_draw": plain(of)}
            for case, of in zip(summaries, by_draw, strict=True)
        ]
        _show(both, lambda *_: None, json)
        return
    _show(summaries, print_table, json)
    _show(by_draw, print_draws, json)


def _show_all(files: list[Path], wide: bool, json: bool) -> None:
    """Show the summaries of several files of the same study: of sweeps in one table."""
    from importlib import import_module
    from json import dumps

    from mcage.errors import UserError
    from mcage.report.console import console
    from mcage.report.tables.terminal import print_table
    from mcage.results.reader import read_header
    from mcage.stats.wording import plain

    studies = {path: read_header(path) for path in files}
    for path, header in studies.items():
        if header.study != studies[files[0]].study:
            raise UserError(f"{path} holds another study than {files[0]}: show it for itself")
    table = import_module(studies[files[0]].table)
    summaries = [(path, summary) for path in files for summary in table.summarize_file(path)]
    if json:
        listed = [{"file": str(path)} | plain(summary) for path, summary in summaries]
        typer.echo(dumps(listed, indent=2, allow_nan=False))
    else:
        paths, cases = zip(*summaries, strict=True)
        print_table(table.table_of(cases, paths), console(), wide=wide)


def _printed_by(table: ModuleType, wide: bool) -> Callable[[list[Shown], "Console"], None]:
    """Function that prints summaries as the table of a study."""
    from mcage.report.tables.terminal import print_table

    return lambda summaries, console: print_table(table.table_of(summaries), console, wide=wide)


def _print_notes(files: list[Path], json: bool) -> None:
    """Print what must be known of the files; of several, with their names."""
    from mcage.plain_text import visible
    from mcage.report.notes import (
        note_on_absent,
        note_on_caveats,
        note_on_code,
        note_on_shared_dies,
    )
    from mcage.results.reader import read_header

    for file in files:
        header = read_header(file)
        notes = (
            note_on_caveats(header),
            note_on_absent(header),
            header.stopped,
            note_on_shared_dies(file, header),
            note_on_code(header),
        )
        for note in notes:
            if note:
                name = f"{file}: " if len(files) > 1 else ""
                typer.echo(visible(name + note), err=json)


def _given(options: Mapping[str, object]) -> list[str]:
    return [name for name, value in options.items() if value not in (None, False)]


def _require_study(file: Path, options: Mapping[str, object]) -> None:
    """Refuse options that ask for tables and figures of sweeps where another study wrote."""
    from mcage.errors import UserError
    from mcage.plain_text import shown
    from mcage.results.reader import read_header

    given = _given(options)
    if given and (study := read_header(file).study) != "sweep":
        raise UserError(f"{given[0]} is for sweeps; {file} holds the study {shown(study)}")


def _show(what: Shown, print_table: Callable[[Shown, "Console"], None], json: bool) -> None:
    from json import dumps

    from mcage.report.console import console
    from mcage.stats.wording import plain

    if json:
        typer.echo(dumps(plain(what), indent=2, allow_nan=False))
    else:
        print_table(what, console())
