"""``mcage docs|cite``: the pages of documentation, and whom mcage cites."""

import re
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcage.errors import UserError
from mcage.plain_text import shown, visible, visible_lines
from mcage.report.references import mcage_bibtex, references, references_of
from mcage.version import shipped_folder

if TYPE_CHECKING:
    from mcage.results.header import Header


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
"""What only the builder of the site reads: directions to it, and cells that it does not show."""


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
        print(dumps({"mcage": mcage_bibtex(), **results, "papers": entries}, indent=2))
        return
    for name, content in about.items():
        typer.echo(visible(f"% {name}: {content}"))
    typer.echo(visible_lines("\n\n".join([mcage_bibtex(), *(p.bibtex() for p in papers)])))


def _about(header: "Header") -> dict[str, str]:
    """What a reader needs to compute the same results again."""
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
    text = page_text(page)
    from mcage.report.tables import console

    screen = console()
    if screen.is_terminal:
        from rich.markdown import Markdown

        screen.print(Markdown(text))
    else:
        typer.echo(text, nl=False)
