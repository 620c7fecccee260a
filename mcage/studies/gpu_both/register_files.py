"""Lives of the register-file slices of GPUs whose SMs are gated, and of these GPUs."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
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
    """Effect of a policy on the register files of I GPUs with n SMs.

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
    """Results of the k slices of each of the n SMs of I GPUs, over E epochs.

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


# From the lives of SMs and slices to those of GPUs: the clock, and who dies of what first.


class BothEnd(IntEnum):
    """Cause that ended the life of a GPU."""

    CENSORED = 0
    LOGIC_DELAY = 1
    CELL_DELAY = 2
    FAULTY_ENTRY = 3
    NO_HOME = 4
    SPILL_LIMIT = 5
    TOO_SLOW = 6


_OF_SLICE = {
    EndCause.DELAY: BothEnd.CELL_DELAY,
    EndCause.FAULTY_ENTRY: BothEnd.FAULTY_ENTRY,
    EndCause.NO_HOME: BothEnd.NO_HOME,
    EndCause.SPILL_LIMIT: BothEnd.SPILL_LIMIT,
    EndCause.TOO_SLOW: BothEnd.TOO_SLOW,
}


@dataclass(frozen=True, eq=False)
class Clock:
    """Demands of the clock of I GPUs on the cells of their register files.

    Parameters
    ----------
    vdd_volts : float
        Highest supply voltage of the cells, at which delay is judged.
    alpha : float
        Exponent of the alpha-power law.
    guardband : float
        Delay increase over the slowest new cell of the GPU at which a cell is too slow.
    vt0_volts : float64[n, I]
        Unaged threshold voltage of the cells of each SM.
    """

    vdd_volts: float
    alpha: float
    guardband: float
    vt0_volts: NDArray[np.float64]

    @property
    def overdrive(self) -> NDArray[np.float64]:
        """Overdrive of new cells: float64[I, n, 1]."""
        return (self.vdd_volts - self.vt0_volts.T)[..., None]

    @property
    def least_overdrive(self) -> NDArray[np.float64]:
        """Overdrive of the slowest new cell of each GPU: float64[I, 1, 1]."""
        least: NDArray[np.float64] = self.overdrive.min(axis=1, keepdims=True)
        return least

    def dvth_limit(self) -> NDArray[np.float64]:
        """Shift at which the cells of an SM are too slow: float64[I, n, 1]."""
        needed = self.least_overdrive * (1 + self.guardband) ** (-1 / self.alpha)
        limit: NDArray[np.float64] = self.overdrive - needed
        return limit

    def margins(self, dvth_volts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Delay over that of the slowest new cell, less 1, for shifts float64[I, n, k, E].

        Infinite where a shift leaves no overdrive; NaN where there is no shift.
        """
        left = self.overdrive[..., None] - dvth_volts
        with np.errstate(invalid="ignore"):
            slower = np.where(left <= 0, np.inf, self.least_overdrive[..., None] / left)
        margins: NDArray[np.float64] = slower**self.alpha - 1
        return margins


@dataclass(frozen=True, eq=False)
class GpuFates:
    """Results of I GPUs.

    Parameters
    ----------
    cell_margin, max_dvth_volts : float64[I, E]
        Delay of the slowest cell of the slices that live over that of the slowest new cell, less 1,
        and largest shift of such a cell, at the end of each epoch; NaN where the GPU has failed for
        faults.
    longest_duty : float64[I]
        Longest duty cycle of a cell.
    cell_delay_years, fault_years, life_years : float64[I]
        Ages at which more SMs than may be given up have cells that are too slow; have register
        files that no kernel can run on for their faults; are dead, by these or by their logic.
    cause : int8[I]
        `BothEnd` of the life.
    """

    cell_margin: NDArray[np.float64]
    max_dvth_volts: NDArray[np.float64]
    longest_duty: NDArray[np.float64]
    cell_delay_years: NDArray[np.float64]
    fault_years: NDArray[np.float64]
    life_years: NDArray[np.float64]
    cause: NDArray[np.int8]


def combined(
    slices: SliceFates,
    sms: SmHistory,
    clock: Clock,
    spares: int,
    root: float,
    ages_years: tuple[float, ...],
) -> GpuFates:
    """Combine the lives of SMs and slices into those of GPUs.

    An SM is dead when its logic is too slow, or any of its slices is too slow or has failed. A GPU
    is dead when more SMs are than there are spares.

    Parameters
    ----------
    slices : SliceFates
        Lives of the slices, by faults alone.
    sms : SmHistory
        Lives of the SMs.
    clock : Clock
        When cells are too slow.
    spares : int
        SMs of a GPU that may be given up.
    root : float
        Root of time with which the shift of the NBTI model grows.
    ages_years : tuple of float
        Ends of the epochs.
    """
    late = too_slow_years(slices, clock.dvth_limit(), root)
    by_delay, by_faults = late.min(axis=2), slices.fault_years.min(axis=2)
    by_logic = sms.too_slow_years.T
    first_slice = slices.fault_years.argmin(axis=2)[..., None]
    cause = np.take_along_axis(slices.cause, first_slice, axis=2)[..., 0]
    causes = np.stack(
        [
            np.full(cause.shape, BothEnd.LOGIC_DELAY, np.int8),
            np.full(cause.shape, BothEnd.CELL_DELAY, np.int8),
            _of_gpu(cause),
        ]
    )
    ways = np.stack([by_logic, by_delay, by_faults])
    first_way = ways.argmin(axis=0)[None]
    death = np.take_along_axis(ways, first_way, axis=0)[0]
    cause = np.take_along_axis(causes, first_way, axis=0)[0]
    last = death.argsort(axis=1, kind="stable")[:, spares : spares + 1]
    life = np.take_along_axis(death, last, axis=1)[:, 0]
    cause = np.where(np.isfinite(life), np.take_along_axis(cause, last, axis=1)[:, 0], 0)
    fault_years = np.sort(by_faults, axis=1)[:, spares]
    failed = fault_years[:, None] < np.array(ages_years)
    return GpuFates(
        cell_margin=np.where(failed, np.nan, _largest(clock.margins(slices.dvth_volts))),
        max_dvth_volts=np.where(failed, np.nan, _largest(slices.dvth_volts)),
        longest_duty=slices.longest_duty.max(axis=(1, 2)),
        cell_delay_years=np.sort(by_delay, axis=1)[:, spares],
        fault_years=fault_years,
        life_years=life,
        cause=cause.astype(np.int8),
    )


def too_slow_years(
    slices: SliceFates, limit_volts: NDArray[np.float64], root: float
) -> NDArray[np.float64]:
    """Age at which the worst cell of each slice has shifted by a limit: float64[I, n, k].

    Within an epoch, a power of the shift, the root of the model, grows evenly: exactly so where
    duty cycles stay the same. Infinite where it is not reached while the slice lives.

    Parameters
    ----------
    slices : SliceFates
        The slices.
    limit_volts : float64[I, n, 1]
        Limit for the cells of each SM, above 0.
    root : float
        Root of time with which the shift grows.
    """
    years = np.full(slices.fault_years.shape, np.inf)
    before, began = np.zeros(years.shape), np.zeros(years.shape)
    limit = np.broadcast_to(limit_volts, years.shape)
    for epoch in range(slices.dvth_volts.shape[-1]):
        after, ended = slices.dvth_volts[..., epoch], slices.ages_years[..., epoch]
        crossed = np.isinf(years) & (after >= limit)
        low, high, aim = (volts[crossed] ** root for volts in (before, after, limit))
        part = (aim - low) / (high - low)
        years[crossed] = began[crossed] + part * (ended - began)[crossed]
        before, began = after, ended
    return years


def _of_gpu(cause: NDArray[np.int8]) -> NDArray[np.int8]:
    """`BothEnd` of each `EndCause`."""
    table = np.zeros(max(EndCause) + 1, np.int8)
    table[list(_OF_SLICE)] = list(_OF_SLICE.values())
    return table[cause]


def _largest(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest of all slices that live: float64[I, n, k, E] to float64[I, E]; NaN if not finite."""
    largest = np.where(np.isnan(values), -np.inf, values).max(axis=(1, 2))
    return np.where(np.isinf(largest), np.nan, largest)
