"""Vmin of a slice over its life: the lowest Vdd at which it runs its mix, when new and aged.

A slice ages at the operating points of its environment. Which of its entries are in use meanwhile,
the faults at its low Vdd tell, which is taken to be the lowest at which it works until the last
age: that is found first, from a growth that is guessed. At an age its cells have the largest Vmin
that they have come to so far, and a Vdd decides which of them are faulty. The lower it is, the more
there are, so that the lowest Vdd at which the technique can run the kernels is found by halving.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.aging.vmin import CellFailure, aged_vmin
from mcage.engines.interface import Engine
from mcage.engines.stress import Turns
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.degradation import CellDegradation
from mcage.lifetime.feasibility import FaultFreeReplays
from mcage.lifetime.simulator import BatchOfLives, SliceBatch
from mcage.variation.fault_models import EntryFaults
from mcage.variation.vmin_tail import TailCells

FIRST_GROWTH = 0.6
"""Part of the largest growth of Vmin by which that of slices is first taken to grow."""


@dataclass(frozen=True, eq=False)
class VminOutcomes:
    """Vmin of n slices at ages.

    Attributes
    ----------
    vmin_volts : float64[n, ages]
        Lowest Vdd at which each runs its mix; the lowest that was tried where that suffices, and
        infinite where there is none.
    delay_seconds : float64[n]
        When its delay has used up the guardband; infinite beyond the last age.
    """

    vmin_volts: NDArray[np.float64]
    delay_seconds: NDArray[np.float64]


def vmin_at_ages(
    conditions: LifeConditions,
    engine: Engine,
    fault_free: FaultFreeReplays,
    batch: SliceBatch,
    ages_years: Sequence[float],
    lowest_volts: float,
    lowers_vdd: bool,
) -> VminOutcomes:
    """Vmin of a batch of slices at ages.

    Parameters
    ----------
    conditions, engine, fault_free
        As of `simulate_lifetimes`; neither margins nor luck.
    batch : SliceBatch
        The instances, without faults; their tail has all cells that are faulty at the lowest Vdd by
        the last age.
    ages_years : sequence of float
        Ages within the horizon, rising.
    lowest_volts : float
        Lowest Vdd that is tried.
    lowers_vdd : bool
        Whether each slice is used at a low Vdd of its own, the lowest at which it works until the
        last age; otherwise at the lowest of the environment.

    Raises
    ------
    UserError
        As `LifeConditions.additive_shift`.
    """
    points, given = conditions.environment, (conditions, engine, fault_free, batch, lowest_volts)
    used_at = np.full(len(batch), points.lowest_vdd_volts)
    with engine.working():
        if lowers_vdd:
            largest_growth = points.lowest_vdd_volts - conditions.floor_volts
            used_at = _Aging(*given).when_new() + FIRST_GROWTH * largest_growth
            if fault_free.redirects or fault_free.packs:
                used_at = _Aging(*given).of_ages(ages_years[-1:], used_at).vmin_volts[:, 0]
        return _Aging(*given).of_ages(ages_years, used_at)


@dataclass(frozen=True, eq=False)
class _WeakCells:
    """Cells of n slices at an age that do not work at every Vdd that is tried.

    Attributes
    ----------
    cells : TailCells
        The cells.
    vmin_volts : float64[m]
        Their Vmin at that age.
    spread_blocks : bool
        As of `NewSlices.at`.
    """

    cells: TailCells
    vmin_volts: NDArray[np.float64]
    spread_blocks: bool

    def maps(self, vdd_volts: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Fault maps at a Vdd of each slice: float64[n] to uint8[n, entries]."""
        faulty = self.vmin_volts > vdd_volts[self.cells.instance]
        none = EntryFaults.none(self.cells.instances, self.spread_blocks, self.cells.geometry)
        return none.maps_with(self.cells, faulty)


class _Aging(BatchOfLives):
    """State of a batch that ages, whether or not it can run at the Vdd of the environment."""

    def __init__(
        self,
        conditions: LifeConditions,
        engine: Engine,
        fault_free: FaultFreeReplays,
        batch: SliceBatch,
        lowest_volts: float,
    ) -> None:
        super().__init__(conditions, engine, fault_free, batch)
        self.lowest_volts = np.full(len(batch), lowest_volts)
        # A cell that has been faulty at a Vdd is so for good, though its transistors may recover.
        self.largest_vmin: NDArray[np.float64] = np.maximum.reduce(self.vmin_volts)

    def when_new(self) -> NDArray[np.float64]:
        """Vmin of new slices: float64[n]."""
        weak = self._weak(self.largest_vmin)
        return self._lowest(weak, self.batch.workload[0], self.lowest_volts)

    def of_ages(self, ages_years: Sequence[float], used_at: NDArray[np.float64]) -> VminOutcomes:
        """Vmin at ages of slices that are used at a low Vdd of each: float64[n]."""
        everyone, ages = np.arange(len(self.batch)), SECONDS_PER_YEAR * np.asarray(ages_years)
        vmin = np.repeat(self.lowest_volts[:, None], len(ages), axis=1)
        delay_seconds = np.full(len(everyone), np.inf)
        lowest, weak = self.lowest_volts, self._weak(self.largest_vmin)
        workload, edges = self.batch.workload, self.conditions.epoch_edges_years
        for epoch, (start, end) in enumerate(pairwise(SECONDS_PER_YEAR * np.asarray(edges))):
            turns, maps = workload[epoch], weak.maps(used_at)
            if self.learnt:
                self.learnt.begin(everyone, turns, maps)
            if epoch == 0 and ages[0] == 0:
                vmin[:, 0] = self._lowest(weak, turns, lowest)
            if start >= ages[-1]:
                break
            self.degradation.add(everyone, turns, maps, float(start), float(end))
            late = self.delay_end.exceeded(self.degradation, everyone) & np.isinf(delay_seconds)
            which = np.flatnonzero(late)
            delay_seconds[which] = self.delay_end.reaching(self.degradation, which)
            places, cells = self.degradation.failing(everyone, self._failing_at_lowest)
            for number in np.flatnonzero((start < ages) & (ages <= end)):
                grown = self._grown(places, cells, ages[number])
                vmin[:, number] = self._lowest(self._weak(grown), turns, lowest)
            self.largest_vmin = self._grown(places, cells, end)
            weak = self._weak(self.largest_vmin)
            if self._changes_after(epoch):  # those that were dead by then stay dead
                lowest = self._lowest(weak, turns, lowest)
            if self.learnt:
                self.learnt.advance(everyone, turns, maps)
        return VminOutcomes(np.maximum.accumulate(vmin, axis=1), delay_seconds)

    @property
    def _failing_at_lowest(self) -> CellFailure:
        return replace(self.failure, lowest_vdd_volts=float(self.lowest_volts[0]))

    def _grown(
        self, places: NDArray[np.int64], cells: CellDegradation, moment: float
    ) -> NDArray[np.float64]:
        """Largest Vmin so far of all cells of the tail at a moment of the latest epoch: float64[m].

        Those at other places work at every Vdd that is tried, unless they were faulty before.
        """
        grown: NDArray[np.float64] = self.largest_vmin.copy()
        shifts = cells.of_cells(np.full(len(places), moment))
        coefficient = self.failure.of(self.tail.instance[places]).vmin_coefficient
        for start, shift in zip(self.vmin_volts[:, places], shifts, strict=True):
            grown[places] = np.maximum(grown[places], aged_vmin(start, shift, coefficient))
        return grown

    def _weak(self, vmin_volts: NDArray[np.float64]) -> _WeakCells:
        """Cells of the tail that do not work at every Vdd that is tried, by the Vmin of all."""
        places = np.flatnonzero(vmin_volts > self.lowest_volts[0])
        cells = self.tail.at(places, np.arange(len(self.batch)))
        return _WeakCells(cells, vmin_volts[places], self.conditions.spread_blocks)

    def _changes_after(self, epoch: int) -> bool:
        """Whether some slice runs other kernels in the next epoch."""
        here, following = self.batch.workload[epoch], self.batch.workload[epoch + 1 : epoch + 2]
        return any((turns.kernel != here.kernel).any() for turns in following)

    def _lowest(
        self, weak: _WeakCells, turns: Turns, at_least: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Lowest Vdd, at least so high, at which each slice runs its turns: float64[n]."""
        volts, instance = weak.vmin_volts, weak.cells.instance
        # Nothing changes but at the Vmins of its cells, rising here.
        rising = volts[np.lexsort((volts, instance))]
        first, end = weak.cells.offsets[:-1], weak.cells.offsets[1:]
        below = first + np.bincount(instance[volts <= at_least[instance]], minlength=len(first)) - 1
        above = end - 1
        result = np.where(self._runs(weak, turns, at_least), at_least, np.inf)
        sought = np.isinf(result) & (above > below)
        top = np.where(sought, rising[np.where(sought, above, 0)], np.inf)
        sought &= self._runs(weak, turns, top)
        result[sought] = top[sought]
        while (between := sought & (above - below > 1)).any():
            middle = (below + above) // 2
            tried = np.where(between, rising[np.where(between, middle, 0)], np.inf)
            runs = self._runs(weak, turns, tried)
            result = np.where(between & runs, tried, result)
            above, below = (
                np.where(between & runs, middle, above),
                np.where(between & ~runs, middle, below),
            )
        return result

    def _runs(
        self, weak: _WeakCells, turns: Turns, vdd_volts: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Whether slices run all their turns at a Vdd of each: float64[n] to bool[n]."""
        everyone, maps = np.arange(len(vdd_volts)), weak.maps(vdd_volts)
        runs: NDArray[np.bool_] = self.feasibility.replay(everyone, turns.kernel, maps).feasible
        return runs
