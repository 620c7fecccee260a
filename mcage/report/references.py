"""Citations for users of mcage: mcage itself, and the papers that a study rests on."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from mcage.version import running_code

if TYPE_CHECKING:
    from mcage.results.header import Header

TITLE = "mcage: Monte Carlo aging and fault analyzer for GPU register files"
AUTHORS = "The mcage maintainers"
YEAR = 2026
"""Year of this version."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A paper, from `data/references.toml`.

    Attributes
    ----------
    key : str
        What the paper is cited by.
    kind : str
        Kind of entry, as BibTeX calls it.
    title : str
        Its title.
    authors : tuple of str
        Its authors, family names first.
    published : str
        Journal or conference; empty if it is not known.
    volume, number, year : int, optional
        Where and when it was published.
    doi : str
        Its digital object identifier; empty if it is not known.
    techniques, models, studies : tuple of str
        Techniques, NBTI models and studies of mcage that rest on it.
    sweeps : bool
        Whether every sweep of register files rests on it.
    """

    key: str
    kind: str
    title: str
    authors: tuple[str, ...]
    published: str = ""
    volume: int | None = None
    number: int | None = None
    year: int | None = None
    doi: str = ""
    techniques: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    studies: tuple[str, ...] = ()
    sweeps: bool = False

    def bibtex(self) -> str:
        """The paper as an entry of BibTeX."""
        place = "journal" if self.kind == "article" else "booktitle"
        return _entry(
            self.kind,
            self.key,
            {
                "author": " and ".join(self.authors),
                "title": f"{{{self.title}}}",
                place: self.published,
                "volume": self.volume,
                "number": self.number,
                "year": self.year,
                "doi": self.doi,
            },
        )


@cache
def references() -> tuple[Reference, ...]:
    """All papers that mcage rests on."""
    text = (files("mcage") / "data" / "references.toml").read_text(encoding="utf-8")
    return tuple(
        Reference(key=key, **{name: _frozen(value) for name, value in fields.items()})
        for key, fields in tomllib.loads(text).items()
    )


def references_of(header: "Header") -> tuple[Reference, ...]:
    """Papers that the results of a file rest on: its study, its techniques, its NBTI model."""
    from mcage.results.header import OLDEST_STUDY

    spec = tomllib.loads(header.spec_toml)
    techniques = set(_named(spec, "techniques"))
    models = {name.partition("-")[0] for name in _named(spec.get("gating", spec), "model")}
    sweeps = bool(techniques) or header.study == OLDEST_STUDY
    return tuple(
        paper
        for paper in references()
        if techniques & set(paper.techniques)
        or models & set(paper.models)
        or header.study in paper.studies
        or (sweeps and paper.sweeps)
    )


def mcage_bibtex() -> str:
    """The running mcage as an entry of BibTeX, with its commit."""
    code = running_code()
    title = {"author": f"{{{AUTHORS}}}", "title": f"{{{TITLE}}}", "year": YEAR}
    return _entry("software", "mcage", title | {"version": code.version})


def _entry(kind: str, key: str, fields: Mapping[str, object]) -> str:
    lines = [f"  {name} = {{{content}}}," for name, content in fields.items() if content]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])


def _named(spec: Mapping[str, Any], key: str) -> Iterator[str]:
    """Texts under a key of a spec, at any depth."""
    for name, content in spec.items():
        if isinstance(content, Mapping):
            yield from _named(content, key)
        elif name == key:
            yield from [content] if isinstance(content, str) else content


def _frozen(content: Any) -> Any:
    return tuple(content) if isinstance(content, list) else content
