"""What the studies of whole GPUs say: the tables and figures of docs/gpu-level.md.

    python scripts/experiments/gpu_level.py results/gpu-level

Computes the studies that are not in the folder yet (some minutes on two cores), then writes
`docs/figures/gpu-level-*.png` and the tables of `docs/gpu-level.md`, which stand between comments
there.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

import heterogeneity_figure
import matplotlib
import numpy as np
import xarray as xr
from doc_tables import bring_up_to_date, markdown
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mcage.aging.environment import Environment, OperatingPoint
from mcage.aging.nbti import SECONDS_PER_YEAR, nbti_model
from mcage.campaign.progress import progress_on_stderr
from mcage.campaign.run import run_campaign
from mcage.concurrency import usable_cores
from mcage.engines import select_engine
from mcage.report.figures.canvas import STYLE, save
from mcage.results.reader import open_results
from mcage.stats.estimates import plus_minus, with_bounds
from mcage.stats.paired import compare_means
from mcage.stats.survival import kaplan_meier, life_quantile
from mcage.studies.gpu_both.spec import BothSpec
from mcage.studies.gpu_both.study import Both
from mcage.studies.gpu_gating.life import ROUND_SECONDS, shifts_of_rounds
from mcage.studies.gpu_gating.policies import policy
from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.gpu_gating.study import Gating
from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec
from mcage.studies.gpu_heterogeneity.study import Heterogeneity

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "results" / "gpu-level.md"
FIGURES = ROOT / "docs" / "figures"

POLICIES = ("default", "round-robin", "least-shift", "coolest-first", "most-slack")
LINES: dict[str, dict[str, Any]] = {
    "default": {"color": "#000000", "linestyle": "-", "marker": "o"},
    "round-robin": {"color": "#D55E00", "linestyle": "--", "marker": "s"},
    "least-shift": {"color": "#0072B2", "linestyle": "-.", "marker": "^"},
    "coolest-first": {"color": "#E69F00", "linestyle": ":", "marker": "D"},
    "most-slack": {"color": "#009E73", "linestyle": "-", "marker": "v"},
}
"""Colours of Okabe and Ito; lines and markers tell the policies apart in grey, too."""

VDD_VOLTS = {"facelift": 1.0, "bhardwaj": 1.0, "finfet": 0.9}
"""NBTI models, and the supply voltage that their papers print."""

NOISES_MV = (0.0, 2.0, 5.0, 10.0, 20.0)
SIGMAS_MV = (0.0, 5.0, 10.0, 19.2, 30.0)
SPARES = (0, 1, 2, 4)
ROUND_COUNTS = (100, 1_000, 10_000)
ACTIVE = (15, 12, 8)

AGES_IN_WORDS = {0.036: "36 ms", 1.0: "1 s", 3600.0: "1 h", 31_536_000.0: "1 year"}

DOUBLE_COLUMN_INCHES = 7.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the results files are, or will be")
    parser.add_argument("--instances", type=int, default=2000, help="GPUs of each study (2000)")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    matplotlib.rcParams.update(STYLE)

    def computed(name: str, **fields: Any) -> xr.Dataset:
        spec = GatingSpec.from_mapping(
            {"instances": given.instances, "policies": list(POLICIES), **fields}
        )
        path = given.folder / f"{name}.h5"
        run_campaign(Gating(spec).study, path, progress=progress_on_stderr())
        return open_results(path)

    by_model = {
        name: computed(name, aging={"model": name, "vdd_volts": VDD_VOLTS[name]})
        for name in VDD_VOLTS
    }
    by_noise = {
        noise: computed(f"noise-{noise:g}", sensors={"noise_mv": noise}) for noise in NOISES_MV
    }
    by_sigma = {
        sigma: computed(f"sigma-{sigma:g}", variation={"sigma_systematic_mv": sigma})
        for sigma in SIGMAS_MV
    }
    by_spares = {
        spares: computed(f"spares-{spares}", life={"spare_sms": spares, "delay_guardband": 0.08})
        for spares in SPARES
    }
    draw_margins(by_model["facelift"], by_noise, by_sigma)
    mitigations = mitigation_by_age()
    draw_mitigation(mitigations)
    draw_retirement(by_spares)
    draw_both(
        both_levels(given.folder / "both.h5", min(given.instances, 500)),
        both_levels(
            given.folder / "both-low-voltage.h5",
            min(given.instances, 100),
            slices_per_sm=1,
            gating={"life": {"spare_sms": 4}},
            sweep={"environments": ["dvfs"], "techniques": ["rrcd", "rrcd+rc+rar"]},
        ),
    )
    draw_map(given.folder / "heterogeneity.h5", 10 * given.instances)
    bring_up_to_date(
        PAGE,
        {
            "margins": margins_table(by_model),
            "pairs": pairs_table(by_model["facelift"]),
            "noise": knobs_table("noise, mV", by_noise),
            "spread": knobs_table("spread, mV", by_sigma),
            "mitigation": mitigation_table(mitigations),
            "spares": spares_table(by_spares),
        },
    )


def both_levels(path: Path, instances: int, **fields: Any) -> xr.Dataset:
    spec = BothSpec.from_mapping({"instances": instances, **fields})
    study = Both(spec, *select_engine("auto", threads=usable_cores()))
    run_campaign(study.study, path, progress=progress_on_stderr())
    return open_results(path)


def draw_map(path: Path, instances: int) -> None:
    """The region in which the order of heterogeneous structures holds."""
    spec = {"instances": instances, "readings": ["activity", "combined", "thermal"]}
    study = Heterogeneity(HeterogeneitySpec.from_mapping(spec))
    run_campaign(study.study, path, progress=progress_on_stderr())
    heterogeneity_figure.draw(path)


def margins(results: xr.Dataset, name: str) -> np.ndarray:
    """Delay margin needed at the horizon, %."""
    return 100 * results["margin_needed"].sel(policy=name).values[:, -1]


def median(values: np.ndarray) -> Any:
    return life_quantile(values, np.ones(len(values), np.bool_), 0.5)


def margins_table(by_model: dict[str, xr.Dataset]) -> str:
    lines = []
    for name in POLICIES:
        cells = []
        for results in by_model.values():
            values = margins(results, name)
            cells.append(f"{with_bounds(median(values))}; {np.quantile(values, 0.99):.1f}")
        lines.append([f"`{name}`", *cells])
    return markdown(["policy", *(f"`{model}`" for model in by_model)], lines)


def pairs_table(results: xr.Dataset) -> str:
    """Each policy against taking turns, GPU by GPU."""
    turns = margins(results, "round-robin")
    lines = []
    for name in POLICIES:
        if name != "round-robin":
            change = compare_means(margins(results, name), turns).difference
            lines.append([f"`{name}`", plus_minus(change)])
    return markdown(["policy", "points more than `round-robin`, mean over GPUs"], lines)


def knobs_table(heading: str, studies: dict[float, xr.Dataset]) -> str:
    lines = [
        [f"{value:g}", *(f"{np.median(margins(results, name)):.2f}" for name in POLICIES)]
        for value, results in studies.items()
    ]
    return markdown([heading, *(f"`{name}`" for name in POLICIES)], lines)


def spares_table(by_spares: dict[int, xr.Dataset]) -> str:
    lines = []
    for spares, results in by_spares.items():
        cells = []
        for name in POLICIES:
            of_policy = results.sel(policy=name)
            died = of_policy["end_cause"].values != 0
            years = life_quantile(of_policy["life_years"].values, died, 0.5).value
            cells.append(f"{years:.2f}" if np.isfinite(years) else "> 10")
        lines.append([str(spares), *cells])
    return markdown(["spare SMs", *(f"`{name}`" for name in POLICIES)], lines)


def mitigation_by_age() -> dict[tuple[str, int], list[tuple[float, float]]]:
    """Age in seconds and mitigation in %, by model and SMs that work.

    Up to 10,000 launches every phase is computed. For years there is the long-term form of each
    model, with the duty of SMs that take turns.
    """
    curves: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for active in ACTIVE:
        points = []
        for rounds in ROUND_COUNTS:
            shifts = [
                shifts_of_rounds(policy(name), np.full(rounds, active), 16).max()
                for name in ("round-robin", "default")
            ]
            points.append((rounds * ROUND_SECONDS, 100 * (1 - shifts[0] / shifts[1])))
        curves["bhardwaj, launch by launch", active] = points
        for name, volts in VDD_VOLTS.items():
            model = nbti_model(name)
            ages = np.array([1e-3, 1e-2, 0.1, 1.0, 3.0, 10.0]) * SECONDS_PER_YEAR
            if model.additive:  # the sum of many short phases, at any age
                ages = np.concatenate([np.array(ROUND_COUNTS) * ROUND_SECONDS, ages])
            gated, always = (
                model.dvth_at(environment(volts), duty, ages) for duty in (active / 16, 1.0)
            )
            saved = 100 * (1 - gated / always)
            label = "bhardwaj, long-term form" if name == "bhardwaj" else name
            curves[label, active] = list(zip(ages.tolist(), saved.tolist(), strict=True))
    return curves


def environment(volts: float) -> Environment:
    return Environment("constant", (OperatingPoint(volts, 1.0, 353.15),))


def mitigation_table(curves: dict[tuple[str, int], list[tuple[float, float]]]) -> str:
    ages = sorted({age for points in curves.values() for age, _ in points})
    labels = list(dict.fromkeys(label for label, _ in curves))
    lines = []
    for label in labels:
        for active in ACTIVE:
            points = dict(curves[label, active])
            cells = [f"{points[age]:.1f}" if age in points else "" for age in ages]
            lines.append([label, str(active), *cells])
    return markdown(["model", "SMs of 16", *map(age_in_words, ages)], lines)


def age_in_words(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.3g} s"
    years = seconds / SECONDS_PER_YEAR
    return f"{years:.3g} y"


def draw_margins(
    results: xr.Dataset, by_noise: dict[float, xr.Dataset], by_sigma: dict[float, xr.Dataset]
) -> None:
    figure = Figure(figsize=(DOUBLE_COLUMN_INCHES, 2.4), layout="constrained")
    axes = figure.subplots(1, 3)
    ages = results["age"].values
    for name in POLICIES:
        values = 100 * results["margin_needed"].sel(policy=name).values
        axes[0].plot(ages, np.median(values, axis=0), label=name, **style(name))
        axes[0].fill_between(
            ages,
            np.quantile(values, 0.01, axis=0),
            np.quantile(values, 0.99, axis=0),
            color=LINES[name]["color"],
            alpha=0.15,
            linewidth=0,
        )
    axes[0].set(xlabel="age, years", ylabel="delay margin needed, %", title="(a) by policy")
    figure.legend(loc="outside upper center", ncols=len(POLICIES), fontsize=7)
    for panel, studies, label, title in (
        (axes[1], by_noise, "noise of a reading, mV", "(b) sensor, 10 years"),
        (axes[2], by_sigma, "spread of unaged thresholds, mV", "(c) spread, 10 years"),
    ):
        for name in POLICIES:
            medians = [np.median(margins(study, name)) for study in studies.values()]
            panel.plot(list(studies), medians, **style(name))
        panel.set(xlabel=label, title=title)
    for panel in axes:
        panel.set_ylim(bottom=0)
    write(figure, "margins")


def draw_mitigation(curves: dict[tuple[str, int], list[tuple[float, float]]]) -> None:
    figure = Figure(figsize=(DOUBLE_COLUMN_INCHES, 2.4), layout="constrained")
    panels = figure.subplots(1, len(ACTIVE), sharey=True)
    labels = list(dict.fromkeys(label for label, _ in curves))
    colours = ("#000000", "#0072B2", "#D55E00", "#009E73")
    marks = ("o", "s", "^", "v")
    for panel, active in zip(panels, ACTIVE, strict=True):
        for label, colour, mark in zip(labels, colours, marks, strict=False):
            points = curves[label, active]
            panel.semilogx(
                *zip(*points, strict=True), color=colour, marker=mark, markersize=3, label=label
            )
        panel.set(xlabel="age", title=f"{active} of 16 SMs work", ylim=(0, 100))
        panel.set_xticks(list(AGES_IN_WORDS), list(AGES_IN_WORDS.values()))
        panel.minorticks_off()
    panels[0].set_ylabel("mitigation of dVth, %")
    names, labels = panels[0].get_legend_handles_labels()
    figure.legend(names, labels, loc="outside upper center", ncols=len(labels), fontsize=7)
    write(figure, "mitigation")


def draw_retirement(by_spares: dict[int, xr.Dataset]) -> None:
    figure = Figure(figsize=(DOUBLE_COLUMN_INCHES, 2.4), layout="constrained")
    panels = figure.subplots(1, len(by_spares), sharey=True)
    for panel, (spares, results) in zip(panels, by_spares.items(), strict=True):
        for name in POLICIES:
            of_policy = results.sel(policy=name)
            draw_survival(panel, of_policy, name)
        panel.set(xlabel="age, years", title=f"{spares} spare SMs", ylim=(0, 1.02), xlim=(0, 10))
    panels[0].set_ylabel("GPUs alive")
    names, labels = panels[0].get_legend_handles_labels()
    figure.legend(names, labels, loc="outside upper center", ncols=len(labels), fontsize=7)
    write(figure, "retirement")


def draw_both(nominal: xr.Dataset, low: xr.Dataset) -> None:
    figure = Figure(figsize=(DOUBLE_COLUMN_INCHES, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    lines = ("-", "--", "-.", ":")
    pairs = [(policies, technique) for policies in (0, 1) for technique in (0, 1)]
    names = ("none", "register files", "gating", "both")
    colours = ("#000000", "#E69F00", "#0072B2", "#009E73")
    ages = nominal["age"].values
    for (level, technique), name, colour, line in zip(pairs, names, colours, lines, strict=True):
        chosen = {"policy": level, "technique": technique}
        cells = 100 * nominal["cell_margin"].isel(chosen).values
        left.plot(
            ages,
            np.nanmedian(cells, axis=0),
            label=name,
            color=colour,
            linestyle=line,
            marker="o",
            markersize=3,
        )
        of_pair = low.isel(chosen)
        curve = kaplan_meier(of_pair["life_years"].values, of_pair["end_cause"].values != 0)
        right.step(
            [0.0, *curve.years, 10.0],
            [1.0, *curve.survival, curve.survival[-1]],
            where="post",
            color=colour,
            linestyle=line,
        )
    left.set(xlabel="age, years", ylabel="margin that cells need, %", title="(a) 1.0 V", ylim=0)
    right.set(
        xlabel="age, years",
        ylabel="GPUs alive",
        title="(b) 0.8 and 0.419 V, RRCD, four spare SMs",
        ylim=(0, 1.02),
    )
    figure.legend(loc="outside upper center", ncols=4, fontsize=7)
    write(figure, "both")


def draw_survival(panel: Axes, of_policy: xr.Dataset, name: str) -> None:
    years = of_policy["life_years"].values
    curve = kaplan_meier(years, of_policy["end_cause"].values != 0)
    last = curve.survival[-1] if len(curve.survival) else 1.0
    panel.step(
        [0.0, *curve.years, 10.0],
        [1.0, *curve.survival, last],
        where="post",
        label=name,
        color=LINES[name]["color"],
        linestyle=LINES[name]["linestyle"],
        linewidth=1.2,
    )


def style(name: str) -> dict[str, Any]:
    return {**LINES[name], "linewidth": 1.2, "markersize": 3}


def write(figure: Figure, name: str) -> None:
    save(figure, FIGURES / f"gpu-level-{name}.png")


if __name__ == "__main__":
    main()
