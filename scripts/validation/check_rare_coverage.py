"""Do 95 % intervals of rare events hold 95 % of the time?

Estimates probabilities that are known exactly, each 1,000 times from slices of its own, and counts
how often the interval encloses the truth. The promise is 93.5 to 96.5 %.

    python scripts/validation/check_rare_coverage.py # 20 minutes on one core
    python scripts/validation/check_rare_coverage.py --repetitions 200   # a first look
    python scripts/validation/check_rare_coverage.py --only delay        # some of them, by name

- A toy: a normal number above five deviations, from numbers shifted there.
- Slices dead on arrival under a technique that cannot move data, with lives as in a sweep:
  independent cells (exact), and cells that share one normal number (by quadrature).
- Slices with many faulty entries, drawn as for techniques that move data, for the same two
  distributions.
- Lives that end by delay, with constants in which slices differ: by quadrature over temperature,
  threshold voltage and shift factor, for every order of kernels.

Exits with 1 if a coverage is out of its limits.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

import numpy as np
from numpy.typing import NDArray
from rare_cases import dead_at_start
from scipy.stats import binom, norm, truncnorm

from mcage.distributions import TRUNCATED_AT
from mcage.engines import select_engine
from mcage.geometry import GCN
from mcage.methods.rare_events.case import RareCase, estimate, rare_case
from mcage.methods.rare_events.estimator import PLAIN_SHARE, Sampler, sample, sampler_for
from mcage.methods.rare_events.proposals import (
    Bumps,
    EntryProposal,
    FaultyFields,
    LifeDraws,
    MixturePart,
    Proposal,
    SliceTilt,
    VminGaussian,
    draw_slices,
    faulty_entries,
)
from mcage.methods.rare_events.search import climb, used_guardband
from mcage.spec import SweepSpec
from mcage.variation.scenarios import scenario

LIMITS = 0.935, 0.965
PER_CALL = 1600
"""Samples that are drawn together."""

KERNELS = "BlackScholes", "MatrixTranspose"
NODES = 60
"""Nodes of the Gauss-Legendre rule over each constant."""


Weighted = tuple[NDArray[np.float64], NDArray[np.bool_]]


@dataclass(frozen=True)
class Known:
    """A probability that is known, and how to draw for it.

    Attributes
    ----------
    name : str
        What it is the probability of.
    truth : float
        The probability.
    size : int
        Samples of one estimate.
    draw : callable
        Weights and failures of samples with given ids.
    """

    name: str
    truth: float
    size: int
    draw: Callable[[NDArray[np.int64]], Weighted]


def shared_distribution() -> VminGaussian:
    """A slice whose cells share one normal number: what depends on it is a quadrature."""
    common = scenario("common")
    return VminGaussian(replace(common, node_rows=1, node_columns=8, phi=1e6))


def over_shared(
    distribution: VminGaussian, value: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> float:
    """Mean of a function of the nodes of a slice whose cells share one normal number."""
    number, step = np.linspace(-12, 12, 4001, retstep=True)
    sigma, shape = (
        distribution.scenario.sigma_systematic_volts,
        (len(number), 1, distribution.scenario.node_columns),
    )
    nodes = np.broadcast_to((distribution.scenario.mu_volts + sigma * number)[:, None, None], shape)
    return float((value(nodes) * norm.pdf(number)).sum() * step)


def toy(name: str, limit: float, size: int) -> Known:
    def draw(ids: NDArray[np.int64]) -> Weighted:
        generator = np.random.default_rng([11, int(ids[0])])
        plain = generator.random(len(ids)) < PLAIN_SHARE
        number = generator.standard_normal(len(ids)) + np.where(plain, 0.0, limit)
        ratio = np.exp(limit * number - 0.5 * limit**2)
        return 1 / (PLAIN_SHARE + (1 - PLAIN_SHARE) * ratio), number > limit

    return Known(name, float(norm.sf(limit)), size, draw)


def baseline(scenario_name: str, vdd_volts: float, seed: int) -> RareCase:
    spec = SweepSpec.from_mapping(
        {
            "seed": seed,
            "techniques": ["baseline"],
            "environments": ["undervolted"],
            "scenarios": [scenario_name],
            "vdd_volts": [vdd_volts],
            "workload": {"kernels": list(KERNELS), "generations": 2},
        }
    )
    return rare_case(spec, 0.0, select_engine("numba")[0])


def lives_of(sampler: Sampler) -> Callable[[NDArray[np.int64]], Weighted]:
    def draw(ids: NDArray[np.int64]) -> Weighted:
        lives = sample(sampler, ids)
        return lives.weights, lives.dead

    return draw


def independent_pairs(name: str, vdd_volts: float, size: int) -> Known:
    case = baseline("dispersed", vdd_volts, seed=1)
    nodes = case.distribution.node_volts(np.zeros((1, case.distribution.normals)))
    (truth,) = dead_at_start(case.distribution, nodes, vdd_volts, case.fault_free.needed)
    sampler = sampler_for(case)
    return Known(name, truth, size, lives_of(sampler))


def shared_pairs(name: str, vdd_volts: float, size: int) -> Known:
    case = replace(baseline("common", vdd_volts, seed=2), distribution=shared_distribution())
    truth = over_shared(
        case.distribution,
        lambda nodes: dead_at_start(case.distribution, nodes, vdd_volts, case.fault_free.needed),
    )
    sampler = sampler_for(case)
    return Known(name, truth, size, lives_of(sampler))


def many_faulty(
    name: str, distribution: VminGaussian, vdd_volts: float, most: int, size: int
) -> Known:
    """More than that many faulty entries."""

    def chance(nodes: NDArray[np.float64]) -> NDArray[np.float64]:
        return binom.sf(
            most, GCN.entries, EntryProposal.of(distribution, nodes, vdd_volts).faulty[:, 0]
        )

    if distribution.factor.any():
        truth = over_shared(distribution, chance)
    else:
        truth = float(chance(distribution.node_volts(np.zeros((1, distribution.normals))))[0])
    fields = FaultyFields(distribution, vdd_volts)
    climbed = climb(fields, most + 1.0, 5)
    bumps = Bumps.like(distribution, climbed, np.ones(len(climbed)))
    tilt = SliceTilt(fields, bumps, most + 1.0)
    proposal = Proposal(
        distribution, vdd_volts, tilt, (MixturePart(1 - PLAIN_SHARE, of_cells=True),)
    )

    def draw(ids: NDArray[np.int64]) -> Weighted:
        dies = draw_slices(proposal, 3, "check", ids, vdd_volts)
        return proposal.weights(dies), faulty_entries(dies.tail, vdd_volts) > most

    return Known(name, truth, size, draw)


def of_delay(
    name: str, technique: str, temperature_kelvin: float, age_years: float, size: int
) -> Known:
    """Deaths by delay at 1.0 V, where slices differ in three constants and in their kernels.

    A shift is proportional to the shift factor, so that a life ends by delay if its factor exceeds
    the inverse of the part of the guardband that it would use up with a factor of 1.
    """
    deviations = 8.0, 0.01, 0.07
    means = temperature_kelvin, 0.2, 1.0
    forms = [f"normal({m}, {d})" for m, d in zip(means, deviations, strict=True)]
    spec = SweepSpec.from_mapping(
        {
            "seed": 4,
            "techniques": [technique],
            "environments": ["turbo"],
            "scenarios": ["common"],
            "workload": {
                "kernels": list(KERNELS),
                "periods": 2,
                "generations": 2,
                "release": "work-group",
            },
            "life": {"epochs": 3, "horizon_years": age_years, "temperature_kelvin": forms[0]},
            "aging": {"vt0_volts": forms[1], "shift_factor": forms[2]},
        }
    )
    case = rare_case(spec, age_years, select_engine("numba")[0])
    four = truncnorm(-TRUNCATED_AT, TRUNCATED_AT)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    standard, mass = TRUNCATED_AT * nodes, TRUNCATED_AT * weights * four.pdf(TRUNCATED_AT * nodes)
    kelvin, volts = (axis.ravel() for axis in np.meshgrid(standard, standard, indexing="ij"))
    given = np.zeros((len(kelvin), 3))
    for constant, values in (("temperature_kelvin", kelvin), ("vt0_volts", volts)):
        given[:, list(case.lives.constants).index(constant)] = four.cdf(values)
    given[:, list(case.lives.constants).index("shift_factor")] = 0.5
    truth = 0.0
    for kernels in product(range(len(KERNELS)), repeat=2):
        lives = LifeDraws(
            ranks=given,
            mix_of_period=np.tile(kernels, (len(given), 1)),
            chances=np.full((len(given), len(KERNELS)), 1 / len(KERNELS)),
            shares=np.ones((len(given), 2, 1)),
        )
        limit = (1 / used_guardband(case, lives) - 1.0) / deviations[2]
        truth += float((np.outer(mass, mass).ravel() * four.sf(limit)).sum()) / len(KERNELS) ** 2
    return Known(name, truth, size, lives_of(sampler_for(case)))


def check(known: Known, repetitions: int) -> float:
    """Print and return how often the interval encloses the truth."""
    began = time.monotonic()
    below = above = 0
    effective, values = [], []
    per_call = max(1, PER_CALL // known.size)
    for first in range(0, repetitions, per_call):
        count = min(per_call, repetitions - first)
        weights, failed = known.draw(np.arange(first * known.size, (first + count) * known.size))
        for weight, fails in zip(np.split(weights, count), np.split(failed, count), strict=True):
            result = estimate(weight, fails, PLAIN_SHARE)
            below += result.upper < known.truth
            above += result.lower > known.truth
            effective.append(result.effective_samples)
            values.append(result.probability)
    coverage = 1 - (below + above) / repetitions
    print(
        f"{known.name:34} {known.truth:9.3g}  mean {np.mean(values) / known.truth:6.3f} of it  "
        f"effective {np.median(effective):6.4g}  covered {coverage:6.1%}  "
        f"too low {below / repetitions:5.1%}  too high {above / repetitions:5.1%}  "
        f"{time.monotonic() - began:4.0f} s",
        flush=True,
    )
    return coverage


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--only", default="", help="part of the names of those to check")
    options = parser.parse_args()
    dispersed = VminGaussian(scenario("dispersed"))
    checks: dict[str, Callable[[str], Known]] = {
        "toy": lambda name: toy(name, 5.0, 1000),
        "baseline, independent cells": lambda name: independent_pairs(name, 0.655, 150),
        "baseline, shared part": lambda name: shared_pairs(name, 0.64, 150),
        "many faulty, independent cells": lambda name: many_faulty(name, dispersed, 0.4, 43, 400),
        "many faulty, shared part": lambda name: many_faulty(
            name, shared_distribution(), 0.47, 40, 400
        ),
        "delay, baseline": lambda name: of_delay(name, "baseline", 315.0, 3.0, 400),
        "delay, rc+rar": lambda name: of_delay(name, "rc+rar", 345.0, 3.0, 400),
    }
    coverages = [
        check(known(name), options.repetitions)
        for name, known in checks.items()
        if options.only in name
    ]
    return 0 if all(LIMITS[0] <= coverage <= LIMITS[1] for coverage in coverages) else 1


if __name__ == "__main__":
    sys.exit(main())
