"""Vmin that deviates from array to array, and inside an array from cell to cell.

A cell of an array with the deviation s is faulty at a voltage V with probability
Phi((mu + s - V) / within), independently of all others given s; s is normal with the deviation
``between``. A cell that is faulty at a voltage is faulty at all lower ones.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

REACH = 8.0
"""Range of a deviation of arrays that is summed over, in standard deviations."""


@dataclass(frozen=True)
class TwoLevels:
    """The constants.

    Attributes
    ----------
    mu_volts, between_volts, within_volts : float
        Mean of Vmin, and its standard deviations between arrays and between the cells of an array.
    """

    mu_volts: float
    between_volts: float
    within_volts: float

    @property
    def total_volts(self) -> float:
        """Standard deviation of a cell."""
        return math.hypot(self.between_volts, self.within_volts)

    def faulty(
        self, deviations: NDArray[np.float64], volts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Probability that a cell is faulty.

        Parameters
        ----------
        deviations : float64[n]
            Deviation of the array from mu, in standard deviations between arrays.
        volts : float64[V]
            Voltages.

        Returns
        -------
        float64[n, V]
        """
        shifted = self.mu_volts + self.between_volts * deviations[:, None]
        return np.asarray(ndtr((shifted - volts) / self.within_volts), np.float64)

    def rule(self, step: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Points and weights of the trapezoid rule over the deviation of an array: float64[n]."""
        points = np.arange(-REACH, REACH + step / 2, step)
        weights = np.exp(-0.5 * points**2)
        return points, weights / weights.sum()

    def draw(
        self,
        bits: NDArray[np.int64],
        volts: NDArray[np.float64],
        generator: np.random.Generator,
    ) -> NDArray[np.int64]:
        """Faulty bits of arrays of so many bits, int64[A], at falling voltages: int64[A, V]."""
        share = self.faulty(generator.standard_normal(len(bits)), volts)
        counts = np.zeros(share.shape, np.int64)
        so_far, before = np.zeros(len(bits), np.int64), np.zeros(len(bits))
        for place in range(len(volts)):
            rise = (share[:, place] - before) / np.maximum(1.0 - before, 1e-300)
            so_far = so_far + generator.binomial(bits - so_far, rise.clip(0.0, 1.0))
            counts[:, place], before = so_far, share[:, place]
        return counts
