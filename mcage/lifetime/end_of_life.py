"""What ends a life, and when within an epoch."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mcage.aging.sampling import InstanceConstants
from mcage.aging.transistors import NbtiSpread, TrapLaw
from mcage.aging.vmin import Margins
from mcage.geometry import Booleans, Floats, Integers
from mcage.lifetime.conditions import DelayLimit, LifeConditions
from mcage.lifetime.degradation import Degradation, crossing
from mcage.lifetime.faults import BatchLuck, SliceLuck
from mcage.variation.fault_models import NewSlices

# Limits of weak cells: which margin and which value decide when each of them fails.
#
# A limit belongs to a cell for life, under all techniques and voltages: it is a function of seed,
# instance and cell alone.


@dataclass(frozen=True, eq=False)
class CellLimits:
    """What decides when the cells of the tail of a batch fail.

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
    """What is drawn for the cells of slices; arguments as of `SliceLuck.of_batch`.

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
    """What the conditions of a batch make of its worst transistors."""
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
