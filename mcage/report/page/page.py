"""The page of a report: its parts, put into the templates."""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any

import matplotlib
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser

from mcage.plain_text import visible, visible_lines
from mcage.report.page.svg import PageFigure
from mcage.report.presentation import Assumptions, Words
from mcage.report.references import mcage_bibtex, references_of
from mcage.report.tables import Column, ResultTable
from mcage.results.header import Header, code_in_words
from mcage.version import running_code

MOST_CHOICES = 40
"""Different words in a column up to which one may choose among them."""

VOLTAGES = {"vdd_volts": "lowest Vdd [V]"}
"""Columns of numbers among which one may choose, and how they are called."""

PARTS = ("reading", "policy", "technique", "design")
"""Columns whose words together name a case of a study of whole GPUs."""


@dataclass(frozen=True)
class Source:
    """A results file of a report.

    Parameters
    ----------
    name : str
        Its file name.
    header : Header
        Its header.
    words : Words
        Its summary.
    assumptions : list of (str, str)
        What it rests on.
    notes : tuple of str
        What must be known of it: caveats, missing instances, other code.
    spec_name : str
        Name of the file in the folder that holds the spec.
    """

    name: str
    header: Header
    words: Words
    assumptions: Assumptions
    notes: tuple[str, ...]
    spec_name: str

    @property
    def command(self) -> str:
        """Command line that computes the file again; empty where there is none."""
        if not self.header.command:
            return ""
        command = self.header.command.format(engine=self.header.engine)
        return f"{command} {shlex.quote(self.spec_name)} --out {shlex.quote(self.name)}"

    @property
    def codes(self) -> str:
        """Code that computed the file."""
        return code_in_words(self.header.codes)


@dataclass(frozen=True)
class Shown:
    """A figure of a report, or why there is none.

    Parameters
    ----------
    name, title, caption : str
        As of the figure; of a figure that is absent, ``caption`` says why.
    source : int
        Number of its results file in the report.
    file : str
        The results file; empty if the report is of a single one.
    drawing : PageFigure, optional
        The figure; None if it is absent.
    links : tuple of (str, str)
        Format and path in the folder.
    """

    name: str
    title: str
    caption: str
    source: int
    file: str = ""
    drawing: PageFigure | None = None
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Choice:
    """Words of a column among which a reader may choose lines.

    Parameters
    ----------
    name : str
        What the column holds.
    words : tuple of str
        Different words.
    at : tuple of int
        Place of the word of each line.
    """

    name: str
    words: tuple[str, ...]
    at: tuple[int, ...]


@dataclass(frozen=True)
class Study:
    """The results files of one study: a section of the page.

    Parameters
    ----------
    name : str
        The study.
    sources : tuple of Source
        Its files.
    table : ResultTable
        Its table.
    table_links : tuple of str
        Paths of the same as CSV in the folder: of the table, and of those below it.
    cases : tuple of str
        Number of the file and label of the case of each line of the table.
    figures : tuple of tuple of Shown
        Its figures; those of the same name, one for each file, stand side by side.
    """

    name: str
    sources: tuple[Source, ...]
    table: ResultTable
    table_links: tuple[str, ...]
    cases: tuple[str, ...]
    figures: tuple[tuple[Shown, ...], ...]

    @property
    def filters(self) -> tuple[Choice, ...]:
        """Columns by whose words lines may be chosen."""
        return tuple(filter(None, map(_choice, self.table.columns)))


def cases_of(header: Header, table: ResultTable) -> list[str]:
    """Label of the case of each line of the table of a single file.

    Parameters
    ----------
    header : Header
        Header of the file.
    table : ResultTable
        Its table.
    """
    for column in table.columns:
        if column.key == "case":  # a case may have several lines
            return [visible(str(cell.value)) for cell in column.cells]
    labels = [c.values for c in header.coordinates if c.variable.name == "case"]
    if labels and len(labels[0]) == len(table.columns[0].cells):
        return [visible(str(label)) for label in labels[0]]
    parts = [column.cells for column in table.columns if column.key in PARTS]
    return [visible(" ".join(cell.text for cell in cells)) for cells in zip(*parts, strict=True)]


def _choice(column: Column) -> Choice | None:
    """Choice among the words of a column, or among its voltages; none of other numbers."""
    texts = [cell.text for cell in column.cells]
    words = tuple(dict.fromkeys(texts))
    of_words = all(isinstance(cell.value, str) for cell in column.cells)
    if column.key in ("", "case") or not (of_words or column.key in VOLTAGES):
        return None
    if not 1 < len(words) <= MOST_CHOICES:
        return None
    name = column.name or VOLTAGES.get(column.key, column.key.replace("_", " "))
    return Choice(name, words, tuple(map(words.index, texts)))


def page_of(studies: Sequence[Study], names: Sequence[str] = ()) -> str:
    """HTML of the page.

    Parameters
    ----------
    studies : sequence of Study
        At least one.
    names : sequence of str
        Names for people in which dollar signs enclose mathematics, which a page shows as text.
    """
    script = _static("report.js")
    sources = [source for study in studies for source in study.sources]
    papers = dict.fromkeys(
        paper.bibtex() for source in sources for paper in references_of(source.header)
    )
    template = _environment().get_template("page.html.j2")
    page = template.render(
        studies=studies,
        sources=sources,
        title=", ".join(source.name for source in sources),
        bibtex="\n\n".join([mcage_bibtex(), *papers]),
        style=Markup(_static("report.css")),
        script=Markup(script),
        script_hash=_hash(script),
        version=running_code(),
    )
    for name in map(visible, names):
        words = escape(without_mathematics(name))
        for written in (escape(name), _island(name)[1:-1]):
            page = page.replace(str(written), str(words))
    return page


RAISED = str.maketrans("0123456789+-=()ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ")
LOWERED = str.maketrans("0123456789+-=()", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎")


_SIZE = 10.0


def without_mathematics(name: str) -> str:
    """Name whose mathematics between dollar signs has become letters.

    Raised and lowered ones are Unicode's where there are such, and else follow ``^`` or ``_``.
    """
    return re.sub(r"\$[^$]+\$", lambda match: _letters(match[0]), name)


def _letters(mathematics: str) -> str:
    with matplotlib.rc_context({"mathtext.fontset": "dejavusans"}):  # glyphs by their code points
        parsed = MathTextParser("path").parse(mathematics, prop=FontProperties(size=_SIZE))
    glyphs = sorted((across, up, size, code) for _, size, code, *_, across, up in parsed.glyphs)
    line = next((up for _, up, size, _ in glyphs if size == _SIZE), 0.0)
    sides = (
        (0 if size == _SIZE else 1 if up > line else -1, chr(code)) for _, up, size, code in glyphs
    )
    text = ""
    for side, run in groupby(sides, lambda item: item[0]):
        letters = "".join(letter for _, letter in run).replace("\N{MINUS SIGN}", "-")
        sign, table = ("^", RAISED) if side > 0 else ("_", LOWERED)
        known = all(ord(letter) in table for letter in letters)
        text += letters.translate(table) if side and known else sign * bool(side) + letters
    return text


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mcage.report.page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible_lines(value) if type(value) is str else value,
    )
    environment.filters |= {"island": _island, "markup": Markup, "parts": _parts}
    return environment


def _parts(text: str) -> list[str]:
    """A number and its interval, between which a line of a narrow column may end."""
    return re.split(r" (?=[\[±])", text, maxsplit=1)


def _island(value: Any) -> Markup:
    """JSON inside a script element: nothing in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _static(name: str) -> str:
    folder = files("mcage.report.page") / "static"
    return (folder / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
