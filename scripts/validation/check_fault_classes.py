"""Does the spatial fault model still give the entry classes that its parameters were fitted to?

Prints, in percent of the entries, the classes of 1000 maps of every scenario beside those found
when the parameters were fitted (by a sampler that drew all cells, also 1000 maps), the model's
expectation and the published table; how many of 4000 maps are within some points of that table,
beside what was found at the fit; the expected share of faulty entries against Vdd; what a die part
would do to common, expected and over 1000 dies of four slices; how far the fields of slices that
lie side by side would be correlated if they were one field; and the cost of a map. Exits with 1 if
a number is more than 4 standard errors off that at the fit, or off the expected one.

    python scripts/validation/check_fault_classes.py
"""

import sys
import time
from dataclasses import replace

import numpy as np

from mcage.variation.fault_models import class_shares, faulty_bits
from mcage.variation.field import spherical_correlation
from mcage.variation.scenarios import CLASSES, PUBLISHED, Scenario, scenario
from mcage.variation.vmin_tail import expected_classes, sample_tail

MAPS = 1000
SEED = 1

AT_FIT = {  # classes, and their standard errors over 1000 maps
    "common": ([32.88, 34.31, 19.92, 8.58, 4.31], [0.23, 0.11, 0.12, 0.10, 0.09]),
    "clustered": ([40.16, 22.71, 12.56, 7.40, 17.16], [0.55, 0.20, 0.15, 0.13, 0.49]),
    "dispersed": ([25.29, 34.69, 23.88, 11.00, 5.14], [0.09, 0.10, 0.08, 0.06, 0.04]),
}

COMPARED_MAPS = 4000
POINTS = (5, 3, 2, 1)
ACCEPTED_AT_FIT = {  # percent of 4000 maps with every class within so many points of the table
    "common": (36, 10, 2.2, 0.2),
    "clustered": (4.6, 0.8, 0.13, 0),
    "dispersed": (79, 32, 9.7, 0.8),
}

SIGMAS_DIE_MV = (0, 5, 14, 30, 81.6)
SLICES_PER_CHIP = 4

FLOORS = {"common": (0.419, 0.40), "clustered": (0.497, 0.48), "dispersed": (0.371, 0.35)}


def row(label: str, values: np.ndarray, faulty: bool = True) -> None:
    """Print one line of a table."""
    cells = [*values, values[2:].sum()] if faulty else values
    print(f"{label:28s}" + "".join(f"{value:8.2f}" for value in cells))


def shares_of(this: Scenario, maps: int, slices_per_chip: int = 1) -> np.ndarray:
    """Class shares of some maps, float64[maps, 5]."""
    parts = []
    for first in range(0, maps, MAPS):
        instances = np.arange(first, min(first + MAPS, maps))
        cells = sample_tail(this, SEED, instances, this.vdd_volts, slices_per_chip)
        parts.append(class_shares(faulty_bits(cells, cells.vmin_volts > this.vdd_volts)))
    return np.concatenate(parts)


def compare_classes(name: str) -> float:
    """Print the classes of one scenario; return the largest difference from the fit."""
    this = scenario(name)
    shares = 100 * shares_of(this, MAPS)
    mean, deviation = shares.mean(axis=0), shares.std(axis=0, ddof=1)
    error = deviation / np.sqrt(MAPS)
    fit, fit_error = map(np.array, AT_FIT[name])
    z = (mean - fit) / np.hypot(error, fit_error)
    print(f"{name}, {this.vdd_volts * 1000:g} mV, {MAPS} maps, seed {SEED}")
    print(f"{'entries with faulty bits, %':28s}" + "".join(f"{c:>8s}" for c in CLASSES), "  >=2")
    row("mean", mean)
    row("  standard error", error, faulty=False)
    row("  deviation of one map", deviation, faulty=False)
    row("expected by the model", 100 * expected_classes(this, this.vdd_volts))
    row("when fitted", fit)
    row("  difference, std. errors", z, faulty=False)
    row("published (Table I)", 100 * np.array(this.table_shares))
    print()
    return float(abs(z).max())


def compare_closeness() -> float:
    """Print shares of acceptable maps; return the largest difference from the fit."""
    worst = 0.0
    print(f"maps within so many points of Table I, % of {COMPARED_MAPS}, and when fitted")
    print(f"{'points':12s}" + "".join(f"{points:15d}" for points in POINTS))
    for name in PUBLISHED:
        this = scenario(name)
        shares = shares_of(this, COMPARED_MAPS)
        deviations = np.abs(shares - this.table_shares).max(axis=1)
        accepted = np.array([100 * (deviations <= points / 100).mean() for points in POINTS])
        fit = np.array(ACCEPTED_AT_FIT[name])
        # Of two samples; what was found at the fit is rounded to two digits, or is one map.
        rate = np.maximum(accepted + fit, 100 / COMPARED_MAPS) / 200
        error = 100 * np.sqrt(2 * rate * (1 - rate) / COMPARED_MAPS)
        worst = max(worst, (abs(accepted - fit) / error).max())
        cells = [f"{a:8.3g} ({f:g})".rjust(15) for a, f in zip(accepted, fit, strict=True)]
        print(f"{name:12s}" + "".join(cells))
    print()
    return worst


def compare_dies() -> float:
    """Print what a die part does to common; return the largest difference from expectation."""
    worst = 0.0
    print(f"common with a die part, {MAPS} dies of {SLICES_PER_CHIP} slices; r: correlation of the")
    print("faulty entries of two slices of a die")
    print(f"{'sigma_die, mV':28s}" + "".join(f"{c:>8s}" for c in CLASSES), "  >=2       r")
    for millivolts in SIGMAS_DIE_MV:
        this = replace(scenario("common"), sigma_die_volts=millivolts / 1000)
        by_die = 100 * shares_of(this, MAPS * SLICES_PER_CHIP, SLICES_PER_CHIP).reshape(
            MAPS, SLICES_PER_CHIP, len(CLASSES)
        )
        of_dies = by_die.mean(axis=1)
        expected = 100 * expected_classes(this, this.vdd_volts)
        error = of_dies.std(axis=0, ddof=1) / np.sqrt(MAPS)
        worst = max(worst, (abs(of_dies.mean(axis=0) - expected) / error).max())
        faulty = by_die[:, :, 2:].sum(axis=2)
        others = (faulty.sum(axis=1, keepdims=True) - faulty).ravel() / (SLICES_PER_CHIP - 1)
        centred = faulty.ravel() - faulty.mean()
        r = (centred * (others - faulty.mean())).mean() / (centred**2).mean()
        row(f"{millivolts:g}: mean", of_dies.mean(axis=0))
        print(f"{'   expected':28s}" + "".join(f"{v:8.2f}" for v in expected), end="")
        print(f"{expected[2:].sum():8.2f}{r:8.2f}")
    print()
    return worst


def neighbours() -> None:
    """Print the correlation of the mean fields of two slices, were theirs one field."""
    this = scenario("common")
    rows, columns = this.node_rows, this.node_columns
    y, x = np.divmod(np.arange(rows * columns), columns)
    y, x = (y + 0.5) / rows, (x + 0.5) / columns

    def covariance(down: float, right: float) -> float:
        distance = np.hypot(x[:, None] - x - right, y[:, None] - y - down)
        return float(spherical_correlation(distance, this.phi).mean())

    variance = covariance(0, 0)
    print(f"correlation of the mean fields of two slices in one field of range {this.phi:g}:")
    print(
        f"above each other {covariance(1, 0) / variance:.3f}, "
        f"side by side {covariance(0, 1) / variance:.3f}"
    )
    print()


def main() -> int:
    """Print everything; return the exit code."""
    worst = max(compare_classes(name) for name in PUBLISHED)
    worst = max(worst, compare_closeness())

    millivolts = range(350, 601, 25)
    print("expected share of faulty entries, %")
    print(f"{'mV':12s}" + "".join(f"{mv:9d}" for mv in millivolts))
    for name in PUBLISHED:
        faulty = [100 * expected_classes(scenario(name), mv / 1000)[2:].sum() for mv in millivolts]
        print(f"{name:12s}" + "".join(f"{share:9.4f}" for share in faulty))
    print()

    worst = max(worst, compare_dies())
    neighbours()

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
    print(f"\nlargest difference from fit or expectation: {worst:.1f} standard errors")
    return int(worst > 4)


if __name__ == "__main__":
    sys.exit(main())
