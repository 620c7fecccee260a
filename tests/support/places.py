"""Where the repository and its pages lie, for tests at any depth."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "support" / "data"


def is_checkout(place):
    """Whether a place of modules is the repository, from which mcage comes if nowhere else from.

    `python -m pytest` puts the folder that it is started in first: tests would import the checkout,
    and what they start the installed package, with an engine of its own.
    """
    return Path(place or ".").resolve() == ROOT


def shown_files(page):
    """Code of the files that a page of docs/ shows in full, by name."""
    text = (ROOT / "docs" / page).read_text()
    return dict(re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)```", text, re.DOTALL))
