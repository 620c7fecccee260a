"""Where deaths are least unlikely: fields with many faulty entries, lives that end by delay."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.aging.sampling import InstanceConstants
from mcage.engines.interface import fault_free_maps
from mcage.engines.stress import TrackedCells, Turns
from mcage.lifetime import EndCause
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.degradation import AdditiveDegradation, Degradation, StepwiseDegradation
from mcage.methods.rare_events import proposals
from mcage.methods.rare_events.case import MOMENT_YEARS, RareCase, effective_number
from mcage.random import seed_of, stream
from mcage.variation.vmin_tail import TailCells

# Sequential Monte Carlo: a population of fields climbs to many faulty entries.
#
# Chernoff's bound limits the probability that a slice has t faulty entries or more, given its
# field. A population of plain fields is weighted with that bound, resampled and moved, for a t
# that rises step by step (Del Moral, Doucet and Jasra, J. R. Stat. Soc. B 2006). The mean of the
# slice, the shape of its field and its cells then contribute to the faulty entries in the most
# likely way.

POPULATION = 1000
KEPT = 0.6
"""Effective share of the population that a step of the climb must keep."""

MOVES, LAST_MOVES = 5, 20
SMALLEST_MOVE = 0.05
"""Shortest length of a move: a random part of the field, between this and 1, is drawn anew."""


def climb(fields: proposals.FaultyFields, target: float, seed: int) -> NDArray[np.float64]:
    """Draw fields under which many entries are faulty.

    Parameters
    ----------
    fields : FaultyFields
        How many faulty entries a field makes likely.
    target : float
        Number of faulty entries.
    seed : int
        Seed.

    Returns
    -------
    float64[population, normals]
        Standard normal numbers behind the fields, distributed as the plain ones times Chernoff's
        bound.
    """
    population = _Population(fields, stream(seed, "rare.climb", 0))
    while population.target < target:
        population.rise(_farthest(population, target))
        for _ in range(MOVES if population.target < target else LAST_MOVES):
            population.move()
    return population.normals()


class _Population:
    """Fields of a population, all weighted for the same target."""

    def __init__(self, fields: proposals.FaultyFields, generator: np.random.Generator) -> None:
        normals = generator.standard_normal((POPULATION, fields.distribution.normals))
        nodes = fields.distribution.node_volts(normals).reshape(POPULATION, -1)
        self.fields, self.generator, self.target = fields, generator, 0.0
        self.along = np.einsum("in,mn->im", normals, fields.directions)
        self.rest_normals = normals - self._normals(self.along)
        self.rest = nodes - self._volts(self.along)
        self.faulty = fields.faulty(nodes)
        self.log_chance = np.zeros(POPULATION)

    def _volts(self, along: NDArray[np.float64]) -> NDArray[np.float64]:
        # Not ``@``: BLAS sums in an order that depends on threads.
        volts: NDArray[np.float64] = np.einsum("im,nm->in", along, self.fields.volts)
        return volts

    def _normals(self, along: NDArray[np.float64]) -> NDArray[np.float64]:
        normals: NDArray[np.float64] = np.einsum("im,mn->in", along, self.fields.directions)
        return normals

    def normals(self) -> NDArray[np.float64]:
        """Standard normal numbers behind the fields: float64[population, normals]."""
        return self.rest_normals + self._normals(self.along)

    def weights(self, target: float) -> NDArray[np.float64]:
        """Weights, up to a factor, that turn the population into one for another target."""
        log_chance, _ = self.fields.log_chance(self.faulty, target)
        change = log_chance - self.log_chance
        weights: NDArray[np.float64] = np.exp(change - change.max())
        return weights

    def rise(self, target: float) -> None:
        """Resample the population for a larger target."""
        chosen = _resampled(self.weights(target), self.generator)
        self.along, self.rest = self.along[chosen], self.rest[chosen]
        self.rest_normals = self.rest_normals[chosen]
        self.faulty, self.target = self.faulty[chosen], target
        self.log_chance, _ = self.fields.log_chance(self.faulty, target)

    def move(self) -> None:
        """Draw a part of each field anew, and accept by the rule of Metropolis and Hastings.

        The proposal leaves the plain distribution unchanged (Cotter et al., Statistical Science
        2013), so that the ratio of the bounds alone decides.
        """
        draw = self.generator
        length = SMALLEST_MOVE ** draw.random((POPULATION, 1))
        moved = np.sqrt(1.0 - length**2) * self.along
        moved += length * draw.standard_normal(self.along.shape)
        faulty = self.fields.faulty(self.rest + self._volts(moved))
        log_chance, _ = self.fields.log_chance(faulty, self.target)
        passes = np.log1p(-draw.random(POPULATION)) <= log_chance - self.log_chance
        self.along[passes], self.faulty[passes] = moved[passes], faulty[passes]
        self.log_chance[passes] = log_chance[passes]


def _resampled(weights: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Members of a population in proportion to their weights (systematic resampling): int64[n]."""
    count = len(weights)
    places = (np.arange(count) + generator.random()) / count
    chosen = np.searchsorted(np.cumsum(weights) / weights.sum(), places, side="right")
    return np.asarray(np.minimum(chosen, np.flatnonzero(weights)[-1]))


def _farthest(population: _Population, target: float) -> float:
    """Largest target, up to the last one, that keeps enough of the population."""

    def keeps_enough(to: float) -> bool:
        weights = population.weights(to)
        return bool(weights.sum() ** 2 >= KEPT * POPULATION * (weights**2).sum())

    if keeps_enough(target):
        return target
    low, high = population.target, target
    resolution = 1e-3 * (target - low)
    while high - low > resolution:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if keeps_enough(middle) else (low, middle)
    return high


# The search for lives under which a transistor becomes too slow.
#
# On a slice without faults, the worst transistor follows from the constants of the slice and its
# kernels alone, without a replay. A population of lives climbs to those whose worst transistor
# uses up the delay guardband: in each step the fifth that comes nearest is kept, multiplied and
# moved (subset simulation: Au and Beck, Probabilistic Engineering Mechanics 2001). It starts from
# a wide distribution, under which constants in their tails and rare kernels are frequent, and
# which turns into the plain one step by step once the guardband is used up (Del Moral, Doucet and
# Jasra, J. R. Stat. Soc. B 2006). The mixture that lives are drawn from is fitted to the
# population in the end.

DELAY_POPULATION = 1000
STEPWISE_POPULATION = 300
"""Smaller where shifts do not follow from sums, and each life takes long."""

WIDE = 3.0
"""Standard deviation of the normal numbers behind constants in the wide distribution, in which all
kernels are equally likely."""

DELAY_KEPT = 0.2
REMAINING = 0.5
"""Effective share of the population that a step towards the plain distribution must keep."""

BISECTIONS = 30
LEAST_CHANCE = 1e-300
"""Chance of a kernel whose logarithm is a number."""

DELAY_MOVES, DELAY_LAST_MOVES = 3, 10
DELAY_SMALLEST_MOVE = 0.05
"""Shortest length of a move: a random part of a life, between this and 1, is drawn anew."""

STALLED = 3
"""Steps without a life that comes nearer after which the search ends."""

SMALL_GROUP = 0.05
"""Share of the population below which lives have no part of the mixture to themselves."""


@dataclass(frozen=True)
class LateLives:
    """Result of a search.

    Attributes
    ----------
    tilts : tuple of LifeTilt
        Distributions of lives that end by delay, each of lives with another kernel.
    shares : tuple of float
        Their shares, with the sum 1.
    probability : float
        Probability, roughly, that a slice without faults ends by delay.
    """

    tilts: tuple[proposals.LifeTilt, ...]
    shares: tuple[float, ...]
    probability: float


def find_late_lives(case: RareCase) -> LateLives | None:
    """Search for lives of a case that end by delay on a slice without faults.

    Parameters
    ----------
    case : RareCase
        The case, of an age above 0. The random numbers of the search are independent of those of
        the estimate.

    Returns
    -------
    LateLives or None
        None if the search comes upon no such life.
    """
    seed = seed_of(case.spec.seed, "rare.late")
    population = _DelayPopulation(case, seed)
    stalled = 0
    while population.level < 1.0 and stalled < STALLED:
        stalled = 0 if population.rise() else stalled + 1
        population.move(DELAY_MOVES)
    if population.level < 1.0:
        return None
    while population.plain < 1.0:
        population.turn_plain()
        population.move(DELAY_MOVES)
    population.move(DELAY_LAST_MOVES)
    groups = _groups(case, population.lives)
    count = len(population.lives)
    tilts = [
        proposals.LifeTilt.like(case.lives, population.lives.of(group), np.ones(len(group)))
        for group in groups
    ]
    shares = tuple(len(group) / count for group in groups)
    return LateLives(tuple(tilts), shares, population.probability)


def used_guardband(case: RareCase, lives: proposals.LifeDraws) -> NDArray[np.float64]:
    """Part of the guardband that the worst transistor of slices without faults has used up.

    Parameters
    ----------
    case : RareCase
        The case, of an age above 0.
    lives : Lives
        I lives.

    Returns
    -------
    float64[I]
        Largest shift at the ends of epochs up to the age, over the shift that ends a life.
    """
    *edges, end = case.conditions.epoch_edges_years
    end = min(end, max(case.age_years, edges[-1] + MOMENT_YEARS))
    conditions = replace(case.conditions, epoch_edges_years=(*edges, end))
    constants = case.lives.constants_of(lives)
    with case.engine.working():
        worst = _largest_shift(case, conditions, constants, case.lives.workload(lives))
    limit = np.broadcast_to(conditions.delay_limit(constants).dvth_volts, len(lives))
    # At or below threshold, any shift will do.
    used: NDArray[np.float64] = worst / np.maximum(limit, np.finfo(float).tiny)
    return used


def _largest_shift(
    case: RareCase,
    conditions: LifeConditions,
    constants: InstanceConstants,
    workload: list[Turns],
) -> NDArray[np.float64]:
    """Largest shift in volts at the ends of epochs of slices without faults: float64[I]."""
    count = len(workload[0].kernel)
    all_lives = np.arange(count)
    fault_free = fault_free_maps(count, case.fault_free.geometry)
    no_cells = TrackedCells(np.empty(0, np.int64), np.empty(0, np.int64))
    cells = (case.engine, case.fault_free.duties, no_cells, count)
    degradation: Degradation = (
        AdditiveDegradation(conditions.additive_shift(constants), *cells)
        if conditions.sums_suffice
        else StepwiseDegradation(conditions.history(constants), *cells)
    )
    worst = np.zeros(count)
    for epoch, span in enumerate(pairwise(conditions.epoch_edges_years)):
        start_seconds, end_seconds = (years * SECONDS_PER_YEAR for years in span)
        degradation.add(all_lives, workload[epoch], fault_free, start_seconds, end_seconds)
        shift = degradation.worst_dvth(all_lives, np.full(count, end_seconds))
        worst = np.maximum(worst, shift.max(axis=0))
    return worst


class _DelayPopulation:
    """Lives whose worst transistors have all used up some part of the guardband, `level`.

    Their density, given that, is proportional to wide^(1 - b) times plain^b, where b is `plain`.
    """

    def __init__(self, case: RareCase, seed: int) -> None:
        count = DELAY_POPULATION if case.conditions.sums_suffice else STEPWISE_POPULATION
        self.case, self.generator = case, stream(seed, "rare.climb", 0)
        self.level, self.plain, self.probability = 0.0, 0.0, 1.0
        plain = case.lives.draw(seed, np.arange(count))
        self.lives = self._moved(plain, np.ones((count, 1)))
        self.used = used_guardband(case, self.lives)

    def rise(self) -> bool:
        """Raise the level, and multiply the lives above it; False if none lies higher."""
        higher = self.used[self.used > self.level]
        if not len(higher):
            return False
        quantile = float(np.quantile(self.used, 1.0 - DELAY_KEPT, method="higher"))
        self.level = min(max(quantile, float(higher.min())), 1.0)
        self._resample((self.used >= self.level).astype(float))
        return True

    def turn_plain(self) -> None:
        """Bring the density nearer to the plain one, as far as enough of the population remains."""
        ratio = self._log_ratio()

        def keeps_enough(step: float) -> bool:
            weights: NDArray[np.float64] = np.exp(step * (ratio - ratio.max()))
            return effective_number(weights) >= REMAINING * len(ratio)

        low, high = 0.0, 1.0 - self.plain
        if not keeps_enough(high):
            for _ in range(BISECTIONS):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if keeps_enough(middle) else (low, middle)
        self.plain = min(self.plain + high, 1.0)
        self._resample(np.exp(high * ratio))

    def move(self, times: int) -> None:
        """Draw parts of each life anew, and keep them if they do not fall below the level.

        The proposal leaves the density unchanged (Cotter et al., Statistical Science 2013).
        """
        for _ in range(times):
            self._move()

    def _move(self) -> None:
        length = DELAY_SMALLEST_MOVE ** self.generator.random((len(self.lives), 1))
        lives, moved = self.lives, self._moved(self.lives, length)
        used = used_guardband(self.case, moved)
        stays = used < self.level
        self.used = np.where(stays, self.used, used)
        self.lives = proposals.LifeDraws(
            np.where(stays[:, None], lives.ranks, moved.ranks),
            np.where(stays[:, None], lives.mix_of_period, moved.mix_of_period),
            lives.chances,
            np.where(stays[:, None, None], lives.shares, moved.shares),
        )

    def _moved(
        self, lives: proposals.LifeDraws, length: NDArray[np.float64]
    ) -> proposals.LifeDraws:
        """Lives of which a part, float64[I, 1], is drawn anew."""
        draw = self.generator
        normals = np.sqrt(1.0 - length**2) * lives.normals
        normals += length * self._deviation * draw.standard_normal(normals.shape)
        chances = self._chances(lives)
        ladder = (np.cumsum(chances, axis=1) / chances.sum(axis=1, keepdims=True))[:, None, :-1]
        shape = lives.mix_of_period.shape
        redrawn = draw.random(shape) < length
        mixes = (draw.random(shape)[:, :, None] >= ladder).sum(axis=2)
        if self.case.lives.mix == "one":
            redrawn, mixes = redrawn[:, :1], mixes[:, :1]
        mixes = np.where(redrawn, mixes, lives.mix_of_period)
        drawn = self.case.lives.drawn_shares(lives, draw)
        shares = np.where(redrawn[..., None], drawn, lives.shares)
        return proposals.LifeDraws(proposals.ranks_of(normals), mixes, lives.chances, shares)

    @property
    def _deviation(self) -> float:
        """Standard deviation of the normal numbers behind constants."""
        return float(((1.0 - self.plain) / WIDE**2 + self.plain) ** -0.5)

    def _chances(self, lives: proposals.LifeDraws) -> NDArray[np.float64]:
        """Chances of mixes, up to a factor for each life: float64[I, mixes]."""
        chances: NDArray[np.float64] = np.maximum(lives.chances, LEAST_CHANCE) ** self.plain
        return chances

    def _log_ratio(self) -> NDArray[np.float64]:
        """Logarithm of the plain density over the wide one: float64[I]."""
        lives, distribution = self.lives, self.case.lives
        squares = (lives.normals**2).sum(axis=1)
        ratio = lives.normals.shape[1] * np.log(WIDE) - 0.5 * (1.0 - WIDE**-2) * squares
        drawn = lives.mix_of_period[:, : distribution.draws]
        chances = np.maximum(np.take_along_axis(lives.chances, drawn, axis=1), LEAST_CHANCE)
        total: NDArray[np.float64] = ratio + np.log(chances * lives.chances.shape[1]).sum(axis=1)
        return total

    def _resample(self, weights: NDArray[np.float64]) -> None:
        """Multiply lives in proportion to their weights."""
        self.probability *= float(weights.mean())
        chosen = _resampled(weights, self.generator)
        self.lives, self.used = self.lives.of(chosen), self.used[chosen]


def _groups(case: RareCase, lives: proposals.LifeDraws) -> list[NDArray[np.int64]]:
    """Lives by the kernel that they run longest up to the age; small groups are put together."""
    edges = np.minimum(case.conditions.epoch_edges_years, case.age_years)
    workload = case.lives.workload(lives)
    years = np.zeros((len(lives), len(case.lives.kernels)))
    for turns, length in zip(workload, np.diff(edges), strict=True):
        for kernel, share in turns.one_by_one():
            years[np.arange(len(lives)), kernel] += share * length
    longest = years.argmax(axis=1)
    sizes = np.bincount(longest, minlength=years.shape[1])
    small = sizes < SMALL_GROUP * len(lives)
    groups = [np.flatnonzero(longest == kernel) for kernel in np.flatnonzero(~small)]
    rest = np.flatnonzero(small[longest])
    return groups + ([rest] if len(rest) else [])


# The search for a tilt under which slices die that almost never die otherwise.
#
# A slice under a technique that moves data dies of many faulty entries. How many is searched for
# in three steps, always with mixes that have the kernel which, alone, is stopped most easily, since
# most rare deaths happen under these. (Fewer faulty entries stop that kernel alone: the others of a
# mix dilute its slowdown.) First, entries of plain slices are made faulty until half of the slices
# die. Second, a population of fields climbs to that number of faulty entries, and slices are drawn
# from it. Third, the number is lowered to what the least faulty tenth, by weight, of the dead
# slices had, and slices are drawn again. Dead slices are then drawn where they are most likely,
# instead of where death is certain.

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
        Number of the kernel with which mixes kill most easily.
    deaths : int
        Number of slices of the last sample that died, of `REFINING_DIES`.
    """

    tilt: proposals.SliceTilt
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
    fields = proposals.FaultyFields(case.distribution, case.typical_volts)
    kernel = _hardest_kernel(case, fields, seed)
    target = _median_faulty_entries(case, fields, seed, kernel)
    climbed = climb(fields, target, seed)
    tilt = proposals.SliceTilt(
        fields, proposals.Bumps.like(case.distribution, climbed, np.ones(len(climbed))), target
    )
    deaths = 0
    for refinement in range(REFINEMENTS):
        proposal = _with_tilt(tilt, TILT_SHARE)
        instances = np.arange(refinement * REFINING_SLICES, (refinement + 1) * REFINING_SLICES)
        slices = proposals.draw_slices(proposal, seed, "rare.pilot", instances, case.floor_volts)
        dead = _dead(case, slices.tail, kernel, seed)
        deaths = int(dead.sum())
        if not deaths:
            break
        weights = proposal.weights(slices)[dead]
        faulty = proposals.faulty_entries(slices.tail, fields.level_volts)[dead]
        target = max(_weighted_quantile(faulty, weights, EASY_DEATHS), 1.0)
        tilt = proposals.SliceTilt(
            fields, proposals.Bumps.like(case.distribution, slices.normals[dead], weights), target
        )
    return Pilot(tilt, kernel, deaths)


def _weighted_quantile(
    values: NDArray[np.int64], weights: NDArray[np.float64], share: float
) -> float:
    """The quantile by weight, of which NumPy knows none where all weights are zero."""
    order = np.argsort(values, kind="stable")
    ladder = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(ladder, share * ladder[-1])])


def _with_tilt(tilt: proposals.SliceTilt, share: float) -> proposals.Proposal:
    """Slices of which a share has a tilt."""
    fields, parts = tilt.fields, (proposals.MixturePart(share, of_cells=True),)
    return proposals.Proposal(fields.distribution, fields.level_volts, tilt, parts)


def _hardest_kernel(case: RareCase, fields: proposals.FaultyFields, seed: int) -> int:
    """Kernel that, alone, the fewest faulty entries stop at the start of life."""
    start, kernel = case.at_start(), 0

    def kills(number: float) -> bool:
        nonlocal kernel
        tail = _with_faulty(start, fields, seed, number)
        deaths = [
            _dead(start, tail, alone, seed, alone=True).sum()
            for alone in range(len(case.fault_free.replays))
        ]
        kernel = int(np.argmax(deaths)) if max(deaths) else kernel
        return bool(max(deaths) >= TRIED_SLICES / 2)

    _fewest(case, kills)
    return kernel


def _median_faulty_entries(
    case: RareCase, fields: proposals.FaultyFields, seed: int, kernel: int
) -> float:
    """Faulty entries as manufactured with which half of the slices die by the age of the case."""

    def kills(number: float) -> bool:
        dead = _dead(case, _with_faulty(case, fields, seed, number), kernel, seed)
        return bool(dead.sum() >= TRIED_SLICES / 2)

    return _fewest(case, kills)


def _fewest(case: RareCase, kills: Callable[[float], bool]) -> float:
    """Smallest number of faulty entries that kills, to 5 % or an entry, by bisection."""
    low, high = 0.0, float(case.fault_free.geometry.entries)
    while high - low > 1 + 0.05 * low:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if kills(middle) else (middle, high)
    return high


def _with_faulty(
    case: RareCase, fields: proposals.FaultyFields, seed: int, target: float
) -> TailCells:
    """Slices with plain fields and a given mean number of faulty entries."""
    plain = proposals.Bumps.none(fields.distribution)
    proposal = _with_tilt(proposals.SliceTilt(fields, plain, target), 1.0)
    return proposals.draw_slices(
        proposal, seed, "rare.try", np.arange(TRIED_SLICES), case.floor_volts
    ).tail


def _dead(
    case: RareCase, tail: TailCells, kernel: int, seed: int, alone: bool = False
) -> NDArray[np.bool_]:
    """Which slices die if each of their mixes has the same kernel in it, or they run it alone."""
    instances = np.arange(tail.instances)
    if alone:
        case = replace(case, lives=case.lives.of_single_kernels)
    lives = case.lives.draw(seed, instances)
    having = np.flatnonzero((case.lives.mixes == kernel).any(axis=1))
    lives.mix_of_period[:] = having[lives.mix_of_period % len(having)]
    cause = case.cause(lives, tail, case.luck(seed, instances))
    dead: NDArray[np.bool_] = cause != EndCause.CENSORED
    return dead
