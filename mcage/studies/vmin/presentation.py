"""How studies of Vmin are shown: their table, their figures, and what they say in sentences."""

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from mcage.report import tables
from mcage.report.cases import points_of
from mcage.report.presentation import (
    INTERVALS,
    LEFT_OUT,
    Assumptions,
    Presentation,
    Words,
    in_a_row,
)
from mcage.results.header import Header
from mcage.stats import estimates
from mcage.stats.estimates import DASH
from mcage.stats.survival import life_quantile
from mcage.studies.sweep.presentation import energy_is_known
from mcage.studies.vmin.study import VminSpec, VminTarget

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, ReportFigure, Sheet

SHARES = (0.5, 0.99)
"""Shares of the slices that work at a Vdd, in the columns beside that of the target."""


@dataclass(frozen=True)
class VminAtAge:
    """Vmin of the slices of a case at an age.

    Parameters
    ----------
    age_years : float
        Age.
    median, most, of_target : Estimate
        Vdd at which half of the slices work, 99 %, and the share of the target, in volts; infinite
        where there is none, NaN for what so few slices cannot tell.
    drift_mv : Estimate
        What the Vmin of a slice has grown since the first age, mean in mV.
    gain_mv : Estimate
        How far Vmin lies below that of the same slice in the first case, mean in mV.
    """

    age_years: float
    median: estimates.Estimate
    most: estimates.Estimate
    of_target: estimates.Estimate
    drift_mv: estimates.Estimate
    gain_mv: estimates.Estimate


@dataclass(frozen=True)
class VminSummary:
    """Vmin of the slices of a case.

    Parameters
    ----------
    case, technique, protection, environment, scenario : str
        Which.
    instances : int
        Slices.
    lowest_volts : float
        Lowest Vdd that was tried; drift and gain are those of slices that need more.
    target : float
        Share of the slices that are to work.
    target_years : float
        Age until which they are to work, one of the ages.
    energy_saved : Estimate
        Energy saved over a conventional slice at the technology's nominal Vdd, at the Vdd at which
        that share works: mean of all slices, of which those that do not work save nothing; NaN
        where that Vdd is none of those of which the energy is known.
    ages : tuple of VminAtAge
        Each age.
    """

    case: str
    technique: str
    protection: str
    environment: str
    scenario: str
    instances: int
    lowest_volts: float
    target: float
    target_years: float
    energy_saved: estimates.Estimate
    ages: tuple[VminAtAge, ...]

    @property
    def at_target(self) -> VminAtAge:
        """Vmin at the age of the target."""
        return next(at for at in self.ages if at.age_years == self.target_years)


def quantile(vmin_volts: estimates.Floats, share: float) -> estimates.Estimate:
    """Vdd at which a share of the slices works, by order statistics; Vmin NaN where none does.

    The value is NaN where so few slices cannot say: all of them are a smaller share than that of
    so many that one is left.
    """
    estimate = life_quantile(vmin_volts, np.isfinite(vmin_volts), share)
    known = len(vmin_volts) * (1 - share) > 1 - 1e-9
    return estimate if known else replace(estimate, value=math.nan)


def saved_at(
    vdd_volts: float, vmin_volts: estimates.Floats, vdds: estimates.Floats, saved: estimates.Floats
) -> estimates.Estimate:
    """Mean saving of all slices at a Vdd, those that do not work there saving nothing.

    Parameters
    ----------
    vdd_volts : float
        The Vdd; between two of those below, the saving of each slice is interpolated.
    vmin_volts : float[n]
        Vmin of the slices.
    vdds : float[m]
        Voltages, rising, at which savings are known.
    saved : float[n, m]
        Fractions; NaN where a slice does not work.
    """
    above = int(np.searchsorted(vdds, vdd_volts))
    if not np.isfinite(vdd_volts) or above == len(vdds) or vdd_volts < vdds[0]:
        return estimates.Estimate(math.nan, math.nan, math.nan)
    below, works = max(above - 1, 0), vmin_volts <= vdd_volts
    part = (vdd_volts - vdds[below]) / (vdds[above] - vdds[below]) if above else 0.0
    there = saved[:, above]
    nearer = np.where(np.isnan(saved[:, below]), there, saved[:, below])
    of_each = np.where(works, nearer + part * (there - nearer), 0.0)
    return estimates.mean_of_all(of_each)


class VminPresentation(Presentation):
    """How studies of Vmin are shown."""

    instances = "slices"
    grid = ("case",)
    keys = ("technique", "protection", "environment", "scenario", "case")

    def summarize(self, results: xr.Dataset) -> list[VminSummary]:
        """Summarize all cases and ages, in the order of the file.

        Parameters
        ----------
        results : xarray.Dataset
            As `mcage.results.reader.open_results` returns it.
        """
        asked = _asked(results)
        vdds, saved = results["vdd"].values, results["energy_saving_nominal"].values
        vmin, ages = results["vmin_volts"].values, results["age"].values.tolist()
        lowest, names = results["lowest_volts"].values, points_of(results)
        at_target = vmin[..., ages.index(asked.target_years)]
        needed = np.where(vmin > lowest[:, None, None], vmin, np.nan)
        return [
            VminSummary(
                **{name: str(value) for name, value in named.items()},
                instances=vmin.shape[1],
                lowest_volts=float(lowest[row]),
                target=asked.share,
                target_years=asked.target_years,
                energy_saved=saved_at(
                    quantile(at_target[row], asked.share).value, at_target[row], vdds, saved[row]
                ),
                ages=tuple(
                    VminAtAge(
                        age_years=age,
                        median=quantile(vmin[row, :, column], SHARES[0]),
                        most=quantile(vmin[row, :, column], SHARES[1]),
                        of_target=quantile(vmin[row, :, column], asked.share),
                        drift_mv=estimates.mean(1e3 * (needed[row, :, column] - needed[row, :, 0])),
                        gain_mv=estimates.mean(
                            1e3 * (needed[0, :, column] - needed[row, :, column])
                        ),
                    )
                    for column, age in enumerate(ages)
                ),
            )
            for row, named in enumerate(names)
        ]

    def table_of(
        self, summaries: Sequence[VminSummary], files: Sequence[Path] = ()
    ) -> tables.ResultTable:
        """Table of cases, new and at the target's age, of several files where there are paths."""
        first, lowest = summaries[0], [row.lowest_volts for row in summaries]
        new, old = first.ages[0].age_years, first.target_years

        def column(place: int, key: str, heading: str) -> tables.Column:
            ofs = [getattr((row.ages[0], row.at_target)[place], key) for row in summaries]
            cells = (
                tables.Cell(_volts(of, volts), *vars(of).values())
                for of, volts in zip(ofs, lowest, strict=True)
            )
            key = f"{key}_{('new', 'old')[place]}"
            return tables.Column(key, heading, tuple(cells), primary=True)

        def of_slices(key: str, heading: str) -> tables.Column:
            of = [getattr(row.at_target, key) for row in summaries]
            return tables.estimates(key, heading, of, estimates.plus_minus, primary=True)

        target, fewest = f"{100 * first.target:.6g} %", math.ceil(1 / (1 - first.target) - 1e-6)
        columns = [column(0, "median", f"50 %\n{_age(new)}")]
        if old > new:
            columns.append(column(1, "median", f"50 %\n{_age(old)}"))
        columns += [
            column(1, "most", f"99 %\n{_age(old)}"),
            column(1, "of_target", f"{target}\n{_age(old)}"),
        ]
        return tables.ResultTable(
            title=f"Vmin of {tables.span([row.instances for row in summaries])} slices: Vdd in V "
            "at which so many work",
            caption=f"{estimates.CONFIDENCE:.0%} intervals, of Vdd by order statistics; ≤: the "
            f"lowest Vdd that was tried (--lowest); {DASH}: none, or too few slices: {target} "
            f"needs {fewest:,}; drift: mean growth since {_age(new)}; gain: how far Vmin lies "
            f"below that of the same slice in the first case, {_age(old)}; both of slices that "
            f"need more than the lowest Vdd tried, {tables.span(lowest)} V; energy: saved over a "
            f"conventional slice at the technology's nominal Vdd, at the Vdd at which {target} "
            "work, mean of all slices",
            columns=(
                *tables.file_column(files),
                tables.names("case", "case", [row.case for row in summaries]),
                *tables.hidden_names(summaries, self.keys[:-1]),
                tables.numbers("instances", "", [row.instances for row in summaries]),
                *columns,
                of_slices("drift_mv", "drift\n[mV]"),
                of_slices("gain_mv", "gain\n[mV]"),
                tables.estimates(
                    "energy_saved",
                    "energy\n[%]",
                    [_percent(row.energy_saved) for row in summaries],
                    estimates.plus_minus,
                    primary=True,
                ),
            ),
        )

    def figures(
        self, header: Header, results: xr.Dataset, sheet: "Sheet"
    ) -> "Iterator[ReportFigure | AbsentFigure]":
        """Vmin against age, its distribution, and energy saved against Vdd."""
        from mcage.report.figures.canvas import AbsentFigure, Panel, Series
        from mcage.report.figures.curves import CurveFigure

        vmin, ages = results["vmin_volts"].values, results["age"].values.astype(float)
        names = results["technique"].values.tolist()
        if len(set(names)) < len(names):
            names = results["case"].values.tolist()
        cases = results["case"].values.tolist()
        asked = _asked(results)
        target = ages.tolist().index(asked.target_years)

        def against_age(share: float) -> Panel:
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
                Series(name, ages, of_case[0], of_case[1], of_case[2], case)
                for name, of_case, case in zip(names, finite, cases, strict=True)
            )
            return Panel(f"{100 * share:g} % work", curves)

        yield from CurveFigure(
            "vmin-by-age",
            f"Vmin against age, {estimates.CONFIDENCE:.0%} bands",
            "Vdd at which half of the slices, and 99 % of them, run their kernels.",
            "age [years]",
            "Vmin [V]",
            kind="line",
        ).pages([against_age(share) for share in SHARES], sheet)

        def distribution(column: int) -> Panel:
            curves, nowhere = [], []
            for name, of_case, case in zip(names, vmin[..., column], cases, strict=True):
                volts = np.sort(np.where(np.isnan(of_case), np.inf, of_case))
                above = 100 * (1 - np.arange(1, len(volts) + 1) / len(volts))
                seen = np.isfinite(volts)
                if seen.any():
                    curves.append(Series(name, volts[seen], above[seen], case=case))
                else:
                    nowhere.append(name)
            notes = (f"no slice works at any Vdd: {in_a_row(nowhere)}",) if nowhere else ()
            return Panel(_age(ages[column]), tuple(curves), notes)

        name, title = "vmin-distribution", "Slices that need more than a Vdd"
        panels = [distribution(column) for column in dict.fromkeys((0, target))]
        if any(panel.series for panel in panels):
            yield from CurveFigure(
                name,
                title,
                "Share of the slices whose Vmin lies above the Vdd.",
                "Vdd [V]",
                "slices with a higher Vmin [%]",
                y_limits=(0, 100),
            ).pages(panels, sheet)
        else:
            yield AbsentFigure(name, title, "No slice works at any Vdd.")

        vdds, until = results["vdd"].values, f"until {asked.target_years:g} years"
        works = vmin[..., target, None] <= vdds
        saved = np.where(works, results["energy_saving_nominal"].values, 0.0)

        def against_vdd(title: str, of: estimates.Floats) -> Panel:
            means = [[_percent(estimates.mean_of_all(at)) for at in of_case.T] for of_case in of]
            bounds = [np.array([[*vars(at).values()] for at in of_case]).T for of_case in means]
            curves = tuple(
                Series(name, vdds, of_case[0], of_case[1], of_case[2], case)
                for name, of_case, case in zip(names, bounds, cases, strict=True)
            )
            unknown = [curve.label for curve in curves if np.isnan(curve.y).any()]
            notes = (f"unknown at some Vdd: {in_a_row(unknown)}",) if unknown else ()
            return Panel(title, curves, notes)

        works_until = against_vdd(f"work {until}", works * 1.0)
        # Without constants of the costs of this slice, nothing is known of those that work.
        known = not np.isnan(saved[works]).all() if works.any() else True
        panels = [against_vdd("energy saved", saved), works_until] if known else [works_until]
        yield from CurveFigure(
            "vmin-energy",
            f"What a Vdd buys, {estimates.CONFIDENCE:.0%} bands",
            "Energy saved over life, over a conventional slice at the technology's nominal Vdd, "
            f"mean of all slices, of which those that do not work {until} save nothing; and the "
            "share of the slices that do."
            if known
            else f"Share of the slices that work {until}. What energy they save is not known: "
            "there are no constants of the energy of this slice.",
            "Vdd [V]",
            "energy, slices [%]",
            kind="line",
        ).pages(panels, sheet)

    def words(self, header: Header, results: xr.Dataset) -> Words:
        """Summary of a results file in sentences."""
        summaries = self.summarize(results)
        ages, old = summaries[0].ages, summaries[0].target_years
        return Words(
            f"The lowest Vdd at which each of {header.holds:,} slices runs its kernels, when new "
            f"and at ages up to {ages[-1].age_years:g} years; seed {header.seed}.",
            tuple(
                (
                    row.case,
                    f"half of the slices work {_age(old)} at "
                    f"{_volts(row.at_target.median, row.lowest_volts)} V, {100 * row.target:.6g} % "
                    f"at {_volts(row.at_target.of_target, row.lowest_volts)} V.",
                )
                for row in summaries
            ),
        )

    def assumptions(self, header: Header, results: xr.Dataset) -> Assumptions:
        """Models, limits and choices of the spec, and what is left out."""
        energy = (
            "Energy",
            "That of the slice over its life, as in a sweep, with the low Vdd of the "
            "environment at each Vdd.",
        )
        return [
            (
                "Use",
                "Each slice is used at the lowest Vdd at which it works until the target's age: "
                "which of its entries are in use, and so age, follows from its faults there.",
            ),
            *([energy] if energy_is_known(results) else []),
            ("Left out", f"{LEFT_OUT}."),
            INTERVALS,
        ]


def _asked(results: xr.Dataset) -> VminTarget:
    """What was asked, as the spec in a results file says."""
    spec = VminSpec.from_mapping(tomllib.loads(str(results.attrs["spec"])))
    return spec.vmin


def _percent(of: estimates.Estimate) -> estimates.Estimate:
    return estimates.Estimate(*(100 * bound for bound in vars(of).values()))


def _age(years: float) -> str:
    return "new" if years == 0 else f"after {years:g} years"


def _volts(of: estimates.Estimate, lowest_volts: float) -> str:
    """A Vdd with its interval; a bound that there is none of as a dash."""

    def written(volts: float) -> str:
        if not math.isfinite(volts):
            return DASH
        return f"≤{volts:.3f}" if volts <= lowest_volts else f"{volts:.4f}"

    return f"{written(of.value)} [{written(of.lower)}, {written(of.upper)}]"
