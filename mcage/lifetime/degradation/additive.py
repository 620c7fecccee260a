"""Degradation where the total stress time says it all: additive models with constant rates.

Of transistors of one age, the transistor that was stressed longest has then shifted furthest, so
that the longest stress times of a slice give the shifts of its worst transistors. These times are
known at the end of an epoch. They are looked for at a moment within it, where another cell may be
the worst: the times of all cells grow evenly, so that what was added after that moment can be taken
back.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import AdditiveModel, Rates
from mcage.engines.interface import Engine
from mcage.engines.stress import FaultFreeDuties, TrackedCells
from mcage.geometry import SLICE
from mcage.lifetime.bisection import crossing
from mcage.lifetime.degradation.base import CellDegradation, Degradation, EpochSpan, between

SAME = 1e-12
"""Relative difference of shifts that are the same but for rounding."""

SAMPLED_TOGETHER = 16
"""Instances whose sampled cells are aged together, so that their times stay in the cache."""

LEAST_RECOVERY = 1e-12
"""Fraction of the age below which a recovery time is a rounding error and is taken as 0: the shift
of some models falls at once when recovery begins."""


@dataclass(frozen=True, eq=False)
class AdditiveShift:
    """How the transistors of n instances shift; arrays [n], or a number for all instances.

    Parameters
    ----------
    nbti : AdditiveModel
        Model of the threshold shift.
    rates : Rates
        What a second in their environment does.
    activity : array
        Fraction of the time in which cells hold what is replayed; the rest of it they are off.
    """

    nbti: AdditiveModel
    rates: Rates
    activity: NDArray[np.float64]

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "AdditiveShift":
        """The same for selected instances, also repeated."""
        arrays = (self.rates.stress, self.rates.diffusion, self.activity)
        if not any(array.ndim for array in arrays):
            return self
        stress, diffusion, activity = (a[which] if a.ndim else a for a in arrays)
        return replace(self, rates=Rates(stress, diffusion), activity=activity)

    def dvth(
        self, busy: NDArray[np.float64], age: float | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Threshold shifts in volts of transistors of n instances.

        Parameters
        ----------
        busy : float64[2, n, ...]
            Stress time in seconds, if the slice were busy all the time.
        age : float64[n, ...]
            Their age in seconds.
        """
        shape = (-1,) + (1,) * (busy.ndim - 2)

        def along(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return values.reshape(shape) if values.ndim else values

        stressed = busy if self.is_always_busy else along(self.activity) * busy
        recovered = age - stressed
        recovered = np.where(recovered > LEAST_RECOVERY * age, recovered, 0.0)
        rates = Rates(along(self.rates.stress), along(self.rates.diffusion))
        return self.nbti.dvth_after(rates, stressed, recovered)

    @property
    def is_always_busy(self) -> bool:
        """Whether no instance is ever idle."""
        return not self.activity.ndim and float(self.activity) == 1.0


@dataclass(frozen=True)
class AdditiveCells(CellDegradation):
    """Degradation of n cells.

    Attributes
    ----------
    shift : AdditiveShift
        How the transistors of each cell shift.
    span : EpochSpan
        Latest epochs of their instances.
    before, after : float64[2, n]
        Seconds at '0' and at '1' at both ends of the epochs, if slices were always busy.
    """

    shift: AdditiveShift
    span: EpochSpan
    before: NDArray[np.float64]
    after: NDArray[np.float64]

    def dvth(self, moment: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `CellDegradation.dvth`."""
        return self.shift.dvth(between(self.before, self.after, self.span.part(moment)), moment)

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "AdditiveCells":
        """See `CellDegradation.of`."""
        return AdditiveCells(
            self.shift.of(which),
            self.span.of(which),
            self.before[:, which],
            self.after[:, which],
        )


class AdditiveDegradation(Degradation):
    """Degradation by total stress time.

    Parameters
    ----------
    shift : AdditiveShift
        How the transistors of the batch shift.
    engine : Engine
        Adds up the times of cells.
    duties : FaultFreeDuties
        The technique on each kernel.
    tracked : TrackedCells
        Cells whose times are kept cell by cell.
    sampled : int
        Number of sampled cells of each instance; they are the last of the tracked cells.
    instances : int
        Size of the batch.
    """

    def __init__(
        self,
        shift: AdditiveShift,
        engine: Engine,
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        sampled: int,
        instances: int,
    ) -> None:
        super().__init__(instances)
        self._shift = shift
        self._stress = engine.stress(duties, tracked, instances)
        self._instance = tracked.instance
        self._sampled = sampled
        self._before = np.zeros((2, len(tracked.cell)))
        self._longest_before = np.zeros((2, instances))
        self._kernel = np.zeros(instances, dtype=np.int64)
        self._fault_maps = np.zeros((instances, SLICE.entries), dtype=np.uint8)
        # The longest times within the latest epoch at the moment when they were last looked for.
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
            self._shift.of(instance),
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
            chunk = slice(begin, begin + SAMPLED_TOGETHER)
            which = instances[chunk]
            seconds = between(before[:, which], after[:, which], part[chunk])
            shift[:, chunk] = self._shift.of(which).dvth(seconds, moment[chunk, None])
        return shift

    def longest_duty(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.longest_duty`."""
        busy = self._longest_busy(instances, moment) / moment
        if self._shift.is_always_busy:
            return busy
        return busy * self._shift.of(instances).activity

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
        """Look for the longest times at moments within the latest epochs of selected instances."""
        unknown = moment != self._looked_at[instances]
        sought, when = instances[unknown], moment[unknown]
        if len(sought):
            self._longest_then[:, sought] = self._stress.longest_earlier(
                sought, self._kernel[sought], self._fault_maps[sought], self.span.end[sought] - when
            )
            self._looked_at[sought] = when

    def worst_dvth(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.worst_dvth`."""
        return self._shift.of(instances).dvth(self._longest_busy(instances, moment), moment)

    def reaching(
        self, instances: NDArray[np.int64], limit_volts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.reaching`.

        It is solved on the line between the longest times at both ends. Where the longest times lie
        below the line at that moment, it is solved again on the line from there: the limit can only
        be reached later.
        """
        moment, end = self.span.start[instances], self.span.end[instances]
        longest, after = self._longest_before[:, instances], self._stress.longest[:, instances]
        limit = np.broadcast_to(limit_volts, len(instances))
        open_ = np.arange(len(instances))
        while len(open_):
            unsolved, line = instances[open_], EpochSpan(moment[open_], end[open_])
            excess = self._excess_on(
                unsolved, line, longest[:, open_], after[:, open_], limit[open_]
            )
            moment[open_] = crossing(excess, line.start, line.end)
            longest[:, open_] = self._longest_busy(unsolved, moment[open_])
            worst = self._shift.of(unsolved).dvth(longest[:, open_], moment[open_]).max(axis=0)
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
        shift = self._shift.of(instances)

        def excess(moment: NDArray[np.float64]) -> NDArray[np.float64]:
            shifts = shift.dvth(between(before, after, line.part(moment)), moment)
            beyond: NDArray[np.float64] = shifts.max(axis=0) - limit_volts
            return beyond

        return excess
