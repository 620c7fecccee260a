"""`results.mcage`: statistics, tables and figures of the results of a study."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from mcage.analysis import frames
from mcage.analysis import grid as grids
from mcage.analysis.frames import MOST_BYTES, parts_of_lives, table_of_lives
from mcage.errors import UserError
from mcage.gpu.exchange.rule import ExchangeRule, RuleKeys
from mcage.gpu.exchange.shares import Question, summarize_exchange, table_of_exchange
from mcage.plain_text import visible
from mcage.report.cases import names_for
from mcage.report.notes import caveats_of, note_on_code
from mcage.report.presentation import presentation_of
from mcage.report.tables import ResultTable, latex_of, renamed_in
from mcage.stats.estimates import CONFIDENCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Figures as methods of `results.mcage`; what draws them is imported when it is needed.

Shift = Literal["worst", "cells", "age"]
"""What of threshold shifts is shown: the worst cell of each slice, sampled cells, or growth."""


class Words(TypedDict, total=False):
    """Keywords that all figures take; see `Plots.plot_survival`."""

    title: bool
    height_mm: float | None
    labels: Mapping[str, str] | None


class Parts(Words, total=False):
    """Keywords that figures of curves take, too."""

    at_risk: bool
    bands: bool


class Plots:
    """The figures of `Analysis`.

    Parameters
    ----------
    results : xarray.Dataset
        What is drawn.
    """

    def __init__(self, results: xr.Dataset) -> None:
        self._results = results

    @overload
    def plot_survival(
        self, axes: None = None, width_mm: float = ..., **parts: Unpack[Parts]
    ) -> "Figure": ...
    @overload
    def plot_survival(
        self, axes: "Axes", width_mm: float = ..., **parts: Unpack[Parts]
    ) -> "Axes": ...
    def plot_survival(
        self,
        axes: "Axes | None" = None,
        width_mm: float = 180.0,
        *,
        height_mm: float | None = None,
        title: bool = True,
        at_risk: bool = True,
        bands: bool = True,
        labels: Mapping[str, str] | None = None,
    ) -> "Figure | Axes":
        """Share of the slices, or of the GPUs, that still work, against age, as `mcage report`.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Axes to draw the cases of one environment, scenario and Vdd on, or all policies; by
            default a figure with a panel for each of these, numbers at risk and notes.
        width_mm : float
            Width of that figure: 85 for a column of a paper, 180 for a page.
        height_mm : float, optional
            Its height; by default what its panels need.
        title, at_risk, bands : bool
            Whether the figure has its title, which says the population, the numbers below the
            axes, and the bands around its curves. Default: all of these.
        labels : mapping of str to str
            What techniques or policies are called in the figure, by their names in the results:
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
        from mcage.analysis.drawing import FigureOptions, draw_survival

        options = FigureOptions(axes, width_mm, title, at_risk, bands, labels or {}, height_mm)
        return draw_survival(self._results, options)

    @overload
    def plot_dvth(
        self,
        what: Shift = ...,
        axes: None = None,
        width_mm: float = ...,
        **parts: Unpack[Parts],
    ) -> "Figure": ...
    @overload
    def plot_dvth(
        self, what: Shift, axes: "Axes", width_mm: float = ..., **parts: Unpack[Parts]
    ) -> "Axes": ...
    def plot_dvth(
        self,
        what: Shift = "worst",
        axes: "Axes | None" = None,
        width_mm: float = 180.0,
        *,
        height_mm: float | None = None,
        title: bool = True,
        at_risk: bool = True,
        bands: bool = True,
        labels: Mapping[str, str] | None = None,
    ) -> "Figure | Axes":
        """Threshold shifts: a figure of `mcage report`.

        Parameters
        ----------
        what : {'worst', 'cells', 'age'}
            Histograms of the worst cell of each slice, or of sampled cells; or how the shift of
            the worst cell grows with age.
        axes, width_mm, height_mm, title, at_risk, bands, labels
            As of `plot_survival`; only ``'age'`` has numbers below its axes, and bands.

        Raises
        ------
        UserError
            These are not results of a sweep; or as `plot_survival`.
        """
        from mcage.analysis.drawing import FigureOptions, draw_shifts

        options = FigureOptions(axes, width_mm, title, at_risk, bands, labels or {}, height_mm)
        return draw_shifts(self._results, what, options)

    @overload
    def plot_pareto(
        self, axes: None = None, width_mm: float = ..., **parts: Unpack[Words]
    ) -> "Figure": ...
    @overload
    def plot_pareto(
        self, axes: "Axes", width_mm: float = ..., **parts: Unpack[Words]
    ) -> "Axes": ...
    def plot_pareto(
        self,
        axes: "Axes | None" = None,
        width_mm: float = 180.0,
        *,
        height_mm: float | None = None,
        title: bool = True,
        labels: Mapping[str, str] | None = None,
    ) -> "Figure | Axes":
        """Energy saved against mean life, with the cases that no other one beats in both.

        Parameters
        ----------
        axes, width_mm, height_mm, title, labels
            As of `plot_survival`; axes hold the cases of one scenario.

        Raises
        ------
        UserError
            These are not results of a sweep; or as `plot_survival`.
        """
        from mcage.analysis.drawing import FigureOptions, draw_pareto

        options = FigureOptions(
            axes, width_mm, title=title, labels=labels or {}, height_mm=height_mm
        )
        return draw_pareto(self._results, options)


@xr.register_dataset_accessor("mcage")  # type: ignore[no-untyped-call]
class Analysis(Plots):
    """Statistics, tables and figures of results, under ``results.mcage``.

    Every method computes of what is left after ``sel`` and ``isel`` of cases and instances. Tables
    are data frames of pandas; the columns ``NAME_lower`` and ``NAME_upper`` are the bounds of the
    interval of ``NAME``, NaN where the sample gives none. An age beyond the horizon is infinite.

    Parameters
    ----------
    results : xarray.Dataset
        What `mcage.open_results` returns, or a part or a copy of it.
    """

    def __repr__(self) -> str:
        methods = ", ".join(name for name in dir(type(self)) if not name.startswith("_"))
        return f"Analysis of the study {grids.study_of(self._results)!r}: {methods}"

    def notes(self) -> list[str]:
        """What must be said wherever these results are shown.

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

        Values are read when they are needed, as before. Where no case has a combination, numbers
        are NaN; integers are therefore floats if a combination is missing, and only then. By
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
        return frames.table_frame(self._table(table))

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
        return frames.survival_frame(self._results, ages_years, confidence)

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
        return frames.quantile_frame(self._results, "life_years", share, confidence)

    def b10(self, confidence: float = CONFIDENCE) -> pd.DataFrame:
        """Age at which a tenth of the instances are dead, ``b10_life_years``, by case."""
        return frames.quantile_frame(self._results, "b10_life_years", 0.1, confidence)

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
        return frames.slower_frame(self._results, limit, share, confidence)

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
        return frames.rmst_frame(self._results, age_years, confidence)

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
        ages = np.atleast_1d(np.asarray(ages_years, dtype=np.float64))
        return frames.rates_frame(self._results, ages, confidence)

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
        return frames.paired_frame(self._results, first, frames.Second(second, other, allow))

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
        return frames.outliving_frame(self._results, first, frames.Second(second, other, allow))

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
        return frames.causes_frame(self._results, ages_years, confidence)

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
        question = Question(ExchangeRule.of(**rule), due_fit, ages_years, years, confidence)
        summaries = summarize_exchange(grids.with_lives(self._results), question)
        return frames.table_frame(table_of_exchange(summaries))

    def histogram(self) -> pd.DataFrame:
        """Sampled cells by threshold shift: a line for each case, transistor and bin.

        The last bin also counts the cells above it. The histogram is of all instances of the file
        that worked at all, whichever instances have been selected.

        Raises
        ------
        UserError
            The study counts no cells.
        """
        return frames.histogram_frame(self._results)

    def to_pandas(
        self, variables: Sequence[str] | None = None, most_bytes: int = MOST_BYTES
    ) -> pd.DataFrame:
        """Lives as a table: a row for each case and instance.

        Parameters
        ----------
        variables : sequence of str, optional
            Variables of each instance; by default all but those that have a value for each epoch
            or age. A further dimension makes a column for each of its places:
            ``max_dvth_mv_T0``, ``max_dvth_mv_T1``. Labels and causes of death are categories.
        most_bytes : int
            Largest size of the table; by default 1 GiB. While it is made, the largest variable is
            in memory once more.

        Raises
        ------
        UserError
            There is no such variable, or the table would be larger; the message says by how much,
            and what to do.
        """
        return table_of_lives(self._results, variables, most_bytes)

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
        return parts_of_lives(self._results, variables, instances)
