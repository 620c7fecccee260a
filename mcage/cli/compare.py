"""``mcage compare``: cases that several results files have in common."""

from pathlib import Path
from typing import Annotated

import typer

from mcage.cli.table_form import FormOptions, check_form, print_in_form, print_json, print_notes
from mcage.errors import UserError


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
    from mcage.report.file_comparison import as_json, compare_files, pairs_of, title_of
    from mcage.report.selection import Condition
    from mcage.report.tables.comparison import NOTE, NOTE_ON_STUDIES, pairs_table

    check_form(form)
    first, *others = files
    if not others:
        raise UserError(f"{first} is compared with other results files: name them, too")
    where = [Condition.parse(text) for text in form.where or ()]
    comparisons = [compare_files(first, other, allow or (), where) for other in others]
    if form.json:
        print_json([as_json(comparison) for comparison in comparisons])
    else:
        note = NOTE if comparisons[0].study == "sweep" else NOTE_ON_STUDIES
        print_in_form(pairs_table(title_of(comparisons), pairs_of(comparisons), note), form)
    print_notes(files, to_stderr=form.json or form.csv)
