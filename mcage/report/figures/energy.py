"""Energy against life, and where register writes go."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import Bbox

from mcage.costs.energy import savings_of_all
from mcage.lifetime import WRITE_KINDS
from mcage.report.cases import Named, Setting, by_setting, identities, lives_of
from mcage.report.figures import canvas, distributions
from mcage.report.figures.curves import CurveFigure
from mcage.report.figures.lives import NEVER_WORK
from mcage.spec.sections import costs_of
from mcage.stats.estimates import Bools, Estimate, Floats, mean, wilson

VARIABLES = ("life_years", "end_cause", "energy_saving_nominal")
NAME = "energy-life"
TITLE = f"Energy saving and life, {canvas.PERCENT} intervals"
Y_LABEL = "mean life up to the horizon (years)"
DEAD_SAVE_NOTHING = (
    "A slice that is dead on arrival fails its test at the low voltage; it is taken to run as such "
    "a conventional slice, and saves nothing."
)
NARROWEST_MM = 80.0
NEVER = f"Of all cases more than {100 * NEVER_WORK:g} % are dead on arrival."

FRONT = "_front"
"""Name of the labels of the Pareto front, which legends leave out."""

SPOTS = (((-2, 4), "right"), ((2, -9), "left"), ((2, 4), "left"), ((-2, -9), "right"))
"""Where a label may stand, in points from its point; the first is where no line falls."""

Fill = Literal["full", "none", "left", "right", "top", "bottom"]
FILLS: tuple[Fill, ...] = ("full", "none", "left", "right", "top", "bottom")
"""How markers are filled, by environment."""


@dataclass(frozen=True)
class Worth:
    """Energy and life of a case, over all of its slices.

    Parameters
    ----------
    vdd_volts : float
        Lowest supply voltage.
    saving : Estimate
        Mean energy saving over a conventional slice at the technology's nominal Vdd, %, where
        slices that are dead on arrival run as such slices and save nothing.
    years : Estimate
        Mean life up to the horizon.
    works_when_new : float
        Share of the slices, %.
    nominal_vdd_volts : float
        Nominal Vdd of the technology.
    """

    vdd_volts: float
    saving: Estimate
    years: Estimate
    works_when_new: float
    nominal_vdd_volts: float

    @property
    def is_drawn(self) -> bool:
        """Whether its energy is known, and enough slices work for it to lie off the origin."""
        works = self.works_when_new >= 100 * (1 - NEVER_WORK)
        return works and not np.isnan(self.saving.value)


def numbers_of(case: xr.Dataset) -> Worth:
    """Numbers that the figures show of a case of a results file.

    Raises
    ------
    UserError
        The spec in the file is not that of a sweep.
    """
    technology = costs_of(case.attrs["spec"]).of_technology
    lives = lives_of(case)
    return Worth(
        vdd_volts=float(case["vdd_volts"]),
        saving=mean(100 * savings_of_all({name: case[name].values for name in VARIABLES})),
        years=mean(lives.years, within=lives.within),
        works_when_new=100 * float(np.mean(lives.years > 0)),
        nominal_vdd_volts=technology.nominal_vdd_volts,
    )


def draw(
    cases: Sequence[Named[Worth]], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Draw a point for each case, a panel for each scenario."""
    scenarios: dict[str, list[Named[Worth]]] = {}
    for case in cases:
        scenarios.setdefault(case.setting.scenario, []).append(case)
    items = [item for item in scenarios.items() if any(c.numbers.is_drawn for c in item[1])]
    if not items:
        unknown = any(np.isnan(case.numbers.saving.value) for case in cases)
        reason = "No constants of the slice's energy are known." if unknown else NEVER
        yield canvas.AbsentFigure(NAME, TITLE, reason)
        return
    looks = canvas.looks_of(identities(cases))
    figure = life_figure(cases)
    panels = [life_panel(f"scenario {scenario}", of_it) for scenario, of_it in items]
    yield from figure.pages(panels, sheet, looks)


def life_figure(cases: Sequence[Named[Worth]]) -> "LifeFigure":
    """What all panels of energy against life have in common."""
    nominal = cases[0].numbers.nominal_vdd_volts
    return LifeFigure(
        NAME,
        TITLE,
        f"Mean life up to the horizon against the mean energy saved over a conventional slice that "
        f"does the same work at {nominal:g} V, both over all slices and with {canvas.PERCENT} "
        f"intervals (Student). {DEAD_SAVE_NOTHING} Points of a technique in an environment are "
        "joined by voltage. The grey line is the Pareto front: no other case of the panel both "
        f"saves more and lives longer. Cases with more than {100 * NEVER_WORK:g} % dead on arrival "
        "are named instead of drawn. Slices that die early have done other work than those that "
        "live long, and their savings are those of their lives.",
        f"energy saved over a conventional slice at {nominal:g} V (% of its energy)",
        Y_LABEL,
        fills_of(cases),
    )


def life_panel(title: str, cases: Sequence[Named[Worth]]) -> canvas.Panel:
    """A panel of the cases of a scenario."""
    front = pareto([case for case in cases if case.numbers.is_drawn])
    best = canvas.listed([f"{case.technique} ({case.setting.voltages})" for case in front])
    alt = f"{title}: no other case saves more and lives longer than {best}."
    return canvas.Panel(title, notes=_notes(cases), alt=alt, cases=cases)


def fills_of(cases: Sequence[Named[Worth]]) -> dict[str, Fill]:
    """How markers are filled, by environment, in the order of the file."""
    environments = dict.fromkeys(case.setting.environment for case in cases)
    return {name: FILLS[place % len(FILLS)] for place, name in enumerate(environments)}


@dataclass(frozen=True)
class LifeFigure(canvas.Plot):
    """Points of cases with their intervals, and their Pareto front.

    Parameters
    ----------
    fills : mapping of str to str
        How markers are filled, by environment.
    """

    fills: Mapping[str, Fill] = field(default_factory=dict)

    least_mm = NARROWEST_MM

    def draw(
        self, axes: Axes, panel: canvas.Panel, looks: canvas.Looks, gid: str
    ) -> tuple[canvas.Series, ...]:
        """Draw the cases of which enough slices work."""
        drawn = [case for case in panel.cases if case.numbers.is_drawn]
        series = _draw_points(axes, drawn, looks, self.fills, gid)
        _draw_front(axes, pareto(drawn))
        horizon = max(case.numbers.years.value for case in drawn)
        axes.set_ylim(-0.04 * horizon, 1.12 * horizon)
        axes.margins(x=0.12)
        return series

    def handles(self, panels: Sequence[canvas.Panel], looks: canvas.Looks) -> Mapping[str, Artist]:
        """Techniques, and environments if there are several."""
        return legend_of([case for panel in panels for case in panel.cases], looks, self.fills)

    def settle(self, grid: Sequence[Axes]) -> None:
        """Move labels of the front apart."""
        for axes in grid:
            part_labels(axes)


def _draw_points(
    axes: Axes,
    cases: Sequence[Named[Worth]],
    looks: Mapping[str, canvas.Look],
    fills: Mapping[str, Fill],
    gid: str,
) -> tuple[canvas.Series, ...]:
    groups: dict[tuple[str, str], list[Named[Worth]]] = {}
    for case in cases:
        groups.setdefault((case.technique, case.setting.environment), []).append(case)
    for (technique, _), of_group in groups.items():
        of_group.sort(key=lambda case: (case.numbers.vdd_volts, case.setting.voltages))
        x = [case.numbers.saving.value for case in of_group]
        y = [case.numbers.years.value for case in of_group]
        look = looks[technique]
        axes.plot(x, y, color=look.colour, linestyle=look.linestyle, linewidth=0.5, alpha=0.5)
    series = []
    for place, case in enumerate(cases):
        look = looks[case.technique]
        saving, years = case.numbers.saving, case.numbers.years
        error: dict[str, Any] = {"color": look.colour, "linewidth": 0.8}
        axes.plot((saving.lower, saving.upper), (years.value,) * 2, **error)
        axes.plot((saving.value,) * 2, (years.lower, years.upper), **error)
        (point,) = axes.plot(
            saving.value,
            years.value,
            marker=look.marker,
            color=look.colour,
            fillstyle=fills[case.setting.environment],
            markerfacecoloralt="white",
            markersize=6,
            markeredgewidth=0.8,
        )
        name = f"{gid}-{place + 1}"
        point.set_gid(name)
        label = f"{case.technique}, {case.setting.environment} {case.setting.voltages}"
        series.append(
            canvas.Series(
                label,
                np.array([saving.value]),
                np.array([years.value]),
                np.array([years.lower]),
                np.array([years.upper]),
                case.label,
                kind="points",
                x_lower=np.array([saving.lower]),
                x_upper=np.array([saving.upper]),
                gid=name,
            )
        )
    return tuple(series)


def pareto(cases: Sequence[Named[Worth]]) -> list[Named[Worth]]:
    """Cases of which no other saves at least as much and lives at least as long, by saving."""
    front: list[Named[Worth]] = []
    for case in sorted(
        cases, key=lambda c: (c.numbers.saving.value, c.numbers.years.value), reverse=True
    ):
        if not front or case.numbers.years.value > front[-1].numbers.years.value:
            front.append(case)
    return front[::-1]


def _draw_front(axes: Axes, front: Sequence[Named[Worth]]) -> None:
    x = [case.numbers.saving.value for case in front]
    y = [case.numbers.years.value for case in front]
    axes.step(x, y, where="pre", color=canvas.GREY, linewidth=2.2, alpha=0.35, zorder=0.5)
    for case in front[::-1]:  # whatever saves most is labelled first
        worth = case.numbers
        label_front(axes, worth.saving.value, worth.years.value, f"{worth.vdd_volts:g} V")


def label_front(axes: Axes, x: float, y: float, text: str) -> None:
    """Label a point of a front; `part_labels` moves labels apart."""
    offset, side = SPOTS[0]
    style: dict[str, Any] = {"textcoords": "offset points", "fontsize": canvas.SMALL}
    axes.annotate(text, (x, y), offset, ha=side, label=FRONT, **style)


def part_labels(axes: Axes) -> None:
    """Move labels of points that lie on each other apart, and hide those that find no room.

    Parameters
    ----------
    axes : Axes
        Axes of a figure that has been laid out.
    """
    taken: list[Bbox] = []
    for label in (text for text in axes.texts if text.get_label() == FRONT):
        for offset, side in SPOTS:
            label.set(position=offset, horizontalalignment=side)
            box = label.get_window_extent()
            if not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
        else:
            label.set_visible(False)


def legend_of(
    cases: Sequence[Named[Worth]], looks: Mapping[str, canvas.Look], fills: Mapping[str, Fill]
) -> dict[str, Artist]:
    """Handles of a legend by their words: techniques, and environments if there are several."""
    drawn = [case for case in cases if case.numbers.is_drawn]
    names = {case.technique for case in drawn}
    handles: dict[str, Artist] = {
        name: Line2D([], [], color=look.colour, linestyle="none", marker=look.marker)
        for name, look in looks.items()
        if name in names
    }
    environments = {case.setting.environment for case in drawn}
    for name, fill in fills.items():
        if name in environments and len(environments) > 1:
            handles[f"environment {name}"] = Line2D(
                *([], []),
                color=canvas.GREY,
                linestyle="none",
                marker="o",
                fillstyle=fill,
                markerfacecoloralt="white",
            )
    return handles


def _notes(cases: Sequence[Named[Worth]]) -> tuple[str, ...]:
    """Which cases are not drawn, by their voltages."""
    never: dict[str, list[str]] = {}
    for case in cases:
        if not case.numbers.is_drawn:
            never.setdefault(case.setting.voltages, []).append(case.technique)
    return tuple(
        f"not drawn at {voltages}, nearly all slices dead on arrival: {canvas.listed(names)}"
        for voltages, names in never.items()
    )


# Where register writes go: their kinds, and how many of them spill.

WRITES_VARIABLES = ("write_share", "spill_rate")

STEP = 10 ** (1 / 60) - 1
RATES = np.logspace(-8, 0, 8 * 60 + 1)
"""Spill rates at which the share of slices above them is computed."""

DECADES = 1e4
"""Range of the axis of spill rates."""

KINDS = {
    "regular": ("#BBBBBB", "stay in their home"),
    "to_reliable": ("#0072B2", "redirected to a reliable entry"),
    "to_faulty": ("#E69F00", "redirected to a faulty entry"),
    "lds": ("#D55E00", "spilled to LDS or memory"),
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


def numbers_of_writes(case: xr.Dataset) -> Writes:
    """Numbers that the figures show of a case of a results file."""
    kinds = case["write_share"].transpose("write_kind", "instance").values
    rates = case["spill_rate"].values
    rates = np.sort(rates[~np.isnan(rates)])
    more = rates.size - np.searchsorted(rates, RATES, side="right")
    return Writes(
        shares={name: mean(of_kind) for name, of_kind in zip(WRITE_KINDS, kinds, strict=True)},
        worked=rates.size,
        spill_more=more / rates.size if rates.size else np.full(len(more), np.nan),
    )


def draw_writes(
    cases: Sequence[Named[Writes]], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    """Draw how many slices spill how much, and the kinds of writes."""
    settings = [
        item for item in by_setting(cases).items() if any(c.numbers.worked for c in item[1])
    ]
    yield from _spills(settings, sheet, canvas.looks_of(identities(cases)))
    if not settings:
        yield canvas.AbsentFigure(
            "writes", "Kinds of register writes", "No slice works when it is new."
        )
        return
    occurring = tuple(
        kind
        for kind in KINDS
        if any(case.numbers.shares[kind].value > 0 for _, cases in settings for case in cases)
    )
    panels = [
        canvas.Panel(setting.title, alt=_alt_of_writes(setting, of_it), cases=of_it)
        for setting, of_it in settings
    ]
    caption = (
        "Mean share of the register writes of a life by kind, over the slices that worked at all."
    )
    x_label = "share of the register writes of a life (%)"
    figure = WritesFigure("writes", "Kinds of register writes", caption, x_label, kinds=occurring)
    yield from figure.pages(panels, sheet, {})


def _spills(
    settings: Settings, sheet: canvas.Sheet, looks: Mapping[str, canvas.Look]
) -> Iterator[canvas.ReportFigure | canvas.AbsentFigure]:
    title = f"Slices that spill more than a rate, {canvas.PERCENT} bands"
    spilling = [
        (setting, cases)
        for setting, cases in settings
        if any(case.numbers.spill_more[0] > 0 for case in cases)
    ]
    if not spilling:
        reason = "No slice works when it is new."
        if settings:
            reason = "No register of any slice is spilled."
        yield canvas.AbsentFigure("spills", title, reason)
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
        f"with {canvas.PERCENT} intervals after Wilson. The spill rate is the share of the "
        "register "
        "writes of a life that go to the LDS or to memory."
    )
    if without:
        caption += f" No slice spills in: {canvas.listed(without)}."
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


def _panel_of_spills(
    setting: Setting, cases: Sequence[Named[Writes]], shown: Bools
) -> canvas.Panel:
    """Curves at the rates that the axis shows."""
    spilling = [case for case in cases if case.numbers.spill_more[0] > 0]
    curves = []
    for case in spilling:
        share = case.numbers.spill_more[shown]
        lower, upper = wilson(share, np.full(share.size, float(case.numbers.worked)))
        curves.append(
            canvas.Series(
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
    notes = [f"no slice spills: {canvas.listed(others)}"] if others else []
    notes += [f"no slice works: {canvas.listed(never)}"] if never else []
    alt = canvas.extremes(setting.title, "the mean share of writes that spill", means, " %")
    return canvas.Panel(setting.title, tuple(curves), tuple(notes), alt)


@dataclass(frozen=True)
class WritesFigure(canvas.Plot):
    """Stacked bars, a row for each technique.

    Parameters
    ----------
    kinds : tuple of str
        Kinds of writes that occur.
    """

    kinds: tuple[str, ...] = ()

    least_mm = 75.0
    row_mm = ROW_MM

    def draw(
        self, axes: Axes, panel: canvas.Panel, looks: canvas.Looks, gid: str
    ) -> tuple[canvas.Series, ...]:
        """Draw the bars of the cases of which a slice worked."""
        worked = [(row, case) for row, case in enumerate(panel.cases) if case.numbers.worked]
        left, series = np.zeros(len(worked)), []
        for kind in self.kinds:
            estimates = [case.numbers.shares[kind] for _, case in worked]
            width = np.array([100 * estimate.value for estimate in estimates])
            rows = [row for row, _ in worked]
            bars = axes.barh(rows, width, 0.7, left, **_style_of(kind))
            for (row, case), estimate, bar in zip(worked, estimates, bars, strict=True):
                name = f"{gid}-{row + 1}-{kind.replace('_', '-')}"
                bar.set_gid(name)
                share = distributions.estimate_row(
                    f"{case.technique}: {KINDS[kind][1]}", estimate, 100, case.label
                )
                series.append(replace(share, y=np.array([float(row)]), kind="bars", gid=name))
            left += width
        axes.set_xlim(0, 100)
        canvas.name_rows(axes, [case.technique for case in panel.cases])
        canvas.say_in_rows(axes, [row for row, c in enumerate(panel.cases) if not c.numbers.worked])
        return tuple(series)

    def handles(self, panels: Sequence[canvas.Panel], looks: canvas.Looks) -> Mapping[str, Artist]:
        """The kinds of writes."""
        return {KINDS[kind][1]: Patch(**_style_of(kind)) for kind in self.kinds}


def _style_of(kind: str) -> dict[str, Any]:
    """How the bar of a kind of writes looks."""
    return canvas.part_style(KINDS[kind][0], list(KINDS).index(kind))


def _alt_of_writes(setting: Setting, cases: Sequence[Named[Writes]]) -> str:
    regular = {
        case.technique: 100 * case.numbers.shares["regular"].value
        for case in cases
        if case.numbers.worked
    }
    return canvas.extremes(
        setting.title, "the share of writes that stay in their home", regular, " %"
    )
