"""One case of a sweep, made ready for lives of slices that are drawn from elsewhere."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.degradation.stepwise import most_instances
from mcage.lifetime.end_cause import EndCause
from mcage.lifetime.fault_free import FaultFreeReplays
from mcage.lifetime.simulator import live
from mcage.spec import SweepSpec
from mcage.studies.rare_events.vmin_gaussian import VminGaussian
from mcage.sweep.plan import SweepPlan, kernels_of_periods
from mcage.sweep.unused_keys import refuse_unused
from mcage.variation import TailCells

MOMENT_YEARS = 1e-12
"""An epoch so short that nothing ages: who dies at an age at which an epoch begins, dies before."""


@dataclass(frozen=True, eq=False)
class RareCase:
    """What the lives of a case have in common, and the age at which they are looked at.

    Attributes
    ----------
    label : str
        The case in one text.
    spec : SweepSpec
        Where it comes from.
    age_years : float
        The age.
    law : SliceLaw
        Law of Vmin over a slice.
    rules : LifeRules
        Rules of the lives, with the epochs up to that age.
    engine : Engine
        Replays what depends on a fault map.
    shared : SharedReplays
        The technique on each kernel.
    kernel_names : tuple of str
        The kernels.
    """

    label: str
    spec: SweepSpec
    age_years: float
    law: VminGaussian
    rules: LifeConditions
    engine: Engine
    shared: FaultFreeReplays
    kernel_names: tuple[str, ...]

    @property
    def needed(self) -> NDArray[np.bool_]:
        """Entries that must be reliable under some kernel: bool[256].

        None, where the technique can move data.
        """
        needed: NDArray[np.bool_] = np.logical_or.reduce(self.shared.needed, axis=0)
        return needed

    @property
    def weak_volts(self) -> float:
        """Vmin above which a cell can be faulty by that age."""
        if self.age_years == 0:
            return self.rules.environment.lowest_vdd_volts
        return replace(self.rules, epoch_edges_years=(0.0, self.age_years)).floor_volts

    @property
    def floor_volts(self) -> float:
        """Vmin above which a cell matters to the epochs that are lived through."""
        return min(self.rules.floor_volts, self.weak_volts)

    @property
    def typical_volts(self) -> float:
        """Vmin above which about a typical cell is faulty by that age: half way to weak ones."""
        return 0.5 * (self.rules.environment.lowest_vdd_volts + self.weak_volts)

    @property
    def epochs(self) -> int:
        """Epochs up to that age."""
        return len(self.rules.epoch_edges_years) - 1

    def at_start(self) -> "RareCase":
        """The same case at age 0, with weak cells as they are now."""
        rules = replace(self.rules, epoch_edges_years=(0.0, MOMENT_YEARS))
        return replace(self, age_years=0.0, rules=rules)

    def kernels(self, instances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Kernel of each epoch, the same as in a sweep: int64[I, epochs]."""
        workload = kernels_of_periods(self.spec, instances)
        return workload[:, list(self.spec.period_of_epoch[: self.epochs])]

    def cause(
        self,
        seed: int,
        instances: NDArray[np.int64],
        kernel_of_epoch: NDArray[np.int64],
        tail: TailCells,
    ) -> NDArray[np.int8]:
        """What instances have died of by that age.

        Parameters
        ----------
        seed : int
            Seed of what they have of their own besides their cells.
        instances : int64[I]
            Their ids.
        kernel_of_epoch : int64[I, epochs]
            What they run.
        tail : TailCells
            Their cells above the floor.

        Returns
        -------
        int8[I]
            `EndCause`; censored, who is alive.
        """
        cause = np.full(len(instances), EndCause.CENSORED, dtype=np.int8)
        size = self.engine.batch
        if not self.rules.sums_suffice:
            size = min(size, most_instances(self.epochs))
        for first in range(0, len(instances), size):
            some = np.arange(first, min(first + size, len(instances)))
            lived = live(
                rules=self.rules,
                engine=self.engine,
                shared=self.shared,
                kernel_of_epoch=kernel_of_epoch[some],
                tail=_of(tail, some),
                sample=np.empty((len(some), 0), dtype=np.int64),
                constants=self.rules.laws.draw(seed, instances[some], self.epochs),
            )
            in_time = lived.life_seconds <= self.age_years * SECONDS_PER_YEAR
            cause[some[in_time]] = lived.end_cause[in_time]
        return cause


def _of(tail: TailCells, instances: NDArray[np.int64]) -> TailCells:
    first, last = tail.offsets[instances[0]], tail.offsets[instances[-1] + 1]
    return tail.at(np.arange(first, last), instances)


def rare_case(spec: SweepSpec, age_years: float, engine: Engine) -> RareCase:
    """Make a case ready.

    Parameters
    ----------
    spec : SweepSpec
        A sweep of one case, with faults of mode ``varius``.
    age_years : float
        Age, 0 ... horizon of the spec.
    engine : Engine
        What computes lives.

    Raises
    ------
    UserError
        The spec has several cases, or another mode, or makes no sense; or the age lies outside.
    """
    if spec.faults.mode != "varius":
        raise UserError(
            f"faults.mode = {spec.faults.mode!r}: rare events need the law of Vmin, mode 'varius'"
        )
    if spec.stopping is not None:
        raise UserError(
            f"stopping.rel_ci = {spec.stopping.rel_ci:g}: a rare event is estimated from as many "
            "slices as are asked for; leave it out of the spec"
        )
    if not 0 <= age_years <= spec.life.horizon_years:
        raise UserError(
            f"age = {age_years:g} years, expected 0 ... {spec.life.horizon_years:g}, the horizon"
        )
    refuse_unused(spec)
    plan = SweepPlan(spec, engine)
    if len(plan.cases) != 1:
        raise UserError(
            f"{len(plan.cases)} cases: a rare event is estimated for one technique, environment, "
            "scenario and vdd at a time"
        )
    (case,) = plan.cases
    return RareCase(
        label=case.name.label,
        spec=spec,
        age_years=age_years,
        law=VminGaussian(case.faults.scenario),
        rules=replace(
            case.conditions,
            epoch_edges_years=_edges_up_to(age_years, case.conditions.epoch_edges_years),
        ),
        engine=engine,
        shared=plan.fault_free[case.case.technique],
        kernel_names=tuple(trace.name for trace in plan.traces),
    )


def _edges_up_to(age_years: float, edges_years: tuple[float, ...]) -> tuple[float, ...]:
    """Borders of the epochs that have begun by an age.

    One that begins right then is cut to a moment: of it, only what its kernel finds no room for is
    dead by that age.
    """
    ends = [
        min(end, start + MOMENT_YEARS) if start == age_years else end
        for start, end in pairwise(edges_years)
        if start <= age_years
    ]
    return (0.0, *ends)
