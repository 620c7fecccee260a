"""How studies of Vmin are shown: their table, their figures, and what they say in sentences."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from mcage.report.presentation import (
    INTERVALS,
    LEFT_OUT,
    Assumptions,
    Presentation,
    Summary,
    Words,
    in_a_row,
)
from mcage.report.tables import Cell, Column, ResultTable, measured, span
from mcage.results.header import Header
from mcage.results.measures import Case
from mcage.stats.estimates import CONFIDENCE, DASH, Estimate, Floats, mean_of_all
from mcage.studies.sweep.presentation import energy_is_known
from mcage.studies.vmin.measures import SHARES, asked, quantile

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, ReportFigure, Sheet


class VminPresentation(Presentation):
    """How studies of Vmin are shown."""

    instances = "slices"

    def added(self, case: Case) -> dict[str, Any]:
        """The lowest Vdd that was tried, and the target."""
        target = asked(case.spec_toml)
        return {
            "lowest_volts": float(case["lowest_volts"]),
            "target": target.share,
            "target_years": target.target_years,
        }

    def table_of(self, summaries: Sequence[Summary]) -> ResultTable:
        """Table of cases, new and at the target's age."""
        first = summaries[0]
        new, old = first.ages[0].age_years, first.target_years
        target = f"{100 * first.target:.6g} %"

        def of_vdd(key: str, heading: str, when: str) -> Column:
            cells = []
            for row in summaries:
                at = row.ages[0] if when == "new" else _at_target(row)
                cells.append(Cell(_volts(at[key], row.lowest_volts), *vars(at[key]).values()))
            age = _age(new if when == "new" else old)
            return Column(f"{key}_{when}", f"{heading}\n{age}", tuple(cells), primary=True)

        by_key = {measure.key: measure for measure in self.measures}
        of_age = [_at_target(row) for row in summaries]
        columns = [of_vdd("median", "50 %", "new")]
        if old > new:
            columns.append(of_vdd("median", "50 %", "old"))
        columns += [
            of_vdd("most", "99 %", "old"),
            of_vdd("of_target", target, "old"),
            *(measured(by_key[key], of_age) for key in ("drift_mv", "gain_mv")),
            measured(by_key["energy_saved"], summaries),
        ]
        fewest = math.ceil(1 / (1 - first.target) - 1e-6)
        return ResultTable(
            title=f"Vmin of {span([row.instances for row in summaries])} slices: Vdd in V "
            "at which so many work",
            caption=f"{CONFIDENCE:.0%} intervals, of Vdd by order statistics; ≤: the "
            f"lowest Vdd that was tried (--lowest); {DASH}: none, or too few slices: {target} "
            f"needs {fewest:,}; drift: mean growth since {_age(new)}; gain: how far Vmin lies "
            f"below that of the same slice in the first case, {_age(old)}; both of slices that "
            "need more than the lowest Vdd tried, "
            f"{span([row.lowest_volts for row in summaries])} V; energy: saved over a "
            f"conventional slice at the technology's nominal Vdd, at the Vdd at which {target} "
            "work, mean of all slices",
            columns=(*self.named(summaries), *columns),
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
        target_of = asked(str(results.attrs["spec"]))
        target = ages.tolist().index(target_of.target_years)

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
            f"Vmin against age, {CONFIDENCE:.0%} bands",
            "Vdd at which half of the slices, and 99 % of them, run their kernels.",
            "age [years]",
            "Vmin [V]",
            kind="line",
        ).pages([against_age(share) for share in SHARES.values()], sheet)

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

        vdds, until = results["vdd"].values, f"until {target_of.target_years:g} years"
        works = vmin[..., target, None] <= vdds
        saved = np.where(works, results["energy_saving_nominal"].values, 0.0)

        def against_vdd(title: str, of: Floats) -> Panel:
            means = [[_percent(mean_of_all(at)) for at in of_case.T] for of_case in of]
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
            f"What a Vdd buys, {CONFIDENCE:.0%} bands",
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
                    f"{_volts(_at_target(row).median, row.lowest_volts)} V, "
                    f"{100 * row.target:.6g} % at "
                    f"{_volts(_at_target(row).of_target, row.lowest_volts)} V.",
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


def _at_target(summary: Summary) -> Summary:
    """What is said of a case at the age of the target."""
    at: Summary = next(of for of in summary.ages if of.age_years == summary.target_years)
    return at


def _percent(of: Estimate) -> Estimate:
    return Estimate(*(100 * bound for bound in vars(of).values()))


def _age(years: float) -> str:
    return "new" if years == 0 else f"after {years:g} years"


def _volts(of: Estimate, lowest_volts: float) -> str:
    """A Vdd with its interval; a bound that there is none of as a dash."""

    def written(volts: float) -> str:
        if not math.isfinite(volts):
            return DASH
        return f"≤{volts:.3f}" if volts <= lowest_volts else f"{volts:.4f}"

    return f"{written(of.value)} [{written(of.lower)}, {written(of.upper)}]"
