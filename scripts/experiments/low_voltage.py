"""How long the low-voltage mode stays usable, and what that costs: tables and figures of a page.

    python scripts/experiments/low_voltage.py results

Computes the sweeps that are not in the folder yet (three quarters of an hour on two cores), then
writes `results/low-voltage/*.csv`, `docs/figures/low-voltage-*.png`, and the tables of
`results/low-voltage.md`, which stand between comments there: for the scenarios of the paper, and
for the slope that was measured. `--slope` and `--only-further` select some of it. `--further` adds
a column of other physics to the last table, such as

    --further "spread 2 mV:aging.nbti_spread_mv=2.0"
"""

import argparse
import csv
import math
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

import matplotlib
import numpy as np
import xarray as xr
from doc_tables import bring_up_to_date, markdown
from matplotlib.figure import Figure

from mcage import run_sweep
from mcage.campaign.progress import progress_on_stderr
from mcage.report.cases import NamedCase, cases_in, lives_of, named_cases
from mcage.report.figures.canvas import LOOKS, STYLE, line_of, save
from mcage.report.figures.lives import alive
from mcage.results.reader import open_results
from mcage.spec import SweepSpec
from mcage.stats.estimates import DASH, Estimate, life, mean, percent, plus_minus, proportion
from mcage.stats.paired import compare_means
from mcage.stats.survival import CaseLives, life_quantile
from mcage.traces.transforms import RELEASES
from mcage.variation.scenarios import PUBLISHED, SCENARIOS, scenario

ROOT = Path(__file__).parents[2]
CSV = ROOT / "results" / "low-voltage"
PAGE = ROOT / "results" / "low-voltage.md"
FIGURES = ROOT / "docs" / "figures"

TECHNIQUES = ("baseline", "rc+rar", "disable", "gr-guard", "rrcd", "rrcd+pg", "rrcd+rc+rar")
REFERENCE = "rrcd"
"""The technique whose years the others are compared with."""

AGING = {"aging": 1.0, "no aging": 0.0}
"""Growth of Vmin per threshold shift, V/V: with it, and without any."""

FURTHER = ("growth 0:life.vmin_coefficient=0.0", "growth 2:life.vmin_coefficient=2.0")
"""Other physics that the last table shows by default."""

FURTHER_TECHNIQUES = ("gr-guard", "rrcd", "rrcd+rc+rar")

Conditions = tuple[str, str]
"""Scenario, and all that cases are compared under."""


@dataclass(frozen=True)
class Slope:
    """Scenarios whose fault rates rise with falling voltage as a source says, and their files.

    Attributes
    ----------
    scenarios : tuple of str
        Scenarios of the lives; the first one is also that of the energies.
    low_volts : tuple of float
        Low voltages of the energies.
    mark : str
        What files, figures and tables bear in addition.
    releases : tuple of str
        Ways to release windows.
    """

    scenarios: tuple[str, ...]
    low_volts: tuple[float, ...]
    mark: str
    releases: tuple[str, ...]

    def table(self, name: str) -> str:
        """Name of a table of the page."""
        return f"{name} {self.mark}".strip()

    def file(self, name: str) -> str:
        """Name of a file, without its kind."""
        return f"{name}-{self.mark}" if self.mark else name


SLOPES = {
    "published": Slope(
        PUBLISHED,
        (*(round(0.39 + 0.01 * step, 3) for step in range(20)), 0.6, 0.65, 0.7),
        "",
        RELEASES,
    ),
    "measured": Slope(
        ("measured",),
        (*(round(0.50 + 0.01 * step, 3) for step in range(13)), 0.65, 0.7),
        "measured",
        ("wavefront",),
    ),
}

BUDGETS = (0.25, 0.30, 0.35, 0.40, 0.45, 0.50)
"""Energy to be saved over a conventional slice at nominal Vdd."""

MOSTLY_ALIVE = 0.9
"""Share of slices that must live at all for the energy of these to stand for a case: where only the
best slices and the easiest kernels do, it would be theirs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the results files are, or will be")
    parser.add_argument("--instances", type=int, default=1000, help="of the lives (1000)")
    parser.add_argument("--energy-instances", type=int, default=400, help="of the energy (400)")
    parser.add_argument("--slope", choices=SLOPES, action="append", help="only this (both)")
    parser.add_argument("--only-further", action="store_true", help="only the last table")
    parser.add_argument(
        "--further",
        metavar="NAME:KEY=VALUE,...",
        action="append",
        default=[],
        help="other physics: a further column of the last table",
    )
    parser.add_argument("--further-instances", type=int, default=300, help="of that table (300)")
    given = parser.parse_args()
    CSV.mkdir(parents=True, exist_ok=True)
    for name in () if given.only_further else given.slope or SLOPES:
        show_slope(SLOPES[name], given.folder, given.instances, given.energy_instances)
    show_further([*FURTHER, *given.further], given.folder, given.further_instances)


def show_slope(slope: Slope, folder: Path, instances: int, energy_instances: int) -> None:
    """Lives and energies of a slope: sweeps, tables, figures and data."""
    survival = {
        (release, aging): swept(
            folder / f"{slope.file('low-voltage')}-{release}-{aging.replace(' ', '-')}.h5",
            instances,
            scenarios=list(slope.scenarios),
            workload={"release": release},
            life={"vmin_coefficient": coefficient},
        )
        for release in slope.releases
        for aging, coefficient in AGING.items()
    }
    voltages = swept(
        folder / f"{slope.file('low-voltage')}-energy.h5",
        energy_instances,
        scenarios=[slope.scenarios[0]],
        vdd_volts=list(slope.low_volts),
    )
    lines = [line for release in slope.releases for line in life_lines(release, survival)]
    points = list(energy_points(voltages))
    write_csv(CSV / f"{slope.file('lives')}.csv", [_row(line) for line in lines])
    write_csv(CSV / f"{slope.file('energy')}.csv", [_row(point) for point in points])
    with matplotlib.rc_context(STYLE):
        picture = survival_figure(slope, survival)
        save(picture, FIGURES / f"{slope.file('low-voltage-life')}.png")
        picture = energy_figure(slope, points)
        save(picture, FIGURES / f"{slope.file('low-voltage-energy')}.png")
    tables = {
        slope.table(f"lives {release}"): life_table(lines, release) for release in slope.releases
    }
    tables[slope.table("equal energy")] = energy_table(points)
    bring_up_to_date(PAGE, tables)


def show_further(further: list[str], folder: Path, instances: int) -> None:
    """Years lived under other physics: sweeps, table and data."""
    columns = {"as above": {}} | dict(further_physics(text) for text in further)
    lives = {
        name: _lives(
            swept(
                folder / f"low-voltage-further-{name.replace(' ', '-')}.h5",
                instances,
                scenarios=list(SCENARIOS),
                techniques=list(FURTHER_TECHNIQUES),
                **sections,
            )
        )
        for name, sections in columns.items()
    }
    lines = list(further_lines(lives))
    write_csv(CSV / "further.csv", [_row(line) for line in lines])
    bring_up_to_date(PAGE, {"further": further_table(lines, list(columns))})


def further_physics(text: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """Name and sections of a spec, of a text ``NAME:SECTION.KEY=VALUE,...``."""
    name, _, settings = text.partition(":")
    sections: dict[str, dict[str, Any]] = {}
    for setting in settings.split(","):
        key, _, value = (part.strip() for part in setting.partition("="))
        section, _, last = key.partition(".")
        sections.setdefault(section, {})[last] = tomllib.loads(f"value = {value}")["value"]
    return name.strip(), sections


@dataclass(frozen=True)
class FurtherLine:
    """Years lived up to the horizon by a technique in a scenario under some physics."""

    physics: str
    scenario: str
    technique: str
    instances: int
    years: Estimate
    reach: Estimate


def further_lines(
    lives: Mapping[str, Mapping[Conditions, Mapping[str, CaseLives]]],
) -> Iterator[FurtherLine]:
    """Lines in the order of physics, scenarios and techniques."""
    for physics, settings in lives.items():
        for (of_scenario, _), cases in settings.items():
            for name, of_case in cases.items():
                count = of_case.years.size
                reach = proportion(int((~of_case.died).sum()), count)
                yield FurtherLine(
                    physics,
                    of_scenario,
                    name,
                    count,
                    mean(of_case.years, within=of_case.within),
                    reach,
                )


def further_table(lines: list[FurtherLine], columns: list[str]) -> str:
    """Years and, in brackets, the share that reaches the horizon: a column for each physics."""
    rows = dict.fromkeys((line.scenario, line.technique) for line in lines)
    by_place = {(line.scenario, line.technique, line.physics): line for line in lines}
    shown = []
    for name, technique in rows:
        cells = [by_place[name, technique, physics] for physics in columns]
        years = [f"{plus_minus(line.years)} ({percent(line.reach.value)})" for line in cells]
        shown.append([name, f"`{technique}`", *years])
    return markdown(["scenario", "technique", *columns], shown)


def swept(path: Path, instances: int, **fields: Any) -> Path:
    """A sweep under DVFS over all techniques, computed unless it is there."""
    fields = {"environments": ["dvfs"], "techniques": list(TECHNIQUES), **fields}
    spec = SweepSpec.from_mapping({"preset": "papers", "instances": instances, **fields}, path.name)
    return run_sweep(spec, path, progress=progress_on_stderr())


@dataclass(frozen=True)
class LifeLine:
    """Lives of one technique in one scenario, with windows released in one way."""

    release: str
    scenario: str
    vdd_volts: float
    technique: str
    instances: int
    b10: Estimate
    median: Estimate
    reach: Estimate
    years: Estimate
    lost_to_aging: Estimate
    over_reference: Estimate


def life_lines(release: str, survival: dict[tuple[str, str], Path]) -> Iterator[LifeLine]:
    """Lives in the order of scenarios and techniques."""
    aged, without_growth = (_lives(survival[release, aging]) for aging in AGING)
    for conditions, cases in aged.items():
        name_of_scenario, _ = conditions
        for name, lives in cases.items():
            unaged, reference = without_growth[conditions][name], cases[REFERENCE]
            yield LifeLine(
                release=release,
                scenario=name_of_scenario,
                vdd_volts=scenario(name_of_scenario).vdd_volts,
                technique=name,
                instances=lives.years.size,
                b10=life_quantile(lives.years, lives.died, 0.1),
                median=life_quantile(lives.years, lives.died),
                reach=proportion(int((~lives.died).sum()), lives.years.size),
                years=mean(lives.years, within=lives.within),
                lost_to_aging=compare_means(
                    unaged.years, lives.years, within=lives.within
                ).difference,
                over_reference=compare_means(
                    lives.years, reference.years, within=lives.within
                ).difference,
            )


def _lives(path: Path) -> dict[Conditions, dict[str, CaseLives]]:
    lives: dict[Conditions, dict[str, CaseLives]] = {}
    with open_results(path) as results:
        for named, case in zip(named_cases(results), cases_in(results), strict=True):
            key = str(case["scenario"].item()), named.conditions
            lives.setdefault(key, {})[named.name] = lives_of(case)
    return lives


def life_table(lines: list[LifeLine], release: str) -> str:
    """Table of one way to release windows."""
    headings = (
        "scenario",
        "technique",
        "B10 life, years",
        "median life, years",
        "reach 10 years",
        "years lived up to 10",
        "lost to aging",
        f"more than {REFERENCE}",
    )
    return markdown(
        headings,
        [
            [
                f"{line.scenario} {line.vdd_volts:g} V",
                f"`{line.technique}`",
                life(line.b10, 10),
                life(line.median, 10),
                percent(line.reach.value),
                plus_minus(line.years),
                plus_minus(line.lost_to_aging) if line.years.value else DASH,
                DASH if line.technique == REFERENCE else plus_minus(line.over_reference),
            ]
            for line in lines
            if line.release == release
        ],
    )


@dataclass(frozen=True)
class EnergyPoint:
    """Life and energy of one technique at one low Vdd."""

    technique: str
    vdd_volts: float
    instances: int
    alive_at_start: Estimate
    b10: Estimate
    years: Estimate
    saving_over_nominal: Estimate
    slowdown: Estimate

    @property
    def counts(self) -> bool:
        """Whether the energy of those that live stands for the case."""
        return self.alive_at_start.value >= MOSTLY_ALIVE


def energy_points(path: Path) -> Iterator[EnergyPoint]:
    """Points in the order of the file."""
    with open_results(path) as results:
        for number in range(results.sizes["case"]):
            yield _energy_point(results.isel(case=number).load())


def _energy_point(case: xr.Dataset) -> EnergyPoint:
    lives = lives_of(case)
    spent = case["power_mw"].values * (1 + case["slowdown"].values)
    return EnergyPoint(
        technique=str(case["technique"].item()),
        vdd_volts=float(case["vdd_volts"]),
        instances=lives.years.size,
        alive_at_start=proportion(int((lives.years > 0).sum()), lives.years.size),
        b10=life_quantile(lives.years, lives.died, 0.1),
        years=mean(lives.years, within=lives.within),
        # Ratio of means: the energy that all slices together take for the work of their lives.
        saving_over_nominal=_saving(spent, case["conventional_power_mw"].values),
        slowdown=mean(case["slowdown"].values),
    )


def _saving(spent: np.ndarray, conventional: np.ndarray) -> Estimate:
    ratio = compare_means(spent, conventional).ratio
    return Estimate(1 - ratio.value, 1 - ratio.upper, 1 - ratio.lower)


def energy_table(points: list[EnergyPoint]) -> str:
    """Years at equal energy: at the highest low Vdd at which a technique saves enough."""
    lines = []
    for name in TECHNIQUES:
        selected = [point for point in points if point.technique == name]
        cells = [f"`{name}`"]
        for budget in BUDGETS:
            enough = [p for p in selected if p.counts and p.saving_over_nominal.value >= budget]
            chosen = max(enough, key=lambda point: point.vdd_volts, default=None)
            cells.append(f"{plus_minus(chosen.years)} ({chosen.vdd_volts:g} V)" if chosen else DASH)
        lasting = [p for p in selected if p.b10.lower >= 10]
        best = max(lasting, key=lambda point: point.saving_over_nominal.value)
        saving = plus_minus(best.saving_over_nominal, 100)
        lines.append([*cells, f"{saving} % ({best.vdd_volts:g} V)"])
    headings = ["technique", *(f"{percent(budget)} saved" for budget in BUDGETS)]
    return markdown([*headings, "most that lasts ten years"], lines)


def survival_figure(slope: Slope, survival: dict[tuple[str, str], Path]) -> Figure:
    """Curves with aging, and dotted without: a row for each way to release windows."""
    rows, columns = len(slope.releases), len(slope.scenarios)
    size = (7.8, 2.8 * rows) if columns > 1 else (5.6, 3.4)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes_of_row, release in zip(grid, slope.releases, strict=True):
        aged, without_growth = (_lives(survival[release, aging]) for aging in AGING)
        for axes, (conditions, cases) in zip(axes_of_row, aged.items(), strict=True):
            plot = survival(10.0, "slices").of_cases(
                (NamedCase((), name, "", name), [alive(of)]) for name, of in cases.items()
            )
            plot.draw(axes, plot.named(plot.panels[0], "lives"), LOOKS)
            for name, lives in without_growth[conditions].items():
                if curve := alive(lives).series:
                    axes.step(
                        curve.x,
                        curve.y,
                        where="post",
                        color=LOOKS[name].colour,
                        linestyle=":",
                        linewidth=0.9,
                    )
            axes.set_title(f"{conditions[1]}\nreleased by {release}")
            axes.label_outer()
    handles = [line_of(LOOKS[name]) for name in TECHNIQUES]
    figure.legend(handles, TECHNIQUES, loc="outside lower center", ncols=4)
    figure.suptitle("Slices whose low-voltage mode is usable; dotted: without aging", fontsize=9.5)
    return figure


def energy_figure(slope: Slope, points: list[EnergyPoint]) -> Figure:
    """Years against energy, a curve for each technique, its points the low Vdd."""
    figure = Figure(figsize=(6.2, 4.0), layout="constrained")
    axes = figure.subplots()
    for name in TECHNIQUES:
        selected = [point for point in points if point.technique == name and point.counts]
        saving = [100 * point.saving_over_nominal.value for point in selected]
        years = [point.years.value for point in selected]
        errors = [(p.years.upper - p.years.lower) / 2 for p in selected]
        axes.errorbar(
            saving, years, errors, color=LOOKS[name].colour, label=name, marker="o", ms=2.5, lw=1.0
        )
    axes.set(xlabel="energy saved over a conventional slice at nominal Vdd (%)", ylim=(0, 10.3))
    axes.set_ylabel("years lived up to 10")
    axes.set_title(f"dvfs, {slope.scenarios[0]}; each point a low Vdd")
    axes.legend(fontsize=7)
    return figure


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _row(line: Any) -> dict[str, Any]:
    """Fields of a line, every estimate as three numbers of six digits."""
    row: dict[str, Any] = {}
    for name, value in vars(line).items():
        if isinstance(value, Estimate):
            row |= {f"{name}_{key}": _digits(number) for key, number in vars(value).items()}
        else:
            row[name] = value
    return row


def _digits(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.6g}"


if __name__ == "__main__":
    main()
