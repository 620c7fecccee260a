"""What sensors read beside the truth, and the lots that policies draw."""

import numpy as np
from numpy.typing import NDArray

from mcage.gpu.gating.spec import Sensors
from mcage.random import stream

_AHEAD = 32
"""Readings that are drawn at a time."""


class Noise:
    """Noise of the sensors of some GPUs; the same under every policy.

    Parameters
    ----------
    sensors : Sensors
        Standard deviations.
    seed : int
        Seed of the study.
    instances : int64[I]
        Ids of the GPUs.
    sms : int
        Sensors of a GPU, n.
    """

    def __init__(self, sensors: Sensors, seed: int, instances: NDArray[np.int64], sms: int) -> None:
        self._volts = _Normal(1e-3 * sensors.noise_mv, seed, "gpu.sensors", instances, sms)
        self._kelvin = _Normal(sensors.noise_kelvin, seed, "gpu.thermometers", instances, sms)
        self._lots = [stream(seed, "gpu.lots", i) for i in instances.tolist()]
        self._sms = sms

    def next(self) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """Return the noise of the next reading in V and K: float64[n, I], or None without any."""
        return self._volts.next(), self._kelvin.next()

    def uniform(self) -> NDArray[np.float64]:
        """Return numbers in 0 ... 1: float64[n, I]."""
        return np.stack([lots.random(self._sms) for lots in self._lots], axis=1)


class _Normal:
    """Normal numbers, reading by reading."""

    def __init__(
        self, sigma: float, seed: int, name: str, instances: NDArray[np.int64], sms: int
    ) -> None:
        self._sigma = sigma
        self._streams = [stream(seed, name, i) for i in instances.tolist()] if sigma else []
        self._ahead = np.empty((_AHEAD, sms, len(instances)))
        self._used = _AHEAD

    def next(self) -> NDArray[np.float64] | None:
        if not self._sigma:
            return None
        if self._used == _AHEAD:
            for column, generator in enumerate(self._streams):
                drawn = generator.standard_normal(self._ahead.shape[:2])
                self._ahead[:, :, column] = self._sigma * drawn
            self._used = 0
        noise: NDArray[np.float64] = self._ahead[self._used]
        self._used += 1
        return noise
