"""Where the pages of documentation lie: inside the package of a wheel, at the top of a checkout."""

from pathlib import Path

from mcage.errors import UserError
from mcage.kernel_sources import shipped_folder
from mcage.plain_text import shown

FOLDER = "docs"

PAGES = shipped_folder(Path(__file__).resolve().parents[1], FOLDER)
"""Folder of the pages of this mcage."""


def page_titles() -> dict[str, str]:
    """First heading of each page, by the name of the page, such as ``aging``."""
    return {path.stem: _title(path) for path in sorted(PAGES.glob("*.md"))}


def page_text(name: str) -> str:
    """Text of a page in Markdown.

    Parameters
    ----------
    name : str
        Its name; ``.md`` and a folder before it may be given, too.

    Raises
    ------
    UserError
        There is no such page.
    """
    titles = page_titles()
    stem = name.removeprefix(f"{FOLDER}/").removesuffix(".md")
    if stem not in titles:
        raise UserError(f"there is no page {shown(name)}; the pages are {', '.join(titles)}")
    return (PAGES / f"{stem}.md").read_text(encoding="utf-8")


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next(line for line in lines if line.startswith("# ")).removeprefix("# ").strip()
