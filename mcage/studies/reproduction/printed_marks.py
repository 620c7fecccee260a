"""Where in a figure the values stand that the paper prints: marks beside what mcage computes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from mcage.studies.reproduction.figure_data import Plot, Table
from mcage.studies.reproduction.published import ALL, MEAN, Published, published_figures

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
        of_kernel = self.kernel == kernel or (self.kernel == ALL and kernel != MEAN)
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
        Metric of `mcage.studies.reproduction.published`.
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
        for figure in published_figures(plot.paper)
        if figure.metric == rule.metric and not math.isnan(figure.low)
        for mark in _marks(rule, figure, table)
    ]


def printed_parts(plot: Plot, parts: list[str]) -> list[float]:
    """Printed mean heights of the parts of a bar; empty if the paper does not print all of them."""
    printed = {
        figure.metric: figure.low
        for figure in published_figures(plot.paper)
        if figure.kernel == MEAN and figure.place == f"Fig. {plot.number}"
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
        for figure in published_figures(plot.paper)
        if figure.metric in of_bits
        and figure.place == f"Fig. {plot.number}"
        and figure.technique == bar
        and figure.low < figure.high
    ]


def printed_entries(plot: Plot, bar: str) -> list[int]:
    """Entries that the paper names as those of compressed registers."""
    return [
        int(entry)
        for figure in published_figures(plot.paper)
        if figure.metric == "compressed_registers"
        and plot.title == f"Cell with the longest '0' of each entry, {figure.kernel}"
        and bar.split(",")[0] == "rc"
        for entry in figure.text.split(",")
    ]


def _marks(rule: Rule, figure: Published, table: Table) -> Iterator[Mark]:
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
