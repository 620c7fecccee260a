"""Draw the map of heterogeneous structures, and write its table into docs/gpu-level.md.

    mcage gpu heterogeneity --instances 20000 --reading activity --reading combined \\
        --reading thermal --out results/heterogeneity.h5
    python scripts/docs/heterogeneity_figure.py results/heterogeneity.h5

Left, in how many draws each design is better than the baseline, by the D^3 P that it costs. Right,
in how many draws the order proposal < baseline < duplication holds, by the D^3 P of both.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from doc_tables import bring_up_to_date, markdown
from matplotlib.axes import Axes

from mcage.report.figures.canvas import GREY, STYLE
from mcage.results.reader import open_results
from mcage.studies.gpu_heterogeneity.presentation import HeterogeneityPresentation
from mcage.studies.gpu_heterogeneity.study import HeterogeneityHeader

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "results" / "gpu-level.md"
DEFAULT_OUT = ROOT / "docs" / "figures" / "heterogeneity-map.png"

PROPOSAL, DUPLICATION = 1, 2
PRINTED = {PROPOSAL: 1.218, DUPLICATION: 1.207}
"""D^3 P that the printed efficiencies ask for, by the printed mean delays."""

COSTS = np.linspace(1.0, 1.8, 401)
PROPOSAL_COLOUR, DUPLICATION_COLOUR = "#0072B2", "#D55E00"

HEADINGS = (
    *("reading", "fields", "fills", "draws", "order holds, %", "proposal better, %"),
    *("duplication worse, %", "planar part limits, %"),
)


def main() -> None:
    draw(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_OUT)


def draw(results_path: Path, picture_path: Path = DEFAULT_OUT) -> None:
    bring_up_to_date(PAGE, {"heterogeneity": markdown(HEADINGS, lines(results_path))})
    with open_results(results_path) as results, plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.0), layout="constrained")
        draw_shares(left, results)
        draw_order(right, results)
        figure.savefig(picture_path, dpi=200)
    print(picture_path)


def lines(path: Path) -> list[list[str]]:
    """Lines of the table: shares in per cent."""
    return [
        [
            order.reading,
            order.fields,
            order.fills,
            f"{order.instances:,}",
            *(
                f"{100 * share.value:.1f}"
                for share in (
                    order.holds,
                    order.proposal_better,
                    order.duplication_worse,
                    order.planar_limits,
                )
            ),
        ]
        for row in HeterogeneityPresentation(HeterogeneityHeader).summarize_file(path)
        if row.design == "baseline"
        for order in row.orders
    ]


def break_even(results: xr.Dataset, design: int, common: bool) -> np.ndarray:
    """D^3 P at which a design is as efficient as the baseline, under `activity`."""
    selected = (results["common_field"].values != 0) == common
    values: np.ndarray = results["break_even"].values[0, design, selected]
    return values


def draw_shares(axes: Axes, results: xr.Dataset) -> None:
    """Shares of the draws in which designs are better than the baseline, by their D^3 P."""
    curves = (
        ("proposal, fields swapped", PROPOSAL, False, PROPOSAL_COLOUR, "-"),
        ("proposal, common field", PROPOSAL, True, PROPOSAL_COLOUR, "--"),
        ("duplication", DUPLICATION, False, DUPLICATION_COLOUR, "-"),
    )
    for label, design, common, colour, style in curves:
        better = (break_even(results, design, common)[:, np.newaxis] > COSTS).mean(axis=0)
        axes.plot(COSTS, 100 * better, style, color=colour, label=label)
    for design, colour in ((PROPOSAL, PROPOSAL_COLOUR), (DUPLICATION, DUPLICATION_COLOUR)):
        axes.axvline(PRINTED[design], color=colour, linewidth=0.8, linestyle=":")
    axes.set(xlabel="D³P over the baseline's", ylabel="better than the baseline (% of draws)")
    axes.set(xlim=(COSTS[0], COSTS[-1]), ylim=(0, 102))
    axes.legend(loc="upper right", fontsize=6)
    axes.set_title("which D³P a design may cost")
    axes.text(1.47, 45, "dotted: what the\nprinted efficiencies\nask for", color=GREY, fontsize=6)


def draw_order(axes: Axes, results: xr.Dataset) -> None:
    """Shares of the draws in which the order holds, by the D^3 P of both designs."""
    proposal = break_even(results, PROPOSAL, common=False)
    duplication = break_even(results, DUPLICATION, common=False)
    better = (proposal[:, np.newaxis] > COSTS).astype(np.float64)
    worse = (duplication[:, np.newaxis] < COSTS).astype(np.float64)
    holds = 100 * worse.T @ better / len(proposal)
    levels = (0, 5, 25, 50, 75, 95, 100)
    filled = axes.contourf(COSTS, COSTS, holds, levels=levels, cmap="viridis")
    axes.plot(PRINTED[PROPOSAL], PRINTED[DUPLICATION], "D", color="white", markeredgecolor="black")
    axes.set(
        xlabel="D³P of the proposal", ylabel="D³P of duplication", xlim=(1, 1.5), ylim=(1.1, 1.35)
    )
    axes.set_title("proposal < baseline < duplication, fields swapped")
    axes.figure.colorbar(filled, ax=axes, label="% of draws")


if __name__ == "__main__":
    main()
