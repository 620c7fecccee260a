"""`round-robin`: a pointer moves on by as many SMs as a launch uses."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mcage.gpu.gating.policies.policy import RankingPolicy, Readings


class RoundRobin(RankingPolicy):
    """SMs take turns; a counter suffices, and no sensor is needed."""

    rotates: ClassVar[bool] = True

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return how far each SM is beyond the pointer."""
        sms, _ = readings.shape
        beyond = (np.arange(sms)[:, None] - readings.turn) % sms
        return beyond.astype(np.float64)
