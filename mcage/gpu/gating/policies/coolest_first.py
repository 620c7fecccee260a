"""`coolest-first`: the SMs that were coolest work."""

import numpy as np
from numpy.typing import NDArray

from mcage.gpu.gating.policies.policy import RankingPolicy, Readings

DECIMALS = 6
"""SMs are equally warm to a millionth of a kelvin. Floorplans are symmetric, so that temperatures
are often equal but for rounding, which differs from processor to processor."""


class CoolestFirst(RankingPolicy):
    """The SMs that have been coolest since the last reading work."""

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return the temperatures, without what rounding has left in them."""
        return np.round(readings.temperature_kelvin, DECIMALS)
