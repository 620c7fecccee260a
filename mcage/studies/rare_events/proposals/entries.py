"""Cells of one slice above a level of Vmin, drawn such that more entries than usual are faulty.

Given the mean Vmin at the nodes of a slice, the cells of a segment are independent, and how many of
them lie above a level is binomial. An entry with two such cells or more is faulty. Whether it is
faulty may be drawn with odds multiplied by any factor. Given the answer, its cells follow their
plain distribution, so that the likelihood ratio of a whole slice depends on its number of faulty
entries only. The cells themselves are placed once their numbers in all segments are known.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, log_ndtr, ndtr, ndtri, ndtri_exp

from mcage.studies.rare_events.proposals.vmin_gaussian import VminGaussian
from mcage.variation.fault_maps import REPAIRED_BITS

FAULTY_BITS = REPAIRED_BITS + 1
"""Cells above the level that make an entry faulty: 2."""


@dataclass(frozen=True)
class EntryProposal:
    """Distribution of the cells above a level in the entries of slices, given their nodes.

    Attributes
    ----------
    entries, bits : int
        Entries of a slice, and cells of a segment.
    above : float64[..., node_rows, node_columns]
        Probability that a cell lies above the level.
    exactly : float64[2, ..., node_rows, node_columns]
        Probability that a segment has exactly 0, 1 cells above it.
    in_segment : float64[3, ..., node_rows, node_columns]
        Probability that a segment has at least 0, 1, 2 cells above it.
    at_least : float64[3, ..., node_rows, node_columns + 1]
        Probability that, from a column on, an entry has at least 0, 1, 2 cells above it.
    """

    entries: int
    bits: int
    above: NDArray[np.float64]
    exactly: NDArray[np.float64]
    in_segment: NDArray[np.float64]
    at_least: NDArray[np.float64]

    @classmethod
    def of(
        cls, distribution: VminGaussian, node_volts: NDArray[np.float64], level_volts: float
    ) -> "EntryProposal":
        """Compute the distribution for a level.

        Parameters
        ----------
        distribution : VminGaussian
            Distribution of Vmin over the slice.
        node_volts : float64[..., node_rows, node_columns]
            Mean Vmin at the nodes, in volts.
        level_volts : float
            The level.
        """
        bits = distribution.scenario.segment_bits
        # Columns stand first in memory: they are gone through one after the other.
        nodes = np.ascontiguousarray(np.moveaxis(node_volts, -1, 0))
        above = ndtr((nodes - level_volts) / distribution.random_volts)
        # Sums of positive terms only: exact to rounding however rare two cells in an entry are.
        exactly = np.stack([(1.0 - above) ** bits, _exactly_one(bits, above)])
        in_segment = np.stack(
            [np.ones_like(above), *(_at_least(bits, count, above) for count in (1, 2))]
        )
        columns, *shape = above.shape
        at_least = np.zeros((FAULTY_BITS + 1, columns + 1, *shape))
        at_least[0] = 1.0
        for c in reversed(range(columns)):
            later = at_least[:, c + 1]
            at_least[1, c] = in_segment[1, c] + exactly[0, c] * later[1]
            at_least[2, c] = in_segment[2, c] + exactly[1, c] * later[1] + exactly[0, c] * later[2]
        # Sums of rounded terms may exceed a probability's bounds by a rounding.
        at_least = np.minimum(at_least, 1.0)
        numbers = (np.moveaxis(array, 1, -1) for array in (exactly, in_segment, at_least))
        entries = distribution.scenario.geometry.entries
        return cls(entries, bits, np.moveaxis(above, 0, -1), *numbers)

    @property
    def faulty(self) -> NDArray[np.float64]:
        """Probability that an entry is faulty: float64[..., node_rows]."""
        return self.at_least[FAULTY_BITS, ..., 0]

    def of_slices(self, selected: slice) -> "EntryProposal":
        """Distribution of some of the slices."""
        numbers = (array[:, selected] for array in (self.exactly, self.in_segment, self.at_least))
        return EntryProposal(self.entries, self.bits, self.above[selected], *numbers)

    def draw(
        self, log_odds: NDArray[np.float64], generators: Sequence[np.random.Generator]
    ) -> NDArray[np.int64]:
        """Number of cells above the level in every segment of I slices.

        Parameters
        ----------
        log_odds : float64[I]
            Logarithm of the factor on the odds that an entry of a slice is faulty; 0: no factor.
        generators : sequence of I Generator
            Source of the random numbers of each slice.

        Returns
        -------
        int64[I, entries, node_columns]
        """
        count, rows, columns = self.above.shape
        row = np.arange(self.entries) * rows // self.entries
        faulty = self.faulty[:, row]
        odds = np.exp(log_odds)[:, None] * faulty
        tilted = odds / (1.0 - faulty + odds)
        uniform = np.array([generator.random((2, self.entries)) for generator in generators])
        is_faulty = uniform[:, 0] < tilted

        # At most one cell: none, or one in a column with odds p / (1 - p) against none.
        counts = np.zeros((count, self.entries, columns), dtype=np.int64)
        single = np.cumsum(self.bits * self.above / np.maximum(1.0 - self.above, 1e-300), axis=2)
        place = uniform[:, 1] * (1.0 + single[:, row, -1]) - 1.0
        which, entry = np.nonzero(~is_faulty & (place >= 0))
        column = (place[which, entry, None] >= single[which, row[entry]]).sum(axis=1)
        counts[which, entry, np.minimum(column, columns - 1)] = 1

        which, entry = np.nonzero(is_faulty)
        counts[which, entry] = self._two_or_more(which, row[entry], generators)
        return counts

    def _two_or_more(
        self,
        which: NDArray[np.int64],
        row: NDArray[np.int64],
        generators: Sequence[np.random.Generator],
    ) -> NDArray[np.int64]:
        """Counts in the segments of n entries that have two cells or more above the level each.

        Entries are given by their slices, in order, and by their rows of nodes: int64[n].
        """
        entries, columns = len(which), self.above.shape[-1]
        each = np.arange(entries)
        of_slice = np.bincount(which, minlength=len(generators)).tolist()
        uniform = np.hstack(
            [
                generator.random((columns, number))
                for generator, number in zip(generators, of_slice, strict=True)
            ]
        )
        at_least, exactly = self.at_least[:, which, row], self.exactly[:, which, row]
        missing = np.full(entries, FAULTY_BITS)
        least = np.zeros((entries, columns), dtype=np.int64)
        exact = np.zeros((entries, columns), dtype=bool)
        for c in range(columns):
            level = uniform[c] * at_least[missing, each, c]
            of_0 = exactly[0, :, c] * at_least[missing, each, c + 1]
            of_1 = exactly[1, :, c] * at_least[np.maximum(missing - 1, 0), each, c + 1]
            takes_0 = (missing > 0) & (level < of_0)
            takes_1 = (missing == 2) & ~takes_0 & (level < of_0 + of_1)
            exact[:, c] = takes_0 | takes_1
            least[:, c] = np.where(takes_0, 0, np.where(takes_1, 1, missing))
            missing = missing - least[:, c]
        entry, column = np.nonzero(~exact)
        at = which[entry], row[entry], column
        of_slice = np.bincount(at[0], minlength=len(generators)).tolist()
        uniform = np.concatenate(
            [
                generator.random(number)
                for generator, number in zip(generators, of_slice, strict=True)
            ]
        )
        at_least_these = least[entry, column]
        uniform *= self.in_segment[at_least_these, *at]
        least[entry, column] = _binomial(self.bits, self.above[at], at_least_these, uniform)
        return least


def log_ratio(
    distribution: VminGaussian,
    entries: EntryProposal,
    log_odds: NDArray[np.float64],
    faulty_entries: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Logarithm of the density with multiplied odds over the plain density, for each slice.

    Parameters
    ----------
    distribution : VminGaussian
        How Vmin varies over a slice.
    entries : EntryProposal
        Distributions of I slices.
    log_odds : float64[I]
        Logarithm of the factor on the odds that an entry of a slice is faulty.
    faulty_entries : int64[I]
        Number of faulty entries of each slice.

    Returns
    -------
    float64[I]
    """
    each_row = np.log1p(np.expm1(log_odds)[:, None] * entries.faulty)
    per_row = entries.entries // distribution.scenario.node_rows
    ratio: NDArray[np.float64] = log_odds * faulty_entries - per_row * each_row.sum(axis=-1)
    return ratio


def place_cells(
    distribution: VminGaussian,
    node_volts: NDArray[np.float64],
    counts: NDArray[np.int64],
    level_volts: float,
    floor_volts: float,
    generator: np.random.Generator,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Draw the places and the Vmin of the cells of one slice above a floor.

    Parameters
    ----------
    distribution : VminGaussian
        How Vmin varies over a slice.
    node_volts : float64[node_rows, node_columns]
        Mean Vmin at the nodes, in volts.
    counts : int64[256, node_columns]
        Number of cells of each segment above the level.
    level_volts, floor_volts : float
        The level, and a floor at or below it; cells between the two are drawn here.
    generator : Generator
        Source of random numbers.

    Returns
    -------
    cell : int32[n]
        Numbers of the cells in their slice.
    vmin_volts : float64[n]
        Vmin of these cells, in volts, above the floor.
    """
    bits, sigma = distribution.scenario.segment_bits, distribution.random_volts
    above = counts.ravel()
    between = np.zeros_like(above)
    if floor_volts < level_volts:
        at_nodes = [ndtr((node_volts - volts) / sigma) for volts in (level_volts, floor_volts)]
        chance = (at_nodes[1] - at_nodes[0]) / np.maximum(1.0 - at_nodes[0], 1e-300)
        chance = distribution.per_entry(np.clip(chance, 0.0, 1.0)).ravel()
        between = generator.binomial(bits - above, chance)

    segment, bit, is_above = _place(above, between, bits, generator)
    uniform = 1.0 - generator.random(len(segment))
    rows, columns = node_volts.shape
    entries = distribution.scenario.geometry.entries
    node = segment // columns * rows // entries, segment % columns
    mean = node_volts[node]
    over_level = -ndtri_exp(np.log(uniform) + log_ndtr((mean - level_volts) / sigma))
    vmin = np.maximum(mean + sigma * over_level, np.nextafter(level_volts, np.inf))
    lower = np.flatnonzero(~is_above)
    if len(lower):
        of_level, of_floor = (numbers[node][lower] for numbers in at_nodes)
        tail = of_level + uniform[lower] * (of_floor - of_level)
        volts = mean[lower] - sigma * ndtri(tail)
        vmin[lower] = np.clip(volts, np.nextafter(floor_volts, np.inf), level_volts)
    return (segment * bits + bit).astype(np.int32), vmin


def _exactly_one(bits: int, above: NDArray[np.float64]) -> NDArray[np.float64]:
    probability: NDArray[np.float64] = bits * above * (1.0 - above) ** (bits - 1)
    return probability


def _at_least(bits: int, count: int, above: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability of at least that many successes, count >= 1."""
    probability: NDArray[np.float64] = betainc(count, bits - count + 1, above)
    return probability


def _binomial(
    bits: int,
    above: NDArray[np.float64],
    least: NDArray[np.int64],
    level: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Draw binomial numbers by inversion, each given that it is at least 0, 1 or 2.

    The level of each, float64[n], is uniform between 0 and the probability of that.
    """
    ways = np.array([1.0, bits, bits * (bits - 1) / 2])[least]
    mass = ways * above**least * (1.0 - above) ** (bits - least)
    left = level - mass
    count = least.copy()
    odds = above / np.maximum(1.0 - above, 1e-300)
    active = np.flatnonzero(left >= 0)
    while len(active):
        mass[active] *= (bits - count[active]) / (count[active] + 1) * odds[active]
        count[active] += 1
        left[active] -= mass[active]
        active = active[(left[active] >= 0) & (count[active] < bits)]
    return count


def _place(
    above: NDArray[np.int64],
    between: NDArray[np.int64],
    bits: int,
    generator: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Segment and bit of each cell, and whether it lies above the level."""
    total = above + between
    active = np.flatnonzero(total)
    places = np.tile(np.arange(bits, dtype=np.int64), (len(active), 1))
    segments, chosen_bits, is_above = [], [], []
    taken = 0
    while len(active):
        # A step of the Fisher-Yates shuffle: swap a random free place to the front.
        each = np.arange(len(active))
        chosen = taken + generator.integers(bits - taken, size=len(active))
        bit = places[each, chosen]
        places[each, chosen] = places[:, taken]
        segments.append(active)
        chosen_bits.append(bit)
        is_above.append(taken < above[active])
        taken += 1
        going = total[active] > taken
        active, places = active[going], places[going]
    empty = np.empty(0, dtype=np.int64)
    return (
        np.concatenate([empty, *segments]),
        np.concatenate([empty, *chosen_bits]),
        np.concatenate([empty.astype(bool), *is_above]),
    )
