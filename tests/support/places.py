"""Where the repository and its pages lie, for tests at any depth."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "support" / "data"


def shown_files(page):
    """Code of the files that a page of docs/ or docs/results/ shows in full, by name."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", text, re.DOTALL))


def run_python(page):
    """Run the Python of a page of the repository in the current folder; its names."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names = {"__name__": "__main__"}
    exec(compile(code, page, "exec"), names)
    return names
