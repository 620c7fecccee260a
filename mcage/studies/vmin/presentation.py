"""How studies of Vmin are shown: their table, their figures, and what they say in sentences."""

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from mcage.report import tables
from mcage.report.presentation import (
    INTERVALS,
    LEFT_OUT,
    Assumptions,
    Presentation,
    Words,
)
from mcage.results.header import Header
from mcage.stats import estimates
from mcage.stats.survival import life_quantile

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, ReportFigure, Sheet

SHARES = (0.5, 0.99)
"""Shares of the slices that work at a Vdd, in the columns beside that of the target."""


@dataclass(frozen=True)
class VminSummary:
    """Vmin of the slices of a case at an age.

    Parameters
    ----------
    case, technique : str
        Which.
    age_years : float
        Age.
    instances : int
        Slices.
    lowest_volts : float
        Lowest Vdd that was tried.
    target : float
        Share of the slices that are to work.
    median, most, of_target : Estimate
        Vdd at which half of the slices work, 99 %, and the share of the target, in volts; infinite
        where there is none, NaN for a bound that so few slices cannot give.
    drift_mv : Estimate
        What the Vmin of a slice has grown since it was new, mean in mV.
    """

    case: str
    technique: str
    age_years: float
    instances: int
    lowest_volts: float
    target: float
    median: estimates.Estimate
    most: estimates.Estimate
    of_target: estimates.Estimate
    drift_mv: estimates.Estimate


def quantile(vmin_volts: estimates.Floats, share: float) -> estimates.Estimate:
    """Vdd at which a share of the slices works, by order statistics; Vmin NaN where none does."""
    return life_quantile(vmin_volts, np.isfinite(vmin_volts), share)


class VminPresentation(Presentation):
    """How studies of Vmin are shown."""

    instances = "slices"
    grid = ("case",)
    keys = ("case", "technique")

    def summarize(self, results: xr.Dataset) -> list[VminSummary]:
        """Summarize all cases and ages, in the order of the file.

        Parameters
        ----------
        results : xarray.Dataset
            As `mcage.results.reader.open_results` returns it.
        """
        target = float(tomllib.loads(str(results.attrs["spec"]))["vmin"]["share"])
        vmin, ages = results["vmin_volts"].values, results["age"].values.tolist()
        techniques, lowest = results["technique"].values, results["lowest_volts"].values
        return [
            VminSummary(
                case=str(case),
                technique=str(techniques[row]),
                age_years=age,
                instances=vmin.shape[1],
                lowest_volts=float(lowest[row]),
                target=target,
                median=quantile(vmin[row, :, column], SHARES[0]),
                most=quantile(vmin[row, :, column], SHARES[1]),
                of_target=quantile(vmin[row, :, column], target),
                drift_mv=_drift(vmin[row], column, float(lowest[row])),
            )
            for row, case in enumerate(results["case"].values.tolist())
            for column, age in enumerate(ages)
        ]

    def table_of(
        self, summaries: Sequence[VminSummary], files: Sequence[Path] = ()
    ) -> tables.ResultTable:
        """Table of cases and ages, of several files where their paths are given."""
        first, lowest = summaries[0], {row.lowest_volts for row in summaries}
        mean = {row: estimates.plus_minus(row.drift_mv) for row in summaries}

        def volts(of: estimates.Estimate) -> str:
            return _volts(of, min(lowest))

        return tables.ResultTable(
            title=f"Vmin of {tables.span([row.instances for row in summaries])} slices",
            caption=f"Vdd in V at which so many of the slices run their kernels, with "
            f"{estimates.CONFIDENCE:.0%} intervals of order statistics; drift: mean growth since "
            f"new, of slices that need more than the lowest Vdd tried, {tables.span([*lowest])} V",
            columns=(
                *tables.file_column(files),
                tables.names("case", "case", [row.case for row in summaries], groups=True),
                tables.numbers(
                    "age_years",
                    "age\n[years]",
                    [row.age_years for row in summaries],
                    "{:g}".format,
                    primary=True,
                ),
                tables.numbers("instances", "", [row.instances for row in summaries]),
                *(
                    tables.estimates(
                        key,
                        f"{heading}\nwork at [V]",
                        [getattr(row, key) for row in summaries],
                        volts,
                        primary=True,
                    )
                    for key, heading in (
                        ("median", "50 %"),
                        ("most", "99 %"),
                        ("of_target", f"{100 * first.target:.6g} %"),
                    )
                ),
                tables.estimates(
                    "drift_mv",
                    "drift\n[mV]",
                    [row.drift_mv for row in summaries],
                    lambda of: mean[next(row for row in summaries if row.drift_mv is of)],
                    primary=True,
                ),
            ),
        )

    def figures(
        self, header: Header, results: xr.Dataset, sheet: "Sheet"
    ) -> "Iterator[ReportFigure | AbsentFigure]":
        """Vmin against age, and its distribution when new and at the last age."""
        from mcage.report.figures.curves import Curve, CurveFigure, CurvePanel

        vmin, ages = results["vmin_volts"].values, results["age"].values.astype(float)
        names = results["technique"].values.tolist()
        if len(set(names)) < len(names):
            names = results["case"].values.tolist()
        cases = results["case"].values.tolist()

        def against_age(share: float) -> CurvePanel:
            quantiles = [
                [quantile(of_case[:, column], share) for column in range(len(ages))]
                for of_case in vmin
            ]
            bounds = [
                np.array([[each.value, each.lower, each.upper] for each in of_case]).T
                for of_case in quantiles
            ]
            finite = [np.where(np.isfinite(of_case), of_case, np.nan) for of_case in bounds]
            curves = tuple(
                Curve(name, ages, of_case[0], of_case[1], of_case[2], case)
                for name, of_case, case in zip(names, finite, cases, strict=True)
            )
            return CurvePanel(f"{100 * share:g} % work", curves)

        yield from CurveFigure(
            "vmin-by-age",
            f"Vmin against age, {estimates.CONFIDENCE:.0%} bands",
            "Vdd at which half of the slices, and 99 % of them, run their kernels.",
            "age [years]",
            "Vmin [V]",
            kind="line",
        ).pages([against_age(share) for share in SHARES], sheet)

        def distribution(column: int) -> CurvePanel:
            curves = []
            for name, of_case, case in zip(names, vmin[..., column], cases, strict=True):
                volts = np.sort(np.where(np.isnan(of_case), np.inf, of_case))
                above = 100 * (1 - np.arange(1, len(volts) + 1) / len(volts))
                seen = np.isfinite(volts)
                curves.append(Curve(name, volts[seen], above[seen], case=case))
            title = "new" if ages[column] == 0 else f"after {ages[column]:g} years"
            return CurvePanel(title, tuple(curves))

        yield from CurveFigure(
            "vmin-distribution",
            "Slices that need more than a Vdd",
            "Share of the slices whose Vmin lies above the Vdd.",
            "Vdd [V]",
            "slices with a higher Vmin [%]",
            y_limits=(0, 100),
        ).pages([distribution(column) for column in dict.fromkeys((0, len(ages) - 1))], sheet)

    def words(self, header: Header, results: xr.Dataset) -> Words:
        """Summary of a results file in sentences."""
        summaries = self.summarize(results)
        last = [row for row in summaries if row.age_years == summaries[-1].age_years]
        return Words(
            f"The lowest Vdd at which each of {header.holds:,} slices runs its kernels, when new "
            f"and at ages up to {last[0].age_years:g} years; seed {header.seed}.",
            tuple(
                (
                    row.case,
                    f"half of the slices work for {row.age_years:g} years at "
                    f"{_volts(row.median, row.lowest_volts)} V, {100 * row.target:.6g} % at "
                    f"{_volts(row.of_target, row.lowest_volts)} V.",
                )
                for row in last
            ),
        )

    def assumptions(self, header: Header) -> Assumptions:
        """Models, limits and choices of the spec, and what is left out."""
        return [
            (
                "Use",
                "Each slice is used at the lowest Vdd at which it works until the last age: which "
                "of its entries are in use, and so age, follows from its faults there.",
            ),
            ("Left out", f"{LEFT_OUT}."),
            INTERVALS,
        ]


def _drift(vmin: estimates.Floats, column: int, lowest_volts: float) -> estimates.Estimate:
    """Mean growth since the first age of the slices whose Vmin is known at both, mV."""
    known = (vmin[:, 0] > lowest_volts) & np.isfinite(vmin[:, column])
    if not known.any():
        return estimates.Estimate(math.nan, math.nan, math.nan)
    return estimates.mean(1e3 * (vmin[known, column] - vmin[known, 0]))


def _volts(of: estimates.Estimate, lowest_volts: float) -> str:
    """A Vdd with its interval; a bound that there is none of as a dash."""

    def written(volts: float) -> str:
        if not math.isfinite(volts):
            return estimates.DASH
        return f"≤{volts:.3f}" if volts <= lowest_volts else f"{volts:.4f}"

    return f"{written(of.value)} [{written(of.lower)}, {written(of.upper)}]"
