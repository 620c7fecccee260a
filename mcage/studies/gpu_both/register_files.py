"""Lives of the register-file slices of GPUs whose SMs are gated."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import SECONDS_PER_YEAR, Bhardwaj, NbtiModel
from mcage.aging.sampling import ZERO, InstanceConstants
from mcage.distributions import Distribution
from mcage.lifetime import EndCause
from mcage.lifetime.outcomes import LifeOutcomes
from mcage.lifetime.simulator import SliceBatch, simulate_lifetimes
from mcage.studies.gpu_gating.life import SmHistory
from mcage.studies.sweep.batch import batch_size
from mcage.studies.sweep.plan import PlannedCase, SweepPlan, workloads_of
from mcage.variation.fault_models import NewSlices
from mcage.variation.vmin_tail import TailCells

_ANY = Distribution("constant", (1.0,))


@dataclass(frozen=True, eq=False)
class SmLevel:
    """What a policy means to the register files of I GPUs with n SMs.

    Parameters
    ----------
    history : SmHistory
        Shares of the time and temperatures.
    period_seconds : float
        Time after which the policy puts other SMs to work; 0 where that is at each launch.
    """

    history: SmHistory
    period_seconds: float


@dataclass(frozen=True, eq=False)
class SliceFates:
    """What became of the k slices of each of the n SMs of I GPUs, over E epochs.

    Parameters
    ----------
    fault_years : float64[I, n, k]
        Age from which a kernel cannot run for faulty cells; infinite where there is none.
    cause : int8[I, n, k]
        `EndCause` of that end.
    ages_years : float64[I, n, k, E]
        Ends of the epochs; that of the life in its last epoch.
    dvth_volts : float64[I, n, k, E]
        Largest shift of a cell at these ages; NaN after the life.
    longest_duty : float64[I, n, k]
        Longest duty cycle of a cell over the life, the time for which its SM is gated included.
    """

    fault_years: NDArray[np.float64]
    cause: NDArray[np.int8]
    ages_years: NDArray[np.float64]
    dvth_volts: NDArray[np.float64]
    longest_duty: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RegisterFiles:
    """Simulates the slices of GPUs, each of which lives like an instance of a sweep.

    The slices of a GPU run its kernels, and share the die part of their variation. A slice has the
    activity of its SM, the share of the time for which the SM is on, and its temperature; both are
    means over the life, which give the stress of a whole life exactly where an NBTI model adds up
    stress times.

    Parameters
    ----------
    plan : SweepPlan
        The sweep over all slices: those of a GPU have successive ids.
    sms : int
        SMs of a GPU, n.
    slices_per_sm : int
        Slices of an SM, k.
    """

    plan: SweepPlan
    sms: int
    slices_per_sm: int

    @property
    def slices(self) -> int:
        """Slices of a GPU."""
        return self.sms * self.slices_per_sm

    @cached_property
    def batch(self) -> int:
        """GPUs whose slices are simulated together."""
        return max(1, batch_size(self.plan) // self.slices)

    def fates(
        self,
        gpus: NDArray[np.int64],
        vt0_volts: NDArray[np.float64],
        levels: Mapping[str, SmLevel],
    ) -> Iterator[tuple[str, str, SliceFates]]:
        """Lives of the slices of some GPUs under each policy and technique.

        No life ends by delay: a clock is a matter of the whole GPU.

        Parameters
        ----------
        gpus : int64[I]
            Their ids.
        vt0_volts : float64[n, I]
            Unaged threshold voltage of the cells of each SM.
        levels : mapping of str to SmLevel
            Level of the SMs under each policy.

        Yields
        ------
        policy, technique, fates
        """
        ids = (gpus[:, None] * self.slices + np.arange(self.slices)).ravel()
        spec = self.plan.spec
        of_slices = np.repeat(np.arange(len(gpus)), self.slices)
        workload = [turns.of(of_slices) for turns in workloads_of(spec, gpus).epochs]
        tail = self._tail(ids)
        for name, level in levels.items():
            for case in self.plan.cases:
                conditions = replace(
                    case.conditions,
                    nbti=with_slower_period(case.conditions.nbti, level.period_seconds),
                    delay_guardband=math.inf,
                )
                batch = SliceBatch(
                    workload=workload,
                    new=NewSlices.at(
                        conditions.environment.lowest_vdd_volts, tail, conditions.protection
                    ),
                    sampled_cells=np.zeros((len(ids), 1), np.int64),
                    constants=self.constants(case, ids, vt0_volts, level.history),
                )
                fault_free = self.plan.fault_free_of(case)
                outcomes = simulate_lifetimes(conditions, self.plan.engine, fault_free, batch)
                yield name, case.case.technique, self._fates(outcomes)

    def _tail(self, ids: NDArray[np.int64]) -> TailCells:
        (floor_volts,) = self.plan.lowest_floor_volts.values()
        first = self.plan.cases[0]  # all have the same faults and protection
        protection = first.conditions.protection
        return first.faults.sample(self.plan.spec.seed, ids, floor_volts, protection)

    def constants(
        self,
        case: PlannedCase,
        ids: NDArray[np.int64],
        vt0_volts: NDArray[np.float64],
        history: SmHistory,
    ) -> InstanceConstants:
        """Constants of slices: what the sweep draws for each, and what its SM gives to it."""
        seed, distributions = self.plan.spec.seed, case.conditions.distributions
        drawn = replace(distributions, temperature_kelvin=_ANY, vt0_volts=_ANY, activity=_ANY).draw(
            seed, ids
        )
        return replace(
            drawn,
            temperature_kelvin=self._of_slices(history.kelvin),
            vt0_volts=self._of_slices(vt0_volts),
            activity=self._of_slices(history.on_share),
            temperature_swing_kelvin=np.array(ZERO.numbers[0]),
        )

    def _of_slices(self, of_sms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of SMs for their slices: float64[n, I] to float64[I * n * k]."""
        return np.repeat(np.ascontiguousarray(of_sms.T).ravel(), self.slices_per_sm)

    def _fates(self, outcomes: LifeOutcomes) -> SliceFates:
        end, aging = outcomes.end, outcomes.degradation
        years, censored = end.seconds / SECONDS_PER_YEAR, end.cause == EndCause.CENSORED
        ends = np.array(self.plan.spec.epoch_edges_years[1:])
        shape = len(years) // self.slices, self.sms, self.slices_per_sm
        return SliceFates(
            fault_years=np.where(censored, np.inf, years).reshape(shape),
            cause=end.cause.reshape(shape),
            ages_years=np.minimum(ends, years[:, None]).reshape(*shape, -1),
            dvth_volts=aging.epoch_max_dvth_volts.max(axis=-1).reshape(*shape, -1),
            longest_duty=aging.longest_duty.max(axis=-1).reshape(shape),
        )


def with_slower_period(nbti: NbtiModel, period_seconds: float) -> NbtiModel:
    """Return a model for transistors whose stress comes and goes with two periods.

    The long-term form of `Bhardwaj` knows a single period, Tclk: that of the slower level counts.
    The other models know none.

    Parameters
    ----------
    nbti : NbtiModel
        The model with the period of the faster level.
    period_seconds : float
        Period of the other level.
    """
    if isinstance(nbti, Bhardwaj) and period_seconds > nbti.period_seconds:
        return replace(nbti, period_seconds=period_seconds)
    return nbti
