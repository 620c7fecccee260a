"""Threshold shifts of cells and slices."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes

from mcage.aging.nbti import nbti_model
from mcage.lifetime import DVTH_BIN_EDGES_MV, TRANSISTORS
from mcage.plain_text import visible
from mcage.plugins import is_plugin
from mcage.report.cases import Named, Setting, by_setting, identities
from mcage.report.figures import canvas
from mcage.report.figures.curves import CurveFigure
from mcage.spec.sections import aging_of
from mcage.stats.estimates import Bools, Floats

VARIABLES = ("life_years", "max_dvth_mv", "epoch_max_dvth_mv", "dvth_histogram")

QUANTILES = (0.05, 0.5, 0.95)

AGES = 120
"""Ages, the denser the earlier, at which quantiles are computed besides the ends of epochs."""

ROW_MM = 8.5

AGE_BANDS = ", and 5 to 95 % of the slices"
AGE_TITLE = f"Threshold shift of the worst cell against age, medians{AGE_BANDS}"
AGE_LABEL = "age (years)"
WORST_LABEL = "shift of the worst cell (mV)"


@dataclass(frozen=True)
class Shifts:
    """Threshold shifts of a case.

    Parameters
    ----------
    of_cells : ndarray of float [transistor, bin]
        Sampled cells by shift, % of those of the transistor; NaN if no slice worked.
    of_slices : ndarray of float [bin]
        Slices by the shift of their worst cell, % of those that worked; NaN if none worked.
    median_mv : float
        Median of the shift of a slice's worst cell; NaN if none worked.
    ends : ndarray of float [epoch]
        Ends of the epochs, years.
    living : ndarray of int [epoch]
        How many slices live until the end of each.
    ages : ndarray of float [age]
        Ages from 0 to the horizon, or to the last death, years.
    by_age : ndarray of float [quantile, age]
        Quantiles of the shift of the worst cell, mV, among the slices that live until that age.
    known : ndarray of bool [age]
        Where the file has the shifts: at 0, at the ends of epochs and at the last death.
    growth : str
        How shifts grow between these, in a sentence.
    """

    of_cells: Floats
    of_slices: Floats
    median_mv: float
    ends: Floats
    living: npt.NDArray[np.int64]
    ages: Floats
    by_age: Floats
    known: Bools
    growth: str

    @property
    def worked(self) -> bool:
        """Whether any slice worked."""
        return not np.isnan(self.median_mv)


def numbers_of(case: xr.Dataset) -> Shifts:
    """Numbers that the figures show of a case of a results file."""
    worst = case["max_dvth_mv"].max("transistor").values
    worst = worst[~np.isnan(worst)]
    cells = case["dvth_histogram"].transpose("transistor", "dvth_bin").values
    counts, _ = np.histogram(np.minimum(worst, DVTH_BIN_EDGES_MV[-1]), DVTH_BIN_EDGES_MV)
    with np.errstate(invalid="ignore"):
        return Shifts(
            of_cells=100 * cells / cells.sum(axis=1, keepdims=True),
            of_slices=100 * counts / counts.sum(),
            median_mv=float(np.median(worst)) if worst.size else np.nan,
            **_growth(case),
        )


def _growth(case: xr.Dataset) -> dict[str, Any]:
    """Fields of `Shifts` about the growth of shifts with age."""
    ends, lives = case["epoch_end_years"].values, case["life_years"].values
    reached = case["epoch_max_dvth_mv"].max("transistor").transpose("epoch", "instance").values
    reached = np.concatenate([np.zeros((1, lives.size)), reached])
    borders = np.concatenate([[0.0], ends])
    root, growth = _growth_between(aging_of(case.attrs["spec"]).model)
    spaced = ends[-1] * np.linspace(0.0, 1.0, AGES + 1) ** 2
    ages = np.unique(np.concatenate([spaced, ends, lives.max(keepdims=True)]))
    ages = ages[ages <= lives.max()]
    by_age = np.zeros((len(QUANTILES), ages.size))
    for place, age in enumerate(ages[1:], 1):
        epoch = int(np.searchsorted(ends, age))
        alive = lives >= age
        before, after = (np.power(mv[alive], root) for mv in reached[epoch : epoch + 2])
        known_until = np.minimum(ends[epoch], lives[alive])
        passed = (age - borders[epoch]) / (known_until - borders[epoch])
        mv = np.power(before + (after - before) * passed, 1 / root)
        by_age[:, place] = np.quantile(mv, QUANTILES)
    return {
        "ends": ends,
        "living": np.count_nonzero(lives >= ends[:, None], axis=1),
        "ages": ages,
        "by_age": by_age,
        "known": np.isin(ages, [*borders, lives.max()]),
        "growth": growth,
    }


def _growth_between(model: str) -> tuple[float, str]:
    """Power of a shift that grows linearly under constant stress, and how to say it."""
    if is_plugin(model):  # of which a report runs no code; a straight line claims least
        return 1, f"the lines are straight: how the model {visible(model)} grows is not known here"
    root = nbti_model(model).root
    return (
        root,
        f"the power {root} of a shift grows linearly, as it does in the model {model} "
        "under constant stress",
    )


def draw(
    cases: Sequence[Named[Shifts]], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Draw shifts of cells, of the worst cell of each slice, and those over time."""
    looks = canvas.looks_of(identities(cases))
    settings = [
        item for item in by_setting(cases).items() if any(c.numbers.worked for c in item[1])
    ]
    if not settings:
        of_age = ("dvth-age", AGE_TITLE)
        for name, title in ((CELLS.name, CELLS.title), (SLICES.name, SLICES.title), of_age):
            yield canvas.AbsentFigure(name, title, "No slice of any case works when it is new.")
        return
    for figure in (CELLS, SLICES):
        yield from figure.pages([figure.panel(*item) for item in settings], sheet, looks)
    panels = [panel_by_age(setting, of_setting) for setting, of_setting in settings]
    yield from figure_by_age(cases[0].numbers).pages(panels, sheet, looks)


@dataclass(frozen=True)
class Ridges(canvas.Plot):
    """Histograms one below the other, a row for each technique.

    Parameters
    ----------
    column : str
        What stands to the right of each row.
    """

    column: str = ""

    least_mm = 75.0
    row_mm = ROW_MM

    def panel(self, setting: Setting, cases: Sequence[Named[Shifts]]) -> canvas.Panel:
        """A panel of a setting."""
        worked = [case for case in cases if case.numbers.worked]
        return canvas.Panel(setting.title, alt=self._alt(setting, worked), cases=cases)

    def draw(
        self, axes: Axes, panel: canvas.Panel, looks: canvas.Looks, gid: str
    ) -> tuple[canvas.Series, ...]:
        """Draw the rows of a setting of which a slice worked."""
        cases, drawn = panel.cases, list[canvas.Series]()
        edges = DVTH_BIN_EDGES_MV
        beside: dict[str, Any] = {
            "xycoords": ("axes fraction", "data"),
            "fontsize": canvas.SMALL,
            "va": "center",
        }
        for row, case in enumerate(cases):
            if not case.numbers.worked:
                continue
            look = looks[case.technique]
            histograms = self._histograms(case.numbers)
            # What cells that are hardly stressed would hide all others: the column says it.
            tallest = max(float(part[self._first :].max()) for _, part, _ in histograms) or 1.0
            for place, (suffix, percent, sign) in enumerate(histograms):
                height = sign * self._height * np.minimum(percent / tallest, 1)
                patch = axes.stairs(
                    row + self._line - height,
                    edges,
                    baseline=row + self._line,
                    fill=True,
                    facecolor=look.colour if sign > 0 else "none",
                    edgecolor=look.colour,
                    hatch=None if sign > 0 else "//////",
                    linewidth=0.4,
                )
                name = f"{gid}-{row + 1}-{place + 1}"
                patch.set_gid(name)
                middle = (edges[:-1] + edges[1:]) / 2
                label = f"{case.technique}{suffix}"
                drawn.append(
                    canvas.Series(label, middle, percent, case=case.label, kind="bars", gid=name)
                )
            axes.axhline(row + self._line, color=canvas.GREY, linewidth=0.4)
            words = self._words(case.numbers)
            axes.annotate(words, (1.0, row), (4, 0), textcoords="offset points", **beside)
        # Beyond the last transistor of all rows there is nothing to see.
        bins = 1 + max(int(np.flatnonzero(series.y > 0).max()) for series in drawn)
        axes.set(xlim=(0, edges[bins] + 1))
        canvas.name_rows(axes, [case.technique for case in cases])
        canvas.say_in_rows(axes, [row for row, case in enumerate(cases) if not case.numbers.worked])
        axes.annotate(
            self.column,
            (1.0, 1.0),
            (4, 3),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=canvas.SMALL,
            color=canvas.GREY,
        )
        return tuple(replace(series, x=series.x[:bins], y=series.y[:bins]) for series in drawn)

    @property
    def _height(self) -> float:
        """Height of the tallest bar, in rows."""
        return 0.42 if self.name == "dvth-cells" else 0.85

    @property
    def _line(self) -> float:
        """Place of the line of a row below its middle, in rows."""
        return 0.0 if self.name == "dvth-cells" else 0.45

    @property
    def _first(self) -> int:
        """First bin of which the largest one of a row is sought."""
        return 1 if self.name == "dvth-cells" else 0

    def _histograms(self, shifts: Shifts) -> list[tuple[str, Floats, int]]:
        """Suffix of the label, shares, and whether they rise or fall from the line of the row."""
        if self.name == "dvth-worst":
            return [("", shifts.of_slices, 1)]
        of_both = zip(TRANSISTORS, shifts.of_cells, (1, -1), strict=True)
        return [(f" {name}", percent, sign) for name, percent, sign in of_both]

    def _words(self, shifts: Shifts) -> str:
        if self.name == "dvth-worst":
            return f"{shifts.median_mv:.3g}"
        return "\n".join(f"{percent:.3g} %" for percent in shifts.of_cells[:, 0])

    def _alt(self, setting: Setting, cases: Sequence[Named[Shifts]]) -> str:
        """Which technique has the smallest and which the largest shifts."""
        if self.name == "dvth-worst":
            what = "the median shift of the worst cell"
            values = {case.technique: case.numbers.median_mv for case in cases}
            unit = " mV"
        else:
            what = "the share of T0 transistors shifted by less than 1 mV"
            values = {case.technique: float(case.numbers.of_cells[0, 0]) for case in cases}
            unit = " %"
        return canvas.extremes(setting.title, what, values, unit)


CELLS = Ridges(
    name="dvth-cells",
    title="Threshold shifts of cells",
    caption="Histograms of the NBTI threshold shifts of 128 random cells of each slice that worked "
    "at all, at the end of its life or at the horizon, in bins of 1 mV: transistor T0 upwards "
    "and filled, T1 downwards and hatched. Each row is scaled to its largest bin from 1 mV on; "
    "the numbers beside it are the shares of T0 and of T1 below 1 mV, whose bars are cut.",
    x_label="threshold shift of a sampled cell (mV)",
    y_label="cells (%)",
    column="< 1 mV",
)

SLICES = Ridges(
    name="dvth-worst",
    title="Threshold shift of the worst cell of each slice",
    caption="Histograms of the largest NBTI threshold shift of a slice, of both transistors, at "
    "the end of its life or at the horizon, in bins of 1 mV, over the slices that worked at "
    "all. Each row is scaled to its largest bin; the number beside it is its median in mV. Ages "
    "differ where lives end early.",
    x_label="threshold shift of the slice's worst cell (mV)",
    y_label="slices (%)",
    column="median",
)


def figure_by_age(of_case: Shifts) -> CurveFigure:
    """What all panels of shifts against age have in common, by any of the cases."""
    return CurveFigure(
        name="dvth-age",
        title=AGE_TITLE,
        caption="Largest NBTI threshold shift of a slice, of both transistors: median, and as a "
        "band the 5 % and 95 % quantiles of the slices (no confidence interval). Slices count "
        "until they die; the numbers below say how many live until that age, so that later ages "
        "are those of survivors. The file has the shifts at the ends of epochs, where the markers "
        f"stand, and at death; between these, {of_case.growth}.",
        x_label=AGE_LABEL,
        y_label=WORST_LABEL,
        kind="line",
        x_limits=(0.0, float(of_case.ends[-1])),
        shares_axes=False,
        rows_title="slices:",
        bands=AGE_BANDS,
    )


def panel_by_age(setting: Setting, cases: Sequence[Named[Shifts]]) -> canvas.Panel:
    """A panel with the shifts of a setting against age."""
    worked = [case for case in cases if case.numbers.worked]
    curves = tuple(_curve_by_age(case) for case in worked)
    at_last = {curve.label: float(curve.y[-1]) for curve in curves}
    alt = canvas.extremes(setting.title, "the median shift at the end", at_last, " mV")
    places = tuple(worked[0].numbers.ends.tolist())
    rows = tuple((c.technique, places, tuple(c.numbers.living.tolist())) for c in worked)
    return canvas.Panel(setting.title, curves, _notes(cases), alt, rows)


def _curve_by_age(case: Named[Shifts]) -> canvas.Series:
    numbers = case.numbers
    low, middle, high = numbers.by_age
    name = case.technique
    return canvas.Series(name, numbers.ages, middle, low, high, case.label, numbers.known)


def _notes(cases: Sequence[Named[Shifts]]) -> tuple[str, ...]:
    never = [case.technique for case in cases if not case.numbers.worked]
    return (f"no slice works: {canvas.listed(never)}",) if never else ()
