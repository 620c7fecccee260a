"""The L2 data array: 16 ways at once, or, after the tags, only the way that has the data.

Zhang et al., INTEGRATION 2015, section 4.2: the tags are planar, and are read first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.nbti import NbtiModel
from mcage.gpu.heterogeneity.aging import Conditions


@dataclass(frozen=True)
class SequentialL2:
    """How the data array ages when it is read after the tags.

    Parameters
    ----------
    ways : int
        Ways of a set (printed: 16).
    base_duty : float
        Share of the time under stress when all ways are read (reconstructed: meets the printed mean
        of the baseline, 14.1 %).
    count_fills : bool
        Whether a miss reads and writes a way, too, when its line is filled; the paper leaves that
        out.
    """

    ways: int = 16
    base_duty: float = 0.7774
    count_fills: bool = False

    def duty(self, miss_rate: ArrayLike) -> NDArray[np.float64]:
        """Share of the time under stress, of a miss rate 0 ... 1."""
        misses = np.asarray(miss_rate, np.float64)
        used = np.ones_like(misses) if self.count_fills else 1 - misses
        duty: NDArray[np.float64] = self.base_duty * used / self.ways
        return duty

    def delay(
        self, model: NbtiModel, conditions: Conditions, miss_rate: ArrayLike
    ) -> NDArray[np.float64]:
        """Relative delay increase of the data array."""
        return conditions.delay(model, self.duty(miss_rate))

    def parallel_delay(self, model: NbtiModel, conditions: Conditions) -> NDArray[np.float64]:
        """Relative delay increase of the baseline, which reads all ways."""
        return conditions.delay(model, self.base_duty)
