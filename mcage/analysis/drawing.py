"""The figures of a report, drawn from a dataset: whole, or into axes of a figure of one's own."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mcage.analysis.grid import cases_of, header_of, lives_in, study_of, whole_histogram
from mcage.errors import UserError
from mcage.report.cases import Named, Setting, by_setting
from mcage.report.figures import energy, shifts, survival
from mcage.report.figures.figure import AbsentFigure, ReportFigure, Series
from mcage.report.figures.sheet import Sheet
from mcage.report.figures.style import Look, looks_of

Numbers = TypeVar("Numbers")

NAMES = {"worst": "dvth-worst", "cells": "dvth-cells", "age": "dvth-age"}
"""Names of the figures of threshold shifts in a report."""

LEAST_MM, MOST_MM = 40.0, 1000.0
"""Widths of figures."""


def draw_survival(results: xr.Dataset, axes: Axes | None, width_mm: float) -> Figure | Axes:
    """Survival curves, as `Analysis.plot_survival` says."""
    if study_of(results) == "sweep":
        what, cases = "slices", _numbers(results, survival.VARIABLES, survival.numbers_of)
    else:
        what, cases = (
            "GPUs",
            [
                Named(case.name, case.name, Setting("", "", ""), survival.curve_of(lives))
                for case, lives in lives_in(results)
            ],
        )
    looks = looks_of(case.technique for case in cases)
    figure = survival.figure_of(cases, what)
    if axes is None:
        settings = by_setting(cases).items()
        panels = [
            survival.panel_of(setting.title if what == "slices" else "", of_it)
            for setting, of_it in settings
        ]
        return _figure(figure.pages(panels, _sheet(results, width_mm), looks), figure.name)
    _require_alike(cases, lambda case: case.setting, "settings (environment, scenario, Vdd)")
    if all(case.numbers.never_works for case in cases):
        raise UserError("no survival curve to draw: hardly any of these slices works at all")
    series = survival.draw_panel(axes, cases, looks, figure.name)
    axes.set_ylabel(figure.y_label)
    return _named(axes, series, looks)


def draw_shifts(
    results: xr.Dataset, what: str, axes: Axes | None, width_mm: float
) -> Figure | Axes:
    """Threshold shifts, as `Analysis.plot_dvth` says."""
    if what not in NAMES:
        raise UserError(f"what = {what!r}: must be one of {', '.join(NAMES)}")
    if what == "cells":
        whole_histogram(results)
    cases = _numbers(results, shifts.VARIABLES, shifts.numbers_of)
    if axes is None:
        return _figure(shifts.draw(cases, _sheet(results, width_mm)), NAMES[what])
    _require_alike(cases, lambda case: case.setting, "settings (environment, scenario, Vdd)")
    if not any(case.numbers.worked for case in cases):
        raise UserError("no shift to draw: no slice of these cases works when it is new")
    looks = looks_of(case.technique for case in cases)
    if what == "age":
        return _named(axes, shifts.draw_panel_by_age(axes, cases, looks, NAMES[what]), looks)
    ridges = shifts.SLICES if what == "worst" else shifts.CELLS
    axes.set_ylabel(ridges.y_label)
    return _named(axes, ridges.draw_panel(axes, cases, looks, NAMES[what]), looks)


def draw_pareto(results: xr.Dataset, axes: Axes | None, width_mm: float) -> Figure | Axes:
    """Energy against life, as `Analysis.plot_pareto` says."""
    cases = _numbers(results, energy.VARIABLES, energy.numbers_of)
    if axes is None:
        return _figure(energy.draw(cases, _sheet(results, width_mm)), energy.NAME)
    _require_alike(cases, lambda case: case.setting.scenario, "scenarios")
    if not any(case.numbers.is_drawn for case in cases):
        raise UserError("no energy to draw: of no case is any known")
    looks = looks_of(case.technique for case in cases)
    fills = energy.fills_of(cases)
    return _named(axes, energy.draw_panel(axes, cases, looks, fills, energy.NAME), looks)


def _numbers(
    results: xr.Dataset, variables: Sequence[str], numbers_of: Callable[[xr.Dataset], Numbers]
) -> list[Named[Numbers]]:
    """What a figure shows of each case.

    Raises
    ------
    UserError
        These are not results of a sweep, or a variable has been left out.
    """
    if study_of(results) != "sweep":
        raise UserError(
            f"this figure is of sweeps, and these are results of the study {study_of(results)!r}: "
            "mcage report draws its figures"
        )
    if missing := [name for name in variables if name not in results]:
        raise UserError(f"this figure needs {', '.join(missing)}, which these results lack")
    shown = results.drop_vars([name for name in results.data_vars if name not in variables])
    cases = (case.results.load() for case in cases_of(shown))
    return [Named.of(case, numbers_of(case)) for case in cases]


def _sheet(results: xr.Dataset, width_mm: float) -> Any:
    """Sheet that says how many instances are left in the results."""
    if not LEAST_MM <= width_mm <= MOST_MM:
        raise UserError(f"width_mm = {width_mm:g}: must be {LEAST_MM:g} ... {MOST_MM:g} mm")
    sheet = Sheet.of(header_of(results), width_mm)
    count = results.sizes.get("instance", 1)
    each = " per case" if "case" in results.coords else ""
    return replace(sheet, population=f"{count:,} instances{each}")


def _figure(drawn: Iterator[ReportFigure | AbsentFigure], name: str) -> Figure:
    """The only page of the figure of a name.

    Raises
    ------
    UserError
        It takes several pages, or cannot be drawn.
    """
    pages: list[ReportFigure | AbsentFigure] = []
    for page in drawn:  # what follows the figure need not be drawn
        if page.name.startswith(name):
            pages.append(page)
        elif pages:
            break
    if len(pages) > 1:
        raise UserError(
            f"the cases of these results take {len(pages)} pages: select some of them, such as "
            "those of one environment, or let mcage report draw all pages"
        )
    (page,) = pages
    if isinstance(page, AbsentFigure):
        raise UserError(f"{page.title}: cannot be drawn. {page.reason}")
    _let_notebooks_show_figures()
    return page.figure


def _let_notebooks_show_figures() -> None:
    """Do what Matplotlib does when its first figure is made by pyplot, which these are not."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return
    try:
        shell.display_formatter.formatters["image/png"].lookup_by_type(Figure)
    except KeyError:
        from IPython.core.pylabtools import select_figure_formats

        select_figure_formats(shell, {"png"})  # type: ignore[no-untyped-call]


def _require_alike(
    cases: Sequence[Named[Any]], part: Callable[[Named[Any]], Any], parts: str
) -> None:
    """Refuse cases that belong into several axes."""
    if (count := len({part(case) for case in cases})) > 1:
        raise UserError(
            f"these cases are of {count} {parts}, and axes show one: select one, or leave the "
            "axes out for a figure of all"
        )


def _named(axes: Axes, series: Sequence[Series], looks: Mapping[str, Look]) -> Axes:
    """Give the axes what `axes.legend()` shows: of a curve, its look without others upon it."""
    artists = {artist.get_gid(): artist for artist in axes.get_children()}
    for of_case in series:
        if of_case.kind in ("step", "line"):
            look = looks[of_case.label]
            style = {"color": look.colour, "linestyle": look.linestyle, "marker": look.marker}
            axes.plot([], [], label=of_case.label, **style)
        else:
            artists[of_case.gid].set_label(of_case.label)
    return axes
