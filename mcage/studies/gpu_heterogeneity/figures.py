"""Figures of studies of heterogeneous structures."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import xarray as xr

from mcage.plain_text import visible
from mcage.report.figures import canvas, distributions
from mcage.report.figures.curves import CurveFigure

# Figures of studies of heterogeneous structures: efficiency, delays, and where the order holds.

Y_LABEL = "draws with at most this value (%)"

PARTS = (
    ("scheduler, FinFET stage", "second_stage_delay"),
    ("scheduler, planar stage", "first_stage_delay"),
    ("L2, FinFET data array", "data_array_delay"),
    ("L2, planar tags", "tags_delay"),
)
"""Parts of the proposal and the variables of their delay increases."""


def draw(results: xr.Dataset, sheet: canvas.Sheet) -> Iterator[canvas.ReportFigure]:
    """Draw the figures of a study: curves and rows for each design, panels for each reading."""
    readings = [visible(str(name)) for name in results["reading"].values.tolist()]
    designs = [visible(str(name)) for name in results["design"].values.tolist()]
    yield from _efficiency(results, readings, designs, sheet)
    yield from _delays(results, readings, designs, sheet)
    yield from _order(results, readings, sheet)


def _efficiency(
    results: xr.Dataset, readings: list[str], designs: list[str], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure]:
    panels = []
    for place, reading in enumerate(readings):
        curves, better = [], {}
        for row, design in enumerate(designs):
            values = results["efficiency"].isel(reading=place, design=row).values
            if np.all(values == 1.0):
                continue  # the baseline, of which the others are ratios
            curves.append(distributions.share_curve(design, values, case=f"{reading} {design}"))
            better[design] = 100 * float(np.mean(values < 1.0))
        words = ", ".join(f"{design} in {share:.3g} %" for design, share in better.items())
        title = f"reading {reading}"
        panels.append(canvas.Panel(title, tuple(curves), alt=f"{title}: better: {words} of draws."))
    highest = max(float(curve.x[-1]) for panel in panels for curve in panel.series)
    lowest = min(float(curve.x[0]) for panel in panels for curve in panel.series)
    figure = CurveFigure(
        name="efficiency",
        title=f"NBTI efficiency of designs, {canvas.PERCENT} bands",
        caption="Share of the draws in which the NBTI efficiency of a design, (D (1 + delay "
        "increase))^3 P over the baseline's, is not larger than the value of the axis, with "
        f"pointwise {canvas.PERCENT} bands after Wilson. Less than 1 is better than the baseline, "
        "which "
        "is 1 in every draw and has no curve.",
        x_label="efficiency over the baseline's (less is better)",
        y_label=Y_LABEL,
        kind="distribution",
        x_limits=(min(lowest, 1.0), max(highest, 1.0)),
        y_limits=(0.0, 103.0),
        x_mark=1.0,
    )
    yield from figure.pages(panels, sheet)


def _delays(
    results: xr.Dataset, readings: list[str], designs: list[str], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure]:
    delays, breaks = [], []
    for place, reading in enumerate(readings):
        of_reading = results.isel(reading=place)
        curves = partial(_of_designs, of_reading, reading, designs)
        parts = tuple(
            distributions.share_curve(part, of_reading[name].values, 100.0) for part, name in PARTS
        )
        delays += [
            _panel(f"scheduler, reading {reading}", curves("scheduler_delay", 100.0)),
            _panel(f"L2, reading {reading}", curves("l2_delay", 100.0)),
            _panel(f"parts of the proposal, reading {reading}", parts),
        ]
        breaks.append(_panel(f"reading {reading}", curves("break_even", 1.0)))
    words = f"is not larger than the value of the axis, with {canvas.PERCENT} bands after Wilson."
    yield from CurveFigure(
        name="delays",
        title=f"Delay increases of designs, {canvas.PERCENT} bands",
        caption=f"Share of the draws in which the delay increase by NBTI over the service life "
        f"{words}",
        x_label="delay increase (% of the new delay)",
        y_label=Y_LABEL,
        kind="distribution",
        y_limits=(0.0, 103.0),
    ).pages(delays, sheet)
    yield from CurveFigure(
        name="break-even",
        title=f"D^3 P at which a design is as efficient as the baseline, {canvas.PERCENT} bands",
        caption="Share of the draws in which the D^3 P, below which a design is better than the "
        f"baseline, {words} It needs no power.",
        x_label="D^3 P at break-even (over the baseline's)",
        y_label=Y_LABEL,
        kind="distribution",
        y_limits=(0.0, 103.0),
    ).pages(breaks, sheet)


def _of_designs(
    of_reading: xr.Dataset, reading: str, designs: list[str], variable: str, scale: float
) -> tuple[canvas.Series, ...]:
    """canvas.Series of a variable for each design."""
    return tuple(
        distributions.share_curve(
            design, of_reading[variable].isel(design=row).values, scale, f"{reading} {design}"
        )
        for row, design in enumerate(designs)
    )


def _panel(title: str, curves: tuple[canvas.Series, ...]) -> canvas.Panel:
    medians = {curve.label: float(curve.x[np.searchsorted(curve.y, 50.0)]) for curve in curves}
    return canvas.Panel(title, curves, alt=canvas.extremes(title, "the median", medians))


def _order(
    results: xr.Dataset, readings: list[str], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure]:
    common = results["common_field"].values != 0
    fills = results["fills"].values != 0
    kinds = {
        f"{fields}, fills {filled}": (common == (fields == "common"))
        & (fills == (filled == "counted"))
        for fields in ("swapped", "common")
        for filled in ("ignored", "counted")
    }
    kinds = {name: which for name, which in kinds.items() if which.any()}
    if len(kinds) > 1:
        kinds["all draws"] = np.ones(common.size, dtype=np.bool_)
    panels = [
        distributions.row_panel(
            f"reading {reading}",
            "draws in which the order holds (%)",
            tuple(
                distributions.share_row(
                    name, results["order_holds"].isel(reading=place).values[which] != 0
                )
                for name, which in kinds.items()
            ),
        )
        for place, reading in enumerate(readings)
    ]
    caption = (
        "Share of the draws, by their kind (field constants swapped or common, fills of "
        "the L2 counted or ignored), in which the efficiencies are in the printed order: "
        f"proposal < baseline < duplication; {canvas.PERCENT} intervals after Wilson."
    )
    title = f"Where the printed order holds, {canvas.PERCENT} intervals"
    yield from distributions.RowFigure("order", title, caption).pages(panels, sheet)
