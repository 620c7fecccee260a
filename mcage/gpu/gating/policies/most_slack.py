"""`most-slack`: the SMs whose aged threshold leaves most delay work."""

import numpy as np
from numpy.typing import NDArray

from mcage.gpu.gating.policies.policy import RankingPolicy, Readings


class MostSlack(RankingPolicy):
    """The SMs with the lowest threshold voltage, shift included, work: they are the fastest.

    Known for the cores of multicores (Sun et al., JETC 2014; Haghbayan et al., DATE 2016).
    """

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return the aged threshold voltages."""
        return readings.vt_volts
