"""Probability that a slice is dead by an age, also where a plain sample would show no death."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mcage.campaign.progress import Progress, Silent
from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.spec import SweepSpec
from mcage.studies.rare_events.case import RareCase, WeightedLives, rare_case
from mcage.studies.rare_events.diagnostics import unseen
from mcage.studies.rare_events.estimate import RareEstimate, estimate
from mcage.studies.rare_events.proposals.mixture import Proposal, draw_slices, favoured
from mcage.studies.rare_events.proposals.pairs import PairProposal
from mcage.studies.rare_events.search.faulty_entries import find_tilt

PLAIN_SHARE = 0.1
"""Share of the slices that are drawn as in a sweep, which bounds their weights by 10."""

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
        Distribution that slices are drawn from.
    kernel : int, optional
        Number of the kernel that workloads favour.
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
        The age in years, 0 ... horizon of the spec; 0: dead on arrival.
    instances : int
        Number of slices to draw, 2 or more.
    engine : Engine
        Engine that computes their lives.
    progress : Progress, optional
        Where progress is reported; nowhere by default.

    Returns
    -------
    RareEstimate
        The probability, its interval, and warnings.

    Raises
    ------
    UserError
        The spec is refused or has several cases; its faults are not of mode ``varius``; age or
        instances are out of range.

    Notes
    -----
    docs/rare-events.md explains how the slices are drawn.
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
    result = estimate(lives.weights, lives.dead, plain_share)
    return replace(result, warnings=result.warnings + unseen(case, lives, plain_share))


def sampler_for(case: RareCase) -> Sampler:
    """Choose how slices of a case are drawn so that many of them die."""
    if case.needed.any():
        pairs = PairProposal(case.distribution, case.weak_volts, case.needed)
        share = 1.0 - PLAIN_SHARE
        return Sampler(
            case, Proposal(case.distribution, case.weak_volts, pairs=pairs, pair_share=share)
        )
    pilot = find_tilt(case)
    proposal = Proposal(
        case.distribution, case.typical_volts, tilt=pilot.tilt, tilt_share=1.0 - PLAIN_SHARE
    )
    return Sampler(case, proposal, pilot.kernel)


def sample(
    sampler: Sampler, instances: NDArray[np.int64], progress: Progress | None = None
) -> WeightedLives:
    """Draw slices, and simulate their lives up to the age of the case.

    Parameters
    ----------
    sampler : Sampler
        How slices are drawn.
    instances : int64[I]
        Instance ids; the life of an instance does not depend on the others.
    progress : Progress, optional
        Where progress is reported; nowhere by default.
    """
    case, seed = sampler.case, sampler.case.spec.seed
    progress = progress or Silent()

    def simulate(ids: NDArray[np.int64]) -> WeightedLives:
        slices = draw_slices(sampler.proposal, seed, "rare", ids, case.floor_volts)
        if sampler.kernel is None:
            kernels, weights = case.kernels(ids), slices.weights
        else:
            kernels, of_workloads = favoured(case, sampler.kernel, ids)
            weights = slices.weights * of_workloads
        cause = case.cause(seed, ids, kernels, slices.tail)
        progress.advance(len(ids))
        return WeightedLives(weights, cause, kernels)

    batches = [instances[first : first + BATCH] for first in range(0, len(instances), BATCH)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return WeightedLives.join(list(pool.map(simulate, batches)))
