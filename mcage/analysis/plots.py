"""Figures as methods of `results.mcage`; what draws them is imported when it is needed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, overload

import xarray as xr

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Shift = Literal["worst", "cells", "age"]
"""What of threshold shifts is shown: the worst cell of each slice, sampled cells, or growth."""


class Words(TypedDict, total=False):
    """Keywords that all figures take; see `Plots.plot_survival`."""

    title: bool
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
        title, at_risk, bands : bool
            Whether the figure has its title, which says the population, the numbers below the
            axes, and the bands around its curves. Default: all of these.
        labels : mapping of str to str
            What techniques or policies are called in the figure, by their names in the results:
            ``{"nextfit:NEXT_FIT": "next fit"}``. Default: what a technique calls itself.

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

        options = FigureOptions(axes, width_mm, title, at_risk, bands, labels or {})
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
        axes, width_mm, title, at_risk, bands, labels
            As of `plot_survival`; only ``'age'`` has numbers below its axes, and bands.

        Raises
        ------
        UserError
            These are not results of a sweep; or as `plot_survival`.
        """
        from mcage.analysis.drawing import FigureOptions, draw_shifts

        options = FigureOptions(axes, width_mm, title, at_risk, bands, labels or {})
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
        title: bool = True,
        labels: Mapping[str, str] | None = None,
    ) -> "Figure | Axes":
        """Energy saved against mean life, with the cases that no other one beats in both.

        Parameters
        ----------
        axes, width_mm, title, labels
            As of `plot_survival`; axes hold the cases of one scenario.

        Raises
        ------
        UserError
            These are not results of a sweep; or as `plot_survival`.
        """
        from mcage.analysis.drawing import FigureOptions, draw_pareto

        options = FigureOptions(axes, width_mm, title=title, labels=labels or {})
        return draw_pareto(self._results, options)
