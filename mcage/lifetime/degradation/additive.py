"""Degradation where the total stress time says it all: additive models with constant rates.

Of transistors of one age, the transistor that was stressed longest has then shifted furthest, so
that the longest stress times of a slice give the shifts of its worst transistors. These times are
known at the end of an epoch. They are looked for at a moment within it, where another cell may be
the worst: the times of all cells grow evenly, so that what was added after that moment can be taken
back.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.aging.additive_shift import AdditiveShift
from mcage.aging.vmin import CellFailure
from mcage.engines.compiled_cells import are_faulty, shifts
from mcage.engines.interface import Engine, fault_free_maps
from mcage.engines.programs import Learnt
from mcage.engines.stress import CellSeconds, FaultFreeDuties, Moments, TrackedCells, between
from mcage.lifetime.bisection import crossing
from mcage.lifetime.degradation.base import CellDegradation, Degradation, EpochSpan

SAME = 1e-12
"""Relative difference of shifts that are the same but for rounding."""


@dataclass(frozen=True)
class AdditiveCells(CellDegradation):
    """Degradation of n cells.

    Attributes
    ----------
    shift : AdditiveShift
        How the transistors of each cell shift.
    span : EpochSpan
        Latest epochs of their instances.
    seconds : CellSeconds
        Seconds at '0' and at '1' at both ends of the epochs.
    """

    shift: AdditiveShift
    span: EpochSpan
    seconds: CellSeconds

    def dvth(self, moment: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `CellDegradation.dvth`."""
        return self.shift.dvth(self.seconds.at(self.span.part(moment)), moment)

    def of_cells(self, moment: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `CellDegradation.of_cells`."""
        return self.shift.of_cells(self.seconds.at(self.span.part(moment)), moment)

    def are_faulty(
        self,
        failure: CellFailure,
        vmin_volts: NDArray[np.float64],
        moment: NDArray[np.float64],
        scores: NDArray[np.float64] | None = None,
    ) -> NDArray[np.bool_]:
        """See `CellDegradation.are_faulty`."""
        moments = Moments(self.span.part(moment), moment)
        return are_faulty(self.shift, failure, vmin_volts, self.seconds, moments, scores)

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "AdditiveCells":
        """See `CellDegradation.of`."""
        return AdditiveCells(self.shift.of(which), self.span.of(which), self.seconds.of(which))


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
    instances : int
        Size of the batch.
    learnt : Learnt, optional
        What their placement programs know.
    """

    def __init__(
        self,
        shift: AdditiveShift,
        engine: Engine,
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        instances: int,
        learnt: Learnt | None = None,
    ) -> None:
        super().__init__(instances)
        self._shift = shift
        self._stress = engine.stress(duties, tracked, instances, learnt)
        self._instance = tracked.instance
        self._longest_before = np.zeros((2, instances))
        self._kernel = np.zeros(instances, dtype=np.int64)
        self._fault_maps = fault_free_maps(instances, duties.replays[0].geometry)
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
        np.copyto(self._longest_before, self._stress.longest, where=chosen)
        self.span.start[instances], self.span.end[instances] = start, end
        self._kernel[instances], self._fault_maps[instances] = kernel, fault_maps
        self._stress.add(instances, kernel, fault_maps, end - start)

    def failing(
        self, instances: NDArray[np.int64], failure: CellFailure
    ) -> tuple[NDArray[np.int64], AdditiveCells]:
        """See `Degradation.failing`."""
        places, seconds = self._stress.tracked_seconds.failing(
            instances, self.span.end[instances], self._shift, failure
        )
        instance = self._instance[places]
        return places, AdditiveCells(self._shift.of(instance), self.span.of(instance), seconds)

    def mark_faulty(self, places: NDArray[np.int64]) -> None:
        """See `Degradation.mark_faulty`."""
        self._stress.tracked_seconds.mark_faulty(places)

    def sampled_dvth(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.sampled_dvth`."""
        return self._stress.tracked_seconds.sampled_dvth(
            instances, self._moments(instances, moment), self._shift
        )

    def histogram(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64], bins: int
    ) -> NDArray[np.int64]:
        """See `Degradation.histogram`."""
        return self._stress.tracked_seconds.histogram(
            instances, self._moments(instances, moment), self._shift, bins
        )

    def _moments(self, instances: NDArray[np.int64], moment: NDArray[np.float64]) -> Moments:
        return Moments(self.span.of(instances).part(moment), moment)

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
        return shifts(self._shift.of(instances), self._longest_busy(instances, moment), moment)

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
            worst = shifts(self._shift.of(unsolved), longest[:, open_], moment[open_]).max(axis=0)
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
            dvth = shifts(shift, between(before, after, line.part(moment)), moment)
            beyond: NDArray[np.float64] = dvth.max(axis=0) - limit_volts
            return beyond

        return excess
