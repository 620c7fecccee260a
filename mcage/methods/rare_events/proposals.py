"""Distributions under which deaths are frequent, and the mixture from which slices are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammainc, log_ndtr, logsumexp, ndtr, ndtri, ndtri_exp

from mcage.aging.sampling import InstanceConstants, InstanceDistributions
from mcage.engines.stress import Turns
from mcage.protection.policy import ECP
from mcage.random import stream, streams_of
from mcage.spec.workload_mix import Mix, draw_kernels, draw_mixes, draw_shares, kernel_chances
from mcage.variation.field import node_loads
from mcage.variation.scenarios import Scenario
from mcage.variation.vmin_tail import TailCells

# What decides a life besides the cells of its slice: constants, and the kernels of the periods.
#
# What a slice runs in a period is a mix of kernels, and where they do not take turns, of a single
# one. Proposals favour some of the mixes; the shares of kernels in them stay as in a sweep.

LEAST_RANK, GREATEST_RANK = 2.0**-54, 1.0 - 2.0**-53
"""Ranks within which the normal number at a rank is finite."""


@dataclass(frozen=True, eq=False)
class LifeDraws:
    """Properties in which I slices differ besides their cells.

    Attributes
    ----------
    ranks : float64[I, constants]
        Cumulative probability of each constant that varies, 0 <= rank < 1.
    mix_of_period : int64[I, periods]
        Mix that each slice runs in each period.
    chances : float64[I, mixes]
        Chance of each mix in a period of a slice.
    shares : float64[I, periods, turns]
        Shares of the kernels of these mixes in the busy time.
    """

    ranks: NDArray[np.float64]
    mix_of_period: NDArray[np.int64]
    chances: NDArray[np.float64]
    shares: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ranks)

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_] | slice) -> "LifeDraws":
        """Selected lives."""
        mixes, chances = self.mix_of_period[which], self.chances[which]
        return LifeDraws(self.ranks[which], mixes, chances, self.shares[which])

    @classmethod
    def join(cls, parts: list["LifeDraws"]) -> "LifeDraws":
        """Join lives, in their order."""
        return cls(
            np.concatenate([part.ranks for part in parts]),
            np.concatenate([part.mix_of_period for part in parts]),
            np.concatenate([part.chances for part in parts]),
            np.concatenate([part.shares for part in parts]),
        )

    @cached_property
    def normals(self) -> NDArray[np.float64]:
        """Standard normal numbers at the ranks: float64[I, constants]."""
        normals: NDArray[np.float64] = ndtri(np.clip(self.ranks, LEAST_RANK, GREATEST_RANK))
        return normals


def ranks_of(normals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks of standard normal numbers, below 1."""
    ranks: NDArray[np.float64] = np.minimum(ndtr(normals), GREATEST_RANK)
    return ranks


@dataclass(frozen=True, eq=False)
class LifeDistribution:
    """How lives vary in a sweep.

    Parameters
    ----------
    distributions : InstanceDistributions
        Distributions of the constants.
    mix : str or dict
        How the kernels of periods are drawn.
    kernels : tuple of str
        Names of the kernels.
    period_of_epoch : tuple of int
        Period of each epoch up to the age that is asked about.
    periods : int
        Number of periods of a life.
    turns : int
        Number of kernels that take turns, at most; 0: one kernel runs in each period.
    """

    distributions: InstanceDistributions
    mix: Mix
    kernels: tuple[str, ...]
    period_of_epoch: tuple[int, ...]
    periods: int
    turns: int = 0

    @property
    def epochs(self) -> int:
        """Number of epochs up to the age."""
        return len(self.period_of_epoch)

    @property
    def draws(self) -> int:
        """Number of independent draws of a mix that matter up to the age."""
        return 1 if self.mix == "one" else self.period_of_epoch[-1] + 1

    @cached_property
    def mixes(self) -> NDArray[np.int64]:
        """Kernels of each mix that a slice may run, in rising order: int64[mixes, turns]."""
        kernels = len(self.kernels)
        if not self.turns or self.mix == "one":
            return np.arange(kernels)[:, None]
        turns = kernels if isinstance(self.mix, dict) else min(self.turns, kernels)
        return np.array(list(combinations(range(kernels), turns)))

    @property
    def mean_chances(self) -> NDArray[np.float64]:
        """Chance of each mix in a period of any slice: float64[mixes]."""
        if self.turns:
            return np.full(len(self.mixes), 1 / len(self.mixes))
        mix = self.mix if isinstance(self.mix, dict) else "uniform"
        (chances,) = kernel_chances(mix, 0, np.zeros(1, np.int64), self.kernels)
        return np.asarray(chances)

    @cached_property
    def constants(self) -> dict[str, int]:
        """Constants that vary, by name, and how many ranks each has."""
        no_instance = self.distributions.ranks(0, np.empty(0, np.int64), self.epochs)
        return {name: int(np.prod(ranks.shape[1:])) for name, ranks in no_instance.items()}

    @property
    def _shares_vary(self) -> bool:
        return self.mixes.shape[1] > 1 and isinstance(self.mix, str) and self.mix != "uniform"

    @property
    def of_single_kernels(self) -> "LifeDistribution":
        """Lives that run one kernel at a time, and have the same constants."""
        return replace(self, mix="uniform", turns=0) if self.turns else self

    def draw(self, seed: int, instances: NDArray[np.int64]) -> LifeDraws:
        """Lives as in a sweep, each a function of seed and instance id.

        Parameters
        ----------
        seed : int
            Seed.
        instances : int64[I]
            Instance ids.
        """
        drawn = self.distributions.ranks(seed, instances, self.epochs)
        columns = [drawn[name].reshape(len(instances), -1) for name in self.constants]
        stream = self.mix, seed, instances, self.kernels, self.periods
        if self.turns:
            kernels, shares = draw_mixes(*stream, self.turns)
            mixes = self._numbers_of(kernels)
            chances = np.broadcast_to(self.mean_chances, (len(instances), len(self.mixes)))
        else:
            mixes = draw_kernels(*stream)
            shares = np.ones((*mixes.shape, 1))
            chances = kernel_chances(*stream[:-1])
        ranks = np.hstack([np.empty((len(instances), 0)), *columns])
        return LifeDraws(ranks, mixes, chances, shares)

    def _numbers_of(self, kernels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of mixes, int64[...], given their kernels in rising order: int64[..., turns]."""
        number_of = {tuple(mix): number for number, mix in enumerate(self.mixes.tolist())}
        flat = kernels.reshape(-1, kernels.shape[-1]).tolist()
        return np.array([number_of[tuple(mix)] for mix in flat]).reshape(kernels.shape[:-1])

    def drawn_shares(self, lives: LifeDraws, draws: np.random.Generator) -> NDArray[np.float64]:
        """Shares for the mixes of lives, drawn as in a sweep: float64[I, periods, turns]."""
        if not self._shares_vary:
            return lives.shares
        assert isinstance(self.mix, str)
        return draw_shares(self.mix, draws, lives.shares.shape)

    def constants_of(self, lives: LifeDraws) -> InstanceConstants:
        """Constants of lives."""
        places = np.cumsum([0, *self.constants.values()])
        ranks = {}
        for name, first, last in zip(self.constants, places, places[1:], strict=False):
            each_epoch = name == "temperature_swing_kelvin"
            ranks[name] = lives.ranks[:, first:last] if each_epoch else lives.ranks[:, first]
        return self.distributions.at(ranks, len(lives))

    def workload(self, lives: LifeDraws) -> list[Turns]:
        """Kernels that take turns in each epoch of each slice, up to the age."""
        kernels = self.mixes[lives.mix_of_period]
        of_period = [
            Turns(np.ascontiguousarray(kernels[:, period]), lives.shares[:, period].copy())
            for period in range(self.period_of_epoch[-1] + 1)
        ]
        return [of_period[period] for period in self.period_of_epoch]


# The distribution of Vmin over a slice, in the form that importance sampling needs.
#
# The part that cells share is a linear map of independent standard normal numbers: the Vmin of a
# cell is mu + (factor @ normals) at its node + a normal number that is independent from cell to
# cell.


@dataclass(frozen=True)
class VminGaussian:
    """How Vmin varies over a slice.

    Parameters
    ----------
    scenario : Scenario
        Constants of process variation.
    """

    scenario: Scenario

    @cached_property
    def factor(self) -> NDArray[np.float64]:
        """Volts that each standard normal number adds at each node: float64[nodes, normals]."""
        die = np.full((len(self._systematic), 1), self.scenario.sigma_die_volts)
        return np.hstack([self._systematic, die])

    @cached_property
    def _systematic(self) -> NDArray[np.float64]:
        """`factor` without the die part: lower triangular where the systematic part is a field."""
        return self.scenario.sigma_systematic_volts * node_loads(self.scenario)

    @property
    def normals(self) -> int:
        """Number of standard normal numbers behind one slice."""
        return int(self.factor.shape[1])

    @property
    def random_volts(self) -> float:
        """Standard deviation, in volts, of the part that is independent from cell to cell."""
        return self.scenario.sigma_random_volts

    def node_volts(self, normals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean Vmin at the nodes of I slices.

        Parameters
        ----------
        normals : float64[I, normals]
            Standard normal numbers.

        Returns
        -------
        float64[I, node_rows, node_columns]
            In volts.
        """
        from mcage.variation.field import triangular_product  # Numba takes long to import

        scenario = self.scenario
        # Not ``@``: BLAS sums in an order that depends on batch and threads.
        shared: NDArray[np.float64]
        if scenario.arrays is None and not scenario.sigma_die_volts:
            # The same sums, without the half of the terms that are 0.
            shared = triangular_product(self._systematic, normals[:, :-1])
        else:
            shared = np.einsum("ij,nj->ni", self.factor, normals)
        shared += scenario.mu_volts
        return shared.reshape(-1, scenario.node_rows, scenario.node_columns)

    def per_entry(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Repeat values of rows of nodes, [node_rows, ...], for each entry: [entries, ...]."""
        scenario = self.scenario
        return np.repeat(rows, scenario.geometry.entries // scenario.node_rows, axis=0)


# Fields of mean Vmin under which many entries are faulty: how many, and how to draw them.
#
# `FaultyFields` says how many faulty entries a field makes likely; `Bumps` draws fields whose mean
# is raised somewhere.

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
        each = _log_ratios(along, self.height, self.deviation)
        ratio: NDArray[np.float64] = logsumexp(each, axis=1) - np.log(along.shape[1])
        return ratio


def _quick_log_ratio(
    along: NDArray[np.float64], height: float, deviation: float
) -> NDArray[np.float64]:
    """As `Bumps.log_ratio` but for rounding, in a third of the time."""
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


# Cells of one slice above a level of Vmin, drawn such that more entries than usual are faulty.
#
# Given the mean Vmin at the nodes of a slice, the cells of a segment are independent, and how many
# of them lie above a level is binomial. An entry with two such cells or more is faulty. Whether it
# is faulty may be drawn with odds multiplied by any factor. Given the answer, its cells follow
# their plain distribution, so that the likelihood ratio of a whole slice depends on its number of
# faulty entries only. The cells themselves are placed once their numbers in all segments are
# known.

FAULTY_BITS = ECP.pointers + 1
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
        exactly = np.stack([(1.0 - above) ** bits, bits * above * (1.0 - above) ** (bits - 1)])
        in_segment = np.stack(
            [np.ones_like(above), *(betainc(count, bits - count + 1, above) for count in (1, 2))]
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


# Slices drawn with a density proportional to their pairs of weak cells in one entry.
#
# A technique that cannot move data fails where an entry that it needs holds two faulty cells. The
# plain distribution of slices, weighted with the number N of pairs of weak cells in the needed
# entries, can be drawn from directly: choose a pair of cells, draw the Vmin of both given that
# both are weak, then what all cells share given these two, then all other cells given what they
# share. The density over the plain one is N / E[N], and E[N] is a sum over pairs of columns. This
# is the estimator of Karp and Luby for a union of events, which does not become worse as the
# events become rarer.

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
        cells = _cells_by_entry(tail, self.level_volts)
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


# Lives drawn such that transistors become slower than usual, and the density of such lives.
#
# A constant of a life is a quantile at a rank, and each rank is that of a standard normal number,
# whatever the distribution of the constant is: uniform, truncated normal or discrete. In the space
# of these numbers, lives that end early lie far from the origin in a direction (Hasofer and Lind,
# J. Eng. Mech. Div. ASCE 1974; Rosenblatt, Ann. Math. Stat. 1952). There they are drawn with
# another mean and deviation along that direction, and kernels of periods with other odds. Both
# densities have closed forms.

LEAST_DEVIATION = 0.75
"""Smallest deviation of a proposal along its direction. Below the square root of one half, the
variance of the weights would be infinite."""

PLAIN_KERNELS = 0.15
"""Share of the plain chances of kernels in those of a fit, so that no kernel is missing."""

NOISE = 2.5
"""Standard errors below which the mean of a normal number is taken as 0 by a fit."""


@dataclass(frozen=True, eq=False)
class LifeTilt:
    """Lives whose constants and kernels are likely to lead to an early end.

    Parameters
    ----------
    direction : float64[constants]
        Unit vector in the space of the normal numbers behind constants; zero: as in a sweep.
    height, deviation : float
        Mean and standard deviation of the normal numbers along the direction.
    log_odds : float64[draws, mixes]
        Logarithm of the factor on the odds of each mix in each independent draw of a mix, which is
        a period, or the life of a slice.
    """

    direction: NDArray[np.float64]
    height: float
    deviation: float
    log_odds: NDArray[np.float64]

    @classmethod
    def favouring(cls, distribution: LifeDistribution, kernel: int, chance: float) -> "LifeTilt":
        """Lives that run a kernel with at least a given chance by the age, 0 < chance < 1."""
        log_odds = np.zeros((distribution.draws, len(distribution.mixes)))
        often = 1.0 - (1.0 - chance) ** (1.0 / distribution.draws)
        has_kernel = (distribution.mixes == kernel).any(axis=1)
        plain = distribution.mean_chances[has_kernel].sum()
        if plain < often:
            log_odds[:, has_kernel] = np.log(often / (1.0 - often)) - np.log(plain / (1.0 - plain))
        return cls(np.zeros(sum(distribution.constants.values())), 0.0, 1.0, log_odds)

    @classmethod
    def like(
        cls, distribution: LifeDistribution, lives: LifeDraws, weights: NDArray[np.float64]
    ) -> "LifeTilt":
        """Fit the tilt under which given lives are most likely (cross-entropy).

        Parameters
        ----------
        distribution : LifeDistribution
            How lives vary in a sweep.
        lives : LifeDraws
            Lives that have ended early.
        weights : float64[I]
            Weight of each, with a sum above 0.
        """
        shares = weights / weights.sum()
        mean = (shares[:, None] * lives.normals).sum(axis=0)
        error = np.sqrt((shares**2).sum())
        mean = np.where(np.abs(mean) > NOISE * error, mean, 0.0)
        height, deviation = float(np.sqrt((mean**2).sum())), 1.0
        direction = mean / height if height else mean
        if height:
            along = (lives.normals * direction).sum(axis=1)
            spread = float(np.sqrt((shares * (along - height) ** 2).sum()))
            deviation = min(max(spread, LEAST_DEVIATION), 1.0)
        chances = (shares[:, None] * lives.chances).sum(axis=0)
        drawn = lives.mix_of_period[:, : distribution.draws]
        seen = np.array([np.bincount(mixes, shares, len(chances)) for mixes in drawn.T])
        fitted = (1 - PLAIN_KERNELS) * seen + PLAIN_KERNELS * chances
        return cls(direction, height, deviation, np.log(fitted / chances))

    def draw(
        self,
        distribution: LifeDistribution,
        plain: LifeDraws,
        seed: int,
        role: str,
        instances: NDArray[np.int64],
    ) -> LifeDraws:
        """Turn lives drawn as in a sweep into lives of this distribution.

        Parameters
        ----------
        distribution : LifeDistribution
            How lives vary in a sweep.
        plain : LifeDraws
            Lives as in a sweep.
        seed, role, instances : int, str, int64[I]
            Seed, purpose and ids of the lives, which their random numbers depend on.
        """
        along = (plain.normals * self.direction).sum(axis=1)
        shift = self.height + (self.deviation - 1.0) * along
        ranks = ranks_of(plain.normals + shift[:, None] * self.direction)
        mixes = plain.mix_of_period.copy()
        if self.log_odds.any():
            chances = np.exp(self._log_chances(plain.chances))
            ladder = np.cumsum(chances, axis=2)
            uniform = np.array(
                [stream(seed, f"{role}.workload", i).random(len(ladder)) for i in instances]
            ).reshape(len(plain), len(ladder))
            # Rounding may leave the last sum below a draw.
            drawn = (uniform.T[:, :, None] >= ladder[:, :, :-1]).sum(axis=2).T
            mixes[:, : drawn.shape[1]] = drawn
            if distribution.mix == "one":
                mixes[:] = drawn[:, :1]
        return LifeDraws(ranks, mixes, plain.chances, plain.shares)

    def log_ratio(self, lives: LifeDraws) -> NDArray[np.float64]:
        """Logarithm of the density of lives over that in a sweep: float64[I]."""
        along = (lives.normals * self.direction).sum(axis=1)
        ratio = _log_ratios(along, self.height, self.deviation)
        if self.log_odds.any():
            each = np.arange(len(lives))
            with np.errstate(divide="ignore"):
                plain = np.log(lives.chances)
            for number, chances in enumerate(self._log_chances(lives.chances)):
                mix = lives.mix_of_period[:, number]
                ratio = ratio + chances[each, mix] - plain[each, mix]
        return ratio

    def _log_chances(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithm of the chance of each mix in each draw: float64[draws, I, mixes]."""
        with np.errstate(divide="ignore"):
            odds = np.log(chances) + self.log_odds[:, None, :]
        log_chances: NDArray[np.float64] = odds - logsumexp(odds, axis=2, keepdims=True)
        return log_chances


# The mixture that slices and lives are drawn from in place of their plain distribution.
#
# Besides the plain distribution, a mixture has parts. A part draws the cells of a slice as they
# are, weighted with their pairs of weak cells (`PairProposal`), or with many faulty entries
# (`SliceTilt`); and it draws the life as it is, or tilted (`LifeTilt`). The weight of a slice and
# its life is their plain density over the density of the whole mixture, whichever part drew them
# (Veach and Guibas, SIGGRAPH 1995: the balance heuristic), so that the share of the plain
# distribution bounds the weight (Hesterberg, Technometrics 1995: defensive mixture).

TOGETHER = 64
"""Slices whose numbers of cells are drawn together."""


@dataclass(frozen=True, eq=False)
class SliceTilt:
    """Slices with many faulty entries.

    Parameters
    ----------
    fields : FaultyFields
        How many faulty entries a field makes likely.
    bumps : Bumps
        Distribution of the fields.
    target : float
        Number of faulty entries. Given the field, the odds of a faulty entry are multiplied such
        that at least this number is expected.
    """

    fields: FaultyFields
    bumps: Bumps
    target: float

    def log_odds(self, nodes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithm of the factor on the odds of a faulty entry, for each slice: float64[I]."""
        faulty = self.fields.faulty(nodes.reshape(len(nodes), -1))
        _, log_odds = self.fields.log_chance(faulty, self.target)
        return log_odds


@dataclass(frozen=True, eq=False)
class MixturePart:
    """A part of a mixture, besides the plain distribution.

    Parameters
    ----------
    share : float
        Share of the slices that are drawn from it, 0 ... 1.
    lives : LifeTilt, optional
        Distribution of the lives; by default that of a sweep.
    of_cells : bool
        Whether its cells are those of the mixture, `Proposal.cells`; otherwise they are plain.
    """

    share: float
    lives: LifeTilt | None = None
    of_cells: bool = False


@dataclass(frozen=True, eq=False)
class Proposal:
    """A mixture of distributions of a slice and its life.

    Parameters
    ----------
    distribution : VminGaussian
        How Vmin varies over a slice that is not tilted.
    level_volts : float
        An entry counts as faulty if two of its cells have a Vmin above this level; that of a
        slice tilt.
    cells : SliceTilt or PairProposal, optional
        Distribution of the cells that parts may draw; by default the plain one.
    parts : tuple of MixturePart
        Parts besides the plain distribution.
    without_cells : bool
        Whether slices are drawn without any cell above the floor, because cells do not matter; no
        part then has a distribution of them.
    """

    distribution: VminGaussian
    level_volts: float
    cells: SliceTilt | PairProposal | None = None
    parts: tuple[MixturePart, ...] = ()
    without_cells: bool = False

    @property
    def plain_share(self) -> float:
        """Share of the slices that are drawn from the plain distribution."""
        return 1.0 - sum(part.share for part in self.parts)

    def part_of(self, seed: int, role: str, instances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Part that draws each instance, int64[I]; the number of parts for the plain one."""
        streams = streams_of(seed, f"{role}.part", instances.tolist())
        uniform = np.array([generator.random() for generator in streams])
        ladder = np.cumsum([part.share for part in self.parts])
        part: NDArray[np.int64] = (uniform[:, None] >= ladder).sum(axis=1)
        return part

    def draw_lives(
        self,
        distribution: LifeDistribution,
        seed: int,
        role: str,
        instances: NDArray[np.int64],
    ) -> LifeDraws:
        """Draw lives; those of the plain part and of parts without a tilt are as in a sweep.

        Parameters
        ----------
        distribution : LifeDistribution
            How lives vary in a sweep.
        seed : int
            Seed, of the plain lives, too.
        role : str
            Purpose of the lives; see `draw_slices`.
        instances : int64[I]
            Instance ids.
        """
        lives = distribution.draw(seed, instances)
        part_of = self.part_of(seed, role, instances)
        for number, part in enumerate(self.parts):
            drawn = np.flatnonzero(part_of == number)
            if part.lives is not None and len(drawn):
                tilted = part.lives.draw(
                    distribution, lives.of(drawn), seed, role, instances[drawn]
                )
                lives.ranks[drawn] = tilted.ranks
                lives.mix_of_period[drawn] = tilted.mix_of_period
        return lives

    def weights(self, slices: "DrawnSlices", lives: LifeDraws | None = None) -> NDArray[np.float64]:
        """Plain density of slices and their lives over their density under the mixture: float64[I].

        Lives may be left out if no part tilts them.
        """
        density = np.full(slices.tail.instances, self.plain_share)
        for part in self.parts:
            ratio = slices.log_ratio if part.of_cells else np.zeros_like(density)
            if part.lives is not None:
                assert lives is not None
                ratio = ratio + part.lives.log_ratio(lives)
            with np.errstate(over="ignore"):
                density += part.share * np.exp(ratio)
        return 1.0 / density


@dataclass(frozen=True, eq=False)
class DrawnSlices:
    """Slices drawn from a mixture.

    Attributes
    ----------
    tail : TailCells
        Cells of these slices above the floor.
    log_ratio : float64[I]
        Logarithm of the density of their cells under `Proposal.cells` over the plain one.
    normals : float64[I, normals]
        Standard normal numbers behind the fields of the slices; NaN where no cell was drawn.
    """

    tail: TailCells
    log_ratio: NDArray[np.float64]
    normals: NDArray[np.float64]


def draw_slices(
    proposal: Proposal,
    seed: int,
    role: str,
    instances: NDArray[np.int64],
    floor_volts: float,
) -> DrawnSlices:
    """Draw slices from a mixture.

    Parameters
    ----------
    proposal : Proposal
        Distribution that slices are drawn from.
    seed : int
        Seed.
    role : str
        Purpose of the slices; different purposes have different random numbers.
    instances : int64[I]
        Instance ids. A slice depends on proposal, seed, role and its id only.
    floor_volts : float
        Cells with a lower Vmin are left out; at most the level of the proposal.
    """
    distribution, level, cells = proposal.distribution, proposal.level_volts, proposal.cells
    ids = instances.tolist()
    if proposal.without_cells:
        return _without_cells(proposal, len(ids))
    normals = np.empty((len(ids), distribution.normals))
    for generator, of_slice in zip(streams_of(seed, f"{role}.field", ids), normals, strict=True):
        generator.standard_normal(out=of_slice)
    of_cells = np.array([*(part.of_cells for part in proposal.parts), False])
    favoured = of_cells[proposal.part_of(seed, role, instances)]
    log_odds = np.zeros(len(ids))
    forced: dict[int, tuple[NDArray[np.int32], NDArray[np.float64]]] = {}
    if isinstance(cells, PairProposal):
        for i in np.flatnonzero(favoured).tolist():
            generator = stream(seed, f"{role}.pair", ids[i])
            normals[i], cell, vmin_volts = cells.draw(normals[i], generator)
            forced[i] = cell, vmin_volts
    elif cells is not None:
        for i in np.flatnonzero(favoured).tolist():
            generator = stream(seed, f"{role}.bump", ids[i])
            normals[i] = cells.bumps.draw(normals[i], generator)
    nodes = distribution.node_volts(normals)
    entries = EntryProposal.of(distribution, nodes, level)
    if isinstance(cells, SliceTilt):
        log_odds = cells.log_odds(nodes)
    odds, drawn = np.where(favoured, log_odds, 0.0), []
    for begin in range(0, len(ids), TOGETHER):
        together = slice(begin, begin + TOGETHER)
        generators = [stream(seed, f"{role}.cells", instance) for instance in ids[together]]
        counts = entries.of_slices(together).draw(odds[together], generators)
        for i, (of_slice, generator) in enumerate(zip(counts, generators, strict=True), begin):
            placed = place_cells(distribution, nodes[i], of_slice, level, floor_volts, generator)
            drawn.append(_with_forced(*placed, *forced[i]) if i in forced else placed)
    tail = TailCells.join(drawn, distribution.scenario.geometry)
    ratio = np.zeros(len(ids))
    if isinstance(cells, SliceTilt):
        ratio = cells.bumps.log_ratio(normals) + log_ratio(
            distribution, entries, log_odds, faulty_entries(tail, level)
        )
    elif cells is not None:
        with np.errstate(divide="ignore"):
            ratio = np.log(cells.count(tail) / cells.expected_pairs)
    return DrawnSlices(tail, ratio, normals)


def _without_cells(proposal: Proposal, count: int) -> DrawnSlices:
    nothing = [(np.empty(0, np.int32), np.empty(0))] * count
    return DrawnSlices(
        TailCells.join(nothing, proposal.distribution.scenario.geometry),
        np.zeros(count),
        np.full((count, proposal.distribution.normals), np.nan),
    )


def faulty_entries(tail: TailCells, level_volts: float) -> NDArray[np.int64]:
    """Number of entries of each instance that have two cells or more above a level: int64[I]."""
    faulty: NDArray[np.int64] = (_cells_by_entry(tail, level_volts) >= FAULTY_BITS).sum(axis=1)
    return faulty


def _cells_by_entry(tail: TailCells, level_volts: float) -> NDArray[np.int64]:
    """Cells above a level in each entry of each instance: int64[I, entries]."""
    entries = tail.slice_entry[tail.vmin_volts > level_volts]
    size = tail.instances * tail.geometry.entries
    return np.bincount(entries, minlength=size).reshape(-1, tail.geometry.entries)


def _with_forced(
    cell: NDArray[np.int32],
    vmin_volts: NDArray[np.float64],
    forced_cell: NDArray[np.int32],
    forced_vmin_volts: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Replace what was drawn for the forced cells by their forced Vmin."""
    kept = ~np.isin(cell, forced_cell)
    return (
        np.append(cell[kept], forced_cell),
        np.append(vmin_volts[kept], forced_vmin_volts),
    )
