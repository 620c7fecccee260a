"""Temperatures of SMs from the shares of the time for which they work and are on."""

import numpy as np
from numpy.typing import NDArray

from mcage.distributions import Distribution
from mcage.errors import UserError
from mcage.gpu.chip import Gpu
from mcage.gpu.gating.compiled import add_products
from mcage.gpu.gating.spec import Temperature
from mcage.gpu.thermal.network import HIGHEST_KELVIN
from mcage.random import stream

_CLOSE_KELVIN = 1e-9
_MOST_STEPS = 200


def surroundings(temperature: Temperature, package_kelvin: float) -> Distribution:
    """Distribution of the temperature around GPUs; parameters as of `sample_surroundings`."""
    given = temperature.ambient_kelvin
    if temperature.model == "fixed":
        given = temperature.fixed_kelvin
    return Distribution.of(package_kelvin if given is None else given)


def sample_surroundings(
    temperature: Temperature, package_kelvin: float, seed: int, instances: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Temperature of the air around each GPU, or of its SMs where they are fixed.

    Parameters
    ----------
    temperature : Temperature
        What the spec says.
    package_kelvin : float
        Temperature of the air that the package of the GPU names.
    seed : int
        Seed of the study.
    instances : int64[I]
        Ids of the GPUs.

    Returns
    -------
    float64[I]
        K; each depends on seed and instance only.
    """
    distribution = surroundings(temperature, package_kelvin)
    if distribution.is_constant:
        return np.full(len(instances), distribution.numbers[0])
    lots = [stream(seed, "gpu.surroundings", i).random() for i in instances.tolist()]
    return np.array([distribution.at(lot) for lot in lots])


class SmTemperatures:
    """Temperatures and powers of SMs in steady state.

    Epochs are far longer than the time constants of a package (seconds): the mean power decides.

    Parameters
    ----------
    gpu : Gpu
        Network and powers.
    is_fixed : bool
        Whether all SMs of a GPU have the same temperature, whatever their powers.
    surroundings_kelvin : float64[I]
        Temperature of the air around each GPU; or, where temperatures are fixed, of its SMs.
    """

    def __init__(self, gpu: Gpu, is_fixed: bool, surroundings_kelvin: NDArray[np.float64]) -> None:
        self._gpu = gpu
        self._is_fixed = is_fixed
        self._air = surroundings_kelvin
        heated = gpu.sm_base_kelvin - gpu.network.package.ambient_kelvin
        self._base = heated[:, None] + surroundings_kelvin

    def all_on(self, shape: tuple[int, int]) -> NDArray[np.float64]:
        """Temperatures of GPUs whose SMs all work: float64[n, I], K."""
        ones = np.ones(shape)
        return self.of(ones, ones)[0]

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
        if self._is_fixed:
            kelvin = np.broadcast_to(self._air, working.shape)
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
        kelvin: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Mean power of SMs at a temperature, W."""
        sm = self._gpu.sm_power
        static = sm.static_w * (sm.gated_share + (1 - sm.gated_share) * on)
        if sm.growth_per_kelvin:
            static = static * np.exp(sm.growth_per_kelvin * (kelvin - self._air))
        return static + sm.dynamic_w * working

    def _heated(self, power: NDArray[np.float64]) -> NDArray[np.float64]:
        # Not ``@``: BLAS sums in an order that depends on batch and threads.
        kelvin = self._base.copy()
        add_products(self._gpu.sm_kelvin_per_watt, power, kelvin)
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
