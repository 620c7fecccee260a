"""The L2 data array: 16 ways at once, or, after the tags, only the way that has the data.

Zhang et al., INTEGRATION 2015, section 4.2: the tags are planar, and are read first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.nbti import NbtiModel
from mcage.gpu.heterogeneity.aging import Conditions

L2_BASE_DUTY = 0.7774
"""Duty of the baseline's data array (reconstructed): meets the printed mean of 14.1 %."""


@dataclass(frozen=True, eq=False)
class SequentialL2:
    """How the data array ages when it is read after the tags; all but `ways` may be arrays.

    Parameters
    ----------
    ways : int
        Ways of a set (printed: 16).
    base_duty : array
        Share of the time under stress when all ways are read.
    count_fills : array of bool
        Whether a miss reads and writes a way, too, when its line is filled; the paper leaves that
        out.
    """

    ways: int = 16
    base_duty: ArrayLike = L2_BASE_DUTY
    count_fills: ArrayLike = False

    def duty(self, miss_rate: ArrayLike) -> NDArray[np.float64]:
        """Share of the time under stress, of a miss rate 0 ... 1."""
        misses = np.asarray(miss_rate, np.float64)
        used = np.where(self.count_fills, 1.0, 1 - misses)
        duty: NDArray[np.float64] = np.asarray(self.base_duty, np.float64) * used / self.ways
        return duty

    def delay(
        self, model: NbtiModel, conditions: Conditions, miss_rate: ArrayLike
    ) -> NDArray[np.float64]:
        """Relative delay increase of the data array."""
        return conditions.delay(model, self.duty(miss_rate))

    def parallel_delay(self, model: NbtiModel, conditions: Conditions) -> NDArray[np.float64]:
        """Relative delay increase of the baseline, which reads all ways."""
        return conditions.delay(model, self.base_duty)
