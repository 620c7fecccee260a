"""The search for a tilt under which slices die that almost never die otherwise.

A slice under a technique that moves data dies of many faulty entries. How many is searched for in
three steps, always with the kernel under which slices die most easily, since most rare deaths
happen under that kernel. First, entries of plain slices are made faulty until half of the slices
die. Second, a population of fields climbs to that number of faulty entries, and slices are drawn
from it. Third, the number is lowered to what the least faulty tenth, by weight, of the dead slices
had, and slices are drawn again. Dead slices are then drawn where they are most likely, instead of
where death is certain.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.lifetime.end_cause import EndCause
from mcage.random import seed_of
from mcage.studies.rare_events.case import RareCase
from mcage.studies.rare_events.proposals.fields import Bumps, FaultyFields
from mcage.studies.rare_events.proposals.mixture import (
    Part,
    Proposal,
    SliceTilt,
    draw_slices,
    faulty_entries,
)
from mcage.studies.rare_events.search.field_climb import climb
from mcage.variation.vmin_tail import TailCells

TRIED_SLICES = 48
REFINING_SLICES = 320
REFINEMENTS = 2
TILT_SHARE = 0.9

EASY_DEATHS = 0.1
"""Share, by weight, of the dead slices that had fewer faulty entries than the target."""


@dataclass(frozen=True)
class Pilot:
    """Result of a search.

    Attributes
    ----------
    tilt : SliceTilt
        The tilt.
    kernel : int
        Number of the kernel under which slices die most easily.
    deaths : int
        Number of slices of the last sample that died, of `REFINING_DIES`.
    """

    tilt: SliceTilt
    kernel: int
    deaths: int


def find_tilt(case: RareCase) -> Pilot:
    """Search for a tilt under which slices of a case die.

    Parameters
    ----------
    case : RareCase
        The case. The random numbers of the search are independent of those of the estimate.
    """
    seed = seed_of(case.spec.seed, "rare.pilot")
    fields = FaultyFields(case.distribution, case.typical_volts)
    kernel, target = _hardest_kernel(case, fields, seed)
    if case.age_years > 0:
        target = _median_faulty_entries(case, fields, seed, kernel, target)
    climbed = climb(fields, target, seed)
    tilt = SliceTilt(fields, Bumps.like(case.distribution, climbed, np.ones(len(climbed))), target)
    deaths = 0
    for refinement in range(REFINEMENTS):
        proposal = Proposal(case.distribution, fields.level_volts, (Part(TILT_SHARE, tilt),))
        instances = np.arange(refinement * REFINING_SLICES, (refinement + 1) * REFINING_SLICES)
        slices = draw_slices(proposal, seed, "rare.pilot", instances, case.floor_volts)
        dead = _dead(case, slices.tail, kernel, seed)
        deaths = int(dead.sum())
        if not deaths:
            break
        weights = proposal.weights(slices)[dead]
        faulty = faulty_entries(slices.tail, fields.level_volts)[dead]
        target = max(_weighted_quantile(faulty, weights, EASY_DEATHS), 1.0)
        tilt = SliceTilt(
            fields, Bumps.like(case.distribution, slices.normals[dead], weights), target
        )
    return Pilot(tilt, kernel, deaths)


def _weighted_quantile(
    values: NDArray[np.int64], weights: NDArray[np.float64], share: float
) -> float:
    order = np.argsort(values, kind="stable")
    ladder = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(ladder, share * ladder[-1])])


def _hardest_kernel(case: RareCase, fields: FaultyFields, seed: int) -> tuple[int, float]:
    """Kernel that the fewest faulty entries stop at the start of life, and how many do."""
    start = case.at_start()
    low, high, kernel = 0.0, float(case.fault_free.geometry.entries), 0
    while high - low > 1 + 0.05 * low:
        middle = 0.5 * (low + high)
        tail = _with_faulty(start, fields, seed, middle)
        deaths = [
            _dead(start, tail, number, seed).sum() for number in range(len(case.fault_free.replays))
        ]
        enough = max(deaths) >= TRIED_SLICES / 2
        low, high = (low, middle) if enough else (middle, high)
        kernel = int(np.argmax(deaths)) if max(deaths) else kernel
    return kernel, high


def _median_faulty_entries(
    case: RareCase, fields: FaultyFields, seed: int, kernel: int, most: float
) -> float:
    """Faulty entries as manufactured with which half of the slices die by the age of the case."""
    low, high = 0.0, most
    while high - low > 1 + 0.05 * low:
        middle = 0.5 * (low + high)
        dead = _dead(case, _with_faulty(case, fields, seed, middle), kernel, seed)
        enough = dead.sum() >= TRIED_SLICES / 2
        low, high = (low, middle) if enough else (middle, high)
    return high


def _with_faulty(case: RareCase, fields: FaultyFields, seed: int, target: float) -> TailCells:
    """Slices with plain fields and a given mean number of faulty entries."""
    tilt = SliceTilt(fields, Bumps.none(fields.distribution), target)
    proposal = Proposal(case.distribution, fields.level_volts, (Part(1.0, tilt),))
    return draw_slices(proposal, seed, "rare.try", np.arange(TRIED_SLICES), case.floor_volts).tail


def _dead(case: RareCase, tail: TailCells, kernel: int, seed: int) -> NDArray[np.bool_]:
    """Which slices die if they run the same kernel throughout their lives."""
    instances = np.arange(tail.instances)
    lives = case.lives.draw(seed, instances)
    lives.kernel_of_period[:] = kernel
    cause = case.cause(lives, tail, case.luck(seed, instances))
    dead: NDArray[np.bool_] = cause != EndCause.CENSORED
    return dead
