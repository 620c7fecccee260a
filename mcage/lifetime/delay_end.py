"""Which transistors are the worst of a slice, and when delay ends its life.

Where all transistors shift alike that are stressed alike, the most stressed transistor of a slice
is the worst. Where they differ by their luck, the worst is a transistor that was stressed less, but
has more traps: the unluckiest of a slice are followed one by one. All others are taken to be
stressed like the most stressed transistor, with the score below which they all lie: where this
bound decides, the shift is an upper bound; elsewhere it is exact.
"""

import numpy as np
from numpy.typing import NDArray

from mcage.aging.delay_path import NbtiSpread
from mcage.aging.sampling import InstanceConstants
from mcage.aging.traps import TrapLaw
from mcage.lifetime.bisection import crossing
from mcage.lifetime.conditions import DelayLimit, LifeConditions
from mcage.lifetime.degradation.base import Degradation
from mcage.lifetime.luck import BatchLuck


class DelayEnd:
    """The worst transistors of a batch, where those that are stressed alike shift alike.

    Parameters
    ----------
    limit : DelayLimit
        When paths of instances are too slow.
    """

    def __init__(self, limit: DelayLimit) -> None:
        self.limit = limit

    def exceeded(self, degradation: Degradation, instances: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether n instances are too slow at the ends of their latest epochs: bool[n]."""
        return degradation.exceeds(instances, self.limit.of(instances))

    def reaching(
        self, degradation: Degradation, instances: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Moments within their latest epochs at which n instances become too slow: float64[n]."""
        return degradation.reaching(instances, self.limit.of(instances))

    def worst_dvth(
        self,
        degradation: Degradation,
        instances: NDArray[np.int64],
        moment: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Shifts of the worst T0 and T1 of n instances at a moment of each: float64[2, n]."""
        return degradation.worst_dvth(instances, moment)

    def path_dvth(
        self,
        degradation: Degradation,
        instances: NDArray[np.int64],
        moment: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Shifts of the paths that decide the delay of n instances then: float64[n]."""
        worst = self.worst_dvth(degradation, instances, moment)
        largest: NDArray[np.float64] = np.maximum(worst[0], worst[1])
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

    def exceeded(self, degradation: Degradation, instances: NDArray[np.int64]) -> NDArray[np.bool_]:
        """See `DelayEnd.exceeded`."""
        if not self._spread.path.each_transistor:
            return super().exceeded(degradation, instances)
        worst = self.path_dvth(degradation, instances, degradation.span.end[instances])
        beyond: NDArray[np.bool_] = worst >= self.limit.of_path(instances)
        return beyond

    def reaching(
        self, degradation: Degradation, instances: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """See `DelayEnd.reaching`."""
        if not self._spread.path.each_transistor:
            return super().reaching(degradation, instances)
        span, limit = degradation.span.of(instances), self.limit.of_path(instances)
        return crossing(
            lambda moment: self.path_dvth(degradation, instances, moment) - limit,
            span.start,
            span.end,
        )

    def worst_dvth(
        self,
        degradation: Degradation,
        instances: NDArray[np.int64],
        moment: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """See `DelayEnd.worst_dvth`."""
        count = self._luck.unlucky.shape[2]
        means = degradation.sampled_dvth(instances, moment)[:, :, -count:]
        traps, most_stressed = self._spread.traps, degradation.worst_dvth(instances, moment)
        others = traps.shift(most_stressed, self._luck.others_at_most[instances])
        return np.maximum(others, largest_shifts(traps, means, self._luck.unlucky[:, instances]))

    def path_dvth(
        self,
        degradation: Degradation,
        instances: NDArray[np.int64],
        moment: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """See `DelayEnd.path_dvth`."""
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


def largest_shifts(
    traps: TrapLaw, means: NDArray[np.float64], scores: NDArray[np.float64]
) -> NDArray[np.float64]:
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
    result: NDArray[np.float64] = np.maximum(largest[..., 0], of_rivals.max(axis=-1))
    return result
