"""Draw the figure of the README from the results of the default sweep.

Left, the share of slices that still work under DVFS; right, how far the worst transistor of each
slice has drifted at nominal voltage by the end of its life or of the simulated time.

    python scripts/docs/readme_figure.py results/sweep.h5 [docs/figures/lifetimes.png]
"""

import sys
import tomllib
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from mcage.aging.delay import dvth_at_delay
from mcage.aging.environment import DVFS_HIGH_VDD_VOLTS, NOMINAL_VDD_VOLTS
from mcage.aging.nbti import facelift
from mcage.lifetime.end_cause import EndCause
from mcage.report.cases import Named
from mcage.report.figures.sheet import line_of
from mcage.report.figures.style import GREY, LOOKS, STYLE
from mcage.report.figures.survival import draw_panel, numbers_of
from mcage.results.reader import open_results
from mcage.spec import SweepSpec

DEFAULT_OUT = Path("docs/figures/lifetimes.png")


def main() -> None:
    results_path = Path(sys.argv[1])
    picture_path = Path(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_OUT
    with open_results(results_path) as results, plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(7.4, 3.0), width_ratios=(1, 1.2), layout="constrained"
        )
        figure.get_layout_engine().set(wspace=0.1)
        draw_low_voltage(left, _by_technique(results, "dvfs"))
        draw_shifts(right, _by_technique(results, "nominal"), _limit_mv(results))
        figure.suptitle(
            f"How long {results.sizes['instance']:,} sampled register-file slices work, "
            "and how far their transistors drift",
            fontsize=9.5,
        )
        figure.savefig(picture_path, dpi=200)
    print(picture_path)


def draw_low_voltage(axes: Axes, cases: dict[str, xr.Dataset]) -> None:
    """Kaplan-Meier curves with their 95 % bands; techniques that never work by name."""
    named = [Named.of(case, numbers_of(case)) for case in cases.values()]
    draw_panel(axes, named, LOOKS, "lives")
    never = [case.technique for case in named if case.numbers.never_works]
    words = f"{', '.join(never)}:\ndead on arrival"
    axes.text(0.97, 0.97, words, transform=axes.transAxes, ha="right", va="top")
    handles = {
        case.technique: line_of(LOOKS[case.technique])
        for case in named
        if not case.numbers.never_works
    }
    axes.legend(list(handles.values()), list(handles), loc="lower right", bbox_to_anchor=(1, 0.06))
    axes.text(0.15, 3, "steps: the next kernel starts", color=GREY)
    low_volts = float(next(iter(cases.values()))["vdd_volts"])
    axes.set_title(f"under DVFS ({DVFS_HIGH_VDD_VOLTS:g} V and {low_volts:g} V)")


def draw_shifts(axes: Axes, cases: dict[str, xr.Dataset], limit_mv: float) -> None:
    """Histograms of the slices' worst shifts, one technique above the other."""
    bins = np.arange(0.0, np.ceil(limit_mv) + 2.0)
    for row, (name, case) in enumerate(reversed(cases.items())):
        worst = case["max_dvth_mv"].max("transistor").values
        counts, _ = np.histogram(worst, bins)
        height = 0.8 * counts / counts.max()
        axes.stairs(
            height + row, bins, baseline=row, fill=True, color=LOOKS[name].colour, alpha=0.85
        )
        axes.axhline(row, color=GREY, linewidth=0.4)
        axes.text(0.6, row + 0.94, f"{name}\n{_age_in_words(case)}", va="top", linespacing=1.4)
    axes.axvline(limit_mv, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.text(limit_mv - 0.8, len(cases) + 0.02, "delay guardband", color=GREY, ha="right")
    axes.set_title(f"at nominal voltage ({NOMINAL_VDD_VOLTS:g} V)")
    axes.set(xlim=(0, bins[-1] + 1), ylim=(0, len(cases) + 0.15), yticks=[])
    axes.set_xlabel("threshold shift of the slice's worst transistor (mV)")
    axes.set_ylabel("slices (each scaled to its peak)")
    axes.spines["left"].set_visible(False)


def _age_in_words(case: xr.Dataset) -> str:
    working = 100 * float((case["end_cause"] == EndCause.CENSORED).mean())
    if working > 50:
        return f"{working:.4g} % reach {float(case['epoch_end_years'][-1]):g} years"
    return f"median life {float(case['life_years'].median()):.1f} years"


def _by_technique(results: xr.Dataset, environment: str) -> dict[str, xr.Dataset]:
    chosen = results.isel(case=results["environment"].values == environment)
    return {
        str(chosen["technique"].values[number]): chosen.isel(case=number).load()
        for number in range(chosen.sizes["case"])
    }


def _limit_mv(results: xr.Dataset) -> float:
    """Shift that uses up the sweep's delay guardband at the nominal voltage."""
    spec = SweepSpec.from_mapping(tomllib.loads(results.attrs["spec"]))
    model = facelift()
    return 1e3 * dvth_at_delay(
        spec.life.delay_guardband, NOMINAL_VDD_VOLTS, model.vt0_volts, model.alpha
    )


if __name__ == "__main__":
    main()
