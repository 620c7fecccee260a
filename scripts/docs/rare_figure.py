"""Estimate and draw how early slices die: dead on arrival, and by three years under DVFS.

One row of a table for each technique, voltage and age; rows that the table has are not computed
again, so that a stopped run goes on.

    python scripts/docs/rare_figure.py results/rare.csv [docs/figures/rare-events.png]
"""

import csv
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from mcage.engines import select_engine
from mcage.methods.rare_events import failure_probability
from mcage.report.figures.canvas import GREY, LOOKS, STYLE
from mcage.spec import SweepSpec

DEFAULT_OUT = Path("docs/figures/rare-events.png")
LATER_YEARS = 3.0
PER_MILLION = 1e6

Row = dict[str, Any]

MANUFACTURED = {
    "baseline": (0.50, 0.53, 0.56, 0.59, 0.62, 0.65),
    "rc+rar": (0.50, 0.53, 0.56, 0.59, 0.62, 0.65),
    "rrcd": (0.42, 0.43, 0.44, 0.45),
    "rrcd+rc+rar": (0.43,),
}
LATER = {
    "baseline": (0.53, 0.59, 0.65),
    "rc+rar": (0.53, 0.59, 0.65),
    "rrcd": (0.43, 0.44, 0.45),
}
"""Low voltages of each technique; fewer where lives are long."""

SLICES = {"baseline": 4000, "rc+rar": 4000, "rrcd": 4000, "rrcd+rc+rar": 1000}
LATER_SLICES = {"baseline": 2000, "rc+rar": 2000, "rrcd": 1500}
"""Fewer than by default; the intervals say what that costs."""


OVER_OTHERS: dict[str, dict[str, str]] = {
    "rc+rar": {"markerfacecolor": "none", "linestyle": "--"},
    "rrcd+rc+rar": {"markerfacecolor": "none", "linestyle": "none"},
}
"""On arrival, they lie on others' curves."""


def main() -> None:
    table_path = Path(sys.argv[1])
    picture_path = Path(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_OUT
    rows = read(table_path)
    done = {(row["technique"], row["vdd_volts"], row["age_years"]) for row in rows}
    for age_years, points in ((0.0, MANUFACTURED), (LATER_YEARS, LATER)):
        for technique, volts in points.items():
            for vdd_volts in volts:
                if (technique, vdd_volts, age_years) not in done:
                    rows.append(estimated(technique, vdd_volts, age_years))
                    write(table_path, rows)
                    print(rows[-1], flush=True)
    draw(rows, picture_path)
    print(picture_path)


def estimated(technique: str, vdd_volts: float, age_years: float) -> Row:
    began = time.monotonic()
    spec = SweepSpec.from_mapping(
        {
            "preset": "papers",
            "techniques": [technique],
            "environments": ["dvfs"],
            "vdd_volts": [vdd_volts],
        }
    )
    engine, _ = select_engine("numba")
    slices = (LATER_SLICES if age_years else SLICES)[technique]
    estimate = failure_probability(spec, age_years, slices, engine=engine)
    return {
        "technique": technique,
        "vdd_volts": vdd_volts,
        "age_years": age_years,
        "probability": estimate.probability,
        "lower": estimate.lower,
        "upper": estimate.upper,
        "effective_samples": round(estimate.effective_samples, 1),
        "instances": estimate.instances,
        "seconds": round(time.monotonic() - began),
        "warnings": "; ".join(estimate.warnings),
    }


def read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            {
                key: value if key in ("technique", "warnings") else float(value)
                for key, value in row.items()
            }
            for row in csv.DictReader(file)
        ]


def write(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def draw(rows: list[Row], path: Path) -> None:
    with plt.rc_context({**STYLE, "text.parse_math": True}):  # powers of ten at the ticks
        figure, both = plt.subplots(
            1, 2, figsize=(7.4, 3.2), sharex=True, sharey=True, layout="constrained"
        )
        titles = "dead on arrival", f"dead by {LATER_YEARS:g} years under DVFS"
        parts = (0.0, MANUFACTURED), (LATER_YEARS, LATER)
        for axes, title, (age_years, points) in zip(both, titles, parts, strict=True):
            for technique in points:
                draw_curve(axes, technique, rows, age_years)
            axes.set(yscale="log", ylim=(1e-10 * PER_MILLION, PER_MILLION))
            axes.set_xlabel("low supply voltage (V)")
            axes.axhline(1.0, color=GREY, linewidth=0.5, linestyle=(0, (4, 2)))
            axes.set_title(title)
        both[0].set_ylabel("slices per million")
        both[0].text(0.65, 1.3, "1 in a million", color=GREY, ha="right")
        both[0].legend(frameon=False, loc="upper right")
        figure.savefig(path, dpi=200)


def draw_curve(axes: plt.Axes, technique: str, rows: list[Row], age_years: float) -> None:
    """Estimates of a technique with their intervals, from the lowest voltage on."""
    points = sorted(
        (
            [row["vdd_volts"], row["probability"], row["lower"], row["upper"]]
            for row in rows
            if (row["technique"], row["age_years"]) == (technique, age_years)
        ),
    )
    volts, middle, lower, upper = np.array(points).T
    middle, lower, upper = (PER_MILLION * part for part in (middle, lower, upper))
    axes.errorbar(
        volts,
        middle,
        (middle - lower, upper - middle),
        color=LOOKS[technique].colour,
        label=technique,
        marker="o",
        markersize=6 if technique in OVER_OTHERS else 3,
        linewidth=1.0,
        elinewidth=0.8,
        **OVER_OTHERS.get(technique, {}),
    )


if __name__ == "__main__":
    main()
