"""Write docs/keys.md: every key of a sweep, from the fields of its spec.

    python scripts/docs/keys_page.py

The docstring of a field has the meaning. Its second paragraph is for this page alone, and begins
with the status of the default, if it has one.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from doc_tables import markdown
from pydantic import BaseModel

from mcage.plain_text import field_paragraphs
from mcage.spec import SweepSpec
from mcage.spec.keys import Option

PAGE = Path(__file__).parents[2] / "docs" / "keys.md"

STATUSES = ("Printed if true", "Printed", "Reconstructed", "Assumed", "Numerical")

ABOVE = """# Keys of a sweep

This page is generated from the fields of `SweepSpec` by `scripts/docs/keys_page.py`. \
[The model](model.md#every-free-choice) says how keys are set, and what the status words mean.

"""


def page() -> str:
    """The page."""
    return ABOVE.replace("\\\n", "") + markdown(
        ("key", "default", "status", "option", "meaning"), list(rows(SweepSpec(), ""))
    )


def rows(section: BaseModel, table: str) -> Iterator[tuple[str, ...]]:
    """Lines of the table about the keys of a section, and of those below it."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from rows(value, f"{name}.")
            continue
        said, *notes = field_paragraphs(type(section), name)
        note = " ".join(notes)
        status = next((each for each in STATUSES if note.startswith(f"{each}. ")), "")
        if note.rstrip(".") in STATUSES:
            note, status = "", note.rstrip(".")
        note = note.removeprefix(f"{status}. ") if status else note
        option = next((each for each in field.metadata if isinstance(each, Option)), None)
        yield (
            f"`{table}{name}`",
            in_words(value),
            status.lower(),
            f"`{option.usage}`" if option else "",
            linked(f"{said} {note}".strip()),
        )


def in_words(value: Any) -> str:
    """A default as the page shows it."""
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{value}`" if isinstance(value, str) else f"{value:.10g}"


def linked(text: str) -> str:
    """A docstring as Markdown, with links to the pages that it names."""
    text = text.replace("``", "`")
    text = re.sub(r"\bdocs/([\w-]+\.md)(#[\w-]+)?", r"[\1](\1\2)", text)
    return re.sub(r"\bresults/([\w-]+\.md)(#[\w-]+)?", r"[\1](../results/\1\2)", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
