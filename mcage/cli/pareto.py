"""``mcage pareto``: which cases on shared dies no other beats, and how sure that is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import mcage
from mcage.cli.commands import Labels
from mcage.cli.show import FormOptions, check_form, print_in_form, print_json, print_notes
from mcage.report.tables import renamed_in

if TYPE_CHECKING:
    from mcage.report.pareto import Front
    from mcage.results.header import Header


def pareto(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Results files of a study on the same dies."),
    ],
    form: FormOptions,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:min|max]",
            help="What counts: a measure or a variable of the study, or area of sweeps; after a "
            "colon, whether less (min) or more (max) is better. May be given several times. "
            "Default: of sweeps, rmst_years, energy_saving_of_all, area; else all measures of "
            "which is known what is better.",
        ),
    ] = None,
    resamples: Annotated[
        int,
        typer.Option(metavar="N", help="How often dies are drawn with replacement."),
    ] = 1000,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Key of the specs that is meant to differ from file to file, such as "
            "registers.lds_rows, or a section. May be given several times.",
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Show also cases that are hardly ever on the front, as CSV and JSON do."
        ),
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also draw the cases by the first objective against each of the others: .png, "
            ".pdf or .svg.",
        ),
    ] = None,
    label: Labels = None,
) -> None:
    """Show which cases no other beats in all objectives, and how sure that is.

    Instance i has to be the same die in all cases. Dies are drawn with replacement, each time the
    same for all cases, and a case is on the front of a part of these resamples.
    """
    from mcage.report.cases import names_for, parsed_labels
    from mcage.report.pareto import objectives, table_of
    from mcage.results.reader import read_header

    check_form(form)
    headers = [read_header(path) for path in files]
    objectives(headers[0], objective or ())
    if figure is not None:
        from mcage.report.figures.canvas import check_figure_path

        check_figure_path(figure)
    names = names_for(headers, parsed_labels(label or ()))
    front = mcage.pareto(files, objective or (), resamples, allow or (), form.where or ())
    if figure is not None:
        _draw(front, headers, names, figure)
    if form.json:
        print_json(front.as_json())
    else:
        table = table_of(front, names, everything or form.csv)
        print_in_form(renamed_in(table, names), form)
    print_notes(files, to_stderr=bool(form.forms), heeds_dies=True)


def _draw(front: "Front", headers: "list[Header]", names: dict[str, str], path: Path) -> None:
    """Draw the front into a file, on the width of a page."""
    from mcage.plain_text import visible
    from mcage.report.figures.canvas import WIDTHS_MM, Sheet, save
    from mcage.report.figures.pareto import plot_of
    from mcage.report.notes import caveats_of

    caveats = dict.fromkeys(
        visible(line) for header in headers for line in caveats_of(header, heeds_dies=True)
    )
    width_mm = max(WIDTHS_MM)
    sheet = Sheet(width_mm, front.population, tuple(caveats), names=tuple(names.values()))
    (page,) = plot_of({"": front}, names).pages(sheet)
    save(page.figure, path)
