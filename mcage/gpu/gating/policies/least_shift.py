"""`least-shift`: the SMs that have shifted least work (Chen et al., DAC 2014, section 5.1)."""

import numpy as np
from numpy.typing import NDArray

from mcage.gpu.gating.policies.policy import RankingPolicy, Readings


class LeastShift(RankingPolicy):
    """The SMs whose threshold has shifted least work."""

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return the shifts."""
        return readings.dvth_volts
