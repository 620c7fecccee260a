"""`fixed`: always the first SMs; gating without management."""

import numpy as np
from numpy.typing import NDArray

from mcage.gpu.gating.policies.policy import RankingPolicy, Readings


class Fixed(RankingPolicy):
    """The SMs with the lowest indices work."""

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return the indices."""
        return np.repeat(
            np.arange(readings.shape[0], dtype=np.float64)[:, None], readings.shape[1], 1
        )
