"""The figures of a report, drawn from a dataset: whole, or into axes of a figure of one's own."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mcage.analysis import grid as grids
from mcage.errors import UserError
from mcage.report.cases import Condition, names_for, selected_cases, with_names
from mcage.report.figures import against, canvas, pareto
from mcage.report.presentation import presentation_of, sheet_of
from mcage.results.header import Header
from mcage.results.measures import Measure
from mcage.results.reader import open_results

NAMES = {"worst": "dvth-worst", "cells": "dvth-cells", "age": "dvth-age"}
"""Names of the figures of threshold shifts in a report."""

LEAST_MM, MOST_MM = 40.0, 1000.0
"""Widths and heights of figures."""


class FigureKeys(TypedDict, total=False):
    """Keywords that all figures take; see `Analysis.plot_survival`."""

    height_mm: float | None
    title: bool
    at_risk: bool
    bands: bool
    labels: Mapping[str, str]


def draw(
    results: xr.Dataset,
    name: str,
    axes: Axes | None = None,
    width_mm: float | None = None,
    x: str = "",
    of: Sequence[str] = (),
    **options: Unpack[FigureKeys],
) -> Figure | Axes:
    """Draw the figure of a name, as `Analysis.plot_survival` says.

    Parameters
    ----------
    results : xarray.Dataset
        What is drawn.
    name : str
        Name of the figure in a report.
    axes, width_mm, **options
        As of `Analysis.plot_survival`; by default the width of a column of a paper for a single
        panel, else of a page.
    x, of
        As of `Analysis.plot_against`.
    """
    height_mm = options.get("height_mm")
    for key, size in (("width_mm", width_mm), ("height_mm", height_mm)):
        if size is not None and not LEAST_MM <= size <= MOST_MM:
            raise UserError(f"{key} = {size:g}: must be {LEAST_MM:g} ... {MOST_MM:g} mm")
    header = grids.header_of(results)
    shown = with_names(grids.with_lives(results), names_for([header], options.get("labels", {})))
    figures: Iterator[canvas.Plot | canvas.AbsentFigure]
    if x:
        figures = iter([against.plot_of(shown, x, _measures(header, of))])
    elif name == "pareto":
        figures = pareto.of_file(header, shown)
    else:
        figures = presentation_of(header).figures(header, shown)
    figure = _named(figures, name, header.study)
    width_mm = width_mm or canvas.WIDTHS_MM[len(figure.panels) > 1]
    count = shown.sizes.get("instance", 1)
    each = " per case" if "case" in shown.coords else ""
    sheet = replace(
        sheet_of(header, shown, width_mm),
        population=f"{count:,} instances{each}",
        height_mm=height_mm,
        title=options.get("title", True),
        rows=options.get("at_risk", True),
        bands=options.get("bands", True),
    )
    if axes is not None:
        return _on_axes(axes, figure, sheet)
    page, *others = figure.pages(sheet)
    if others:
        raise UserError(
            f"the cases of these results take {1 + len(others)} pages: select some of them, such "
            "as those of one environment, or let mcage report draw all pages"
        )
    _show_by_pyplot(page.figure)
    return page.figure


def _measures(header: Header, keys: Sequence[str]) -> list[Measure]:
    """Measures of these keys, or all of which less or more is better."""
    known = {measure.key: measure for measure in header.measures}
    if unknown := [key for key in keys if key not in known]:
        there = ", ".join(known)
        raise UserError(f"of = {unknown[0]!r}: there is no such measure; there are {there}")
    return [known[key] for key in keys] or [of for of in header.measures if of.better]


def _named(
    figures: Iterator[canvas.Plot | canvas.AbsentFigure], name: str, study: str
) -> canvas.Plot:
    """The figure of a name, or the first; what follows it is not made.

    Raises
    ------
    UserError
        There is none, or it cannot be drawn.
    """
    figure = next((figure for figure in figures if name in ("", figure.name)), None)
    if figure is None:
        raise UserError(f"the study {study!r} has no figure {name}: mcage report draws its figures")
    if isinstance(figure, canvas.AbsentFigure):
        raise UserError(f"{figure.title}: cannot be drawn. {figure.reason}")
    return figure


def draw_survival_of_file(
    results_path: Path, path: Path, where: Sequence[Condition], labels: Mapping[str, str]
) -> None:
    """Draw survival curves of cases of a results file into a file: .png, .pdf or .svg.

    Parameters
    ----------
    results_path, path : Path
        Results file, and figure: of the width of a column for a single panel, else of a page.
    where : sequence of Condition
        What the cases must fulfil.
    labels : mapping of str to str
        Names of techniques for people.

    Raises
    ------
    UserError
        The results file is missing, foreign or damaged; the figure cannot be drawn or written.
    """
    canvas.check_figure_path(path)
    with open_results(results_path) as results:
        drawn = draw(selected_cases(results, where), "survival", labels=labels)
    assert isinstance(drawn, Figure)
    canvas.save(drawn, path)


def _show_by_pyplot(figure: Figure) -> None:
    """Let pyplot know a figure where it is in use: notebooks and ``show()`` show what it knows."""
    in_notebook = "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None
    if in_notebook or "matplotlib.pyplot" in sys.modules:
        from matplotlib import pyplot

        # Constructors of the class return this figure instead of a new one.
        pyplot.figure(FigureClass=lambda **_: figure)  # type: ignore[arg-type]


def _on_axes(axes: Axes, figure: canvas.Plot, sheet: canvas.Sheet) -> Axes:
    """Draw a panel, and give the axes what `axes.legend()` shows: of a curve, its look alone."""
    if (count := len(figure.panels)) > 1:
        titles = "; ".join(panel.title or panel.y_label for panel in figure.panels)
        raise UserError(
            f"this figure has {count} panels ({titles}), and axes show one: select cases of one, "
            "or leave the axes out for a figure of all"
        )
    panel = replace(figure.named(sheet.shown(figure.panels[0]), figure.name), rows=())
    looks = figure.looks_of_all
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    figure.draw(axes, panel, looks)
    artists = {artist.get_gid(): artist for artist in axes.get_children()}
    for series in panel.series:
        if series.kind in ("step", "line"):
            look = looks[series.label]
            style = {"color": look.colour, "linestyle": look.linestyle, "marker": look.marker}
            axes.plot([], [], label=series.label, **style)
        else:
            artists[series.gid].set_label(series.label)
    return axes
