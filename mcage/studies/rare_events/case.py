"""The case whose early failures are estimated: lives of slices that a proposal has drawn."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.engines.interface import Engine
from mcage.engines.programs import PROGRAM_BATCH
from mcage.errors import UserError
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.degradation.duty_tree import most_instances
from mcage.lifetime.end_cause import EndCause
from mcage.lifetime.fault_free import FaultFreeReplays
from mcage.lifetime.feasibility import Feasibility
from mcage.lifetime.limits import limits_of_batch
from mcage.lifetime.luck import SliceLuck
from mcage.lifetime.simulator import SliceBatch, simulate_lifetimes
from mcage.spec import SweepSpec
from mcage.studies.rare_events.lives import LifeDistribution, Lives
from mcage.studies.rare_events.proposals.vmin_gaussian import VminGaussian
from mcage.studies.single_case import SingleCase
from mcage.sweep.kernels import kernels_of
from mcage.sweep.study import Sweep
from mcage.variation.fault_maps import NewSlices
from mcage.variation.vmin_tail import TailCells

MOMENT_YEARS = 1e-12
"""Length of an epoch in which nothing ages; it lets slices die that cannot run the next kernel."""


@dataclass(frozen=True, eq=False)
class RareCase:
    """A case that is ready for lives, and the age by which slices have died or not.

    Attributes
    ----------
    label : str
        Name of the case.
    spec : SweepSpec
        Sweep of this one case.
    age_years : float
        Age in years by which slices have died or not.
    distribution : VminGaussian
        How Vmin varies over a slice.
    conditions : LifeConditions
        What all lives of the case share, with the epochs up to that age.
    engine : Engine
        Engine that replays what depends on a fault map.
    fault_free : FaultFreeReplays
        Replays of the technique on each kernel without faults.
    lives : LifeDistribution
        How lives vary, up to that age.
    """

    label: str
    spec: SweepSpec
    age_years: float
    distribution: VminGaussian
    conditions: LifeConditions
    engine: Engine
    fault_free: FaultFreeReplays
    lives: LifeDistribution

    @property
    def needed(self) -> NDArray[np.bool_]:
        """Entries that must be reliable for a slice to work: bool[entries].

        An entry counts if any kernel needs it. Under a technique that can move data, all are False.
        """
        needed: NDArray[np.bool_] = np.logical_or.reduce(self.fault_free.needed, axis=0)
        return needed

    @property
    def weak_volts(self) -> float:
        """Vmin, in volts, above which a cell can be faulty by that age."""
        if self.age_years == 0:
            return self.conditions.environment.lowest_vdd_volts
        return replace(self.conditions, epoch_edges_years=(0.0, self.age_years)).floor_volts

    @property
    def floor_volts(self) -> float:
        """Vmin, in volts, above which a cell matters in the epochs up to that age."""
        return min(self.conditions.floor_volts, self.weak_volts)

    @property
    def typical_volts(self) -> float:
        """Vmin, in volts, half way between the lowest supply voltage and that of weak cells.

        By that age, a typical cell with a higher Vmin is faulty.
        """
        return 0.5 * (self.conditions.environment.lowest_vdd_volts + self.weak_volts)

    @property
    def epochs(self) -> int:
        """Number of epochs up to that age."""
        return len(self.conditions.epoch_edges_years) - 1

    def at_start(self) -> "RareCase":
        """The same case at age 0: cells are faulty only if they are as manufactured."""
        conditions = replace(self.conditions, epoch_edges_years=(0.0, MOMENT_YEARS))
        lives = replace(self.lives, period_of_epoch=self.lives.period_of_epoch[:1])
        return replace(self, age_years=0.0, conditions=conditions, lives=lives)

    def luck(self, seed: int, instances: NDArray[np.int64]) -> SliceLuck:
        """What decides by which margins the cells of slices fail: as in a sweep of that seed."""
        return SliceLuck(seed, instances, self.fault_free.geometry.cells)

    def cause(self, lives: Lives, tail: TailCells, luck: SliceLuck) -> NDArray[np.int8]:
        """Cause of death of slices by that age.

        Parameters
        ----------
        lives : Lives
            I lives.
        tail : TailCells
            Cells of these slices whose Vmin lies above `floor_volts`.
        luck : SliceLuck
            Luck of these slices. It is independent of what they are drawn by, and so changes no
            weight.

        Returns
        -------
        int8[I]
            `EndCause`; ``CENSORED`` where the slice is alive.
        """
        cause = np.empty(len(lives), dtype=np.int8)
        size = self.engine.batch
        if self.fault_free.replays[0].technique.program:
            size = min(size, PROGRAM_BATCH)
        if not self.conditions.sums_suffice:
            size = min(size, most_instances(self.epochs, self.fault_free.geometry.cells))
        lowest_volts = self.conditions.environment.lowest_vdd_volts
        spread_blocks = self.conditions.spread_blocks
        cause_of = self._cause_by_the_age if self.age_years > 0 else self._cause_on_arrival
        for first in range(0, len(lives), size):
            batch = np.arange(first, min(first + size, len(lives)))
            new = NewSlices.at(lowest_volts, _of(tail, batch), spread_blocks)
            cause[batch] = cause_of(lives.of(batch), new, luck.of(batch))
        return cause

    def _cause_by_the_age(self, lives: Lives, new: NewSlices, luck: SliceLuck) -> NDArray[np.int8]:
        new, limits = limits_of_batch(self.conditions, new, luck)
        slices = SliceBatch(
            kernel_of_epoch=self.lives.kernel_of_epoch(lives),
            new=new,
            sampled_cells=np.empty((len(lives), 0), dtype=np.int64),
            constants=self.lives.constants_of(lives),
            limits=limits,
        )
        end = simulate_lifetimes(self.conditions, self.engine, self.fault_free, slices).end
        in_time = end.seconds <= self.age_years * SECONDS_PER_YEAR
        return np.where(in_time, end.cause, EndCause.CENSORED).astype(np.int8)

    def _cause_on_arrival(self, lives: Lives, new: NewSlices, luck: SliceLuck) -> NDArray[np.int8]:
        """What keeps slices from running their first kernel; nothing has aged, nor need age."""
        conditions = self.conditions
        feasibility = Feasibility(
            self.engine, self.fault_free, conditions.lds_rows, conditions.spill_limit
        )
        kernel = self.lives.kernel_of_epoch(lives)[:, 0]
        with self.engine.working():
            return feasibility.replay(np.arange(len(kernel)), kernel, new.faults.maps).end_cause


def _of(tail: TailCells, instances: NDArray[np.int64]) -> TailCells:
    first, last = tail.offsets[instances[0]], tail.offsets[instances[-1] + 1]
    return tail.at(np.arange(first, last), instances)


@dataclass(frozen=True, eq=False)
class WeightedLives:
    """Slices that were drawn from a proposal: their weights, and what became of them by an age.

    Attributes
    ----------
    weights : float64[I]
        Density of each slice and its workload as in a sweep, over the density that it was drawn
        with.
    cause : int8[I]
        Cause of death, `EndCause`; ``CENSORED`` where the slice is alive.
    lives : Lives
        What decided it besides the cells.
    """

    weights: NDArray[np.float64]
    cause: NDArray[np.int8]
    lives: Lives

    @property
    def dead(self) -> NDArray[np.bool_]:
        """Which slices are dead: bool[I]."""
        dead: NDArray[np.bool_] = self.cause != EndCause.CENSORED
        return dead

    @classmethod
    def join(cls, parts: list[Self]) -> Self:
        """Join the lives of several batches, in their order."""
        return cls(
            np.concatenate([part.weights for part in parts]),
            np.concatenate([part.cause for part in parts]),
            Lives.join([part.lives for part in parts]),
        )


def rare_case(
    spec: SweepSpec, age_years: float, engine: Engine, like: Sweep | None = None
) -> RareCase:
    """Prepare the case of a spec.

    Parameters
    ----------
    spec : SweepSpec
        A sweep of one case, with faults of mode ``varius``.
    age_years : float
        Age in years, 0 ... horizon of the spec.
    engine : Engine
        Engine that computes lives.
    like : Sweep, optional
        A sweep on the same engine. Its traces and fault-free replays are taken over where they
        would be the same.

    Raises
    ------
    UserError
        The spec has several cases, another fault mode, or values that are refused; or the age lies
        outside of its range.
    """
    if spec.faults.mode != "varius":
        raise UserError(
            f"faults.mode = {spec.faults.mode!r}: rare events need the distribution of Vmin, "
            "mode 'varius'"
        )
    if spec.aging.nbti_spread_mv > 0:
        raise UserError(
            f"aging.nbti_spread_mv = {spec.aging.nbti_spread_mv:g}: the proposals for rare events "
            "know no transistors that shift differently when stressed alike; leave it out"
        )
    if not 0 <= age_years <= spec.life.horizon_years:
        raise UserError(
            f"age = {age_years:g} years, expected 0 ... {spec.life.horizon_years:g}, the horizon"
        )
    if spec.draws is not None:
        raise UserError(
            "draws: an estimate of rare events is of one set of constants; give those of a row, "
            "such as --constant eta=0.3, or use mcage sweep"
        )
    single = SingleCase(spec, engine, "an estimate of rare events", like)
    plan = single.plan
    (planned,) = plan.cases
    edges_years = _edges_up_to(age_years, planned.conditions.epoch_edges_years)
    return RareCase(
        label=single.label,
        spec=spec,
        age_years=age_years,
        distribution=VminGaussian(planned.faults.scenario),
        conditions=replace(planned.conditions, epoch_edges_years=edges_years),
        engine=engine,
        fault_free=plan.fault_free[planned.case.technique],
        lives=LifeDistribution(
            distributions=planned.conditions.distributions,
            mix=spec.workload.mix,
            kernels=kernels_of(spec),
            period_of_epoch=spec.period_of_epoch[: len(edges_years) - 1],
            periods=spec.workload.periods,
        ),
    )


def _edges_up_to(age_years: float, edges_years: tuple[float, ...]) -> tuple[float, ...]:
    """Edges, in years, of the epochs that have begun by an age.

    An epoch that begins at that age is cut to `MOMENT_YEARS`: only slices that cannot run its
    kernel die in it.
    """
    ends = [
        min(end, start + MOMENT_YEARS) if start == age_years else end
        for start, end in pairwise(edges_years)
        if start <= age_years
    ]
    return (0.0, *ends)
