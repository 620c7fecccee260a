"""Compute the papers' figures anew: ``results/reproduce/``, and the tables of the documentation.

    python scripts/docs/reproduce.py
    python scripts/docs/reproduce.py --drawings   # only the figures, from their CSV files

`docs/reproduction.md` and `results/register-files.md` hold the tables between comments; everything
else in them is written by hand. Both ways to release windows are computed; files and figures are
of the default.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from doc_tables import between, markdown
from paper_drawings import from_csv, write_figures

from mcage.engines import select_engine
from mcage.papers.kernel_replays import LIMITS, MEAN, PAPERS, KernelReplays
from mcage.papers.table import (
    KERNEL_HEADINGS,
    TableRow,
    cells,
    headings,
    in_counts,
    kernel_cells,
    numbered_reasons,
    reproduce,
    to_json,
    verdict,
)
from mcage.traces.transforms import WORK_GROUP

ROOT = Path(__file__).parents[2]
HEADINGS = headings("000")
RESULTS = ROOT / "results" / "reproduce"
PAGE = ROOT / "docs" / "reproduction.md"
LINES = ROOT / "results" / "register-files.md"
TABLE, OTHER_TABLE = "table.json", f"table-{WORK_GROUP}.json"

OTHER_HEADINGS = ("work-group: limit 64", "no limit", "agrees", "why")
"""What comes out if windows are released with their work-groups, where that differs."""

SHOWN = {
    "longest '0' duty cycle, RC+RAR: reduction": ("longest_zero_duty_reduction", "rc+rar"),
    "longest '1' duty cycle, RC+RAR: reduction": ("longest_one_duty_reduction", "rc+rar"),
    "longest '0' duty cycle, ARGO: reduction": ("longest_zero_duty_reduction", "argo"),
    "longest '0' duty cycle of BlackScholes, ARGO": ("longest_zero_duty", "argo", "BlackScholes"),
    "threshold shift of T0, RC+RAR: saving": ("dvth_t0_saving", "rc+rar"),
    "delay after three years, RC+RAR": ("delay_increase", "rc+rar"),
    "compressible writes": ("compressible_writes", "rc"),
    "energy, RC+RAR: saving": ("energy_saving", "rc+rar"),
    "BlackScholes' writes to the LDS, RRCD": ("lds_writes", "rrcd", "BlackScholes"),
    "BlackScholes' slowdown, RRCD": ("slowdown", "rrcd", "BlackScholes"),
    "energy, RRCD, Common: saving": ("energy_saving", "rrcd", "mean", "common"),
    "energy, RRCD, Clustered: saving": ("energy_saving", "rrcd", "mean", "clustered"),
    "energy, RRCD, Dispersed: saving": ("energy_saving", "rrcd", "mean", "dispersed"),
    "occupied entries": ("occupancy", "", "mean"),
    "writes that stay in place, RRCD": ("regular_writes", "rrcd"),
}
"""Lines on the page: metric, technique, and kernel and scenario unless it is the plain mean."""


def main() -> None:
    if sys.argv[1:] == ["--drawings"]:
        write_figures(lambda plot: from_csv(RESULTS / f"{plot.name}.csv"), RESULTS)
        return
    engine = select_engine()[0]
    study = KernelReplays(engine)
    rows = reproduce(study)
    others = reproduce(KernelReplays(engine, release=WORK_GROUP, like=study))
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name, lines in ((TABLE, rows), (OTHER_TABLE, others)):
        (RESULTS / name).write_text(f"{to_json(lines)}\n", encoding="utf-8")
    write_figures(lambda plot: plot.table(study), RESULTS)
    PAGE.write_text(with_verdicts(PAGE.read_text(encoding="utf-8"), rows, others), encoding="utf-8")
    LINES.write_text(with_tables(LINES.read_text(encoding="utf-8"), rows, others), encoding="utf-8")


def with_verdicts(page: str, rows: Sequence[TableRow], others: Sequence[TableRow]) -> str:
    """The page with its verdicts, and some of the lines, brought up to date."""
    page = between(page, "verdicts", f"{in_counts(rows)}\n")
    page = between(page, "verdicts by work-group", f"{in_counts(others)}\n")
    lines = [[what, *_sample(_row(rows, *key))] for what, key in SHOWN.items()]
    headings = ("", "paper", "limit 64", "no limit", "agrees")
    return between(page, "reproduction", "\n" + markdown(headings, lines) + "\n")


def with_tables(page: str, rows: Sequence[TableRow], others: Sequence[TableRow]) -> str:
    """The page with all lines, and those of each kernel, brought up to date."""
    for paper in PAPERS:
        pairs = [pair for pair in zip(rows, others, strict=True) if pair[0].figure.paper == paper]
        by_default = [row for row, _ in pairs]
        notes = numbered_reasons([*by_default, *(b for a, b in pairs if cells(a) != cells(b))])
        lines = [_line(row, other, notes) for row, other in pairs]
        text = markdown([*HEADINGS, *OTHER_HEADINGS], lines)
        text += "".join(f"\n{number}. {why}" for why, number in notes.items()) + "\n"
        page = between(page, f"table {paper}", text)
        page = between(
            page, f"kernels {paper}", markdown(KERNEL_HEADINGS, kernel_cells(by_default))
        )
    return page


def _line(row: TableRow, other: TableRow, notes: dict[str, int]) -> list[str]:
    shown, differing = cells(row), cells(other)
    first = len(HEADINGS) - len(LIMITS) - 3
    of_other = [*differing[first : first + len(LIMITS)], differing[-1], _note(other, notes)]
    return [*shown, _note(row, notes), *(of_other if shown != differing else [""] * len(of_other))]


def _note(row: TableRow, notes: dict[str, int]) -> str:
    return str(notes.get(row.why, ""))


def _row(
    rows: Sequence[TableRow], metric: str, technique: str, kernel: str = MEAN, scenario: str = ""
) -> TableRow:
    asked = metric, technique, kernel, scenario
    (row,) = (row for row in rows if _key(row) == asked)
    return row


def _key(row: TableRow) -> tuple[str, str, str, str]:
    figure = row.figure
    return figure.metric, figure.technique, figure.kernel, figure.scenario


def _sample(row: TableRow) -> list[str]:
    """What the paper has, what mcage has with the published limit and without, and the verdict."""
    values = [f"{row.measured[limit].value:.1f}" for limit in LIMITS]
    return [cells(row)[5], *(values if row.way_matters else [values[0], ""]), verdict(row)]


if __name__ == "__main__":
    main()
