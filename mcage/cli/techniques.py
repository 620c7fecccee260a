"""``mcage techniques``: what each technique does, its policies and its source."""

import json as json_module
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mcage.techniques import Technique

WIDEST = 100
"""Columns of the text at most."""


def techniques(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Describe the protection techniques: what each does, its policies and its source."""
    from mcage.techniques import TECHNIQUES

    shipped = TECHNIQUES.values()
    if json:
        print(json_module.dumps([_row(technique) for technique in shipped], indent=2))
        return
    from mcage.report.console import console

    width = min(console().width, WIDEST)
    for technique in shipped:
        print("\n".join(_in_words(technique, width)))
    print("A user-defined technique is given as module:NAME wherever one is asked for.")


def _row(technique: "Technique") -> dict[str, str | bool]:
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
    from textwrap import wrap

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
