"""The papers' figures, drawn from mcage's numbers, each with a CSV file of its numbers."""

import csv
import io
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from mcage.files.atomic import make_ready, whole_file
from mcage.files.kinds import CSV, PNG
from mcage.studies.reproduction.figure_data import PLOTS, Plot, Table
from mcage.studies.reproduction.kernel_replays import KernelReplays
from mcage.studies.reproduction.published import PAPERS
from mcage.traces.library import SHORT_NAMES

# Okabe and Ito's colours, which the colour-blind tell apart.
COLOURS = {
    "zero": "#0072B2",
    "one": "#D55E00",
    "off": "#DDDDDD",
    "t0": "#0072B2",
    "t1": "#D55E00",
    "reliable_compressed": "#009E73",
    "reliable_uncompressed": "#56B4E9",
    "faulty_compressed": "#F0E442",
    "faulty_uncompressed": "#D55E00",
    "regular": "#56B4E9",
    "to_reliable": "#009E73",
    "to_faulty": "#F0E442",
    "lds": "#D55E00",
    "slice_leakage": "#BBBBBB",
    "slice_reads": "#56B4E9",
    "slice_writes": "#0072B2",
    "compression_leakage": "#F5D0A9",
    "compression_dynamic": "#E69F00",
    "table_leakage": "#E8C6DA",
    "table_dynamic": "#CC79A7",
    "redirection_leakage": "#B8E0D2",
    "redirection_dynamic": "#009E73",
    "wakeups": "#000000",
    "wakeup": "#000000",
    "mov": "#CC79A7",
    "refresh": "#E69F00",
    "pipeline": "#56B4E9",
    "misprediction": "#F0E442",
}
STYLE: dict[Any, Any] = {
    "font.size": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "mcage",
    # Names of techniques and kernels are no mathematics, whatever signs they have.
    "text.parse_math": False,
}


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


def write_figures(study: KernelReplays, folder: Path, paper: str | None = None) -> None:
    """Write all figures of a paper, or of both, as ``<paper>-fig<number>.csv`` and ``.png``.

    Parameters
    ----------
    study : KernelReplays
        Replays.
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
            table = plot.table(study)
            with whole_file(folder / f"{plot.name}.csv", CSV) as stream:
                stream.write(as_csv(table).encode())
            with whole_file(folder / f"{plot.name}.png", PNG) as stream, plt.rc_context(STYLE):
                figure = draw(plot, table)
                figure.savefig(stream, dpi=130, format="png", metadata={"Software": None})
                plt.close(figure)


def as_csv(table: Table) -> str:
    """Write a table as CSV text."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def draw(plot: Plot, table: Table) -> Figure:
    """Draw a figure: stacked bars for each kernel, or areas along bits and entries."""
    along = next((key for key in ("bit", "entry") if key in table[0]), "")
    figure = _areas(table, along) if along else _bars(table)
    figure.suptitle(
        f"{plot.title}  ({PAPERS[plot.paper].split(',')[0]}, Fig. {plot.number})",
        x=0.01,
        ha="left",
        fontsize=8.5,
    )
    return figure


def _parts(table: Table) -> list[str]:
    return [key for key, value in table[0].items() if isinstance(value, float)]


def _areas(table: Table, along: str) -> Figure:
    """Draw a panel for each technique."""
    names = list(dict.fromkeys(row["technique"] for row in table))
    figure, axes = plt.subplots(
        len(names), 1, figsize=(7, 0.9 * len(names) + 0.6), sharex=True, layout="constrained"
    )
    for name, panel in zip(names, np.atleast_1d(axes), strict=True):
        rows = [row for row in table if row["technique"] == name]
        parts = _parts(rows)
        panel.stackplot(
            [row[along] for row in rows],
            [[100 * row[part] for row in rows] for part in parts],
            colors=[COLOURS[part] for part in parts],
            labels=[part.replace("_", " ") for part in parts],
            step="mid",
            linewidth=0,
        )
        panel.set(title=name, ylim=(0, 100), yticks=(0, 50, 100))
        panel.margins(x=0)
    np.atleast_1d(axes)[-1].set_xlabel(f"{along}; share of time in percent")
    np.atleast_1d(axes)[0].legend(ncols=3, loc="lower right", bbox_to_anchor=(1, 1))
    return figure


def _bars(table: Table) -> Figure:
    """Draw a group of stacked bars for each kernel, and a group for their mean."""
    kernels = list(dict.fromkeys(row["kernel"] for row in table))
    names = list(dict.fromkeys(row["technique"] for row in table))
    parts = [part for part in _parts(table) if any(row[part] for row in table)]
    heights = np.array(
        [
            [[100 * _row(table, kernel, name)[part] for name in names] for kernel in kernels]
            for part in parts
        ]
    )
    heights = np.concatenate([heights, heights.mean(axis=1, keepdims=True)], axis=1)
    figure, panel = plt.subplots(figsize=(7, 2.9), layout="constrained")
    width = 0.8 / len(names)
    place = np.arange(len(kernels) + 1)
    side_by_side = parts == ["t0", "t1"]
    for number in range(len(names)):
        left = place + (number - (len(names) - 1) / 2) * width
        bottom = np.zeros(len(place))
        for part, height in zip(parts, heights[:, :, number], strict=True):
            label = part.replace("_", " ") if number == 0 else None
            if side_by_side:
                left_of = left + (parts.index(part) - 0.5) * width / 2
                panel.bar(left_of, height, width / 2.2, color=COLOURS[part], label=label)
            else:
                panel.bar(left, height, width * 0.9, bottom, color=COLOURS[part], label=label)
                bottom += height
        panel.text(
            left[-1],
            -0.02,
            str(number + 1),
            transform=panel.get_xaxis_transform(),
            ha="center",
            va="top",
            fontsize=5,
        )
    panel.set_xticks(place, [SHORT_NAMES[kernel] for kernel in kernels] + ["mean"])
    panel.tick_params(axis="x", length=0, pad=8)
    panel.set_ylabel("percent")
    key = ";  ".join(f"{number + 1}: {name}" for number, name in enumerate(names))
    panel.set_xlabel("\n".join(wrap(f"bars from left to right: {key}", 130)), fontsize=6)
    panel.legend(ncols=1, loc="upper left", bbox_to_anchor=(1, 1), fontsize=6)
    return figure


def _row(table: Table, kernel: str, name: str) -> dict[str, float]:
    return next(row for row in table if row["kernel"] == kernel and row["technique"] == name)
