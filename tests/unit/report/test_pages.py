"""Pages that travel with the package, and messages that name them."""

import ast
import re
from pathlib import Path

import pytest
from places import ROOT
from tables import each

import mcage
from mcage.errors import UserError
from mcage.report.pages import page_text, page_titles

PACKAGE = Path(mcage.__file__).parent
NAMED = re.compile(r"`mcage docs ([\w-]+)`")


def texts_and_notes(source):
    """Texts that a module may print, and texts that only readers of the source see."""
    nodes = list(ast.walk(ast.parse(source.read_text(encoding="utf-8"))))
    notes = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = [n for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    printed = [text.value for text in texts if id(text) not in notes]
    return printed, [text.value for text in texts if id(text) in notes]


@pytest.fixture(scope="module")
def sources():
    return {path: texts_and_notes(path) for path in PACKAGE.rglob("*.py")}


def test_messages_name_pages_that_every_installation_has(sources):
    named = set()
    for path, (printed, _) in sources.items():
        for text in printed:
            assert not re.search(r"docs/\w+\S*\.md", text), f"{path}: {text}"
            named |= set(NAMED.findall(text))
    assert named
    assert named <= set(page_titles())


def test_pages_that_docstrings_name_exist(sources):
    named = {
        page
        for _, notes in sources.values()
        for text in notes
        for page in re.findall(r"docs/([\w-]+)\.md", text)
    }
    assert {"aging"} <= named <= set(page_titles())


def test_list(command):
    code, out, err = command("docs")
    assert (code, err) == (0, "")
    assert "aging" in out
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert len(out.splitlines()) == len(pages - {"changelog.md"})  # which only includes a file


@pytest.mark.parametrize("name", ["aging", "docs/aging.md", "aging.md"])
def test_page(command, name):
    code, out, _ = command("docs", name)
    assert code == 0
    assert out == (ROOT / "docs" / "aging.md").read_text(encoding="utf-8")


@each("name", ["tutorials/first-sweep", "first-sweep", "docs/tutorials/first-sweep.md"])
def test_tutorials_are_shown_without_directions_to_the_site(name):
    text = page_text(name)
    assert text.startswith("# A first sweep\n")
    assert "```python\nimport mcage\n" in text
    for direction in ("code-cell", "mystnb", "remove-cell", "assert"):
        assert direction not in text


def test_what_pages_show_is_left_as_it_is():
    for path in (ROOT / "docs").glob("*.md"):
        if path.stem not in ("index", "changelog"):
            assert page_text(path.stem) == path.read_text(encoding="utf-8"), path
    assert "toctree" not in page_text("index")


@each("name", ["", "..", "../README", "figures/lifetimes", "x" * 1000])
def test_no_page(name):
    with pytest.raises(UserError, match=r"there is no page .*; the pages are aging, "):
        page_text(name)
