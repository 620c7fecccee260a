"""The figures of a report, drawn from a dataset: whole, or into axes of a figure of one's own."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mcage.analysis import grid as grids
from mcage.errors import UserError
from mcage.report import cases as report_cases
from mcage.report.figures import canvas, energy, shifts
from mcage.report.figures import lives as life_figures
from mcage.results.reader import open_results

NAMES = {"worst": "dvth-worst", "cells": "dvth-cells", "age": "dvth-age"}
"""Names of the figures of threshold shifts in a report."""

LEAST_MM, MOST_MM = 40.0, 1000.0
"""Widths and heights of figures."""


@dataclass(frozen=True)
class FigureOptions:
    """How a figure is drawn.

    Parameters
    ----------
    axes : matplotlib.axes.Axes, optional
        Axes to draw on.
    width_mm : float
        Width of a figure of its own.
    title, at_risk, bands : bool
        Whether it has a title, numbers below the axes, and bands.
    labels : mapping of str to str
        Names of techniques for people.
    height_mm : float, optional
        Height of a figure of its own.
    """

    axes: Axes | None = None
    width_mm: float = 180.0
    title: bool = True
    at_risk: bool = True
    bands: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    height_mm: float | None = None


def draw_survival(results: xr.Dataset, options: FigureOptions) -> Figure | Axes:
    """Survival curves, as `Analysis.plot_survival` says."""
    names = report_cases.names_for([grids.header_of(results)], options.labels)
    if grids.grid_of(results) == ("case",):
        what, cases = "slices", _numbers(results, names, life_figures)
    else:
        what, cases = (
            "GPUs",
            [
                report_cases.Named(
                    case.name,
                    _name(case, names),
                    report_cases.Setting("", "", ""),
                    life_figures.curve_of(lives),
                )
                for case, lives in grids.lives_in(results)
            ],
        )
    looks = canvas.looks_of(report_cases.identities(cases))
    figure, sheet = life_figures.figure_of(cases, what), _sheet(results, options)
    settings = report_cases.by_setting(cases).items()
    panels = [
        life_figures.panel_of(setting.title if what == "slices" else "", of_it)
        for setting, of_it in settings
    ]
    if options.axes is None:
        return _figure(figure.pages(panels, sheet, looks), figure.name)
    _require_alike(cases, lambda case: case.setting, "settings (environment, scenario, Vdd)")
    if all(case.numbers.never_works for case in cases):
        raise UserError("no survival curve to draw: hardly any of these slices works at all")
    return _on_axes(options.axes, figure, panels[0], sheet, looks)


def draw_survival_of_file(
    results_path: Path,
    path: Path,
    where: Sequence[report_cases.Condition],
    labels: Mapping[str, str],
) -> None:
    """Draw survival curves of cases of a results file into a file: .png, .pdf or .svg.

    Parameters
    ----------
    results_path, path : Path
        Results file, and figure: of the width of a column for a single setting, else of a page.
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
        chosen = report_cases.selected_cases(results, where)
        cases = (chosen.isel(case=place) for place in range(chosen.sizes["case"]))
        width_mm = canvas.WIDTHS_MM[len(set(map(report_cases.Setting.of, cases))) > 1]
        figure = draw_survival(chosen, FigureOptions(width_mm=width_mm, labels=labels))
    assert isinstance(figure, Figure)
    canvas.save(figure, path)


def draw_shifts(results: xr.Dataset, what: str, options: FigureOptions) -> Figure | Axes:
    """Threshold shifts, as `Analysis.plot_dvth` says."""
    if what not in NAMES:
        raise UserError(f"what = {what!r}: must be one of {', '.join(NAMES)}")
    if what == "cells":
        grids.whole_histogram(results)
    cases = _numbers(
        results, report_cases.names_for([grids.header_of(results)], options.labels), shifts
    )
    sheet, axes = _sheet(results, options), options.axes
    if axes is None:
        return _figure(shifts.draw(cases, sheet), NAMES[what])
    _require_alike(cases, lambda case: case.setting, "settings (environment, scenario, Vdd)")
    if not any(case.numbers.worked for case in cases):
        raise UserError("no shift to draw: no slice of these cases works when it is new")
    looks = canvas.looks_of(report_cases.identities(cases))
    if what == "age":
        figure = shifts.figure_by_age(cases[0].numbers)
        return _on_axes(axes, figure, shifts.panel_by_age(cases[0].setting, cases), sheet, looks)
    ridges = shifts.SLICES if what == "worst" else shifts.CELLS
    return _on_axes(axes, ridges, ridges.panel(cases[0].setting, cases), sheet, looks)


def draw_pareto(results: xr.Dataset, options: FigureOptions) -> Figure | Axes:
    """Energy against life, as `Analysis.plot_pareto` says."""
    cases = _numbers(
        results, report_cases.names_for([grids.header_of(results)], options.labels), energy
    )
    if options.axes is None:
        return _figure(energy.draw(cases, _sheet(results, options)), energy.NAME)
    _require_alike(cases, lambda case: case.setting.scenario, "scenarios")
    if not any(case.numbers.is_drawn for case in cases):
        raise UserError("no energy to draw: of no case is any known")
    panel, sheet = energy.life_panel("", cases), _sheet(results, options)
    figure, looks = energy.life_figure(cases), canvas.looks_of(report_cases.identities(cases))
    return _on_axes(options.axes, figure, panel, sheet, looks)


def _name(case: grids.GridCase, names: Mapping[str, str]) -> str:
    """Name for people of a case of whole GPUs."""
    return " ".join(names.get(str(part), str(part)) for part in case.labels.values())


def _numbers(
    results: xr.Dataset, names: Mapping[str, str], kind: ModuleType
) -> list[report_cases.Named[Any]]:
    """What the figures of a module of `mcage.report.figures` show of each case.

    Raises
    ------
    UserError
        These are not results of a sweep, or a variable has been left out.
    """
    if grids.grid_of(results) != ("case",):
        raise UserError(
            "this figure is of sweeps, and these are results of the study "
            f"{grids.study_of(results)!r}: "
            "mcage report draws its figures"
        )
    if missing := [name for name in kind.VARIABLES if name not in results]:
        raise UserError(f"this figure needs {', '.join(missing)}, which these results lack")
    left_out = [name for name in results.data_vars if name not in kind.VARIABLES]
    shown = report_cases.with_names(results.drop_vars(left_out), names)
    cases = (case.results.load() for case in grids.cases_of(shown))
    others = report_cases.told_beside(results)
    return [report_cases.Named.of(case, kind.numbers_of(case), others) for case in cases]


def _sheet(results: xr.Dataset, options: FigureOptions) -> canvas.Sheet:
    """canvas.Sheet that says how many instances are left in the results."""
    for name in ("width_mm", "height_mm"):
        size = getattr(options, name)
        if size is not None and not LEAST_MM <= size <= MOST_MM:
            raise UserError(f"{name} = {size:g}: must be {LEAST_MM:g} ... {MOST_MM:g} mm")
    header, count = grids.header_of(results), results.sizes.get("instance", 1)
    each = " per case" if "case" in results.coords else ""
    return replace(
        canvas.Sheet.of(header, options.width_mm),
        population=f"{count:,} instances{each}",
        title=options.title,
        rows=options.at_risk,
        bands=options.bands,
        height_mm=options.height_mm,
        names=tuple(report_cases.names_for([header], options.labels).values()),
    )


def _figure(drawn: Iterator[canvas.ReportFigure | canvas.AbsentFigure], name: str) -> Figure:
    """The only page of the figure of a name.

    Raises
    ------
    UserError
        It takes several pages, or cannot be drawn.
    """
    pages: list[canvas.ReportFigure | canvas.AbsentFigure] = []
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
    if isinstance(page, canvas.AbsentFigure):
        raise UserError(f"{page.title}: cannot be drawn. {page.reason}")
    _show_by_pyplot(page.figure)
    return page.figure


def _show_by_pyplot(figure: Figure) -> None:
    """Let pyplot know a figure where it is in use: notebooks and ``show()`` show what it knows."""
    in_notebook = "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None
    if in_notebook or "matplotlib.pyplot" in sys.modules:
        from matplotlib import pyplot

        # What makes figures of a class returns this one instead of a new one.
        pyplot.figure(FigureClass=lambda **_: figure)  # type: ignore[arg-type]


def _require_alike(
    cases: Sequence[report_cases.Named[Any]],
    part: Callable[[report_cases.Named[Any]], Any],
    parts: str,
) -> None:
    """Refuse cases that belong into several axes."""
    if (count := len({part(case) for case in cases})) > 1:
        raise UserError(
            f"these cases are of {count} {parts}, and axes show one: select one, or leave the "
            "axes out for a figure of all"
        )


def _on_axes(
    axes: Axes, figure: canvas.Plot, panel: canvas.Panel, sheet: canvas.Sheet, looks: canvas.Looks
) -> Axes:
    """Draw a panel, and give the axes what `axes.legend()` shows: of a curve, its look alone."""
    axes.set(xlabel=figure.x_label, ylabel=figure.y_label)
    series = figure.draw(axes, replace(panel.on(sheet), rows=()), looks, figure.name)
    artists = {artist.get_gid(): artist for artist in axes.get_children()}
    for of_case in series:
        if of_case.kind in ("step", "line"):
            look = looks[of_case.label]
            style = {"color": look.colour, "linestyle": look.linestyle, "marker": look.marker}
            axes.plot([], [], label=of_case.label, **style)
        else:
            artists[of_case.gid].set_label(of_case.label)
    return axes
