"""When words of a slice become uncorrectable: the ages of the first ones among those in use."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.geometry import Booleans, Floats, Integers
from mcage.lifetime import BISECTIONS, RANKS
from mcage.lifetime.faults import NewFaults
from mcage.variation.fault_models import EntryFaults


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
