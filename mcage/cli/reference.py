"""``mcage techniques|nbti``: what mcage knows."""

import json as json_module
from dataclasses import asdict
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Annotated

import typer

from mcage.aging.nbti import MODEL_NAMES, constants
from mcage.errors import UserError
from mcage.report.tables import console, plain_table
from mcage.techniques import TECHNIQUES

if TYPE_CHECKING:
    from mcage.techniques import Technique


# ``mcage techniques``: what each technique does, its policies and its source.

WIDEST = 100
"""Columns of the text at most."""


def techniques(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Describe the protection techniques: what each does, its policies and its source."""
    shipped = TECHNIQUES.values()
    if json:
        print(json_module.dumps([_technique_row(technique) for technique in shipped], indent=2))
        return

    width = min(console().width, WIDEST)
    for technique in shipped:
        print("\n".join(_in_words(technique, width)))
    print("A user-defined technique is given as module:NAME wherever one is asked for.")


def _technique_row(technique: "Technique") -> dict[str, str | bool]:
    return {
        "technique": technique.name,
        "placement": technique.placement.value,
        "storage": technique.storage.value,
        "gating": technique.gating.value,
        "rotating_selectors": technique.rotating_selectors,
        "summary": technique.summary,
        "description": technique.description,
        "source": technique.source,
    }


def _in_words(technique: "Technique", width: int) -> list[str]:
    """Name and summary, and below them description, policies, source and an empty line."""
    rotating = ", rotating" if technique.rotating_selectors else ""
    texts = (
        technique.description,
        f"Placement: {technique.placement.value}{rotating}; storage: {technique.storage.value}; "
        f"gating: {technique.gating.value}.",
        f"Source: {technique.source}",
    )
    indent = " " * 4
    lines = [
        line
        for text in texts
        for line in wrap(
            text,
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
    ]
    return [f"{technique.name}: {technique.summary}", *lines, ""]


# ``mcage nbti``: the NBTI models, their constants, and the shift and delay they give.


def nbti(
    list_: Annotated[
        bool, typer.Option("--list", help="List the constants with status and source.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(help="NBTI model, or a user-defined one as module:NAME. Default: all models."),
    ] = None,
    duty: Annotated[float, typer.Option(help="Fraction of the time under stress.")] = 1.0,
    years: Annotated[float, typer.Option(metavar="YEARS", help="Age in years.")] = 3.0,
    vdd: Annotated[float, typer.Option(metavar="VOLTS", help="Supply voltage in V.")] = 1.0,
    temperature: Annotated[
        float, typer.Option(metavar="KELVIN", help="Temperature in K.")
    ] = 353.15,
    constant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Constant of the --model, such as eta=0.3. May be repeated."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show threshold shift and delay of a transistor under each NBTI model, or the constants."""
    from mcage.spec.keys import named_numbers

    constants = named_numbers("--constant", constant) if constant else None
    if constants and (list_ or not model):
        raise UserError("--constant: name the one --model that it is for, without --list")
    if list_:
        _list_constants(model, json)
        return
    from mcage.functions import nbti as shifts

    rows = shifts(model, duty, years, vdd, temperature, constants)
    if json:
        print(json_module.dumps(rows, indent=2))
        return

    table = plain_table(title=f"{years:g} years at duty {duty:g}, {vdd:g} V, {temperature:g} K")
    for column in ("model", "dVth [mV]", "delay increase [%]"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for row in rows:
        slower = row["delay_increase_percent"]
        table.add_row(
            row["model"],
            f"{row['dvth_mv']:.5g}",
            "does not switch" if slower is None else f"{slower:.5g}",
        )
    console().print(table)


def _list_constants(model: str | None, json: bool) -> None:
    if model not in (None, *MODEL_NAMES):
        raise UserError(
            f"--list --model {model}: only models that ship with mcage are listed: "
            f"{', '.join(MODEL_NAMES)}"
        )
    names = [model] if model else MODEL_NAMES
    if json:
        rows = [
            {"model": name, "constant": constant, **asdict(described)}
            for name in names
            for constant, described in constants(name).items()
        ]
        print(json_module.dumps(rows, indent=2))
        return
    for name in names:
        base, variant, _ = name.partition("-")
        print(f"{name}: {base}, but for" if variant else name)
        known = constants(base) if variant else {}
        for constant, described in constants(name).items():
            if described != known.get(constant):
                quantity = f"{described.value:.8g} {described.unit.removeprefix('1')}"
                print(f"  {constant:<34}{quantity:<36}{described.status}")
                print(
                    fill(described.source, 96, initial_indent="      ", subsequent_indent=" " * 6)
                )
    print("printed, public, reconstructed, assumed: `mcage docs aging` says what each means.")
