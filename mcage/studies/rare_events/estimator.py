"""Probability that a slice is dead by some age, down to where no plain sample would see it."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mcage.campaign.progress import Progress, Silent
from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.spec import SweepSpec
from mcage.studies.rare_events.case import RareCase, rare_case
from mcage.studies.rare_events.diagnostics import unseen
from mcage.studies.rare_events.estimate import RareEstimate, estimate
from mcage.studies.rare_events.lives import WeightedLives
from mcage.studies.rare_events.mixture_proposal import Proposal, draw_dies
from mcage.studies.rare_events.pair_proposal import PairProposal
from mcage.studies.rare_events.pilot import find_tilt
from mcage.studies.rare_events.workload import favoured

PLAIN_SHARE = 0.1
"""Slices drawn from the plain law: no weight of a slice exceeds 10."""

INSTANCES = 20_000
BATCH = 128


@dataclass(frozen=True, eq=False)
class Sampler:
    """How the slices of a case are drawn.

    Attributes
    ----------
    case : RareCase
        The case.
    proposal : Proposal
        Law of the slices.
    kernel : int, optional
        Kernel that their workloads favour.
    """

    case: RareCase
    proposal: Proposal
    kernel: int | None = None


def failure_probability(
    spec: SweepSpec,
    age_years: float,
    instances: int = INSTANCES,
    *,
    engine: Engine,
    progress: Progress | None = None,
) -> RareEstimate:
    """Probability that a slice of a case is dead by an age, by importance sampling.

    Parameters
    ----------
    spec : SweepSpec
        A sweep of one case; its seed is used, its number of instances is not.
    age_years : float
        The age, 0 ... horizon of the spec; 0: dead as manufactured.
    instances : int
        Slices to draw, 2 or more.
    engine : Engine
        What computes their lives.
    progress : Progress, optional
        Where to report; silent by default.

    Raises
    ------
    UserError
        The spec makes no sense or has several cases; its faults are not of mode ``varius``; age
        or instances are out of range.

    Notes
    -----
    How the slices are drawn, and why so: docs/rare-events.md.
    """
    if instances < 2:
        raise UserError(f"instances = {instances}, expected 2 or more")
    progress = progress or Silent()
    case = rare_case(spec, age_years, engine)
    progress.say(f"engine {engine.name}; {case.label}, age {age_years:g} years")
    sampler = sampler_for(case)
    progress.start(instances, 0)
    try:
        lives = sample(sampler, np.arange(instances), progress)
    finally:
        progress.finish()
    plain_share = sampler.proposal.plain_share
    found = estimate(lives.weights, lives.dead, plain_share)
    return replace(found, warnings=found.warnings + unseen(case, lives, plain_share))


def sampler_for(case: RareCase) -> Sampler:
    """How to draw slices of a case so that many die."""
    if case.needed.any():
        pairs = PairProposal(case.law, case.weak_volts, case.needed)
        share = 1.0 - PLAIN_SHARE
        return Sampler(case, Proposal(case.law, case.weak_volts, pairs=pairs, pair_share=share))
    pilot = find_tilt(case)
    proposal = Proposal(case.law, case.typical_volts, tilt=pilot.tilt, tilt_share=1.0 - PLAIN_SHARE)
    return Sampler(case, proposal, pilot.kernel)


def sample(
    sampler: Sampler, instances: NDArray[np.int64], progress: Progress | None = None
) -> WeightedLives:
    """Draw slices, and let them live up to the age of the case.

    Parameters
    ----------
    sampler : Sampler
        How to draw them.
    instances : int64[I]
        Instance ids; what becomes of one does not depend on the others.
    progress : Progress, optional
        Where to report; silent by default.
    """
    case, seed = sampler.case, sampler.case.spec.seed
    progress = progress or Silent()

    def batch(some: NDArray[np.int64]) -> WeightedLives:
        dies = draw_dies(sampler.proposal, seed, "rare", some, case.floor_volts)
        if sampler.kernel is None:
            kernels, weights = case.kernels(some), dies.weights
        else:
            kernels, of_workloads = favoured(case, sampler.kernel, some)
            weights = dies.weights * of_workloads
        cause = case.cause(seed, some, kernels, dies.tail)
        progress.advance(len(some))
        return WeightedLives(weights, cause, kernels)

    batches = [instances[first : first + BATCH] for first in range(0, len(instances), BATCH)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return WeightedLives.join(list(pool.map(batch, batches)))
