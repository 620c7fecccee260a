"""Temperatures of SMs from the shares of the time for which they work and are on."""

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.gpu.chip import Gpu
from mcage.gpu.gating.spec import Temperature
from mcage.gpu.thermal.network import HIGHEST_KELVIN

_CLOSE_KELVIN = 1e-9
_MOST_STEPS = 200


class SmTemperatures:
    """Temperatures and powers of SMs in steady state.

    Epochs are far longer than the time constants of a package (seconds): the mean power decides.

    Parameters
    ----------
    gpu : Gpu
        Network and powers.
    temperature : Temperature
        Whether there is a network at all, and the air.
    """

    def __init__(self, gpu: Gpu, temperature: Temperature) -> None:
        self._gpu = gpu
        self._fixed = temperature.fixed_kelvin if temperature.model == "fixed" else None
        air = gpu.network.package.ambient_kelvin
        self._air = air if temperature.ambient_kelvin is None else temperature.ambient_kelvin
        self._base = (gpu.sm_base_kelvin - air + self._air)[:, None]

    def all_on(self, shape: tuple[int, int]) -> NDArray[np.float64]:
        """Temperatures of GPUs whose SMs all work: float64[n, I], K."""
        ones = np.ones((shape[0], 1))
        return np.repeat(self.of(ones, ones)[0], shape[1], axis=1)

    def of(
        self, working: NDArray[np.float64], on: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Temperatures of SMs in K, and their powers in W, which agree with each other.

        Parameters
        ----------
        working, on : float64[n, I]
            Shares of the time for which SMs work, and for which they are on.

        Raises
        ------
        UserError
            Static power and temperature drive each other without end, or an SM becomes hotter than
            the aging models are meant for.
        """
        if self._fixed is not None:
            kelvin = np.full(working.shape, self._fixed)
            return kelvin, self._power(working, on, kelvin)
        watts = self._power(working, on, self._air)
        kelvin = self._heated(watts)
        if self._gpu.sm_power.growth_per_kelvin:
            kelvin = self._converged(working, on, kelvin)
            watts = self._power(working, on, kelvin)
        self._refuse_hot(kelvin)
        return kelvin, watts

    def _power(
        self,
        working: NDArray[np.float64],
        on: NDArray[np.float64],
        kelvin: NDArray[np.float64] | float,
    ) -> NDArray[np.float64]:
        """Mean power of SMs at a temperature, W."""
        sm = self._gpu.sm_power
        static = sm.static_w * (sm.gated_share + (1 - sm.gated_share) * on)
        if sm.growth_per_kelvin:
            static = static * np.exp(sm.growth_per_kelvin * (kelvin - self._air))
        return static + sm.dynamic_w * working

    def _heated(self, power: NDArray[np.float64]) -> NDArray[np.float64]:
        # Not ``@``: BLAS sums in an order that depends on batch and threads.
        kelvin = np.repeat(self._base, power.shape[1], axis=1)
        warmer = np.empty_like(kelvin)
        for column, row in zip(self._gpu.sm_kelvin_per_watt.T, power, strict=True):
            kelvin += np.multiply(column[:, None], row, out=warmer)
        return kelvin

    def _converged(
        self, working: NDArray[np.float64], on: NDArray[np.float64], kelvin: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Repeat power and temperature until they agree; each GPU for itself."""
        for _ in range(_MOST_STEPS):
            self._refuse_hot(kelvin)
            warmer = self._heated(self._power(working, on, kelvin))
            moved = np.abs(warmer - kelvin).max(axis=0) > _CLOSE_KELVIN
            if not moved.any():
                break
            kelvin = np.where(moved, warmer, kelvin)
        return kelvin

    def _refuse_hot(self, kelvin: NDArray[np.float64]) -> None:
        if kelvin.max() > HIGHEST_KELVIN:
            sm = int(kelvin.max(axis=1).argmax())
            raise UserError(
                f"GPU {self._gpu.name}: SM{sm} reaches {kelvin.max():.0f} K; the aging models are "
                f"meant for at most {HIGHEST_KELVIN:g} K (power_w, package)"
            )
