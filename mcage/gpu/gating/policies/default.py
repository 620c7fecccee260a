"""`default`: all SMs work, as on a GPU that is not managed; the rival of Chen et al., DAC 2014."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mcage.gpu.gating.policies.policy import RankingPolicy, Readings


class Default(RankingPolicy):
    """All SMs work on every kernel."""

    gates: ClassVar[bool] = False

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return zeros: no SM comes before another."""
        return np.zeros(readings.shape)
