"""Compute the papers' figures anew: ``results/reproduce/``, and the tables of the documentation.

    python scripts/reproduce.py

`docs/reproduction.md` holds the tables between comments; everything else in it is written by hand.
"""

from collections.abc import Sequence
from pathlib import Path

from doc_tables import between, markdown

from mcage.engines.select import select_engine
from mcage.reproduce.figures import write_figures
from mcage.reproduce.published import PAPERS
from mcage.reproduce.study import Study
from mcage.reproduce.table import (
    HEADINGS,
    KERNEL_HEADINGS,
    Row,
    cells,
    kernel_cells,
    numbered_reasons,
    reproduce,
    write_table,
)

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "reproduce"
PAGE = ROOT / "docs" / "reproduction.md"


def main() -> None:
    study = Study(select_engine()[0])
    rows = reproduce(study)
    RESULTS.mkdir(parents=True, exist_ok=True)
    write_table(rows, RESULTS)
    write_figures(study, RESULTS)
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


def with_tables(page: str, rows: Sequence[Row]) -> str:
    """The page with its tables brought up to date."""
    for paper in PAPERS:
        mine = [row for row in rows if row.figure.paper == paper]
        notes = numbered_reasons(mine)
        lines = [[*cells(row), str(notes.get(row.why, ""))] for row in mine]
        text = markdown(HEADINGS, lines)
        text += "".join(f"\n{number}. {why}" for why, number in notes.items()) + "\n"
        page = between(page, f"table {paper}", text)
        page = between(page, f"kernels {paper}", markdown(KERNEL_HEADINGS, kernel_cells(mine)))
    return page


if __name__ == "__main__":
    main()
