"""``mcage cite``: what a paper that uses mcage cites."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mcage.results.header import Header


def cite(
    file: Annotated[
        Path | None,
        typer.Argument(help="Results file; only what it rests on is printed. Default: all."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print mcage and the papers whose techniques and models it computes as BibTeX."""
    from dataclasses import asdict
    from json import dumps

    from mcage.plain_text import visible, visible_lines
    from mcage.report.references import mcage_bibtex, references, references_of

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
