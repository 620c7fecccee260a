"""`results.mcage`: statistics, tables and figures of the results of a study."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from mcage.analysis import grid as grids
from mcage.errors import UserError
from mcage.files.inputs import listed
from mcage.gpu.exchange import ExchangeRule, RuleKeys
from mcage.gpu.exchange_shares import ExchangeQuestion, summarize_exchange, table_of_exchange
from mcage.plain_text import visible
from mcage.report.cases import SLOWDOWN_VARIABLES, names_for, years_until_slower
from mcage.report.comparison import compared_measures, measured_lines, study_lines
from mcage.report.notes import caveats_of, note_on_code, note_on_programs
from mcage.report.presentation import presentation_of
from mcage.report.tables import ResultTable, latex_of, renamed_in
from mcage.results.differences import keys_of, refuse_unmeant
from mcage.stats.estimates import CONFIDENCE, Estimate, Floats, mean
from mcage.stats.paired import outliving
from mcage.stats.survival import (
    CaseLives,
    cumulative_incidence,
    failure_rate,
    kaplan_meier,
    life_quantile,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mcage.analysis.drawing import FigureKeys


Shift = Literal["worst", "cells", "age"]
"""View of threshold shifts: the worst cell of each slice, sampled cells, or growth."""


Rows: TypeAlias = Any
"""Rows of a case, as a data frame is made of them: each by itself, or columns."""


@xr.register_dataset_accessor("mcage")  # type: ignore[no-untyped-call]
class Analysis:
    """Statistics, tables and figures of results, under ``results.mcage``.

    Every method computes of what is left after ``sel`` and ``isel`` of cases and instances. Tables
    are data frames of pandas; the columns ``NAME_lower`` and ``NAME_upper`` are the bounds of the
    interval of ``NAME``, NaN where the sample gives none. An age beyond the horizon is infinite.

    Parameters
    ----------
    results : xarray.Dataset
        What `mcage.open_results` returns, or a part or a copy of it.
    """

    def __init__(self, results: xr.Dataset) -> None:
        self._results = results

    def __repr__(self) -> str:
        methods = ", ".join(name for name in dir(type(self)) if not name.startswith("_"))
        return f"Analysis of the study {grids.study_of(self._results)!r}: {methods}"

    def notes(self) -> list[str]:
        """Caveats that belong wherever these results are shown.

        Caveats, instances that a partial file lacks, where a stopping rule has ended the sweep,
        slices that are not independent, and codes that computed them if they are not this one.
        """
        header = grids.header_of(self._results)
        lines = [*caveats_of(header), note_on_code(header)]
        return [visible(line) for line in lines if line]

    def programs(self) -> dict[str, str]:
        """Digests of the kernels that ran, as the spec in the file records them.

        Of inject also the compiler. Empty where they are not known: of files of earlier versions,
        and of studies that run none.
        """
        return grids.header_of(self._results).programs

    # ---- cases -----------------------------------------------------------------------------

    def case(self, name: str) -> xr.Dataset:
        """Results of the only case that a name means.

        Parameters
        ----------
        name : str
            Its label, or values on axes that no other case has: ``"rrcd dvfs"``,
            ``"rrcd@secded32"``, as `mcage.results.axes.find_point` finds it. Of whole GPUs, its
            policy, or policy and technique.

        Raises
        ------
        UserError
            No case has that name, or several have.
        """
        return grids.case_named(self._results, name).results

    def cube(self, *dims: str) -> xr.Dataset:
        """Results with axes, such as technique and environment, as dimensions instead of ``case``.

        Values are read: choose variables before where a file is large, as in
        ``results[["life_years"]].mcage.cube()``. Where no case has a combination, numbers are NaN;
        integers are therefore floats if a combination is missing, and only then. By
        default these are technique, environment and scenario, and such others, as protection and
        supply voltage, as are needed to tell cases apart.

        Parameters
        ----------
        *dims : str
            Names of axes to make dimensions of, in this order.

        Raises
        ------
        UserError
            There are no cases, or the dimensions do not tell them apart.
        """
        return grids.cube_of(self._results, dims)

    # ---- tables ----------------------------------------------------------------------------

    def summary(self, table: int = 0) -> pd.DataFrame:
        """The table of `mcage show`: a line for each case, with the keys of ``--csv``.

        Parameters
        ----------
        table : int
            Which table, of a study that has several one below the other.

        Raises
        ------
        UserError
            There is no such table, a dimension other than cases and instances has been cut, or
            lives are masked.
        """
        return table_frame(self._table(table))

    def latex(self, table: int = 0, labels: Mapping[str, str] | None = None) -> str:
        """The same table for a paper, as LaTeX: headings, units and intervals as people read them.

        Parameters
        ----------
        table : int
            As of `summary`.
        labels : mapping of str to str
            As of `plot_survival`.

        Returns
        -------
        str
            A ``tabular`` with the rules of the package ``booktabs``; ``$> 10$`` is beyond a horizon
            of 10 years.

        Raises
        ------
        UserError
            As `summary`; or a label is of no technique.
        """
        names = names_for([grids.header_of(self._results)], labels or {})
        return latex_of(renamed_in(self._table(table), names))

    def flips_by(self, what: str = "instruction") -> pd.DataFrame:
        """What becomes of flips by what they have hit: the table of `mcage show --by`.

        Parameters
        ----------
        what : str
            ``instruction``, ``register``, ``bit`` or ``lane``.

        Raises
        ------
        UserError
            The results are none of flips, or there is nothing of that name.
        """
        shown = presentation_of(grids.header_of(self._results))
        return table_frame(shown.table_by(shown.summarize_by(self._results, what), what))

    def _table(self, number: int) -> ResultTable:
        """One of the tables of the study."""
        results = grids.with_lives(self._results)
        header = grids.header_of(results)
        grids.warn_of_dependence(header)
        shown = presentation_of(header)
        whole = shown.table_of(shown.summarize(results))
        tables = (whole, *whole.below)
        if not 0 <= number < len(tables):
            raise UserError(f"table {number}: this study has the tables 0 ... {len(tables) - 1}")
        return tables[number]

    def survival(
        self, ages_years: Sequence[float] | None = None, confidence: float = CONFIDENCE
    ) -> pd.DataFrame:
        """Kaplan-Meier curves with their log-log bands, and the numbers at risk.

        Parameters
        ----------
        ages_years : sequence of float, optional
            Ages; by default 0, each age at which an instance dies, and the horizon.
        confidence : float
            Probability that the band covers at each age.

        Returns
        -------
        pandas.DataFrame
            A line for each case and age: ``survival``, the share alive after that age, with its
            bounds, and ``at_risk``, the number alive just before it. Bounds are NaN where nobody
            is left.

        Raises
        ------
        UserError
            The study simulates no lives, or an age lies beyond the horizon.
        """

        def curve(lives: CaseLives) -> Rows:
            steps = kaplan_meier(lives.years, lives.died, confidence)
            default = np.unique([0.0, *steps.years, lives.horizon_years])
            ages = _ages(ages_years, default, lives)
            step = np.searchsorted(steps.years, ages, side="right")
            of_steps = {
                "survival": steps.survival,
                "survival_lower": steps.lower,
                "survival_upper": steps.upper,
            }
            return (
                {"age_years": ages}
                | {name: np.concatenate([[1.0], of])[step] for name, of in of_steps.items()}
                | {"at_risk": lives.years.size - np.searchsorted(np.sort(lives.years), ages)}
            )

        return self._by_case(curve, confidence)

    def life_quantile(self, share: float = 0.5, confidence: float = CONFIDENCE) -> pd.DataFrame:
        """Age at which a share of the instances are dead, ``life_years``, by case.

        Parameters
        ----------
        share : float
            Between 0 and 1; 0.5 for the median life.
        confidence : float
            Probability that the interval covers; it assumes no distribution.

        Raises
        ------
        UserError
            As `survival`; or the share is out of range.
        """
        return self._quantile("life_years", share, confidence)

    def _quantile(self, name: str, share: float, confidence: float) -> pd.DataFrame:
        _check_share(share)

        def row(lives: CaseLives) -> Rows:
            reached = life_quantile(lives.years, lives.died, share, confidence)
            return [_expanded({"instances": lives.years.size, name: reached})]

        return self._by_case(row, confidence)

    def b10(self, confidence: float = CONFIDENCE) -> pd.DataFrame:
        """Age at which a tenth of the instances are dead, ``b10_life_years``, by case."""
        return self._quantile("b10_life_years", 0.1, confidence)

    def slower(
        self, limit: float = 0.05, share: float = 0.5, confidence: float = CONFIDENCE
    ) -> pd.DataFrame:
        """Age at which a share of the slices are dead or slower than a limit, by case.

        Parameters
        ----------
        limit : float
            Slowdown against a conventional slice, as a fraction.
        share : float
            Between 0 and 1; 0.1 for the age that nine slices of ten reach.
        confidence : float
            Probability that the interval covers.

        Returns
        -------
        pandas.DataFrame
            ``slower_years`` with its bounds; infinite beyond the horizon.

        Raises
        ------
        UserError
            The study has no slowdown by age; or the share is out of range.
        """
        if missing := set(SLOWDOWN_VARIABLES) - set(self._results.data_vars):
            raise UserError(
                f"there is no {min(missing)} in these results, and so no slowdown by age"
            )
        _check_share(share)
        cases = grids.cases_of(self._results[list(SLOWDOWN_VARIABLES)])
        slower = (years_until_slower(case.results, limit) for case in cases)

        def row(lives: CaseLives) -> Rows:
            years = next(slower)  # cases come in the same order
            reached = life_quantile(years, years < lives.horizon_years, share, confidence)
            fields = {"instances": years.size, "limit": limit, "slower_years": reached}
            return [_expanded(fields)]

        return self._by_case(row, confidence)

    def rmst(self, age_years: float | None = None, confidence: float = CONFIDENCE) -> pd.DataFrame:
        """Restricted mean survival time: mean years lived up to an age, ``rmst_years``, by case.

        Parameters
        ----------
        age_years : float, optional
            The age; by default the horizon.
        confidence : float
            Probability that the interval covers.

        Raises
        ------
        UserError
            As `survival`.
        """

        def row(lives: CaseLives) -> Rows:
            age = lives.horizon_years if age_years is None else age_years
            _check_age(age, lives)
            lived = mean(np.minimum(lives.years, age), confidence, within=(0.0, age))
            fields = {"instances": lives.years.size, "age_years": age, "rmst_years": lived}
            return [_expanded(fields)]

        return self._by_case(row, confidence)

    def rate_at(
        self, ages_years: float | Sequence[float], confidence: float = CONFIDENCE
    ) -> pd.DataFrame:
        """Failures by some ages in ppm, and their mean rate until then in FIT, by case and age.

        Parameters
        ----------
        ages_years : float or sequence of float
            Ages above 0, within the horizon.
        confidence : float
            Probability that the interval covers.

        Returns
        -------
        pandas.DataFrame
            A line for each case and age: ``failed_ppm``, the instances that are dead by that age,
            ``dead_on_arrival_ppm``, and ``mean_rate_fit`` of those that worked at all, in failures
            in 1e9 hours, NaN where none of them is left.

        Raises
        ------
        UserError
            As `survival`.
        """
        ages = np.atleast_1d(np.asarray(ages_years, dtype=np.float64)).tolist()

        def rates(lives: CaseLives) -> Rows:
            for age in ages:
                _check_age(age, lives)
                if age == 0:
                    raise UserError("age 0 years: there is no rate until then")
            return [_expanded(vars(failure_rate(lives, age, confidence))) for age in ages]

        return self._by_case(rates, confidence)

    def paired(
        self,
        first: str,
        second: str,
        other: xr.Dataset | None = None,
        allow: Sequence[str] = (),
    ) -> pd.DataFrame:
        """Differences between two cases, die by die: instance i is the same die in both.

        Parameters
        ----------
        first, second : str
            Cases, as of `case`; of whole GPUs, by policy or policy and
            technique.
        other : xarray.Dataset, optional
            Results that the second case is of; by default these. Seeds must be equal; instances
            that both have are compared.
        allow : sequence of str
            Keys in which the specs of both results may differ, such as ``aging.model``, or
            sections. What tells cases and instances apart may differ anyway.

        Returns
        -------
        pandas.DataFrame
            A line for each ``quantity``: ``dies`` that have it in both, the means ``first`` and
            ``second``, ``difference`` (first minus second) and ``ratio``, each with its bounds,
            and ``variance_reduction``: as many times more dies would be needed if both had dies
            of their own. Quantities have the unit of their name; fractions have none. Of whole
            GPUs, what is given by age is compared at the last one.

        Raises
        ------
        UserError
            A name means no case or several, both are the same case, or the two results are not
            of the same dies, or of specs that differ in what has not been allowed.
        """
        case, another = self._both(first, second, other, allow)
        if compared_measures(case.results):
            lines = measured_lines(case.results, another.results, paired=True)
        else:
            lines = study_lines(_compared(case), _compared(another), paired=True)
        return pd.DataFrame([_expanded({"quantity": of.key} | vars(of.means)) for of in lines])

    def outliving(
        self,
        first: str,
        second: str,
        other: xr.Dataset | None = None,
        allow: Sequence[str] = (),
    ) -> pd.DataFrame:
        """How often each of two cases keeps an instance alive for longer, and the sign test.

        Parameters
        ----------
        first, second, other, allow
            As of `paired`.

        Returns
        -------
        pandas.DataFrame
            One line: the shares of the instances that live longer in the ``first`` and in the
            ``second`` case, die at the same age ``together``, and are alive in both at the
            horizon (``unknown``); ``first_of_decided``, and ``p_value`` of the sign test.

        Raises
        ------
        UserError
            As `paired`; or the study simulates no lives.
        """
        parts = self._both(first, second, other, allow)
        lives, others = (next(grids.lives_in(part.results))[1] for part in parts)
        shares = outliving(lives.years, lives.died, others.years, others.died)
        return pd.DataFrame([_expanded({"instances": lives.years.size} | vars(shares))])

    def _both(
        self, first: str, second: str, other: xr.Dataset | None, allow: Sequence[str]
    ) -> tuple[grids.GridCase, grids.GridCase]:
        """Both cases with the instances that they have in common."""
        case = grids.case_named(self._results, first)
        if other is not None:
            _require_same_dies(self._results, other, allow)
        another = grids.case_named(self._results if other is None else other, second)
        grids.warn_of_dependence(grids.header_of(self._results))
        if other is None:
            if another.name == case.name:
                raise UserError(f"{first!r} and {second!r} are both {case.name!r}: two are needed")
            return case, another
        ids, others = case.results["instance"].values, another.results["instance"].values
        common, *places = np.intersect1d(ids, others, assume_unique=True, return_indices=True)
        if not common.size:
            raise UserError("the two datasets have no instance in common")
        case, another = (
            replace(of, results=of.results.isel(instance=at))
            for of, at in zip((case, another), places, strict=True)
        )
        return case, another

    def causes(
        self, ages_years: Sequence[float] | None = None, confidence: float = CONFIDENCE
    ) -> pd.DataFrame:
        """Cumulative incidence of each cause of death, while the others compete, by case and age.

        Parameters
        ----------
        ages_years : sequence of float, optional
            Ages; by default 0 and the ends of the epochs, or the ages of the file.
        confidence : float
            Probability that the band covers at each age.

        Returns
        -------
        pandas.DataFrame
            A line for each case, cause and age: ``share`` of all instances that have died of the
            cause up to and including that age; of the cause ``alive``, the share that is left.

        Raises
        ------
        UserError
            As `survival`.
        """
        results = self._results
        causes = grids.causes_in(results) if "end_cause" in results else {}

        def curves(lives: CaseLives) -> Rows:
            default = np.unique([0.0, *grids.ages_of(grids.header_of(results))])
            ages = _ages(ages_years, default, lives)

            def dead(cause: str, of_cause: Any) -> pd.DataFrame:
                of = cumulative_incidence(lives.years, lives.died, of_cause, ages, confidence)
                shares = {"share": of.share, "share_lower": of.lower, "share_upper": of.upper}
                return pd.DataFrame({"age_years": ages, "cause": cause, **shares})

            ended = dead("alive", lives.died)
            alive = ended.assign(
                share=1 - ended["share"],
                share_lower=1 - ended["share_upper"],
                share_upper=1 - ended["share_lower"],
            )
            parts = [dead(name, lives.cause == number) for number, name in causes.items()]
            return pd.concat([*parts, alive], ignore_index=True)

        return self._by_case(curves, confidence)

    def _by_case(self, rows_of: "Callable[[CaseLives], Rows]", confidence: float) -> pd.DataFrame:
        """Rows of all cases below each other, with the labels of their case in front."""
        if not 0 < confidence < 1:
            raise UserError(f"confidence = {confidence}: must lie between 0 and 1, both excluded")
        cases = grids.lives_in(self._results)
        return _stacked((case.labels, rows_of(lives)) for case, lives in cases)

    def exchanged(
        self,
        ages_years: Sequence[float] | None = None,
        due_fit: float = 0.0,
        years: npt.ArrayLike | None = None,
        confidence: float = CONFIDENCE,
        **rule: Unpack[RuleKeys],
    ) -> pd.DataFrame:
        """Share of the GPUs that are exchanged by some ages, by case and age.

        Parameters
        ----------
        ages_years : sequence of float, optional
            Ages; by default 0, each whole year, and the horizon.
        due_fit : float
            Soft errors that are detected and not corrected, in FIT a slice; they count as well.
        years : array of float [case, instance, rank], optional
            Ages at which words become uncorrectable, rising, NaN where there are no more; by
            default the variable ``uncorrectable_years``.
        confidence : float
            Probability that the interval covers.
        **rule
            ``rule`` (``"secded"``, ``"parity"`` or a number of words), ``sms``,
            ``slices_per_sm``, ``banks_per_sm``, ``spare_sms``: when a GPU is exchanged;
            docs/exchange.md.

        Returns
        -------
        pandas.DataFrame
            A line for each case and age: ``exchanged``, the share of the GPUs of which more SMs
            than may be given up have a bank with too many words; ``with_dead_slices``, of which
            more of them have a dead slice; ``either``. ``dies`` are the simulated GPUs; 0 where
            dies do not differ, and GPUs are made of ``simulated_sms`` independent SMs.

        Raises
        ------
        UserError
            The ages of uncorrectable words are not known, GPUs cannot be made of these slices, or
            a number is out of range.
        """
        question = ExchangeQuestion(ExchangeRule.of(**rule), due_fit, ages_years, years, confidence)
        summaries = summarize_exchange(grids.with_lives(self._results), question)
        return table_frame(table_of_exchange(summaries))

    def to_pandas(self, variables: Sequence[str] | None = None) -> pd.DataFrame:
        """Lives as a table: a row for each case and instance.

        Parameters
        ----------
        variables : sequence of str, optional
            Variables of each instance; by default all but those that have a value for each epoch
            or age. A further dimension makes a column for each of its places:
            ``max_dvth_mv_T0``, ``max_dvth_mv_T1``. Labels and causes of death are categories.

        Raises
        ------
        UserError
            There is no such variable.
        """
        return grids.table_of_lives(self._results, variables)

    def iter_pandas(
        self, instances: int = 2048, variables: Sequence[str] | None = None
    ) -> Iterator[pd.DataFrame]:
        """The rows of `to_pandas` in parts, for results that do not fit into memory.

        Parameters
        ----------
        instances : int
            Instances of a part; a part holds them in all cases.
        variables : sequence of str, optional
            As of `to_pandas`.

        Raises
        ------
        UserError
            There is no such variable, or the number is not positive.
        """
        return grids.parts_of_lives(self._results, variables, instances)

    # ---- figures ---------------------------------------------------------------------------

    def plot_survival(
        self, axes: "Axes | None" = None, width_mm: float = 180.0, **options: Unpack["FigureKeys"]
    ) -> Any:
        """Share of the slices, or of the GPUs, that still work, against age, as `mcage report`.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Axes to draw the cases of one environment, scenario and Vdd on, or all policies; by
            default a figure with a panel for each of these, numbers at risk and notes.
        width_mm : float
            Width of that figure: 85 for a column of a paper, 180 for a page.
        **options
            ``height_mm`` of that figure, by default what its panels need; whether it has its
            ``title``, which says the population, the numbers below the axes (``at_risk``), and the
            ``bands`` around its curves, by default all of these; ``labels``, what techniques or
            policies are called in the figure, by their names in the results:
            ``{"nextfit:NEXT_FIT": "next fit"}``. Dollar signs enclose mathematics. Default: what a
            technique calls itself.

        Returns
        -------
        matplotlib.figure.Figure or matplotlib.axes.Axes
            The figure, or the axes; ``axes.legend()`` names the techniques. Axes say neither the
            population nor which cases have no curve: say so beside them. In a notebook, or if
            `matplotlib.pyplot` has been imported, the figure is one of pyplot's:
            ``pyplot.show()`` shows it, and ``pyplot.close()`` closes it.

        Raises
        ------
        UserError
            The study simulates no lives, there is nothing to draw, axes or a page cannot hold all
            cases, or a label is of no technique.
        """
        from mcage.analysis.drawing import draw

        return draw(self._results, "survival", axes, width_mm, **options)

    def plot_dvth(
        self,
        what: Shift = "worst",
        axes: "Axes | None" = None,
        width_mm: float = 180.0,
        **options: Unpack["FigureKeys"],
    ) -> Any:
        """Threshold shifts: a figure of `mcage report`.

        Parameters
        ----------
        what : {'worst', 'cells', 'age'}
            Shares of the slices by the shift of their worst cell, or of sampled cells; or how the
            shift of the worst cell grows with age.
        axes, width_mm, **options
            As of `plot_survival`; only ``'age'`` has numbers below its axes, and bands.

        Raises
        ------
        UserError
            The study has no such figure; or as `plot_survival`.
        """
        from mcage.analysis.drawing import NAMES, draw

        if what not in NAMES:
            raise UserError(f"what = {what!r}: must be one of {', '.join(NAMES)}")
        if what == "cells":
            grids.whole_histogram(self._results)
        return draw(self._results, NAMES[what], axes, width_mm, **options)

    def plot_pareto(
        self, axes: "Axes | None" = None, width_mm: float = 180.0, **options: Unpack["FigureKeys"]
    ) -> Any:
        """Cases by the objectives of their study, the larger the more probable on the front.

        Of sweeps, mean life against energy saved and area added, as ``mcage pareto`` draws them.

        Parameters
        ----------
        axes, width_mm, **options
            As of `plot_survival`; axes hold the cases of one scenario by two objectives.

        Raises
        ------
        UserError
            The study has a single case, or no two objectives are known; or as `plot_survival`.
        """
        from mcage.analysis.drawing import draw

        return draw(self._results, "pareto", axes, width_mm, **options)

    def plot_against(
        self,
        x: str,
        of: str | Sequence[str] = (),
        axes: "Axes | None" = None,
        width_mm: float = 180.0,
        **options: Unpack["FigureKeys"],
    ) -> Any:
        """Measures against an axis of numbers by which cases differ, as ``mcage report --x``.

        Parameters
        ----------
        x : str
            Name or key of the axis, such as ``"vdd"``; cases that differ on other axes have curves
            of their own.
        of : str or sequence of str
            Keys of measures, as in the columns of ``mcage show --csv``, a panel for each; by
            default all of which less or more is better.
        axes, width_mm, **options
            As of `plot_survival`; axes hold one measure.

        Raises
        ------
        UserError
            There is no such axis of numbers, or no such measure; or as `plot_survival`.
        """
        from mcage.analysis.drawing import draw

        return draw(self._results, "", axes, width_mm, x=x, of=listed(of), **options)


# Parts of tables of lives.


def table_frame(table: ResultTable) -> pd.DataFrame:
    """Columns of a table under their keys, each estimate followed by its bounds."""
    columns: dict[str, list[Any]] = {}
    for column in table.columns:
        if not column.key:
            continue
        columns[column.key] = [cell.value for cell in column.cells]
        if column.has_intervals:
            for bound in ("lower", "upper"):
                columns[f"{column.key}_{bound}"] = [getattr(cell, bound) for cell in column.cells]
    return pd.DataFrame(columns)


def _expanded(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row in which each estimate is followed by its bounds."""
    expanded: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Estimate):
            bounds = {f"{name}_lower": value.lower, f"{name}_upper": value.upper}
            expanded |= {name: value.value, **bounds}
        else:
            expanded[name] = value
    return expanded


def _stacked(parts: Iterable[tuple[dict[str, Any], Rows]]) -> pd.DataFrame:
    """Rows of cases below each other, with the labels of their case in the first columns."""
    frames = ((labels, pd.DataFrame(rows)) for labels, rows in parts)
    named = [frame.assign(**labels)[[*labels, *frame.columns]] for labels, frame in frames]
    return pd.concat(named, ignore_index=True)


def _ages(years: Sequence[float] | None, default: Floats, lives: CaseLives) -> Floats:
    if years is None:
        return default
    ages = np.atleast_1d(np.asarray(years, np.float64))
    for age in ages.tolist():
        _check_age(age, lives)
    return ages


def _check_age(age: float, lives: CaseLives) -> None:
    if not 0 <= age <= lives.horizon_years:
        raise UserError(
            f"age {age:g} years: lives are simulated from 0 to {lives.horizon_years:g} years, and "
            "nothing is known beyond"
        )


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise UserError(f"share = {share}: must lie between 0 and 1, both excluded")


def _require_same_dies(results: xr.Dataset, other: xr.Dataset, allow: Sequence[str]) -> None:
    """Refuse datasets of which an instance of the same id is not the same die."""
    headers = grids.header_of(results), grids.header_of(other)
    if headers[0].study != headers[1].study:
        raise UserError(f"they are of different studies, {headers[0].study}, {headers[1].study}")
    if headers[0].seed != headers[1].seed:
        raise UserError(
            f"seeds {headers[0].seed} and {headers[1].seed}: their dies differ, and cannot be "
            "compared die by die; mcage compare compares means of different dies"
        )
    specs = headers[0].spec_toml, headers[1].spec_toml
    differences = headers[0].differences(headers[1])
    refuse_unmeant(differences, allow, keys_of(*specs), lambda keys: f"allow={list(keys)}")
    for note in filter(None, map(note_on_programs, headers)):
        warnings.warn(note, stacklevel=4)


def _compared(case: grids.GridCase) -> xr.Dataset:
    """Numbers of each instance that differ from case to case."""
    arrays = case.results.data_vars.items()
    return xr.Dataset(
        {
            name: array
            for name, array in arrays
            if name in case.compared
            and "instance" in array.dims
            and {*array.dims} <= {"instance", "age"}
            and "flag_values" not in array.attrs
        }
    )
