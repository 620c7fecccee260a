"""`random`: SMs work by lot."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mcage.gpu.gating.policies.policy import RankingPolicy, Readings


class RandomOrder(RankingPolicy):
    """Each launch draws the SMs that work."""

    rotates: ClassVar[bool] = True

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return random numbers."""
        return readings.random()
