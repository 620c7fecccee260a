"""The search for a tilt under which slices die that almost never do.

Techniques that move data die of many faulty entries. How many, is found in three steps, always with
the kernel under which slices die most easily: where death is rare, most die under that one. First
entries of plain slices are made faulty until half of the slices die. Then fields climb to that
number, slices are drawn, and the number that the most lightly hit of those that died have, each
with its weight, is the number to climb to in the end: what dies is then drawn from where it is most
likely, not from where it is sure.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SLICE
from mcage.lifetime.end_cause import EndCause
from mcage.random import stream
from mcage.studies.rare_events.bumps import Bumps
from mcage.studies.rare_events.case import RareCase
from mcage.studies.rare_events.field_proposal import FaultyFields
from mcage.studies.rare_events.mixture_proposal import (
    Proposal,
    SliceTilt,
    draw_dies,
    faulty_entries,
)
from mcage.studies.rare_events.smc import climb
from mcage.variation import TailCells

TRIED_DIES = 48
REFINING_DIES = 320
REFINEMENTS = 2
TILT_SHARE = 0.9

EASY_DEATHS = 0.1
"""Share, by weight, of the slices that died with fewer faulty entries than is aimed at."""


@dataclass(frozen=True)
class Pilot:
    """What a pilot found.

    Attributes
    ----------
    tilt : SliceTilt
        The tilt.
    kernel : int
        The kernel under which slices die most easily.
    deaths : int
        Slices of its last sample that died, of `REFINING_DIES`.
    """

    tilt: SliceTilt
    kernel: int
    deaths: int


def find_tilt(case: RareCase) -> Pilot:
    """Search for a tilt under which slices of a case die.

    Parameters
    ----------
    case : RareCase
        The case; the random numbers of the search are independent of those of its run.
    """
    seed = int(stream(case.spec.seed, "rare.pilot", 0).integers(2**63))
    fields = FaultyFields(case.law, case.typical_volts)
    kernel, target = _hungriest(case, fields, seed)
    if case.age_years > 0:
        target = _half_dead(case, fields, seed, kernel, target)
    climbed = climb(fields, target, seed)
    tilt = SliceTilt(fields, Bumps.like(case.law, climbed, np.ones(len(climbed))), target)
    deaths = 0
    for refinement in range(REFINEMENTS):
        proposal = Proposal(case.law, fields.level_volts, tilt, TILT_SHARE)
        instances = np.arange(refinement * REFINING_DIES, (refinement + 1) * REFINING_DIES)
        dies = draw_dies(proposal, seed, "rare.pilot", instances, case.floor_volts)
        dead = _dead(case, dies.tail, kernel, seed)
        deaths = int(dead.sum())
        if not deaths:
            break
        weights = dies.weights[dead]
        faulty = faulty_entries(dies.tail, fields.level_volts)[dead]
        target = max(_weighted_quantile(faulty, weights, EASY_DEATHS), 1.0)
        tilt = SliceTilt(fields, Bumps.like(case.law, dies.normals[dead], weights), target)
    return Pilot(tilt, kernel, deaths)


def _weighted_quantile(
    values: NDArray[np.int64], weights: NDArray[np.float64], share: float
) -> float:
    order = np.argsort(values, kind="stable")
    ladder = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(ladder, share * ladder[-1])])


def _hungriest(case: RareCase, fields: FaultyFields, seed: int) -> tuple[int, float]:
    """Kernel that finds no room at the start of life soonest, and with how many faulty entries."""
    start = case.at_start()
    low, high, kernel = 0.0, float(SLICE.entries), 0
    while high - low > 1 + 0.05 * low:
        middle = 0.5 * (low + high)
        tail = _with_faulty(start, fields, seed, middle)
        deaths = [_dead(start, tail, one, seed).sum() for one in range(len(case.shared.replays))]
        enough = max(deaths) >= TRIED_DIES / 2
        low, high = (low, middle) if enough else (middle, high)
        kernel = int(np.argmax(deaths)) if max(deaths) else kernel
    return kernel, high


def _half_dead(case: RareCase, fields: FaultyFields, seed: int, kernel: int, most: float) -> float:
    """Faulty entries, as manufactured, with which half of the slices die by the age of the case."""
    low, high = 0.0, most
    while high - low > 1 + 0.05 * low:
        middle = 0.5 * (low + high)
        dead = _dead(case, _with_faulty(case, fields, seed, middle), kernel, seed)
        enough = dead.sum() >= TRIED_DIES / 2
        low, high = (low, middle) if enough else (middle, high)
    return high


def _with_faulty(case: RareCase, fields: FaultyFields, seed: int, target: float) -> TailCells:
    """Slices with plain fields and so many faulty entries on the average."""
    tilt = SliceTilt(fields, Bumps.none(fields.law), target)
    proposal = Proposal(case.law, fields.level_volts, tilt, tilt_share=1.0)
    return draw_dies(proposal, seed, "rare.try", np.arange(TRIED_DIES), case.floor_volts).tail


def _dead(case: RareCase, tail: TailCells, kernel: int, seed: int) -> NDArray[np.bool_]:
    """Which slices die if they run one kernel throughout."""
    instances = np.arange(tail.instances)
    kernels = np.full((len(instances), case.epochs), kernel)
    dead: NDArray[np.bool_] = case.cause(seed, instances, kernels, tail) != EndCause.CENSORED
    return dead
