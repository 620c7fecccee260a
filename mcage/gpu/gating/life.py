"""Lives of GPUs under a policy, reading by reading."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mcage.aging.environment import Environment, OperatingPoint
from mcage.aging.nbti import SECONDS_PER_YEAR, NbtiModel, Rates, Transistors
from mcage.gpu.chip import Gpu
from mcage.gpu.gating.kernels import GatedKernel
from mcage.gpu.gating.policies import Policy, RankingPolicy, Readings
from mcage.gpu.gating.sensing import Noise
from mcage.gpu.gating.spec import DAYS_PER_YEAR, GatingSpec
from mcage.gpu.gating.temperatures import SmTemperatures
from mcage.gpu.gating.workload import KernelShares

SECONDS_PER_DAY = SECONDS_PER_YEAR / DAYS_PER_YEAR

LONGEST_STEP_DAYS = 30.0
"""Longest step where nothing changes from reading to reading; the time at which an SM becomes too
slow is interpolated within a step."""


@dataclass(frozen=True, eq=False)
class Population:
    """What is sampled of I GPUs with n SMs, before any policy.

    Parameters
    ----------
    instances : int64[I]
        Their ids.
    vt0_volts : float64[n, I]
        Unaged threshold voltages.
    shares : KernelShares
        Kernels that they launch.
    """

    instances: NDArray[np.int64]
    vt0_volts: NDArray[np.float64]
    shares: KernelShares


@dataclass(frozen=True, eq=False)
class Lives:
    """What became of I GPUs at A ages.

    Parameters
    ----------
    margin_needed : float64[I, A]
        Delay of the slowest SM that is not retired over that of the slowest new SM, less 1.
    max_dvth_volts : float64[I, A]
        Largest threshold shift of all SMs.
    retired_sms : int8[I, A]
        SMs that have been given up.
    life_years : float64[I]
        Age at which more SMs are too slow than may be given up; the horizon where that is not so.
    ended : bool[I]
        Whether that is so.
    slowdown : float64[I]
        Time of the work of the whole life relative to all SMs, less 1.
    sm_power_w : float64[I]
        Mean power of all SMs together.
    hottest_kelvin : float64[I]
        Highest temperature of an SM, as a mean over a step.
    """

    margin_needed: NDArray[np.float64]
    max_dvth_volts: NDArray[np.float64]
    retired_sms: NDArray[np.int8]
    life_years: NDArray[np.float64]
    ended: NDArray[np.bool_]
    slowdown: NDArray[np.float64]
    sm_power_w: NDArray[np.float64]
    hottest_kelvin: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Demand:
    """What the kernels of an interval ask of GPUs.

    Parameters
    ----------
    time_by_sms : float64[n + 1, 1 or I]
        Share of the time in which so many SMs are at work.
    slowdown : float64[1 or I]
        Time of the work relative to all SMs, less 1.
    """

    time_by_sms: NDArray[np.float64]
    slowdown: NDArray[np.float64]

    @property
    def busy(self) -> NDArray[np.float64]:
        """Share of the time in which some SM is at work."""
        total: NDArray[np.float64] = self.time_by_sms.sum(axis=0)
        return total

    @cached_property
    def by_rank(self) -> NDArray[np.float64]:
        """Share of the time for which the SM at each place of a ranking works: [n, 1 or I]."""
        return np.ascontiguousarray(self.time_by_sms[:0:-1].cumsum(axis=0)[::-1])


class GpuLives:
    """Simulates lives of GPUs that differ in their transistors and launches.

    Parameters
    ----------
    spec : GatingSpec
        What to compute.
    gpu : Gpu
        Blocks, package and powers.
    kernels : tuple of GatedKernel
        Kernels that are launched.
    model : NbtiModel
        How transistors shift.
    """

    def __init__(
        self, spec: GatingSpec, gpu: Gpu, kernels: tuple[GatedKernel, ...], model: NbtiModel
    ) -> None:
        self._spec = spec
        self._gpu = gpu
        self._model = model
        self._needed = np.array([kernel.sms for kernel in kernels])
        self._time_ratio = np.array([kernel.time_ratio for kernel in kernels])
        self._temperatures = SmTemperatures(gpu, spec.temperature)
        self._environment = Environment("gpu", (OperatingPoint(spec.aging.vdd_volts, 1.0, 300.0),))

    def run(self, policy: Policy, population: Population) -> Lives:
        """Return the lives of GPUs under a policy.

        Raises
        ------
        UserError
            A policy of a user is wrong, or SMs become hotter than the aging models are meant for.
        """
        return _Run(self, policy, population).lives()

    # What a run draws on -------------------------------------------------------------------------

    @property
    def spec(self) -> GatingSpec:
        """The spec."""
        return self._spec

    @property
    def sms(self) -> int:
        """SMs of a GPU."""
        return self._gpu.sms

    @property
    def model(self) -> NbtiModel:
        """How transistors shift."""
        return self._model

    @property
    def temperatures(self) -> SmTemperatures:
        """Temperatures of SMs."""
        return self._temperatures

    def rates(
        self, vt0_volts: NDArray[np.float64], temperature_kelvin: NDArray[np.float64]
    ) -> Rates:
        """Rates of aging of SMs."""
        return self._model.rates(
            self._environment,
            Transistors(vt0_volts=vt0_volts, temperature_kelvin=temperature_kelvin),
        )

    def slowness(
        self, vt0_volts: NDArray[np.float64], dvth_volts: NDArray[np.float64] | float
    ) -> NDArray[np.float64]:
        """Delay of transistors relative to a transistor of 1 V overdrive (alpha-power law)."""
        overdrive = self._spec.aging.vdd_volts - vt0_volts - dvth_volts
        delay = np.full_like(overdrive, np.inf)
        np.power(overdrive, -self._model.alpha, out=delay, where=overdrive > 0)
        return delay

    def demand(
        self, policy: Policy, shares: NDArray[np.float64], available: NDArray[np.int64]
    ) -> Demand:
        """What kernels ask of GPUs that have SMs left.

        Parameters
        ----------
        policy : Policy
            Whether SMs are gated.
        shares : float64[kernels, 1 or I]
            Shares of the kernels in the busy time of GPUs whose SMs all work.
        available : int64[1 or I]
            SMs that are not retired.

        Notes
        -----
        A kernel that needs more SMs than there are takes longer in proportion (assumed).
        """
        needed = self._needed[:, None] if policy.gates else np.full((len(shares), 1), self.sms)
        ratio = self._time_ratio[:, None] if policy.gates else 1.0
        times = shares * ratio * np.maximum(needed / available, 1.0)
        taken = times.sum(axis=0)
        busy = np.minimum(self._spec.workload.utilisation * taken, 1.0)
        at_work = np.minimum(needed, available)
        by_sms = np.zeros((self.sms + 1, times.shape[1]))
        columns = np.arange(times.shape[1])
        for row, count in zip(times / taken * busy, np.broadcast_to(at_work, times.shape), strict=True):
            by_sms[count, columns] += row
        return Demand(by_sms, taken - 1)


class _Run:
    """The lives of GPUs under one policy, in the making."""

    def __init__(self, lives: GpuLives, policy: Policy, population: Population) -> None:
        self._all = lives
        self._policy = policy
        self._population = population
        spec, gpus = lives.spec, len(population.instances)
        self._shape = lives.sms, gpus
        self._noise = Noise(spec.sensors, spec.seed, population.instances, lives.sms)
        self._state = lives.model.initial_state(self._shape)
        self._slowest_new = lives.slowness(population.vt0_volts, 0.0).max(axis=0)
        self._dvth = np.zeros(self._shape)
        self._margin = lives.slowness(population.vt0_volts, 0.0) / self._slowest_new - 1
        self._retired = np.zeros(self._shape, np.bool_)
        self._slow_since = np.full(self._shape, np.inf)
        self._temperature = lives.temperatures.all_on(self._shape)
        self._turn = np.zeros(gpus, np.int64)
        self._shares: NDArray[np.float64] | None = None
        self._rates: Rates | None = None
        self._power = self._slowdown = np.zeros(gpus)
        self._hottest = np.zeros(gpus)

    def lives(self) -> Lives:
        """Take the GPUs through their lives."""
        spec = self._all.spec
        ages = np.array(spec.report_years) * DAYS_PER_YEAR
        reported: list[tuple[NDArray[np.float64], ...]] = []
        read = self._readings_at(float(ages[-1]))
        edges = np.union1d(read, np.concatenate([[0.0], ages]))
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if start in read:
                self._assign(start, min(read[read > start].min(initial=np.inf), float(ages[-1])))
            self._advance(start, end)
            if end in ages:
                working = np.where(self._retired, -np.inf, self._margin)
                reported.append(
                    (
                        working.max(axis=0),
                        self._dvth.max(axis=0),
                        self._retired.sum(axis=0).astype(np.int8),
                    )
                )
        years = self._death_days() / DAYS_PER_YEAR
        horizon = spec.life.horizon_years
        ended = years <= horizon
        margin, dvth, retired = (np.stack(part, axis=1) for part in zip(*reported, strict=True))
        days = float(ages[-1])
        return Lives(
            margin_needed=margin,
            max_dvth_volts=dvth,
            retired_sms=retired,
            life_years=np.where(ended, years, horizon),
            ended=ended,
            slowdown=self._slowdown / days,
            sm_power_w=self._power / days,
            hottest_kelvin=self._hottest,
        )

    @property
    def _is_constant(self) -> bool:
        """Whether all readings lead to the same shares of the time."""
        spec = self._all.spec
        at_launch = self._policy.rotates and spec.sensors.reassign == "launch"
        unread = at_launch or not self._policy.gates
        return unread and self._population.shares.constant and spec.life.spare_sms == 0

    def _readings_at(self, horizon_days: float) -> NDArray[np.float64]:
        """Days at which SMs are assigned."""
        interval = self._all.spec.sensors.interval_days
        if self._is_constant:
            interval = max(interval, LONGEST_STEP_DAYS)
        return np.arange(0, np.ceil(horizon_days / interval)) * interval

    def _assign(self, start_days: float, end_days: float) -> None:
        """Decide for which share of the time each SM works until the next reading."""
        if self._is_constant and self._rates is not None:
            return
        spec, policy = self._all.spec, self._policy
        self._retire()
        available = self._shape[0] - self._retired.sum(axis=0)
        offered = self._population.shares.between(start_days, end_days)
        if spec.life.spare_sms == 0:
            available = available[:1]
        demand = self._all.demand(policy, offered, available)
        working = self._working(demand)
        idle = 1 - demand.busy
        on = np.where(self._retired, 0.0, working + idle) if spec.workload.idle == "on" else working
        temperatures = self._all.temperatures
        self._temperature = temperatures.of(working, on)
        self._step_power = temperatures.power(working, on, self._temperature).sum(axis=0)
        self._step_slowdown = np.broadcast_to(demand.slowdown, self._shape[1:])
        self._shares = on
        self._rates = self._all.rates(self._population.vt0_volts, self._temperature)
        self._hottest = np.maximum(self._hottest, self._temperature.max(axis=0))

    def _working(self, demand: Demand) -> NDArray[np.float64]:
        """Share of the time for which each SM works: float64[n, I]."""
        policy, sms = self._policy, self._shape[0]
        counts = np.arange(sms + 1)[:, None]
        if not policy.gates:
            return np.where(self._retired, 0.0, np.broadcast_to(demand.busy, self._shape))
        if policy.rotates and self._all.spec.sensors.reassign == "launch":
            mean = (demand.time_by_sms * counts).sum(axis=0)
            return np.where(self._retired, 0.0, mean / (~self._retired).sum(axis=0))
        readings = self._readings()
        if isinstance(policy, RankingPolicy):
            working = np.take_along_axis(
                np.broadcast_to(demand.by_rank, self._shape), policy.ranks(readings), axis=0
            )
        else:
            working = np.zeros(self._shape)
            for count in np.flatnonzero(demand.time_by_sms.any(axis=1)).tolist():
                needed = np.minimum(count, (~self._retired).sum(axis=0))
                working += demand.time_by_sms[count] * policy.workers(readings, needed)
        mean = (demand.time_by_sms * counts).sum(axis=0) / demand.busy
        self._turn = self._turn + np.rint(mean).astype(np.int64)
        return working

    def _readings(self) -> Readings:
        volts, kelvin = self._noise.next()
        vt0 = self._population.vt0_volts
        return Readings(
            dvth_volts=self._dvth + volts,
            vt_volts=vt0 + self._dvth + volts,
            temperature_kelvin=self._temperature + kelvin,
            retired=self._retired,
            turn=self._turn,
            random=self._noise.uniform,
        )

    def _advance(self, start_days: float, end_days: float) -> None:
        """Age the SMs for a step."""
        assert self._rates is not None
        assert self._shares is not None
        days = end_days - start_days
        model = self._all.model
        before = self._margin
        self._state = model.advance(self._state, self._rates, self._shares, days * SECONDS_PER_DAY)
        self._dvth = model.dvth_of(self._state)
        slowness = self._all.slowness(self._population.vt0_volts, self._dvth)
        self._margin = slowness / self._slowest_new - 1
        limit = self._all.spec.life.delay_guardband
        if (self._margin > limit).any():
            crossed = (self._margin > limit) & np.isinf(self._slow_since) & ~self._retired
            part = (limit - before[crossed]) / (self._margin[crossed] - before[crossed])
            self._slow_since[crossed] = start_days + np.clip(part, 0.0, 1.0) * days
        self._power = self._power + self._step_power * days
        self._slowdown = self._slowdown + self._step_slowdown * days

    def _retire(self) -> None:
        """Give up SMs that are too slow, in the order in which they became so, while spares last."""
        spare = self._all.spec.life.spare_sms
        if spare == 0:
            return
        order = np.argsort(np.argsort(self._slow_since, axis=0, kind="stable"), axis=0)
        self._retired = np.isfinite(self._slow_since) & (order < spare)

    def _death_days(self) -> NDArray[np.float64]:
        """Day on which one SM more than there are spares has become too slow."""
        spare = self._all.spec.life.spare_sms
        days: NDArray[np.float64] = np.sort(self._slow_since, axis=0)[spare]
        return days
