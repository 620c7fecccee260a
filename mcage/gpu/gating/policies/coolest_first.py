"""`coolest-first`: the SMs that were coolest work."""

import numpy as np
from numpy.typing import NDArray

from mcage.gpu.gating.policies.policy import RankingPolicy, Readings


class CoolestFirst(RankingPolicy):
    """The SMs that have been coolest since the last reading work."""

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return the temperatures."""
        return readings.temperature_kelvin
