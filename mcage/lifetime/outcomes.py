"""Results of lives: records of a batch, and the costs of each life."""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.aging.environment import Environment
from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.aging.transistors import TrapLaw
from mcage.aging.vmin import KINDS
from mcage.costs.activity import CONVENTIONAL, Activity
from mcage.costs.energy import CostedSlices, energy, protected_slice
from mcage.engines.stress import Turns, TurnsByEpoch, dvth_histogram
from mcage.geometry import Booleans, Bytes, Floats, Integers
from mcage.lifetime import BISECTIONS, RANKS, EndCause
from mcage.lifetime.degradation import Degradation
from mcage.lifetime.faults import NewFaults
from mcage.lifetime.feasibility import FaultFreeReplays, Slowdowns, SlowdownTiming
from mcage.protection.policy import ECP, Protection
from mcage.replays.outcome import EVENTS
from mcage.spec.cost_constants import Component, Penalties, Technology
from mcage.variation.fault_models import EntryFaults

MOMENTS = 3
"""Moments of an epoch at which its events are counted: start, middle of growth, end."""


@dataclass(frozen=True, eq=False)
class LifeEnd:
    """When and why lives ended.

    Attributes
    ----------
    seconds : float64[I]
        End of life, or the horizon where the life goes on.
    cause : int8[I]
        `EndCause`; `EndCause.CENSORED` where the life goes on at the horizon.
    """

    seconds: Floats
    cause: NDArray[np.int8]

    @classmethod
    def at_horizon(cls, instances: int, horizon_seconds: float) -> Self:
        """Lives that go on at the horizon."""
        return cls(
            np.full(instances, horizon_seconds),
            np.full(instances, EndCause.CENSORED, dtype=np.int8),
        )


@dataclass(frozen=True)
class SampledLuck:
    """In what the transistors of sampled cells differ that are stressed alike.

    Attributes
    ----------
    traps : TrapLaw
        The law of their shifts.
    scores : float64[2, I, sample]
        Scores of T0 and T1.
    """

    traps: TrapLaw
    scores: Floats


@dataclass(frozen=True, eq=False)
class SampledCells:
    """The sampled cells of I instances, whose shifts stand for the distribution over slices.

    Attributes
    ----------
    degradation : Degradation
        How transistors have shifted.
    instances : int
        Size of the batch.
    lived : int64[n]
        Instances whose life is not zero.
    age : float64[n]
        Their lives in seconds.
    luck : SampledLuck or None
        In what transistors differ that are stressed alike; None if in nothing.
    """

    degradation: Degradation
    instances: int
    lived: Integers
    age: Floats
    luck: SampledLuck | None = None

    def _dvth(self) -> Floats:
        """Shifts at the end of each life above zero: float64[2, n, sample]."""
        means = self.degradation.sampled_dvth(self.lived, self.age)
        if self.luck is None:
            return means
        scores = self.luck.scores[:, self.lived]
        return self.luck.traps.shift(means[:, :, : scores.shape[2]], scores)

    def dvth_volts(self) -> Floats:
        """Shifts at the end of each life: float64[I, sample, 2]; 0 for a life of zero."""
        dvth = self._dvth()
        of_all = np.zeros((2, self.instances, dvth.shape[2]))
        of_all[:, self.lived] = dvth
        return np.moveaxis(of_all, 0, 2)

    def histogram(self, bins: int) -> Integers:
        """Cells per shift, in bins of a millivolt, without lives of zero: int64[2, bins]."""
        if self.luck is None:
            return self.degradation.histogram(self.lived, self.age, bins)
        return dvth_histogram(self._dvth(), bins)


@dataclass(frozen=True, eq=False)
class DegradationOutcome:
    """How far transistors had shifted, T0 and T1 in the last axis; 0 for a life of zero.

    Attributes
    ----------
    max_dvth_volts : float64[I, 2]
        Shift of the worst transistor at the end of the life.
    longest_duty : float64[I, 2]
        Longest duty cycle over the life, at '0' and at '1'.
    delay_increase : float64[I]
        Relative delay increase of the path that decides, at the end of the life.
    sampled : SampledCells
        Shifts of the sampled cells at the end of the life.
    epoch_max_dvth_volts : float64[I, epochs, 2]
        Largest shift at the end of each epoch; NaN after death.
    """

    max_dvth_volts: Floats
    longest_duty: Floats
    delay_increase: Floats
    sampled: SampledCells
    epoch_max_dvth_volts: Floats


@dataclass(frozen=True, eq=False)
class WriteRates:
    """Shares of the kinds of register writes over lives; NaN for a life of zero.

    Attributes
    ----------
    fractions : float64[I, 4]
        Fractions of the writes: regular, redirected to reliable entries, redirected to faulty
        entries, spilled.
    memory : float64[I]
        Fraction of the writes that are spilled to memory.
    wakeups, movs, mispredictions : float64[I]
        Events per write.
    """

    fractions: Floats
    memory: Floats
    wakeups: Floats
    movs: Floats
    mispredictions: Floats


@dataclass(frozen=True, eq=False)
class Spills:
    """Rows that were spilled and found room.

    Attributes
    ----------
    peak_rows : int64[I]
        Largest number of rows over the life.
    epoch_peak_rows : float64[I, epochs]
        Largest number in each epoch; NaN after death.
    """

    peak_rows: Integers
    epoch_peak_rows: Floats

    @classmethod
    def none(cls, instances: int, epochs: int) -> Self:
        """Instances that have not spilled, and have not lived yet."""
        return cls(np.zeros(instances, dtype=np.int64), np.full((instances, epochs), np.nan))


@dataclass(frozen=True, eq=False)
class FaultyEntries:
    """Entries that are not reliable.

    Attributes
    ----------
    at_start, at_end : int64[I]
        Number of entries at the start and at the end of the life.
    epoch : float64[I, epochs]
        Number in each epoch; NaN after death.
    new_by_margin : int64[I, 3]
        Cells that aging has made faulty over the life, by margin; 0 where there is one alone.
    """

    at_start: Integers
    at_end: Integers
    epoch: Floats
    new_by_margin: Integers

    @classmethod
    def of(cls, fault_maps: Bytes, epochs: int) -> Self:
        """Instances with these fault maps, uint8[I, 256], that have not lived yet."""
        count = np.count_nonzero(fault_maps, axis=1)
        no_faults = np.zeros((len(count), len(KINDS)), dtype=np.int64)
        return cls(count, count.copy(), np.full((len(count), epochs), np.nan), no_faults)


@dataclass(frozen=True, eq=False)
class UncoveredByEpoch:
    """Words that hard faults have left without cover when epochs begin; NaN after death.

    Attributes
    ----------
    epoch_uncovered_bits : float64[I, epochs]
        Faulty bits that nothing repairs: `UncoveredFaults.bits`.
    epoch_words_at_risk : float64[I, epochs]
        Words whose code corrects a hard fault: `UncoveredFaults.words`.
    """

    epoch_uncovered_bits: Floats
    epoch_words_at_risk: Floats

    @classmethod
    def none(cls, instances: int, epochs: int) -> Self:
        """Instances that have not lived yet."""
        return cls(*(np.full((instances, epochs), np.nan) for _ in range(2)))

    def begin(self, instances: Integers, epoch: int, faults: EntryFaults) -> None:
        """Let instances begin an epoch with the faults of the batch."""
        uncovered = faults.of(instances).uncovered()
        self.epoch_uncovered_bits[instances, epoch] = uncovered.bits
        self.epoch_words_at_risk[instances, epoch] = uncovered.words


@dataclass(frozen=True, eq=False)
class UncorrectableWords:
    """The first uncorrectable words of I lives, in rising order of their ages.

    Words have a code, lie in entries that the technique cannot avoid, and have more faulty bits
    than their protection repairs. They are recorded up to the end of the epoch in which a life
    ends.

    Attributes
    ----------
    uncorrectable_years : float64[I, 8]
        Age of each; NaN where there are no more.
    uncorrectable_entry : int16[I, 8]
        Entry of each; -1 where there are no more.
    """

    uncorrectable_years: Floats
    uncorrectable_entry: NDArray[np.int16]

    @classmethod
    def none(cls, instances: int) -> Self:
        """Instances that have not lived yet."""
        shape = (instances, RANKS)
        return cls(np.full(shape, np.nan), np.full(shape, -1, dtype=np.int16))

    def begin(self, instances: Integers, faults: EntryFaults, needed: Booleans) -> None:
        """Record the words of new slices.

        Parameters
        ----------
        instances : int64[n]
            Positions in the batch.
        faults : EntryFaults
            Faults of the n instances.
        needed : bool[n, entries]
            Entries that each needs.
        """
        words = uncorrectable(faults, needed)
        self._record(instances, words, np.zeros(len(instances)))

    def grow(
        self, instances: Integers, new: NewFaults, after: EntryFaults, needed: Booleans
    ) -> None:
        """Record the words of the latest epochs.

        Parameters
        ----------
        instances : int64[n]
            Positions in the batch.
        new : NewFaults
            New faults of the n instances.
        after : EntryFaults
            Faults at the ends of the epochs.
        needed : bool[n, entries]
            Entries that each needs.
        """
        known, last = uncorrectable(new.earlier, needed), uncorrectable(after, needed)
        left = np.flatnonzero((last & ~known).any(axis=(1, 2)))
        new, known, last = new.of(left), known[left], last[left]
        while len(left):
            low, high, words_then = new.span.start, new.span.end, last.copy()
            count = known.sum(axis=(1, 2))
            for _ in range(BISECTIONS):
                middle = 0.5 * (low + high)
                words = uncorrectable(new.faults_at(middle), needed[left])
                more = words.sum(axis=(1, 2)) > count
                low, high = np.where(more, low, middle), np.where(more, middle, high)
                words_then[more] = words[more]
            self._record(instances[left], words_then & ~known, high)
            known = words_then | known
            going = (last & ~known).any(axis=(1, 2))
            going &= np.isnan(self.uncorrectable_years[instances[left], -1])
            chosen = np.flatnonzero(going)
            new, known, last, left = new.of(chosen), known[chosen], last[chosen], left[chosen]

    def _record(self, instances: Integers, words: Booleans, seconds: Floats) -> None:
        """Record words bool[n, entries, words] that become uncorrectable at float64[n]."""
        for place in np.flatnonzero(words.any(axis=(1, 2))).tolist():
            instance = instances[place]
            entries = np.nonzero(words[place])[0]
            first = int(np.count_nonzero(~np.isnan(self.uncorrectable_years[instance])))
            entries = entries[: RANKS - first]
            ranks = slice(first, first + len(entries))
            self.uncorrectable_years[instance, ranks] = seconds[place] / SECONDS_PER_YEAR
            self.uncorrectable_entry[instance, ranks] = entries


def uncorrectable(faults: EntryFaults, needed: Booleans) -> Booleans:
    """Words in needed entries that have more faulty bits than protection repairs.

    Parameters
    ----------
    faults : EntryFaults
        Faults of n instances.
    needed : bool[n, entries]
        Entries that each needs.

    Returns
    -------
    bool[n, entries, words]
    """
    lost = needed & (faults.maps != 0)
    words: Booleans = (faults.words > 1) & lost[..., None]
    return words


@dataclass(frozen=True, eq=False)
class LifeMoments:
    """Events at moments that stand for whole lives.

    Attributes
    ----------
    seconds : float64[I, epochs, MOMENTS]
        Weights of the moments of each epoch; their sum is the duration of the life. 0 after death.
    events : float64[I, epochs, MOMENTS, turns, EVENTS]
        Events per cycle of each kernel at these moments.
    kernel, weight : int64[I, epochs, turns], float64[I, epochs, turns]
        Kernels that take turns in each epoch, and the share of each in the busy time.
    """

    seconds: Floats
    events: Floats
    kernel: Integers
    weight: Floats

    @classmethod
    def none(cls, instances: int, workload: TurnsByEpoch) -> Self:
        """Instances that have not lived yet, and what they would run in each epoch."""
        epochs, turns = len(workload), len(workload[0])
        return cls(
            np.zeros((instances, epochs, MOMENTS)),
            np.zeros((instances, epochs, MOMENTS, turns, EVENTS)),
            workload.kernel,
            workload.weight,
        )

    @property
    def turns(self) -> Turns:
        """Kernels that take turns: [I, epochs, turns]."""
        return Turns(self.kernel, self.weight)

    def events_of_lives(self) -> Floats:
        """Seconds of each life times its mean events per cycle: float64[I, EVENTS]."""
        of_mixes = (self.weight[:, :, None, :, None] * self.events).sum(axis=3)
        totals: Floats = (self.seconds[..., None] * of_mixes).sum(axis=(1, 2))
        return totals


@dataclass(frozen=True, eq=False)
class LifeOutcomes:
    """Results of the instances of a batch in a case.

    Attributes
    ----------
    end : LifeEnd
        When and why lives ended.
    degradation : DegradationOutcome
        How far transistors had shifted.
    writes : WriteRates
        Shares of the kinds of register writes.
    spills : Spills
        Rows in the LDS.
    faulty_entries : FaultyEntries
        Entries that are not reliable.
    uncovered : UncoveredByEpoch
        Words that hard faults have left without cover.
    uncorrectable : UncorrectableWords
        When words become uncorrectable.
    moments : LifeMoments
        Events over the lives, from which `mcage.lifetime.outcomes` computes slowdown and power.
    """

    end: LifeEnd
    degradation: DegradationOutcome
    writes: WriteRates
    spills: Spills
    faulty_entries: FaultyEntries
    uncovered: UncoveredByEpoch
    uncorrectable: UncorrectableWords
    moments: LifeMoments


# Slowdown and power of a slice over its life: what its events cost, by `mcage.costs`.
#
# All quantities refer to the busy time. Where the slice holds its values while it is idle, that
# takes energy as well. A slower slice is idle for longer, too, so that it is busy for the same
# fraction of the time. Only where wavefronts wait for one another is it busy for a larger
# fraction, as in the trace that ages it.


@dataclass(frozen=True)
class Consumption:
    """Slowdown and power over lives, compared with a conventional slice that does the same work.

    All are NaN for a life of zero.

    Attributes
    ----------
    slowdown : float64[I]
        Busy time of the life over that of the conventional slice, less 1.
    slowdown_new : float64[I]
        The same of the new slice.
    epoch_slowdown : float64[I, epochs]
        The same at the end of each epoch, or of the life in it; NaN after death.
    power_mw : float64[I]
        Energy of the slice and of all that the technique adds, over the busy time of the life.
    energy_saving : float64[I]
        Energy saved over the conventional slice at the same operating points, as a fraction of the
        energy of that slice.
    conventional_power_mw : float64[I]
        Energy of the conventional slice at the nominal Vdd of the technology, over its busy time.
    """

    slowdown: Floats
    slowdown_new: Floats
    epoch_slowdown: Floats
    power_mw: Floats
    energy_saving: Floats
    conventional_power_mw: Floats

    @property
    def energy_saving_nominal(self) -> Floats:
        """Energy saved over the conventional slice at the nominal Vdd, as a fraction of it."""
        spent = self.power_mw * (1 + self.slowdown)
        return 1 - spent / self.conventional_power_mw


@dataclass(frozen=True, eq=False)
class Meter:
    """Adds up the slowdown and the energy of lives of a case.

    Parameters
    ----------
    fault_free : FaultFreeReplays
        The case's technique on each kernel.
    conventional : Activity
        The conventional slice on all kernels (`of_all`).
    environment : Environment
        Operating points. The slice runs at the Vdd of each, all other units at the nominal one.
    technology : Technology
        Constants of the components.
    penalties : Penalties
        Cycles that events cost.
    time_fractions_vary : bool
        Whether instances differ in their time fractions at the operating points.
    protection : Protection
        What protects the entries of the slice; a conventional slice has none but pointers.
    """

    fault_free: FaultFreeReplays
    conventional: Activity
    environment: Environment
    technology: Technology
    penalties: Penalties
    time_fractions_vary: bool = False
    protection: Protection = ECP

    def read(self, moments: LifeMoments, time_fractions: Floats | None = None) -> Consumption:
        """Add up lives.

        Parameters
        ----------
        moments : LifeMoments
            Kernels and events of the lives.
        time_fractions : float64[points, I], optional
            Fraction of the time at each operating point, to be given where they vary.
        """
        assert (time_fractions is not None) == self.time_fractions_vary
        seconds, events = moments.seconds, moments.events
        weights = np.ones(1) if time_fractions is None else time_fractions
        products = self._slices.add_up(
            seconds, events, moments.kernel, moments.weight, self._conventional
        )
        duration, done, nominal, *by_point = products.sum(axis=(2, 3))
        spent = other = np.zeros(len(seconds))
        for weight, power, reference in zip(weights, by_point[::2], by_point[1::2], strict=True):
            spent, other = spent + weight * power, other + weight * reference
        lived = (seconds != 0).any(axis=2)
        pace = Slowdowns.of(self.fault_free, SlowdownTiming(self.technology, self.penalties))
        mixes, new = moments.turns, Turns(moments.kernel[:, 0], moments.weight[:, 0])
        with np.errstate(invalid="ignore"):
            return Consumption(
                slowdown=duration / done - 1,
                slowdown_new=np.where(lived[:, 0], pace.of_mix(new, events[:, 0, 0]), np.nan),
                epoch_slowdown=np.where(lived, pace.of_mix(mixes, events[:, :, -1]), np.nan),
                power_mw=spent / duration,
                energy_saving=1 - spent / other,
                conventional_power_mw=nominal / done,
            )

    @cached_property
    def _technologies(self) -> tuple[Technology, ...]:
        """The technology at each operating point, or that of the whole life if no fraction varies.

        Energies are linear in the slice's constants, so that the mean of these stands for all
        points. Speed does not depend on them.
        """
        points = self.environment.points
        slices = [self.technology.slice_at(point.vdd_volts) for point in points]
        if self.time_fractions_vary:
            return tuple(replace(self.technology, slice=component) for component in slices)

        def mean(constant: str) -> float:
            pairs = zip(points, slices, strict=True)
            return math.fsum(
                point.time_fraction * getattr(component, constant) for point, component in pairs
            )

        constants = (field.name for field in fields(Component))
        return (replace(self.technology, slice=Component(*map(mean, constants))),)

    @cached_property
    def _protected(self) -> tuple[Technology, ...]:
        """The same with what protects the entries."""
        protected_by = self.protection, self.fault_free.geometry
        return tuple(
            replace(technology, slice=protected_slice(technology.slice, *protected_by))
            for technology in self._technologies
        )

    @cached_property
    def _slices(self) -> CostedSlices:
        given, happens = self.fault_free, self.fault_free.happens
        return CostedSlices(
            *(given.replays[0].technique, given.activity, happens.idle, happens.holding),
            *(self.penalties, self._protected, happens.events),
        )

    @cached_property
    def _conventional(self) -> Floats:
        """Energy per busy time at each technology, and at the nominal Vdd: [..., kernels]."""
        activity, idle = self.conventional, self.fault_free.happens.idle

        def power(technology: Technology) -> Floats:
            nanoseconds = activity.cycles / technology.clock_ghz
            busy = energy(activity, CONVENTIONAL, technology).total / nanoseconds
            return busy + technology.slice.leakage_mw * idle

        return np.stack([power(each) for each in (*self._technologies, self.technology)])
