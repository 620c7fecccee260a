"""Draw slices from the mixture, and estimate from their weights."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mcage.campaign.progress import Progress
from mcage.concurrency import usable_cores
from mcage.engines import engine_of
from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.methods.rare_events.case import (
    RareCase,
    RareEstimate,
    WeightedLives,
    estimate,
    may_be_late,
    rare_case,
    unseen,
)
from mcage.methods.rare_events.proposals import (
    LifeTilt,
    MixturePart,
    PairProposal,
    Proposal,
    draw_slices,
)
from mcage.methods.rare_events.search import LateLives, find_late_lives, find_tilt
from mcage.random import seed_of
from mcage.spec import SweepSpec
from mcage.stats.estimates import Estimate
from mcage.studies.sweep.study import Sweep
from mcage.variation.scenarios import scenario

# How the slices and lives of a case are drawn so that many of them die, by faults and by delay.

PLAIN_SHARE = 0.1
"""Share of the slices that are drawn as in a sweep, which bounds their weights by 10."""

FAVOURED = 0.75
"""Chance that a slice with many faulty entries runs the kernel that kills most easily."""

PILOT_SLICES = 320
LEAST_SHARE = 0.1
"""Smallest share, of the slices not drawn as in a sweep, of those that are to die by one cause."""

NEGLIGIBLE = 1e-6
"""Probability of a death by faults, over that by delay, below which no slice is drawn for it."""


UNREACHABLE = 1e-30
"""Bound on the probability of a death by faults below which an estimate is refused."""


@dataclass(frozen=True, eq=False)
class Sampler:
    """How the slices and lives of a case are drawn.

    Attributes
    ----------
    case : RareCase
        The case.
    proposal : Proposal
        Distribution that they are drawn from.
    favours_delay : bool
        Whether parts of it favour lives that end by delay.
    """

    case: RareCase
    proposal: Proposal
    favours_delay: bool = False

    def draw(self, seed: int, role: str, instances: NDArray[np.int64]) -> WeightedLives:
        """Draw slices and lives, and simulate them up to the age of the case.

        Parameters
        ----------
        seed : int
            Seed.
        role : str
            Purpose of the lives; different purposes have different random numbers.
        instances : int64[I]
            Instance ids.
        """
        case, proposal = self.case, self.proposal
        slices = draw_slices(proposal, seed, role, instances, case.floor_volts)
        lives = proposal.draw_lives(case.lives, seed, role, instances)
        weights = proposal.weights(slices, lives)
        luck = case.luck(seed_of(seed, f"{role}.luck"), instances)
        return WeightedLives(weights, case.cause(lives, slices.tail, luck), lives)


def sampler_for(case: RareCase) -> Sampler:
    """Choose how slices and lives of a case are drawn so that many of them die.

    Raises
    ------
    UserError
        If no slice can die by the age, but with a probability that no study can mean.
    """
    by_faults = most_deaths_by_faults(case)
    delay_kills = case.age_years > 0 and may_be_late(case)
    if by_faults < UNREACHABLE and not delay_kills:
        raise UserError(
            f"no slice dies by {case.age_years:g} years: faults kill with a probability of at most "
            f"{by_faults:.2g}, and no transistor can use up the delay guardband "
            f"({case.conditions.delay_guardband:g})"
        )
    late = find_late_lives(case) if delay_kills else None
    if late and by_faults < NEGLIGIBLE * late.probability:
        parts = _late_parts(late, 1.0 - PLAIN_SHARE)
        proposal = Proposal(case.distribution, case.weak_volts, None, parts, without_cells=True)
        return Sampler(case, proposal, favours_delay=True)
    towards, faulty = _towards_faults(case)
    if late:
        return _balanced(case, towards, faulty, late)
    return Sampler(case, replace(towards, parts=(replace(faulty, share=1.0 - PLAIN_SHARE),)))


def most_deaths_by_faults(case: RareCase) -> float:
    """Bound on the probability that a slice dies of faults by the age of a case.

    Without two faulty cells in an entry that is needed, or in any entry if the technique can move
    data, no slice dies of faults. So the expected number of such pairs of cells is a bound, for
    cells that are as weak as on the worst instance.
    """
    needed = case.needed if case.needed.any() else np.ones_like(case.needed)
    return PairProposal(case.distribution, case.weak_volts, needed).expected_pairs


def _towards_faults(case: RareCase) -> tuple[Proposal, MixturePart]:
    """Mixture of cells of which many entries are faulty, and the part of it that draws them."""
    if case.needed.any():
        pairs = PairProposal(case.distribution, case.weak_volts, case.needed)
        return Proposal(case.distribution, case.weak_volts, pairs), MixturePart(1.0, of_cells=True)
    pilot = find_tilt(case)
    favoured = LifeTilt.favouring(case.lives, pilot.kernel, FAVOURED)
    tilted = Proposal(case.distribution, case.typical_volts, pilot.tilt)
    return tilted, MixturePart(1.0, favoured, of_cells=True)


def _late_parts(late: LateLives, share: float) -> tuple[MixturePart, ...]:
    """Parts of a mixture that draw lives that end by delay, with a share for all."""
    pairs = zip(late.tilts, late.shares, strict=True)
    return tuple(MixturePart(share * of_tilt, lives=tilt) for tilt, of_tilt in pairs)


def _balanced(case: RareCase, towards: Proposal, faulty: MixturePart, late: LateLives) -> Sampler:
    """Divide slices between causes of death as a pilot sample shows them.

    The random numbers of the pilot are independent of those of the estimate.
    """
    share = 1.0 - PLAIN_SHARE

    def divided(of_faults: float) -> Sampler:
        to_delay = _late_parts(late, share * (1.0 - of_faults))
        parts = (replace(faulty, share=share * of_faults), *to_delay)
        return Sampler(case, replace(towards, parts=parts), favours_delay=True)

    seed = seed_of(case.spec.seed, "rare.balance")
    pilot = divided(0.5).draw(seed, "rare.balance", np.arange(PILOT_SLICES))
    if not pilot.dead.any():
        return divided(0.5)
    of_delay = pilot.weights[pilot.cause == EndCause.DELAY].sum() / pilot.weights[pilot.dead].sum()
    return divided(1.0 - float(np.clip(of_delay, LEAST_SHARE, 1.0 - LEAST_SHARE)))


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
    engine = engine_of(engine)
    return estimate_case(rare_case(spec, age_years, engine), instances, progress or Progress())


def estimate_case(case: RareCase, instances: int, progress: Progress) -> RareEstimate:
    """`failure_probability` of a case that is ready."""
    if instances < 2:
        raise UserError(f"instances = {instances}, expected 2 or more")
    progress.say(f"engine {case.engine.name}; {case.label}, age {case.age_years:g} years")
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
    progress = progress or Progress()

    def simulate(ids: NDArray[np.int64]) -> WeightedLives:
        lives = sampler.draw(sampler.case.spec.seed, "rare", ids)
        progress.advance(len(ids))
        return lives

    batches = [instances[first : first + BATCH] for first in range(0, len(instances), BATCH)]
    with ThreadPoolExecutor(usable_cores()) as pool:
        return WeightedLives.join(list(pool.map(simulate, batches)))


# The Vdd at which slices are dead with a given probability: a root among rare-event estimates.

# The root is searched for by secants of the normal score of the probability, Φ⁻¹(p), over Vdd. Far
# out, where log p bends, a score is nearly straight: Vmin of slices is nearly normal.

SEARCHES = 5
"""Largest number of estimates of the search."""

SEARCH_SHARE = 0.25
"""Slices of an estimate of the search, over those of the last estimate."""

FIRST_SLOPE = -100.0
"""Change of the score per volt that the first step assumes; conventional slices of scenario common
have -50 when new, and slices that redirect -290."""

FLATTEST = -10.0
"""Change of the score per volt beyond which a step is not to be trusted."""

LONGEST_STEP_VOLTS = 0.04
APART_VOLTS = 0.005
"""Distance of two estimates from which a slope is taken."""

RARE, FREQUENT = 1e-15, 0.999
"""Probabilities beyond which a score says only on which side the root lies."""


@dataclass(frozen=True)
class RareVdd:
    """A Vdd at which slices are dead by an age with a given probability.

    Attributes
    ----------
    vdd_volts : Estimate
        The Vdd in volts, with the interval that follows from that of the last probability.
    score_per_volt : float
        Change of the normal score of the probability per volt there, below 0.
    tried : tuple of (float, RareEstimate)
        Voltages that were tried, and the estimates there; the last has all slices.
    warnings : tuple of str
        Reasons not to rely on the Vdd; empty if there are none.
    """

    vdd_volts: Estimate
    score_per_volt: float
    tried: tuple[tuple[float, RareEstimate], ...]
    warnings: tuple[str, ...]


def vdd_for_probability(
    spec: SweepSpec,
    probability: float,
    age_years: float,
    instances: int = INSTANCES,
    *,
    engine: Engine | str = "auto",
    progress: Progress | None = None,
) -> RareVdd:
    """Lowest Vdd at which the probability of a slice to be dead by an age is at most a given one.

    Parameters
    ----------
    spec : SweepSpec
        A sweep of one case without a low Vdd; its seed is used, its number of instances is not.
    probability : float
        The probability, above 0 and below 0.5.
    age_years : float
        The age in years, 0 ... horizon of the spec; 0: dead on arrival.
    instances : int
        Number of slices of the last estimate, 8 or more; those before have a quarter of it.
    engine : Engine or str
        Engine that computes their lives, or its name.
    progress : Progress, optional
        Where progress is reported; nowhere by default.

    Returns
    -------
    RareVdd
        The Vdd, its interval, and the estimates on the way.

    Raises
    ------
    UserError
        The spec has a low Vdd, or `failure_probability` refuses it; probability, age or instances
        are out of range; or no Vdd was found, such as where delay kills at any.

    Notes
    -----
    The last estimate is `failure_probability` at the last Vdd that was tried; those before have
    another seed, so that chance does not choose the Vdd at which it looks favourable. The root is a
    step along the secant from there, and the bounds of the probability become volts by the same
    slope, whose own error is left out: docs/rare-events.md.
    """
    if not 0.0 < probability < 0.5:
        raise UserError(f"probability = {probability:g}, expected more than 0 and less than 0.5")
    if spec.vdd_volts:
        voltages = ", ".join(f"{volts:g}" for volts in spec.vdd_volts)
        raise UserError(
            f"vdd_volts = {voltages}: a probability ({probability:g}) asks for the Vdd; give one "
            "of both"
        )
    if not all(map(spec.uses_scenario_vdd, spec.environments)):
        raise UserError(f"probability = {probability:g}: {spec.fixed_voltages}")
    if instances < 2 / SEARCH_SHARE:
        raise UserError(f"instances = {instances}, expected {2 / SEARCH_SHARE:g} or more")
    ready = engine_of(engine)
    searching = seed_of(spec.seed, "rare.vdd")
    volts = min(spec.low_vdds(scenario(spec.scenarios[0])))
    like = Sweep(_at(spec, volts, searching), ready)
    target = _score(probability)
    tried: list[tuple[float, RareEstimate]] = []

    def score_above_target(seed: int, count: int) -> float:
        case = rare_case(_at(spec, volts, seed), age_years, ready, like)
        tried.append((volts, estimate_case(case, count, progress or Progress())))
        return _score(tried[-1][1].probability) - target

    for number in range(SEARCHES):
        above = score_above_target(searching, int(SEARCH_SHARE * instances))
        root = tried[-1][1]
        near = number > 0 and root.lower <= probability <= root.upper
        least_volts = 0.0 if number else APART_VOLTS
        length = min(max(abs(above / _slope(tried)), least_volts), LONGEST_STEP_VOLTS)
        volts = round(volts + float(np.copysign(length, above)), 4)
        if near:
            break
    above, slope = score_above_target(spec.seed, instances), _slope(tried)
    last = tried[-1][1]
    if abs(above / slope) > APART_VOLTS:
        ways = ", ".join(f"{by.probability:.2g} at {at:g} V" for at, by in tried)
        raise UserError(f"no Vdd found at which {probability:g} of the slices are dead: {ways}")
    value, lower, upper = (
        volts - (_score(bound) - target) / slope
        for bound in (last.probability, last.lower, last.upper)
    )
    return RareVdd(Estimate(value, lower, upper), slope, tuple(tried), last.warnings)


def _at(spec: SweepSpec, volts: float, seed: int) -> SweepSpec:
    return spec.model_copy(update={"vdd_volts": (volts,), "seed": seed})


def _score(probability: float) -> float:
    return float(ndtri(np.clip(probability, RARE, FREQUENT)))


def _slope(tried: list[tuple[float, RareEstimate]]) -> float:
    """Change of the score per volt between the last estimate and the nearest that lies apart."""
    at, last = tried[-1]
    others = [(volts, by) for volts, by in tried if abs(volts - at) >= APART_VOLTS]
    if not others:
        return FIRST_SLOPE
    volts, other = min(others, key=lambda each: abs(each[0] - at))
    change = _score(last.probability) - _score(other.probability)
    return min(change / (at - volts), FLATTEST)
