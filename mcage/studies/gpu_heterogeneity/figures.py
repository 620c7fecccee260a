"""Figures of studies of heterogeneous structures: efficiency, delays, where the order holds."""

from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr

from mcage.plain_text import visible
from mcage.report.cases import NamedCase, cases_in, points_of
from mcage.report.figures import canvas, distributions
from mcage.report.figures.canvas import CasePart
from mcage.report.figures.curves import CurveFigure

Y_LABEL = "draws with at most this value (%)"
NOT_LARGER = f"is not larger than the value of the axis, with {canvas.PERCENT} bands after Wilson."

PARTS = {
    "scheduler, FinFET stage": "second_stage_delay",
    "scheduler, planar stage": "first_stage_delay",
    "L2, FinFET data array": "data_array_delay",
    "L2, planar tags": "tags_delay",
}
"""Parts of the proposal and the variables of their delay increases."""

EFFICIENCY = CurveFigure(
    "efficiency",
    f"NBTI efficiency of designs, {canvas.PERCENT} bands",
    "Share of the draws in which the NBTI efficiency of a design, (D (1 + delay increase))^3 P "
    f"over the baseline's, {NOT_LARGER} Less than 1 is better than the baseline, which is 1 in "
    "every draw and has no curve.",
    "efficiency over the baseline's (less is better)",
    Y_LABEL,
    shape="distribution",
    y_limits=(0.0, 103.0),
    x_mark=1.0,
    worth="the median",
)
DELAYS = CurveFigure(
    "delays",
    f"Delay increases of designs, {canvas.PERCENT} bands",
    f"Share of the draws in which the delay increase by NBTI over the service life {NOT_LARGER}",
    "delay increase (% of the new delay)",
    Y_LABEL,
    shape="distribution",
    y_limits=(0.0, 103.0),
    worth="the median",
    unit=" %",
)
BREAK_EVEN = CurveFigure(
    "break-even",
    f"D^3 P at which a design is as efficient as the baseline, {canvas.PERCENT} bands",
    "Share of the draws in which the D^3 P, below which a design is better than the baseline, "
    f"{NOT_LARGER} It needs no power.",
    "D^3 P at break-even (over the baseline's)",
    Y_LABEL,
    shape="distribution",
    y_limits=(0.0, 103.0),
    worth="the median",
)
ORDER = distributions.RowFigure(
    "order",
    f"Where the printed order holds, {canvas.PERCENT} intervals",
    "Share of the draws, by their kind (field constants swapped or common, fills of the L2 counted "
    "or ignored), in which the efficiencies are in the printed order: proposal < baseline < "
    f"duplication; {canvas.PERCENT} intervals after Wilson.",
    "draws in which the order holds (%)",
    worth="the share",
    unit=" %",
)


def draw(results: xr.Dataset) -> Iterator[canvas.Plot | canvas.AbsentFigure]:
    """The figures of a study: curves and rows for each design, panels for each reading."""
    designs = [
        NamedCase(
            (place,), visible(str(at["design"])), f"reading {at['reading']}", str(at["design"])
        )
        for place, at in enumerate(points_of(results))
    ]
    cases = [*zip(designs, cases_in(results), strict=True)]
    yield EFFICIENCY.of_cases(
        (of, [_shares(case, "efficiency")])
        for of, case in cases
        if not np.all(case["efficiency"] == 1.0)
    )
    of_designs = [
        (of, [_shares(case, f"{name}_delay", title, 100.0) for name, title in STRUCTURES.items()])
        for of, case in cases
    ]
    readings = _readings(results)
    of_parts = [
        (NamedCase((), part, reading, ""), [_shares(case, name, "parts of the proposal", 100.0)])
        for reading, case in readings.items()
        for part, name in PARTS.items()
    ]
    yield DELAYS.of_cases([*of_designs, *of_parts])
    yield BREAK_EVEN.of_cases((of, [_shares(case, "break_even")]) for of, case in cases)
    kinds = _kinds_of_draws(results)
    yield ORDER.of_cases(
        (
            NamedCase((), kind, reading, ""),
            [
                distributions.of_row(
                    distributions.share_row("", case["order_holds"].values[which] != 0)
                )
            ],
        )
        for reading, case in readings.items()
        for holds in [case["order_holds"].values != 0]
        for kind, which in kinds.items()
    )


STRUCTURES = {"scheduler": "scheduler", "l2": "L2"}


def _readings(results: xr.Dataset) -> Mapping[str, xr.Dataset]:
    names = map(visible, map(str, results["reading"].values.tolist()))
    return {f"reading {name}": results.isel(reading=place) for place, name in enumerate(names)}


def _shares(case: xr.Dataset, variable: str, panel: str = "", scale: float = 1.0) -> CasePart:
    return distributions.of_shares(distributions.share_curve(case[variable].values, scale), panel)


def _kinds_of_draws(results: xr.Dataset) -> dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Which draws are of each kind, and all if there are several."""
    common = results["common_field"].values != 0
    fills = results["fills"].values != 0
    kinds = {
        f"{fields}, fills {filled}": (common == (fields == "common"))
        & (fills == (filled == "counted"))
        for fields in ("swapped", "common")
        for filled in ("ignored", "counted")
    }
    kinds = {name: which for name, which in kinds.items() if which.any()}
    return kinds | {"all draws": np.ones(common.size, dtype=np.bool_)} if len(kinds) > 1 else kinds
