"""The values that the papers print and mcage's side by side, with a verdict on each."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from json import dumps
from typing import Any

import numpy as np
from rich.console import Console

from mcage.papers import kernel_replays, register_files, whole_gpus
from mcage.papers.register_files import Measured, Metric
from mcage.report.tables import fits, print_table, table_of_texts
from mcage.studies.gpu_heterogeneity.structures import READINGS
from mcage.traces.library import SHORT_NAMES

METRICS: dict[str, Metric] = {
    **register_files.VALERO_2019_METRICS,
    **register_files.TOCA_DIAZ_METRICS,
    **register_files.COSTS_METRICS,
    **register_files.METRICS,
}

GPU_METRICS: dict[str, dict[str, Callable[[kernel_replays.Published, str], Measured]]] = {
    whole_gpus.PAPER: whole_gpus.METRICS,
    whole_gpus.ZHANG_2015_PAPER: whole_gpus.ZHANG_2015_METRICS,
}

Way = int | str | None
"""In which way something is computed: under a delta limit; for papers on whole GPUs, with execution
times of a kind, or under a reading."""

GPU_WAYS: dict[str, tuple[str, ...]] = {
    whole_gpus.PAPER: whole_gpus.TIMES,
    whole_gpus.ZHANG_2015_PAPER: READINGS,
}

_ROUNDING = 1e-9
"""Largest relative difference that rounding alone can make."""

NAMES = {number: name for name, number in kernel_replays.NUMBERS.items()}
"""Names of the papers, by number."""

_SLIGHT = 2e-3
"""Relative difference below which a difference is not printed."""


@dataclass(frozen=True)
class TableRow:
    """A printed value and what mcage computes for it.

    Attributes
    ----------
    figure : Published
        The value as printed.
    measured : dict of Way to Measured
        Values of mcage by the way in which they are computed; empty if mcage cannot compute it.
    why : str
        Why mcage disagrees, or cannot compute it.
    release : str
        When windows are released.
    """

    figure: kernel_replays.Published
    measured: Mapping[Way, Measured]
    why: str
    release: str

    @property
    def way_matters(self) -> bool:
        """Whether the way in which it is computed makes a difference."""
        values = [measured.value for measured in self.measured.values() if not measured.text]
        return bool(values) and not np.allclose(values, values[0], rtol=_ROUNDING, atol=0)

    def agrees(self, way: Way) -> bool:
        """Whether mcage agrees if it computes in a way."""
        return bool(self.measured) and self.measured[way].agrees(self.figure)

    @property
    def agrees_always(self) -> bool:
        """Whether mcage agrees in whatever way it computes."""
        return bool(self.measured) and all(self.agrees(way) for way in self.measured)


def reproduce(study: kernel_replays.KernelReplays, paper: str | None = None) -> list[TableRow]:
    """Compute what a paper on register files prints, or what both print.

    Parameters
    ----------
    study : KernelReplays
        Replays.
    paper : str, optional
        Key of `mcage.papers.kernel_replays.PAPERS`; by default both.
    """
    reasons = kernel_replays.Reasons.read()
    rows = []
    for figure in kernel_replays.published_figures(paper):
        metric = METRICS.get(figure.metric)
        measured: dict[Way, Measured] = (
            {limit: metric(study, figure, limit) for limit in kernel_replays.LIMITS}
            if metric
            else {}
        )
        rows.append(_explained(TableRow(figure, measured, "", study.release), reasons))
    return rows


def reproduce_gpus(paper: str | None = None) -> list[TableRow]:
    """Compute what a paper on whole GPUs prints, or what both print; nothing is replayed.

    Parameters
    ----------
    paper : str, optional
        Key of `mcage.papers.kernel_replays.GPU_PAPERS`; by default both.
    """
    reasons = kernel_replays.Reasons.read()
    rows = []
    for key in kernel_replays.GPU_PAPERS if paper is None else (paper,):
        for figure in kernel_replays.published_figures(key):
            metric = GPU_METRICS[key].get(figure.metric)
            measured: dict[Way, Measured] = (
                {way: metric(figure, way) for way in GPU_WAYS[key]} if metric else {}
            )
            rows.append(_explained(TableRow(figure, measured, "", ""), reasons))
    return rows


def _explained(row: TableRow, reasons: kernel_replays.Reasons) -> TableRow:
    """The row with the reason for a difference."""
    if row.agrees_always:
        return row
    return replace(row, why=reasons.why(row.figure, row.release))


def as_json(rows: Sequence[TableRow]) -> list[dict[str, Any]]:
    """Convert rows into what JSON can hold."""
    return [
        {
            "paper": row.figure.paper,
            "name": NAMES[row.figure.paper],
            "place": row.figure.place,
            "metric": row.figure.metric,
            "technique": row.figure.technique,
            "kernel": row.figure.kernel,
            "scenario": row.figure.scenario,
            "published": row.figure.text,
            "unit": row.figure.unit,
            "kind": row.figure.kind,
            "release": row.release,
            **{
                key: None if math.isnan(value := getattr(row.figure, key)) else value
                for key in ("low", "high", "tolerance")
            },
            "mcage": {
                _name(way): _plain(measured, row.figure) for way, measured in row.measured.items()
            },
            "verdict": verdict(row),
            "why": row.why,
        }
        for row in rows
    ]


def to_json(rows: Sequence[TableRow]) -> str:
    """Write rows as JSON text."""
    return dumps(as_json(rows), indent=1, allow_nan=False)


def _name(way: Way) -> str:
    if isinstance(way, str):
        return way
    return "no delta limit" if way is None else f"delta limit {way}"


def ways_of(paper: str) -> tuple[Way, ...]:
    """In which ways the values of a paper are computed."""
    return GPU_WAYS.get(paper, kernel_replays.LIMITS)


def _plain(measured: Measured, figure: kernel_replays.Published) -> dict[str, Any]:
    if measured.text:
        return {"value": measured.text, "agrees": measured.agrees(figure)}
    return {
        "value": measured.value,
        "half_width": measured.half_width,
        "difference": figure.difference(measured.value),
        "agrees": measured.agrees(figure),
        "by_kernel": measured.by_kernel,
    }


def print_rows(rows: Sequence[TableRow], console: Console) -> None:
    """Print for each paper its values and mcage's, the reasons for differences, and each kernel."""
    for paper, title in (kernel_replays.PAPERS | kernel_replays.GPU_PAPERS).items():
        selected = [row for row in rows if row.figure.paper == paper]
        if selected:
            notes = numbered_reasons(selected)
            numbered = {why: f"[{number}]" for why, number in notes.items()}
            lines = [[*cells(row), numbered.get(row.why, "")] for row in selected]
            ways = list(map(_name, ways_of(paper)))
            names = [*headings(paper)]
            numbers = ["paper", *ways, "tolerance"]
            title = f"{title} ({NAMES[paper]})"
            table = table_of_texts(title, names, lines, numbers, names)
            if not fits(table, console):  # then a single column says what a line is about
                lines, names = [_joined(line) for line in lines], _joined(names)
                primary = ["where", names[1], "paper", ways[0], "agrees", "why"]
                table = table_of_texts(title, names, lines, numbers, primary)
            print_table(table, console, remedy="--json")
            for why, number in notes.items():
                console.print(f"[{number}] {why}")
            if of_kernels := kernel_cells(selected):
                names = [*kernel_headings(selected)]
                title = "\nKernel by kernel"
                primary = [*names[:5], names[-1]]
                table = table_of_texts(title, names, of_kernels, names[5:], primary)
                print_table(table, console, remedy="--json")
    console.print(in_counts(rows))


def _joined(texts: list[str]) -> list[str]:
    """Texts of a line with a single one for what it is about: the second to the fifth."""
    where, what, *others = texts
    subjects = ", ".join(filter(None, others[:3]))
    return [where, f"{what}: {subjects}" if subjects else what, *others[3:]]


SUBJECTS = {
    "003": ("policy", "kernel", "age; model"),
    "004": ("design", "benchmark", "structure"),
}
"""Headings of the three columns before the printed value, for papers on whole GPUs."""


def headings(paper: str) -> tuple[str, ...]:
    """Columns of the table of a paper; brackets hold the distance from the printed range."""
    subject = SUBJECTS.get(paper, ("technique", "kernel", "scenario"))
    ways = map(_name, ways_of(paper))
    return ("where", "what", *subject, "paper", *ways, "tolerance", "agrees", "why")


def numbered_reasons(rows: Sequence[TableRow]) -> dict[str, int]:
    """Number the reasons in the order of their first rows."""
    return {why: i + 1 for i, why in enumerate(dict.fromkeys(row.why for row in rows if row.why))}


def cells(row: TableRow) -> list[str]:
    """Cells of a row of the table, without the reason."""
    figure = row.figure
    texts = [_text(row, way) for way in ways_of(figure.paper)]
    if row.measured and not row.way_matters:
        texts = [texts[0], *[""] * (len(texts) - 1)]
    return [
        figure.place,
        figure.metric.replace("_", " "),
        figure.technique,
        SHORT_NAMES.get(figure.kernel, figure.kernel),
        figure.scenario,
        f"{figure.text} {figure.unit}".strip(),
        *texts,
        figure.tolerance_text,
        verdict(row),
    ]


def verdict(row: TableRow) -> str:
    """Say in a word or two whether mcage agrees."""
    if not row.measured:
        return "no answer"
    if row.agrees_always:
        return "yes"
    agreeing = [way for way in row.measured if row.agrees(way)]
    if not agreeing:
        return "no"
    if row.figure.paper in kernel_replays.GPU_PAPERS:
        return f"{_IN_PART}{', '.join(map(_name, agreeing))}"
    return "with the limit" if row.agrees(kernel_replays.LIMITS[0]) else "without limit"


_IN_PART = "only "

_VERDICTS = {
    "yes": "agree",
    "with the limit": "agree only with the published delta limit",
    "without limit": "agree only without a limit",
    _IN_PART: "agree under some readings or times only",
    "no": "do not agree",
    "no answer": "cannot be answered",
}


def in_counts(rows: Sequence[TableRow]) -> str:
    """Say in a sentence how many rows have each verdict."""
    verdicts = map(verdict, rows)
    counts = Counter(_IN_PART if word.startswith(_IN_PART) else word for word in verdicts)
    words = [f"{counts[word]} {meaning}" for word, meaning in _VERDICTS.items() if counts[word]]
    return f"{len(rows)} lines: {', '.join(words)}."


def kernel_cells(rows: Sequence[TableRow]) -> list[list[str]]:
    """Lines of a table with the value of each kernel, for printed means over the kernels."""
    lines = []
    for row in rows:
        if row.figure.kernel == kernel_replays.MEAN and any(
            m.by_kernel for m in row.measured.values()
        ):
            ways = ways_of(row.figure.paper)
            for way in ways if row.way_matters else ways[:1]:
                measured = row.measured[way]
                lines.append(
                    [
                        row.figure.place,
                        row.figure.metric.replace("_", " "),
                        row.figure.technique,
                        row.figure.scenario,
                        _way_text(way) if row.way_matters else "",
                        *(_digits(value) for value in measured.by_kernel.values()),
                        _digits(measured.value),
                    ]
                )
    return lines


KERNEL_HEADINGS = ("where", "what", "technique", "scenario", "limit", *SHORT_NAMES.values(), "mean")
"""Columns of `kernel_cells` of papers on register files."""


def kernel_headings(rows: Sequence[TableRow]) -> tuple[str, ...]:
    """Columns of `kernel_cells` of rows of one paper."""
    paper = rows[0].figure.paper
    if paper in kernel_replays.PAPERS:
        return KERNEL_HEADINGS
    policy, _, scenario = SUBJECTS[paper]
    by_kernel = next(
        measured.by_kernel
        for row in rows
        for measured in row.measured.values()
        if measured.by_kernel
    )
    return ("where", "what", policy, scenario, "way", *by_kernel, "mean")


def _way_text(way: Way) -> str:
    return "none" if way is None else str(way)


def _text(row: TableRow, way: Way) -> str:
    if not row.measured:
        return ""
    measured = row.measured[way]
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
