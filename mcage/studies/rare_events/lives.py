"""What decides a life besides the cells of its slice: constants, and kernels of the periods."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from mcage.aging.sampling import InstanceConstants, InstanceDistributions
from mcage.spec.workload_mix import Mix, draw_kernels, kernel_chances

LEAST_RANK, GREATEST_RANK = 2.0**-54, 1.0 - 2.0**-53
"""Ranks within which the normal number at a rank is finite."""


@dataclass(frozen=True, eq=False)
class Lives:
    """What I slices differ in besides their cells.

    Attributes
    ----------
    ranks : float64[I, constants]
        Cumulative probability of each constant that varies, 0 <= rank < 1.
    kernel_of_period : int64[I, periods]
        Kernel that each slice runs in each period.
    chances : float64[I, kernels]
        Chance of each kernel in a period of a slice.
    """

    ranks: NDArray[np.float64]
    kernel_of_period: NDArray[np.int64]
    chances: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ranks)

    def of(self, which: NDArray[np.int64] | NDArray[np.bool_] | slice) -> "Lives":
        """Selected lives."""
        return Lives(self.ranks[which], self.kernel_of_period[which], self.chances[which])

    @classmethod
    def join(cls, parts: list["Lives"]) -> "Lives":
        """Join lives, in their order."""
        return cls(
            np.concatenate([part.ranks for part in parts]),
            np.concatenate([part.kernel_of_period for part in parts]),
            np.concatenate([part.chances for part in parts]),
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
    """

    distributions: InstanceDistributions
    mix: Mix
    kernels: tuple[str, ...]
    period_of_epoch: tuple[int, ...]
    periods: int

    @property
    def epochs(self) -> int:
        """Number of epochs up to the age."""
        return len(self.period_of_epoch)

    @property
    def draws(self) -> int:
        """Number of independent draws of a kernel that matter up to the age."""
        return 1 if self.mix == "one" else self.period_of_epoch[-1] + 1

    @property
    def mean_chances(self) -> NDArray[np.float64]:
        """Chance of each kernel in a period of any slice: float64[kernels]."""
        mix = self.mix if isinstance(self.mix, dict) else "uniform"
        (chances,) = kernel_chances(mix, 0, np.zeros(1, np.int64), self.kernels)
        return np.asarray(chances)

    @cached_property
    def constants(self) -> dict[str, int]:
        """Constants that vary, by name, and how many ranks each has."""
        no_instance = self.distributions.ranks(0, np.empty(0, np.int64), self.epochs)
        return {name: int(np.prod(ranks.shape[1:])) for name, ranks in no_instance.items()}

    @property
    def constants_vary(self) -> bool:
        """Whether any constant varies."""
        return bool(self.constants)

    @property
    def varies(self) -> bool:
        """Whether any constant varies, or kernels do."""
        return self.constants_vary or len(self.kernels) > 1

    def draw(self, seed: int, instances: NDArray[np.int64]) -> Lives:
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
        return Lives(
            ranks=np.hstack([np.empty((len(instances), 0)), *columns]),
            kernel_of_period=draw_kernels(self.mix, seed, instances, self.kernels, self.periods),
            chances=kernel_chances(self.mix, seed, instances, self.kernels),
        )

    def constants_of(self, lives: Lives) -> InstanceConstants:
        """Constants of lives."""
        places = np.cumsum([0, *self.constants.values()])
        ranks = {}
        for name, first, last in zip(self.constants, places, places[1:], strict=False):
            each_epoch = name == "temperature_swing_kelvin"
            ranks[name] = lives.ranks[:, first:last] if each_epoch else lives.ranks[:, first]
        return self.distributions.at(ranks, len(lives))

    def kernel_of_epoch(self, lives: Lives) -> NDArray[np.int64]:
        """Kernel that each slice runs in each epoch up to the age: int64[I, epochs]."""
        return lives.kernel_of_period[:, list(self.period_of_epoch)]
