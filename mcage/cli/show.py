"""``mcage show``: the tables of a results file."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console

Shown = TypeVar("Shown")


def show(
    file: Annotated[Path, typer.Argument(help="Results file of a sweep.")],
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B",
            help="Compare two cases die by die; each is named by its label or its beginning.",
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
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show for each case lives, threshold shifts, spills, slowdown, energy and causes of death."""
    from mcage.errors import UserError

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
    _require_study(
        file,
        {
            "--compare": compare,
            "--causes": causes,
            "--fit": fit,
            "--slices-per-chip": slices_per_chip,
            "--figure": figure,
        },
    )
    if figure is not None:
        if slices_per_chip is not None:
            raise UserError("--figure draws lives of slices, not of chips: leave out one of them")
        from mcage.report.figures import draw_survival_of_file

        draw_survival_of_file(file, figure)
    if slices_per_chip is not None:
        from mcage.report.tables.chips import print_chips, summarize_chips_of_file

        _show(summarize_chips_of_file(file, slices_per_chip, spare_slices or 0), print_chips, json)
        return
    if compare:
        from mcage.report.tables.comparison import compare_in_file, print_comparison

        _show(compare_in_file(file, *compare), print_comparison, json)
    elif causes:
        from mcage.report.tables.causes import print_causes, summarize_causes_of_file

        _show(summarize_causes_of_file(file), print_causes, json)
    elif fit:
        from mcage.report.tables.fits import print_fits, summarize_fits_of_file

        _show(summarize_fits_of_file(file), print_fits, json)
    else:
        from importlib import import_module

        from mcage.results.reader import read_header

        table = import_module(read_header(file).table)
        _show(table.summarize_file(file), table.print_summaries, json)
    from mcage.plain_text import visible
    from mcage.report.notes import note_on_absent, note_on_code, note_on_shared_dies
    from mcage.results.reader import read_header

    header = read_header(file)
    notes = (
        note_on_absent(header),
        header.stopped,
        note_on_shared_dies(file),
        note_on_code(header),
    )
    for note in notes:
        if note:
            typer.echo(visible(note), err=json)


def _require_study(file: Path, options: dict[str, object]) -> None:
    """Refuse options that ask for tables and figures of sweeps where another study wrote."""
    from mcage.errors import UserError
    from mcage.plain_text import shown
    from mcage.results.reader import read_header

    given = [name for name, value in options.items() if value not in (None, False)]
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
