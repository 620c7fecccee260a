"""Probability that a slice is dead by an age, also where a plain sample would show no death."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mcage.campaign.progress import Progress, Silent
from mcage.concurrency import usable_cores
from mcage.engines.interface import Engine
from mcage.engines.select import engine_of
from mcage.errors import UserError
from mcage.spec import SweepSpec
from mcage.studies.rare_events.case import WeightedLives, rare_case
from mcage.studies.rare_events.diagnostics import unseen
from mcage.studies.rare_events.estimate import RareEstimate, estimate
from mcage.studies.rare_events.sampler import Sampler, sampler_for

INSTANCES = 20_000
BATCH = 128


def failure_probability(
    spec: SweepSpec,
    age_years: float,
    instances: int = INSTANCES,
    *,
    engine: Engine | str = "auto",
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
    engine : Engine or str
        Engine that computes their lives, or its name.
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
    engine = engine_of(engine)
    case = rare_case(spec, age_years, engine)
    progress.say(f"engine {engine.name}; {case.label}, age {age_years:g} years")
    sampler = sampler_for(case)
    progress.start(instances, 0)
    try:
        lives = sample(sampler, np.arange(instances), progress)
    finally:
        progress.finish()
    result = estimate(lives.weights, lives.dead, sampler.proposal.plain_share)
    warnings = unseen(case, lives, sampler.proposal.plain_share, sampler.favours_delay)
    return replace(result, warnings=result.warnings + warnings)


def sample(
    sampler: Sampler, instances: NDArray[np.int64], progress: Progress | None = None
) -> WeightedLives:
    """Draw slices and lives, and simulate them up to the age of the case.

    Parameters
    ----------
    sampler : Sampler
        How slices are drawn.
    instances : int64[I]
        Instance ids; the life of an instance does not depend on the others.
    progress : Progress, optional
        Where progress is reported; nowhere by default.
    """
    progress = progress or Silent()

    def simulate(ids: NDArray[np.int64]) -> WeightedLives:
        lives = sampler.draw(sampler.case.spec.seed, "rare", ids)
        progress.advance(len(ids))
        return lives

    batches = [instances[first : first + BATCH] for first in range(0, len(instances), BATCH)]
    with ThreadPoolExecutor(usable_cores()) as pool:
        return WeightedLives.join(list(pool.map(simulate, batches)))
