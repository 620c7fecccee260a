"""Compute the figures of the papers on whole GPUs anew: ``results/reproduce/`` and a page.

    python scripts/docs/reproduce_gpus.py

`docs/gpu-reproduction.md` and `results/whole-gpus.md` hold them between comments; everything else
in them is written by hand.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from doc_tables import between, markdown
from mitigation_by_age import AGE_HEADINGS, age_cells, ages
from paper_drawings import write_plots

from mcage.papers.kernel_replays import GPU_PAPERS
from mcage.papers.table import (
    TableRow,
    cells,
    headings,
    in_counts,
    kernel_cells,
    kernel_headings,
    numbered_reasons,
    reproduce_gpus,
    to_json,
)

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "reproduce"
PAGE = ROOT / "docs" / "gpu-reproduction.md"
LINES = ROOT / "results" / "whole-gpus.md"
TABLE = "table-gpus.json"


def main() -> None:
    rows = reproduce_gpus()
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / TABLE).write_text(f"{to_json(rows)}\n", encoding="utf-8")
    write_plots(RESULTS)
    verdicts = between(PAGE.read_text(encoding="utf-8"), "verdicts", f"{in_counts(rows)}\n")
    PAGE.write_text(verdicts, encoding="utf-8")
    lines = with_tables(LINES.read_text(encoding="utf-8"), rows, ages())
    LINES.write_text(lines, encoding="utf-8")


def with_tables(page: str, rows: Sequence[TableRow], by_age: Sequence[Mapping[str, Any]]) -> str:
    """The page with its tables brought up to date."""
    for paper in GPU_PAPERS:
        selected = [row for row in rows if row.figure.paper == paper]
        notes = numbered_reasons(selected)
        lines = [[*cells(row), str(notes.get(row.why, ""))] for row in selected]
        text = markdown(headings(paper), lines)
        text += "".join(f"\n{number}. {why}" for why, number in notes.items()) + "\n"
        page = between(page, f"table {paper}", text)
        of_kernels = markdown(kernel_headings(selected), kernel_cells(selected))
        page = between(page, f"kernels {paper}", of_kernels)
    return between(page, "ages", markdown(AGE_HEADINGS, age_cells(by_age)))


if __name__ == "__main__":
    main()
