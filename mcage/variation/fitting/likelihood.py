"""How likely counts are: of each array, of all with some shares without a fault, of all together.

The three are what a user may have. Faulty bits at a voltage are split into those that are new at
it, since a cell stays faulty at lower voltages.
"""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from mcage.variation.fitting.counts import FaultCounts
from mcage.variation.fitting.two_levels import TwoLevels

STEP = 0.1
"""Step over the deviation of arrays, in standard deviations, where counts are small."""

MOST_POINTS = 20_000
TINY = 1e-300


class Observed(Protocol):
    """Counts whose likelihood can be computed, and which can be drawn again."""

    def log_likelihood(self, levels: TwoLevels) -> float:
        """Logarithm of their likelihood, up to a constant."""

    def again(self, counts: NDArray[np.int64]) -> Self:
        """The same made of other counts of each array, int64[A, V]."""


@dataclass(frozen=True, eq=False)
class EachArray:
    """Counts of each array: the exact likelihood.

    Attributes
    ----------
    volts : float64[V]
        Falling voltages.
    bits : int64[A]
        Bits of each array.
    new : float64[K, V + 1]
        The K different rows: new faulty bits at each voltage, and bits that never fail.
    times : int64[K]
        Arrays with each row.
    """

    volts: NDArray[np.float64]
    bits: NDArray[np.int64]
    new: NDArray[np.float64]
    times: NDArray[np.int64]

    @classmethod
    def of(
        cls, volts: NDArray[np.float64], bits: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> Self:
        """Count what is new of int64[A, V]."""
        new = np.diff(counts, axis=1, prepend=0)
        rows, times = np.unique(
            np.column_stack([new, bits - counts[:, -1]]), axis=0, return_counts=True
        )
        return cls(volts, bits, rows.astype(np.float64), times)

    def again(self, counts: NDArray[np.int64]) -> Self:
        """See `Observed`."""
        return self.of(self.volts, self.bits, counts)

    def log_likelihood(self, levels: TwoLevels) -> float:
        """See `Observed`: a multinomial number, averaged over the deviation of the array."""
        # Given many faults, the deviation of an array is known well: the rule has to be fine.
        most = np.sqrt(1.0 + self.new[:, :-1].sum(axis=1).max())
        width = levels.within_volts / (4.0 * most * levels.between_volts)
        points, weights = levels.rule(float(np.clip(0.5 * width, 16.0 / MOST_POINTS, STEP)))
        faulty = levels.faulty(points, self.volts)
        rising = np.diff(faulty, axis=1, prepend=0.0, append=1.0)
        log_share = np.log(np.maximum(rising, TINY))
        given = np.einsum("kv,nv->kn", self.new, log_share) + np.log(np.maximum(weights, TINY))
        highest = given.max(axis=1)
        each = highest + np.log(np.exp(given - highest[:, None]).sum(axis=1))
        return float((self.times * each).sum())


@dataclass(frozen=True, eq=False)
class SomeShares:
    """Counts of all arrays together, and how many arrays have no fault: a composite likelihood.

    New faults at each voltage count as a negative binomial number with the mean and the variance
    that the arrays give it, arrays without a fault as a binomial one, all as if independent. They
    are not, so that intervals cannot be read off this likelihood.

    Attributes
    ----------
    volts : float64[V]
        Falling voltages.
    arrays, bits : int
        Number of arrays, and bits of each.
    new : float64[V]
        New faulty bits of all arrays.
    known : bool[V]
        Where the arrays without a fault were counted.
    faultless : float64[V]
        Arrays without a fault.
    """

    volts: NDArray[np.float64]
    arrays: int
    bits: float
    new: NDArray[np.float64]
    known: NDArray[np.bool_]
    faultless: NDArray[np.float64]

    def again(self, counts: NDArray[np.int64]) -> "SomeShares":
        """See `Observed`."""
        new = np.diff(counts.sum(axis=0), prepend=0).astype(np.float64)
        faultless = (counts == 0).sum(axis=0).astype(np.float64)
        return SomeShares(self.volts, self.arrays, self.bits, new, self.known, faultless)

    def log_likelihood(self, levels: TwoLevels) -> float:
        """See `Observed`."""
        points, weights = levels.rule(STEP)
        faulty = levels.faulty(points, self.volts)
        rising = np.diff(faulty, axis=1, prepend=0.0)
        mean = weights @ rising
        spread = np.maximum(weights @ rising**2 - mean**2, 0.0)
        expected = np.maximum(self.arrays * self.bits * mean, TINY)
        # Beyond that of independent bits; 0 would be a Poisson number.
        excess = np.maximum(self.arrays * self.bits**2 * spread, 1e-9 * expected**2)
        shape = expected**2 / excess
        likelihood = (
            gammaln(self.new + shape)
            - gammaln(shape)
            + shape * np.log(shape / (shape + expected))
            + self.new * np.log(expected / (shape + expected))
        ).sum()
        sound = weights @ np.exp(self.bits * np.log1p(-np.minimum(faulty, 1 - 1e-12)))
        sound = sound[self.known].clip(TINY, 1 - 1e-15)
        without = self.faultless[self.known]
        likelihood += (without * np.log(sound)).sum()
        likelihood += ((self.arrays - without) * np.log1p(-sound)).sum()
        return float(likelihood)


@dataclass(frozen=True, eq=False)
class AllTogether:
    """Counts of all bits together, which are taken as independent.

    Attributes
    ----------
    volts : float64[V]
        Falling voltages.
    new : float64[V + 1]
        New faulty bits, and bits that never fail.
    """

    volts: NDArray[np.float64]
    new: NDArray[np.float64]

    def again(self, counts: NDArray[np.int64]) -> "AllTogether":
        """See `Observed`."""
        total = counts.sum(axis=0)
        new = np.diff(total, prepend=0, append=int(self.new.sum()))
        return AllTogether(self.volts, new.astype(np.float64))

    def log_likelihood(self, levels: TwoLevels) -> float:
        """See `Observed`: a multinomial number."""
        faulty = levels.faulty(np.zeros(1), self.volts)[0]
        rising = np.diff(faulty, prepend=0.0, append=1.0)
        return float((self.new * np.log(np.maximum(rising, TINY))).sum())


LEAST_ARRAYS = 10
"""Arrays below which a deviation between them is not told apart."""


def observed(counts: FaultCounts) -> Observed:
    """The counts in the form whose likelihood says most."""
    enough = counts.arrays >= LEAST_ARRAYS
    if enough and counts.by_array is not None and counts.array_bits is not None:
        return EachArray.of(counts.volts, counts.array_bits, counts.by_array)
    new = np.diff(counts.faulty, prepend=0).astype(np.float64)
    known = counts.faultless >= 0
    if enough and known.any():
        bits, faultless = counts.bits / counts.arrays, counts.faultless.astype(np.float64)
        return SomeShares(counts.volts, counts.arrays, bits, new, known, faultless)
    return AllTogether(counts.volts, np.append(new, counts.bits - new.sum()))
