"""Tables that scripts write into pages, between comments that bear their names."""

import re
from collections.abc import Sequence
from pathlib import Path


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    rule = ["---"] * len(headings)
    return "".join("| " + " | ".join(line) + " |\n" for line in (headings, rule, *lines))


def between(page: str, name: str, text: str) -> str:
    """The page with a text between the comments that bear a name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise SystemExit(f"the page needs the comments of {name!r} once each")
    return re.sub(
        re.escape(begin) + ".*?" + re.escape(end), lambda _: begin + text + end, page, flags=re.S
    )


def bring_up_to_date(path: Path, texts: dict[str, str]) -> None:
    """Put texts between the comments of a page that bear their names."""
    page = path.read_text(encoding="utf-8")
    for name, text in texts.items():
        page = between(page, name, text)
    path.write_text(page, encoding="utf-8")
