"""``mcage pareto``: which cases on shared dies no other beats, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

import mcage
from mcage.cli.commands import Labels
from mcage.cli.show import FormOptions, check_form, print_in_form, print_json, print_notes
from mcage.errors import UserError
from mcage.report.tables import renamed_in

if TYPE_CHECKING:
    from mcage.report.pareto import Front
    from mcage.results.header import Header
    from mcage.results.measures import Measure


@dataclass(frozen=True)
class FrontOptions:
    """The figure of a front."""

    panel: ClassVar = "Figure"

    figure: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """Also draw the cases by two objectives: .png, .pdf or .svg."""
    x: Annotated[str, typer.Option(metavar="NAME")] = ""
    """Objective along the horizontal axis of the figure. Default: area, if it is one; else the
    first that is not along the other."""
    y: Annotated[str, typer.Option(metavar="NAME")] = ""
    """Objective along the vertical axis. Default: energy_saving_of_all, if it is one; else the
    first."""


def pareto(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Results files of a study on the same dies."),
    ],
    form: FormOptions,
    drawing: FrontOptions,
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
    _check_drawing(drawing, objectives(headers[0], objective or ()))
    names = names_for(headers, parsed_labels(label or ()))
    front = mcage.pareto(files, objective or (), resamples, allow or (), form.where or ())
    if drawing.figure is not None:
        _draw(front, headers, names, drawing)
    if form.json:
        print_json(front.as_json())
    else:
        table = table_of(front, names, everything or form.csv)
        print_in_form(renamed_in(table, names), form)
    print_notes(files, to_stderr=bool(form.forms), heeds_dies=True)


def _check_drawing(drawing: FrontOptions, chosen: Sequence["Measure"]) -> None:
    """Refuse a figure that could not be drawn or written."""
    for name, key in (("--x", drawing.x), ("--y", drawing.y)):
        if key and drawing.figure is None:
            raise UserError(f"{name} {key}: is an axis of the figure that --figure FILE draws")
        if key and key not in [of.key for of in chosen]:
            keys = ", ".join(of.key for of in chosen)
            raise UserError(f"{name} {key}: is none of the objectives {keys}")
    if drawing.x and drawing.x == drawing.y:
        raise UserError(f"--x {drawing.x} and --y {drawing.y}: name two objectives")
    if drawing.figure is not None:
        from mcage.report.figures.canvas import check_figure_path

        check_figure_path(drawing.figure)


def _draw(
    front: "Front", headers: "list[Header]", names: dict[str, str], drawing: FrontOptions
) -> None:
    """Draw the front into a file, on the width of a page."""
    from mcage.plain_text import visible
    from mcage.report.figures.canvas import WIDTHS_MM, Sheet, save
    from mcage.report.figures.pareto import plane, plot_of
    from mcage.report.notes import caveats_of

    assert drawing.figure is not None
    caveats = dict.fromkeys(
        visible(line) for header in headers for line in caveats_of(header, heeds_dies=True)
    )
    width_mm = max(WIDTHS_MM)
    sheet = Sheet(width_mm, front.population, tuple(caveats), names=tuple(names.values()))
    planes = [plane(front.objectives, drawing.x, drawing.y)]
    (page,) = plot_of({"": front}, names, planes=planes).pages(sheet)
    save(page.figure, drawing.figure)
