"""How studies of Vmin are shown: their table, their figures, and what they say in sentences."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from mcage.report.cases import cases_in, named_cases
from mcage.report.presentation import INTERVALS, LEFT_OUT, Assumptions, Presentation, Summary, Words
from mcage.report.tables import Cell, Column, ResultTable, measured, span
from mcage.results.header import Header
from mcage.results.measures import Case
from mcage.stats.estimates import CONFIDENCE, DASH, Bools, Estimate, Floats, mean_of_all
from mcage.studies.sweep.presentation import energy_is_known
from mcage.studies.vmin.study import SHARES, asked, quantile

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, Plot


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

    def figures(self, header: Header, results: xr.Dataset) -> "Iterator[Plot | AbsentFigure]":
        """Vmin against age, its distribution, and energy saved against Vdd."""
        from mcage.report.figures.canvas import PERCENT, CasePart, Series
        from mcage.report.figures.curves import CurveFigure

        names, cases = named_cases(results), [*cases_in(results)]
        ages = results["age"].values.astype(float)
        target_of = asked(str(results.attrs["spec"]))
        target = ages.tolist().index(target_of.target_years)

        def drawn(
            plot: "Plot", parts: Callable[[xr.Dataset], Iterator[CasePart]]
        ) -> "Plot | AbsentFigure":
            return plot.of_cases(zip(names, map(parts, cases), strict=True))

        def against_age(case: xr.Dataset) -> Iterator[CasePart]:
            vmin = case["vmin_volts"].transpose("instance", "age").values
            for share in SHARES.values():
                at = [quantile(vmin[:, column], share) for column in range(len(ages))]
                bounds = np.array([[of.value, of.lower, of.upper] for of in at]).T
                series = Series("", ages, *np.where(np.isfinite(bounds), bounds, np.nan))
                yield CasePart(series, f"{100 * share:g} % work", worth=float(series.y[-1]))

        yield drawn(
            CurveFigure(
                "vmin-by-age",
                f"Vmin against age, {PERCENT} bands",
                "Vdd at which half of the slices, and 99 % of them, run their kernels.",
                "age (years)",
                "Vmin (V)",
                shape="line",
                worth="Vmin at the last age",
                unit=" V",
            ),
            against_age,
        )

        def distribution(case: xr.Dataset) -> Iterator[CasePart]:
            vmin = case["vmin_volts"].transpose("instance", "age").values
            for column in dict.fromkeys((0, target)):
                at = vmin[:, column]
                volts = np.sort(np.where(np.isnan(at), np.inf, at))
                above = 100 * (1 - np.arange(1, len(volts) + 1) / len(volts))
                seen = np.isfinite(volts)
                panel, worst = _age(ages[column]), float(np.nanmax([np.nan, *volts[seen]]))
                if seen.any():
                    yield CasePart(Series("", volts[seen], above[seen]), panel, worth=worst)
                else:
                    yield CasePart(None, panel, "no slice works at any Vdd")

        yield drawn(
            CurveFigure(
                "vmin-distribution",
                "Slices that need more than a Vdd",
                "Share of the slices whose Vmin lies above the Vdd.",
                "Vdd (V)",
                "slices with a higher Vmin (%)",
                y_limits=(0, 100),
                worth="the highest Vmin",
                unit=" V",
            ),
            distribution,
        )

        vdds, until = results["vdd"].values, f"until {target_of.target_years:g} years"
        saved = [_saved_at(case, target, vdds) for case in cases]
        # Without constants of the costs of this slice, nothing is known of those that work.
        known = any(not np.isnan(of[works]).all() for works, of in saved) or not any(
            works.any() for works, _ in saved
        )

        def against_vdd(works: Bools, of_all: Floats) -> Iterator[CasePart]:
            for panel, of in (("energy saved", of_all), (f"work {until}", works * 1.0)):
                if of is of_all and not known:
                    continue
                means = [vars(mean_of_all(at)).values() for at in of.T]
                series = Series("", vdds, *(100 * np.array([[*at] for at in means]).T))
                why = "unknown at some Vdd" * bool(np.isnan(series.y).any())
                yield CasePart(series, panel, why, float(np.nanmax([np.nan, *series.y])))

        yield CurveFigure(
            "vmin-energy",
            f"What a Vdd buys, {PERCENT} bands",
            "Energy saved over life, over a conventional slice at the technology's nominal Vdd, "
            f"mean of all slices, of which those that do not work {until} save nothing; and the "
            "share of the slices that do."
            if known
            else f"Share of the slices that work {until}. What energy they save is not known: "
            "there are no constants of the energy of this slice.",
            "Vdd (V)",
            "energy, slices (%)",
            shape="line",
            worth="the largest value",
            unit=" %",
        ).of_cases((name, against_vdd(*of)) for name, of in zip(names, saved, strict=True))

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
    """Sentence about a case at the age of the target."""
    at: Summary = next(of for of in summary.ages if of.age_years == summary.target_years)
    return at


def _saved_at(case: xr.Dataset, target: int, vdds: Floats) -> tuple[Bools, Floats]:
    """Which slices work at each Vdd until the target's age, and the energy that each saves."""
    works = case["vmin_volts"].transpose("instance", "age").values[:, target, None] <= vdds
    energy = case["energy_saving_nominal"].transpose("instance", "vdd").values
    return works, np.where(works, energy, 0.0)


def _age(years: float) -> str:
    return "new" if years == 0 else f"after {years:g} years"


def _volts(of: Estimate, lowest_volts: float) -> str:
    """A Vdd with its interval; a bound that there is none of as a dash."""

    def written(volts: float) -> str:
        if not math.isfinite(volts):
            return DASH
        return f"≤{volts:.3f}" if volts <= lowest_volts else f"{volts:.4f}"

    return f"{written(of.value)} [{written(of.lower)}, {written(of.upper)}]"
