"""Vmin of a slice over its life: the lowest Vdd at which it runs its mix, when new and aged.

A slice ages at the operating points of its environment. Which of its entries are in use meanwhile,
the faults at its low Vdd tell, which is taken to be the lowest at which it works until the age of
the target, or a little above: that is found from a growth that is guessed. At an age its cells have
the largest Vmin that they have come to so far, and a Vdd decides which of them are faulty. The
lower it is, the more there are, so that the lowest Vdd at which the technique can run the kernels
is found by halving.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.aging.vmin import CellFailure, aged_vmin
from mcage.engines.interface import Engine
from mcage.engines.stress import Turns
from mcage.geometry import Booleans, Bytes, Floats, Integers
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.degradation import CellDegradation
from mcage.lifetime.feasibility import FaultFreeReplays
from mcage.lifetime.simulator import BatchOfLives, SliceBatch
from mcage.protection.policy import Protection
from mcage.variation.fault_models import EntryFaults
from mcage.variation.vmin_tail import TailCells

FIRST_GROWTH = 0.85
"""Part of the largest growth of its Vmin by which that of a slice is first taken to grow: more than
nearly all do."""

MOST_ABOVE_VOLTS, MARGIN_VOLTS = 4e-3, 1e-3
"""How far its Vmin may lie below the Vdd at which a slice is used first, and how far it does after
that where it lay further. Of a slice that is used 1 mV higher, Vmin after ten years is 0.04 mV
lower, and by chance it differs by 0.2 mV from one Vdd to the next."""

STEP_VOLTS, MOST_PASSES = 5e-4, 6
"""Least step of the Vdd at which a slice is used that does not work there until the age of the
target, and passes of aging after which it is taken as it is."""


@dataclass(frozen=True)
class Asked:
    """Requirements that slices must meet.

    Attributes
    ----------
    ages_years : tuple of float
        Ages within the horizon, rising.
    target : int
        Which of them a slice is to reach at its Vdd.
    """

    ages_years: tuple[float, ...]
    target: int


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

    vmin_volts: Floats
    delay_seconds: Floats

    @classmethod
    def none(cls, count: int, asked: Asked) -> "VminOutcomes":
        """Slices of which nothing is known yet."""
        return cls(np.full((count, len(asked.ages_years)), np.inf), np.full(count, np.inf))

    def keep(self, which: Integers, others: "VminOutcomes") -> None:
        """Replace what is known of selected slices by what is known of others, one for each."""
        self.vmin_volts[which] = others.vmin_volts
        self.delay_seconds[which] = others.delay_seconds


def vmin_at_ages(
    conditions: LifeConditions,
    engine: Engine,
    fault_free: FaultFreeReplays,
    batch: SliceBatch,
    asked: Asked,
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
    asked : Asked
        The ages.
    lowest_volts : float
        Lowest Vdd that is tried.
    lowers_vdd : bool
        Whether each slice is used at a low Vdd of its own, the lowest at which it works until the
        age of the target; otherwise at the lowest of the environment.

    Raises
    ------
    UserError
        As `LifeConditions.additive_shift`.
    """
    lowest, which = np.full(len(batch), lowest_volts), np.arange(len(batch))
    with engine.working():
        aging = _Aging(conditions, engine, fault_free, batch, lowest)
        if not (lowers_vdd and (fault_free.redirects or fault_free.packs)):
            used_at = np.full(len(batch), conditions.environment.lowest_vdd_volts)
            return aging.of_ages(asked, used_at, which)
        growth = _largest_growth(conditions, batch)
        new = aging.when_new()
        lowest = np.where(np.isfinite(new), new, lowest_volts)
        tail = batch.new.tail.above(lowest - growth)
        batch = replace(batch, new=replace(batch.new, tail=tail))
        used_at, dead_at = lowest + FIRST_GROWTH * growth, lowest.copy()
        result = VminOutcomes.none(len(batch), asked)
        for step in range(MOST_PASSES):
            most_above = MOST_ABOVE_VOLTS if step == 0 else np.inf
            aging = _Aging(conditions, engine, fault_free, batch, lowest)
            passed = aging.of_ages(asked, used_at[which], which)
            result.keep(which, passed)
            lacks = passed.vmin_volts[:, asked.target] - used_at[which]
            again = np.isfinite(lacks) & ((lacks > 0) | (lacks < -most_above))
            which, lacks = which[again], lacks[again]
            if not len(which):
                break
            dead = lacks > 0
            dead_at[which[dead]] = used_at[which[dead]]
            used_at[which] += np.where(
                dead, np.maximum(2 * lacks, STEP_VOLTS), lacks + MARGIN_VOLTS
            )
        at_target = result.vmin_volts[:, asked.target]
        np.maximum(at_target, dead_at, out=at_target)
        later = result.vmin_volts[:, asked.target :]
        np.maximum.accumulate(later, axis=1, out=later)
        return result


def _largest_growth(conditions: LifeConditions, batch: SliceBatch) -> Floats:
    """Bound of the growth of Vmin of each slice until the horizon: float64[n]."""
    of_any = np.full(len(batch), conditions.environment.lowest_vdd_volts - conditions.floor_volts)
    if not conditions.sums_suffice:
        return of_any
    age = np.full(len(batch), conditions.horizon_seconds)
    shift = conditions.additive_shift(batch.constants)
    dvth = shift.of_cells(np.stack([age, age]), age).max(axis=0)
    coefficients = conditions.cell_failure(batch.constants).coefficients
    largest: Floats = np.minimum(of_any, coefficients * dvth * (1 + 1e-9))
    return largest


@dataclass(frozen=True, eq=False)
class _WeakCells:
    """Cells of n slices at an age that do not work at every Vdd that is tried.

    Attributes
    ----------
    cells : TailCells
        The cells.
    vmin_volts : float64[m]
        Their Vmin at that age.
    protection : Protection
        What protects their entries.
    """

    cells: TailCells
    vmin_volts: Floats
    protection: Protection

    def of(self, which: Integers) -> "_WeakCells":
        """Weak cells of selected slices, in rising order."""
        chosen = np.zeros(self.cells.instances, dtype=bool)
        chosen[which] = True
        places = np.flatnonzero(chosen[self.cells.instance])
        return replace(self, cells=self.cells.at(places, which), vmin_volts=self.vmin_volts[places])

    def maps(self, vdd_volts: Floats) -> Bytes:
        """Fault maps at a Vdd of each slice: float64[n] to uint8[n, entries]."""
        faulty = self.vmin_volts > vdd_volts[self.cells.instance]
        none = EntryFaults.none(self.cells.instances, self.protection, self.cells.geometry)
        return none.maps_with(self.cells, faulty)


class _Aging(BatchOfLives):
    """State of a batch that ages, whether or not it can run at the Vdd of the environment."""

    def __init__(
        self,
        conditions: LifeConditions,
        engine: Engine,
        fault_free: FaultFreeReplays,
        batch: SliceBatch,
        lowest_volts: Floats,
    ) -> None:
        super().__init__(conditions, engine, fault_free, batch)
        self.lowest_volts = lowest_volts
        # A cell that has been faulty at a Vdd is so for good, though its transistors may recover.
        self.largest_vmin: Floats = np.maximum.reduce(self.vmin_volts)

    def when_new(self) -> Floats:
        """Vmin of slices that run all turns of their lives when they are new: float64[n]."""
        everyone = np.arange(len(self.batch))
        weak, lowest, workload = self._weak(everyone), self.lowest_volts, self.batch.workload
        for epoch, turns in enumerate(workload):
            if epoch == 0 or self._changes_after(epoch - 1):
                lowest = self._lowest(weak, everyone, turns, lowest)
        return lowest

    def of_ages(self, asked: Asked, used_at: Floats, which: Integers) -> VminOutcomes:
        """Requirements of m slices, each used at a low Vdd of its own: float64[m], int64[m]."""
        ages = SECONDS_PER_YEAR * np.asarray(asked.ages_years)
        lowest, weak = self.lowest_volts[which], self._weak(which)
        result = VminOutcomes.none(len(which), asked)
        vmin, delay_seconds = result.vmin_volts, result.delay_seconds
        vmin[:] = lowest[:, None]

        def look(number: int, turns: Turns) -> None:
            weak = self._weak(which)
            at_least = vmin[:, max(number - 1, 0)]
            vmin[:, number] = self._lowest(weak, which, turns, np.maximum(lowest, at_least))

        workload, edges = self.batch.workload, self.conditions.epoch_edges_years
        horizon = SECONDS_PER_YEAR * edges[-1]
        never_late = self.delay_end.is_far(self.degradation, which, horizon)
        for epoch, (start, end) in enumerate(pairwise(SECONDS_PER_YEAR * np.asarray(edges))):
            turns, maps = workload[epoch].of(which), weak.maps(used_at)
            if self.learnt:
                self.learnt.begin(which, turns, maps)
            if epoch == 0 and ages[0] == 0:
                look(0, turns)
            if start >= ages[-1]:
                break
            self.degradation.add(which, turns, maps, float(start), float(end))
            if not never_late:
                late = self.delay_end.exceeded(self.degradation, which) & np.isinf(delay_seconds)
                delay_seconds[late] = self.delay_end.reaching(self.degradation, which[late])
            places, cells = self.degradation.failing(which, self._failing_at_lowest)
            before = self.largest_vmin
            for number in np.flatnonzero((start < ages) & (ages <= end)).tolist():
                self.largest_vmin = self._grown(before, places, cells, ages[number])
                look(number, turns)
            self.largest_vmin = self._grown(before, places, cells, end)
            weak = self._weak(which)
            if self._changes_after(epoch):  # those that were dead by then stay dead
                lowest = self._lowest(weak, which, turns, lowest)
            if self.learnt:
                self.learnt.advance(which, turns, maps)
        np.maximum.accumulate(vmin, axis=1, out=vmin)
        return result

    @property
    def _failing_at_lowest(self) -> CellFailure:
        return replace(self.failure, lowest_vdd_volts=float(self.lowest_volts.min()))

    def _grown(
        self, before: Floats, places: Integers, cells: CellDegradation, moment: float
    ) -> Floats:
        """Largest Vmin of the tail at a moment of the latest epoch, by that before: float64[k].

        Cells at other places work at every Vdd that is tried, unless they were faulty before.
        """
        grown = before.copy()
        shifts = cells.of_cells(np.full(len(places), moment))
        coefficient = self.failure.of(self.tail.instance[places]).vmin_coefficient
        for start, shift in zip(self.vmin_volts[:, places], shifts, strict=True):
            grown[places] = np.maximum(grown[places], aged_vmin(start, shift, coefficient))
        return grown

    def _weak(self, which: Integers) -> _WeakCells:
        """Cells of selected slices that do not work at every Vdd that is tried."""
        places = np.flatnonzero(self.largest_vmin > self.lowest_volts[self.tail.instance])
        cells = self.tail.at(places, np.arange(len(self.batch)))
        vmin_volts, protection = self.largest_vmin[places], self.conditions.protection
        return _WeakCells(cells, vmin_volts, protection).of(which)

    def _changes_after(self, epoch: int) -> bool:
        """Whether some slice runs other kernels in the next epoch."""
        here, following = self.batch.workload[epoch], self.batch.workload[epoch + 1 : epoch + 2]
        return any((turns.kernel != here.kernel).any() for turns in following)

    def _lowest(self, weak: _WeakCells, which: Integers, turns: Turns, at_least: Floats) -> Floats:
        """Lowest Vdd, at least so high, at which each slice runs its turns: float64[m]."""
        volts, instance = weak.vmin_volts, weak.cells.instance
        # Nothing changes but at the Vmins of its cells, rising here.
        rising = np.append(volts[np.lexsort((volts, instance))], np.inf)
        first, end = weak.cells.offsets[:-1], weak.cells.offsets[1:]
        below = first + np.bincount(instance[volts <= at_least[instance]], minlength=len(first)) - 1
        above = end - 1
        result = np.where(self._runs(weak, which, turns, at_least), at_least, np.inf)
        sought = np.isinf(result) & (above > below)
        top = np.where(sought, rising[np.where(sought, above, 0)], np.inf)
        sought &= self._runs(weak, which, turns, top)
        result[sought] = top[sought]
        while (between := sought & (above - below > 1)).any():
            middle = (below + above) // 2
            tried = np.where(between, rising[np.where(between, middle, 0)], np.inf)
            runs = self._runs(weak, which, turns, tried)
            result = np.where(between & runs, tried, result)
            above, below = (
                np.where(between & runs, middle, above),
                np.where(between & ~runs, middle, below),
            )
        return result

    def _runs(self, weak: _WeakCells, which: Integers, turns: Turns, vdd_volts: Floats) -> Booleans:
        """Whether slices run all their turns at a Vdd of each: float64[m] to bool[m]."""
        return self.feasibility.replay(which, turns, weak.maps(vdd_volts)).feasible
