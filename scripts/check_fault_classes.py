"""Does the spatial fault model still give the entry classes that its parameters were fitted to?

Prints, in percent of the entries, the classes of 1000 maps of every scenario beside those found
when the parameters were fitted (by a sampler that drew all cells, also 1000 maps), the model's
expectation and the published table; then the expected share of faulty entries against Vdd, and
the cost of a map. Exits with 1 if a class is more than 4 standard errors off the fit's.

    python scripts/check_fault_classes.py
"""

import sys
import time

import numpy as np

from mcage.variation import (
    CLASSES,
    SCENARIOS,
    class_shares,
    expected_classes,
    faulty_bits,
    sample_tail,
    scenario,
)

MAPS = 1000
SEED = 1

AT_FIT = {  # classes, and their standard errors over 1000 maps
    "common": ([32.88, 34.31, 19.92, 8.58, 4.31], [0.23, 0.11, 0.12, 0.10, 0.09]),
    "clustered": ([40.16, 22.71, 12.56, 7.40, 17.16], [0.55, 0.20, 0.15, 0.13, 0.49]),
    "dispersed": ([25.29, 34.69, 23.88, 11.00, 5.14], [0.09, 0.10, 0.08, 0.06, 0.04]),
}

FLOORS = {"common": (0.419, 0.40), "clustered": (0.497, 0.48), "dispersed": (0.371, 0.35)}


def row(label: str, values: np.ndarray, faulty: bool = True) -> None:
    """Print one line of a table."""
    cells = [*values, values[2:].sum()] if faulty else values
    print(f"{label:28s}" + "".join(f"{value:8.2f}" for value in cells))


def sampled(name: str) -> np.ndarray:
    """Class shares of MAPS maps, in percent, float64[MAPS, 5]."""
    this = scenario(name)
    cells = sample_tail(this, SEED, np.arange(MAPS), this.vdd_volts)
    return 100 * class_shares(faulty_bits(cells, cells.vmin_volts > this.vdd_volts))


def main() -> int:
    """Print everything; return the exit code."""
    worst = 0.0
    for name in SCENARIOS:
        this = scenario(name)
        shares = sampled(name)
        mean, deviation = shares.mean(axis=0), shares.std(axis=0, ddof=1)
        error = deviation / np.sqrt(MAPS)
        fit, fit_error = map(np.array, AT_FIT[name])
        z = (mean - fit) / np.hypot(error, fit_error)
        worst = max(worst, abs(z).max())
        print(f"{name}, {this.vdd_volts * 1000:g} mV, {MAPS} maps, seed {SEED}")
        print(
            f"{'entries with faulty bits, %':28s}" + "".join(f"{c:>8s}" for c in CLASSES), "  >=2"
        )
        row("mean", mean)
        row("  standard error", error, faulty=False)
        row("  deviation of one map", deviation, faulty=False)
        row("expected by the model", 100 * expected_classes(this, this.vdd_volts))
        row("when fitted", fit)
        row("  difference, std. errors", z, faulty=False)
        row("published (Table I)", 100 * np.array(this.table_shares))
        print()

    millivolts = range(350, 601, 25)
    print("expected share of faulty entries, %")
    print(f"{'mV':12s}" + "".join(f"{mv:9d}" for mv in millivolts))
    for name in SCENARIOS:
        faulty = [100 * expected_classes(scenario(name), mv / 1000)[2:].sum() for mv in millivolts]
        print(f"{name:12s}" + "".join(f"{share:9.4f}" for share in faulty))
    print()

    print("cost of a map on one core")
    for name, floors in FLOORS.items():
        for floor in floors:
            start = time.perf_counter()
            cells = sample_tail(scenario(name), SEED, np.arange(200), floor)
            each = (time.perf_counter() - start) / 200
            print(
                f"{name:12s}floor {floor * 1000:3.0f} mV: {len(cells.cell) / 200:6.0f} cells, "
                f"{each * 1000:5.2f} ms"
            )
    print(f"\nlargest difference from the fit: {worst:.1f} standard errors")
    return int(worst > 4)


if __name__ == "__main__":
    sys.exit(main())
