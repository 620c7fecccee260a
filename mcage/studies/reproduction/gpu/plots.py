"""Figures of the papers on whole GPUs: the numbers behind them, and how they are drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mcage.files.atomic import make_ready, whole_file
from mcage.files.kinds import CSV, PNG
from mcage.gpu.gating.policies import policy
from mcage.gpu.gating.rounds import ROUND_SECONDS, ROUNDS
from mcage.gpu.heterogeneity.designs import nbti_efficiency
from mcage.studies.reproduction.figures import STYLE, as_csv
from mcage.studies.reproduction.gpu import chen_2014, zhang_2015
from mcage.studies.reproduction.gpu.by_age import mitigation_by_age
from mcage.studies.reproduction.gpu.zhang_2015 import rows_by_name
from mcage.studies.reproduction.published import GPU_PAPERS, published_figures

Table = list[dict[str, Any]]
"""Rows with the same keys: first what is drawn along the axis, then values; None where there is
none."""

PAPER_COLUMN = "paper"
"""Column of printed values."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9")
"""Okabe and Ito's, which the colour-blind tell apart."""


@dataclass(frozen=True)
class GpuPlot:
    """A figure of a paper on whole GPUs.

    Parameters
    ----------
    name : str
        Name of its files, without suffix; it begins with the number of the paper.
    title, unit : str
        Title, and what the values are.
    table : callable
        Returns its numbers.
    lines : bool
        Whether values are drawn as lines along numbers, instead of bars side by side.
    """

    name: str
    title: str
    unit: str
    table: Callable[[], Table]
    lines: bool = False

    @property
    def paper(self) -> str:
        """Key of the paper."""
        return self.name.partition("-")[0]


def _printed(metric: str, **keys: str) -> dict[str, float]:
    """Printed values by kernel or benchmark, of a metric of either paper."""
    return {
        figure.kernel: figure.low
        for paper in GPU_PAPERS
        for figure in published_figures(paper)
        if figure.metric == metric and all(getattr(figure, key) == keys[key] for key in keys)
    }


def mitigation_of_kernels() -> Table:
    """Mitigation of each kernel by the printed number of SMs, and the three printed values."""
    printed = _printed("mitigation")
    values = {
        name: chen_2014.mitigation_percent(kernel.sms)
        for name, kernel in chen_2014.kernels().items()
    }
    of_kernels = list(values.values())
    values |= {name: reduced(of_kernels) for name, reduced in chen_2014.SUMMARIES.items()}
    return [
        {"kernel": name, "mitigation": value, PAPER_COLUMN: printed.get(name)}
        for name, value in values.items()
    ]


def shifts_of_lu() -> Table:
    """Largest shift of LU after each round, and shifts of four SMs that are gated in turns."""
    active = chen_2014.kernels()["LU"].sms
    rows = []
    for rounds in range(1, ROUNDS + 1):
        default, gated = (
            1e3 * chen_2014.history(active, rounds).dvth_volts(policy(name))[:, 0]
            for name in ("default", "least-shift")
        )
        row = {"ms": 1e3 * rounds * ROUND_SECONDS, "default": float(default.max())}
        rows.append(row | {f"gated, SM{sm}": float(gated[sm]) for sm in (0, 4, 8, 12)})
    return rows


def mitigation_by_size() -> Table:
    """Mitigation by number of active SMs, beside what Tables 3 and 4 and Fig. 9 print."""
    printed = _printed("mitigation")
    sized = chen_2014.kernels("chen-2014-sizes") | {"LU": chen_2014.kernels()["LU"]}
    return [
        {
            "input": f"{name} ({kernel.sms} SMs)",
            **{
                times: chen_2014.mitigation_percent(kernel.sms, chen_2014.time_ratio(kernel, times))
                for times in chen_2014.TIMES
            },
            PAPER_COLUMN: printed[name],
        }
        for name, kernel in sorted(sized.items(), key=lambda item: item[1].sms)
    ]


@cache
def ages() -> tuple[dict[str, Any], ...]:
    """Rows of `mitigation_by_age`, computed once."""
    return tuple(mitigation_by_age())


def mitigation_over_ages() -> Table:
    """Mean mitigation of the fourteen kernels by age, a column for each model."""
    models = list(dict.fromkeys(row["model"] for row in ages()))
    by_place = {(row["model"], row["age"]): row for row in ages()}
    return [
        {
            "seconds": row["seconds"],
            **{
                model: by_place[model, row["age"]]["mean"]
                if (model, row["age"]) in by_place
                else None
                for model in models
            },
        }
        for row in ages()
        if row["model"] == models[-1]
    ]


def _of_benchmarks(columns: dict[str, str]) -> Callable[[], Table]:
    """Table of the benchmarks with columns of `benchmark_rows` under new names."""

    def table() -> Table:
        return [
            {"benchmark": name} | {new: row[column] for new, column in columns.items()}
            for name, row in rows_by_name().items()
        ]

    return table


def projected_ipc() -> Table:
    """Projected IPC of the two benchmarks of which latencies are printed."""
    return [
        {"benchmark": name, "projected IPC": row["projected_IPC"]}
        for name, row in rows_by_name().items()
        if row["projected_IPC"] is not None
    ]


def efficiency_of_aging() -> Table:
    """NBTI efficiency at equal time and power, by the printed mean delays of the L2."""
    delays = _printed("delay_increase", scenario="L2", technique="two-stage+planar-tags")
    baseline = _printed("delay_increase", scenario="L2", technique="baseline")["mean"]
    copies = 100 * zhang_2015.duplicated_l2_delay()
    rows = []
    for design, delay in (("two-stage+planar-tags", delays["mean"]), ("duplication", copies)):
        aging = nbti_efficiency(1, delay / 100, 1) / nbti_efficiency(1, baseline / 100, 1)
        printed = _printed("nbti_efficiency", technique=design)["mean"]
        rows.append(
            {"design": design, "at equal time and power": 100 * float(aging), PAPER_COLUMN: printed}
        )
    return rows


_READINGS = {"baseline": "baseline_pct"} | {
    reading: f"{reading}_pct" for reading in zhang_2015.READINGS
}

PLOTS = (
    GpuPlot(
        "003-fig08",
        "Mitigation of the largest shift, 36 ms, bhardwaj",
        "%",
        mitigation_of_kernels,
    ),
    GpuPlot("003-fig09", "Shifts of LU, bhardwaj", "mV", shifts_of_lu, lines=True),
    GpuPlot(
        "003-tables3-4",
        "Mitigation by problem size, 36 ms, bhardwaj",
        "%",
        mitigation_by_size,
    ),
    GpuPlot(
        "003-by-age",
        "Mean mitigation of the fourteen kernels by age and NBTI model",
        "%",
        mitigation_over_ages,
        lines=True,
    ),
    GpuPlot(
        "004-fig07",
        "Delay increase of the scheduler after 7 years",
        "%",
        _of_benchmarks(_READINGS | {PAPER_COLUMN: "printed_pct"}),
    ),
    GpuPlot(
        "004-fig08",
        "Temperature drop of the scheduler",
        "K",
        _of_benchmarks({"drop": "drop_K", PAPER_COLUMN: "printed_drop_K"}),
    ),
    GpuPlot("004-fig10", "IPC with the two-stage scheduler, projected", "1", projected_ipc),
    GpuPlot(
        "004-fig11",
        "Delay increase of the L2 data array after 7 years",
        "%",
        _of_benchmarks({"read after the tags": "l2_pct", PAPER_COLUMN: "printed_l2_pct"}),
    ),
    GpuPlot(
        "004-fig16",
        "NBTI efficiency relative to the baseline",
        "%",
        efficiency_of_aging,
    ),
)
"""All figures, by paper."""


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
        with whole_file(folder / f"{plot.name}.png", PNG) as stream, plt.rc_context(STYLE):
            figure = draw(plot, table)
            figure.savefig(stream, dpi=130, format="png", metadata={"Software": None})
            plt.close(figure)


def _rounded(table: Table) -> Table:
    """Six digits: more than a figure shows."""
    return [
        {
            key: float(f"{value:.6g}") if isinstance(value, float) else value
            for key, value in row.items()
        }
        for row in table
    ]


def draw(plot: GpuPlot, table: Table) -> Figure:
    """Draw a figure; printed values are black diamonds."""
    figure, axes = plt.subplots(figsize=(7, 2.7), layout="constrained")
    axis, *series = table[0]
    (_draw_lines if plot.lines else _draw_bars)(axes, table, series)
    axes.set_xlabel(axis if plot.lines else "")
    axes.set_ylabel(plot.unit)
    axes.set_title(f"{plot.title} ({GPU_PAPERS[plot.paper].split(',')[0]})")
    if len(series) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=6)
    return figure


def _draw_bars(axes: Axes, table: Table, series: list[str]) -> None:
    places = np.arange(len(table))
    bars = [name for name in series if name != PAPER_COLUMN]
    width = 0.8 / len(bars)
    for number, name in enumerate(bars):
        left = places + (number - (len(bars) - 1) / 2) * width
        axes.bar(left, _column(table, name), 0.9 * width, color=COLOURS[number], label=name)
    if PAPER_COLUMN in series:
        printed = _column(table, PAPER_COLUMN)
        axes.plot(places, printed, "D", color="black", markersize=4, label=PAPER_COLUMN)
    labels = [next(iter(row.values())) for row in table]
    axes.set_xticks(places, labels, rotation=25, ha="right", rotation_mode="anchor")


def _draw_lines(axes: Axes, table: Table, series: list[str]) -> None:
    along = np.array([next(iter(row.values())) for row in table])
    for number, name in enumerate(series):
        marker = "." if len(along) < 15 else ""
        axes.plot(along, _column(table, name), marker=marker, color=COLOURS[number], label=name)
    if along[-1] > 1e4 * along[0]:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(bottom=0)


def _column(table: Table, name: str) -> list[float]:
    return [np.nan if row[name] is None else row[name] for row in table]
