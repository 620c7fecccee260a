"""Where the pages of documentation lie: inside the package of a wheel, at the top of a checkout."""

import re
from pathlib import Path

from mcage.errors import UserError
from mcage.plain_text import shown
from mcage.version import shipped_folder

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
