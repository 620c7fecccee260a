"""Where register writes go: their kinds, and how many of them spill."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.patches import Patch

from mcage.report.cases import Named, Setting, by_setting, identities
from mcage.report.figures.curves import Curve, CurveFigure, CurvePanel
from mcage.report.figures.figure import AbsentFigure, Panel, ReportFigure, Series
from mcage.report.figures.sheet import (
    LABELS_MM,
    PERCENT,
    Sheet,
    extremes,
    heads,
    listed,
    name_rows,
    say_in_rows,
)
from mcage.report.figures.style import HATCHES, Look, in_style, looks_of
from mcage.stats.estimates import Bools, Estimate, Floats, mean, wilson
from mcage.sweep.variables import WRITE_KINDS

VARIABLES = ("write_share", "spill_rate")

STEP = 10 ** (1 / 60) - 1
RATES = np.logspace(-8, 0, 8 * 60 + 1)
"""Spill rates at which the share of slices above them is computed."""

DECADES = 1e4
"""Range of the axis of spill rates."""

KINDS = {
    "regular": ("#BBBBBB", "stay in their home"),
    "to_reliable": ("#0072B2", "redirected to a reliable entry"),
    "to_faulty": ("#E69F00", "redirected to a faulty entry"),
    "lds": ("#D55E00", "spilled to the LDS"),
}
"""Colour and words of each kind of write."""

ROW_MM = 5.0
Settings = Sequence[tuple[Setting, Sequence[Named["Writes"]]]]


@dataclass(frozen=True)
class Writes:
    """Register writes of a case, over its slices that worked at all.

    Parameters
    ----------
    shares : dict of str to Estimate
        Mean share of the writes of a life, by kind.
    worked : int
        Number of these slices.
    spill_more : ndarray of float [rate]
        Share of these slices whose spill rate is larger than each of `RATES`.
    """

    shares: dict[str, Estimate]
    worked: int
    spill_more: Floats


def numbers_of(case: xr.Dataset) -> Writes:
    """Numbers that the figures show of a case of a results file."""
    kinds = case["write_share"].transpose("write_kind", "instance").values
    rates = case["spill_rate"].values
    rates = np.sort(rates[~np.isnan(rates)])
    more = rates.size - np.searchsorted(rates, RATES, side="right")
    return Writes(
        shares={name: mean(of_kind) for name, of_kind in zip(WRITE_KINDS, kinds, strict=True)},
        worked=rates.size,
        spill_more=more / max(1, rates.size),
    )


def draw(cases: Sequence[Named[Writes]], sheet: Sheet) -> Iterator[ReportFigure | AbsentFigure]:
    """Draw how many slices spill how much, and the kinds of writes."""
    settings = [
        item for item in by_setting(cases).items() if any(c.numbers.worked for c in item[1])
    ]
    yield from _spills(settings, sheet, looks_of(identities(cases)))
    if not settings:
        yield AbsentFigure("writes", "Kinds of register writes", "No slice works when it is new.")
        return
    height_mm = _height_mm(settings)
    for name, part, of_page in sheet.pages("writes", settings, height_mm, 75.0):
        yield _page(name, part, of_page, sheet)


def _spills(
    settings: Settings, sheet: Sheet, looks: Mapping[str, Look]
) -> Iterator[ReportFigure | AbsentFigure]:
    title = f"Slices that spill more than a rate, {PERCENT} bands"
    spilling = [
        (setting, cases)
        for setting, cases in settings
        if any(case.numbers.spill_more[0] > 0 for case in cases)
    ]
    if not spilling:
        reason = "No slice works when it is new."
        if settings:
            reason = "No register write of any slice goes to the LDS."
        yield AbsentFigure("spills", title, reason)
        return
    highest = max(
        RATES[np.flatnonzero(case.numbers.spill_more > 0).max() + 1]
        for _, cases in spilling
        for case in cases
        if case.numbers.spill_more[0] > 0
    )
    without = [setting.title for setting, cases in settings if (setting, cases) not in spilling]
    caption = (
        "Share of the slices that worked at all whose spill rate is larger than that of the axis, "
        f"with {PERCENT} intervals after Wilson. The spill rate is the share of the register "
        "writes of a life that go to the LDS."
    )
    if without:
        caption += f" No slice spills in: {listed(without)}."
    figure = CurveFigure(
        name="spills",
        title=title,
        caption=caption,
        x_label="spill rate (% of the register writes of a life)",
        y_label="slices that spill more (% of those that worked)",
        x_limits=(100 * highest / DECADES, 100 * highest),
        y_limits=(0.0, 103.0),
        x_scale="log",
    )
    shown = (highest / DECADES <= RATES * (1 + STEP)) & (highest >= RATES)
    panels = [_panel_of_spills(setting, cases, shown) for setting, cases in spilling]
    yield from figure.pages(panels, sheet, looks)


def _panel_of_spills(setting: Setting, cases: Sequence[Named[Writes]], shown: Bools) -> CurvePanel:
    """Curves at the rates that the axis shows."""
    spilling = [case for case in cases if case.numbers.spill_more[0] > 0]
    curves = []
    for case in spilling:
        share = case.numbers.spill_more[shown]
        lower, upper = wilson(share, np.full(share.size, float(case.numbers.worked)))
        curves.append(
            Curve(
                case.technique,
                100 * RATES[shown],
                100 * share,
                100 * lower,
                100 * upper,
                case.label,
            )
        )
    means = {case.technique: 100 * case.numbers.shares["lds"].value for case in spilling}
    others = [c.technique for c in cases if c.numbers.worked and c not in spilling]
    never = [c.technique for c in cases if not c.numbers.worked]
    notes = [f"no slice spills: {listed(others)}"] if others else []
    notes += [f"no slice works: {listed(never)}"] if never else []
    alt = extremes(setting.title, "the mean share of writes that spill", means, " %")
    return CurvePanel(setting.title, tuple(curves), tuple(notes), alt)


@in_style
def _page(name: str, part: str, settings: Settings, sheet: Sheet) -> ReportFigure:
    figure, grid = sheet.grid(len(settings), _height_mm(settings), 75.0, share=False)
    panels, alts = [], []
    x_label, y_label = "share of the register writes of a life (%)", ""
    occurring = [
        kind
        for kind in KINDS
        if any(case.numbers.shares[kind].value > 0 for _, cases in settings for case in cases)
    ]
    for number, (axes, (setting, cases)) in enumerate(zip(grid, settings, strict=True)):
        rows = np.flatnonzero([case.numbers.worked for case in cases]).astype(float)
        worked = [case for case in cases if case.numbers.worked]
        left = np.zeros(len(worked))
        series = []
        for kind in occurring:
            colour, words = KINDS[kind]
            estimates = [case.numbers.shares[kind] for case in worked]
            width = np.array([100 * estimate.value for estimate in estimates])
            bars = axes.barh(
                rows,
                width,
                0.7,
                left,
                color=colour,
                hatch=HATCHES[list(KINDS).index(kind)],
                edgecolor="white",
                linewidth=0.4,
            )
            for row, (case, estimate, bar) in enumerate(zip(worked, estimates, bars, strict=True)):
                gid = f"{name}-{number + 1}-{row + 1}-{kind.replace('_', '-')}"
                bar.set_gid(gid)
                value, lower, upper = (
                    np.array([100 * bound])
                    for bound in (estimate.value, estimate.lower, estimate.upper)
                )
                label = f"{case.technique}: {words}"
                place = rows[row : row + 1]
                series.append(
                    Series(
                        gid, label, case.label, value, place, "bars", x_lower=lower, x_upper=upper
                    )
                )
            left += width
        axes.set(xlim=(0, 100), xlabel=sheet.label(x_label, len(grid), 75.0))
        name_rows(axes, [case.technique for case in cases])
        say_in_rows(axes, [row for row, case in enumerate(cases) if not case.numbers.worked])
        panels.append(Panel(axes, setting.title, x_label, y_label, tuple(series)))
        alts.append(_alt_of_writes(setting, worked))
    heads(grid, [setting.title for setting, _ in settings], [""] * len(grid))
    handles = {
        KINDS[kind][1]: Patch(
            facecolor=KINDS[kind][0],
            hatch=HATCHES[list(KINDS).index(kind)],
            edgecolor="white",
            linewidth=0.4,
        )
        for kind in occurring
    }
    title = f"Kinds of register writes{part}"
    sheet.finish(figure, f"{title}: {sheet.population}", handles)
    caption = sheet.captioned(
        "Mean share of the register writes of a life by kind, over the slices that worked at all."
    )
    return ReportFigure(name, title, caption, " ".join(alts), figure, tuple(panels))


def _alt_of_writes(setting: Setting, cases: Sequence[Named[Writes]]) -> str:
    regular = {case.technique: 100 * case.numbers.shares["regular"].value for case in cases}
    return extremes(setting.title, "the share of writes that stay in their home", regular, " %")


def _height_mm(settings: Settings) -> float:
    return LABELS_MM + ROW_MM * max(len(cases) for _, cases in settings)
