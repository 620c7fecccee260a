"""The values that the papers print and mcage's side by side, with a verdict on each."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from mcage.files.atomic import make_ready, whole_file
from mcage.files.kinds import JSON
from mcage.studies.reproduction import components, costs, toca_diaz, valero_2019
from mcage.studies.reproduction.kernel_replays import LIMITS, KernelReplays
from mcage.studies.reproduction.measured import Measured, Metric
from mcage.studies.reproduction.published import MEAN, PAPERS, Published, Reasons, published_figures
from mcage.traces.library import SHORT_NAMES

METRICS: dict[str, Metric] = {
    **valero_2019.METRICS,
    **toca_diaz.METRICS,
    **costs.METRICS,
    **components.METRICS,
}

WIDTH_WITHOUT_TERMINAL = 190

_ROUNDING = 1e-9
"""Largest relative difference that rounding alone can make."""

TABLE_NAME = "table.json"

_SLIGHT = 2e-3
"""Relative difference below which a difference is not printed."""


@dataclass(frozen=True)
class Row:
    """A printed value and what mcage computes for it.

    Attributes
    ----------
    figure : Published
        The value as printed.
    measured : dict of (int or None) to Measured
        Values of mcage by delta limit; empty if mcage cannot compute it.
    why : str
        Why mcage disagrees, or cannot compute it.
    release : str
        When windows are released.
    """

    figure: Published
    measured: dict[int | None, Measured]
    why: str
    release: str

    @property
    def limit_matters(self) -> bool:
        """Whether the delta limit makes a difference."""
        values = [measured.value for measured in self.measured.values() if not measured.text]
        return bool(values) and not np.allclose(values, values[0], rtol=_ROUNDING, atol=0)

    def agrees(self, limit: int | None) -> bool:
        """Whether mcage agrees under a delta limit."""
        return bool(self.measured) and self.measured[limit].agrees(self.figure)

    @property
    def agrees_always(self) -> bool:
        """Whether mcage agrees under each delta limit."""
        return all(self.agrees(limit) for limit in LIMITS)


def reproduce(study: KernelReplays, paper: str | None = None) -> list[Row]:
    """Compute what a paper prints, or what both print.

    Parameters
    ----------
    study : KernelReplays
        Replays.
    paper : str, optional
        Key of `mcage.studies.reproduction.published.PAPERS`; by default both.
    """
    reasons = Reasons.read()
    rows = []
    for figure in published_figures(paper):
        metric = METRICS.get(figure.metric)
        measured = {limit: metric(study, figure, limit) for limit in LIMITS} if metric else {}
        row = Row(figure, measured, "", study.release)
        if not row.agrees_always:
            row = replace(row, why=reasons.why(figure, study.release))
        rows.append(row)
    return rows


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Convert rows into what JSON can hold."""
    return [
        {
            "paper": row.figure.paper,
            "place": row.figure.place,
            "metric": row.figure.metric,
            "technique": row.figure.technique,
            "kernel": row.figure.kernel,
            "scenario": row.figure.scenario,
            "published": row.figure.text,
            "unit": row.figure.unit,
            "release": row.release,
            "tolerance": None if math.isnan(row.figure.tolerance) else row.figure.tolerance,
            "mcage": {
                _name(limit): _plain(measured, row.figure)
                for limit, measured in row.measured.items()
            },
            "verdict": verdict(row),
            "why": row.why,
        }
        for row in rows
    ]


def check_table(folder: Path, name: str = TABLE_NAME) -> None:
    """Refuse a folder into which `write_table` could not write.

    Raises
    ------
    UserError
        Another file has the name of the table, or nothing can be written there.
    """
    make_ready(folder / name, JSON)


def write_table(rows: Sequence[Row], folder: Path, name: str = TABLE_NAME) -> None:
    """Write the rows as JSON into an existing folder.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    with whole_file(folder / name, JSON) as stream:
        stream.write(f"{to_json(rows)}\n".encode())


def to_json(rows: Sequence[Row]) -> str:
    """Write rows as JSON text."""
    return dumps(as_json(rows), indent=1, allow_nan=False)


def _name(limit: int | None) -> str:
    return "no delta limit" if limit is None else f"delta limit {limit}"


def _plain(measured: Measured, figure: Published) -> dict[str, Any]:
    if measured.text:
        return {"value": measured.text, "agrees": measured.agrees(figure)}
    return {
        "value": measured.value,
        "half_width": measured.half_width,
        "difference": figure.difference(measured.value),
        "agrees": measured.agrees(figure),
        "by_kernel": measured.by_kernel,
    }


def print_rows(rows: Sequence[Row], console: Console) -> None:
    """Print for each paper its values and mcage's, the reasons for differences, and each kernel."""
    for paper, title in PAPERS.items():
        selected = [row for row in rows if row.figure.paper == paper]
        if selected:
            table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
            for heading in HEADINGS:
                table.add_column(heading, justify="right" if heading in _NUMBERS else "left")
            notes = numbered_reasons(selected)
            for row in selected:
                number = notes.get(row.why)
                table.add_row(*cells(row), f"[{number}]" if number else "")
            console.print(table)
            for why, number in notes.items():
                console.print(f"[{number}] {why}", markup=False)
            console.print(_kernel_table(selected))
    console.print(in_counts(rows), markup=False)


_NUMBERS = ("paper", *(_name(limit) for limit in LIMITS), "tolerance")
HEADINGS = ("where", "what", "technique", "kernel", "scenario", *_NUMBERS, "agrees", "why")
"""Columns of the table; brackets hold the distance from the printed range."""


def numbered_reasons(rows: Sequence[Row]) -> dict[str, int]:
    """Number the reasons in the order of their first rows."""
    return {why: i + 1 for i, why in enumerate(dict.fromkeys(row.why for row in rows if row.why))}


def cells(row: Row) -> list[str]:
    """Cells of a row of the table, without the reason."""
    figure = row.figure
    texts = [_text(row, limit) for limit in LIMITS]
    if row.measured and not row.limit_matters:
        texts = [texts[0], ""]
    return [
        figure.place,
        figure.metric.replace("_", " "),
        figure.technique,
        SHORT_NAMES.get(figure.kernel, figure.kernel),
        figure.scenario,
        f"{figure.text} {figure.unit}".strip(),
        *texts,
        "" if math.isnan(figure.tolerance) else f"±{figure.tolerance:g}",
        verdict(row),
    ]


def verdict(row: Row) -> str:
    """Say in a word or two whether mcage agrees."""
    if not row.measured:
        return "no answer"
    if row.agrees_always:
        return "yes"
    if not any(row.agrees(limit) for limit in LIMITS):
        return "no"
    return "with the limit" if row.agrees(LIMITS[0]) else "without limit"


_VERDICTS = {
    "yes": "agree",
    "with the limit": "agree only with the published delta limit",
    "without limit": "agree only without a limit",
    "no": "do not agree",
    "no answer": "cannot be answered",
}


def in_counts(rows: Sequence[Row]) -> str:
    """Say in a sentence how many rows have each verdict."""
    counts = Counter(map(verdict, rows))
    words = [f"{counts[word]} {meaning}" for word, meaning in _VERDICTS.items() if counts[word]]
    return f"{len(rows)} lines: {', '.join(words)}."


def kernel_cells(rows: Sequence[Row]) -> list[list[str]]:
    """Lines of a table with the value of each kernel, for printed means over the kernels."""
    lines = []
    for row in rows:
        if row.figure.kernel == MEAN and row.measured:
            for limit in LIMITS if row.limit_matters else LIMITS[:1]:
                measured = row.measured[limit]
                lines.append(
                    [
                        row.figure.place,
                        row.figure.metric.replace("_", " "),
                        row.figure.technique,
                        row.figure.scenario,
                        _limit_text(limit) if row.limit_matters else "",
                        *(_digits(value) for value in measured.by_kernel.values()),
                        _digits(measured.value),
                    ]
                )
    return lines


KERNEL_HEADINGS = ("where", "what", "technique", "scenario", "limit", *SHORT_NAMES.values(), "mean")


def _kernel_table(rows: Sequence[Row]) -> Table:
    table = Table(title="Kernel by kernel", box=box.SIMPLE_HEAD, title_justify="left")
    for column, heading in enumerate(KERNEL_HEADINGS):
        table.add_column(heading, justify="right" if column > 4 else "left")
    for line in kernel_cells(rows):
        table.add_row(*line)
    return table


def _limit_text(limit: int | None) -> str:
    return "none" if limit is None else str(limit)


def _text(row: Row, limit: int | None) -> str:
    if not row.measured:
        return ""
    measured = row.measured[limit]
    if measured.text:
        return measured.text
    text = _digits(measured.value)
    if measured.half_width:
        text += f" ±{measured.half_width:.1g}"
    off = row.figure.difference(measured.value)
    return f"{text} ({_digits(off, '+')})" if abs(off) > _SLIGHT * abs(measured.value) else text


def _digits(value: float, sign: str = "") -> str:
    """Write three digits, or all digits before the point."""
    if float(value).is_integer():
        return f"{value:{sign}.0f}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:{sign}.{min(places, 6)}f}"
