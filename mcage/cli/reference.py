"""``mcage techniques|nbti|docs|cite|reproduce``: what mcage knows, and the papers behind it."""

import json as json_module
import re
from dataclasses import asdict
from pathlib import Path
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Annotated

import typer

import mcage
from mcage.cli.commands import Engine, Release
from mcage.errors import UserError
from mcage.plain_text import shown, visible, visible_lines
from mcage.report.references import mcage_bibtex, references, references_of
from mcage.version import shipped_folder

if TYPE_CHECKING:
    from mcage.results.header import Header
    from mcage.techniques import Technique


# ``mcage techniques``: what each technique does, its policies and its source.

WIDEST = 100
"""Columns of the text at most."""


def techniques(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Describe the protection techniques: what each does, its policies and its source."""
    from mcage.report.tables import console
    from mcage.techniques import TECHNIQUES

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
        **{key: getattr(technique, key).value for key in ("placement", "storage", "gating")},
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

    from mcage.report.tables import console, plain_table

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
    from mcage.aging.nbti import MODEL_NAMES, constants

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


# Where the pages of documentation lie: inside the package of a wheel, at the top of a checkout.

FOLDER = "docs"

PAGES = shipped_folder(Path(__file__).resolve().parents[1], FOLDER)
"""Folder of the pages of this mcage."""

_FOR_THE_SITE = re.compile(
    r"\A---\n.*?\n---\n+"  # what a notebook says to the program that runs it
    r"|^```\{toctree\}\n.*?^```\n*"
    r"|^```\{code-cell\} ipython3\n(?::tags: \[remove-cell\]\n.*?^```\n+)"
    r"|(?<=^```\{code-cell\} ipython3\n)---\n.*?\n---\n",
    re.DOTALL | re.MULTILINE,
)
"""Text for the builder of the site alone: directions to it, and cells that it does not show."""


def page_titles() -> dict[str, str]:
    """First heading of each page, by the name of the page, such as ``aging``."""
    titles = {}
    for path in sorted(PAGES.rglob("*.md")):
        if title := re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            titles[path.relative_to(PAGES).with_suffix("").as_posix()] = title[1].strip()
    return titles


def page_text(name: str) -> str:
    """Text of a page in Markdown.

    Parameters
    ----------
    name : str
        Its name; ``.md`` and the folder of the pages before it may be given, too, and the folder
        of a tutorial may be left out.

    Raises
    ------
    UserError
        There is no such page.
    """
    titles = page_titles()
    stem = name.removeprefix(f"{FOLDER}/").removesuffix(".md")
    named = [page for page in titles if stem in (page, page.rpartition("/")[2])]
    if not named:
        raise UserError(f"there is no page {shown(name)}; the pages are {', '.join(titles)}")
    text = (PAGES / f"{named[0]}.md").read_text(encoding="utf-8")
    return _FOR_THE_SITE.sub("", text).replace("```{code-cell} ipython3\n", "```python\n")


def cite(
    file: Annotated[
        Path | None,
        typer.Argument(help="Results file; only what it rests on is printed. Default: all."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print mcage and the papers whose techniques and models it computes as BibTeX."""
    header = None
    if file:
        from mcage.results.reader import read_header

        header = read_header(file)
    papers = references_of(header) if header else references()
    about = _about(header) if header else {}
    if json:
        entries = [{**asdict(paper), "bibtex": paper.bibtex()} for paper in papers]
        results = {"results": about} if about else {}
        print(json_module.dumps({"mcage": mcage_bibtex(), **results, "papers": entries}, indent=2))
        return
    for name, content in about.items():
        typer.echo(visible(f"% {name}: {content}"))
    typer.echo(visible_lines("\n\n".join([mcage_bibtex(), *(p.bibtex() for p in papers)])))


def _about(header: "Header") -> dict[str, str]:
    """Data with which a reader computes the same results again."""
    from mcage.results.header import code_in_words

    return {
        "study": header.study,
        "digest of the spec": header.spec_digest,
        "seed": str(header.seed),
        "instances": str(header.instances),
        "engine": header.engine,
        "computed by": f"mcage {code_in_words(header.codes)}",
    }


# ``mcage docs``: the pages of documentation, wherever mcage is installed.


def docs(
    page: Annotated[
        str | None, typer.Argument(help="Page, such as aging. Default: list the pages.")
    ] = None,
) -> None:
    """List the pages of documentation, or show a page."""
    if page is None:
        titles = page_titles()
        width = max(map(len, titles))
        for name, title in titles.items():
            typer.echo(f"{name:<{width}}  {title}")
        return
    from mcage.report.tables import console

    text = page_text(page)
    screen = console()
    if screen.is_terminal:
        from rich.markdown import Markdown

        screen.print(Markdown(text))
    else:
        typer.echo(text, nl=False)


def reproduce(
    paper: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Paper: valero-2019 (000) or toca-diaz-rrcd (002), on register files; chen-2014 "
            "(003) or zhang-2015 (004), on whole GPUs. Default: all four.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    release: Release = "wavefront",
    engine: Engine = "auto",
) -> None:
    """Compute what four papers print, and say where mcage disagrees and why.

    Papers on register files are computed from recorded traces; --release and --engine concern them
    alone.
    """
    from mcage.papers.table import print_rows, to_json
    from mcage.report.tables import console

    rows = mcage.reproduce(paper, release, engine)
    if json:
        typer.echo(to_json(rows))
    else:
        print_rows(rows, console())
