"""The table of a comparison: a line for each quantity of two cases, and what one gains."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mcage.report.comparison import Comparison
from mcage.report.tables.table import (
    Cell,
    Column,
    ResultTable,
    estimates,
    file_column,
    names,
    numbers,
)
from mcage.stats.estimates import CONFIDENCE, Estimate
from mcage.stats.paired import ApartMeans, Outliving, PairedMeans
from mcage.stats.wording import DASH, plus_minus, with_bounds

NOTE = "dVth, spill rate, energy: on dies that worked at all under A and B"
"""What must be known of the quantities of sweeps."""

NOTE_ON_STUDIES = "lives are counted up to the horizon"
"""What must be known of the quantities of other studies."""

QUANTITIES = {
    "life_to_horizon_years": ("RMST up to the horizon [years]", 1.0),
    "max_dvth_t0_mv": ("dVth T0 at the end of life [mV]", 1.0),
    "max_dvth_t1_mv": ("dVth T1 at the end of life [mV]", 1.0),
    "max_dvth_t0_mv_at_equal_age": ("dVth T0 at equal age [mV]", 1.0),
    "max_dvth_t1_mv_at_equal_age": ("dVth T1 at equal age [mV]", 1.0),
    "spill_rate": ("spill rate [%]", 100.0),
    "energy_saving_nominal": ("energy saving vs. the technology's nominal Vdd [%]", 100.0),
}
"""Quantities of sweeps: name for people, and what makes a value that of the name's unit."""


@dataclass(frozen=True)
class Line:
    """A quantity under two cases.

    Parameters
    ----------
    key, name : str
        Its name for programs and for people, with the unit.
    scale : float
        What makes a value that of the name's unit, such as 100 for percent of a fraction.
    means : PairedMeans or ApartMeans
        Its means.
    """

    key: str
    name: str
    scale: float
    means: PairedMeans | ApartMeans


@dataclass(frozen=True)
class Pair:
    """Two cases as lines of a table.

    Parameters
    ----------
    case : str
        What both are called; empty if the title says it.
    lines : sequence of Line
        Their quantities.
    outliving : Outliving, optional
        How often each outlives the other, where they have the same dies.
    file : Path, optional
        File of the second, where several files are compared with the first.
    """

    case: str
    lines: Sequence[Line]
    outliving: Outliving | None = None
    file: Path | None = None


def lines_of(comparison: Comparison) -> list[Line]:
    """Quantities of two cases of sweeps."""
    ends, aged = comparison.max_dvth_mv, comparison.max_dvth_mv_at_equal_age
    means = {
        "life_to_horizon_years": comparison.life_to_horizon_years,
        **{f"max_dvth_{name.lower()}_mv": of for name, of in ends.items()},
        **{f"max_dvth_{name.lower()}_mv_at_equal_age": of for name, of in aged.items()},
        "spill_rate": comparison.spill_rate,
        "energy_saving_nominal": comparison.energy_saving_nominal,
    }
    return [Line(key, *QUANTITIES[key], of) for key, of in means.items()]


def table_of(comparison: Comparison) -> ResultTable:
    """Table of two cases of sweeps: a line for each quantity, and how often each outlives."""
    return pairs_table(
        f"A: {comparison.first}\nB: {comparison.second}\n"
        + "".join(f"  differs: {difference}\n" for difference in comparison.differences)
        + f"{comparison.instances} instances, horizon {comparison.horizon_years:g} years",
        [Pair("", lines_of(comparison), comparison.outliving)],
        NOTE,
    )


def pairs_table(title: str, pairs: Sequence[Pair], note: str = "") -> ResultTable:
    """Table with a line for each quantity of some pairs of cases.

    Parameters
    ----------
    title : str
        What A and B are.
    pairs : sequence of Pair
        Pairs that have a line at least.
    note : str
        What must be known of the quantities.
    """
    lines = [(pair, line) for pair in pairs for line in pair.lines]
    caption = f"{CONFIDENCE:.0%} intervals"
    if any(isinstance(line.means, PairedMeans) for _, line in lines):
        caption += (
            ", die by die; common dies: as many times more dies would be needed if A and B had "
            "dies of their own"
        )
    of_lives = [pair for pair in pairs if pair.outliving is not None]
    return ResultTable(
        title=title,
        caption=f"{caption}; {note}" if note else caption,
        columns=(
            *_columns_of([pair for pair, _ in lines]),
            Column(
                "quantity",
                "mean over instances",
                tuple(Cell(line.name, line.key) for _, line in lines),
                primary=True,
                justify="left",
            ),
            Column("dies", "instances", tuple(_dies(line.means) for _, line in lines)),
            *(
                _column(key, heading, [line for _, line in lines], plus_minus)
                for key, heading in (("a", "A"), ("b", "B"), ("difference", "A - B"))
            ),
            _column("ratio", "A / B", [line for _, line in lines], with_bounds),
            Column(
                "variance_reduction",
                "common\ndies",
                tuple(_gain(line.means) for _, line in lines),
            ),
        ),
        below=(_lives_table(of_lives),) if of_lives else (),
    )


def _columns_of(pairs: Sequence[Pair]) -> tuple[Column, ...]:
    """Columns that say which pair a line is of, if there are several pairs."""
    files = [pair.file for pair in pairs if pair.file is not None]
    labels = [pair.case for pair in pairs]
    return (
        *(file_column(files) if len(set(files)) > 1 else ()),
        *((names("case", "case", labels, groups=True),) if any(labels) else ()),
    )


def _column(
    key: str, heading: str, lines: Sequence[Line], write: Callable[[Estimate, float], str]
) -> Column:
    """Column of estimates, each in the unit of its line."""
    attribute = {"a": "first", "b": "second"}.get(key, key)
    cells = []
    for line in lines:
        estimate: Estimate = getattr(line.means, attribute)
        scale = 1.0 if key == "ratio" else line.scale
        cells.append(Cell(write(estimate, scale), *vars(estimate).values()))
    return Column(key, heading, tuple(cells), primary=key != "ratio")


def _dies(means: PairedMeans | ApartMeans) -> Cell:
    if isinstance(means, PairedMeans):
        return Cell(str(means.dies), means.dies)
    text = f"{means.first_dies} and {means.second_dies}"
    return Cell(text, text)


def _gain(means: PairedMeans | ApartMeans) -> Cell:
    if isinstance(means, ApartMeans) or np.isnan(means.variance_reduction):
        return Cell(DASH, None)
    return Cell(f"× {means.variance_reduction:.3g}", means.variance_reduction)


def _lives_table(pairs: Sequence[Pair]) -> ResultTable:
    """Table of how often each case outlives the other."""
    lives = [pair.outliving for pair in pairs if pair.outliving is not None]

    def shares(name: str, heading: str, *, primary: bool = False) -> Column:
        values = [getattr(of, name) for of in lives]
        return estimates(name, heading, values, lambda of: with_bounds(of, 100.0), primary=primary)

    return ResultTable(
        title="Share of the instances",
        caption="p: sign test of the instances of which one lives longer; small if A and B can "
        "hardly be equally good",
        columns=(
            *_columns_of(pairs),
            shares("first", "A lives\nlonger [%]", primary=True),
            shares("second", "B lives\nlonger [%]", primary=True),
            shares("together", "dead at the\nsame age [%]"),
            shares("unknown", "both reach the\nhorizon [%]"),
            shares("first_of_decided", "A, where one\nlives longer [%]"),
            numbers("p_value", "p", [of.p_value for of in lives], "{:.2g}".format, primary=True),
        ),
    )
