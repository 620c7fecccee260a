"""The Vdd at which slices are dead with a given probability: a root among rare-event estimates."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from mcage.campaign.progress import Progress
from mcage.engines.interface import Engine
from mcage.engines.select import engine_of
from mcage.errors import UserError
from mcage.methods.rare_events.case import RareEstimate, rare_case
from mcage.methods.rare_events.estimator import INSTANCES, estimate_case
from mcage.random import seed_of
from mcage.spec import SweepSpec
from mcage.stats.estimates import Estimate
from mcage.studies.sweep.study import Sweep
from mcage.variation.scenarios import scenario

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
        given = ", ".join(f"{volts:g}" for volts in spec.vdd_volts)
        raise UserError(
            f"vdd_volts = {given}: a probability ({probability:g}) asks for the Vdd; give one of "
            "both"
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
