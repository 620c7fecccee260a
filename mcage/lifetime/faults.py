"""Failures of an epoch: cells, by the luck and the limits of each, and the slowest path."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mcage.aging.sampling import InstanceConstants
from mcage.aging.transistors import NbtiSpread, TrapLaw, scores_of
from mcage.aging.vmin import CellFailure, Margins
from mcage.geometry import Booleans, Bytes, Floats, Integers
from mcage.lifetime import BISECTIONS
from mcage.lifetime.conditions import DelayLimit, LifeConditions
from mcage.lifetime.degradation import CellDegradation, Degradation, EpochSpan, crossing
from mcage.random import stream_key, streams_of
from mcage.variation.fault_models import EntryFaults, NewSlices
from mcage.variation.vmin_tail import TailCells


@dataclass(frozen=True)
class NewFaults:
    """Cells of n instances that become faulty within an epoch of each.

    Attributes
    ----------
    failure : CellFailure
        When each of the cells fails.
    span : EpochSpan
        The epochs.
    earlier : EntryFaults
        Faults at the starts of the epochs.
    places : int64[m]
        Positions of the cells in the tail of the batch, in rising order.
    cells : TailCells
        Cells that are fault-free at the start and faulty at the end.
    vmin_volts : float64[2, m]
        Vmin of these cells from which the shifts of T0 and T1 start.
    degradation : CellDegradation
        Shifts of these cells.
    scores : float64[k, m], optional
        Scores of their transistors, as of `CellFailure.are_faulty`.
    """

    failure: CellFailure
    span: EpochSpan
    earlier: EntryFaults
    places: Integers
    cells: TailCells
    vmin_volts: Floats
    degradation: CellDegradation
    scores: Floats | None = None

    def of(self, which: Integers) -> "NewFaults":
        """New faults of selected instances, in rising order."""
        chosen = np.zeros(self.cells.instances, dtype=bool)
        chosen[which] = True
        kept = np.flatnonzero(chosen[self.cells.instance])
        return NewFaults(
            self.failure.of(kept),
            self.span.of(which),
            self.earlier.of(which),
            self.places[kept],
            self.cells.at(kept, which),
            self.vmin_volts[:, kept],
            self.degradation.of(kept),
            None if self.scores is None else self.scores[:, kept],
        )

    def faults_at(self, moment: Floats) -> EntryFaults:
        """Faults at a moment of each epoch: float64[n]."""
        if not len(self.cells.cell):
            return self.earlier
        return self.earlier.more(self.cells, self.are_faulty_at(moment))

    def fault_maps_at(self, moment: Floats) -> Bytes:
        """Fault maps at a moment of each epoch: uint8[n, 256]."""
        if not len(self.cells.cell):
            return self.earlier.maps
        return self.earlier.maps_with(self.cells, self.are_faulty_at(moment))

    def are_faulty_at(self, moment: Floats) -> Booleans:
        """Whether the cells are faulty at a moment of each epoch: bool[m]."""
        return self._are_faulty(moment[self.cells.instance])

    def first_moments(self) -> Floats:
        """Moments from which the cells are faulty, by bisection of the epochs: float64[m]."""
        epochs = self.span.of(self.cells.instance)
        low, high = epochs.start, epochs.end
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            faulty = self._are_faulty(middle)
            low, high = np.where(faulty, low, middle), np.where(faulty, middle, high)
        return high

    def _are_faulty(self, moment: Floats) -> Booleans:
        """Whether the cells are faulty at a moment of each: float64[m] to bool[m]."""
        return self.degradation.are_faulty(self.failure, self.vmin_volts, moment, self.scores)


# The luck of transistors: scores of the traps of each, functions of seed and instance alone.
#
# A transistor keeps its score for life, under all techniques, voltages and scenarios. The scores
# of a slice's unluckiest transistors, which may decide its delay, are drawn as order statistics of
# independent uniform numbers, at random places; all others lie below the last of them.

UNLUCKIEST = 256
"""Transistors of a slice whose scores are drawn first, and whose shifts are followed."""


@dataclass(frozen=True, eq=False)
class BatchLuck:
    """Scores that the lives of a batch depend on.

    Attributes
    ----------
    vmin_volts : float64[k, n]
        Vmin of the cells of the tail from which the mean shifts of their transistors start, as
        `CellFailure.start_of` gives it; without meaning where there are margins.
    sampled : float64[2, I, sample]
        Scores of the sampled cells.
    unlucky_cells : int64[I, k]
        Cells of the unluckiest transistors.
    unlucky : float64[2, I, k]
        Scores of these cells.
    others_at_most : float64[I]
        Score below which all other transistors of an instance lie.
    path : float64[I]
        Score of the worst path.
    """

    vmin_volts: Floats
    sampled: Floats
    unlucky_cells: Integers
    unlucky: Floats
    others_at_most: Floats
    path: Floats


@dataclass(frozen=True, eq=False)
class SliceLuck:
    """Scores of the transistors of I instances.

    Parameters
    ----------
    seed : int
        Seed of the whole sweep.
    instances : int64[I]
        Instance ids.
    cells : int
        Cells of a slice; each has two transistors, T0 and T1.
    """

    seed: int
    instances: Integers
    cells: int

    def of(self, which: Integers) -> "SliceLuck":
        """Luck of selected instances."""
        return SliceLuck(self.seed, self.instances[which], self.cells)

    @cached_property
    def _unluckiest(self) -> tuple[Integers, Floats]:
        """Transistors ``2 * cell + side`` and their ranks: int64[I, k], float64[I, k], rising."""
        transistors = 2 * self.cells
        count = min(UNLUCKIEST, transistors)
        chosen = np.empty((len(self.instances), count), dtype=np.int64)
        uniform = np.empty((len(self.instances), count))
        streams = streams_of(self.seed, "traps.unluckiest", self.instances.tolist())
        for row, draws in enumerate(streams):
            uniform[row] = draws.random(count)
            chosen[row] = draws.choice(transistors, count, replace=False)
        # Each is the smallest of those that are left (Rényi, 1953).
        steps = np.log1p(-uniform) / (transistors - np.arange(count))
        return chosen, -np.expm1(np.cumsum(steps, axis=1))

    @cached_property
    def _listed(self) -> tuple[Integers, Floats]:
        """The unluckiest among the transistors of all instances, in rising order, and ranks."""
        chosen, ranks = self._unluckiest
        listed = (np.arange(len(chosen))[:, None] * 2 * self.cells + chosen).ravel()
        order = np.argsort(listed)
        return listed[order], ranks.ravel()[order]

    @property
    def unlucky_cells(self) -> Integers:
        """Cells of the unluckiest transistors: int64[I, k]."""
        return self._unluckiest[0] // 2

    @cached_property
    def others_at_most(self) -> Floats:
        """Score below which all other transistors lie: float64[I]."""
        return scores_of(self._unluckiest[1][:, -1])

    def scores(self, owner: Integers, cell: Integers) -> Floats:
        """Scores of T0 and T1 of n cells.

        Parameters
        ----------
        owner, cell : int64[n]
            Position of the instance of each cell, 0 ... I-1, and number of the cell in its slice.
            Check cells, beyond the cells of the slice, are never among the unluckiest.

        Returns
        -------
        float64[2, n]
        """
        is_check = cell >= self.cells
        if is_check.any():
            scores = np.empty((2, len(cell)))
            scores[:, ~is_check] = self.scores(owner[~is_check], cell[~is_check])
            place = 2 * (cell[is_check] - self.cells)
            drawn = [self.numbers("traps.check", owner[is_check], place + t) for t in range(2)]
            scores[:, is_check] = scores_of(1 - np.stack(drawn))
            return scores
        transistor = 2 * cell + np.arange(2)[:, None]
        owners = np.broadcast_to(owner, transistor.shape)
        uniform = self.numbers("traps", owners.ravel(), transistor.ravel())
        last = self._unluckiest[1][owners, -1]
        rank = last + (1 - last) * uniform.reshape(transistor.shape)
        # Of the unluckiest, the ranks are known.
        listed, ranks = self._listed
        sought = (owners * 2 * self.cells + transistor).ravel()
        place = np.minimum(np.searchsorted(listed, sought), len(listed) - 1)
        known = listed[place] == sought
        rank.reshape(-1)[known] = ranks[place[known]]
        return scores_of(rank)

    def numbers(self, name: str, owner: Integers, place: Integers) -> Floats:
        """Uniform numbers for a use of such a name.

        Parameters
        ----------
        name : str
            What the numbers are for.
        owner, place : int64[n]
            Position of the instance of each number, 0 ... I-1, and place in its stream.

        Returns
        -------
        float64[n]
            0 <= number < 1.
        """
        from mcage.philox import numbers_at

        keys = np.tile(stream_key(self.seed, name), (len(self.instances), 1))
        return numbers_at(keys, self.instances, owner, place)

    def scores_of_cells(self, owner: Integers, cell: Integers, pull_downs: bool) -> Floats:
        """Scores of the transistors of n cells that age; arguments as of `scores`.

        Returns
        -------
        float64[2, n] or float64[4, n]
            T0 and T1, then N0 and N1 if asked for: these have traps of their own.
        """
        scores = self.scores(owner, cell)
        if not pull_downs:
            return scores
        name = "traps.pull_downs"
        uniform = [self.numbers(name, owner, 2 * cell + which) for which in range(2)]
        return np.concatenate([scores, scores_of(1 - np.stack(uniform))])

    def path_scores(self, spread: NbtiSpread) -> Floats:
        """Scores of the worst path of each instance: float64[I]."""
        streams = streams_of(self.seed, "traps.path", self.instances.tolist())
        uniform = np.array([1 - draws.random() for draws in streams])
        return spread.scores_of_worst(uniform)

    def of_batch(
        self,
        conditions: LifeConditions,
        constants: InstanceConstants | None,
        new: NewSlices,
        sampled_cells: Integers,
    ) -> tuple[NewSlices, BatchLuck | None]:
        """Luck of slices where conditions let transistors differ, and the cells that may fail.

        Parameters
        ----------
        conditions : LifeConditions
            What holds for the lives of the slices.
        constants : InstanceConstants, optional
            Constants of the slices, if they differ.
        new : NewSlices
            The slices, with all cells above the floor of the conditions.
        sampled_cells : int64[I, sample]
            Cells whose shifts stand for the distribution over the slice.

        Returns
        -------
        NewSlices, BatchLuck or None
            The slices without the cells that their luck keeps from ever failing, and the scores.
        """
        spread = conditions.spread
        if spread is None:
            return new, None
        if conditions.margins is None:
            tail, start = self._starts(conditions, constants, new)
        else:  # see `limits_of_batch`
            tail, start = new.tail, np.empty((0, len(new.tail.cell)))
        return (
            replace(new, tail=tail),
            BatchLuck(
                vmin_volts=start,
                sampled=self._of_each(sampled_cells),
                unlucky_cells=self.unlucky_cells,
                unlucky=self._of_each(self.unlucky_cells),
                others_at_most=self.others_at_most,
                path=self.path_scores(spread),
            ),
        )

    def _starts(
        self, conditions: LifeConditions, constants: InstanceConstants | None, new: NewSlices
    ) -> tuple[TailCells, Floats]:
        """Cells that may fail without margins, and from where their mean shifts start.

        Returns
        -------
        TailCells, float64[k, n]
            See `BatchLuck.vmin_volts`.
        """
        assert conditions.spread is not None
        tail, traps = new.tail, conditions.spread.traps
        failure, cells = conditions.cell_failure(constants), tail.cell.astype(np.int64)
        scores = self.scores_of_cells(tail.instance, cells, conditions.pbti is not None)
        # First by a bound, which is quickly worked out: see `largest_shifts`.
        growth = np.sqrt(failure.lowest_vdd_volts - conditions.mean_floor_volts)
        of_luck = np.sqrt(traps.eta_volts / 2 * failure.of(tail.instance).coefficients)
        reach = growth + of_luck * np.maximum.reduce(scores)
        able = failure.lowest_vdd_volts - tail.vmin_volts <= reach**2 * (1 + 1e-9)
        able &= reach > 0
        kept = np.flatnonzero(able)
        tail, scores = tail.at(kept, np.arange(len(new))), scores[:, kept]
        start = failure.of(tail.instance).start_of(tail.vmin_volts, scores, traps)
        kept = np.flatnonzero(start.max(axis=0) > conditions.mean_floor_volts)
        return tail.at(kept, np.arange(len(new))), start[:, kept]

    def _of_each(self, cells: Integers) -> Floats:
        """Scores of as many cells of each instance: int64[I, n] to float64[2, I, n]."""
        owner = np.repeat(np.arange(len(cells), dtype=np.int64), cells.shape[1])
        return self.scores(owner, cells.ravel()).reshape(2, *cells.shape)


# Limits of weak cells: which margin and which value decide when each of them fails.
#
# A limit belongs to a cell for life, under all techniques and voltages: it is a function of seed,
# instance and cell alone.


@dataclass(frozen=True, eq=False)
class CellLimits:
    """Data that decide when the cells of the tail of a batch fail.

    Attributes
    ----------
    limit : int8[n]
        Limit of each cell, a row of `Margins.rows`.
    vmin_volts : float64[6, n]
        Vmin as manufactured by limit; minus infinity for those that do not limit the cell.
    scores : float64[k, n] or None
        Scores of the transistors of each cell, where these differ by their luck.
    """

    limit: NDArray[np.int8]
    vmin_volts: Floats
    scores: Floats | None


def luck_and_limits(
    luck: SliceLuck,
    conditions: LifeConditions,
    constants: InstanceConstants | None,
    new: NewSlices,
    sampled_cells: Integers,
) -> tuple[NewSlices, BatchLuck | None, CellLimits | None]:
    """Draws for the cells of slices; arguments as of `SliceLuck.of_batch`.

    Returns
    -------
    NewSlices, BatchLuck or None, CellLimits or None
        The slices without the cells that can never fail, and what was drawn.
    """
    new, of_batch = luck.of_batch(conditions, constants, new, sampled_cells)
    new, limits = limits_of_batch(conditions, new, luck)
    return new, of_batch, limits


def limits_of_batch(
    conditions: LifeConditions, new: NewSlices, luck: SliceLuck
) -> tuple[NewSlices, CellLimits | None]:
    """Limits of the cells of slices, where conditions know margins.

    Parameters
    ----------
    conditions : LifeConditions
        What holds for the lives of the slices.
    new : NewSlices
        The slices, with all cells above the floor of the conditions.
    luck : SliceLuck
        Their seed, their ids, and the scores of their transistors.

    Returns
    -------
    NewSlices, CellLimits or None
        The slices without the cells that can never fail by their limits, and the limits.
    """
    margins, tail = conditions.margins, new.tail
    if margins is None:
        return new, None
    owner, cell = tail.instance, tail.cell.astype(np.int64)
    limit = limits_of_cells(margins, luck, owner, cell)
    scores = None
    if conditions.spread is not None:
        scores = luck.scores_of_cells(owner, cell, conditions.pbti is not None)
    growth = conditions.largest_growth(scores)
    largest = np.take_along_axis(growth, limit[None, :].astype(np.int64), axis=0)[0]
    lowest_vdd = conditions.environment.lowest_vdd_volts
    kept = np.flatnonzero(tail.vmin_volts + largest * (1 + 1e-9) > lowest_vdd)
    vmin = np.full((len(margins.rows), len(kept)), -np.inf)
    vmin[limit[kept], np.arange(len(kept))] = tail.vmin_volts[kept]
    limits = CellLimits(limit[kept], vmin, None if scores is None else scores[:, kept])
    return replace(new, tail=tail.at(kept, np.arange(len(new)))), limits


def limits_of_cells(
    margins: Margins, luck: SliceLuck, owner: Integers, cell: Integers
) -> NDArray[np.int8]:
    """Limits of n cells, rows of `Margins.rows`; arguments as of `SliceLuck.scores`: int8[n]."""
    return margins.limits_at(luck.numbers("margins", owner, cell))


# Which transistors are the worst of a slice, and when delay ends its life.
#
# Where all transistors shift alike that are stressed alike, the most stressed transistor of a
# slice is the worst. Where they differ by their luck, the worst is a transistor that was stressed
# less, but has more traps: the unluckiest of a slice are followed one by one. All others are taken
# to be stressed like the most stressed transistor, with the score below which they all lie: where
# this bound decides, the shift is an upper bound; elsewhere it is exact.


class DelayEnd:
    """The worst transistors of a batch, where those that are stressed alike shift alike.

    Parameters
    ----------
    limit : DelayLimit
        When paths of instances are too slow.
    """

    def __init__(self, limit: DelayLimit) -> None:
        self.limit = limit

    def exceeded(self, degradation: Degradation, instances: Integers) -> Booleans:
        """Whether n instances are too slow at the ends of their latest epochs: bool[n]."""
        return degradation.exceeds(instances, self.limit.of(instances))

    def is_far(self, degradation: Degradation, instances: Integers, age: float) -> bool:
        """Whether no instance can be too slow by an age in seconds: `Degradation.stay_below`."""
        return degradation.stay_below(instances, self.limit.of(instances), age)

    def reaching(self, degradation: Degradation, instances: Integers) -> Floats:
        """Moments within their latest epochs at which n instances become too slow: float64[n]."""
        return degradation.reaching(instances, self.limit.of(instances))

    def worst_dvth(self, degradation: Degradation, instances: Integers, moment: Floats) -> Floats:
        """Shifts of the worst T0 and T1 of n instances at a moment of each: float64[2, n]."""
        return degradation.worst_dvth(instances, moment)

    def path_dvth(self, degradation: Degradation, instances: Integers, moment: Floats) -> Floats:
        """Shifts of the paths that decide the delay of n instances then: float64[n]."""
        worst = self.worst_dvth(degradation, instances, moment)
        largest: Floats = np.maximum(worst[0], worst[1])
        return largest


class DelayEndByLuck(DelayEnd):
    """The worst transistors of a batch, where transistors differ by their luck.

    Parameters
    ----------
    limit : DelayLimit
        When paths of instances are too slow.
    spread : NbtiSpread
        How transistors differ.
    luck : BatchLuck
        Scores of the transistors. The cells of the unluckiest are the last sampled ones.
    """

    def __init__(self, limit: DelayLimit, spread: NbtiSpread, luck: BatchLuck) -> None:
        super().__init__(limit)
        self._spread, self._luck = spread, luck

    @override
    def exceeded(self, degradation: Degradation, instances: Integers) -> Booleans:
        if not self._spread.path.each_transistor:
            return super().exceeded(degradation, instances)
        worst = self.path_dvth(degradation, instances, degradation.span.end[instances])
        beyond: Booleans = worst >= self.limit.of_path(instances)
        return beyond

    @override
    def reaching(self, degradation: Degradation, instances: Integers) -> Floats:
        if not self._spread.path.each_transistor:
            return super().reaching(degradation, instances)
        span, limit = degradation.span.of(instances), self.limit.of_path(instances)
        return crossing(
            lambda moment: self.path_dvth(degradation, instances, moment) - limit,
            span.start,
            span.end,
        )

    @override
    def worst_dvth(self, degradation: Degradation, instances: Integers, moment: Floats) -> Floats:
        count = self._luck.unlucky.shape[2]
        means = degradation.sampled_dvth(instances, moment)[:, :, -count:]
        traps, most_stressed = self._spread.traps, degradation.worst_dvth(instances, moment)
        others = traps.shift(most_stressed, self._luck.others_at_most[instances])
        return np.maximum(others, largest_shifts(traps, means, self._luck.unlucky[:, instances]))

    @override
    def path_dvth(self, degradation: Degradation, instances: Integers, moment: Floats) -> Floats:
        if self._spread.path.each_transistor:
            return super().path_dvth(degradation, instances, moment)
        most_stressed = degradation.worst_dvth(instances, moment).max(axis=0)
        return self._spread.of_path.shift(most_stressed, self._luck.path[instances])


def delay_end(
    conditions: LifeConditions, constants: InstanceConstants | None, luck: BatchLuck | None
) -> DelayEnd:
    """Worst transistors of a batch under its conditions."""
    if conditions.spread is None:
        return DelayEnd(conditions.delay_limit(constants))
    assert luck is not None, "transistors differ by their luck, of which the batch says nothing"
    limit = conditions.delay_limit(constants, luck.path)
    return DelayEndByLuck(limit, conditions.spread, luck)


def largest_shifts(traps: TrapLaw, means: Floats, scores: Floats) -> Floats:
    """Largest shifts of sets of transistors.

    The root of a shift lies at most at ``sqrt(mean) + score * sqrt(eta / 2)``. So only transistors
    for which this bound exceeds the shift of another need a closer look.

    Parameters
    ----------
    traps : TrapLaw
        The law of their shifts.
    means, scores : float64[..., k]
        Mean shift and score of each transistor of each set.

    Returns
    -------
    float64[...]
    """
    bounds = np.sqrt(means) + scores * np.sqrt(traps.eta_volts / 2)
    promising = bounds.argmax(axis=-1)[..., None]
    promise = (np.take_along_axis(values, promising, -1) for values in (means, scores))
    largest = traps.shift(*promise)
    np.put_along_axis(bounds, promising, -np.inf, -1)
    rivals = np.nonzero(bounds > np.sqrt(largest))
    of_rivals = np.zeros(means.shape)
    of_rivals[rivals] = traps.shift(means[rivals], scores[rivals])
    result: Floats = np.maximum(largest[..., 0], of_rivals.max(axis=-1))
    return result
