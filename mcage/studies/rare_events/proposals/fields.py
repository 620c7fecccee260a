"""Fields of mean Vmin under which many entries are faulty: how many, and how to draw them.

`FaultyFields` says how many faulty entries a field makes likely; `Bumps` draws fields whose mean is
raised somewhere.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, logsumexp, ndtr

from mcage.studies.rare_events.proposals.vmin_gaussian import VminGaussian

WAVES = (8, 4)
"""Number of cosine waves, along the entries and along the bits, by which fields are moved."""

PLACES = (8, 5)
"""Number of places of a bump, along the entries and along the bits."""

WIDTHS = (0.1, 0.2, 0.4, np.inf)
HEIGHTS = np.arange(0.5, 14.01, 0.5)
DEVIATIONS = (0.5, 0.7, 1.0)
"""Values that a fit tries. A distribution much narrower than the plain one would miss fields."""

MAX_LOG_ODDS = 80.0
BISECTIONS = 40


@dataclass(frozen=True, eq=False)
class FaultyFields:
    """Fields, and how many faulty entries they make likely.

    Parameters
    ----------
    distribution : VminGaussian
        How Vmin varies over a slice.
    level_volts : float
        An entry counts as faulty if two of its cells have a Vmin above this level.
    """

    distribution: VminGaussian
    level_volts: float

    @cached_property
    def directions(self) -> NDArray[np.float64]:
        """Orthonormal directions of the normal numbers behind a field: float64[moved, normals].

        They are the longest waves, the mean of the slice first: these hold most of the variance,
        and a population adapts to few numbers quickly. What is orthogonal to them stays as drawn.
        """
        scenario = self.distribution.scenario
        shape = scenario.node_rows, scenario.node_columns
        factor = self.distribution.factor.reshape(*shape, -1)
        y, x = ((np.arange(count) + 0.5) / count for count in shape)
        waves = [
            np.einsum("y,x,yxn->n", np.cos(np.pi * j * y), np.cos(np.pi * i * x), factor)
            for j in range(WAVES[0])
            for i in range(WAVES[1])
        ]
        directions: list[NDArray[np.float64]] = []
        for wave in waves:
            rest = wave.copy()
            for direction in directions:
                rest -= (rest * direction).sum() * direction
            length = np.sqrt((rest**2).sum())
            if length > 1e-6 * np.sqrt((wave**2).sum()):
                directions.append(rest / length)
        return np.array(directions).reshape(len(directions), self.distribution.normals)

    @cached_property
    def volts(self) -> NDArray[np.float64]:
        """Volts that each direction adds at each node: float64[nodes, moved]."""
        volts: NDArray[np.float64] = np.einsum(
            "nk,mk->nm", self.distribution.factor, self.directions
        )
        return volts

    def faulty(self, nodes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability, nearly, that an entry of each row of nodes is faulty.

        Parameters
        ----------
        nodes : float64[I, nodes]
            Mean Vmin at the nodes, in volts.

        Returns
        -------
        float64[I, node_rows]
            Cells are counted as Poisson numbers: quick, and good enough for a choice of fields.
        """
        scenario = self.distribution.scenario
        above = ndtr((nodes - self.level_volts) / self.distribution.random_volts)
        by_row = above.reshape(len(nodes), scenario.node_rows, -1).sum(axis=2)
        faulty: NDArray[np.float64] = gammainc(2, scenario.segment_bits * by_row)
        return faulty

    def log_chance(
        self, faulty: NDArray[np.float64], target: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Chernoff's bound on the probability of many faulty entries, and the tilt of the bound.

        Parameters
        ----------
        faulty : float64[I, node_rows]
            Probability that an entry of each row is faulty.
        target : float
            Number of faulty entries.

        Returns
        -------
        log_chance : float64[I]
            Logarithm of the bound; 0 where the target is at most the expected number.
        log_odds : float64[I]
            Logarithm of the factor on the odds of a faulty entry under which the target is the
            expected number.
        """
        scenario = self.distribution.scenario
        each = scenario.geometry.entries // scenario.node_rows
        low, high = np.zeros(len(faulty)), np.full(len(faulty), MAX_LOG_ODDS)
        healthy, odds, both = 1.0 - faulty, np.empty_like(faulty), np.empty_like(faulty)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            np.multiply(np.exp(middle)[:, None], faulty, out=odds)
            np.divide(odds, np.add(healthy, odds, out=both), out=odds)
            few = each * odds.sum(axis=1) < target
            low, high = np.where(few, middle, low), np.where(few, high, middle)
        growth = each * np.log1p(np.expm1(low)[:, None] * faulty).sum(axis=1)
        return np.minimum(growth - low * target, 0.0), low


@dataclass(frozen=True, eq=False)
class Bumps:
    """Fields whose mean over a region is raised: a mixture over the places of that region.

    Parameters
    ----------
    distribution : VminGaussian
        How Vmin varies over a slice.
    widths : tuple of 2 float
        Standard deviation of the bell-shaped region along the entries and along the bits, as a
        fraction of the side of the slice; infinite: the whole side.
    height : float
        Mean of the region's mean, in standard deviations of the plain distribution.
    deviation : float
        Standard deviation of the region's mean, in the same unit, above 0.
    """

    distribution: VminGaussian
    widths: tuple[float, float]
    height: float
    deviation: float

    @classmethod
    def none(cls, distribution: VminGaussian) -> "Bumps":
        """Plain fields."""
        return cls(distribution, (np.inf, np.inf), 0.0, 1.0)

    @classmethod
    def like(
        cls, distribution: VminGaussian, normals: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> "Bumps":
        """Fit the bumps under which given fields are most likely.

        Parameters
        ----------
        distribution : VminGaussian
            Distribution of Vmin over a slice.
        normals : float64[I, normals]
            Standard normal numbers behind these fields.
        weights : float64[I]
            Weight of each field.
        """
        if not distribution.factor.any():
            return cls.none(distribution)
        weights = weights / weights.sum()
        best, highest = cls.none(distribution), 0.0
        for widths in product(WIDTHS, WIDTHS):
            along = np.einsum("in,pn->ip", normals, cls(distribution, widths, 0.0, 1.0).directions)
            for height, deviation in product(HEIGHTS.tolist(), DEVIATIONS):
                likelihood = float((weights * _quick_log_ratio(along, height, deviation)).sum())
                if likelihood > highest:
                    best, highest = cls(distribution, widths, height, deviation), likelihood
        return best

    @cached_property
    def directions(self) -> NDArray[np.float64]:
        """Unit vectors of the normal numbers that raise each region: float64[places, normals]."""
        scenario = self.distribution.scenario
        shape = scenario.node_rows, scenario.node_columns
        bells = []
        for count, places, width in zip(shape, PLACES, self.widths, strict=True):
            nodes = (np.arange(count) + 0.5) / count
            centres = (np.arange(places) + 0.5) / places if np.isfinite(width) else np.zeros(1)
            bells.append(np.exp(-0.5 * ((nodes - centres[:, None]) / width) ** 2))
        factor = self.distribution.factor.reshape(*shape, -1)
        raised = np.einsum("py,qx,yxn->pqn", *bells, factor).reshape(-1, self.distribution.normals)
        length = np.sqrt((raised**2).sum(axis=1, keepdims=True))
        unit: NDArray[np.float64] = raised / np.where(length > 0, length, 1.0)
        return unit

    def draw(
        self, normals: NDArray[np.float64], generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Add a bump to the standard normal numbers of a plain field: float64[normals]."""
        direction = self.directions[generator.integers(len(self.directions))]
        along = float((normals * direction).sum())
        moved: NDArray[np.float64] = normals + (
            (self.height + (self.deviation - 1.0) * along) * direction
        )
        return moved

    def log_ratio(self, normals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithm of the density of fields over their plain density: float64[I]."""
        along = np.einsum("in,pn->ip", normals, self.directions)
        return _log_ratio(along, self.height, self.deviation)


def _log_ratio(along: NDArray[np.float64], height: float, deviation: float) -> NDArray[np.float64]:
    each = _log_ratios(along, height, deviation)
    ratio: NDArray[np.float64] = logsumexp(each, axis=1) - np.log(along.shape[1])
    return ratio


def _quick_log_ratio(
    along: NDArray[np.float64], height: float, deviation: float
) -> NDArray[np.float64]:
    """As `_log_ratio` but for rounding, in a third of the time."""
    each = _log_ratios(along, height, deviation)
    largest = each.max(axis=1)
    each -= largest[:, None]
    np.exp(each, out=each)
    ratio: NDArray[np.float64] = np.log(each.mean(axis=1)) + largest
    return ratio


def _log_ratios(along: NDArray[np.float64], height: float, deviation: float) -> NDArray[np.float64]:
    standard = (along - height) / deviation
    each: NDArray[np.float64] = 0.5 * (along**2 - standard**2) - np.log(deviation)
    return each
