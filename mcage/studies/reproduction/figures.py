"""The papers' figures, drawn from mcage's numbers, each with a CSV file of its numbers."""

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mcage.files.atomic import CSV, PNG, make_ready, whole_file
from mcage.report.figures.style import GREY, LABEL, WIDTHS_MM, in_style, inches
from mcage.studies.reproduction.figure_data import PLOTS, Plot, Table
from mcage.studies.reproduction.printed_marks import (
    Mark,
    marks_of,
    printed_bands,
    printed_entries,
    printed_parts,
)
from mcage.studies.reproduction.published import MEAN, PAPERS

LOOKS: dict[str, tuple[str, str]] = {
    "zero": ("#0072B2", ""),
    "one": ("#F0A070", "////"),
    "off": ("#EEEEEE", ""),
    "t0": ("#0072B2", ""),
    "t1": ("#F0A070", "////"),
    "reliable_compressed": ("#009E73", ""),
    "reliable_uncompressed": ("#A6D8F0", "////"),
    "faulty_compressed": ("#F0E442", "...."),
    "faulty_uncompressed": ("#D55E00", "xxxx"),
    "regular": ("#A6D8F0", ""),
    "to_reliable": ("#009E73", "////"),
    "to_faulty": ("#F0E442", "...."),
    "lds": ("#D55E00", "xxxx"),
    "slice_leakage": ("#CCCCCC", ""),
    "slice_reads": ("#A6D8F0", "////"),
    "slice_writes": ("#0072B2", ""),
    "compression_leakage": ("#F5D0A9", "...."),
    "compression_dynamic": ("#E69F00", ""),
    "table_leakage": ("#E8C6DA", "\\\\\\\\"),
    "table_dynamic": ("#CC79A7", ""),
    "redirection_leakage": ("#B8E0D2", "++++"),
    "redirection_dynamic": ("#009E73", ""),
    "wakeups": ("#000000", ""),
    "wakeup": ("#000000", ""),
    "mov": ("#CC79A7", "////"),
    "refresh": ("#F5D0A9", ""),
    "pipeline": ("#A6D8F0", ""),
    "misprediction": ("#F0E442", "...."),
}
"""Colour and hatch of each part of a bar: the colours differ in lightness, too."""

WORDS = {
    "zero": "holds '0'",
    "one": "holds '1'",
    "t0": "T0, stressed by '0'",
    "t1": "T1, stressed by '1'",
    "to_reliable": "moved to reliable entries",
    "to_faulty": "moved to faulty entries",
    "regular": "in place",
    "lds": "to the LDS",
    "mov": "MOV",
}
"""Names of parts, where they are not their keys."""

DOTS_PER_INCH = 150
PANEL_MM = 17.0
"""Height of a panel."""

PAPER = {"color": "black", "markeredgecolor": "white", "markeredgewidth": 0.7, "linestyle": ""}
"""Look of what the paper prints."""

MARKERS = {"value": "D", "reduction": "D", "at most": "v", "at least": "^"}
"""Marker of a printed value by its kind."""

KINDS = {
    "value": "paper",
    "reduction": "paper's mean reduction, from mcage's baseline",
    "at most": "paper: at most",
    "at least": "paper: at least",
    "range": "paper: range",
}
"""Names of printed values by their kind."""


def check_figures(folder: Path, paper: str | None = None) -> None:
    """Refuse a folder into which `write_figures` could not write.

    Raises
    ------
    UserError
        A file of another kind has the name of a figure or of its table, or nothing can be written
        there.
    """
    for plot in PLOTS:
        if paper in (None, plot.paper):
            make_ready(folder / f"{plot.name}.csv", CSV)
            make_ready(folder / f"{plot.name}.png", PNG)


def write_figures(
    table_of: Callable[[Plot], Table], folder: Path, paper: str | None = None
) -> None:
    """Write all figures of a paper, or of both, as ``<paper>-fig<number>.csv`` and ``.png``.

    Parameters
    ----------
    table_of : callable
        Returns the numbers of a figure: computes them, or reads them back (`from_csv`).
    folder : Path
        An existing folder.
    paper : str, optional
        Key of `mcage.studies.reproduction.published.PAPERS`.

    Raises
    ------
    UserError
        A file cannot be written.
    """
    for plot in PLOTS:
        if paper in (None, plot.paper):
            table = table_of(plot)
            with whole_file(folder / f"{plot.name}.csv", CSV) as stream:
                stream.write(as_csv(table).encode())
            write_png(draw(plot, table), folder / f"{plot.name}.png")


@in_style
def write_png(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, and forget it.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    with whole_file(path, PNG) as stream:
        figure.savefig(stream, dpi=DOTS_PER_INCH, format="png", metadata={"Software": None})
    plt.close(figure)


def as_csv(table: Table) -> str:
    """Write a table as CSV text."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def from_csv(path: Path) -> Table:
    """Read a table that `as_csv` has written."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {key: _content(key, text) for key, text in row.items()} for row in csv.DictReader(file)
        ]


def _content(key: str, text: str) -> str | int | float:
    if key in ("kernel", "technique"):
        return text
    return int(text) if key in ("bit", "entry") else float(text)


@in_style
def draw(plot: Plot, table: Table) -> Figure:
    """Draw a figure with a panel for each technique: bars by kernel, or areas by bit or entry.

    Values that the paper prints are marked in black.
    """
    along = next((key for key in ("bit", "entry") if key in table[0]), "")
    names = list(dict.fromkeys(row["technique"] for row in table))
    height = PANEL_MM * len(names) + (20 if along else 38)
    figure, axes = plt.subplots(
        len(names),
        1,
        figsize=(inches(WIDTHS_MM[1]), inches(height)),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    panels = dict(zip(names, axes[:, 0], strict=True))
    (_draw_areas if along else _draw_bars)(plot, table, panels)
    for name, panel in panels.items():
        panel.set_title(name)
    figure.suptitle(
        f"{plot.title} ({PAPERS[plot.paper].split(',')[0]}, Fig. {plot.number})", x=0.01, ha="left"
    )
    figure.supylabel(plot.quantity, fontsize=LABEL)
    handles: dict[str, Any] = {}
    for panel in panels.values():
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4)
    return figure


def _parts(plot: Plot, table: Table) -> list[str]:
    """Keys of the values, the lowest first, without those that are 0 everywhere."""
    keys = [key for key, value in table[0].items() if isinstance(value, float)]
    shown = [key for key in keys if any(row[key] for row in table)]
    return sorted(shown, key=lambda key: key != plot.lowest) if plot.lowest else shown


def _name(part: str) -> str:
    return WORDS.get(part, part.replace("_", " "))


def _draw_areas(plot: Plot, table: Table, panels: Mapping[str, Axes]) -> None:
    """Draw stacked areas along bits of an entry, or along the entries of the slice."""
    along = next(key for key in ("bit", "entry") if key in table[0])
    parts = _parts(plot, table)
    for name, panel in panels.items():
        rows = [row for row in table if row["technique"] == name]
        bottom = np.zeros(len(rows))
        for part in parts:
            colour, hatch = LOOKS[part]
            top = bottom + [100 * row[part] for row in rows]
            panel.fill_between(
                [row[along] for row in rows],
                bottom,
                top,
                facecolor=colour,
                # A hatch in areas as narrow as an entry would be all that is seen.
                hatch=hatch if along == "entry" else None,
                edgecolor="#7A3E10",
                linewidth=0,
                step="mid",
                label=_name(part),
            )
            bottom = top
        panel.set(ylim=(0, 100), yticks=(0, 50, 100))
        panel.margins(x=0)
        for low, high, words in printed_bands(plot, name):
            panel.axhspan(
                low, high, facecolor="none", edgecolor="black", linewidth=1.0, label=words
            )
        if entries := printed_entries(plot, name):
            label = "paper: compressed registers"
            panel.plot(entries, [92] * len(entries), "v", label=label, clip_on=False, **_marker(4))
    panel.set_xlabel("bit of an entry" if along == "bit" else "entry")


def _draw_bars(plot: Plot, table: Table, panels: Mapping[str, Axes]) -> None:
    """Draw a bar of stacked parts for each kernel and for their mean."""
    kernels = list(dict.fromkeys(row["kernel"] for row in table))
    parts = _parts(plot, table)
    side_by_side = parts == ["t0", "t1"]
    groups = [*kernels, MEAN]
    places = np.append(np.arange(len(kernels)), len(kernels) + 0.4)
    marks = marks_of(plot, table)
    printed = printed_parts(plot, parts)
    for name, panel in panels.items():
        rows = {row["kernel"]: row for row in table if row["technique"] == name}
        heights = np.array([[100 * rows[kernel][part] for kernel in kernels] for part in parts])
        heights = np.concatenate([heights, heights.mean(axis=1, keepdims=True)], axis=1)
        tops = np.cumsum(heights, axis=0)
        for number, part in enumerate(parts):
            left, width = _place(parts, part, side_by_side)
            bottom = 0 if side_by_side or not number else tops[number - 1]
            _bar(panel, places + left, heights[number], bottom, width, part)
        if printed:
            bottoms = np.cumsum([0.0, *printed[:-1]])
            for part, height, bottom in zip(parts, printed, bottoms, strict=True):
                _bar(panel, places[-1:] + 1, height, bottom, 0.7, part)
        for place, kernel, top in zip(places, groups, tops[-1], strict=True):
            for mark in marks:
                if mark.is_of(name, kernel):
                    # The height of the uppermost part of a stack is measured from its top.
                    hangs = mark.part == parts[-1] and not side_by_side
                    shown = mark.hanging(top) if hangs else mark
                    _mark(panel, place + _place(parts, mark.part, side_by_side)[0], shown)
        panel.axvline(len(kernels) - 0.3, color=GREY, linewidth=0.5)
        panel.tick_params(axis="x", length=0)
    labels = [*kernels, MEAN, *(["mean, paper"] if printed else [])]
    ticks = [*places, *([places[-1] + 1] if printed else [])]
    panel.set_xticks(ticks, labels, rotation=25, ha="right", rotation_mode="anchor")
    panel.set_xlim(-0.6, ticks[-1] + 0.6)
    most = panel.get_ylim()[1]
    panel.set_ylim(0, max(112.0, most) if most > 80 else 1.15 * most)
    panel.yaxis.set_major_locator(MaxNLocator(2, steps=[1, 2, 5, 10]))


def _place(parts: list[str], part: str, side_by_side: bool) -> tuple[float, float]:
    """Where a part of a bar stands from the middle of its kernel, and how wide it is."""
    if not side_by_side:
        return 0.0, 0.7
    return 0.4 * (parts.index(part) - 0.5), 0.38


def _bar(panel: Axes, places: Any, heights: Any, bottom: Any, width: float, part: str) -> None:
    colour, hatch = LOOKS[part]
    panel.bar(
        places,
        heights,
        width,
        bottom,
        facecolor=colour,
        hatch=hatch,
        edgecolor="#555555",
        linewidth=0.3,
        label=_name(part),
    )


def _marker(size: float) -> dict[str, Any]:
    return PAPER | {"markersize": size}


def _mark(panel: Axes, place: float, mark: Mark) -> None:
    """Mark a printed value."""
    label = KINDS[mark.kind]
    if mark.part and mark.kind != "reduction":
        label += f", {_name(mark.part)}"
    if mark.kind == "range":
        middle = (mark.low + mark.high) / 2
        half = (mark.high - mark.low) / 2
        panel.errorbar(place, middle, half, color="black", capsize=3, linewidth=1.2, label=label)
        return
    height = mark.low if mark.kind == "at least" else mark.high
    look = _marker(5)
    if mark.kind == "reduction":
        look |= {"color": "white", "markeredgecolor": "black"}
    marker = MARKERS[mark.kind]
    panel.plot(place, height, marker, label=label, clip_on=False, zorder=5, **look)
