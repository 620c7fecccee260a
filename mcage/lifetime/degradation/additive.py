"""Wear where total seconds under stress say it all: additive models with constant rates.

Of transistors of one age, the one that was stressed longest has then drifted furthest, so that the
longest times of a slice give the shifts of its worst transistors. They are known at the end of a
stretch, and looked for at a moment within it, where another cell may be the worst: the times of all
cells grow evenly, so that what was added after that moment can be taken back.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.engines.interface import Engine
from mcage.engines.stress import FaultFreeDuties, TrackedCells
from mcage.geometry import SLICE
from mcage.lifetime.bisection import crossing
from mcage.lifetime.degradation.base import CellDegradation, Degradation
from mcage.lifetime.degradation.shifts import Drift
from mcage.lifetime.degradation.span import EpochSpan, between

SAME = 1e-12
"""Share by which shifts differ that are the same but for rounding."""

SAMPLED_TOGETHER = 16
"""Instances whose sampled cells are aged together, so that their times stay in the cache."""


@dataclass(frozen=True)
class AdditiveCells(CellDegradation):
    """Wear of n cells.

    Attributes
    ----------
    drift : Drift
        How they drift.
    stretch : Stretch
        Latest stretches of their instances.
    before, after : float64[2, n]
        Seconds at '0' and '1' at both ends of the stretches, if slices were always busy.
    """

    drift: Drift
    span: EpochSpan
    before: NDArray[np.float64]
    after: NDArray[np.float64]

    def dvth(self, moment: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `CellDegradation.dvth`."""
        return self.drift.dvth(between(self.before, self.after, self.span.part(moment)), moment)

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "AdditiveCells":
        """See `CellDegradation.of`."""
        return AdditiveCells(
            self.drift.of(which),
            self.span.of(which),
            self.before[:, which],
            self.after[:, which],
        )


class AdditiveDegradation(Degradation):
    """Wear by sums of seconds.

    Parameters
    ----------
    drift : Drift
        How the instances of the batch drift.
    engine : Engine
        Knows the times of cells.
    duties : SharedDuties
        The technique on every kernel.
    watched : Watched
        Cells that are followed one by one.
    sampled : int
        How many of them are the sampled ones of each instance.
    instances : int
        Size of the batch.
    """

    def __init__(
        self,
        drift: Drift,
        engine: Engine,
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        sampled: int,
        instances: int,
    ) -> None:
        super().__init__(instances)
        self._drift = drift
        self._stress = engine.stress(duties, tracked, instances)
        self._instance = tracked.instance
        self._sampled = sampled
        self._before = np.zeros((2, len(tracked.cell)))
        self._longest_before = np.zeros((2, instances))
        self._kernel = np.zeros(instances, dtype=np.int64)
        self._fault_maps = np.zeros((instances, SLICE.entries), dtype=np.uint8)
        # What was found within a stretch when last looked for.
        self._looked_at = np.full(instances, np.nan)
        self._longest_then = np.zeros((2, instances))

    def add(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        start: float,
        end: float,
    ) -> None:
        """See `Degradation.add`."""
        chosen = np.zeros(len(self.span.start), dtype=bool)
        chosen[instances] = True
        of_cells = chosen[self._instance] if not chosen.all() else True
        np.copyto(self._before, self._stress.tracked_seconds, where=of_cells)
        np.copyto(self._longest_before, self._stress.longest, where=chosen)
        self.span.start[instances], self.span.end[instances] = start, end
        self._kernel[instances], self._fault_maps[instances] = kernel, fault_maps
        self._stress.add(instances, kernel, fault_maps, end - start)

    def cells(self, places: NDArray[np.int64]) -> AdditiveCells:
        """See `Degradation.cells`."""
        instance = self._instance[places]
        return AdditiveCells(
            self._drift.of(instance),
            self.span.of(instance),
            self._before[:, places],
            self._stress.tracked_seconds[:, places],
        )

    def sampled_dvth(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.sampled_dvth`."""
        of_instance = (2, len(self.span.start), self._sampled)
        first = self._before.shape[1] - of_instance[1] * of_instance[2]
        before = self._before[:, first:].reshape(of_instance)
        after = self._stress.tracked_seconds[:, first:].reshape(of_instance)
        part = self.span.of(instances).part(moment)[:, None]
        shift = np.empty((2, len(instances), self._sampled))
        for begin in range(0, len(instances), SAMPLED_TOGETHER):
            some = slice(begin, begin + SAMPLED_TOGETHER)
            which = instances[some]
            seconds = between(before[:, which], after[:, which], part[some])
            shift[:, some] = self._drift.of(which).dvth(seconds, moment[some, None])
        return shift

    def longest_duty(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.longest_duty`."""
        busy = self._longest_busy(instances, moment) / moment
        if self._drift.is_always_busy:
            return busy
        return busy * self._drift.of(instances).activity

    def _longest_busy(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Longest seconds at '0' and at '1' if slices were always busy: float64[2, n]."""
        span = self.span.of(instances)
        longest = np.where(
            moment > span.start,
            self._stress.longest[:, instances],
            self._longest_before[:, instances],
        )
        within = np.flatnonzero((span.start < moment) & (moment < span.end))
        if len(within):
            self._look_within(instances[within], moment[within])
            longest[:, within] = self._longest_then[:, instances[within]]
        return longest

    def _look_within(self, instances: NDArray[np.int64], moment: NDArray[np.float64]) -> None:
        """Look for the longest times at moments within the stretches of some instances."""
        unknown = moment != self._looked_at[instances]
        mine, when = instances[unknown], moment[unknown]
        if len(mine):
            self._longest_then[:, mine] = self._stress.longest_earlier(
                mine, self._kernel[mine], self._fault_maps[mine], self.span.end[mine] - when
            )
            self._looked_at[mine] = when

    def worst_dvth(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.worst_dvth`."""
        return self._drift.of(instances).dvth(self._longest_busy(instances, moment), moment)

    def reaching(
        self, instances: NDArray[np.int64], limit_volts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.reaching`.

        Solved on the line between the longest times at both ends. Where these lie below the line at
        that moment, solved again on the line from there: it can only have been later.
        """
        moment, end = self.span.start[instances], self.span.end[instances]
        longest, after = self._longest_before[:, instances], self._stress.longest[:, instances]
        limit = np.broadcast_to(limit_volts, len(instances))
        open_ = np.arange(len(instances))
        while len(open_):
            mine, line = instances[open_], EpochSpan(moment[open_], end[open_])
            excess = self._excess_on(mine, line, longest[:, open_], after[:, open_], limit[open_])
            moment[open_] = crossing(excess, line.start, line.end)
            longest[:, open_] = self._longest_busy(mine, moment[open_])
            worst = self._drift.of(mine).dvth(longest[:, open_], moment[open_]).max(axis=0)
            open_ = open_[worst < limit[open_] * (1 - SAME)]
        return moment

    def _excess_on(
        self,
        instances: NDArray[np.int64],
        line: EpochSpan,
        before: NDArray[np.float64],
        after: NDArray[np.float64],
        limit_volts: NDArray[np.float64],
    ) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
        """Worst shifts beyond limits, in volts, where the longest times grow evenly."""
        drift = self._drift.of(instances)

        def excess(moment: NDArray[np.float64]) -> NDArray[np.float64]:
            shift = drift.dvth(between(before, after, line.part(moment)), moment)
            beyond: NDArray[np.float64] = shift.max(axis=0) - limit_volts
            return beyond

        return excess
