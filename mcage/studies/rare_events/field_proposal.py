"""What the field of a slice means for the number of its faulty entries."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, ndtr

from mcage.geometry import SLICE
from mcage.studies.rare_events.vmin_gaussian import VminGaussian

WAVES = (8, 4)
"""Waves along the entries and along the bits that fields are moved by."""

MAX_LOG_ODDS = 80.0
BISECTIONS = 40


@dataclass(frozen=True, eq=False)
class FaultyFields:
    """Fields, and how many faulty entries they make likely.

    Parameters
    ----------
    law : SliceLaw
        Law of Vmin over a slice.
    level_volts : float
        An entry counts as faulty if two of its cells have a Vmin above this.
    """

    law: VminGaussian
    level_volts: float

    @cached_property
    def directions(self) -> NDArray[np.float64]:
        """Orthonormal directions of the normal numbers behind a field: float64[moved, normals].

        The longest waves, the mean of the slice first: they have most of the variance, and few
        numbers are soon adapted. What is orthogonal to them stays as drawn.
        """
        scenario = self.law.scenario
        shape = scenario.node_rows, scenario.node_columns
        factor = self.law.factor.reshape(*shape, -1)
        y, x = ((np.arange(count) + 0.5) / count for count in shape)
        waves = [
            np.einsum("y,x,yxn->n", np.cos(np.pi * j * y), np.cos(np.pi * i * x), factor)
            for j in range(WAVES[0])
            for i in range(WAVES[1])
        ]
        found: list[NDArray[np.float64]] = []
        for wave in waves:
            rest = wave.copy()
            for other in found:
                rest -= (rest * other).sum() * other
            length = np.sqrt((rest**2).sum())
            if length > 1e-6 * np.sqrt((wave**2).sum()):
                found.append(rest / length)
        return np.array(found).reshape(len(found), self.law.normals)

    @cached_property
    def volts(self) -> NDArray[np.float64]:
        """Volts that each direction adds at each node: float64[nodes, moved]."""
        volts: NDArray[np.float64] = np.einsum("nk,mk->nm", self.law.factor, self.directions)
        return volts

    def faulty(self, nodes: NDArray[np.float64]) -> NDArray[np.float64]:
        """About how likely an entry of each row of nodes is faulty.

        Parameters
        ----------
        nodes : float64[I, nodes]
            Mean Vmin at the nodes.

        Returns
        -------
        float64[I, node_rows]
            By Poisson's law: good enough to choose by, and quick.
        """
        scenario = self.law.scenario
        above = ndtr((nodes - self.level_volts) / self.law.random_volts)
        by_row = above.reshape(len(nodes), scenario.node_rows, -1).sum(axis=2)
        faulty: NDArray[np.float64] = gammainc(2, scenario.segment_bits * by_row)
        return faulty

    def log_chance(
        self, faulty: NDArray[np.float64], target: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Chernoff's bound of the chance of so many faulty entries, and the tilt that attains it.

        Parameters
        ----------
        faulty : float64[I, node_rows]
            How likely an entry of each row is faulty.
        target : float
            Number of faulty entries.

        Returns
        -------
        log_chance : float64[I]
            Logarithm of the bound; 0 where so many are expected anyway.
        log_odds : float64[I]
            Logarithm of the factor on the odds of a faulty entry under which so many are expected.
        """
        each = SLICE.entries // self.law.scenario.node_rows
        low, high = np.zeros(len(faulty)), np.full(len(faulty), MAX_LOG_ODDS)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            odds = np.exp(middle)[:, None] * faulty
            few = each * (odds / (1.0 - faulty + odds)).sum(axis=1) < target
            low, high = np.where(few, middle, low), np.where(few, high, middle)
        growth = each * np.log1p(np.expm1(low)[:, None] * faulty).sum(axis=1)
        return np.minimum(growth - low * target, 0.0), low
