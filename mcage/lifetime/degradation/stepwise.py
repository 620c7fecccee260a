"""Degradation under any NBTI model: transistors are advanced through each epoch in turn.

Tracked cells are advanced epoch by epoch. Among all the others, the worst are searched for by
branch and bound (`worst_cells`), at the end of each epoch and at the moment at which a life ends.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mcage.aging.vmin import CellFailure
from mcage.engines.interface import Engine
from mcage.engines.programs import Learnt
from mcage.engines.stress import FaultFreeDuties, TrackedCells
from mcage.lifetime.bisection import crossing
from mcage.lifetime.degradation.base import CellDegradation, Degradation
from mcage.lifetime.degradation.duty_tree import (
    FaultFreeSlices,
    RedirectedSlice,
    SliceDuty,
    Slices,
    slice_duty,
)
from mcage.lifetime.degradation.history import DutyIn, History
from mcage.lifetime.degradation.worst_cell import worst_cells


@dataclass(frozen=True)
class StepwiseCells(CellDegradation):
    """Degradation of n cells.

    Attributes
    ----------
    history : History
        What epochs do to the transistors.
    instance, epoch : int64[n]
        Instance of each cell, and the latest epoch of the instance.
    state : float64[state_size, 2, n]
        States of T0 and T1 when that epoch began.
    duty : float64[2, n]
        Fractions of the busy time of that epoch at '0' and at '1'.
    pull_downs : StepwiseCells or None
        The same for N0 and N1, where these age.
    """

    history: History
    instance: NDArray[np.int64]
    epoch: NDArray[np.int64]
    state: NDArray[np.float64]
    duty: NDArray[np.float64]
    pull_downs: "StepwiseCells | None" = None

    def dvth(self, moment: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `CellDegradation.dvth`."""
        shift = np.empty(self.duty.shape)
        for epoch in np.unique(self.epoch).tolist():
            places = np.flatnonzero(self.epoch == epoch)
            seconds = moment[places] - self.history.edges[epoch]
            state = self.history.advance(
                self.state[..., places], epoch, self.instance[places], self.duty[:, places], seconds
            )
            shift[:, places] = self.history.model_of(self.instance[places]).dvth_of(state)
        return shift

    def of_cells(self, moment: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `CellDegradation.of_cells`."""
        dvth = self.dvth(moment)
        if self.pull_downs is None:
            return dvth
        return np.concatenate([dvth, self.pull_downs.dvth(moment)])

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "StepwiseCells":
        """See `CellDegradation.of`."""
        return StepwiseCells(
            self.history,
            self.instance[which],
            self.epoch[which],
            self.state[..., which],
            self.duty[:, which],
            self.pull_downs and self.pull_downs.of(which),
        )


class StepwiseDegradation(Degradation):
    """Degradation epoch by epoch.

    Parameters
    ----------
    history : History
        What epochs do to the transistors of the batch.
    engine : Engine
        Gives the times of the cells of redirected slices.
    duties : FaultFreeDuties
        The technique on each kernel.
    tracked : TrackedCells
        Cells that are advanced cell by cell.
    instances : int
        Size of the batch.
    learnt : Learnt, optional
        What their placement programs know.
    """

    def __init__(
        self,
        history: History,
        engine: Engine,
        duties: FaultFreeDuties,
        tracked: TrackedCells,
        instances: int,
        learnt: Learnt | None = None,
    ) -> None:
        super().__init__(instances)
        self._learnt = learnt or engine.learnt(duties.replays, instances)
        self._history, self._engine = history, engine
        self._geometry = duties.replays[0].geometry
        self._replays, self._duties = duties.replays, (duties.at_zero, duties.at_one)
        self._tracked, self._sampled = tracked, tracked.sampled
        self._sound = np.ones(tracked.tail, dtype=bool)
        # The states of T0 and T1, then those of N0 and N1 where these age.
        self._histories = [history, *([history.pull_downs] if history.pull_downs else [])]
        self._states = [each.nbti.initial_state((2, len(tracked.cell))) for each in self._histories]
        self._duty = np.zeros((2, len(tracked.cell)))

        epochs = len(history.rates)
        self._epoch = np.full(instances, -1)
        self._kernel = np.zeros((instances, epochs), dtype=np.int64)
        # Duty cycles of redirected slices by epoch, and of fault-free slices by kernel.
        self._redirected: list[dict[int, SliceDuty]] = [{} for _ in range(instances)]
        self._fault_free: dict[int, SliceDuty] = {}
        # Cells that have been the worst, and the worst when they were last searched for.
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
            differ = self._learnt is not None and self._learnt.differs
            alone = fault_maps.any(axis=1) | np.full(len(instances), differ)
            self._keep_redirected(instances[alone], kernel[alone], fault_maps[alone], epoch)
        self._advance(instances, epoch)

    def _keep_redirected(
        self,
        instances: NDArray[np.int64],
        kernel: NDArray[np.int64],
        fault_maps: NDArray[np.uint8],
        epoch: int,
    ) -> None:
        """Keep the duty cycles of slices whose technique reacts to their faults."""
        if self._learnt:
            cell_times = self._learnt.cell_times(instances, kernel, fault_maps)
        else:
            cell_times = self._engine.cell_times_each(self._replays, kernel, fault_maps)
        for instance, times in zip(instances.tolist(), cell_times, strict=True):
            self._redirected[instance][epoch] = slice_duty(self._geometry, times)

    def _advance(self, instances: NDArray[np.int64], epoch: int) -> None:
        """Advance tracked cells to the start of an epoch, and look up their duty in it."""
        runs = np.zeros(len(self._epoch), dtype=bool)
        runs[instances] = True
        places = np.flatnonzero(runs[self._tracked.instance])
        instance, cell = self._tracked.instance[places], self._tracked.cell[places]
        if epoch:
            begin, end = self._history.edges[epoch - 1 : epoch + 1]
            for history, state in zip(self._histories, self._states, strict=True):
                state[..., places] = history.advance(
                    state[..., places], epoch - 1, instance, self._duty[:, places], end - begin
                )
        self._duty[:, places] = self._duty_in(epoch, instance, cell)

    def failing(
        self, instances: NDArray[np.int64], failure: CellFailure
    ) -> tuple[NDArray[np.int64], StepwiseCells]:
        """See `Degradation.failing`."""
        among = np.zeros(len(self._epoch), dtype=bool)
        among[instances] = True
        places = np.flatnonzero(self._sound & among[self._tracked.instance[: len(self._sound)]])
        cells = self._cells(places)
        shift, vmin_volts = cells.of_cells(self.span.end[cells.instance]), self._tracked.vmin_volts
        fails = failure.of(cells.instance).are_faulty(
            vmin_volts[:, places], shift, self._tracked.scores_of(places)
        )
        return places[fails], cells.of(fails)

    def mark_faulty(self, places: NDArray[np.int64]) -> None:
        """See `Degradation.mark_faulty`."""
        self._sound[places] = False

    def _cells(self, places: NDArray[np.int64]) -> StepwiseCells:
        """Shifts of tracked cells, given by their positions: int64[n]."""
        instance = self._tracked.instance[places]
        cells, *pull_downs = (
            StepwiseCells(each, instance, self._epoch[instance], state[..., places], duty)
            for duty in [self._duty[:, places]]
            for each, state in zip(self._histories, self._states, strict=True)
        )
        return replace(cells, pull_downs=pull_downs[0]) if pull_downs else cells

    def sampled_dvth(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.sampled_dvth`."""
        first = len(self._tracked.cell) - len(self._epoch) * self._sampled
        places = first + instances[:, None] * self._sampled + np.arange(self._sampled)
        cells = self._cells(places.ravel())
        shift = cells.dvth(np.repeat(moment, self._sampled))
        of_instances: NDArray[np.float64] = shift.reshape(2, len(instances), self._sampled)
        return of_instances

    def longest_duty(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.longest_duty`; exact."""
        longest, _ = self._worst_of(self._history.life_duty, instances, moment)
        return longest

    def worst_dvth(
        self, instances: NDArray[np.int64], moment: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.worst_dvth`; exact."""
        unknown = moment != self._looked_at[instances]
        sought = instances[unknown]
        if len(sought):
            worst, cell = self._worst_of(self._history.dvth, sought, moment[unknown])
            self._worst[:, sought], self._worst_cell[:, sought] = worst, cell
            self._known[:, sought, self._epoch[sought]] = cell
            self._looked_at[sought] = moment[unknown]
        return self._worst[:, instances]

    def reaching(
        self, instances: NDArray[np.int64], limit_volts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Degradation.reaching`; exact.

        It is solved for the worst cells of the end. While another cell is worse at that moment, it
        is solved again with that cell, too: the limit can only be reached sooner.
        """
        self.worst_dvth(instances, self.span.end[instances])
        moment = self.span.end[instances]
        limit = np.broadcast_to(limit_volts, len(instances))
        tried = self._worst_cell[:, instances].T
        open_ = np.arange(len(instances))
        while len(open_):
            unsolved = instances[open_]
            moment[open_], most = self._solved(unsolved, tried[open_], limit[open_])
            worst = self.worst_dvth(unsolved, moment[open_])
            cell = self._worst_cell[worst.argmax(axis=0), unsolved]
            known = (cell[:, None] == tried[open_]).any(axis=1)
            more = tried[:, :1].copy()
            more[open_, 0] = cell
            tried = np.concatenate([tried, more], axis=1)
            open_ = open_[(worst.max(axis=0) > most) & ~known]
        return moment

    def _solved(
        self, instances: NDArray[np.int64], cell: NDArray[np.int64], limit: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Moments at which the worst of k cells of each instance, int64[n, k], reach limits.

        Returns
        -------
        float64[n], float64[n]
            The moments, and the largest shift of these cells of each instance then.
        """
        count, tried = cell.shape
        cells = self._advanced(np.repeat(instances, tried), cell.ravel())

        def largest(moment: NDArray[np.float64]) -> NDArray[np.float64]:
            shift = cells.dvth(np.repeat(moment, tried)).max(axis=0)
            most: NDArray[np.float64] = shift.reshape(count, tried).max(axis=1)
            return most

        span = self.span.of(instances)
        moment = crossing(lambda at: largest(at) - limit, span.start, span.end)
        return moment, largest(moment)

    def _advanced(self, instance: NDArray[np.int64], cell: NDArray[np.int64]) -> StepwiseCells:
        """Any cells, advanced from new to the latest epochs of their instances."""
        latest = self._epoch[instance]
        state = self._history.nbti.initial_state((2, len(cell)))
        for epoch, seconds in enumerate(np.diff(self._history.edges[: latest.max() + 1]).tolist()):
            places = np.flatnonzero(latest > epoch)
            duty = self._duty_in(epoch, instance[places], cell[places])
            state[..., places] = self._history.advance(
                state[..., places], epoch, instance[places], duty, seconds
            )
        duty = np.empty((2, len(cell)))
        for epoch in np.unique(latest).tolist():
            places = np.flatnonzero(latest == epoch)
            duty[:, places] = self._duty_in(epoch, instance[places], cell[places])
        return StepwiseCells(self._history, instance, latest, state, duty)

    def _duty_in(
        self, epoch: int, instance: NDArray[np.int64], cell: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Fractions of the busy time of an epoch at '0' and at '1' of n cells: float64[2, n]."""
        kernel = self._kernel[instance, epoch]
        duty = np.stack([duties.at(kernel, cell) for duties in self._duties])
        for redirected in np.unique(instance).tolist():
            if of_slice := self._redirected[redirected].get(epoch):
                places = np.flatnonzero(instance == redirected)
                for which in range(2):
                    duty[which, places] = of_slice.duty(which, cell[places])
        return duty

    def _worst_of(
        self,
        measure: Callable[..., NDArray[np.float64]],
        instances: NDArray[np.int64],
        moment: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Largest measure at '0' and at '1' of any cell of selected instances, and the cells.

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
            group = instances[places]

            def measured(
                index: NDArray[np.int64],
                duty: DutyIn,
                epochs: int = epoch + 1,
                group: NDArray[np.int64] = group,
            ) -> NDArray[np.float64]:
                return measure(epochs, group[index], duty, ages)

            for which in range(2):
                known = self._known[which, group, : epoch + 1]
                most[which, places], cell[which, places] = worst_cells(
                    slices[which], measured, known
                )
        return most, cell

    def _slices(
        self, instances: NDArray[np.int64]
    ) -> Iterator[tuple[int, NDArray[np.int64], tuple[Slices, Slices]]]:
        """Groups of instances whose worst cells are searched for together.

        A group is all instances in an epoch that have been fault-free so far, or a single instance
        that has been redirected.

        Yields
        ------
        int, int64[n], tuple of Slices
            Latest epoch of the group; places of its instances in the list; their duty cycles at '0'
            and at '1'.
        """
        latest = self._epoch[instances]
        is_redirected = np.array([bool(self._redirected[i]) for i in instances.tolist()])
        for epoch in np.unique(latest).tolist():
            places = np.flatnonzero((latest == epoch) & ~is_redirected)
            if len(places):
                kernel = self._kernel[instances[places]]
                zeros, ones = (FaultFreeSlices(duties, kernel) for duties in self._duties)
                yield epoch, places, (zeros, ones)
        for place in np.flatnonzero(is_redirected).tolist():
            instance, epoch = instances[place], int(latest[place])
            duties = [self._slice_duty(instance, passed) for passed in range(epoch + 1)]
            yield epoch, np.array([place]), (RedirectedSlice(0, duties), RedirectedSlice(1, duties))

    def _slice_duty(self, instance: np.int64, epoch: int) -> SliceDuty:
        """Duty cycles of all cells of an instance in an epoch, redirected or fault-free."""
        if redirected := self._redirected[instance].get(epoch):
            return redirected
        kernel = int(self._kernel[instance, epoch])
        if kernel not in self._fault_free:
            zeros, ones = (duties.of_kernel(kernel) for duties in self._duties)
            self._fault_free[kernel] = SliceDuty.of(self._geometry, zeros, ones, 1.0)
        return self._fault_free[kernel]
