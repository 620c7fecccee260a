"""Do intervals of the lot and bands of the constants hold 95 % of the time?

Draws many small sweeps with joint draws of constants whose truth is known, and counts how often
each interval encloses it, and how many further draws each band encloses. The promise is 93.5 to
96.5 % where constants are normal and not hidden by the lot; where they are hidden, or not normal,
bands may be too wide, but not narrower than that.

    python scripts/validation/check_draws_coverage.py # eight minutes on one core
    python scripts/validation/check_draws_coverage.py --sweeps 100 # a first look

A draw moves the logarithm of all lives of its slices, which is normal, and lives are censored at
ten years. In some toys lives have atoms: slices that are dead on arrival, and lives that end where
a workload period begins. Exits with 1 if a coverage is out of its limits.
"""

import argparse
import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from mcage.stats.nested import mean_by_draw, quantile_by_draw, share_of_constants

Floats = npt.NDArray[np.float64]

HORIZON_YEARS = 10.0
TYPICAL_YEARS = 4.0
LIMITS = 0.935, 0.965
DEAD_ON_ARRIVAL = -1.8
"""Slices whose normal number lies below are dead on arrival, in toys with atoms."""

PERIODS = ((2.0, 2.6), (4.0, 5.0))
"""Ages at which lives end that would end up to the second age, in toys with atoms."""

NEW_DRAWS = 200


@dataclass(frozen=True)
class Toy:
    """A sweep: draws, slices of each, deviations of log life between draws and within them."""

    draws: int
    slices: int
    between: float
    within: float
    is_skewed: bool = False
    has_atoms: bool = False
    conservative: bool = False
    """Whether a band may be too wide: the lot hides the constants, or the horizon hides medians."""

    def constants(self, draw: np.random.Generator, count: int) -> Floats:
        """What constants do to the logarithm of lives, in deviations."""
        return draw.exponential(size=count) - 1 if self.is_skewed else draw.normal(size=count)

    def lives(self, constants: Floats, normals: Floats) -> Floats:
        """Ages in years, as they would go on beyond the horizon."""
        years = TYPICAL_YEARS * np.exp(self.between * constants + self.within * normals)
        if self.has_atoms:
            years = np.where(normals < DEAD_ON_ARRIVAL, 0.0, years)
            for begin, end in PERIODS:
                years = np.where((years > begin) & (years < end), begin, years)
        return np.asarray(years)

    def dead(self, constants: Floats, age: float) -> float:
        """Share of the slices of all these draws that are dead by an age."""
        if age < 0:
            return 0.0
        if self.has_atoms:
            age = next((end for begin, end in PERIODS if begin <= age < end), age)
        with np.errstate(divide="ignore"):
            reached = np.log(age / TYPICAL_YEARS) - self.between * constants
        least = DEAD_ON_ARRIVAL if self.has_atoms else -np.inf
        return float(ndtr(np.maximum(least, reached / self.within)).mean())


TOYS = {
    "normal": Toy(100, 20, 0.3, 0.5),
    "fewer draws": Toy(50, 20, 0.3, 0.5),
    "fewer slices": Toy(100, 5, 0.3, 0.5),
    "constants of a few percent": Toy(100, 20, 0.1, 0.5),
    "mostly constants": Toy(100, 20, 0.6, 0.3, conservative=True),
    "atoms": Toy(100, 20, 0.3, 0.5, has_atoms=True),
    "skewed": Toy(100, 20, 0.3, 0.5, is_skewed=True),
    "hidden constants": Toy(100, 20, 0.05, 0.5, conservative=True),
}


@dataclass(frozen=True)
class Truth:
    """What is true of single draws, on a grid of what constants do."""

    grid: Floats
    mean: Floats
    median: Floats
    variance: Floats

    @classmethod
    def of(cls, toy: Toy) -> "Truth":
        grid, normals = np.linspace(-6, 12, 900), ndtri((np.arange(4000) + 0.5) / 4000)
        lives = [toy.lives(np.array(at), normals) for at in grid]
        counted = [np.minimum(years, HORIZON_YEARS) for years in lives]
        columns = (
            [years.mean() for years in counted],
            [np.median(years) for years in lives],
            [years.var() for years in counted],
        )
        return cls(grid, *map(np.array, columns))


def covered(toy: Toy, sweeps: int, draw: np.random.Generator) -> dict[str, float]:
    """Share of the sweeps, or of the further draws, that each interval or band encloses."""
    truth = Truth.of(toy)
    many = toy.constants(draw, 200_000)
    between = np.interp(many, truth.grid, truth.mean).var()
    share = between / (between + np.interp(many, truth.grid, truth.variance).mean())
    found: dict[str, list[float]] = {}
    for _ in range(sweeps):
        constants, row = toy.constants(draw, toy.draws), np.repeat(range(toy.draws), toy.slices)
        lives = toy.lives(constants[row], draw.normal(size=row.size))
        died, years = lives < HORIZON_YEARS, np.minimum(lives, HORIZON_YEARS)
        median, mean = quantile_by_draw(years, died, row), mean_by_draw(years, row)
        explained = share_of_constants(years, row)
        new = toy.constants(draw, NEW_DRAWS)
        means, medians = (np.interp(new, truth.grid, of) for of in (truth.mean, truth.median))
        medians = np.where(medians < HORIZON_YEARS, medians, np.inf)
        below = toy.dead(constants, median.lot.lower * (1 - 1e-12) - 1e-12) < 0.5
        above = median.lot.upper > HORIZON_YEARS or toy.dead(constants, median.lot.upper) >= 0.5
        of_table = np.interp(constants, truth.grid, truth.mean).mean()
        for name, is_in in {
            "median life, lot": below and above,
            "median life, constants": _within(medians, median.band.lower, median.band.upper),
            "life to horizon, lot": _within(of_table, mean.lot.lower, mean.lot.upper),
            "life to horizon, constants": _within(means, mean.band.lower, mean.band.upper),
            "share of constants": _within(share, explained.lower, explained.upper),
        }.items():
            found.setdefault(name, []).append(float(is_in))
    return {name: float(np.mean(each)) for name, each in found.items()}


def _within(values: npt.ArrayLike, lower: float, upper: float) -> float:
    given = np.asarray(values)
    return float(np.mean((given >= lower * (1 - 1e-9)) & (given <= upper * (1 + 1e-9))))


def is_right(toy: Toy, name: str, share: float) -> bool:
    """Whether a coverage is within its limits; what is conservative may exceed the upper limit."""
    low, high = LIMITS
    conservative = toy.conservative or toy.is_skewed or toy.has_atoms
    if name == "share of constants" and toy.is_skewed:
        return True  # the jackknife is not promised for such tails; docs/statistics.md
    return low <= share and (share <= high or conservative)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw, fine = np.random.default_rng(arguments.seed), True
    for title, toy in TOYS.items():
        print(f"{title}: {toy.draws} draws, {toy.slices} slices of each", flush=True)
        for name, share in covered(toy, arguments.sweeps, draw).items():
            right = is_right(toy, name, share)
            fine &= right
            print(
                f"  {name:28}{100 * share:6.1f} %{'' if right else '  OUT OF LIMITS'}", flush=True
            )
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
