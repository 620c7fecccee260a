"""Wear under any NBTI model: transistors are taken through every epoch, one after the other.

Watched cells are advanced epoch by epoch. Of the others, the worst are looked for where a bound
leaves room for them (`worst_cells`), at the end of every epoch and at the moment of an end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.engines.interface import Engine
from mcage.engines.stress import FaultFreeDuties, TrackedCells
from mcage.geometry import SLICE
from mcage.lifetime.bisection import crossing
from mcage.lifetime.degradation.base import CellDegradation, Degradation
from mcage.lifetime.degradation.duty_tree import (
    OwnSlice,
    SharedSlices,
    SliceDuty,
    Slices,
    slice_duty,
)
from mcage.lifetime.degradation.history import DutyIn, History
from mcage.lifetime.degradation.worst_cell import worst_cells

OWN_BYTES = 256 << 20
"""Memory for the times of cells of the slices of a batch that have times of their own."""


def most_instances(epochs: int) -> int:
    """Size of a batch whose slices may all have times of their own, in so many epochs."""
    of_slice = 2 * SLICE.cells * np.dtype(np.uint32).itemsize
    return max(1, OWN_BYTES // (epochs * of_slice))


@dataclass(frozen=True)
class StepwiseCells(CellDegradation):
    """Wear of n cells.

    Attributes
    ----------
    course : Course
        What epochs do to them.
    instance, epoch : int64[n]
        Instance of each, and the epoch that is its latest stretch.
    past : float64[numbers, 2, n]
        Pasts of T0 and T1 when it began.
    duty : float64[2, n]
        Shares of its busy time at '0' and at '1'.
    """

    history: History
    instance: NDArray[np.int64]
    epoch: NDArray[np.int64]
    past: NDArray[np.float64]
    duty: NDArray[np.float64]

    def dvth(self, moment: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `CellDegradation.dvth`."""
        shift = np.empty(self.duty.shape)
        for epoch in np.unique(self.epoch).tolist():
            mine = np.flatnonzero(self.epoch == epoch)
            seconds = moment[mine] - self.history.edges[epoch]
            past = self.history.after(
                self.past[..., mine], epoch, self.instance[mine], self.duty[:, mine], seconds
            )
            shift[:, mine] = self.history.nbti.dvth_of(past)
        return shift

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "StepwiseCells":
        """See `CellDegradation.of`."""
        return StepwiseCells(
            self.history,
            self.instance[which],
            self.epoch[which],
            self.past[..., which],
            self.duty[:, which],
        )


class StepwiseDegradation(Degradation):
    """Wear epoch by epoch.

    Parameters
    ----------
    course : Course
        What epochs do to the transistors of the batch.
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
        history: History,
        engine: Engine,
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        sampled: int,
        instances: int,
    ) -> None:
        super().__init__(instances)
        self._history, self._engine = history, engine
        self._replays, self._groups = duties.replays, (duties.zero, duties.one)
        self._tracked, self._sampled = tracked, sampled
        self._past = history.nbti.fresh((2, len(tracked.cell)))
        self._duty = np.zeros((2, len(tracked.cell)))

        epochs = len(history.rates)
        self._epoch = np.full(instances, -1)
        self._kernel = np.zeros((instances, epochs), dtype=np.int64)
        self._own: list[dict[int, SliceDuty]] = [{} for _ in range(instances)]
        self._fault_free: dict[int, SliceDuty] = {}
        # Cells that have been the worst, and what was found when last looked for.
        self._known = np.zeros((2, instances, epochs), dtype=np.int64)
        self._looked_at = np.full(instances, np.nan)
        self._worst = np.zeros((2, instances))
        self._worst_cell = np.zeros((2, instances), dtype=np.int64)

    def add(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        start: float,
        end: float,
    ) -> None:
        """See `Degradation.add`."""
        self.span.start[instances], self.span.end[instances] = start, end
        epoch = int(self._epoch[instances[0]]) + 1
        self._epoch[instances] = epoch
        self._kernel[instances, epoch] = kernel
        if self._replays[0].technique.heeds_faults:
            alone = fault_maps.any(axis=1)
            self._keep_own(instances[alone], kernel[alone], fault_maps[alone], epoch)
        self._advance(instances, epoch)

    def _keep_own(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        epoch: int,
    ) -> None:
        """Keep the duty cycles of slices whose technique reacts to their faults."""
        given = zip(instances.tolist(), kernel.tolist(), fault_maps, strict=True)
        for instance, number, fault_map in given:
            times = self._engine.cell_times(self._replays[number], fault_map[None])
            self._own[instance][epoch] = slice_duty(times)

    def _advance(self, instances: NDArray[np.int64], epoch: int) -> None:
        """Take watched cells to the start of an epoch, and look up their duty in it."""
        runs = np.zeros(len(self._epoch), dtype=bool)
        runs[instances] = True
        mine = np.flatnonzero(runs[self._tracked.instance])
        instance, cell = self._tracked.instance[mine], self._tracked.cell[mine]
        if epoch:
            begin, end = self._history.edges[epoch - 1 : epoch + 1]
            self._past[..., mine] = self._history.after(
                self._past[..., mine], epoch - 1, instance, self._duty[:, mine], end - begin
            )
        self._duty[:, mine] = self._duty_in(epoch, instance, cell)

    def cells(self, places: NDArray[np.int64]) -> StepwiseCells:
        """See `Degradation.cells`."""
        instance = self._tracked.instance[places]
        return StepwiseCells(
            self._history,
            instance,
            self._epoch[instance],
            self._past[..., places],
            self._duty[:, places],
        )

    def sampled_dvth(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.sampled_dvth`."""
        first = len(self._tracked.cell) - len(self._epoch) * self._sampled
        places = first + instances[:, None] * self._sampled + np.arange(self._sampled)
        cells = self.cells(places.ravel())
        shift = cells.dvth(np.repeat(moment, self._sampled))
        every: NDArray[np.float64] = shift.reshape(2, len(instances), self._sampled)
        return every

    def longest_duty(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.longest_duty`; exact."""
        longest, _ = self._worst_of(self._history.held, instances, moment)
        return longest

    def worst_dvth(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.worst_dvth`; exact."""
        fresh = moment != self._looked_at[instances]
        mine = instances[fresh]
        if len(mine):
            worst, cell = self._worst_of(self._history.dvth, mine, moment[fresh])
            self._worst[:, mine], self._worst_cell[:, mine] = worst, cell
            self._known[:, mine, self._epoch[mine]] = cell
            self._looked_at[mine] = moment[fresh]
        return self._worst[:, instances]

    def reaching(
        self, instances: NDArray[np.int64], limit_volts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.reaching`; exact.

        Solved for the worst cells of the end. While another cell is worse at that moment, solved
        again with it: it can only have been sooner.
        """
        self.worst_dvth(instances, self.span.end[instances])
        moment = self.span.end[instances]
        limit = np.broadcast_to(limit_volts, len(instances))
        tried = self._worst_cell[:, instances].T
        open_ = np.arange(len(instances))
        while len(open_):
            mine = instances[open_]
            moment[open_], most = self._solved(mine, tried[open_], limit[open_])
            worst = self.worst_dvth(mine, moment[open_])
            cell = self._worst_cell[worst.argmax(axis=0), mine]
            known = (cell[:, None] == tried[open_]).any(axis=1)
            more = tried[:, :1].copy()
            more[open_, 0] = cell
            tried = np.concatenate([tried, more], axis=1)
            open_ = open_[(worst.max(axis=0) > most) & ~known]
        return moment

    def _solved(
        self, instances: NDArray[np.int64], cell: NDArray[np.int64], limit: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Moments at which the worst of a few cells of each, int64[n, k], reach limits.

        And the shifts of these cells, the largest of each instance.
        """
        count, tried = cell.shape
        cells = self._followed(np.repeat(instances, tried), cell.ravel())

        def largest(moment: NDArray[np.float64]) -> NDArray[np.float64]:
            shift = cells.dvth(np.repeat(moment, tried)).max(axis=0)
            most: NDArray[np.float64] = shift.reshape(count, tried).max(axis=1)
            return most

        span = self.span.of(instances)
        moment = crossing(lambda at: largest(at) - limit, span.start, span.end)
        return moment, largest(moment)

    def _followed(self, instance: NDArray[np.int64], cell: NDArray[np.int64]) -> StepwiseCells:
        """Any cells, followed from new to their latest stretches."""
        latest = self._epoch[instance]
        past = self._history.nbti.fresh((2, len(cell)))
        for epoch, seconds in enumerate(np.diff(self._history.edges[: latest.max() + 1]).tolist()):
            mine = np.flatnonzero(latest > epoch)
            duty = self._duty_in(epoch, instance[mine], cell[mine])
            past[..., mine] = self._history.after(
                past[..., mine], epoch, instance[mine], duty, seconds
            )
        duty = np.empty((2, len(cell)))
        for epoch in np.unique(latest).tolist():
            mine = np.flatnonzero(latest == epoch)
            duty[:, mine] = self._duty_in(epoch, instance[mine], cell[mine])
        return StepwiseCells(self._history, instance, latest, past, duty)

    def _duty_in(
        self, epoch: int, instance: NDArray[np.int64], cell: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Shares of the busy time of an epoch at '0' and at '1' of cells: float64[2, n]."""
        kernel = self._kernel[instance, epoch]
        duty = np.stack([groups.duty[kernel, cell] for groups in self._groups])
        for one in np.unique(instance).tolist():
            if own := self._own[one].get(epoch):
                mine = np.flatnonzero(instance == one)
                for which in range(2):
                    duty[which, mine] = own.duty(which, cell[mine])
        return duty

    def _worst_of(
        self,
        measure: Callable[..., NDArray[np.float64]],
        instances: NDArray[np.int64],
        moment: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Largest measure at '0' and at '1' of any cell of some instances, and the cells.

        Parameters
        ----------
        measure : callable
            `History.dvth`, or another of its methods that grows with the duty in each epoch.
        instances : int64[n]
            Positions in the batch.
        moment : float64[n]
            Age of each.

        Returns
        -------
        float64[2, n], int64[2, n]
        """
        most, cell = np.empty((2, len(instances))), np.empty((2, len(instances)), dtype=np.int64)
        ages = np.empty(len(self._epoch))
        ages[instances] = moment
        for epoch, places, slices in self._slices(instances):
            mine = instances[places]

            def measured(
                index: NDArray[np.int64],
                duty: DutyIn,
                epochs: int = epoch + 1,
                mine: NDArray[np.int64] = mine,
            ) -> NDArray[np.float64]:
                return measure(epochs, mine[index], duty, ages)

            for which in range(2):
                known = self._known[which, mine, : epoch + 1]
                most[which, places], cell[which, places] = worst_cells(
                    slices[which], measured, known
                )
        return most, cell

    def _slices(
        self, instances: NDArray[np.int64]
    ) -> Iterator[tuple[int, NDArray[np.int64], tuple[Slices, Slices]]]:
        """Instances that are looked into together, as places in the list of them.

        With the epoch that they are in and their duty cycles at '0' and at '1': those that share
        all of them, or one that has some of its own.
        """
        latest = self._epoch[instances]
        has_own = np.array([bool(self._own[one]) for one in instances.tolist()])
        for epoch in np.unique(latest).tolist():
            shared = np.flatnonzero((latest == epoch) & ~has_own)
            if len(shared):
                kernel = self._kernel[instances[shared]]
                zero, one = (SharedSlices(groups, kernel) for groups in self._groups)
                yield epoch, shared, (zero, one)
        for place in np.flatnonzero(has_own).tolist():
            mine, epoch = instances[place], int(latest[place])
            duties = [self._slice_duty(mine, passed) for passed in range(epoch + 1)]
            yield epoch, np.array([place]), (OwnSlice(0, duties), OwnSlice(1, duties))

    def _slice_duty(self, instance: np.int64, epoch: int) -> SliceDuty:
        """Duty cycles of all cells of an instance in an epoch, also of one without faults."""
        if own := self._own[instance].get(epoch):
            return own
        kernel = int(self._kernel[instance, epoch])
        if kernel not in self._fault_free:
            zero, one = (groups.duty[kernel] for groups in self._groups)
            self._fault_free[kernel] = SliceDuty.of(zero, one, 1.0)
        return self._fault_free[kernel]
