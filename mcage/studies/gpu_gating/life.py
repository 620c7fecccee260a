"""Lives of GPUs under a policy, reading by reading."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mcage.aging.environment import TEMPERATURE_KELVIN, Environment, OperatingPoint
from mcage.aging.nbti import (
    SECONDS_PER_YEAR,
    Bhardwaj,
    NbtiModel,
    Phases,
    Rates,
    Transistors,
    nbti_model,
)
from mcage.distributions import Distribution
from mcage.errors import UserError
from mcage.gpu.chip import HIGHEST_KELVIN, Gpu
from mcage.random import stream
from mcage.studies.gpu_gating.policies import Policy, RankingPolicy, Readings, add_products
from mcage.studies.gpu_gating.spec import DAYS_PER_YEAR, GatingSpec, Sensors, Temperature
from mcage.studies.gpu_gating.workload import (
    Demand,
    GatedKernel,
    KernelDemands,
    KernelShares,
    row_sum,
)

# Errors of sensors, and the random numbers that policies draw.

_AHEAD = 32
"""Readings that are drawn at a time."""


class Noise:
    """Noise of the sensors of some GPUs; the same under every policy.

    Parameters
    ----------
    sensors : Sensors
        Standard deviations.
    seed : int
        Seed of the study.
    instances : int64[I]
        Ids of the GPUs.
    sms : int
        Sensors of a GPU, n.
    """

    def __init__(self, sensors: Sensors, seed: int, instances: NDArray[np.int64], sms: int) -> None:
        self._volts = _Normal(1e-3 * sensors.noise_mv, seed, "gpu.sensors", instances, sms)
        self._kelvin = _Normal(sensors.noise_kelvin, seed, "gpu.thermometers", instances, sms)
        self._lots = [stream(seed, "gpu.lots", i) for i in instances.tolist()]
        self._sms = sms

    def next(self) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """Return the noise of the next reading in V and K: float64[n, I], or None without any."""
        return self._volts.next(), self._kelvin.next()

    def uniform(self) -> NDArray[np.float64]:
        """Return numbers in 0 ... 1: float64[n, I]."""
        return np.stack([lots.random(self._sms) for lots in self._lots], axis=1)


class _Normal:
    """Normal numbers, reading by reading."""

    def __init__(
        self, sigma: float, seed: int, name: str, instances: NDArray[np.int64], sms: int
    ) -> None:
        self._sigma = sigma
        self._streams = [stream(seed, name, i) for i in instances.tolist()] if sigma else []
        self._ahead = np.empty((_AHEAD, sms, len(instances)))
        self._used = _AHEAD

    def next(self) -> NDArray[np.float64] | None:
        if not self._sigma:
            return None
        if self._used == _AHEAD:
            for column, generator in enumerate(self._streams):
                drawn = generator.standard_normal(self._ahead.shape[:2])
                self._ahead[:, :, column] = self._sigma * drawn
            self._used = 0
        noise: NDArray[np.float64] = self._ahead[self._used]
        self._used += 1
        return noise


# Temperatures of SMs from the shares of the time for which they work and are on.

_CLOSE_KELVIN = 1e-9
_MOST_STEPS = 200


def surroundings(temperature: Temperature, package_kelvin: float) -> Distribution:
    """Distribution of the temperature around GPUs; parameters as of `sample_surroundings`."""
    kelvin = temperature.ambient_kelvin
    if temperature.model == "fixed":
        kelvin = temperature.fixed_kelvin
    return Distribution.of(package_kelvin if kelvin is None else kelvin)


def sample_surroundings(
    temperature: Temperature, package_kelvin: float, seed: int, instances: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Temperature of the air around each GPU, or of its SMs where they are fixed.

    Parameters
    ----------
    temperature : Temperature
        What the spec says.
    package_kelvin : float
        Temperature of the air that the package of the GPU names.
    seed : int
        Seed of the study.
    instances : int64[I]
        Ids of the GPUs.

    Returns
    -------
    float64[I]
        K; each depends on seed and instance only.
    """
    distribution = surroundings(temperature, package_kelvin)
    if distribution.is_constant:
        return np.full(len(instances), distribution.numbers[0])
    lots = [stream(seed, "gpu.surroundings", i).random() for i in instances.tolist()]
    return np.array([distribution.at(lot) for lot in lots])


class SmTemperatures:
    """Temperatures and powers of SMs in steady state.

    Epochs are far longer than the time constants of a package (seconds): the mean power decides.

    Parameters
    ----------
    gpu : Gpu
        Network and powers.
    is_fixed : bool
        Whether all SMs of a GPU have the same temperature, whatever their powers.
    surroundings_kelvin : float64[I]
        Temperature of the air around each GPU; or, where temperatures are fixed, of its SMs.
    """

    def __init__(self, gpu: Gpu, is_fixed: bool, surroundings_kelvin: NDArray[np.float64]) -> None:
        self._gpu = gpu
        self._is_fixed = is_fixed
        self._air = surroundings_kelvin
        heated = gpu.sm_base_kelvin - gpu.network.package.ambient_kelvin
        self._base = heated[:, None] + surroundings_kelvin

    def all_on(self, shape: tuple[int, int]) -> NDArray[np.float64]:
        """Temperatures of GPUs whose SMs all work: float64[n, I], K."""
        ones = np.ones(shape)
        return self.of(ones, ones)[0]

    def of(
        self, working: NDArray[np.float64], on: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Temperatures of SMs in K, and their powers in W, which agree with each other.

        Parameters
        ----------
        working, on : float64[n, I]
            Shares of the time for which SMs work, and for which they are on.

        Raises
        ------
        UserError
            Static power and temperature drive each other without end, or an SM becomes hotter than
            the aging models are meant for.
        """
        if self._is_fixed:
            kelvin = np.broadcast_to(self._air, working.shape)
            return kelvin, self._power(working, on, kelvin)
        watts = self._power(working, on, self._air)
        kelvin = self._heated(watts)
        if self._gpu.sm_power.growth_per_kelvin:
            kelvin = self._converged(working, on, kelvin)
            watts = self._power(working, on, kelvin)
        self._refuse_hot(kelvin)
        return kelvin, watts

    def _power(
        self,
        working: NDArray[np.float64],
        on: NDArray[np.float64],
        kelvin: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Mean power of SMs at a temperature, W."""
        sm = self._gpu.sm_power
        static = sm.static_w * (sm.gated_share + (1 - sm.gated_share) * on)
        if sm.growth_per_kelvin:
            static = static * np.exp(sm.growth_per_kelvin * (kelvin - self._air))
        return static + sm.dynamic_w * working

    def _heated(self, power: NDArray[np.float64]) -> NDArray[np.float64]:
        # Not ``@``: BLAS sums in an order that depends on batch and threads.
        kelvin = self._base.copy()
        add_products(self._gpu.sm_kelvin_per_watt, power, kelvin)
        return kelvin

    def _converged(
        self, working: NDArray[np.float64], on: NDArray[np.float64], kelvin: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Repeat power and temperature until they agree; each GPU for itself."""
        for _ in range(_MOST_STEPS):
            self._refuse_hot(kelvin)
            warmer = self._heated(self._power(working, on, kelvin))
            moved = np.abs(warmer - kelvin).max(axis=0) > _CLOSE_KELVIN
            if not moved.any():
                break
            kelvin = np.where(moved, warmer, kelvin)
        return kelvin

    def _refuse_hot(self, kelvin: NDArray[np.float64]) -> None:
        if kelvin.max() > HIGHEST_KELVIN:
            sm = int(kelvin.max(axis=1).argmax())
            raise UserError(
                f"GPU {self._gpu.name}: SM{sm} reaches {kelvin.max():.0f} K; the aging models are "
                f"meant for at most {HIGHEST_KELVIN:g} K (power_w, package)"
            )


SECONDS_PER_DAY = SECONDS_PER_YEAR / DAYS_PER_YEAR

LONGEST_STEP_DAYS = 30.0
"""Longest step where nothing changes from reading to reading."""

_MOST_TRIES = 60
"""Moments at which a shift is computed to find when it reaches a limit; three are usual."""

_PART_ERROR = 1e-9
"""Error of that moment, about: a part of the step."""


@dataclass(frozen=True, eq=False)
class Population:
    """Samples of I GPUs with n SMs, before any policy.

    Parameters
    ----------
    instances : int64[I]
        Their ids.
    vt0_volts : float64[n, I]
        Unaged threshold voltages.
    shares : KernelShares
        Kernels that they launch.
    surroundings_kelvin : float64[I]
        Temperature of the air around them, or of their SMs where these are fixed.
    """

    instances: NDArray[np.int64]
    vt0_volts: NDArray[np.float64]
    shares: KernelShares
    surroundings_kelvin: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SmHistory:
    """History of n SMs of I GPUs until they are retired, or to the horizon.

    Parameters
    ----------
    on_share : float64[n, I]
        Share of the time for which each SM was on.
    kelvin : float64[n, I]
        Mean temperature while it was on; where it never was, mean temperature.
    too_slow_years : float64[n, I]
        Age at which it became too slow; infinite where it did not.
    """

    on_share: NDArray[np.float64]
    kelvin: NDArray[np.float64]
    too_slow_years: NDArray[np.float64]

    def of(self, gpus: NDArray[np.int64]) -> "SmHistory":
        """Return the history of selected GPUs."""
        return SmHistory(self.on_share[:, gpus], self.kelvin[:, gpus], self.too_slow_years[:, gpus])


@dataclass(frozen=True, eq=False)
class GatedLives:
    """Results of I GPUs at A ages.

    Parameters
    ----------
    margin_needed : float64[I, A]
        Delay of the slowest SM that is not retired over that of the slowest new SM, less 1.
    max_dvth_volts : float64[I, A]
        Largest threshold shift of all SMs.
    retired_sms : int8[I, A]
        SMs that have been given up.
    life_years : float64[I]
        Age at which more SMs are too slow than may be given up; the horizon where there is none.
    ended : bool[I]
        Whether there is such an age.
    slowdown : float64[I]
        Time of the work of the whole life relative to all SMs, less 1.
    sm_power_w : float64[I]
        Power of all SMs together, mean over the horizon.
    hottest_kelvin : float64[I]
        Highest temperature of an SM between two readings.
    of_sms : SmHistory
        What each SM went through.
    """

    margin_needed: NDArray[np.float64]
    max_dvth_volts: NDArray[np.float64]
    retired_sms: NDArray[np.int8]
    life_years: NDArray[np.float64]
    ended: NDArray[np.bool_]
    slowdown: NDArray[np.float64]
    sm_power_w: NDArray[np.float64]
    hottest_kelvin: NDArray[np.float64]
    of_sms: SmHistory


@dataclass(frozen=True, eq=False)
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

    spec: GatingSpec
    gpu: Gpu
    kernels: tuple[GatedKernel, ...]
    model: NbtiModel

    def run(self, policy: Policy, population: Population) -> GatedLives:
        """Return the lives of GPUs under a policy.

        Raises
        ------
        UserError
            A user-defined policy is wrong, or SMs become hotter than the aging models are meant
            for.
        """
        return _Run(self, policy, population).lives()

    @cached_property
    def demands(self) -> KernelDemands:
        """Load of the GPU by its kernels."""
        return KernelDemands(self.kernels, self.gpu.sms, self.spec.workload.utilisation)

    def temperatures(self, surroundings_kelvin: NDArray[np.float64]) -> SmTemperatures:
        """Temperatures of the SMs of GPUs with given surroundings."""
        is_fixed = self.spec.temperature.model == "fixed"
        return SmTemperatures(self.gpu, is_fixed, surroundings_kelvin)

    @cached_property
    def environment(self) -> Environment:
        """Supply voltage of its SMs; each has a temperature of its own."""
        point = OperatingPoint(self.spec.aging.vdd_volts, 1.0, TEMPERATURE_KELVIN)
        return Environment("gpu", (point,))

    def delay(self, vt_volts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Delay at a threshold voltage, relative to 1 V of overdrive (alpha-power law)."""
        overdrive = self.spec.aging.vdd_volts - vt_volts
        delay = np.full_like(overdrive, np.inf)
        np.power(overdrive, -self.model.alpha, out=delay, where=overdrive > 0)
        return delay

    def highest_vt(self, delay: NDArray[np.float64]) -> NDArray[np.float64]:
        """Threshold voltage at which a delay is reached; inverse of `delay`."""
        highest: NDArray[np.float64] = self.spec.aging.vdd_volts - delay ** (-1 / self.model.alpha)
        return highest


class _Run:
    """The lives of GPUs under one policy, in the making."""

    def __init__(self, lives: GpuLives, policy: Policy, population: Population) -> None:
        self._all = lives
        self._policy = policy
        self._vt0 = population.vt0_volts
        self._offered = population.shares
        spec, gpus = lives.spec, len(population.instances)
        self._shape = lives.gpu.sms, gpus
        self._noise = Noise(spec.sensors, spec.seed, population.instances, lives.gpu.sms)
        self._slowest_new = lives.delay(self._vt0).max(axis=0)
        slowest = self._slowest_new * (1 + spec.life.delay_guardband)
        self._dvth_limit = lives.highest_vt(slowest) - self._vt0
        self._state = lives.model.initial_state(self._shape)
        self._dvth = np.zeros(self._shape)
        self._too_slow_since = np.full(self._shape, np.inf)
        self._retired = np.zeros(self._shape, np.bool_)
        self._turn = np.zeros(gpus, np.int64)
        self._temperatures = lives.temperatures(population.surroundings_kelvin)
        self._kelvin = self._temperatures.all_on(self._shape)
        self._on = np.zeros(self._shape)
        self._rates: Rates | None = None
        self._demand: Demand | None = None
        self._watts = np.zeros(gpus)
        self._watt_days, self._slow_days = np.zeros(gpus), np.zeros(gpus)
        self._hottest = np.zeros(gpus)
        # Of each SM, until it is given up: days, days on, and both times its temperature.
        self._days, self._on_days = np.zeros(self._shape), np.zeros(self._shape)
        self._kelvin_days, self._kelvin_on_days = np.zeros(self._shape), np.zeros(self._shape)

    def lives(self) -> GatedLives:
        """Take the GPUs through their lives."""
        spec = self._all.spec
        ages = np.array(spec.report_years) * DAYS_PER_YEAR
        readings = self._readings_until(float(ages[-1]))
        margin, dvth, retired = [], [], []
        for start, end in self._steps(readings, ages):
            if start in readings:
                self._assign(start, readings[start])
            self._advance(start, end)
            if end in ages:
                margin.append(self._margin_needed())
                dvth.append(self._dvth.max(axis=0))
                retired.append(self._retired.sum(axis=0).astype(np.int8))
        years = self._death_days() / DAYS_PER_YEAR
        horizon = spec.life.horizon_years
        return GatedLives(
            margin_needed=np.stack(margin, axis=1),
            max_dvth_volts=np.stack(dvth, axis=1),
            retired_sms=np.stack(retired, axis=1),
            life_years=np.minimum(years, horizon),
            ended=years <= horizon,
            slowdown=self._slow_days / ages[-1],
            sm_power_w=self._watt_days / ages[-1],
            hottest_kelvin=self._hottest,
            of_sms=self._sm_history(),
        )

    @cached_property
    def _rotates(self) -> bool:
        return self._policy.rotates and self._all.spec.sensors.reassign == "launch"

    @cached_property
    def _is_constant(self) -> bool:
        """Whether all readings lead to the same shares of the time."""
        unread = self._rotates or not self._policy.gates
        return unread and self._offered.constant and self._all.spec.life.spare_sms == 0

    def _readings_until(self, horizon_days: float) -> dict[float, float]:
        """Days at which SMs are assigned, and until when."""
        interval = self._all.spec.sensors.interval_days
        if self._is_constant:
            interval = max(interval, LONGEST_STEP_DAYS)
        days = (np.arange(0, np.ceil(horizon_days / interval)) * interval).tolist()
        return dict(zip(days, [*days[1:], horizon_days], strict=True))

    @staticmethod
    def _steps(
        readings: dict[float, float], ages: NDArray[np.float64]
    ) -> list[tuple[float, float]]:
        """Steps between readings and reports."""
        edges = np.union1d(list(readings), ages).tolist()
        return list(pairwise(edges))

    def _assign(self, start_days: float, end_days: float) -> None:
        """Decide for which share of the time each SM works until the next reading."""
        if self._is_constant and self._rates is not None:
            return
        spec = self._all.spec
        if spec.life.spare_sms:
            self._retire()
        demand = self._demanded(start_days, end_days)
        working = self._working(demand)
        self._on = working
        if spec.workload.idle == "on":
            self._on = np.where(self._retired, 0.0, working + (1 - demand.busy))
        self._kelvin, watts = self._temperatures.of(working, self._on)
        self._watts = row_sum(watts)
        self._hottest = np.maximum(self._hottest, self._kelvin.max(axis=0))
        transistors = Transistors(vt0_volts=self._vt0, temperature_kelvin=self._kelvin)
        self._rates = self._all.model.rates(self._all.environment, transistors)

    def _demanded(self, start_days: float, end_days: float) -> Demand:
        """Load of the GPUs by their kernels between two readings."""
        spares = self._all.spec.life.spare_sms
        if self._demand is None or spares or not self._offered.constant:
            left = self._shape[0] - self._retired.sum(axis=0)
            shares = self._offered.between(start_days, end_days)
            available = left if spares else left[:1]
            self._demand = self._all.demands.of(shares, available, self._policy.gates)
        return self._demand

    def _working(self, demand: Demand) -> NDArray[np.float64]:
        """Share of the time for which each SM works: float64[n, I]."""
        policy = self._policy
        if self._rotates or not policy.gates:
            share = demand.busy
            if policy.gates:
                share = demand.mean_sms / (self._shape[0] - self._retired.sum(axis=0))
            return np.where(self._retired, 0.0, np.broadcast_to(share, self._shape))
        readings = self._readings()
        self._turn = self._turn + np.rint(demand.mean_sms / demand.busy).astype(np.int64)
        if isinstance(policy, RankingPolicy):
            ranks = policy.ranks(readings)
            if demand.by_rank.shape[1] == 1:
                return demand.by_rank[:, 0].take(ranks)
            return np.take_along_axis(demand.by_rank, ranks, axis=0)
        working = np.zeros(self._shape)
        for count in np.flatnonzero(demand.time_by_sms.any(axis=1)).tolist():
            needed = np.minimum(count, self._shape[0] - self._retired.sum(axis=0))
            working += demand.time_by_sms[count] * policy.workers(readings, needed)
        return np.minimum(working, demand.busy)

    def _readings(self) -> Readings:
        volts, kelvin = self._noise.next()
        dvth = self._dvth if volts is None else self._dvth + volts
        return Readings(
            dvth_volts=dvth,
            vt_volts=self._vt0 + dvth,
            temperature_kelvin=self._kelvin if kelvin is None else self._kelvin + kelvin,
            retired=self._retired,
            turn=self._turn,
            random=self._noise.uniform,
        )

    def _advance(self, start_days: float, end_days: float) -> None:
        """Age the SMs for a step."""
        assert self._rates is not None
        assert self._demand is not None
        model, days, before = self._all.model, end_days - start_days, self._state
        self._state = model.advance(before, self._rates, self._on, days * SECONDS_PER_DAY)
        dvth_before, self._dvth = self._dvth, model.dvth_of(self._state)
        crossed = (self._dvth > self._dvth_limit) & np.isinf(self._too_slow_since) & ~self._retired
        sms = crossed.nonzero()
        if len(sms[0]):
            part = self._crossing(before, dvth_before[sms], sms, days)
            self._too_slow_since[sms] = start_days + part * days
        self._watt_days += self._watts * days
        self._slow_days += self._demand.slowdown * days
        self._remember(days)

    def _crossing(
        self,
        state: NDArray[np.float64],
        dvth: NDArray[np.float64],
        sms: tuple[NDArray[np.int64], ...],
        days: float,
    ) -> NDArray[np.float64]:
        """Find the part of a step after which SMs become too slow: float64[k].

        Rates and shares of the time are the same all through a step, so that the model gives the
        shift at any moment of it. A power of it, the root of the model, grows nearly evenly while
        an SM works, and may fall before where it rests more than it used to: regula falsi, in the
        Illinois form, ends within few tries. Each SM is solved for by itself.

        Parameters
        ----------
        state : float64[state_size, n, I]
            States at the beginning of the step.
        dvth : float64[k]
            Shifts of these SMs at the beginning of the step.
        sms : tuple of int64[k]
            The SMs that become too slow, and their GPUs.
        days : float
            Length of the step.
        """
        assert self._rates is not None
        model, seconds = self._all.model, days * SECONDS_PER_DAY
        arrays = (self._rates.stress, self._rates.diffusion, self._on, self._dvth_limit)
        facts = np.stack([np.broadcast_to(array, self._shape)[sms] for array in arrays])
        first, last = (
            volts**model.root - facts[3] ** model.root for volts in (dvth, self._dvth[sms])
        )
        part = np.where(first < 0, 1.0, 0.0)
        bracket = np.stack([np.zeros_like(part), part, -first, last])
        allowed = _PART_ERROR * (last - first)
        sought, state = np.arange(len(part)), state[:, sms[0], sms[1]]
        was_late = np.full(part.shape, -1)
        left = (first < 0) & (last > 0)
        for _ in range(_MOST_TRIES):
            facts, bracket, state = facts[:, left], bracket[:, left], state[:, left]
            sought, allowed, was_late = sought[left], allowed[left], was_late[left]
            if not sought.size:
                break
            (stress, diffusion, on, limit), (low, high, below, above) = facts, bracket
            tried = low + (high - low) * (below / (below + above))
            moment = model.advance(state, Rates(stress, diffusion), on, tried * seconds)
            excess = model.dvth_of(moment) ** model.root - limit**model.root
            late = excess > 0
            part[sought] = tried
            # The end of a bracket that has stayed twice counts half, so that both ends close in.
            stays = np.where(late == was_late, 0.5, 1.0)
            bracket = np.where(
                late, [low, tried, below * stays, excess], [tried, high, -excess, above * stays]
            )
            was_late, left = late, np.abs(excess) > allowed
        return part

    def _remember(self, days: float) -> None:
        """Add a step to the times of SMs that are not retired."""
        kept = np.where(self._retired, 0.0, days)
        on_days = kept * self._on
        self._days += kept
        self._on_days += on_days
        self._kelvin_days += kept * self._kelvin
        self._kelvin_on_days += on_days * self._kelvin

    def _sm_history(self) -> SmHistory:
        worked = self._on_days > 0
        kelvin = self._kelvin_days / self._days
        np.divide(self._kelvin_on_days, self._on_days, out=kelvin, where=worked)
        return SmHistory(
            on_share=np.minimum(self._on_days / self._days, 1.0),
            kelvin=kelvin,
            too_slow_years=self._too_slow_since / DAYS_PER_YEAR,
        )

    def _margin_needed(self) -> NDArray[np.float64]:
        delay = np.where(self._retired, 0.0, self._all.delay(self._vt0 + self._dvth))
        margin: NDArray[np.float64] = delay.max(axis=0) / self._slowest_new - 1
        return margin

    def _retire(self) -> None:
        """Give up SMs that are too slow, the earliest first, as long as there are spares."""
        order = self._too_slow_since.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
        spare = order < self._all.spec.life.spare_sms
        self._retired = np.isfinite(self._too_slow_since) & spare

    def _death_days(self) -> NDArray[np.float64]:
        """Day on which more SMs have become too slow than may be given up."""
        in_order = np.sort(self._too_slow_since, axis=0)
        days: NDArray[np.float64] = in_order[self._all.spec.life.spare_sms]
        return days


# Aging launch by launch: the experiment of Chen et al., DAC 2014, section 6.

ROUND_SECONDS = 3.596e-4
"""Length of a round (reconstructed): 100 rounds of LU shift an SM that always works by the printed
6.78 mV. The paper says "about millisecond or more"."""

ROUNDS = 100
"""Rounds of a kernel (section 6.1)."""


def shifts_of_rounds(
    policy: Policy,
    counts: NDArray[np.int64],
    sms: int,
    seconds: float = ROUND_SECONDS,
    model: NbtiModel | None = None,
    gpus: int = 1,
) -> NDArray[np.float64]:
    """Shift of each SM after the last of some rounds at 1.0 V and 353.15 K, V: float64[sms, gpus].

    All SMs start new, and are equal. One that does not work is gated, and recovers.

    Parameters
    ----------
    policy : Policy
        Chooses the SMs that work.
    counts : int64[rounds]
        SMs that each round needs.
    sms : int
        SMs of a GPU.
    seconds : float
        Length of each round, s.
    model : NbtiModel, optional
        How SMs age, `Bhardwaj` phase by phase; by default that of the paper.
    gpus : int
        Number of GPUs, which differ in what a policy draws.
    """
    model = model or nbti_model("bhardwaj-unscaled")
    phases = Phases(model) if isinstance(model, Bhardwaj) else model
    rates = model.rates(Environment("rounds", (OperatingPoint(1.0, 1.0, TEMPERATURE_KELVIN),)))
    generators = [stream(1, "gpu.rounds", gpu) for gpu in range(gpus)]
    state, turn = phases.initial_state((sms, gpus)), np.zeros(gpus, np.int64)
    for count in counts.tolist():
        shifts = phases.dvth_of(state)
        readings = Readings(
            dvth_volts=shifts,
            vt_volts=model.vt0_volts + shifts,
            temperature_kelvin=np.full((sms, gpus), TEMPERATURE_KELVIN),
            retired=np.zeros((sms, gpus), np.bool_),
            turn=turn,
            random=lambda: np.stack([g.random(sms) for g in generators], axis=1),
        )
        needed = np.full(gpus, count if policy.gates else sms)
        state = phases.advance(state, rates, policy.workers(readings, needed), seconds)
        turn = turn + count
    return phases.dvth_of(state)
