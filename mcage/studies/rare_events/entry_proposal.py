"""How many cells of an entry lie above a level, and entries drawn faulty more often than they are.

Given what the cells of a slice share, the cells of a segment are independent, and the number of
them above a level is binomial. An entry with two such cells or more is faulty. Whether it is may
be drawn with odds multiplied by any factor; given the answer, its cells follow their own law, so
that the likelihood ratio of a whole slice depends on its number of faulty entries only.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtr

from mcage.geometry import SLICE
from mcage.studies.rare_events.vmin_gaussian import VminGaussian
from mcage.variation.fault_map import REPAIRED_BITS

FAULTY_BITS = REPAIRED_BITS + 1
"""Cells above the level that make an entry faulty: 2."""


@dataclass(frozen=True)
class EntryProposal:
    """Law of the cells above a level in the entries of a slice, given its nodes.

    Attributes
    ----------
    bits : int
        Cells of a segment.
    above : float64[..., node_rows, node_columns]
        Probability that a cell lies above the level.
    at_least : float64[3, ..., node_rows, node_columns + 1]
        Probability that, from a column on, an entry has at least 0, 1, 2 cells above it.
    """

    bits: int
    above: NDArray[np.float64]
    at_least: NDArray[np.float64]

    @classmethod
    def of(
        cls, law: VminGaussian, node_volts: NDArray[np.float64], level_volts: float
    ) -> "EntryProposal":
        """Law at a level.

        Parameters
        ----------
        law : SliceLaw
            Law of the slice.
        node_volts : float64[..., node_rows, node_columns]
            Mean Vmin at the nodes.
        level_volts : float
            The level.
        """
        bits = law.scenario.segment_bits
        above = ndtr((node_volts - level_volts) / law.random_volts)
        # Sums of positive terms only: exact to rounding however rare two cells in an entry are.
        one = _exactly_one(bits, above)
        none, some, two = (1.0 - above) ** bits, *(_at_least(bits, k, above) for k in (1, 2))
        columns = above.shape[-1]
        at_least = np.zeros((FAULTY_BITS + 1, *above.shape[:-1], columns + 1))
        at_least[0] = 1.0
        for c in reversed(range(columns)):
            later = at_least[..., c + 1]
            at_least[1, ..., c] = some[..., c] + none[..., c] * later[1]
            at_least[2, ..., c] = two[..., c] + one[..., c] * later[1] + none[..., c] * later[2]
        # Sums of rounded terms may exceed a probability's bounds by a rounding.
        return cls(bits, above, np.minimum(at_least, 1.0))

    @property
    def faulty(self) -> NDArray[np.float64]:
        """Probability that an entry is faulty: float64[..., node_rows]."""
        return self.at_least[FAULTY_BITS, ..., 0]

    def at(self, instance: int) -> "EntryProposal":
        """Law of one slice out of many."""
        return EntryProposal(self.bits, self.above[instance], self.at_least[:, instance])

    def draw(
        self, law: VminGaussian, log_odds: float, generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """Number of cells above the level in every segment of one slice.

        Parameters
        ----------
        law : SliceLaw
            Law of the slice.
        log_odds : float
            Logarithm of the factor on the odds that an entry is faulty; 0 for the law as it is.
        generator : Generator
            Source of random numbers.

        Returns
        -------
        int64[256, node_columns]
        """
        above = law.of_entries(self.above)
        columns = above.shape[1]
        faulty = law.of_entries(self.faulty)
        odds = np.exp(log_odds) * faulty
        tilted = odds / (1.0 - faulty + odds)
        entries = len(above)
        is_faulty = generator.random(entries) < tilted

        # At most one cell: none, or one in a column with odds p / (1 - p) against none.
        counts = np.zeros((entries, columns), dtype=np.int64)
        single = np.cumsum(self.bits * above / np.maximum(1.0 - above, 1e-300), axis=1)
        place = generator.random(entries) * (1.0 + single[:, -1]) - 1.0
        alone = np.flatnonzero(~is_faulty & (place >= 0))
        column = (place[alone, None] >= single[alone]).sum(axis=1)
        counts[alone, np.minimum(column, columns - 1)] = 1

        chosen = np.flatnonzero(is_faulty)
        if not len(chosen):
            return counts
        at_least = np.stack([law.of_entries(one) for one in self.at_least])[:, chosen]
        counts[chosen] = self._two_or_more(above[chosen], at_least, generator)
        return counts

    def _two_or_more(
        self,
        above: NDArray[np.float64],
        at_least: NDArray[np.float64],
        generator: np.random.Generator,
    ) -> NDArray[np.int64]:
        """Counts of some entries, given that each has two cells or more above the level."""
        entries, columns = above.shape
        each = np.arange(entries)
        uniform = generator.random((columns, entries))
        missing = np.full(entries, FAULTY_BITS)
        least = np.zeros((entries, columns), dtype=np.int64)
        exact = np.zeros((entries, columns), dtype=bool)
        for c in range(columns):
            p = above[:, c]
            share = uniform[c] * at_least[missing, each, c]
            none = (1.0 - p) ** self.bits * at_least[missing, each, c + 1]
            one = _exactly_one(self.bits, p) * at_least[np.maximum(missing - 1, 0), each, c + 1]
            takes_none = (missing > 0) & (share < none)
            takes_one = (missing == 2) & ~takes_none & (share < none + one)
            exact[:, c] = takes_none | takes_one
            least[:, c] = np.where(takes_none, 0, np.where(takes_one, 1, missing))
            missing = missing - least[:, c]
        open_ones = ~exact
        least[open_ones] = _binomial(self.bits, above[open_ones], least[open_ones], generator)
        return least


def log_ratio(
    law: VminGaussian,
    entries: EntryProposal,
    log_odds: NDArray[np.float64],
    faulty_entries: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Logarithm of density with odds multiplied over density without.

    Parameters
    ----------
    law : SliceLaw
        Law of the slice.
    entries : EntryLaw
        Laws of I slices.
    log_odds : float64[I]
        Logarithm of the factor on the odds that an entry is faulty, for each.
    faulty_entries : int64[I]
        Faulty entries of these slices.
    """
    each_row = np.log1p(np.expm1(log_odds)[:, None] * entries.faulty)
    per_row = SLICE.entries // law.scenario.node_rows
    ratio: NDArray[np.float64] = log_odds * faulty_entries - per_row * each_row.sum(axis=-1)
    return ratio


def _exactly_one(bits: int, above: NDArray[np.float64]) -> NDArray[np.float64]:
    one: NDArray[np.float64] = bits * above * (1.0 - above) ** (bits - 1)
    return one


def _at_least(bits: int, count: int, above: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability of at least that many successes, count >= 1."""
    probability: NDArray[np.float64] = betainc(count, bits - count + 1, above)
    return probability


def _binomial(
    bits: int,
    above: NDArray[np.float64],
    least: NDArray[np.int64],
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Binomial numbers, given that each is at least so large (0, 1 or 2), by inversion."""
    ways = np.array([1.0, bits, bits * (bits - 1) / 2])[least]
    mass = ways * above**least * (1.0 - above) ** (bits - least)
    total = np.where(least == 0, 1.0, _at_least(bits, 1, above))
    total = np.where(least == 2, _at_least(bits, 2, above), total)
    left = generator.random(len(above)) * total - mass
    count = least.copy()
    odds = above / np.maximum(1.0 - above, 1e-300)
    active = np.flatnonzero(left >= 0)
    while len(active):
        mass[active] *= (bits - count[active]) / (count[active] + 1) * odds[active]
        count[active] += 1
        left[active] -= mass[active]
        active = active[(left[active] >= 0) & (count[active] < bits)]
    return count
