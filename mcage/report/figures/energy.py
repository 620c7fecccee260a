"""Energy against life and against the low Vdd, and where register writes go."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from mcage.report.figures import canvas
from mcage.report.figures.curves import (
    FEWEST_POINTS,
    Curve,
    CurveFigure,
    CurvePanel,
    draw_curves,
)
from mcage.report.figures.lives import NEVER_WORK
from mcage.spec.sections import costs_of
from mcage.stats.estimates import Bools, Estimate, Floats, mean, proportion, wilson

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
    works_when_new, works_at_horizon : Estimate
        Shares of the slices, %.
    nominal_vdd_volts : float
        Nominal Vdd of the technology.
    """

    vdd_volts: float
    saving: Estimate
    years: Estimate
    works_when_new: Estimate
    works_at_horizon: Estimate
    nominal_vdd_volts: float

    @property
    def is_drawn(self) -> bool:
        """Whether its energy is known, and enough slices work for it to lie off the origin."""
        works = self.works_when_new.value >= 100 * (1 - NEVER_WORK)
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
        works_when_new=_percent_of(lives.years > 0),
        works_at_horizon=_percent_of(~lives.died),
        nominal_vdd_volts=technology.nominal_vdd_volts,
    )


def _percent_of(slices: Bools) -> Estimate:
    share = proportion(int(np.count_nonzero(slices)), slices.size)
    return Estimate(*(100 * bound for bound in vars(share).values()))


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
    fills = fills_of(cases)
    for name, part, of_page in sheet.pages(NAME, items, _height_mm(items, sheet), NARROWEST_MM):
        yield _page(name, part, of_page, looks, fills, sheet)


@canvas.in_style
def _page(
    name: str,
    part: str,
    scenarios: Sequence[tuple[str, Sequence[Named[Worth]]]],
    looks: Mapping[str, canvas.Look],
    fills: Mapping[str, Fill],
    sheet: canvas.Sheet,
) -> canvas.ReportFigure:
    height_mm = _height_mm(scenarios, sheet)
    figure, grid = sheet.grid(len(scenarios), height_mm, NARROWEST_MM, share=False)
    nominal = scenarios[0][1][0].numbers.nominal_vdd_volts
    panels, alts = [], []
    for number, (axes, (scenario, cases)) in enumerate(zip(grid, scenarios, strict=True)):
        series = draw_panel(axes, cases, looks, fills, f"{name}-{number + 1}")
        panels.append(canvas.Panel(axes, scenario, axes.get_xlabel(), Y_LABEL, series))
        axes.set_xlabel(sheet.label(axes.get_xlabel(), len(grid), NARROWEST_MM))
        front = pareto([case for case in cases if case.numbers.is_drawn])
        best = canvas.listed([f"{case.technique} ({case.setting.voltages})" for case in front])
        alts.append(f"{scenario}: no other case saves more and lives longer than {best}.")
    titles = [f"scenario {scenario}" for scenario, _ in scenarios]
    notes = [sheet.wrapped(_notes(of), len(scenarios), NARROWEST_MM) for _, of in scenarios]
    canvas.heads(grid, titles, notes)
    drawn = [case for _, cases in scenarios for case in cases]
    sheet.finish(figure, f"{TITLE}{part}: {sheet.population}", legend_of(drawn, looks, fills))
    for axes in grid:
        part_labels(axes)
    caption = sheet.captioned(
        f"Mean life up to the horizon against the mean energy saved over a conventional slice that "
        f"does the same work at {nominal:g} V, both over all slices and with {canvas.PERCENT} "
        "intervals "
        f"(Student). {DEAD_SAVE_NOTHING} Points of a technique in an environment are joined by "
        "voltage. The grey line is the Pareto front: no other case of the panel both saves more "
        f"and lives longer. Cases with more than {100 * NEVER_WORK:g} % dead on arrival are named "
        "instead of drawn. Slices that die early have done other work than those that live long, "
        "and their savings are those of their lives."
    )
    return canvas.ReportFigure(name, TITLE + part, caption, " ".join(alts), figure, tuple(panels))


def fills_of(cases: Sequence[Named[Worth]]) -> dict[str, Fill]:
    """How markers are filled, by environment, in the order of the file."""
    environments = dict.fromkeys(case.setting.environment for case in cases)
    return {name: FILLS[place % len(FILLS)] for place, name in enumerate(environments)}


def draw_panel(
    axes: Axes,
    cases: Sequence[Named[Worth]],
    looks: Mapping[str, canvas.Look],
    fills: Mapping[str, Fill],
    gid: str,
) -> tuple[canvas.Series, ...]:
    """Draw the cases of a scenario of which enough slices work, and their Pareto front.

    Parameters
    ----------
    axes : Axes
        Axes to draw on.
    cases : sequence of Named
        Energies and lives.
    looks : mapping of str to Look
        Looks by technique.
    fills : mapping of str to str
        How markers are filled, by environment.
    gid : str
        Beginning of the names of artists.
    """
    drawn = [case for case in cases if case.numbers.is_drawn]
    series = _draw_points(axes, drawn, looks, fills, gid)
    _draw_front(axes, pareto(drawn))
    nominal = drawn[0].numbers.nominal_vdd_volts
    horizon = max(case.numbers.years.value for case in drawn)
    axes.set(
        xlabel=f"energy saved over a conventional slice at {nominal:g} V (% of its energy)",
        ylabel=Y_LABEL,
        ylim=(-0.04 * horizon, 1.12 * horizon),
    )
    axes.margins(x=0.12)
    return series


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
        bounds = [
            np.array([bound]) for bound in (years.lower, years.upper, saving.lower, saving.upper)
        ]
        at = np.array([saving.value]), np.array([years.value])
        label = f"{case.technique}, {case.setting.environment} {case.setting.voltages}"
        series.append(canvas.Series(name, label, case.label, *at, "points", *bounds))
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
        _label_front(axes, worth.saving.value, worth.years.value, f"{worth.vdd_volts:g} V")


def _label_front(axes: Axes, x: float, y: float, text: str) -> None:
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


def _height_mm(
    scenarios: Sequence[tuple[str, Sequence[Named[Worth]]]], sheet: canvas.Sheet
) -> float:
    notes = [sheet.wrapped(_notes(of), len(scenarios), NARROWEST_MM) for _, of in scenarios]
    return (
        sheet.axis_mm(len(scenarios), NARROWEST_MM)
        + canvas.LABELS_MM
        + canvas.LINE_MM * max(map(canvas.lines_of, notes))
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
    height_mm = _height_mm_writes(settings)
    for name, part, of_page in sheet.pages("writes", settings, height_mm, 75.0):
        yield _page_writes(name, part, of_page, sheet)


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
    notes = [f"no slice spills: {canvas.listed(others)}"] if others else []
    notes += [f"no slice works: {canvas.listed(never)}"] if never else []
    alt = canvas.extremes(setting.title, "the mean share of writes that spill", means, " %")
    return CurvePanel(setting.title, tuple(curves), tuple(notes), alt)


@canvas.in_style
def _page_writes(
    name: str, part: str, settings: Settings, sheet: canvas.Sheet
) -> canvas.ReportFigure:
    figure, grid = sheet.grid(len(settings), _height_mm_writes(settings), 75.0, share=False)
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
            style = canvas.part_style(colour, list(KINDS).index(kind))
            bars = axes.barh(rows, width, 0.7, left, **style)
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
                    canvas.Series(
                        gid, label, case.label, value, place, "bars", x_lower=lower, x_upper=upper
                    )
                )
            left += width
        axes.set(xlim=(0, 100), xlabel=sheet.label(x_label, len(grid), 75.0))
        canvas.name_rows(axes, [case.technique for case in cases])
        canvas.say_in_rows(axes, [row for row, case in enumerate(cases) if not case.numbers.worked])
        panels.append(canvas.Panel(axes, setting.title, x_label, y_label, tuple(series)))
        alts.append(_alt_of_writes(setting, worked))
    canvas.heads(grid, [setting.title for setting, _ in settings], [""] * len(grid))
    handles = {
        KINDS[kind][1]: Patch(**canvas.part_style(KINDS[kind][0], list(KINDS).index(kind)))
        for kind in occurring
    }
    title = f"Kinds of register writes{part}"
    sheet.finish(figure, f"{title}: {sheet.population}", handles)
    caption = sheet.captioned(
        "Mean share of the register writes of a life by kind, over the slices that worked at all."
    )
    return canvas.ReportFigure(name, title, caption, " ".join(alts), figure, tuple(panels))


def _alt_of_writes(setting: Setting, cases: Sequence[Named[Writes]]) -> str:
    regular = {case.technique: 100 * case.numbers.shares["regular"].value for case in cases}
    return canvas.extremes(
        setting.title, "the share of writes that stay in their home", regular, " %"
    )


def _height_mm_writes(settings: Settings) -> float:
    return canvas.LABELS_MM + ROW_MM * max(len(cases) for _, cases in settings)


# Against the low Vdd: slices that work when new and at the horizon, and the energy saved.

VOLTAGE_NAME = "vdd"
VOLTAGE_TITLE = f"Lives and energy saving against the low Vdd, {canvas.PERCENT} intervals"
X_LABEL = "lowest Vdd (V)"

Group = tuple[str, list[Named[Worth]]]


def draw_voltage(
    cases: Sequence[Named[Worth]], sheet: canvas.Sheet
) -> Iterator[canvas.ReportFigure]:
    """Draw lives and, if known, energy of each environment and scenario of several voltages."""
    groups: dict[str, list[Named[Worth]]] = {}
    for case in cases:
        title = f"{case.setting.environment}, {case.setting.scenario}"
        groups.setdefault(title, []).append(case)
    several = [item for item in groups.items() if len(_voltages(item[1])) > 1]
    if not several:
        return
    looks = canvas.looks_of(identities(cases))
    knows_energy = not any(np.isnan(case.numbers.saving.value) for case in cases)
    each = 2 if knows_energy else 1
    height_mm = each * _height_mm_voltage(each, sheet) / sheet.columns(each, NARROWEST_MM)
    for name, part, of_page in sheet.pages(VOLTAGE_NAME, several, height_mm, sheet.width_mm):
        yield _page_voltage(name, part, of_page, each, looks, sheet)


@canvas.in_style
def _page_voltage(
    name: str,
    part: str,
    groups: Sequence[Group],
    each: int,
    looks: Mapping[str, canvas.Look],
    sheet: canvas.Sheet,
) -> canvas.ReportFigure:
    count = each * len(groups)
    figure, grid = sheet.grid(count, _height_mm_voltage(count, sheet), NARROWEST_MM, share=False)
    nominal = groups[0][1][0].numbers.nominal_vdd_volts
    saved = f"energy saved over a conventional slice at {nominal:g} V"
    panels, notes = [], []
    for number, axes in enumerate(grid):
        title, cases = groups[number // each]
        of_lives, gid = number % each == 0, f"{name}-{number + 1}"
        label = "slices that work (% of all)" if of_lives else f"{saved} (% of its energy)"
        if of_lives:
            alive = _curves(cases, lambda c: c.works_at_horizon)
            series = draw_curves(axes, alive, looks, gid, "line")
            series += _draw_new(axes, _curves(cases, lambda c: c.works_when_new), looks, gid)
            axes.set_ylim(0, 103)
        else:
            series = draw_curves(axes, _curves(cases, lambda c: c.saving), looks, gid, "line")
        notes.append("hollow: when new; filled: at the horizon" if of_lives else "")
        axes.set_xlabel(X_LABEL)
        axes.set_ylabel(sheet.upright(label, count, NARROWEST_MM))
        panels.append(canvas.Panel(axes, title, X_LABEL, label, series))
    canvas.heads(grid, [panel.title for panel in panels], notes)
    handles = {technique: canvas.line_of(look) for technique, look in looks.items()}
    sheet.finish(figure, f"{VOLTAGE_TITLE}{part}: {sheet.population}", handles)
    caption = sheet.captioned(
        "Of each environment and scenario, the slices that still work at the horizon and, hollow, "
        f"those that work when they are new (with {canvas.PERCENT} intervals of Wilson), and the "
        "mean "
        f"{saved} that does the same work, over all slices (with those of Student). "
        f"{DEAD_SAVE_NOTHING} Savings are those of the time for which a slice lives. The dies are "
        "the same at each voltage."
        + " Energy is left out, since it is not known of every case."
        * (each == 1)
    )
    alt = " ".join(_alt(title, cases, each == 2) for title, cases in groups)
    return canvas.ReportFigure(name, VOLTAGE_TITLE + part, caption, alt, figure, tuple(panels))


def _curves(cases: Sequence[Named[Worth]], shown: Callable[[Worth], Estimate]) -> tuple[Curve, ...]:
    """A curve for each technique, from the lowest voltage to the highest."""
    points: dict[str, list[tuple[float, ...]]] = {}
    for case in cases:
        estimate = vars(shown(case.numbers)).values()
        points.setdefault(case.technique, []).append((case.numbers.vdd_volts, *estimate))
    return tuple(Curve(name, *np.array(sorted(of_it)).T) for name, of_it in points.items())


def _draw_new(
    axes: Axes, curves: Sequence[Curve], looks: Mapping[str, canvas.Look], gid: str
) -> tuple[canvas.Series, ...]:
    """Draw the shares of slices that work when they are new, with hollow markers."""
    drawn = []
    for place, curve in enumerate(curves):
        look, name = looks[curve.name], f"{gid}-new-{place + 1}"
        style: dict[str, Any] = {"color": look.colour, "linewidth": 0.6, "markersize": 2.5}
        line = ":" if curve.x.size >= FEWEST_POINTS else "none"
        style |= {"linestyle": line, "marker": look.marker, "fillstyle": "none"}
        axes.plot(curve.x, curve.y, gid=name, **style)
        label, bounds = f"{curve.name}, when new", (curve.lower, curve.upper)
        drawn.append(canvas.Series(name, label, "", curve.x, curve.y, "line", *bounds))
    return tuple(drawn)


def _voltages(cases: Sequence[Named[Worth]]) -> set[float]:
    return {case.numbers.vdd_volts for case in cases}


def _alt(title: str, cases: Sequence[Named[Worth]], of_energy: bool) -> str:
    """At which voltage each technique saves most, or else has most slices that work."""
    curves = _curves(cases, lambda c: c.saving if of_energy else c.works_at_horizon)
    words = [
        f"{curve.name} at {curve.x[best]:g} V ({curve.y[best]:.3g} %)"
        for curve in curves
        for best in [int(np.argmax(curve.y))]
    ]
    what = "most energy is saved by" if of_energy else "most slices reach the horizon under"
    return f"{title}: {what} {canvas.listed(words)}."


def _height_mm_voltage(panels: int, sheet: canvas.Sheet) -> float:
    return sheet.axis_mm(panels, NARROWEST_MM) + canvas.LABELS_MM + canvas.LINE_MM
