"""`finfet` and `planar`: the NBTI models of two kinds of transistor of Zhang et al."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.environment import TEMPERATURE_KELVIN
from mcage.aging.nbti.constants import BOLTZMANN_EV_PER_KELVIN, values
from mcage.aging.nbti.model import AdditiveModel


@dataclass(frozen=True)
class FinFetPlanar(AdditiveModel):
    """NBTI threshold shift of a FinFET or a planar transistor, as Zhang et al. use it.

    ``C(T) = exp(-Ea / (k T)) / T0``,
    ``K(V, T) = G t_ox sqrt(V - Vt) exp((V - Vt) / (t_ox Eo)) C^0.25`` and
    ``dVth = K t_stress^0.25 F``, where without recovery F is 1, and else
    ``1 - (2 xi1 t_ox + sqrt(xi2 C t_rec)) / ((1 + delta) t_ox + sqrt(C (t_stress + t_rec)))``,
    at least 0.

    Parameters
    ----------
    amplitude : float
        G, all of K that depends on neither voltage nor temperature, in V^0.5 nm^-1.5.
    oxide_thickness_nm : float
        t_ox, in nm.
    field_volts_per_nm : float
        Eo, in V/nm.
    activation_energy_ev : float
        Ea, in eV.
    diffusion_seconds_per_nm2 : float
        T0, in s/nm^2.
    xi1, xi2, delta : float
        Of the recovery term.
    vt0_volts : float
        Vt, the unaged threshold voltage (its magnitude), in volts.
    alpha : float
        Exponent of the alpha-power law, for :mod:`mcage.aging.delay`.
    effective_activation_energy_ev : array, optional
        In place of Ea/4 in K, so that K stays as it is at 353.15 K; F is then that at 353.15 K.

    Notes
    -----
    Zhang et al., INTEGRATION 2015, equations 2 and 3 and Table 3. The equations as printed cannot
    be computed with; docs/aging.md lists what is wrong and how it is resolved.
    """

    amplitude: float
    oxide_thickness_nm: float
    field_volts_per_nm: float
    activation_energy_ev: float
    diffusion_seconds_per_nm2: float
    xi1: float
    xi2: float
    delta: float
    vt0_volts: float
    alpha: float
    effective_activation_energy_ev: ArrayLike | None = None

    root = 4

    def stress_per_second(
        self, vdd_volts: float, temperature_kelvin: ArrayLike, vt0_volts: ArrayLike
    ) -> NDArray[np.float64]:
        """Return K^4, in V^4/s; 0 where Vdd does not exceed Vt."""
        overdrive = np.maximum(vdd_volts - np.asarray(vt0_volts, dtype=np.float64), 0.0)
        field = overdrive / (self.oxide_thickness_nm * self.field_volts_per_nm)
        squared = np.square(self.amplitude * self.oxide_thickness_nm * np.exp(field)) * overdrive
        stress: NDArray[np.float64] = squared * squared * self._thermal(temperature_kelvin)
        return stress

    def _thermal(self, temperature_kelvin: ArrayLike) -> NDArray[np.float64]:
        """Factor of K^4 that depends on temperature, in nm^2/s."""
        diffusion = self.diffusion_per_second(temperature_kelvin)
        if self.effective_activation_energy_ev is None:
            return diffusion
        temperature = np.asarray(temperature_kelvin, dtype=np.float64)
        colder = (1 / temperature - 1 / TEMPERATURE_KELVIN) / BOLTZMANN_EV_PER_KELVIN
        energy = np.asarray(self.effective_activation_energy_ev, dtype=np.float64)
        heated: NDArray[np.float64] = diffusion * np.exp(-4 * energy * colder)
        return heated

    def diffusion_per_second(self, temperature_kelvin: ArrayLike) -> NDArray[np.float64]:
        """Return C, in nm^2/s."""
        temperature = np.asarray(temperature_kelvin, dtype=np.float64)
        if self.effective_activation_energy_ev is not None:
            temperature = np.full_like(temperature, TEMPERATURE_KELVIN)
        energy = BOLTZMANN_EV_PER_KELVIN * temperature
        diffusion: NDArray[np.float64] = (
            np.exp(-self.activation_energy_ev / energy) / self.diffusion_seconds_per_nm2
        )
        return diffusion

    def dvth(
        self, stress: ArrayLike, stressed: ArrayLike, recovered: ArrayLike
    ) -> NDArray[np.float64]:
        """Return the threshold shift of transistors from the sums of their history, in volts.

        Parameters
        ----------
        stress : array, any shape
            Sum of K^4 times stressed seconds over the history, in V^4; at least 0.
        stressed, recovered : array, same shape or broadcast to it
            Sums of C times seconds under stress and in recovery, in nm^2; at least 0.

        Returns
        -------
        array
            Shift in volts; 0 for a transistor without a history.

        Notes
        -----
        Only operations that IEEE 754 rounds correctly, and none that a compiler could fuse: the
        same sums give the same bits in every engine.
        """
        recovery = np.asarray(recovered, dtype=np.float64)
        total = np.asarray(stressed, dtype=np.float64) + recovery
        removed = 2 * self.xi1 * self.oxide_thickness_nm + np.sqrt(self.xi2 * recovery)
        spread = (1 + self.delta) * self.oxide_thickness_nm + np.sqrt(total)
        left = np.where(recovery > 0, np.maximum(1.0 - removed / spread, 0.0), 1.0)
        shift: NDArray[np.float64] = np.sqrt(np.sqrt(stress)) * left
        return shift


def finfet() -> FinFetPlanar:
    """Return the ``finfet`` model with the constants of ``data/nbti.toml``."""
    return FinFetPlanar(**values("finfet"))


def planar() -> FinFetPlanar:
    """Return the ``planar`` model with the constants of ``data/nbti.toml``."""
    return FinFetPlanar(**values("planar"))
