"""The search for the tilt under which slices die that almost never do.

Techniques that move data die of many faulty entries, m say. Among all tilts under which a slice
has m of them on the average, the one that distorts the law least shares the work between the mean
of the slice and the odds of its entries: it minimizes s**2 / 2 + I(m | s), s being the shift of the
mean in its own deviations and I the rate function of the number of faulty entries (Cramér). That
leaves m alone to be found: first so that half of the slices die, then by the mean of m among those
that died, each with its weight (cross-entropy; Rubinstein, Methodology and Computing in Applied
Probability 1999).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import SLICE
from mcage.random import stream
from mcage.rare.case import RareCase
from mcage.rare.entries import EntryLaw
from mcage.rare.proposal import Proposal, SliceTilt, WeightedDies, draw_dies, faulty_entries

SHIFTS = np.arange(0.0, 12.01, 0.25)
"""Shifts of the mean that are tried, in its deviations."""

FIELDS = 12
"""Fields that the rate function is averaged over."""

TRIED_DIES = 48
REFINING_DIES = 320
REFINEMENTS = 3
MAX_LOG_ODDS = 80.0


@dataclass(frozen=True)
class Pilot:
    """What a pilot found.

    Attributes
    ----------
    tilt : SliceTilt
        The tilt.
    kernel : int
        The kernel under which slices die most easily.
    faulty_entries : float
        Mean number of faulty entries under the tilt.
    deaths : int
        Slices of its last sample that died.
    """

    tilt: SliceTilt
    kernel: int
    faulty_entries: float
    deaths: int


class _Tilts:
    """The tilts of least distortion, one for each mean number of faulty entries."""

    def __init__(self, case: RareCase, seed: int) -> None:
        law, self.level_volts = case.law, case.weak_volts
        normals = stream(seed, "rare.pilot.fields", 0).standard_normal((FIELDS, law.normals))
        along = np.einsum("ij,j->i", normals, law.mean_direction)
        rest = normals - along[:, None] * law.mean_direction
        shifts = SHIFTS if law.mean_direction.any() else SHIFTS[:1]
        moved = rest + shifts[:, None, None] * law.mean_direction
        nodes = law.node_volts(moved.reshape(-1, law.normals))
        faulty = EntryLaw.of(law, nodes, self.level_volts).faulty
        self.shifts, self.faulty = shifts, faulty.reshape(len(shifts), -1)
        self.entries_each = SLICE.entries / self.faulty.shape[1]

    def to(self, target: float) -> SliceTilt:
        """Tilt with so many faulty entries on the average."""
        low, high = np.zeros(len(self.shifts)), np.full(len(self.shifts), MAX_LOG_ODDS)
        for _ in range(40):
            middle = 0.5 * (low + high)
            odds = np.exp(middle)[:, None] * self.faulty
            mean = self.entries_each * (odds / (1.0 - self.faulty + odds)).sum(axis=1)
            low, high = np.where(mean < target, middle, low), np.where(mean < target, high, middle)
        growth = np.log1p(np.expm1(low)[:, None] * self.faulty).sum(axis=1)
        rate = 0.5 * self.shifts**2 + low * target - self.entries_each * growth
        best = int(np.argmin(rate))
        return SliceTilt(self.level_volts, float(self.shifts[best]), float(low[best]))


def find_tilt(case: RareCase, seed: int) -> Pilot:
    """Search for a tilt under which slices of a case die.

    All slices of the search run one kernel, under which slices die most easily: where death is
    rare, most die under that one.

    Parameters
    ----------
    case : RareCase
        The case.
    seed : int
        Seed of the run that the pilot is for; its own numbers are independent of that run's.
    """
    own_seed = int(stream(seed, "rare.pilot", 0).integers(2**63))
    tilts = _Tilts(case, own_seed)
    kernel, target = _hungriest(case, tilts, own_seed)
    if case.age_years > 0:
        target = _half_dead(case, tilts, own_seed, kernel, target)
    deaths = 0
    for refinement in range(REFINEMENTS):
        dies = _draw(case, tilts.to(target), own_seed, REFINING_DIES, refinement, 0.9)
        dead = _dead(case, dies, kernel)
        deaths = int(dead.sum())
        if not deaths:
            break
        weights = dies.weights[dead]
        faulty = faulty_entries(dies.tail, tilts.level_volts)[dead]
        target = float((weights * faulty).sum() / weights.sum())
    return Pilot(tilts.to(target), kernel, target, deaths)


def _hungriest(case: RareCase, tilts: _Tilts, seed: int) -> tuple[int, float]:
    """Kernel that finds no room at the start of life soonest, and with how many faulty entries."""
    start = case.at_start()
    low, high, kernel = 0.0, float(SLICE.entries), 0
    for step in range(int(np.log2(SLICE.entries))):
        middle = 0.5 * (low + high)
        dies = _draw(start, tilts.to(middle), seed, TRIED_DIES, REFINEMENTS + step, 1.0)
        deaths = [_dead(start, dies, one).sum() for one in range(len(case.shared.replays))]
        enough = max(deaths) >= TRIED_DIES / 2
        low, high = (low, middle) if enough else (middle, high)
        kernel = int(np.argmax(deaths)) if max(deaths) else kernel
    return kernel, high


def _half_dead(case: RareCase, tilts: _Tilts, seed: int, kernel: int, at_start: float) -> float:
    """Number of faulty entries with which half of the slices are dead by the age of the case."""
    low, high = 0.0, min(2 * at_start + 2, float(SLICE.entries))
    while high - low > 1 + 0.02 * high:
        middle = 0.5 * (low + high)
        dies = _draw(case, tilts.to(middle), seed, TRIED_DIES, 100, 1.0)
        enough = _dead(case, dies, kernel).sum() >= TRIED_DIES / 2
        low, high = (low, middle) if enough else (middle, high)
    return high


def _draw(
    case: RareCase, tilt: SliceTilt, seed: int, dies: int, stage: int, tilt_share: float
) -> WeightedDies:
    proposal = Proposal(case.law, tilt, tilt_share)
    instances = np.arange(stage * REFINING_DIES, stage * REFINING_DIES + dies)
    return draw_dies(proposal, seed, "rare.pilot", instances, case.floor_volts)


def _dead(case: RareCase, dies: WeightedDies, kernel: int) -> NDArray[np.bool_]:
    return case.dead(np.full((dies.tail.instances, case.epochs), kernel), dies.tail)
