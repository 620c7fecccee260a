"""Probability that a slice is dead by some age, down to where no plain sample would see it."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.rare.case import RareCase, rare_case
from mcage.rare.estimate import RareEstimate, estimate
from mcage.rare.pairs import PairLaw
from mcage.rare.pilot import find_tilt
from mcage.rare.proposal import Proposal, SliceTilt, draw_dies
from mcage.spec import SweepSpec

PLAIN_SHARE = 0.1
"""Slices drawn from the plain law: no weight exceeds 10."""

INSTANCES = 20_000
BATCH = 128


def failure_probability(
    spec: SweepSpec, age_years: float, instances: int = INSTANCES, *, engine: Engine
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
    case = rare_case(spec, age_years, engine)
    proposal = proposal_for(case, spec.seed)
    weights, dead = sample(case, proposal, spec.seed, np.arange(instances))
    return estimate(weights, dead, proposal.plain_share)


def proposal_for(case: RareCase, seed: int) -> Proposal:
    """Law to draw slices from, so that many die.

    Parameters
    ----------
    case : RareCase
        The case.
    seed : int
        Seed of the run; the search uses random numbers of its own.
    """
    if case.needed.any():
        pairs = PairLaw(case.law, case.weak_volts, case.needed)
        plain = SliceTilt(case.weak_volts)
        return Proposal(case.law, plain, pairs=pairs, pair_share=1.0 - PLAIN_SHARE)
    return Proposal(case.law, find_tilt(case, seed).tilt, tilt_share=1.0 - PLAIN_SHARE)


def sample(
    case: RareCase, proposal: Proposal, seed: int, instances: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Draw slices, and let them live.

    Parameters
    ----------
    case : RareCase
        The case.
    proposal : Proposal
        Law to draw them from.
    seed : int
        Seed.
    instances : int64[I]
        Instance ids; what becomes of one does not depend on the others.

    Returns
    -------
    weights : float64[I]
        Weight of each.
    dead : bool[I]
        Whether it is dead by the age of the case.
    """

    def batch(some: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        dies = draw_dies(proposal, seed, "rare", some, case.floor_volts)
        return dies.weights, case.dead(case.kernels(some), dies.tail)

    batches = [instances[first : first + BATCH] for first in range(0, len(instances), BATCH)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        weights, dead = zip(*pool.map(batch, batches), strict=True)
    return np.concatenate(weights), np.concatenate(dead)
