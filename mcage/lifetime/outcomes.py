"""What became of a batch of instances: records of arrays, instance first."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.aging.margins import KINDS
from mcage.aging.traps import TrapLaw
from mcage.engines.stress import dvth_histogram
from mcage.lifetime.degradation.base import Degradation
from mcage.lifetime.end_cause import EndCause
from mcage.replays.outcome import EVENTS

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

    seconds: NDArray[np.float64]
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
    scores: NDArray[np.float64]


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
    lived: NDArray[np.int64]
    age: NDArray[np.float64]
    luck: SampledLuck | None = None

    def _dvth(self) -> NDArray[np.float64]:
        """Shifts at the end of each life above zero: float64[2, n, sample]."""
        means = self.degradation.sampled_dvth(self.lived, self.age)
        if self.luck is None:
            return means
        scores = self.luck.scores[:, self.lived]
        return self.luck.traps.shift(means[:, :, : scores.shape[2]], scores)

    def dvth_volts(self) -> NDArray[np.float64]:
        """Shifts at the end of each life: float64[I, sample, 2]; 0 for a life of zero."""
        dvth = self._dvth()
        of_all = np.zeros((2, self.instances, dvth.shape[2]))
        of_all[:, self.lived] = dvth
        return np.moveaxis(of_all, 0, 2)

    def histogram(self, bins: int) -> NDArray[np.int64]:
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

    max_dvth_volts: NDArray[np.float64]
    longest_duty: NDArray[np.float64]
    delay_increase: NDArray[np.float64]
    sampled: SampledCells
    epoch_max_dvth_volts: NDArray[np.float64]

    @property
    def sampled_dvth_volts(self) -> NDArray[np.float64]:
        """Shifts of the sampled cells: float64[I, sample, 2]."""
        return self.sampled.dvth_volts()


@dataclass(frozen=True, eq=False)
class WriteRates:
    """What became of the register writes of lives; NaN for a life of zero.

    Attributes
    ----------
    fractions : float64[I, 4]
        Fractions of the writes: regular, redirected to reliable entries, redirected to faulty
        entries, spilled to the LDS.
    wakeups, movs, mispredictions : float64[I]
        Events per write.
    """

    fractions: NDArray[np.float64]
    wakeups: NDArray[np.float64]
    movs: NDArray[np.float64]
    mispredictions: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Spills:
    """Rows that were spilled to the LDS and found room there.

    Attributes
    ----------
    peak_rows : int64[I]
        Largest number of rows over the life.
    epoch_peak_rows : float64[I, epochs]
        Largest number in each epoch; NaN after death.
    """

    peak_rows: NDArray[np.int64]
    epoch_peak_rows: NDArray[np.float64]

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
        Cells that aging has made faulty over the life, by margin; 0 where these are not told apart.
    """

    at_start: NDArray[np.int64]
    at_end: NDArray[np.int64]
    epoch: NDArray[np.float64]
    new_by_margin: NDArray[np.int64]

    @classmethod
    def of(cls, fault_maps: NDArray[np.uint8], epochs: int) -> Self:
        """Instances with these fault maps, uint8[I, 256], that have not lived yet."""
        count = count_faulty(fault_maps)
        no_faults = np.zeros((len(count), len(KINDS)), dtype=np.int64)
        return cls(count, count.copy(), np.full((len(count), epochs), np.nan), no_faults)


def count_faulty(fault_maps: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Faulty entries on fault maps: uint8[n, 256] to int64[n]."""
    # In words of eight entries, whose bytes are added up side by side.
    of_words = (fault_maps != 0).view(np.uint64).sum(axis=1, dtype=np.uint64)
    count: NDArray[np.int64] = of_words.view(np.uint8).reshape(-1, 8).sum(axis=1, dtype=np.int64)
    return count


@dataclass(frozen=True, eq=False)
class LifeMoments:
    """What happened at moments that stand for whole lives.

    Attributes
    ----------
    seconds : float64[I, epochs, MOMENTS]
        Weights of the moments of each epoch; their sum is the duration of the life. 0 after death.
    events : float64[I, epochs, MOMENTS, EVENTS]
        Events per cycle at these moments.
    """

    seconds: NDArray[np.float64]
    events: NDArray[np.float64]

    @classmethod
    def none(cls, instances: int, epochs: int) -> Self:
        """Instances that have not lived yet."""
        return cls(
            np.zeros((instances, epochs, MOMENTS)), np.zeros((instances, epochs, MOMENTS, EVENTS))
        )


@dataclass(frozen=True, eq=False)
class LifeOutcomes:
    """What became of the instances of a batch in a case.

    Attributes
    ----------
    end : LifeEnd
        When and why lives ended.
    degradation : DegradationOutcome
        How far transistors had shifted.
    writes : WriteRates
        What became of register writes.
    spills : Spills
        Rows in the LDS.
    faulty_entries : FaultyEntries
        Entries that are not reliable.
    moments : LifeMoments
        Events over the lives, from which `mcage.lifetime.costs` computes slowdown and power.
    """

    end: LifeEnd
    degradation: DegradationOutcome
    writes: WriteRates
    spills: Spills
    faulty_entries: FaultyEntries
    moments: LifeMoments
