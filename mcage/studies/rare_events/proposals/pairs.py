"""Slices drawn with a density proportional to their pairs of weak cells in one entry.

A technique that cannot move data fails where an entry that it needs holds two faulty cells. The
plain distribution of slices, weighted with the number N of pairs of weak cells in the needed
entries, can be drawn from directly: choose a pair of cells, draw the Vmin of both given that both
are weak, then what all cells share given these two, then all other cells given what they share. The
density over the plain one is N / E[N], and E[N] is a sum over pairs of columns. This is the
estimator of Karp and Luby for a union of events, which does not become worse as the events become
rarer.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from mcage.studies.rare_events.proposals.vmin_gaussian import VminGaussian
from mcage.variation.vmin_tail import TailCells

STEP, REACH = 0.02, 12.0
"""Step and range, in standard deviations, of the trapezoid rule over the common part of two cells.

The rule is exact to rounding for smooth integrands.
"""


@dataclass(frozen=True, eq=False)
class PairProposal:
    """Distribution of slices, weighted with their pairs of weak cells.

    Parameters
    ----------
    distribution : VminGaussian
        How Vmin varies over a slice that is not tilted.
    level_volts : float
        Cells with a Vmin above it are weak.
    needed : bool[256]
        Entries whose pairs count; at least one is True.
    """

    distribution: VminGaussian
    level_volts: float
    needed: NDArray[np.bool_]

    @cached_property
    def _entries(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.needed)

    @cached_property
    def _columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.triu_indices(self.distribution.scenario.node_columns)

    @cached_property
    def _covariance(self) -> NDArray[np.float64]:
        """Covariance of the shared parts in the columns of one entry."""
        # All rows have the same covariance but for rounding: a field is stationary, and arrays
        # are alike.
        row = self.distribution.factor[: self.distribution.scenario.node_columns]
        covariance: NDArray[np.float64] = np.einsum("in,jn->ij", row, row)
        return covariance

    @cached_property
    def _variance(self) -> float:
        return float(self._covariance[0, 0]) + self.distribution.random_volts**2

    @cached_property
    def _expected(self) -> NDArray[np.float64]:
        """Expected pairs in one entry, for each pair of columns."""
        first, second = self._columns
        bits = self.distribution.scenario.segment_bits
        ways = np.where(first == second, bits * (bits - 1) / 2, bits * bits)
        common = self._peak[:, None] + np.arange(-REACH, REACH + STEP / 2, STEP)
        log_density = self._log_density(common, self._correlation[:, None])
        expected: NDArray[np.float64] = ways * np.exp(log_density).sum(axis=1) * STEP
        return expected

    @cached_property
    def expected_pairs(self) -> float:
        """E[N], of weak pairs in the needed entries of a slice."""
        return float(len(self._entries) * self._expected.sum())

    def count(self, tail: TailCells) -> NDArray[np.float64]:
        """Number N of weak pairs in the needed entries of each instance: float64[I]."""
        weak = tail.vmin_volts > self.level_volts
        entries = tail.geometry.entries
        size = tail.instances * entries
        cells = np.bincount(tail.slice_entry[weak], minlength=size).reshape(-1, entries)
        pairs: NDArray[np.float64] = (cells * (cells - 1) / 2)[:, self.needed].sum(axis=1)
        return pairs

    def draw(
        self, normals: NDArray[np.float64], generator: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64]]:
        """Draw a pair of weak cells, and what all cells share given these two.

        Parameters
        ----------
        normals : float64[normals]
            Standard normal numbers.
        generator : Generator
            Source of further random numbers.

        Returns
        -------
        normals : float64[normals]
            The normal numbers, moved to their distribution given the pair.
        cell : int32[2]
            Numbers of the two cells in the slice.
        vmin_volts : float64[2]
            Vmin of the two cells, in volts.
        """
        distribution, bits = self.distribution, self.distribution.scenario.segment_bits
        geometry = distribution.scenario.geometry
        entry = int(self._entries[generator.integers(len(self._entries))])
        ladder = np.cumsum(self._expected)
        pair = int(np.searchsorted(ladder, generator.random() * ladder[-1], side="right"))
        pair = min(pair, len(ladder) - 1)
        columns = np.array([self._columns[0][pair], self._columns[1][pair]])
        bit = generator.integers(bits, size=2)
        if columns[0] == columns[1]:
            bit[1] = (bit[0] + 1 + generator.integers(bits - 1)) % bits
        cell = (entry * geometry.entry_bits + columns * bits + bit).astype(np.int32)

        vmin = self._draw_weak(pair, generator)
        row = entry * distribution.scenario.node_rows // geometry.entries
        factor = distribution.factor[row * distribution.scenario.node_columns + columns]
        # A draw of both from the plain distribution, corrected by what it missed (Matheron's rule).
        plain = (factor * normals).sum(
            axis=1
        ) + distribution.random_volts * generator.standard_normal(2)
        missed = vmin - distribution.scenario.mu_volts - plain
        shared = self._covariance[columns[0], columns[1]]
        determinant = self._variance**2 - shared**2
        gain = (self._variance * missed - shared * missed[::-1]) / determinant
        moved: NDArray[np.float64] = normals + (factor * gain[:, None]).sum(axis=0)
        return moved, cell, vmin

    def _draw_weak(self, pair: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Vmin of two cells in a pair of columns of one entry, given that both are weak."""
        correlation, peak = self._correlation[pair], self._peak[pair]
        top = self._log_density(peak, correlation)
        # The density of the common part is log-concave and at least as narrow as the normal one
        # around its peak: normal numbers are drawn until one falls under that density.
        while True:
            shift = generator.standard_normal()
            common = peak + shift
            excess = self._log_density(common, correlation) - top + 0.5 * shift**2
            if np.log1p(-generator.random()) <= excess:
                break
        rest = np.sqrt(1.0 - correlation)
        limit = (self._limit - np.sqrt(correlation) * common) / rest
        depth = np.log1p(-generator.random(2)) + log_ndtr(-limit)
        standard = np.sqrt(correlation) * common - rest * ndtri_exp(depth)
        vmin = self.distribution.scenario.mu_volts + np.sqrt(self._variance) * standard
        weak: NDArray[np.float64] = np.maximum(vmin, np.nextafter(self.level_volts, np.inf))
        return weak

    @cached_property
    def _limit(self) -> float:
        """The level, in standard deviations of a cell."""
        return (self.level_volts - self.distribution.scenario.mu_volts) / float(
            np.sqrt(self._variance)
        )

    @cached_property
    def _correlation(self) -> NDArray[np.float64]:
        """Correlation of two cells, for each pair of columns."""
        # Rounding alone can bring a correlation of zero below zero.
        return np.maximum(self._covariance[self._columns], 0.0) / self._variance

    def _log_density(
        self, common: NDArray[np.float64], correlation: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Logarithm of the density of the common part times the probability that both are weak."""
        limit = (self._limit - np.sqrt(correlation) * common) / np.sqrt(1.0 - correlation)
        density: NDArray[np.float64] = (
            -0.5 * common**2 - 0.5 * np.log(2 * np.pi) + 2 * log_ndtr(-limit)
        )
        return density

    @cached_property
    def _peak(self) -> NDArray[np.float64]:
        """Common part of the largest such density, for each pair of columns, by bisection."""
        correlation = self._correlation
        bound = 1.0 + 2.0 * abs(self._limit)
        low, high = np.full_like(correlation, -bound), np.full_like(correlation, bound)
        pull = np.sqrt(correlation / (1.0 - correlation))
        for _ in range(60):
            middle = 0.5 * (low + high)
            limit = (self._limit - np.sqrt(correlation) * middle) / np.sqrt(1.0 - correlation)
            hazard = np.exp(-0.5 * limit**2 - log_ndtr(-limit)) / np.sqrt(2 * np.pi)
            rising = 2 * pull * hazard > middle
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        return 0.5 * (low + high)
