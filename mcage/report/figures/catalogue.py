"""The figures of each study, in the order in which a report shows them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import xarray as xr

from mcage.errors import UserError
from mcage.plain_text import visible
from mcage.report.cases import Named, labels_of, names_in
from mcage.report.figures import distributions, energy, fault_maps, gpu, lives, shifts
from mcage.report.figures.sheet import AbsentFigure, ReportFigure, Sheet
from mcage.report.notes import note_on_code, plan_of
from mcage.results.header import Header
from mcage.sweep.header import SweepHeader
from mcage.version import running_code


@dataclass(frozen=True)
class Kind:
    """A figure, or a group of figures, of sweeps.

    Parameters
    ----------
    variables : tuple of str
        Variables of the file that it needs.
    numbers : callable
        What it shows of a case, whose variables have been read.
    draw : callable
        Draws the figures from what they show of all cases, and yields them one by one.
    """

    variables: tuple[str, ...]
    numbers: Callable[[xr.Dataset], Any]
    draw: Callable[[Sequence[Named[Any]], Sheet], Iterator[ReportFigure | AbsentFigure]]


KINDS = (
    Kind(lives.VARIABLES, lives.numbers_of, lives.draw),
    Kind(lives.CAUSES_VARIABLES, lives.numbers_of_causes, lives.draw_causes),
    Kind(shifts.VARIABLES, shifts.numbers_of, shifts.draw),
    Kind(energy.WRITES_VARIABLES, energy.numbers_of_writes, energy.draw_writes),
    Kind(energy.VARIABLES, energy.numbers_of, energy.draw),
    Kind(energy.VARIABLES, energy.numbers_of, energy.draw_voltage),
)
"""Figures of a sweep, of what its file holds."""

OTHER_STUDIES: dict[str, Callable[[xr.Dataset, Sheet], Iterator[ReportFigure | AbsentFigure]]] = {
    "gpu-gating": gpu.draw,
    "gpu-both": gpu.draw_both,
    "gpu-heterogeneity": gpu.draw_heterogeneity,
}
"""What draws the figures of studies that ship with mcage."""

REPLAYED = {
    "duty-bits": "Duty cycles by bit of a register",
    "duty-registers": "Longest duty cycles by register",
    "fault-maps": "Fault maps of a new slice",
}
"""Names and titles of the figures that need the kernels and the dies of the spec again."""


def figures_of(
    header: Header, results: xr.Dataset, width_mm: float, title: bool = True
) -> Iterator[ReportFigure | AbsentFigure]:
    """Draw the figures of a results file, one by one.

    Every variable is read once, case by case. What is kept of a case does not grow with the number
    of instances beyond `mcage.report.figures.lives.MOST_STEPS`.

    Parameters
    ----------
    header : Header
        Header of the file.
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it, or some of its cases.
    width_mm : float
        Width of the figures, such as those of `mcage.report.figures.sheet.WIDTHS_MM`.
    title : bool
        Whether figures have a title.

    Yields
    ------
    ReportFigure or AbsentFigure
        A figure that is laid out, or why it cannot be drawn.

    Raises
    ------
    UserError
        The spec in the file is not one of its study.
    """
    sheet = replace(Sheet.of(header, width_mm), title=title)
    if isinstance(header, SweepHeader):
        yield from _figures_of_sweep(results, sheet)
        yield from replayed_figures(header, results, sheet)
    elif header.study in OTHER_STUDIES:
        yield from OTHER_STUDIES[header.study](results, sheet)
    else:
        yield from distributions.draw(header, results, sheet)


def _figures_of_sweep(results: xr.Dataset, sheet: Sheet) -> Iterator[ReportFigure | AbsentFigure]:
    needed = {name for kind in KINDS for name in kind.variables}
    shown = results.drop_vars([name for name in results.data_vars if name not in needed])
    numbers: list[list[Named[Any]]] = [[] for _ in KINDS]
    for place in range(results.sizes["case"]):
        case = shown.isel(case=place).load()
        for kind, of_cases in zip(KINDS, numbers, strict=True):
            of_cases.append(Named.of(case, kind.numbers(case)))
    for kind, of_cases in zip(KINDS, numbers, strict=True):
        yield from kind.draw(of_cases, sheet)


def replayed_figures(
    header: SweepHeader, results: xr.Dataset, sheet: Sheet
) -> Iterator[ReportFigure | AbsentFigure]:
    """Figures that need the traces and the dies of the sweep, or why they cannot be drawn."""
    if not all(running_code().computes_as(code) for code in header.codes):
        warning = f"WARNING: replayed by other code; the file was {note_on_code(header)}"
        sheet = replace(sheet, caveats=(*sheet.caveats, warning))
    try:
        plan = plan_of(header)
        row = int(results["draw"][0]) if header.draws else None
        techniques = dict.fromkeys(results["technique"].values.tolist())
        names = {names_in(results).get(name, visible(name)): name for name in techniques}
        yield from shifts.draw_duty(plan, names, sheet)
        yield from fault_maps.draw(plan, labels_of(results), header.ids[0], row, sheet)
    except UserError as error:
        for name, title in REPLAYED.items():
            yield AbsentFigure(name, title, f"It cannot be drawn again: {visible(str(error))}.")
