"""How long the low-voltage mode stays usable, and what that costs: tables and figures of a page.

    python scripts/experiments/low_voltage.py results

Computes the sweeps that are not in the folder yet (half an hour on two cores), then writes
`results/low-voltage/*.csv`, `docs/figures/low-voltage-*.png`, and the tables of
`docs/low-voltage.md`, which stand between comments there.
"""

import argparse
import csv
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

import matplotlib
import numpy as np
import xarray as xr
from doc_tables import bring_up_to_date, markdown
from matplotlib.figure import Figure

from mcage.campaign.progress.choice import progress_on_stderr
from mcage.report.cases import Setting, lives_of
from mcage.report.figures import (
    COLOURS,
    STYLE,
    draw_curve,
    draw_survival,
    in_words,
    name_curves,
    save,
    settings_of,
)
from mcage.results.reader import open_results
from mcage.spec import SweepSpec
from mcage.stats.estimates import Estimate, mean, proportion
from mcage.stats.paired import compare_means
from mcage.stats.survival import CaseLives, life_quantile
from mcage.stats.wording import DASH, life, percent, plus_minus
from mcage.sweep.run import run_sweep
from mcage.traces.transforms import RELEASES
from mcage.variation import SCENARIOS, scenario

ROOT = Path(__file__).parents[2]
CSV = ROOT / "results" / "low-voltage"
PAGE = ROOT / "docs" / "low-voltage.md"
FIGURES = ROOT / "docs" / "figures"

TECHNIQUES = ("baseline", "rc+rar", "disable", "gr-guard", "rrcd", "rrcd+pg", "rrcd+rc+rar")
REFERENCE = "rrcd"
"""The technique whose years the others are compared with."""

AGING = {"aging": 1.0, "no aging": 0.0}
"""Growth of Vmin per threshold shift, V/V: with it, and without any."""

LOW_VOLTS = (*(round(0.39 + 0.01 * step, 3) for step in range(20)), 0.6, 0.65, 0.7)
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
    given = parser.parse_args()
    CSV.mkdir(parents=True, exist_ok=True)
    survival = {
        (release, aging): swept(
            given.folder / f"low-voltage-{release}-{aging.replace(' ', '-')}.h5",
            given.instances,
            scenarios=list(SCENARIOS),
            workload={"release": release},
            life={"vmin_coefficient": coefficient},
        )
        for release in RELEASES
        for aging, coefficient in AGING.items()
    }
    voltages = swept(
        given.folder / "low-voltage-energy.h5",
        given.energy_instances,
        scenarios=["common"],
        vdd_volts=list(LOW_VOLTS),
    )
    lines = [line for release in RELEASES for line in life_lines(release, survival)]
    points = list(energy_points(voltages))
    write_csv(CSV / "lives.csv", [_row(line) for line in lines])
    write_csv(CSV / "energy.csv", [_row(point) for point in points])
    with matplotlib.rc_context(STYLE):
        save(survival_figure(survival), FIGURES / "low-voltage-life.png")
        save(energy_figure(points), FIGURES / "low-voltage-energy.png")
    tables = {f"lives {release}": life_table(lines, release) for release in RELEASES}
    bring_up_to_date(PAGE, {**tables, "equal energy": energy_table(points)})


def swept(path: Path, instances: int, **fields: Any) -> Path:
    """A sweep under DVFS over all techniques, computed unless it is there."""
    fields = {"environments": ["dvfs"], "techniques": list(TECHNIQUES), **fields}
    spec = SweepSpec.from_mapping({"instances": instances, **fields}, path.name)
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
    for setting, cases in aged.items():
        for name, lives in cases.items():
            unaged, reference = without_growth[setting][name], cases[REFERENCE]
            yield LifeLine(
                release=release,
                scenario=setting.scenario,
                vdd_volts=scenario(setting.scenario).vdd_volts,
                technique=name,
                instances=lives.years.size,
                b10=life_quantile(lives.years, lives.died, 0.1),
                median=life_quantile(lives.years, lives.died),
                reach=proportion(int((~lives.died).sum()), lives.years.size),
                years=mean(lives.years),
                lost_to_aging=compare_means(unaged.years, lives.years).difference,
                over_reference=compare_means(lives.years, reference.years).difference,
            )


def _lives(path: Path) -> dict[Setting, dict[str, CaseLives]]:
    with open_results(path) as results:
        return settings_of(results)


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
        years=mean(lives.years),
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


def survival_figure(survival: dict[tuple[str, str], Path]) -> Figure:
    """Curves with aging, and dotted without: a row for each way to release windows."""
    figure = Figure(figsize=(7.8, 5.6), layout="constrained")
    grid = figure.subplots(len(RELEASES), len(SCENARIOS), sharex=True, sharey=True)
    for axes_of_row, release in zip(grid, RELEASES, strict=True):
        aged, without_growth = (_lives(survival[release, aging]) for aging in AGING)
        for axes, (setting, cases) in zip(axes_of_row, aged.items(), strict=True):
            draw_survival(axes, cases, COLOURS)
            for name, lives in without_growth[setting].items():
                if lives.years.any():
                    draw_curve(axes, lives, COLOURS[name], linestyle=":", linewidth=0.9)
            axes.set_title(f"{in_words(setting)}\nreleased by {release}")
            axes.label_outer()
    name_curves(figure)
    figure.suptitle("Slices whose low-voltage mode is usable; dotted: without aging", fontsize=9.5)
    return figure


def energy_figure(points: list[EnergyPoint]) -> Figure:
    """Years against energy, a curve for each technique, its points the low Vdd."""
    figure = Figure(figsize=(6.2, 4.0), layout="constrained")
    axes = figure.subplots()
    for name in TECHNIQUES:
        selected = [point for point in points if point.technique == name and point.counts]
        saving = [100 * point.saving_over_nominal.value for point in selected]
        years = [point.years.value for point in selected]
        errors = [(p.years.upper - p.years.lower) / 2 for p in selected]
        axes.errorbar(
            saving, years, errors, color=COLOURS[name], label=name, marker="o", ms=2.5, lw=1.0
        )
    axes.set(xlabel="energy saved over a conventional slice at nominal Vdd (%)", ylim=(0, 10.3))
    axes.set_ylabel("years lived up to 10")
    axes.set_title("dvfs, common; each point a low Vdd")
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
