"""Where the repository and its pages lie, for tests at any depth."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "support" / "data"


def shown_files(page):
    """Code of the files that a page of docs/ or docs/results/ shows in full, by name."""
    text = (ROOT / "docs" / page).read_text()
    return dict(re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)```", text, re.DOTALL))
