"""Do 95 % intervals hold 95 % of the time?

Draws many small sweeps whose truth is known and counts how often each interval encloses it. The
promise is 93.5 to 96.5 % for median life, B10 life and spill rate.

    python scripts/validation/check_coverage.py # lives drawn from two distributions
    python scripts/validation/check_coverage.py results.h5 # a file cut into sweeps

The first distribution is continuous; the second has the atoms of a sweep over several kernels:
slices dead on arrival, and lives that end where a workload period begins. For the second way, a
file of 100,000 cheap dies, which its 1,000 sweeps of 100 do not share, takes five minutes on two
cores:

    mcage sweep --technique rrcd --technique rrcd+pg --environment dvfs --kernel Reduction \
        --generations 1 --instances 100000 --out results.h5

Below it stand means of sweeps that are drawn from the dies of the file, with replacement.

The first way goes on with sweeps that stop once they know enough (`--rel-ci`), and counts again;
beside them those that would have stopped by the printed interval alone. It takes four minutes of
one core, the second way ten seconds. Exits with 1 if a promised interval of continuous lives is out
of its limits, or one of a stopped sweep or of a mean life that few dies cut encloses the truth too
seldom.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from mcage.campaign.stopping import checkpoints
from mcage.report.cases import lives_of
from mcage.results.reader import open_results
from mcage.stats.estimates import Estimate, Range, bounds_within, mean, proportion
from mcage.stats.fits import Verdict, fit_distributions
from mcage.stats.paired import compare_means, outliving
from mcage.stats.survival import (
    Precision,
    cumulative_incidence,
    life_quantile,
    mean_precision,
    quantile_precision,
)

Floats = npt.NDArray[np.float64]

HORIZON_YEARS = 10.0
LIMITS = 0.935, 0.965
LEAST_OF_FEW = 0.9
"""Where a death in so many is expected that every count of deaths has bounds of its own."""
PROMISED = "median life", "B10 life", "spill rate", "dies that spill"
DIES_OF_TRUTH = 4_000_000
MEANS = "life_years", "spill_rate", "slowdown", "energy_saving_nominal", "max_dvth_mv"
ENDS: dict[str, Callable[[Floats], Floats]] = {
    "on arrival": lambda share: 0.0 * share,
    "early": lambda share: 0.2 * share,
    "at any age": lambda share: share,
    "where workload periods begin": lambda share: np.floor(5 * share) / 5,
    "late": lambda share: 1 - share**5,
    "late, one in ten on arrival": lambda share: np.where(share < 0.1, 0.0, 1 - 0.1 * share),
}
"""Age at which dies that die do so, over the horizon, by a number uniform between 0 and 1."""
DYING = 0.003, 0.01, 0.025, 0.05, 0.15, 0.5
REL_CI = 0.1, 0.05
MOST_DIES = 40_000

ATOMS = np.array(
    [
        (0.0, 0.0),
        (0.13, 0.0),
        (0.235, 2.0),
        (0.36, 2.0),
        (0.405, 4.0),
        (0.48, 4.0),
        (0.507, 6.0),
        (0.58, 6.0),
        (0.595, 8.0),
        (0.668, 8.0),
        (0.68, 10.0),
        (1.0, 10.0),
    ]
)
"""Share dead and age, as of RRCD under dvfs in the default sweep: five kernels follow in turn."""


@dataclass(frozen=True)
class Dies:
    """The same dies under two techniques: each array [die], spill rates NaN on arrival dead."""

    years: tuple[Floats, Floats]
    spill_rate: tuple[Floats, Floats]
    horizon_years: float = HORIZON_YEARS

    @property
    def within(self) -> Range:
        return 0.0, self.horizon_years

    def died(self, place: int) -> npt.NDArray[np.bool_]:
        return self.years[place] < self.horizon_years

    def cut(self, count: int) -> Iterator["Dies"]:
        for start in range(0, self.years[0].size - count + 1, count):
            part = slice(start, start + count)
            yield Dies(
                (self.years[0][part], self.years[1][part]),
                (self.spill_rate[0][part], self.spill_rate[1][part]),
                self.horizon_years,
            )


def continuous_life(share: Floats) -> Floats:
    """Age at which that share is dead: three in ten die early, the others of wear."""
    age = np.geomspace(1e-6, 60.0, 20_000)
    dead = 0.3 * -np.expm1(-((age / 3.0) ** 0.8)) + 0.7 * -np.expm1(-((age / 11.0) ** 3))
    return np.interp(share, dead, age)


def life_with_atoms(share: Floats) -> Floats:
    return np.interp(share, ATOMS[:, 0], ATOMS[:, 1])


def draw_dies(life: Callable[[Floats], Floats], draw: np.random.Generator, count: int) -> Dies:
    """The second technique lives longer and spills less, on most dies."""
    die = draw.normal(size=count)
    years, rates = [], []
    for gain in (0.0, 0.2):
        luck = 0.95 * die + gain + np.sqrt(1 - 0.95**2) * draw.normal(size=count)
        years.append(np.minimum(life(ndtr(luck)), HORIZON_YEARS))
        # Four in ten never spill; of the others few spill much, as dies with many faults do.
        bad = np.clip((ndtr(-luck + 0.3 * draw.normal(size=count)) - 0.4) / 0.6, 0, 1)
        rates.append(np.where(years[-1] > 0, 0.15 * bad**2, np.nan))
    return Dies((years[0], years[1]), (rates[0], rates[1]))


def dies_of_file(path: Path) -> Dies:
    """The first two cases of a results file."""
    with open_results(path) as results:
        cases = [results.isel(case=place) for place in (0, 1)]
        lives = [lives_of(case) for case in cases]
        rates = [case["spill_rate"].values for case in cases]
    return Dies((lives[0].years, lives[1].years), (rates[0], rates[1]), lives[0].horizon_years)


def dead_by_six(dies: Dies) -> Estimate:
    curve = cumulative_incidence(dies.years[0], dies.died(0), dies.died(0), np.array([6.0]))
    return Estimate(float(curve.share[0]), float(curve.lower[0]), float(curve.upper[0]))


def dies_that_spill(dies: Dies) -> Estimate:
    rates = dies.spill_rate[0]
    lived = rates[~np.isnan(rates)]
    return proportion(int(np.count_nonzero(lived > 0)), lived.size)


ESTIMATORS: dict[str, Callable[[Dies], Estimate]] = {
    "median life": lambda d: life_quantile(d.years[0], d.died(0)),
    "B10 life": lambda d: life_quantile(d.years[0], d.died(0), 0.1),
    "spill rate": lambda d: mean(d.spill_rate[0]),
    "dies that spill": dies_that_spill,
    "dead by year 6": dead_by_six,
    "RMST up to the horizon": lambda d: mean(d.years[0], within=d.within),
    "- difference of two techniques": lambda d: compare_means(*d.years, within=d.within).difference,
    "- their ratio": lambda d: compare_means(*d.years, within=d.within).ratio,
    "spill rates, difference": lambda d: compare_means(*d.spill_rate).difference,
    "- their ratio ": lambda d: compare_means(*d.spill_rate).ratio,
    "dies that live longer": lambda d: (
        outliving(d.years[1], d.died(1), d.years[0], d.died(0)).first
    ),
}


def check(title: str, truth: Dies, sweeps: Iterator[Dies]) -> dict[str, float]:
    """Print and return how often each interval encloses the truth."""
    true = {name: of(truth).value for name, of in ESTIMATORS.items()}
    counts = {name: np.zeros(3, int) for name in ESTIMATORS}
    number = 0
    for number, dies in enumerate(sweeps, start=1):  # noqa: B007
        for name, of in ESTIMATORS.items():
            estimate = of(dies)
            below, above = true[name] < estimate.lower, true[name] > estimate.upper
            counts[name] += below, not (below or above), above
    print(f"\n{title}, {number} sweeps\n{'':34}{'truth':>9}  covered   truth below  above")
    for name, (below, inside, above) in counts.items():
        low, covered, high = (100 * part / number for part in (below, inside, above))
        print(f"  {name:32}{true[name]:9.4f}  {covered:5.1f} %  {low:9.1f} %{high:7.1f} %")
    return {name: inside / number for name, (_, inside, _) in counts.items()}


PRECISIONS: dict[str, Callable[[Dies], Precision]] = {
    "median life": lambda d: quantile_precision(d.years[0], d.died(0), 0.5),
    "B10 life": lambda d: quantile_precision(d.years[0], d.died(0), 0.1),
    "spill rate": lambda d: mean_precision(d.spill_rate[0]),
}


@dataclass(frozen=True)
class Stop:
    """Where a sweep has stopped, with what, and whether it had the precision it was to have."""

    dies: int
    precision: Precision
    reached: bool


def by_rule(precision: Precision) -> float:
    return precision.relative


def by_interval(precision: Precision) -> float:
    """Larger distance of a bound of the interval from the value, over the value: the naive rule."""
    estimate = precision.estimate
    if estimate.lower == estimate.upper:
        return 0.0
    distance = np.fmax(estimate.upper - estimate.value, estimate.value - estimate.lower)
    return float(distance / estimate.value) if 0 < estimate.value < np.inf else np.inf


RULES = {"": by_rule, "- by the interval alone": by_interval}


def stops(of: Callable[[Dies], Precision], dies: Dies) -> dict[tuple[float, str], Stop]:
    """Where a sweep over these dies stops, for each precision asked for and each rule."""
    stops_by_rule: dict[tuple[float, str], Stop] = {}
    asked = list(product(REL_CI, RULES))
    for count in checkpoints(dies.years[0].size):
        now = of(next(dies.cut(count)))
        for rel_ci, rule in asked:
            reached = RULES[rule](now) <= rel_ci
            if (rel_ci, rule) not in stops_by_rule and (reached or count == dies.years[0].size):
                stops_by_rule[rel_ci, rule] = Stop(count, now, reached)
        if len(stops_by_rule) == len(asked):
            break
    return stops_by_rule


def check_stopped(title: str, truth: Dies, sweeps: Iterator[Dies]) -> list[float]:
    """Print how often intervals enclose the truth when a sweep stops; return that of the rule."""
    true = {name: of(truth).estimate.value for name, of in PRECISIONS.items()}
    of_quantity: dict[str, list[dict[tuple[float, str], Stop]]] = {name: [] for name in PRECISIONS}
    for dies in sweeps:
        for name, of in PRECISIONS.items():
            of_quantity[name].append(stops(of, dies))
    print(
        f"\n{title}, stopped sweeps\n{'':43}covered   truth below  above   mean dies  reached  "
        "forecast"
    )
    promised = []
    for name, of_sweeps in of_quantity.items():
        for rel_ci, rule in product(REL_CI, RULES if "life" in name else [""]):
            here = [stops_by_rule[rel_ci, rule] for stops_by_rule in of_sweeps]
            below = np.mean([true[name] < stop.precision.estimate.lower for stop in here])
            above = np.mean([true[name] > stop.precision.estimate.upper for stop in here])
            covered = 1 - below - above
            if not rule:
                promised.append(float(covered))
            print(
                f"  {f'{name} to {rel_ci:.0%} {rule}':41}{100 * covered:5.1f} %"
                f"{100 * below:11.1f} %{100 * above:7.1f} %"
                f"{np.mean([stop.dies for stop in here]):10.0f}"
                f"{100 * np.mean([stop.reached for stop in here]):8.0f} %  "
                f"{forecast(of_sweeps, rule)}"
            )
    return promised


def forecast(of_sweeps: list[dict[tuple[float, str], Stop]], rule: str) -> str:
    """Dies that the loosest precision foretells for the tightest, over those that it took."""
    loose, tight = max(REL_CI), min(REL_CI)
    ratios = [
        stops_by_rule[loose, rule].dies
        * (stops_by_rule[loose, rule].precision.relative / tight) ** 2
        / stops_by_rule[tight, rule].dies
        for stops_by_rule in of_sweeps
        if stops_by_rule[loose, rule].precision.relative > tight
        and stops_by_rule[tight, rule].reached
    ]
    if rule or not ratios:
        return ""
    return "{:.2f} ({:.2f} to {:.2f})".format(*np.quantile(ratios, [0.5, 0.05, 0.95]))


def check_fits(draw: np.random.Generator, sweeps: int, dies: int) -> None:
    """Print how often intervals of Weibull parameters hold the truth, and the test is wrong."""
    shape, scale = 1.8, 9.0
    names = ("shape", "scale_years")
    covered, rejected = np.zeros(2), 0
    for _ in range(sweeps):
        years = scale * draw.weibull(shape, dies)
        life = np.minimum(years, HORIZON_YEARS)
        fit = fit_distributions(life, years < HORIZON_YEARS, HORIZON_YEARS)[0]
        for place, (name, true) in enumerate(zip(names, (shape, scale), strict=True)):
            bounds = fit.parameters[name]
            covered[place] += bounds.lower <= true <= bounds.upper
        rejected += fit.verdict is Verdict.REJECTED
    print(f"\nWeibull lives, {dies} dies each, {sweeps} sweeps")
    for name, inside in zip(names, covered, strict=True):
        print(f"  {name:41}  {100 * inside / sweeps:5.1f} %")
    print(
        f"  {'the true distribution rejected (promised: 5 %)':41}  {100 * rejected / sweeps:5.1f} %"
    )


def mean_lives_missed(
    ends: Callable[[Floats], Floats],
    dying: float,
    dies: int,
    sweeps: int,
    draw: np.random.Generator,
) -> tuple[float, float]:
    """Share of the sweeps whose mean life up to the horizon lies below and above the interval."""
    mean_end = float(ends((np.arange(100_000) + 0.5) / 100_000).mean())
    truth = 1 - dying * (1 - mean_end)
    dead, share = draw.random((2, sweeps, dies))
    lives = np.where(dead < dying, ends(share), 1.0)
    count = np.full(sweeps, dies)
    lower, upper = bounds_within((0.0, 1.0), lives.mean(axis=1), lives.var(axis=1), count)
    return float(np.mean(truth < lower)), float(np.mean(truth > upper))


def check_mean_lives(dies: int, draw: np.random.Generator, sweeps: int) -> float:
    """Print how often intervals of mean lives enclose the truth where few die; the least often."""
    heading = "".join(f"{f'{dying:.1%} die':>12}" for dying in DYING)
    print(f"\nmean life up to the horizon, {dies} dies each, {sweeps} sweeps\n{'':34}{heading}")
    least = 1.0
    for name, ends in ENDS.items():
        missed = [mean_lives_missed(ends, dying, dies, sweeps, draw) for dying in DYING]
        covered = [1 - below - above for below, above in missed]
        print(f"  {name:32}{''.join(f'{100 * of:10.1f} %' for of in covered)}")
        least = min(least, *covered)
    return least


def check_means(path: Path, dies: int, draw: np.random.Generator, sweeps: int = 20_000) -> None:
    """Print how often means of sweeps drawn from the dies of a file, with replacement, hold."""
    print(f"\n{path}, {dies} dies each, drawn {sweeps} times: means over those that worked")
    with open_results(path) as results:
        horizon_years = float(results["epoch_end_years"][-1])
        for place, name in product(range(results.sizes["case"]), MEANS):
            values = results[name].values[place]
            values = values[:, 0] if values.ndim > 1 else values
            values = values[~np.isnan(values)]
            within = (0.0, horizon_years) if name == "life_years" else None
            drawn = (
                mean(values[draw.integers(0, values.size, dies)], within=within)
                for _ in range(sweeps)
            )
            bounds = np.array([(of.lower, of.upper) for of in drawn]) - values.mean()
            below, above = 100 * np.mean(bounds[:, 0] > 0), 100 * np.mean(bounds[:, 1] < 0)
            label = f"{results['technique'].values[place]}, {name}"
            print(
                f"  {label:41}  {100 - below - above:5.1f} %  {below:9.1f} %{above:7.1f} %",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="?", type=Path)
    parser.add_argument("--sweeps", type=int, default=1000)
    parser.add_argument("--dies", type=int, nargs="+", default=[100, 200])
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.results:
        whole = dies_of_file(arguments.results)
        if max(arguments.dies) > whole.years[0].size:
            sys.exit(f"{arguments.results} has {whole.years[0].size} dies: too few for a sweep")
        for dies in arguments.dies:
            check(f"{arguments.results}, {dies} dies each", whole, whole.cut(dies))
            check_means(arguments.results, dies, np.random.default_rng(arguments.seed))
        return

    draw = np.random.default_rng(arguments.seed)
    kept = True
    for name, life in (
        ("continuous lives", continuous_life),
        ("lives with atoms", life_with_atoms),
    ):
        truth = draw_dies(life, draw, DIES_OF_TRUTH)
        for dies in arguments.dies:
            sweeps = (draw_dies(life, draw, dies) for _ in range(arguments.sweeps))
            covered = check(f"{name}, {dies} dies each", truth, sweeps)
            if life is continuous_life:
                kept &= all(LIMITS[0] <= covered[name] <= LIMITS[1] for name in PROMISED)
        apart = np.random.default_rng([arguments.seed, MOST_DIES])
        sweeps = (draw_dies(life, apart, MOST_DIES) for _ in range(arguments.sweeps))
        kept &= min(check_stopped(name, truth, sweeps)) >= LIMITS[0]
    for dies in arguments.dies:
        check_fits(draw, arguments.sweeps, dies)
        kept &= check_mean_lives(dies, draw, 10 * arguments.sweeps) >= LEAST_OF_FEW
    print(f"\npromises kept: {'yes' if kept else 'NO'}")
    sys.exit(not kept)


if __name__ == "__main__":
    main()
