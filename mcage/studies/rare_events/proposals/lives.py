"""Lives drawn such that transistors become slower than usual, and the density of such lives.

A constant of a life is a quantile at a rank, and each rank is that of a standard normal number,
whatever the distribution of the constant is: uniform, truncated normal or discrete. In the space of
these numbers, lives that end early lie far from the origin in a direction (Hasofer and Lind, J.
Eng. Mech. Div. ASCE 1974; Rosenblatt, Ann. Math. Stat. 1952). There they are drawn with another
mean and deviation along that direction, and kernels of periods with other odds. Both densities have
closed forms.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from mcage.random import stream
from mcage.studies.rare_events.lives import LifeDistribution, Lives, ranks_of

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
    log_odds : float64[draws, kernels]
        Logarithm of the factor on the odds of each kernel in each independent draw of a kernel,
        which is a period, or the life of a slice.
    """

    direction: NDArray[np.float64]
    height: float
    deviation: float
    log_odds: NDArray[np.float64]

    @classmethod
    def favouring(cls, distribution: LifeDistribution, kernel: int, chance: float) -> "LifeTilt":
        """Lives that run a kernel with at least a given chance by the age, 0 < chance < 1."""
        log_odds = np.zeros((distribution.draws, len(distribution.kernels)))
        often = 1.0 - (1.0 - chance) ** (1.0 / distribution.draws)
        plain = distribution.mean_chances[kernel]
        if plain < often:
            log_odds[:, kernel] = np.log(often / (1.0 - often)) - np.log(plain / (1.0 - plain))
        return cls(np.zeros(sum(distribution.constants.values())), 0.0, 1.0, log_odds)

    @classmethod
    def like(
        cls, distribution: LifeDistribution, lives: Lives, weights: NDArray[np.float64]
    ) -> "LifeTilt":
        """Fit the tilt under which given lives are most likely (cross-entropy).

        Parameters
        ----------
        distribution : LifeDistribution
            How lives vary in a sweep.
        lives : Lives
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
        drawn = lives.kernel_of_period[:, : distribution.draws]
        seen = np.array(
            [np.bincount(kernels, shares, len(distribution.kernels)) for kernels in drawn.T]
        )
        fitted = (1 - PLAIN_KERNELS) * seen + PLAIN_KERNELS * chances
        return cls(direction, height, deviation, np.log(fitted / chances))

    def draw(
        self,
        distribution: LifeDistribution,
        plain: Lives,
        seed: int,
        role: str,
        instances: NDArray[np.int64],
    ) -> Lives:
        """Turn lives drawn as in a sweep into lives of this distribution.

        Parameters
        ----------
        distribution : LifeDistribution
            How lives vary in a sweep.
        plain : Lives
            Lives as in a sweep.
        seed, role, instances : int, str, int64[I]
            Seed, purpose and ids of the lives, which their random numbers depend on.
        """
        along = (plain.normals * self.direction).sum(axis=1)
        shift = self.height + (self.deviation - 1.0) * along
        ranks = ranks_of(plain.normals + shift[:, None] * self.direction)
        kernels = plain.kernel_of_period.copy()
        if self.log_odds.any():
            chances = np.exp(self._log_chances(plain.chances))
            ladder = np.cumsum(chances, axis=2)
            uniform = np.array(
                [stream(seed, f"{role}.workload", i).random(len(ladder)) for i in instances]
            ).reshape(len(plain), len(ladder))
            # Rounding may leave the last sum below a draw.
            drawn = (uniform.T[:, :, None] >= ladder[:, :, :-1]).sum(axis=2).T
            kernels[:, : drawn.shape[1]] = drawn
            if distribution.mix == "one":
                kernels[:] = drawn[:, :1]
        return Lives(ranks, kernels, plain.chances)

    def log_ratio(self, lives: Lives) -> NDArray[np.float64]:
        """Logarithm of the density of lives over that in a sweep: float64[I]."""
        along = (lives.normals * self.direction).sum(axis=1)
        standard = (along - self.height) / self.deviation
        ratio: NDArray[np.float64] = 0.5 * (along**2 - standard**2) - np.log(self.deviation)
        if self.log_odds.any():
            each = np.arange(len(lives))
            with np.errstate(divide="ignore"):
                plain = np.log(lives.chances)
            for number, chances in enumerate(self._log_chances(lives.chances)):
                kernel = lives.kernel_of_period[:, number]
                ratio = ratio + chances[each, kernel] - plain[each, kernel]
        return ratio

    def _log_chances(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithm of the chance of each kernel in each draw: float64[draws, I, kernels]."""
        with np.errstate(divide="ignore"):
            odds = np.log(chances) + self.log_odds[:, None, :]
        log_chances: NDArray[np.float64] = odds - logsumexp(odds, axis=2, keepdims=True)
        return log_chances
