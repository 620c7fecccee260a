"""Sequential Monte Carlo: a population of fields climbs to many faulty entries.

Chernoff's bound limits the probability that a slice has t faulty entries or more, given its field.
A population of plain fields is weighted with that bound, resampled and moved, for a t that rises
step by step (Del Moral, Doucet and Jasra, J. R. Stat. Soc. B 2006). The mean of the slice, the
shape of its field and its cells then contribute to the faulty entries in the most likely way.
"""

import numpy as np
from numpy.typing import NDArray

from mcage.random import stream
from mcage.studies.rare_events.proposals.fields import FaultyFields

POPULATION = 1000
KEPT = 0.6
"""Effective share of the population that a step of the climb must keep."""

MOVES, LAST_MOVES = 5, 20
SMALLEST_MOVE = 0.05
"""Shortest length of a move: a random part of the field, between this and 1, is drawn anew."""


def climb(fields: FaultyFields, target: float, seed: int) -> NDArray[np.float64]:
    """Draw fields under which many entries are faulty.

    Parameters
    ----------
    fields : FaultyFields
        How many faulty entries a field makes likely.
    target : float
        Number of faulty entries.
    seed : int
        Seed.

    Returns
    -------
    float64[population, normals]
        Standard normal numbers behind the fields, distributed as the plain ones times Chernoff's
        bound.
    """
    population = _Population(fields, stream(seed, "rare.climb", 0))
    while population.target < target:
        population.rise(_farthest(population, target))
        for _ in range(MOVES if population.target < target else LAST_MOVES):
            population.move()
    return population.normals()


class _Population:
    """Fields of a population, all weighted for the same target."""

    def __init__(self, fields: FaultyFields, generator: np.random.Generator) -> None:
        normals = generator.standard_normal((POPULATION, fields.distribution.normals))
        nodes = fields.distribution.node_volts(normals).reshape(POPULATION, -1)
        self.fields, self.generator, self.target = fields, generator, 0.0
        self.along = np.einsum("in,mn->im", normals, fields.directions)
        self.rest_normals = normals - self._normals(self.along)
        self.rest = nodes - self._volts(self.along)
        self.faulty = fields.faulty(nodes)
        self.log_chance = np.zeros(POPULATION)

    def _volts(self, along: NDArray[np.float64]) -> NDArray[np.float64]:
        # Not ``@``: BLAS sums in an order that depends on threads.
        volts: NDArray[np.float64] = np.einsum("im,nm->in", along, self.fields.volts)
        return volts

    def _normals(self, along: NDArray[np.float64]) -> NDArray[np.float64]:
        normals: NDArray[np.float64] = np.einsum("im,mn->in", along, self.fields.directions)
        return normals

    def normals(self) -> NDArray[np.float64]:
        """Standard normal numbers behind the fields: float64[population, normals]."""
        return self.rest_normals + self._normals(self.along)

    def weights(self, target: float) -> NDArray[np.float64]:
        """Weights, up to a factor, that turn the population into one for another target."""
        log_chance, _ = self.fields.log_chance(self.faulty, target)
        change = log_chance - self.log_chance
        weights: NDArray[np.float64] = np.exp(change - change.max())
        return weights

    def rise(self, target: float) -> None:
        """Resample the population for a larger target."""
        weights = self.weights(target)
        # Systematic resampling.
        places = (np.arange(POPULATION) + self.generator.random()) / POPULATION
        chosen = np.searchsorted(np.cumsum(weights) / weights.sum(), places)
        chosen = np.minimum(chosen, POPULATION - 1)
        self.along, self.rest = self.along[chosen], self.rest[chosen]
        self.rest_normals = self.rest_normals[chosen]
        self.faulty, self.target = self.faulty[chosen], target
        self.log_chance, _ = self.fields.log_chance(self.faulty, target)

    def move(self) -> None:
        """Draw a part of each field anew, and accept by the rule of Metropolis and Hastings.

        The proposal leaves the plain distribution unchanged (Cotter et al., Statistical Science
        2013), so that the ratio of the bounds alone decides.
        """
        draw = self.generator
        length = SMALLEST_MOVE ** draw.random((POPULATION, 1))
        moved = np.sqrt(1.0 - length**2) * self.along
        moved += length * draw.standard_normal(self.along.shape)
        faulty = self.fields.faulty(self.rest + self._volts(moved))
        log_chance, _ = self.fields.log_chance(faulty, self.target)
        passes = np.log1p(-draw.random(POPULATION)) <= log_chance - self.log_chance
        self.along[passes], self.faulty[passes] = moved[passes], faulty[passes]
        self.log_chance[passes] = log_chance[passes]


def _farthest(population: _Population, target: float) -> float:
    """Largest target, up to the last one, that keeps enough of the population."""

    def keeps_enough(to: float) -> bool:
        weights = population.weights(to)
        return bool(weights.sum() ** 2 >= KEPT * POPULATION * (weights**2).sum())

    if keeps_enough(target):
        return target
    low, high = population.target, target
    resolution = 1e-3 * (target - low)
    while high - low > resolution:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if keeps_enough(middle) else (low, middle)
    return high
