"""``mcage gpu heterogeneity``: structures of planar and of FinFET transistors."""

from typing import Annotated

import typer

from mcage.cli.gpu.tables import Nominal, print_rows
from mcage.cli.shared_options import Json
from mcage.errors import UserError


def heterogeneity(
    nominal: Nominal = None,
    fields: Annotated[
        str,
        typer.Option(metavar="NAME", help="Field constants of the two kinds: swapped or common."),
    ] = "swapped",
    count_fills: Annotated[
        bool, typer.Option("--count-fills", help="Count what a miss writes to the L2, too.")
    ] = False,
    json: Json = False,
) -> None:
    """Show how a two-stage scheduler and an L2 that is read after its tags age."""
    from mcage.gpu.heterogeneity.parts import FIELDS, parts
    from mcage.gpu.nominal.heterogeneity import heterogeneous_cases

    if fields not in FIELDS:
        raise UserError(f"--fields {fields!r} is unknown; choose from {', '.join(FIELDS)}")
    if nominal is None:
        raise UserError("--nominal CASES.csv is needed")
    print_rows(heterogeneous_cases(nominal, parts(fields), count_fills), json)
