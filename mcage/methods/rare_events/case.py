"""One case of a rare-event study, its estimate with its interval, and what warns of it."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mcage.aging.environment import dvth_at_delay
from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.engines.interface import Engine
from mcage.engines.programs import PROGRAM_BATCH
from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.degradation import most_instances
from mcage.lifetime.faults import SliceLuck, limits_of_batch
from mcage.lifetime.feasibility import FaultFreeReplays, Feasibility
from mcage.lifetime.simulator import SliceBatch, simulate_lifetimes
from mcage.methods.rare_events.proposals import LifeDistribution, LifeDraws, VminGaussian
from mcage.protection.policy import DEFAULT
from mcage.single_runs.replay import SingleCase
from mcage.spec import SweepSpec
from mcage.stats.estimates import Estimate
from mcage.stats.survival import fit_of_share, in_ppm
from mcage.studies.sweep.plan import kernels_of
from mcage.studies.sweep.study import Sweep
from mcage.variation.fault_models import NewSlices
from mcage.variation.vmin_tail import TailCells

MOST_MIXES = 1000
"""Largest number of mixes that proposals favour one by one."""

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
        """Sampler of the margins by which cells of slices fail: as in a sweep of that seed."""
        return SliceLuck(seed, instances, self.fault_free.geometry.cells)

    def cause(self, lives: LifeDraws, tail: TailCells, luck: SliceLuck) -> NDArray[np.int8]:
        """Cause of death of slices by that age.

        Parameters
        ----------
        lives : LifeDraws
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
        protection = self.conditions.protection
        cause_of = self._cause_by_the_age if self.age_years > 0 else self._cause_on_arrival
        for first in range(0, len(lives), size):
            batch = np.arange(first, min(first + size, len(lives)))
            new = NewSlices.at(lowest_volts, _of(tail, batch), protection)
            cause[batch] = cause_of(lives.of(batch), new, luck.of(batch))
        return cause

    def _cause_by_the_age(
        self, lives: LifeDraws, new: NewSlices, luck: SliceLuck
    ) -> NDArray[np.int8]:
        new, limits = limits_of_batch(self.conditions, new, luck)
        slices = SliceBatch(
            workload=self.lives.workload(lives),
            new=new,
            sampled_cells=np.empty((len(lives), 0), dtype=np.int64),
            constants=self.lives.constants_of(lives),
            limits=limits,
        )
        end = simulate_lifetimes(self.conditions, self.engine, self.fault_free, slices).end
        in_time = end.seconds <= self.age_years * SECONDS_PER_YEAR
        return np.where(in_time, end.cause, EndCause.CENSORED).astype(np.int8)

    def _cause_on_arrival(
        self, lives: LifeDraws, new: NewSlices, luck: SliceLuck
    ) -> NDArray[np.int8]:
        """Causes that keep new slices from running their first kernels; nothing need age."""
        feasibility = Feasibility(self.engine, self.fault_free, self.conditions.limits)
        turns = self.lives.workload(lives)[0]
        with self.engine.working():
            return feasibility.replay(np.arange(len(lives)), turns, new.faults.maps).end_cause


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
    lives : LifeDraws
        What decided it besides the cells.
    """

    weights: NDArray[np.float64]
    cause: NDArray[np.int8]
    lives: LifeDraws

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
            LifeDraws.join([part.lives for part in parts]),
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
    if spec.protections != (DEFAULT,):
        raise UserError(
            f"protections = {spec.protections[0]!r}: the proposals for rare events know entries "
            f"with a pointer alone, {DEFAULT!r}; leave it out"
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
    turns = _turns_of(spec)
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
            turns=turns,
        ),
    )


def _turns_of(spec: SweepSpec) -> int:
    """Number of kernels of a mix, as `LifeDistribution` takes it."""
    workload, kernels = spec.workload, len(kernels_of(spec))
    if workload.schedule == "sequential":
        return 0
    turns = min(workload.mix_size, kernels)
    mixes = kernels if workload.mix == "one" else math.comb(kernels, turns)
    if isinstance(workload.mix, str) and mixes > MOST_MIXES:
        raise UserError(
            f"workload.mix_size = {workload.mix_size}: {kernels} kernels make {mixes} mixes, and "
            f"rare events know at most {MOST_MIXES}; give fewer kernels, or mix one"
        )
    return turns


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


# A small probability estimated from weighted failures, its interval and its warnings.

CONFIDENCE = 0.95
FEW_EFFECTIVE = 100.0
"""Effective samples below which the interval is not to be relied upon."""

LARGE_SHARE = 0.1
"""Share of the estimate that a single failure makes up, above which others may be missing."""

WEIGHT_ERRORS = 4.0
"""Standard errors by which the mean weight may differ from 1."""


@dataclass(frozen=True)
class RareEstimate:
    """A probability estimated from weighted samples.

    Attributes
    ----------
    probability : float
        The estimate.
    lower, upper : float
        Bounds of its confidence interval.
    confidence : float
        Probability that the interval covers, 0 ... 1.
    instances : int
        Number of samples.
    failures : int
        How many of them failed.
    effective_samples : float
        Kish's effective number of the failures: (sum of weights)**2 / sum of squared weights.
    relative_error : float
        Standard error over estimate; infinite without failures.
    largest_share : float
        Share of the estimate that the failure with the largest weight makes up; 0 without
        failures.
    mean_weight, mean_weight_error : float
        Mean of all weights, whose expectation is 1, and its standard error.
    warnings : tuple of str
        Reasons not to rely on the estimate; empty if there are none.
    """

    probability: float
    lower: float
    upper: float
    confidence: float
    instances: int
    failures: int
    effective_samples: float
    relative_error: float
    largest_share: float
    mean_weight: float
    mean_weight_error: float
    warnings: tuple[str, ...]

    @property
    def failed_ppm(self) -> Estimate:
        """The probability and its bounds in parts per million."""
        return in_ppm(self._share)

    def mean_rate_fit(self, age_years: float) -> Estimate:
        """Mean failure rate until the age that was asked for, in failures in 1e9 hours.

        Parameters
        ----------
        age_years : float
            That age, above 0; deaths on arrival are among the failures.
        """
        return fit_of_share(self._share, age_years)

    @property
    def _share(self) -> Estimate:
        return Estimate(self.probability, self.lower, self.upper)


def estimate(
    weights: NDArray[np.float64],
    failed: NDArray[np.bool_],
    plain_share: float,
    confidence: float = CONFIDENCE,
) -> RareEstimate:
    """Estimate a probability from weighted samples.

    Parameters
    ----------
    weights : float64[n]
        Plain density of each sample over the density that it was drawn with.
    failed : bool[n]
        Which samples failed.
    plain_share : float
        Share of the plain distribution in the mixture that samples are drawn from, above 0.
    confidence : float
        Probability that the interval covers, 0 ... 1.

    Notes
    -----
    The logarithm of the estimate is taken to be normal, with the standard deviation that the
    weighted failures show (delta method). Without failures the upper bound is what the samples
    from the plain distribution alone would allow, and the lower bound is 0.
    """
    count = len(weights)
    weighted = np.where(failed, weights, 0.0)
    total = float(weighted.sum())
    mean_weight_error = float(weights.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    probability = min(1.0, total / count)  # the mean weight is not exactly 1
    if total == 0:
        most = -math.expm1(math.log((1 - confidence) / 2) / count)
        lower, upper, relative_error = 0.0, min(1.0, most / plain_share), math.inf
    else:
        # Rounding must not let a sum of squares fall below its least possible value.
        scaled = _scaled(weighted)
        ratio = float((scaled**2).sum()) / float(scaled.sum()) ** 2
        relative_error = math.sqrt(max(ratio - 1 / count, 0.0) * count / (count - 1))
        spread = math.exp(float(ndtri((1 + confidence) / 2)) * relative_error)
        lower, upper = probability / spread, min(1.0, probability * spread)
    effective = effective_number(weighted)
    largest = float(weighted.max()) / total if total else 0.0
    mean_weight = float(weights.mean())
    return RareEstimate(
        probability=probability,
        lower=lower,
        upper=upper,
        confidence=confidence,
        instances=count,
        failures=int(failed.sum()),
        effective_samples=effective,
        relative_error=relative_error,
        largest_share=largest,
        mean_weight=mean_weight,
        mean_weight_error=mean_weight_error,
        warnings=_warnings(effective, largest, mean_weight, mean_weight_error),
    )


def _scaled(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights times a power of two, which rounds nothing, so that no square is too small."""
    scaled: NDArray[np.float64] = np.ldexp(weights, -math.frexp(float(weights.max(initial=0.0)))[1])
    return scaled


def effective_number(weights: NDArray[np.float64]) -> float:
    """Kish's number of equal weights whose mean is as precise; 0 if all weights are 0."""
    weights = _scaled(weights)
    total, squares = float(weights.sum()), float((weights**2).sum())
    return total**2 / squares if total else 0.0


def _warnings(
    effective: float, largest: float, mean_weight: float, mean_weight_error: float
) -> tuple[str, ...]:
    warnings = []
    if effective == 0:
        warnings.append("no sample failed: the upper bound is all there is; ask for more instances")
    elif effective < FEW_EFFECTIVE:
        warnings.append(
            f"only {effective:.3g} effective samples failed, fewer than {FEW_EFFECTIVE:g}: the "
            "interval may be too narrow; ask for more instances"
        )
    if largest > LARGE_SHARE:
        warnings.append(
            f"one sample makes up {largest:.0%} of the estimate: others like it may be missing; "
            "ask for more instances"
        )
    if abs(mean_weight - 1) > WEIGHT_ERRORS * mean_weight_error + 1e-9:
        warnings.append(
            f"the mean weight is {mean_weight:.4g} +- {mean_weight_error:.1g}, not 1: some kind of "
            "slice is missing from the sample"
        )
    return tuple(warnings)


# Checks of an estimate: deaths that its sample may have missed, and an exact result.
#
# Slices and lives are drawn such that faults or delay kill them, as far as a search has come upon
# such lives. A death that is rare for another reason is as hard to see as in a sweep.

FEW_RUNS = 10
"""Slices that must have run a kernel for deaths under it to be seen."""


def unseen(
    case: RareCase, lives: WeightedLives, plain_share: float, favours_delay: bool
) -> tuple[str, ...]:
    """Warnings about kinds of death that are too rare in a sample.

    Parameters
    ----------
    case : RareCase
        The case.
    lives : WeightedLives
        The sample.
    plain_share : float
        Share of the slices that are drawn as in a sweep.
    favours_delay : bool
        Whether lives that end by delay are favoured.
    """
    warnings = []
    by_delay = effective_number(lives.weights[lives.cause == EndCause.DELAY])
    if by_delay < FEW_EFFECTIVE and not favours_delay and may_be_late(case):
        warnings.append(
            f"by this age a slice may also die of delay, and {by_delay:.3g} effective samples did: "
            f"a chance of that below {3 / (plain_share * len(lives.weights)):.1g} stays unseen"
        )
    workload = case.lives.workload(lives.lives)
    kernels_of_life = np.concatenate([turns.kernel for turns in workload], axis=1)
    for kernel, name in enumerate(case.lives.kernels):
        runs = int((kernels_of_life == kernel).any(axis=1).sum())
        if runs < FEW_RUNS:
            warnings.append(
                f"{runs} of the slices drawn run {name}: what kills under it stays unseen; "
                "estimate it alone"
            )
    return tuple(warnings)


def may_be_late(case: RareCase) -> bool:
    """Whether any transistor could use up the delay guardband by the age of a case.

    No transistor degrades further than one that is stressed all the time, within the bounds of the
    distributions; so the bound warns too often rather than too seldom.
    """
    conditions = case.conditions
    largest = conditions.nbti.largest_dvth(
        conditions.environment, case.age_years * SECONDS_PER_YEAR, conditions.distributions.extremes
    )
    limits_volts = dvth_at_delay(
        conditions.delay_guardband,
        conditions.environment.highest_vdd_volts,
        np.array(conditions.distributions.vt0_volts.bounds),
        conditions.nbti.alpha,
    )
    return largest >= float(limits_volts.min())
