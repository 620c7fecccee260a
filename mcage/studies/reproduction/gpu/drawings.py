"""The figures of the papers on whole GPUs, drawn with the printed values beside mcage's."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mcage.aging.nbti import SECONDS_PER_YEAR as YEAR
from mcage.files.atomic import CSV, PNG, make_ready, whole_file
from mcage.report.figures.style import WIDTHS_MM, in_style, inches, looks_of
from mcage.studies.reproduction.figures import as_csv, write_png
from mcage.studies.reproduction.gpu.plots import (
    PAPER_COLUMN,
    PLOTS,
    GpuPlot,
    Table,
    printed_values,
    shifts_of_lu,
)
from mcage.studies.reproduction.published import GPU_PAPERS

PRINTED_LABEL = "printed by the paper"

FILLS = (("#0072B2", ""), ("#F0A070", "////"), ("#CCCCCC", "...."), ("#009E73", "xxxx"))
"""Colour and hatch of bars: the colours differ in lightness, too."""

HEIGHT_MM = 72.0

MOST_COLUMNS = 4
"""Of a legend."""

PRINTED_LOOK: dict[str, Any] = {
    "color": "black",
    "markeredgecolor": "white",
    "markeredgewidth": 0.7,
    "markersize": 6,
}
"""Look of printed values."""

AGES = {0.036: "36 ms", 1.0: "1 s", 60.0: "1 min", 3600.0: "1 hour", 86_400.0: "1 day"} | {
    YEAR / 12: "1 month",
    YEAR: "1 year",
    10 * YEAR: "10 years",
}
"""Ages, in seconds, that have a tick."""

ZOOM_MS = 5.0
"""Time of Fig. 9 that is drawn once more, in which single rounds are seen."""


def plots_of(paper: str | None) -> list[GpuPlot]:
    """Figures of a paper on whole GPUs, or of both."""
    return [plot for plot in PLOTS if paper in (None, plot.paper)]


def check_plots(folder: Path, paper: str | None = None) -> None:
    """Refuse a folder into which `write_plots` could not write.

    Raises
    ------
    UserError
        A file of another kind has the name of a figure or of its table, or nothing can be written
        there.
    """
    for plot in plots_of(paper):
        make_ready(folder / f"{plot.name}.csv", CSV)
        make_ready(folder / f"{plot.name}.png", PNG)


def write_plots(folder: Path, paper: str | None = None) -> None:
    """Write the figures of a paper, or of both, as CSV and PNG into an existing folder.

    Raises
    ------
    UserError
        A file cannot be written.
    """
    for plot in plots_of(paper):
        table = plot.table()
        with whole_file(folder / f"{plot.name}.csv", CSV) as stream:
            stream.write(as_csv(_rounded(table)).encode())
        write_png(draw(plot, table), folder / f"{plot.name}.png")


def _rounded(table: Table) -> Table:
    """Six digits: more than a figure shows."""
    return [
        {
            key: float(f"{value:.6g}") if isinstance(value, float) else value
            for key, value in row.items()
        }
        for row in table
    ]


@in_style
def draw(plot: GpuPlot, table: Table) -> Figure:
    """Draw a figure; printed values are black diamonds."""
    size = (inches(WIDTHS_MM[1]), inches(HEIGHT_MM))
    figure = plt.figure(figsize=size, layout="constrained")
    if plot.table is shifts_of_lu:
        axes = _draw_rounds(figure, table)
    else:
        axes = figure.add_subplot()
        (_draw_lines if plot.lines else _draw_bars)(axes, table)
    axes.set_ylabel(plot.quantity)
    paper = GPU_PAPERS[plot.paper].split(",")[0]
    figure.suptitle(f"{plot.title} ({paper}, {plot.place})", x=0.01, ha="left")
    handles = {
        label: handle
        for panel in figure.axes
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=MOST_COLUMNS)
    return figure


def _draw_bars(axes: Axes, table: Table) -> None:
    _, *series = table[0]
    places = np.arange(len(table))
    bars = [name for name in series if name != PAPER_COLUMN]
    width = 0.8 / len(bars)
    for number, name in enumerate(bars):
        left = places + (number - (len(bars) - 1) / 2) * width
        colour, hatch = FILLS[number]
        axes.bar(
            left,
            _column(table, name),
            0.9 * width,
            facecolor=colour,
            hatch=hatch,
            edgecolor="#555555",
            linewidth=0.3,
            label=f"mcage: {name}",
        )
    if PAPER_COLUMN in series:
        # Of a mitigation; what it is compared with has a bar, but no printed values.
        middle = places + (width / 2 if "baseline" in bars else 0)
        axes.plot(middle, _column(table, PAPER_COLUMN), "D", label=PRINTED_LABEL, **PRINTED_LOOK)
    labels = [next(iter(row.values())) for row in table]
    axes.set_xticks(range(len(table)), labels, rotation=25, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.7, len(table) - 0.3)


def _draw_lines(axes: Axes, table: Table) -> None:
    """Draw mitigation by age, with what the paper prints for its only age."""
    _, *series = table[0]
    seconds = np.array([next(iter(row.values())) for row in table])
    for name, look in looks_of(series).items():
        axes.plot(
            seconds,
            _column(table, name),
            color=look.colour,
            linestyle=look.linestyle,
            marker=look.marker,
            markerfacecolor="white",
            label=f"mcage: {name}",
        )
    (printed,) = (
        value for kernel, value in printed_values("mitigation").items() if kernel == "mean"
    )
    axes.plot(seconds[0], printed, "D", label=PRINTED_LABEL, zorder=5, **PRINTED_LOOK)
    axes.set_xscale("log")
    axes.set_xticks(list(AGES), list(AGES.values()))
    axes.set(xlabel="age", ylim=(0, 105))


def _draw_rounds(figure: Figure, table: Table) -> Axes:
    """Draw the shifts of LU: the whole time, and its beginning with single SMs."""
    whole: Axes
    zoomed: Axes
    whole, zoomed = figure.subplots(1, 2, sharey=True)
    times = np.array(_column(table, "ms"))
    gated = [name for name in table[0] if name.startswith("gated")]
    shifts = np.array([_column(table, name) for name in gated])
    band = (shifts.min(axis=0), shifts.max(axis=0))
    label = "mcage: gated, all four SMs"
    whole.fill_between(times, *band, color="#BBBBBB", linewidth=0, label=label)
    for axes in (whole, zoomed):
        axes.plot(times, _column(table, "default"), color="black", label="mcage: default")
    for name, look in looks_of(gated).items():
        zoomed.plot(
            times,
            _column(table, name),
            color=look.colour,
            linestyle=look.linestyle,
            marker=look.marker,
            markevery=2,
            label=f"mcage: {name}",
        )
    for policy_name in ("default", "least-shift"):
        printed = printed_values("largest_dvth", technique=policy_name)["LU"]
        whole.plot(times[-1], printed, "D", label=PRINTED_LABEL, clip_on=False, **PRINTED_LOOK)
    whole.set(xlabel="time [ms]", title="36 ms", ylim=(0, None), xlim=(0, times[-1]))
    zoomed.set(xlabel="time [ms]", title=f"the first {ZOOM_MS:g} ms", xlim=(0, ZOOM_MS))
    return whole


def _column(table: Table, name: str) -> list[float]:
    return [np.nan if row[name] is None else row[name] for row in table]
