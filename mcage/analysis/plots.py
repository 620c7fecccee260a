"""Figures as methods of `results.mcage`; what draws them is imported when it is needed."""

from typing import TYPE_CHECKING, Literal, overload

import xarray as xr

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Shift = Literal["worst", "cells", "age"]
"""What of threshold shifts is shown: the worst cell of each slice, sampled cells, or growth."""


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
    def plot_survival(self, axes: None = None, width_mm: float = ...) -> "Figure": ...
    @overload
    def plot_survival(self, axes: "Axes", width_mm: float = ...) -> "Axes": ...
    def plot_survival(self, axes: "Axes | None" = None, width_mm: float = 180.0) -> "Figure | Axes":
        """Share of the slices, or of the GPUs, that still work, against age, as `mcage report`.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Axes to draw the cases of one environment, scenario and Vdd on, or all policies; by
            default a figure with a panel for each of these, numbers at risk and notes.
        width_mm : float
            Width of that figure: 85 for a column of a paper, 180 for a page.

        Returns
        -------
        matplotlib.figure.Figure or matplotlib.axes.Axes
            The figure, or the axes; ``axes.legend()`` names the techniques. Axes say neither the
            population nor which cases have no curve: say so beside them.

        Raises
        ------
        UserError
            The study simulates no lives, there is nothing to draw, or axes or a page cannot hold
            all cases.
        """
        from mcage.analysis.drawing import draw_survival

        return draw_survival(self._results, axes, width_mm)

    @overload
    def plot_dvth(
        self, what: Shift = ..., axes: None = None, width_mm: float = ...
    ) -> "Figure": ...
    @overload
    def plot_dvth(self, what: Shift, axes: "Axes", width_mm: float = ...) -> "Axes": ...
    def plot_dvth(
        self, what: Shift = "worst", axes: "Axes | None" = None, width_mm: float = 180.0
    ) -> "Figure | Axes":
        """Threshold shifts: a figure of `mcage report`.

        Parameters
        ----------
        what : {'worst', 'cells', 'age'}
            Histograms of the worst cell of each slice, or of sampled cells; or how the shift of
            the worst cell grows with age.
        axes, width_mm
            As of `plot_survival`.

        Raises
        ------
        UserError
            These are not results of a sweep; or as `plot_survival`.
        """
        from mcage.analysis.drawing import draw_shifts

        return draw_shifts(self._results, what, axes, width_mm)

    @overload
    def plot_pareto(self, axes: None = None, width_mm: float = ...) -> "Figure": ...
    @overload
    def plot_pareto(self, axes: "Axes", width_mm: float = ...) -> "Axes": ...
    def plot_pareto(self, axes: "Axes | None" = None, width_mm: float = 180.0) -> "Figure | Axes":
        """Energy saved against mean life, with the cases that no other one beats in both.

        Parameters
        ----------
        axes, width_mm
            As of `plot_survival`; axes hold the cases of one scenario.

        Raises
        ------
        UserError
            These are not results of a sweep; or as `plot_survival`.
        """
        from mcage.analysis.drawing import draw_pareto

        return draw_pareto(self._results, axes, width_mm)
