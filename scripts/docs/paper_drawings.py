"""The papers' figures, drawn from their data; `reproduce.py` and `reproduce_gpus.py` write them."""

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from mitigation_by_age import ages
from paper_tables import PLOTS, Plot, Table

from mcage.aging.nbti import SECONDS_PER_YEAR as YEAR
from mcage.papers import kernel_replays, whole_gpus
from mcage.papers.whole_gpus import rows_by_name
from mcage.report.figures.canvas import GREY, WIDTHS_MM, in_style, inches, looks_of
from mcage.studies.gpu_gating.life import ROUND_SECONDS, ROUNDS, shifts_of_rounds
from mcage.studies.gpu_gating.policies import policy
from mcage.studies.gpu_heterogeneity import structures
from mcage.studies.gpu_heterogeneity.structures import READINGS, nbti_efficiency

# Where in a figure the values stand that the paper prints: marks beside what mcage computes.

Kind = Literal["value", "range", "at most", "at least", "reduction"]

BASELINE, CONVENTIONAL = "baseline", "conventional"


@dataclass(frozen=True)
class Mark:
    """A printed value in percent, at the place of the bar that it is compared with.

    Parameters
    ----------
    bars : str
        What the names of the bars begin with: a technique, or a scenario; empty if the figure
        concerns all its bars.
    kernel : str
        A kernel, `MEAN` for the mean over kernels, or `ALL` for each of them.
    part : str
        Part of the bar whose height it is; empty for the whole bar.
    low, high : float
        The printed value, or the ends of its range.
    kind : {'value', 'range', 'at most', 'at least', 'reduction'}
        How it is printed.
    """

    bars: str
    kernel: str
    part: str
    low: float
    high: float
    kind: Kind

    def is_of(self, bar: str, kernel: str) -> bool:
        """Whether it is compared with a bar, by the names of the bar and of its kernel."""
        of_kernel = self.kernel == kernel or (
            self.kernel == kernel_replays.ALL and kernel != kernel_replays.MEAN
        )
        return of_kernel and self.bars in ("", bar.split(",")[0])

    def hanging(self, top: float) -> "Mark":
        """The same for a part that reaches from its height below the top of a bar to that top."""
        return replace(self, low=top - self.high, high=top - self.low)


@dataclass(frozen=True)
class Rule:
    """How values of a metric become heights of bars.

    Parameters
    ----------
    metric : str
        Metric of `mcage.papers.kernel_replays`.
    part : str
        Part of the bar whose height it is; empty for the whole bar.
    reduces : str
        `BASELINE` if the value is a reduction against the mean bar of the baseline as mcage
        computes it, `CONVENTIONAL` if against the conventional slice, which is 100 %; empty if the
        value is a height itself.
    scale : float
        What makes the value percent.
    """

    metric: str
    part: str = ""
    reduces: str = ""
    scale: float = 1.0


RULES: dict[str, tuple[Rule, ...]] = {
    "000-fig13": (
        Rule("longest_zero_duty", "zero"),
        Rule("longest_zero_duty_reduction", "zero", BASELINE),
    ),
    "000-fig16": (Rule("longest_one_duty_reduction", "one", BASELINE),),
    "000-fig19": (
        Rule("normalised_dvth", "t0", scale=100.0),
        Rule("dvth_t0_saving", "t0", BASELINE),
        Rule("dvth_t1_saving", "t1", BASELINE),
    ),
    "000-fig20": (Rule("slowdown"),),
    "000-fig21": (Rule("energy_saving", reduces=CONVENTIONAL),),
    "002-fig02": (Rule("occupancy"),),
    "002-fig04": (Rule("regular_writes", "regular"), Rule("lds_writes", "lds")),
    "002-fig05": (Rule("slowdown"),),
    "002-fig06": (Rule("energy_saving", reduces=CONVENTIONAL),),
}
"""Rules of the figures of bars, by the names of the figures."""


def marks_of(plot: Plot, table: Table) -> list[Mark]:
    """Printed values of a figure of bars.

    Parameters
    ----------
    plot : Plot
        The figure.
    table : Table
        Its numbers, with which reductions become heights.
    """
    return [
        mark
        for rule in RULES.get(plot.name, ())
        for figure in kernel_replays.published_figures(plot.paper)
        if figure.metric == rule.metric and not math.isnan(figure.low)
        for mark in _marks(rule, figure, table)
    ]


def printed_parts(plot: Plot, parts: list[str]) -> list[float]:
    """Printed mean heights of the parts of a bar; empty if the paper does not print all of them."""
    printed = {
        figure.metric: figure.low
        for figure in kernel_replays.published_figures(plot.paper)
        if figure.kernel == kernel_replays.MEAN and figure.place == f"Fig. {plot.number}"
    }
    return [printed[part] for part in parts] if all(part in printed for part in parts) else []


def printed_bands(plot: Plot, bar: str) -> list[tuple[float, float, str]]:
    """Printed ranges of '0' of the bits of the baseline, each with what it is of."""
    of_bits = {
        "upper_bits_zero_duty": "'0' of upper bits",
        "sign_bit_zero_duty": "'0' of sign bits",
    }
    return [
        (figure.low, figure.high, f"paper: {of_bits[figure.metric]}")
        for figure in kernel_replays.published_figures(plot.paper)
        if figure.metric in of_bits
        and figure.place == f"Fig. {plot.number}"
        and figure.technique == bar
        and figure.low < figure.high
    ]


def printed_entries(plot: Plot, bar: str) -> list[int]:
    """Entries that the paper names as those of compressed registers."""
    return [
        int(entry)
        for figure in kernel_replays.published_figures(plot.paper)
        if figure.metric == "compressed_registers"
        and plot.title == f"Cell with the longest '0' of each entry, {figure.kernel}"
        and bar.split(",")[0] == "rc"
        for entry in figure.text.split(",")
    ]


def _marks(rule: Rule, figure: kernel_replays.Published, table: Table) -> Iterator[Mark]:
    low, high = rule.scale * figure.low, rule.scale * figure.high
    if rule.reduces:
        whole = 100.0 if rule.reduces == CONVENTIONAL else _mean(table, BASELINE, rule.part)
        low, high = (whole * (1 - share / 100) for share in (high, low))
    # Bars of the paper on RRCD are named after scenarios, if it has several.
    bars = figure.scenario if figure.paper == "002" else figure.technique
    kind: Kind = "value" if low == high else "range"
    if rule.reduces == BASELINE:
        kind = "reduction"
    if figure.kind == "text bound":
        kind = "at least" if figure.text.startswith(">") else "at most"
    yield Mark(bars, figure.kernel, rule.part, low, high, kind)


def _mean(table: Table, bar: str, part: str) -> float:
    heights = [100.0 * float(row[part]) for row in table if row["technique"] == bar]
    return sum(heights) / len(heights)


# Figures of the papers on whole GPUs: the numbers behind them.

GpuTable = list[dict[str, Any]]
"""Rows with the same keys: first what is drawn along the axis, then values; None where there is
none."""

PAPER_COLUMN = "paper"
"""Column of printed values."""

PLACES = {"003-tables3-4": "Tables 3 and 4", "003-by-age": "Fig. 8 at 36 ms"}
"""Places of printed values that are no single figure."""


@dataclass(frozen=True)
class GpuPlot:
    """A figure of a paper on whole GPUs.

    Parameters
    ----------
    name : str
        Name of its files, without suffix; it begins with the number of the paper.
    title, quantity : str
        Title, and what the values are, with their unit.
    table : callable
        Returns its numbers.
    lines : bool
        Whether values are drawn as lines along numbers, instead of bars side by side.
    """

    name: str
    title: str
    quantity: str
    table: Callable[[], GpuTable]
    lines: bool = False

    @property
    def paper(self) -> str:
        """Key of the paper."""
        return self.name.partition("-")[0]

    @property
    def place(self) -> str:
        """Where in the paper its printed values stand."""
        return PLACES.get(self.name) or f"Fig. {int(self.name[-2:])}"


def printed_values(metric: str, **keys: str) -> dict[str, float]:
    """Printed values by kernel or benchmark, of a metric of either paper."""
    return {
        figure.kernel: figure.low
        for paper in kernel_replays.GPU_PAPERS
        for figure in kernel_replays.published_figures(paper)
        if figure.metric == metric and all(getattr(figure, key) == keys[key] for key in keys)
    }


def mitigation_of_kernels() -> GpuTable:
    """Mitigation of each kernel by the printed number of SMs, and the three printed values."""
    printed = printed_values("mitigation")
    values = {
        name: whole_gpus.mitigation_percent(kernel.sms)
        for name, kernel in whole_gpus.kernels().items()
    }
    of_kernels = list(values.values())
    values |= {name: reduced(of_kernels) for name, reduced in whole_gpus.SUMMARIES.items()}
    return [
        {"kernel": name, "mitigation": value, PAPER_COLUMN: printed.get(name)}
        for name, value in values.items()
    ]


def shifts_of_lu() -> GpuTable:
    """Largest shift of LU after each round, and shifts of four SMs that are gated in turns."""
    active = whole_gpus.kernels()["LU"].sms
    rows = []
    for rounds in range(1, ROUNDS + 1):
        default, gated = (
            1e3 * shifts_of_rounds(policy(name), np.full(rounds, active), whole_gpus.sms())[:, 0]
            for name in ("default", "least-shift")
        )
        row = {"ms": 1e3 * rounds * ROUND_SECONDS, "default": float(default.max())}
        rows.append(row | {f"gated, SM{sm}": float(gated[sm]) for sm in (0, 4, 8, 12)})
    return rows


def mitigation_by_size() -> GpuTable:
    """Mitigation by number of active SMs, beside what Tables 3 and 4 and Fig. 9 print."""
    printed = printed_values("mitigation")
    sized = whole_gpus.kernels("chen-2014-sizes") | {"LU": whole_gpus.kernels()["LU"]}
    return [
        {
            "input": f"{name} ({kernel.sms} SMs)",
            **{
                times: whole_gpus.mitigation_percent(
                    kernel.sms, whole_gpus.time_ratio(kernel, times)
                )
                for times in whole_gpus.TIMES
            },
            PAPER_COLUMN: printed[name],
        }
        for name, kernel in sorted(sized.items(), key=lambda item: item[1].sms)
    ]


def mitigation_over_ages() -> GpuTable:
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


def _of_benchmarks(columns: dict[str, str]) -> Callable[[], GpuTable]:
    """Table of the benchmarks with columns of `rows_by_name` under new names."""

    def table() -> GpuTable:
        return [
            {"benchmark": name} | {new: row[column] for new, column in columns.items()}
            for name, row in rows_by_name().items()
        ]

    return table


def projected_ipc() -> GpuTable:
    """Projected IPC of the two benchmarks of which latencies are printed."""
    return [
        {"benchmark": name, "projected IPC": row["projected_IPC"]}
        for name, row in rows_by_name().items()
        if row["projected_IPC"] is not None
    ]


def duplicated_l2_delay() -> float:
    """Delay increase of an L2 that takes turns with a copy; the baseline has the printed mean."""
    gpu = structures.HeterogeneousGpu(
        structures.parts(),
        structures.Conditions(),
        structures.TwoStage(),
        structures.SequentialL2(),
        scheduler_delay=structures.MEAN_BASELINE_DELAY,
        l2_delay=structures.MEAN_L2_BASELINE_DELAY,
    )
    return float(gpu.delays(structures.DUPLICATION, filter_rate=0.0, miss_rate=0.0).l2)


def efficiency_of_aging() -> GpuTable:
    """NBTI efficiency at equal time and power, by the printed mean delays of the L2."""
    delays = printed_values("delay_increase", scenario="L2", technique="two-stage+planar-tags")
    baseline = printed_values("delay_increase", scenario="L2", technique="baseline")["mean"]
    copies = 100 * duplicated_l2_delay()
    rows = []
    for design, delay in (("two-stage+planar-tags", delays["mean"]), ("duplication", copies)):
        aging = nbti_efficiency(1, delay / 100, 1) / nbti_efficiency(1, baseline / 100, 1)
        printed = printed_values("nbti_efficiency", technique=design)["mean"]
        rows.append(
            {"design": design, "at equal time and power": 100 * float(aging), PAPER_COLUMN: printed}
        )
    return rows


_READINGS = {"baseline": "baseline_pct"} | {reading: f"{reading}_pct" for reading in READINGS}

MITIGATION = "mitigation of\nthe largest shift [%]"

GPU_PLOTS = (
    GpuPlot(
        "003-fig08",
        "Mitigation of the largest shift, 36 ms, bhardwaj",
        MITIGATION,
        mitigation_of_kernels,
    ),
    GpuPlot("003-fig09", "Shifts of LU, bhardwaj", "threshold shift of an SM [mV]", shifts_of_lu),
    GpuPlot(
        "003-tables3-4",
        "Mitigation by problem size, 36 ms, bhardwaj",
        MITIGATION,
        mitigation_by_size,
    ),
    GpuPlot(
        "003-by-age",
        "Mean mitigation of the fourteen kernels by age and NBTI model",
        MITIGATION,
        mitigation_over_ages,
        lines=True,
    ),
    GpuPlot(
        "004-fig07",
        "Delay increase of the scheduler after 7 years",
        "increase over the\ndelay when new [%]",
        _of_benchmarks(_READINGS | {PAPER_COLUMN: "printed_pct"}),
    ),
    GpuPlot(
        "004-fig08",
        "Temperature drop of the scheduler",
        "drop [K]",
        _of_benchmarks({"drop": "drop_K", PAPER_COLUMN: "printed_drop_K"}),
    ),
    GpuPlot(
        "004-fig10",
        "IPC with the two-stage scheduler, projected",
        "IPC [fraction\nof the baseline's]",
        projected_ipc,
    ),
    GpuPlot(
        "004-fig11",
        "Delay increase of the L2 data array after 7 years",
        "increase over the\ndelay when new [%]",
        _of_benchmarks({"read after the tags": "l2_pct", PAPER_COLUMN: "printed_l2_pct"}),
    ),
    GpuPlot(
        "004-fig16",
        "NBTI efficiency (less is better)",
        "efficiency\n[% of the baseline's]",
        efficiency_of_aging,
    ),
)
"""All figures, by paper."""


matplotlib.use("Agg")


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
    "memory": ("#000000", "...."),
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
    "memory": "to memory",
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
        Key of `mcage.papers.kernel_replays.PAPERS`.

    """
    for plot in PLOTS:
        if paper in (None, plot.paper):
            table = table_of(plot)
            (folder / f"{plot.name}.csv").write_text(as_csv(table), encoding="utf-8")
            write_png(draw(plot, table), folder / f"{plot.name}.png")


@in_style
def write_png(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, and forget it."""
    figure.savefig(path, dpi=DOTS_PER_INCH, format="png", metadata={"Software": None})
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
        f"{plot.title} ({kernel_replays.PAPERS[plot.paper].split(',')[0]}, Fig. {plot.number})",
        x=0.01,
        ha="left",
    )
    figure.supylabel(plot.quantity, fontsize="medium")
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
    groups = [*kernels, kernel_replays.MEAN]
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
    labels = [*kernels, kernel_replays.MEAN, *(["mean, paper"] if printed else [])]
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


# The figures of the papers on whole GPUs, drawn with the printed values beside mcage's.

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
    return [plot for plot in GPU_PLOTS if paper in (None, plot.paper)]


def write_plots(folder: Path, paper: str | None = None) -> None:
    """Write the figures of a paper, or of both, as CSV and PNG into an existing folder."""
    for plot in plots_of(paper):
        table = plot.table()
        text = as_csv(_rounded(table))
        (folder / f"{plot.name}.csv").write_text(text, encoding="utf-8")
        write_png(draw_gpu_figure(plot, table), folder / f"{plot.name}.png")


def _rounded(table: GpuTable) -> GpuTable:
    """Six digits: more than a figure shows."""
    return [
        {
            key: float(f"{value:.6g}") if isinstance(value, float) else value
            for key, value in row.items()
        }
        for row in table
    ]


@in_style
def draw_gpu_figure(plot: GpuPlot, table: GpuTable) -> Figure:
    """Draw a figure; printed values are black diamonds."""
    size = (inches(WIDTHS_MM[1]), inches(HEIGHT_MM))
    figure = plt.figure(figsize=size, layout="constrained")
    if plot.table is shifts_of_lu:
        axes = _draw_rounds(figure, table)
    else:
        axes = figure.add_subplot()
        (_draw_lines if plot.lines else _draw_gpu_bars)(axes, table)
    axes.set_ylabel(plot.quantity)
    paper = kernel_replays.GPU_PAPERS[plot.paper].split(",")[0]
    figure.suptitle(f"{plot.title} ({paper}, {plot.place})", x=0.01, ha="left")
    handles = {
        label: handle
        for panel in figure.axes
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=MOST_COLUMNS)
    return figure


def _draw_gpu_bars(axes: Axes, table: GpuTable) -> None:
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


def _draw_lines(axes: Axes, table: GpuTable) -> None:
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


def _draw_rounds(figure: Figure, table: GpuTable) -> Axes:
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


def _column(table: GpuTable, name: str) -> list[float]:
    return [np.nan if row[name] is None else row[name] for row in table]
