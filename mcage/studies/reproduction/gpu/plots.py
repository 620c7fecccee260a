"""Figures of the papers on whole GPUs: the numbers behind them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from mcage.gpu.gating.policies import policy
from mcage.gpu.gating.rounds import ROUND_SECONDS, ROUNDS
from mcage.gpu.heterogeneity.designs import nbti_efficiency
from mcage.studies.reproduction.gpu import chen_2014, zhang_2015
from mcage.studies.reproduction.gpu.by_age import mitigation_by_age
from mcage.studies.reproduction.gpu.zhang_2015 import rows_by_name
from mcage.studies.reproduction.published import GPU_PAPERS, published_figures

Table = list[dict[str, Any]]
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
    table: Callable[[], Table]
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
        for paper in GPU_PAPERS
        for figure in published_figures(paper)
        if figure.metric == metric and all(getattr(figure, key) == keys[key] for key in keys)
    }


def mitigation_of_kernels() -> Table:
    """Mitigation of each kernel by the printed number of SMs, and the three printed values."""
    printed = printed_values("mitigation")
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
    printed = printed_values("mitigation")
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
    delays = printed_values("delay_increase", scenario="L2", technique="two-stage+planar-tags")
    baseline = printed_values("delay_increase", scenario="L2", technique="baseline")["mean"]
    copies = 100 * zhang_2015.duplicated_l2_delay()
    rows = []
    for design, delay in (("two-stage+planar-tags", delays["mean"]), ("duplication", copies)):
        aging = nbti_efficiency(1, delay / 100, 1) / nbti_efficiency(1, baseline / 100, 1)
        printed = printed_values("nbti_efficiency", technique=design)["mean"]
        rows.append(
            {"design": design, "at equal time and power": 100 * float(aging), PAPER_COLUMN: printed}
        )
    return rows


_READINGS = {"baseline": "baseline_pct"} | {
    reading: f"{reading}_pct" for reading in zhang_2015.READINGS
}

MITIGATION = "mitigation of\nthe largest shift [%]"

PLOTS = (
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
